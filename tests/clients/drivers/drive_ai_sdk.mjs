// AI SDK: streamText with @ai-sdk/openai's Responses model.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { serve, told } from "./_driver.mjs";

const [folder] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/package.json`));
const { streamText } = await import(pathToFileURL(require.resolve("ai")));
const { createOpenAI } = await import(pathToFileURL(require.resolve("@ai-sdk/openai")));
const version = JSON.parse(readFileSync(`${folder}/node_modules/@ai-sdk/openai/package.json`)).version;

await serve(version, async (baseURL, result) => {
  const model = createOpenAI({ baseURL, apiKey: "none" }).responses("m");
  const stream = streamText({ model, prompt: "say hi", onError: () => {} });
  for await (const part of stream.fullStream) {
    if (part.type === "text-delta") result.text += part.text ?? "";
    else if (part.type === "tool-call" && !part.providerExecuted) result.calls.push(part.toolName);
    else if (part.type === "error") result.error = told(part.error);
    else if (part.type === "finish") result.final = part.finishReason;
  }
});
