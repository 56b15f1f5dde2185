"""A gateway in front of one upstream, with aiohttp: the body goes through a `Relay`, which ends what the upstream cut.

Run it: `UPSTREAM=http://127.0.0.1:8000 python gateway_aiohttp.py`. Needs aiohttp.
"""

from __future__ import annotations

import os

from aiohttp import ClientError, ClientSession, web

from respevents import HTTPAnswer, Policy, Relay, classify


async def responses(request: web.Request) -> web.StreamResponse:
    """The route. The ten lines are the relay's: feed what comes, then close it or say what failed."""
    body = await request.json()
    relay = Relay(model=body["model"], request=body, policy=Policy.gateway)
    out = web.StreamResponse(headers={"content-type": "text/event-stream"})
    await out.prepare(request)
    try:
        async with ClientSession(os.environ["UPSTREAM"]) as client, client.post("/v1/responses", json=body) as answer:
            if answer.status >= 400:
                await out.write(relay.fail(classify(HTTPAnswer(answer.status, answer.headers, await answer.read()))))
                return out
            async for chunk in answer.content.iter_any():
                await out.write(relay.feed(chunk))
    except ClientError as error:  # a connection that broke, a chunk that was no chunk
        await out.write(relay.fail(error))
    else:
        await out.write(relay.close())
    await out.write_eof()
    return out


def app() -> web.Application:
    """The application."""
    made = web.Application()
    made.router.add_post("/v1/responses", responses)
    return made


if __name__ == "__main__":
    web.run_app(app(), port=8401)
