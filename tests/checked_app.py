"""A server that passes every probe of `respevents check`, and one planted fault at a time."""

from __future__ import annotations

import asyncio
import json

from respevents import Cause, Failure, ResponseStream, error_envelope, rejected_frames
from respevents.wire import FrameDecoder, decode_json

MODEL, WINDOW = "good", 2000
MODELS = {"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": WINDOW}]}


class GoodServer:
    """`faults` are names that `answer` asks for; `requests` keeps (path, headers, body) of all that came."""

    def __init__(self, *faults, location=None):
        self.faults, self.location = frozenset(faults), location
        self.requests, self.gone = [], False

    def has(self, *names):
        return bool(self.faults.intersection(names))

    async def __call__(self, scope, receive, send):
        raw = b""
        while True:
            message = await receive()
            raw += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        body = json.loads(raw) if raw else None
        self.requests.append((scope["path"], headers, body))
        leaving = asyncio.ensure_future(self._left(receive))
        try:
            await self.answer(scope["path"], headers, body, Sender(send, leaving))
        except Left:
            self.gone = True
        finally:
            leaving.cancel()

    async def _left(self, receive):
        while (await receive())["type"] != "http.disconnect":
            pass

    async def answer(self, path, headers, body, send):
        if self.location is not None and (path != "/v1/models" or self.has("models-too")):
            await send.whole(307, b"", [(b"location", self.location.encode())])
        elif path == "/v1/models":
            if self.has("no-models"):
                await send.whole(404, {"error": {"message": "Not Found", "type": "x", "param": None, "code": None}})
            else:
                await send.whole(200, {"data": 5} if self.has("models-form") else MODELS)
        elif path != "/v1/responses":
            await send.refuse(Cause.INVALID_REQUEST, "Not Found", 404)
        elif self.has("key") and headers.get("authorization") != "Bearer sk-planted-secret-1":
            await send.refuse(Cause.AUTH, "No.")
        else:
            await self.respond(headers, body, send)

    async def respond(self, headers, body, send):
        prompt, streamed = body["input"], body["stream"]
        if self.gone and self.has("dies-of-a-hang-up"):
            await send.refuse(Cause.ENGINE_DEAD, "gone")
        elif body["model"] != MODEL and not self.has("any-model"):
            if self.has("unknown-model-500"):
                await send.refuse(Cause.ENGINE_ERROR, "KeyError")
            elif self.has("unknown-model-vague"):
                await send.whole(400, {"error": {"message": "bad", "type": "x", "param": None, "code": None}})
            else:
                await send.refuse(Cause.MODEL_NOT_FOUND, f"The model {body['model']} does not exist")
        elif not isinstance(prompt, (str, list)):
            if self.has("invalid-500"):
                await send.whole(500, b"Internal Server Error")
            elif self.has("invalid-accepted"):
                await self.good({**body, "input": ""}, "hi", send)
            elif self.has("invalid-in-stream") and streamed:
                await send.stream(self.failed(body, Cause.INTERNAL_ERROR, "AttributeError"))
            else:
                await send.refuse(Cause.INVALID_REQUEST, "input is a text or a list")
        elif isinstance(prompt, str) and len(prompt.split()) > WINDOW:
            await self.too_long(body, send)
        elif body.get("tools") and self.has("tools-unsupported"):
            await send.refuse(Cause.INVALID_REQUEST, "tools are not supported")
        elif "text" in body and self.has("structured-501"):
            await send.whole(501, b"no")
        elif isinstance(prompt, list) and self.has("no-history"):
            await send.stream(self.failed(body, Cause.ENGINE_ERROR, "list"))
        else:
            await self.good(body, self.text(headers, body), send)

    def text(self, headers, body):
        prompt = str(body["input"])
        if "text" in body and not self.has("no-schema"):
            return '{"city": "Bern", "population": 146000}'
        if self.has("echo-key"):
            return f'\n"You sent {headers.get("authorization")}.'
        if self.has("swapped-text"):
            return "quartz-86" if "zephyr" in prompt else "zephyr-41"
        return "one two three four " * 10 if "Count" in prompt else prompt[-10:]

    def failed(self, body, cause, message):
        return [rejected_frames(Failure(cause=cause, message=message), model=body["model"], request=body)]

    async def too_long(self, body, send):
        failure = Failure(
            cause=Cause.CONTEXT_LENGTH_EXCEEDED, message=f"The maximum context length is {WINDOW} tokens."
        )
        status, envelope = error_envelope(failure)
        if self.has("over-long-accepted", "over-long-shortened"):
            await self.good(body, "hi", send, tokens=100 if self.has("over-long-shortened") else 20_000)
        elif self.has("over-long-413"):
            await send.whole(413, envelope)
        elif self.has("over-long-500"):
            await send.whole(500, b"Internal Server Error")
        elif self.has("over-long-number"):
            await send.whole(400, {"error": {**envelope["error"], "code": 400}})
        elif self.has("over-long-server-error") and body["stream"]:
            await send.stream(self.failed(body, Cause.ENGINE_ERROR, failure.message))
        elif self.has("over-long-cut") and body["stream"]:
            await send.stream([ResponseStream(model=MODEL, request=body).start()])
        elif self.has("over-long-status-failed") and not body["stream"]:
            *_, last = FrameDecoder().feed(self.failed(body, failure.cause, failure.message)[0])
            await send.whole(200, decode_json(last.data)["response"])
        elif body["stream"] and not self.has("over-long-400"):
            await send.stream([rejected_frames(failure, model=body["model"], request=body)])
        else:
            await send.whole(status, envelope)

    def chunks(self, body, text, tokens):
        request = {key: value for key, value in body.items() if key != "input"}
        if self.has("swapped-metadata") and "metadata" in body:
            request["metadata"] = {"mark": "quartz-86" if "zephyr" in str(body) else "zephyr-41"}
        stream = ResponseStream(model=body["model"], request=request, id="resp_1" if self.has("one-id") else None)
        usage = {
            "input_tokens": tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 16,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens + 16,
        }
        yield stream.start()
        if body.get("tool_choice") == "required" and not self.has("no-call"):
            arguments = '{"town":"Bern"}' if self.has("bad-arguments") else '{"city":"Bern"}'
            yield stream.function_call("get_weather").arguments(arguments)
        else:
            message = stream.message()
            for at in range(0, len(text), 8):
                yield message.text(text[at : at + 8])
        if "max_output_tokens" in body and not self.has("no-limit"):
            yield stream.incomplete("content_filter" if self.has("wrong-reason") else "max_output_tokens", usage=usage)
        else:
            yield stream.complete(usage=usage)

    async def good(self, body, text, send, tokens=10):
        chunks = list(self.chunks(body, text, tokens))
        if not body["stream"] or self.has("never-streams"):
            *_, last = FrameDecoder().feed(chunks[-1])
            response = decode_json(last.data)["response"]
            if self.has("whole-lacks-usage"):
                del response["usage"]
            if self.has("whole-lacks-id"):
                del response["id"]
            await send.whole(200, [response] if self.has("whole-list") else response)
        elif self.has("refuses-text"):
            await send.whole(429, {"error": {"message": "slow down", "type": "x", "param": None, "code": "slow_down"}})
        elif self.has("wrong-type"):
            await send.stream(chunks, kind=b"text/plain")
        elif self.has("wrong-text"):
            await send.stream([chunk.replace(b'"text":"', b'"text":"x') for chunk in chunks])
        elif self.has("cut"):
            await send.stream(chunks[:-1], end=False)
            raise RuntimeError("planted")
        elif self.has("stall"):
            await send.stream(chunks[:-1], end=False)
            await send.sleep(30)
        else:
            await send.stream(chunks, pause=0.003)


class Left(Exception):
    pass


class Sender:
    def __init__(self, send, leaving):
        self.send, self.leaving = send, leaving

    async def whole(self, status, body, headers=()):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = b"text/plain" if isinstance(body, bytes) else b"application/json"
        await self._start(status, kind, headers)
        await self.send({"type": "http.response.body", "body": raw})

    async def refuse(self, cause, message, status=None):
        default, envelope = error_envelope(Failure(cause=cause, message=message))
        await self.whole(status or default, envelope)

    async def _start(self, status, kind, headers=()):
        given = [(b"content-type", kind), (b"set-cookie", b"session=planted-cookie"), *headers]
        await self.send({"type": "http.response.start", "status": status, "headers": given})

    async def stream(self, chunks, kind=b"text/event-stream", pause=0.0, end=True):
        await self._start(200, kind)
        for chunk in chunks:
            await self.send({"type": "http.response.body", "body": chunk, "more_body": True})
            if pause:
                await self.sleep(pause)
        if end:
            await self.send({"type": "http.response.body", "body": b""})

    async def sleep(self, seconds):
        """Raises Left when the client hangs up in the meantime."""
        await asyncio.wait([self.leaving], timeout=seconds)
        if self.leaving.done():
            raise Left
