// What the JavaScript drivers share: cases come as JSON lines on standard input, results go out as JSON lines.
import { createInterface } from "node:readline";

const LIMIT = 40_000;

export function told(error) {
  // The AI SDK keeps the whole event in `data`.
  const code = (one) => one?.code ?? one?.data?.error?.code ?? one?.data?.code ?? one?.data?.response?.error?.code ?? null;
  return {
    class: typeof error === "object" ? (error?.constructor?.name ?? "?") : "?",
    code: code(error) ?? code(error?.lastError), // the AI SDK wraps the last of several errors
    message: String(error?.message ?? error).slice(0, 300),
  };
}

export async function serve(version, run, atOnce = 6) {
  console.log(JSON.stringify({ version }));
  const waiting = [];
  for await (const line of createInterface({ input: process.stdin })) waiting.push(JSON.parse(line));
  const worker = async () => {
    for (let given = waiting.shift(); given; given = waiting.shift()) {
      const result = { text: "", terminal: null, calls: [], error: null };
      let timer;
      const late = new Promise((resolve) => { timer = setTimeout(() => resolve("late"), LIMIT); });
      try {
        if ((await Promise.race([run(given.base_url, result), late])) === "late")
          result.error = { class: "waits", code: null, message: `nothing happened for ${LIMIT / 1000} s` };
      } catch (error) {
        result.error = told(error);
      }
      clearTimeout(timer);
      console.log(JSON.stringify({ name: given.name, ...result }));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  process.exit(0);
}
