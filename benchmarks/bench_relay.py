"""A text delta through the relay and the middleware, against one msgspec decode of its line and a bare pass-through."""

from __future__ import annotations

import asyncio
import statistics
from typing import TYPE_CHECKING, Any

import msgspec

from _race import Verdict, median_ratio, options, race
from respevents.asgi import ResponsesGuardMiddleware
from respevents.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Send = Callable[[dict[str, Any]], Awaitable[None]]

LINE = (
    b'{"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_0123456789abcdef0123456789abcdef0123456'
    b'789abcdef","output_index":0,"content_index":0,"delta":" world","logprobs":[],"obfuscation":"aZ3kP0qLmN"}'
)
LINES = [LINE % number for number in range(1000)]
FRAMES = [b"event: response.output_text.delta\ndata: " + line + b"\n\n" for line in LINES]
REQUEST = b'{"model":"m","input":"hi","stream":true}'
START = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream; charset=utf-8")],
}
SCOPE: dict[str, Any] = {"type": "http", "method": "POST", "path": "/v1/responses", "headers": []}


def decode(number: int) -> None:
    """The yardstick: the JSON of the line into plain values."""
    read = msgspec.json.decode
    for count in range(number):
        read(LINES[count % 1000])


def relay(number: int) -> None:
    """What a gateway calls for each chunk."""
    feed = Relay(on_failure=lambda _: None).feed
    for count in range(number):
        feed(FRAMES[count % 1000])


async def receive() -> dict[str, Any]:
    """The request, in one message."""
    return {"type": "http.request", "body": REQUEST, "more_body": False}


async def send(message: dict[str, Any]) -> None:
    """A server that takes everything at once."""


def serve(number: int, *, around: Callable[[Any], Any]) -> None:
    """One answer of `number` frames, through what stands around the app."""

    async def app(scope: dict[str, Any], receive: Any, send: Send) -> None:
        del scope
        await receive()
        await send(START)
        for count in range(number):
            await send({"type": "http.response.body", "body": FRAMES[count % 1000], "more_body": True})

    asyncio.run(around(app)(SCOPE, receive, send))


def bare(app: Any) -> Any:
    """The least a middleware can be: a call handed on, with a `send` of its own."""

    async def middleware(scope: Any, receive: Any, send: Send) -> None:
        async def passing(message: dict[str, Any]) -> None:
            await send(message)

        await app(scope, receive, passing)

    return middleware


def guarded(app: Any) -> Any:
    """The middleware as it is used."""
    return ResponsesGuardMiddleware(app, on_failure=lambda _: None)


def main() -> None:
    chosen = options(__doc__)
    contenders: dict[str, Callable[[int], object]] = {
        "msgspec.json.decode": decode,
        "relay": relay,
        "bare pass-through": lambda number: serve(number, around=bare),
        "middleware": lambda number: serve(number, around=guarded),
    }
    times = race(contenders, rounds=5 if chosen.quick else 15, number=2_000 if chosen.quick else 20_000)
    for name, rounds in times.items():
        print(f"     {name:<66} {statistics.median(rounds) * 1e6:8.2f}us")
    added = [guard - least for guard, least in zip(times["middleware"], times["bare pass-through"], strict=True)]
    verdict = Verdict(chosen.slack)
    verdict.at_most("relay over a decode", median_ratio(times["relay"], times["msgspec.json.decode"]), 5)
    verdict.at_most(
        "middleware less bare pass-through, over a decode", median_ratio(added, times["msgspec.json.decode"]), 5
    )
    verdict.exit()


if __name__ == "__main__":
    main()
