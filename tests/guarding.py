"""What the tests of the guard share: a stream, sources that fail, and runs of the guard, sync and async."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from respevents.guard import guard_stream, guard_stream_sync
from respevents.wire import FrameDecoder, encode_frame

RESPONSE = {
    "id": "resp_announced",
    "object": "response",
    "created_at": 1767225600,
    "status": "in_progress",
    "error": None,
    "model": "announced-model",
    "output": [],
    "usage": None,
    "metadata": {},
}
ITEM = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": "Hi \u2028 response.completed"}],
    "role": "assistant",
}


def event(kind, number, **fields):
    return {"type": kind, "sequence_number": number, **fields}


def delta(number, text):
    return event(
        "response.output_text.delta", number, item_id="msg_1", output_index=0, content_index=0, delta=text, logprobs=[]
    )


EVENTS = [
    event("response.created", 0, response=RESPONSE),
    event("response.in_progress", 1, response=RESPONSE),
    event("response.output_item.added", 2, output_index=0, item={**ITEM, "status": "in_progress", "content": []}),
    delta(3, 'quoted "response.completed"'),
    delta(4, '\n\nevent: response.completed\ndata: {"type":"response.completed"}\n\n'),
    event("response.output_item.done", 5, output_index=0, item=ITEM),
    event("response.completed", 6, response={**RESPONSE, "status": "completed", "output": [ITEM]}),
]
FRAMES = [encode_frame(one) for one in EVENTS]
BODY = b"".join(FRAMES)
OPEN = FRAMES[:-1]  # everything but the terminal event


class Source:
    """A source that yields, then raises; it counts how often it was closed."""

    def __init__(self, items=(), error=None, close_error=None):
        self.items, self.error, self.close_error = list(items), error, close_error
        self.closed = 0

    def _next(self):
        if self.items:
            return self.items.pop(0)
        if self.error is not None:
            raise self.error
        return None

    def _close(self):
        self.closed += 1
        if self.close_error is not None:
            raise self.close_error


class PlainSource(Source):
    def __iter__(self):
        return self

    def __next__(self):
        item = self._next()
        if item is None:
            raise StopIteration
        return item

    def close(self):
        self._close()


class AsyncSource(Source):
    def __aiter__(self):
        return self

    async def __anext__(self):
        await asyncio.sleep(0)
        item = self._next()
        if item is None:
            raise StopAsyncIteration
        return item

    async def aclose(self):
        await asyncio.sleep(0)
        self._close()


class Run:
    """What came out of one guarded stream."""

    def __init__(self):
        self.chunks, self.raised, self.failures, self.source = [], None, [], None

    @property
    def body(self):
        return b"".join(self.chunks)

    @property
    def events(self):
        return events_of(self.body)


def events_of(body):
    """(event line, JSON) of every frame, as a reader sees them; a frame cut mid-JSON is left out, as Codex does."""
    decoder = FrameDecoder()
    out = []
    for frame in decoder.feed(body) + decoder.close():
        assert frame.complete
        with contextlib.suppress(ValueError):
            if frame.data:
                out.append((frame.event, json.loads(frame.data)))
    return out


def run_sync(items=(), error=None, *, source=None, **options):
    run = Run()
    run.source = PlainSource(items, error) if source is None else source
    options.setdefault("on_failure", run.failures.append)
    try:
        run.chunks.extend(
            guard_stream_sync(run.source, **{"model": "given-model", "id": "resp_given", "created_at": 7, **options})
        )
    except BaseException as raised:
        run.raised = raised
    return run


def run_async(items=(), error=None, *, source=None, **options):
    run = Run()
    run.source = AsyncSource(items, error) if source is None else source
    options.setdefault("on_failure", run.failures.append)

    async def main():
        stream = guard_stream(run.source, **{"model": "given-model", "id": "resp_given", "created_at": 7, **options})
        try:
            async for chunk in stream:
                run.chunks.append(chunk)
        except BaseException as raised:
            run.raised = raised

    asyncio.run(main())
    return run


def run_by_hand(items=(), error=None, **options):
    """The async guard without any event loop: whatever it awaits is resumed at once."""
    run = Run()
    run.source = AsyncSource(items, error)
    stream = guard_stream(run.source, **{"model": "given-model", "on_failure": run.failures.append, **options})
    try:
        while True:
            step = stream.__anext__()
            try:
                while True:
                    step.send(None)
            except StopIteration as done:
                run.chunks.append(done.value)
    except StopAsyncIteration:
        pass
    except BaseException as raised:
        run.raised = raised
    return run


both = pytest.mark.parametrize("run", [run_sync, run_async], ids=["sync", "async"])


def tail_of(run, *, model="announced-model", output=(), number):
    """Check the ending of a run and give its error and failed events."""
    (_, error), (_, failed) = run.events[-2:]
    assert [name for name, _ in run.events[-2:]] == ["error", "response.failed"]
    assert [error["sequence_number"], failed["sequence_number"]] == [number, number + 1]
    response = failed["response"]
    assert response["status"] == "failed"
    assert response["usage"] is None
    assert response["model"] == model
    assert response["output"] == list(output)
    assert response["error"]["code"] == error["code"] == error["error"]["code"]
    assert response["error"]["message"] == error["message"] == error["error"]["message"]
    return error, failed
