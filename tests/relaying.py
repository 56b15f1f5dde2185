"""What the tests of the relay and the middleware share: judging what a client got, and running an ASGI app by hand."""

from __future__ import annotations

import asyncio
import json

from guarding import ITEM, delta, event, events_of
from guarding import RESPONSE as SHORT
from respevents.lifecycle import Lifecycle
from respevents.relay import Relay
from respevents.validate import validate_stream
from respevents.wire import encode_frame

TERMINALS = {"response.completed", "response.incomplete", "response.failed"}
FOUR = ["response.created", "response.in_progress", "error", "response.failed"]

RESPONSE = {**SHORT, "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "incomplete_details": None}
TEXT = ITEM["content"][0]["text"]
AT = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
EVENTS = [
    event("response.created", 0, response=RESPONSE),
    event("response.in_progress", 1, response=RESPONSE),
    event("response.output_item.added", 2, output_index=0, item={**ITEM, "status": "in_progress", "content": []}),
    event("response.content_part.added", 3, part={**ITEM["content"][0], "text": ""}, **AT),
    delta(4, TEXT[:4]),
    delta(5, TEXT[4:]),
    event("response.output_text.done", 6, text=TEXT, logprobs=[], **AT),
    event("response.content_part.done", 7, part=ITEM["content"][0], **AT),
    event("response.output_item.done", 8, output_index=0, item=ITEM),
    event("response.completed", 9, response={**RESPONSE, "status": "completed", "output": [ITEM]}),
]
"""A legal stream, with a marker quoted in its text."""
FRAMES = [encode_frame(one) for one in EVENTS]
BODY = b"".join(FRAMES)
OPEN = FRAMES[:-1]  # everything but the terminal event


def names(body):
    """The types of the events, as a client that reads `type` sees them."""
    return [data.get("type", name) if isinstance(data, dict) else name for name, data in events_of(body)]


def judged(body, *, torn=False):
    """Check that a body is a whole legal stream, twice, and give its events. `torn`: a frame was cut and closed."""
    machine = Lifecycle()
    events = [data for _, data in events_of(body) if isinstance(data, dict)]
    for one in events:
        violation = machine.feed(one)
        assert violation is None, violation
    assert machine.close() is None
    assert sum(one["type"] in TERMINALS for one in events) == 1
    assert [one["sequence_number"] for one in events] == list(range(len(events)))
    assert errors_in(body) - ({"RE112", "RE201"} if torn else set()) == set()
    return events


def errors_in(body):
    """The rules a body breaks, as the validator judges. RE201 is a frame whose JSON is cut, RE112 a cut line."""
    return {finding.rule for finding in validate_stream(body).findings if finding.severity == "error"}


class Relayed:
    """What came out of a relay."""

    def __init__(self, chunks=(), end="close", **options):
        self.failures, self.notices = [], []
        options = {
            "model": "asked-for",
            "on_failure": self.failures.append,
            "on_notice": self.notices.append,
            **options,
        }
        self.relay = Relay(**options)
        self.chunks = [self.relay.feed(chunk) for chunk in chunks]
        self.ending = self.relay.close() if end == "close" else b"" if end is None else self.relay.fail(end)

    @property
    def body(self):
        return b"".join(self.chunks) + self.ending

    @property
    def kinds(self):
        return [notice.kind for notice in self.notices]


class Answer:
    """What an ASGI app sent, message by message."""

    def __init__(self):
        self.messages, self.raised = [], None

    @property
    def started(self):
        return bool(self.messages)

    @property
    def status(self):
        return self.messages[0]["status"]

    @property
    def headers(self):
        return {name.decode().lower(): value.decode() for name, value in self.messages[0]["headers"]}

    @property
    def bodies(self):
        return [m["body"] for m in self.messages if m["type"] == "http.response.body" and "body" in m]

    @property
    def body(self):
        return b"".join(self.bodies)

    @property
    def ended(self):
        return sum(m["type"] == "http.response.body" and not m.get("more_body", False) for m in self.messages)


def request_body(**fields):
    return json.dumps({"model": "asked-for", "input": "hi", "stream": True, **fields}).encode()


def scope_for(path="/v1/responses", method="POST", headers=(), **more):
    return {"type": "http", "method": method, "path": path, "headers": list(headers), "http_version": "1.1", **more}


def call(app, body=None, *, parts=None, disconnect=False, send_fails_after=None, cancel_after=None, **scope):
    """Run one request through an ASGI app, without any server."""
    answer = Answer()
    body = request_body() if body is None else body
    waiting = [
        {"type": "http.request", "body": part, "more_body": True} for part in (parts if parts is not None else [body])
    ]
    waiting.append({"type": "http.request", "body": b"", "more_body": False})

    async def main():
        hang = asyncio.Event()

        async def receive():
            await asyncio.sleep(0)
            if waiting:
                return waiting.pop(0)
            if not disconnect:
                await hang.wait()
            return {"type": "http.disconnect"}

        async def send(message):
            await asyncio.sleep(0)
            if send_fails_after is not None and len(answer.messages) >= send_fails_after:
                raise OSError("client is gone")
            answer.messages.append(message)

        task = asyncio.ensure_future(app(scope_for(**scope), receive, send))
        if cancel_after is not None:
            while len(answer.messages) < cancel_after:  # noqa: ASYNC110 - nothing sets an event when it has sent
                await asyncio.sleep(0)
            task.cancel()
        try:
            await task
        except BaseException as error:
            answer.raised = error

    asyncio.run(main())
    return answer


def start(status=200, kind=b"text/event-stream; charset=utf-8", *headers, **more):
    return {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", kind), *headers],
        **more,
    }


def part(body, more=True):
    return {"type": "http.response.body", "body": body, "more_body": more}


def app_that(*steps, read=True):
    """An ASGI app that does these steps: sends a message, raises an exception, or calls `step(receive, send)`."""

    async def app(scope, receive, send):
        if read:
            while (await receive()).get("more_body", False):
                pass
        for step in steps:
            if isinstance(step, BaseException):
                raise step
            if callable(step):
                await step(receive, send)
            else:
                await send(step)

    return app
