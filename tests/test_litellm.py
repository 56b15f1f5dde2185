"""The LiteLLM proxy between a scripted upstream and the middleware: what is repaired, and what can only be named.

Opt-in, because it is heavy: set LITELLM_BIN to the `litellm` of an environment with `litellm[proxy]`. Observed with
1.110.2; `shared/corpus/README.md`, section E, has the same faults with 1.108.7.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request

import pytest

LITELLM = os.environ.get("LITELLM_BIN")
pytestmark = pytest.mark.skipif(not LITELLM, reason="set LITELLM_BIN to the command of an installed litellm[proxy]")

httpx = pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

from guarding import events_of
from relaying import FRAMES, TERMINALS, names
from respevents._cli_record import Recorder
from respevents._demo import serving
from respevents.asgi import ResponsesGuardMiddleware
from test_servers import post
from upstream import Upstream, chunked, plain

CHUNK = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1767225600, "model": "fake"}


def chat(*deltas, finish=None):
    choices = [[{"index": 0, "delta": delta, "finish_reason": None}] for delta in deltas]
    if finish:
        choices.append([{"index": 0, "delta": {}, "finish_reason": finish}])
    frames = [b"data: " + json.dumps({**CHUNK, "choices": one}).encode() + b"\n\n" for one in choices]
    return [*frames, b"data: [DONE]\n\n"] if finish else frames


class Switch(Upstream):
    """An upstream whose answer is set before each request."""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("litellm")
    with Switch(b"") as upstream:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        models = {"bridge": "together_ai/fake", "native": "openai/fake"}
        config = {
            "model_list": [
                {
                    "model_name": name,
                    "litellm_params": {"model": model, "api_base": upstream.url, "api_key": "none", "max_retries": 0},
                }
                for name, model in models.items()
            ],
            "litellm_settings": {"num_retries": 0, "request_timeout": 20, "telemetry": False},
            "router_settings": {"disable_cooldowns": True},
        }
        (folder / "config.yaml").write_text(json.dumps(config))  # YAML, too
        env = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        env |= {
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_TELEMETRY": "False",
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        }
        command = [LITELLM, "--config", str(folder / "config.yaml"), "--host", "127.0.0.1", "--port", str(port)]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, env=env, cwd=folder, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            for _ in range(240):
                try:
                    urllib.request.urlopen(f"{url}/health/liveliness", timeout=2).close()
                    break
                except OSError:
                    assert process.poll() is None, (folder / "log").read_text()[-3000:]
                    time.sleep(0.5)
            else:
                pytest.fail("the LiteLLM proxy did not come up")
            notices, failures = [], []
            app = ResponsesGuardMiddleware(
                Recorder(httpx.URL(url), folder), engine="litellm", repairs=["all"],
                on_notice=notices.append, on_failure=failures.append,
            )  # fmt: skip
            with serving(app) as guarded:
                yield upstream, port, guarded, notices
        finally:
            process.terminate()
            process.wait(20)


OVER = json.dumps(
    {
        "error": {
            "message": "This model's maximum context length is 512 tokens. However, your messages resulted in 600 tokens.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    }
).encode()


def ended(body):
    return [name for name in names(body.replace(b"data: [DONE]\n\n", b"")) if name in TERMINALS]


@pytest.mark.parametrize("model", ["bridge", "native"])
def test_an_over_long_prompt_is_a_full_context_window(proxy, model):
    upstream, bare, guarded, _ = proxy
    upstream.answer = plain(400, OVER)
    status, _, body = post(bare, "hi", model=model)
    assert status == 400
    assert json.loads(body)["error"]["code"] != "context_length_exceeded"
    status, _, body = post(guarded, "hi", model=model)
    assert status == 200
    last = events_of(body.replace(b"data: [DONE]\n\n", b""))[-1][1]["response"]
    assert last["error"]["code"] == "context_length_exceeded"


def test_a_good_answer_gets_what_it_lacks_and_one_terminal(proxy):
    upstream, bare, guarded, _ = proxy
    upstream.answer = chunked(*chat({"role": "assistant", "content": "Hel"}, {"content": "lo"}, finish="stop"))
    assert ended(post(bare, "hi", model="bridge")[2]) == ["response.completed"]
    body = post(guarded, "hi", model="bridge")[2]
    assert ended(body) == ["response.completed"]


def test_an_error_in_mid_stream_ends_as_failed(proxy):
    upstream, bare, guarded, _ = proxy
    error = b'data: {"error":{"message":"engine died","code":500}}\n\n'
    upstream.answer = chunked(*chat({"role": "assistant", "content": "Hel"}), error)
    assert "error" not in names(post(bare, "hi", model="bridge")[2].replace(b"data: [DONE]\n\n", b""))
    assert ended(post(guarded, "hi", model="bridge")[2]) == ["response.failed"]


@pytest.mark.parametrize("end", [True, False], ids=["clean end", "cut"])
@pytest.mark.parametrize("model", ["bridge", "native"])
def test_an_upstream_that_stops_early_gets_the_code_that_says_so(proxy, model, end):
    """1.108.7 called it completed, which cannot be told from an answer that is; 1.110.2 fails it as a server error."""
    upstream, bare, guarded, notices = proxy
    notices.clear()
    parts = chat({"role": "assistant", "content": "Hel"}) if model == "bridge" else FRAMES[:5]
    upstream.answer = chunked(*parts, end=end)
    before, after = (post(port, "hi", model=model)[2] for port in (bare, guarded))
    assert ended(before) == ended(after) == ["response.failed"]
    assert code(before) == "server_error"
    assert code(after) == ("upstream_truncated" if end else "stream_failed")
    assert "failure_code" in {notice.kind for notice in notices}


def code(body):
    return events_of(body.replace(b"data: [DONE]\n\n", b""))[-1][1]["response"]["error"]["code"]
