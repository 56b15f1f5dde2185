"""A gateway in front of one upstream, with httpx: the body goes through a `Relay`, which ends what the upstream cut.

Run it: `UPSTREAM=http://127.0.0.1:8000 uvicorn gateway_httpx:app`. Needs httpx, starlette and uvicorn.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import httpx
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

from respevents import HTTPAnswer, Policy, Relay, classify

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request


async def relayed(url: str, body: bytes) -> AsyncIterator[bytes]:
    """The ten lines: what the upstream sends as it is, and the ending it left out."""
    request = json.loads(body)
    relay = Relay(model=request["model"], request=request, policy=Policy.gateway)
    try:
        async with httpx.AsyncClient(timeout=600) as client, client.stream("POST", url, content=body) as answer:
            if answer.is_error:
                answer_body = await answer.aread()
                yield relay.fail(classify(HTTPAnswer(answer.status_code, answer.headers, answer_body)))
                return
            async for chunk in answer.aiter_raw():
                yield relay.feed(chunk)
    except httpx.HTTPError as error:  # a connection that broke, a chunk that was no chunk
        yield relay.fail(error)
    else:
        yield relay.close()


async def responses(request: Request) -> StreamingResponse:
    """The route."""
    url = os.environ["UPSTREAM"] + "/v1/responses"
    return StreamingResponse(relayed(url, await request.body()), media_type="text/event-stream")


app = Starlette(routes=[Route("/v1/responses", responses, methods=["POST"])])
