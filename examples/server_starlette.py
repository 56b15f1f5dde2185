"""A /v1/responses server with Starlette: events from the builder, endings from the guard.

Run it: `uvicorn server_starlette:app`. Needs starlette and uvicorn. `engine` is the part that is yours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

from respevents import Cause, Failure, RequestRejected, ResponseStream, guard_stream

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request


async def engine(request: dict[str, Any], stream: ResponseStream) -> AsyncIterator[bytes]:
    """Echoes the words of the input. Whatever it raises, the guard ends the stream the way clients understand."""
    if len(words := str(request["input"]).split()) > 8:
        raise RequestRejected(Failure(cause=Cause.CONTEXT_LENGTH_EXCEEDED, message=f"{len(words)} words, of 8 at most"))
    yield stream.start()
    message = stream.message()
    for word in words:
        yield message.text(f"{word} ")
    yield stream.complete({"input_tokens": len(words), "output_tokens": len(words)})


async def responses(http: Request) -> StreamingResponse:
    request = await http.json()
    stream = ResponseStream(model=request["model"], request=request)
    body = guard_stream(engine(request, stream), model=request["model"], id=stream.id, request=request)
    return StreamingResponse(body, media_type="text/event-stream")


app = Starlette(routes=[Route("/v1/responses", responses, methods=["POST"])])
