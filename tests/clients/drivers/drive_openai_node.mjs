// openai-node: `create` (responses.create({stream: true})) or `stream` (the helper).
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { serve } from "./_driver.mjs";

const calls = ["function_call", "custom_tool_call", "apply_patch_call"];
const [how, folder] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${folder}/package.json`));
const main = require.resolve("openai");
const { default: OpenAI } = await import(pathToFileURL(main));
const version = JSON.parse(readFileSync(`${folder}/node_modules/openai/package.json`)).version;

await serve(version, async (baseURL, result) => {
  const client = new OpenAI({ baseURL, apiKey: "none" });
  const body = { model: "m", input: "say hi", stream: true };
  const events = how === "create" ? await client.responses.create(body) : client.responses.stream(body);
  for await (const event of events) {
    if (["response.output_text.delta", "response.refusal.delta"].includes(event.type)) result.text += event.delta ?? "";
    else if (event.type === "response.output_item.done" && calls.includes(event.item?.type)) result.calls.push(event.item.name ?? event.item.type);
    else if (["response.completed", "response.incomplete", "response.failed"].includes(event.type)) {
      result.terminal = event.type;
      result.code = event.response?.error?.code ?? null;
    } else if (event.type === "error") result.error_event = event.code ?? "?";
  }
  if (how !== "create") await events.finalResponse();
});
