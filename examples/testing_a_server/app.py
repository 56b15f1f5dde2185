"""The server under test: what an engine yields, as a stream. `respond` is a plain generator, so no HTTP is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from respevents import ResponseStream, guard_stream_sync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Engine = Callable[[dict[str, Any]], Iterable[str]]


def respond(request: dict[str, Any], engine: Engine) -> Iterator[bytes]:
    """The body of the answer: the texts that `engine` yields for the request, as one message."""
    stream = ResponseStream(model=request["model"], request=request)

    def events() -> Iterator[bytes]:
        yield stream.start()
        message = stream.message()
        for text in engine(request):
            yield message.text(text)
        yield stream.complete({"input_tokens": 1, "output_tokens": 1})

    return guard_stream_sync(events(), model=request["model"], id=stream.id, request=request, on_failure=print)


def proxy(upstream: Iterable[bytes]) -> Iterator[bytes]:
    """A route that hands on what another server sends; replaced in tests of the client side."""
    yield from upstream
