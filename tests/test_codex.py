"""The real Codex CLI against the demo server: it acts on the endings as `shared/FAILURES.md` records.

Runs where a `codex` is found: $CODEX_BIN, the PATH, or `npm install @openai/codex` in the checkout.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil

import pytest

from clients.codexing import exec_codex
from conftest import ROOT

pytest.importorskip("uvicorn")

CODEX = os.environ.get("CODEX_BIN") or shutil.which("codex") or shutil.which("codex", path=ROOT / "node_modules/.bin")

pytestmark = pytest.mark.skipif(not CODEX, reason="no Codex CLI: set CODEX_BIN or run npm install @openai/codex")


@pytest.fixture(scope="module")
def server():
    """The demo server and the list of the Responses requests it got."""
    from respevents._demo import app, serving

    inner, requests = app(pause=0), []

    async def counting(scope, receive, send):
        if scope["method"] == "POST" and scope["path"].endswith("/responses"):
            requests.append(scope["path"])
        await inner(scope, receive, send)

    with serving(counting) as port:
        yield port, requests


@pytest.fixture
def run_codex(tmp_path):
    """Runs `codex exec` once against a port; gives its events."""
    runs = itertools.count()

    def run(port, model, prompt):
        folder = tmp_path / f"run{next(runs)}"
        done = exec_codex(CODEX, folder, f"http://127.0.0.1:{port}/v1", model=model, prompt=prompt, timeout=120)
        events = [json.loads(line) for line in done.stdout.split("\n") if line.startswith("{")]
        assert events, done.stderr
        return events

    return run


@pytest.fixture
def codex(server, run_codex):
    """Runs `codex exec` once against the demo; gives its events and how many requests it made."""
    port, requests = server

    def run(model, prompt="say hi"):
        before = len(requests)
        events = run_codex(port, model, prompt)
        return events, len(requests) - before

    return run


def of_type(events, kind):
    return [event for event in events if event["type"] == kind]


def test_codex_takes_a_normal_stream_in_one_request(codex):
    events, requests = codex("demo")
    texts = [
        event["item"]["text"] for event in of_type(events, "item.completed") if event["item"]["type"] == "agent_message"
    ]
    assert texts == ["Hello! This is a scripted engine."]
    assert of_type(events, "turn.failed") == []
    (turn,) = of_type(events, "turn.completed")
    assert turn["usage"]["output_tokens"] == 23
    assert requests == 1


@pytest.mark.parametrize(("model", "prompt"), [("demo-over-length", "say hi"), ("demo", "word " * 5000)])
def test_codex_takes_an_over_long_prompt_as_a_full_context_window_after_one_request(codex, model, prompt):
    events, requests = codex(model, prompt)
    (turn,) = of_type(events, "turn.failed")
    assert "ran out of room in the model's context window" in turn["error"]["message"]
    assert requests == 1


def test_codex_retries_a_server_error(codex):
    """Client rule: five retries, then it gives up and shows the message."""
    events, requests = codex("demo-server-error")
    assert requests == 6
    (turn,) = of_type(events, "turn.failed")
    assert "worker process" not in turn["error"]["message"]


@pytest.fixture(scope="module")
def vllm():
    """A server after vLLM 0.33 on two ports: as it is, and behind the middleware."""
    pytest.importorskip("fastapi")
    pytest.importorskip("openai")
    from engine_apps import vllm_app
    from respevents._demo import serving
    from respevents.asgi import ResponsesGuardMiddleware

    app = vllm_app()
    with serving(app) as bare, serving(ResponsesGuardMiddleware(app, engine="vllm", on_failure=lambda _: None)) as port:
        yield app, bare, port


def test_codex_takes_vllms_400_behind_the_middleware_as_a_full_context_window_after_one_request(vllm, run_codex):
    """The 400 has an integer code, so without the middleware Codex shows it as an invalid request and does not compact."""
    app, bare, port = vllm
    told = {}
    for name, at in (("bare", bare), ("guarded", port)):
        before = app.state.requests
        events = run_codex(at, "tiny", "word " * 2000)
        (turn,) = of_type(events, "turn.failed")
        told[name] = turn["error"]["message"], app.state.requests - before
    assert "ran out of room in the model's context window" in told["guarded"][0]
    assert told["guarded"][1] == 1
    assert "ran out of room" not in told["bare"][0]


def test_codex_gets_an_answer_through_the_middleware(vllm, run_codex):
    app, _, port = vllm
    app.state.window = 10**6  # Codex brings instructions of its own
    try:
        events = run_codex(port, "tiny", "say hi")
    finally:
        del app.state.window
    assert of_type(events, "turn.failed") == []
    assert len(of_type(events, "turn.completed")) == 1
