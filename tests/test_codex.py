"""The real Codex CLI against the demo server: it acts on the endings as `shared/FAILURES.md` records.

Runs where a `codex` is found: $CODEX_BIN, the PATH, or `npm install @openai/codex` in the checkout.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from conftest import ROOT

pytest.importorskip("uvicorn")

CODEX = os.environ.get("CODEX_BIN") or shutil.which("codex") or shutil.which("codex", path=ROOT / "node_modules/.bin")

pytestmark = pytest.mark.skipif(not CODEX, reason="no Codex CLI: set CODEX_BIN or run npm install @openai/codex")

CONFIG = """
model = "{model}"
model_provider = "demo"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.demo]
name = "demo"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
env_key = "DUMMY_KEY"
"""


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
def codex(server, tmp_path):
    """Runs `codex exec` once; gives its events and how many requests it made."""
    port, requests = server

    def run(model, prompt="say hi"):
        home, work = tmp_path / "home", tmp_path / "work"
        home.mkdir()
        work.mkdir()
        (home / "config.toml").write_text(CONFIG.format(model=model, port=port))
        env = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        env |= {"CODEX_HOME": str(home), "DUMMY_KEY": "none", "NO_COLOR": "1"}
        before = len(requests)
        done = subprocess.run(
            [CODEX, "exec", "--skip-git-repo-check", "--json", "-"],
            input=prompt, env=env, cwd=work, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        events = [json.loads(line) for line in done.stdout.split("\n") if line.startswith("{")]
        assert events, done.stderr
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
