"""The gateway examples, run in front of a real upstream on loopback that is killed in the middle of a frame."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import threading

import pytest

from conftest import ROOT
from relaying import BODY, FOUR, FRAMES, judged, names
from respevents._demo import serving
from test_servers import post
from upstream import Upstream, chunked, plain

CUT = chunked(*FRAMES[:5], FRAMES[5][:60], end=False)
OVER = json.dumps(
    {
        "error": {
            "message": "This model's maximum context length is 512 tokens. However, your messages resulted in 600 tokens.",
            "code": 400,
        }
    }
)


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["httpx", "aiohttp"])
def gateway(request, monkeypatch):
    """Gives a function that asks the gateway in front of an upstream, and returns what its client reads."""
    pytest.importorskip(request.param)

    def ask(upstream):
        monkeypatch.setenv("UPSTREAM", upstream.url)
        module = load(f"gateway_{request.param}")
        if request.param == "httpx":
            with serving(module.app) as port:
                return post(port, "hi", model="asked-for")[2]
        with aiohttp_serving(module.app()) as port:
            return post(port, "hi", model="asked-for")[2]

    return ask


class aiohttp_serving:
    def __init__(self, app):
        self.app = app
        self.loop = asyncio.new_event_loop()
        self.started = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        self.loop.run_until_complete(self._start())
        self.started.set()
        self.loop.run_forever()
        self.loop.run_until_complete(self.runner.cleanup())
        self.loop.close()

    async def _start(self):
        from aiohttp import web

        self.runner = web.AppRunner(self.app, access_log=None)
        await self.runner.setup()
        self.site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await self.site.start()
        self.port = self.site._server.sockets[0].getsockname()[1]

    def __enter__(self):
        self.thread.start()
        assert self.started.wait(10)
        return self.port

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_an_upstream_that_is_killed_in_a_frame_becomes_a_stream_that_ends(gateway, reset):
    with Upstream(CUT, reset=reset) as upstream:
        body = gateway(upstream)
    assert body.startswith(b"".join(FRAMES[:5]))
    events = judged(body, torn=True)
    assert names(body)[-2:] == ["response.failed", "error"]  # the order of the gateway policy
    failed = events[-2]["response"]
    assert failed["id"] == "resp_announced"
    assert failed["error"]["code"] == "stream_failed"


def test_an_upstream_that_ends_early_is_truncated_and_a_whole_one_is_untouched(gateway):
    with Upstream(chunked(*FRAMES[:5])) as upstream:
        assert judged(gateway(upstream))[-2]["response"]["error"]["code"] == "upstream_truncated"
    with Upstream(chunked(*FRAMES)) as upstream:
        assert gateway(upstream) == BODY
        assert json.loads(upstream.requests[0].partition(b"\r\n\r\n")[2])["model"] == "asked-for"


def test_an_upstream_that_refuses_becomes_a_failed_stream(gateway):
    with Upstream(plain(400, OVER.encode())) as upstream:
        body = gateway(upstream)
    assert sorted(names(body)) == sorted(FOUR)
    failed = next(event for event in judged(body) if event["type"] == "response.failed")["response"]
    assert failed["error"]["code"] == "context_length_exceeded"
    assert failed["model"] == "asked-for"
