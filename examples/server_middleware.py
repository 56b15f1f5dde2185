"""A server that writes its own frames, and ends them right by one line: the middleware around it.

Run it: `uvicorn server_middleware:app`. Needs starlette and uvicorn. The engine may die, or refuse with HTTP 400; the
middleware alone turns that into a stream that clients understand.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from respevents.asgi import ResponsesGuardMiddleware

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request


async def frames(model: str, prompt: str) -> AsyncIterator[str]:
    """The frames of a server that knows nothing of respevents: the prompt word by word, as one message."""
    response: dict[str, Any] = {
        "id": "resp_mine", "object": "response", "created_at": 1767225600, "status": "in_progress", "model": model,
        "error": None, "incomplete_details": None, "instructions": None, "metadata": {}, "output": [],
        "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
    }  # fmt: skip
    sent = 0

    def frame(kind: str, **fields: Any) -> str:
        nonlocal sent
        data = json.dumps({"type": kind, "sequence_number": sent, **fields})
        sent += 1
        return f"event: {kind}\ndata: {data}\n\n"

    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    item: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }
    part: dict[str, Any] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    yield frame("response.created", response=response)
    yield frame("response.in_progress", response=response)
    yield frame("response.output_item.added", output_index=0, item=item)
    yield frame("response.content_part.added", **place, part=part)
    for word in prompt.split():
        if word == "crash":
            raise RuntimeError("CUDA error: device-side assert triggered")
        part["text"] += word
        yield frame("response.output_text.delta", **place, delta=word, logprobs=[])
    yield frame("response.output_text.done", **place, text=part["text"], logprobs=[])
    yield frame("response.content_part.done", **place, part=part)
    item |= {"status": "completed", "content": [part]}
    yield frame("response.output_item.done", output_index=0, item=item)
    usage = {
        "input_tokens": 1, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": 1, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 2,
    }  # fmt: skip
    yield frame("response.completed", response=response | {"status": "completed", "output": [item], "usage": usage})


async def responses(http: Request) -> Response:
    request = await http.json()
    prompt = str(request["input"])
    if len(prompt) > 200:
        text = f"This model's maximum context length is 200 tokens. However, your messages resulted in {len(prompt)}."
        return JSONResponse({"error": {"message": text, "code": 400}}, status_code=400)
    return StreamingResponse(frames(request["model"], prompt), media_type="text/event-stream")


app = ResponsesGuardMiddleware(Starlette(routes=[Route("/v1/responses", responses, methods=["POST"])]))
