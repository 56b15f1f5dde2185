"""Two servers as they are: FastAPI apps with the frame recipes and the failing paths of vLLM 0.33 and SGLang 0.5.23.

Written after `shared/engine_errors/README.md` and the captures beside it; the prompt says what goes wrong.
"""

from __future__ import annotations

import json

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from openai.types import responses as sdk
from pydantic import TypeAdapter

WINDOW = 512
ID, CREATED = "resp_8bea9b4f67126717", 1796096811


class GenerationError(Exception):
    pass


def tokens(prompt):
    return len(prompt.split())


def echo(body):
    """The snapshot of a response, as both servers repeat their request in it."""
    return {
        "id": ID, "created_at": CREATED, "object": "response", "model": body["model"], "output": [], "status": "in_progress",
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "temperature": 1.0, "top_p": 1.0, "usage": None,
        "incomplete_details": None, "instructions": None, "metadata": body.get("metadata"), "error": None,
    }  # fmt: skip


ITEM = {"id": "msg_8166e524cdda3d05", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
AT = {"item_id": ITEM["id"], "output_index": 0, "content_index": 0}
PART = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}


def story(body, words, usage):
    """The events of a good answer, unnumbered."""
    response, text = echo(body), "".join(words)
    part = {**PART, "text": text}
    item = {**ITEM, "status": "completed", "content": [part]}
    yield {"type": "response.created", "response": response}
    yield {"type": "response.in_progress", "response": response}
    yield {"type": "response.output_item.added", "output_index": 0, "item": ITEM}
    yield {"type": "response.content_part.added", "part": PART, **AT}
    for word in words:
        yield {"type": "response.output_text.delta", "delta": word, "logprobs": [], **AT}
    yield {"type": "response.output_text.done", "text": text, "logprobs": [], **AT}
    yield {"type": "response.content_part.done", "part": part, **AT}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    yield {
        "type": "response.completed",
        "response": {**response, "status": "completed", "output": [item], "usage": usage},
    }


USAGE = {
    "input_tokens": 34, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 8, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 42,
}  # fmt: skip
WORDS = ["Hello", " wörld", " \u2028", "<b>", " response.completed"]
STREAMED = TypeAdapter(sdk.ResponseStreamEvent)


def vllm_app():
    """`entrypoints/openai/responses/api_router.py`: event line, `model_dump_json(by_alias)`, nothing for a failure."""
    app = FastAPI()
    app.state.requests = 0

    @app.post("/v1/responses")
    async def create(request: Request):
        app.state.requests += 1
        body = await request.json()
        prompt = body["input"] if isinstance(body["input"], str) else json.dumps(body["input"])
        if tokens(prompt) > getattr(app.state, "window", WINDOW):
            text = (
                f"This model's maximum context length is {WINDOW} tokens. However, your prompt contains at least "
                f"{WINDOW + 1} input tokens, which exceeds this limit even without any output tokens. Please reduce "
                f"the length of the input prompt. (parameter=input_tokens, value={WINDOW + 1})"
            )
            error = {"message": text, "type": "BadRequestError", "param": "input_tokens", "code": 400}
            return JSONResponse({"error": error}, status_code=400)
        if "SCRIPT:queue full" in prompt:
            error = {
                "message": "The request queue is full.",
                "type": "ServiceUnavailableError",
                "param": None,
                "code": 503,
            }
            return JSONResponse({"error": error}, status_code=503)
        if not body.get("stream"):
            *_, last = story(body, WORDS, USAGE)
            return JSONResponse(last["response"])
        return StreamingResponse(frames(body, prompt), media_type="text/event-stream")

    async def frames(body, prompt):
        for number, event in enumerate(story(body, WORDS, USAGE)):
            if number == 2 and "SCRIPT:pre" in prompt:
                raise RuntimeError("engine core at 10.0.0.7 died")
            if number == 6 and "SCRIPT:generation error" in prompt:
                try:
                    raise GenerationError("Internal server error")
                except GenerationError as error:  # its own failing path cannot make an event of this, and raises
                    told = {"error": {"message": str(error), "type": "InternalServerError", "code": 500}}
                    yield STREAMED.validate_json(json.dumps(told)).model_dump_json()
            if number == 6 and "SCRIPT:mid" in prompt:
                raise ValueError("shard 3 of 8: CUDA error")
            if number == 6 and "SCRIPT:return" in prompt:
                return
            model = STREAMED.validate_python({**event, "sequence_number": number})
            data = model.model_dump_json(indent=None, by_alias=True)
            data = data.replace(f'"created_at":{CREATED}.0', f'"created_at":{CREATED}')  # vLLM's own class has an int
            yield f"event: {model.type}\ndata: {data}\n\n"

    return app


def sglang_app():
    """`entrypoints/openai/serving_responses.py`: dicts, `server_error` for everything; harmony catches nothing."""
    app = FastAPI()

    @app.post("/v1/responses")
    async def create(request: Request):
        body = await request.json()
        return StreamingResponse(frames(body), media_type="text/event-stream", headers={"Cache-Control": "no-cache"})

    async def frames(body):
        prompt = body["input"]
        number = 0

        def frame(event):
            nonlocal number
            data = json.dumps({**event, "sequence_number": number}, ensure_ascii=False, separators=(",", ":"))
            number += 1
            return f"event: {event['type']}\ndata: {data}\n\n"

        if "harmony" in body["model"]:
            for at, event in enumerate(story(body, WORDS, USAGE)):
                if "SCRIPT:mid" in prompt and at == 6:
                    raise RuntimeError("injected")
                yield frame(event)
            return
        try:
            for at, event in enumerate(story(body, WORDS, USAGE)):
                if at == 2 and tokens(prompt) > WINDOW:
                    raise ValueError(
                        f"The input ({tokens(prompt)} tokens) is longer than the model's context length ({WINDOW} tokens)."
                    )
                if "SCRIPT:mid" in prompt and at == 6:
                    raise RuntimeError("injected: engine failed mid-stream")
                yield frame(event)
        except Exception as error:
            failed = {**echo(body), "status": "failed", "error": {"code": "server_error", "message": str(error)}}
            yield frame({"type": "response.failed", "response": failed})

    return app
