"""`respevents demo`: a scripted engine behind a real HTTP server, and what a client reads from it.

The engine is made up, the rest is what a server would run: `ResponseStream` builds the events, `guard_stream`
ends a stream whose engine breaks, uvicorn sends the bytes, and the reader below gets them over a socket.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import uvicorn

from respevents._errors import ProtocolError, RemoteProtocolError
from respevents.failures import Cause, Failure, error_envelope
from respevents.guard import guard_stream
from respevents.stream import ResponseStream
from respevents.wire import FrameDecoder, decode_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping

    Scope = Mapping[str, Any]
    Receive = Callable[[], Awaitable[Mapping[str, Any]]]
    Send = Callable[[dict[str, Any]], Awaitable[None]]
    Application = Callable[[Scope, Receive, Send], Awaitable[None]]

__all__ = ["add_arguments", "app", "run", "serving"]

CONTEXT_WINDOW = 4096
"""Tokens the engine takes. It counts one for each word of the newest user message and none for what a client
adds around it (instructions, tools, history): one as talkative as Codex can be tried against it."""

PAUSE = 0.02
"""Seconds between two pieces, as a fast engine has: enough to see that frames arrive one by one."""

MAX_BODY = 16 * 1024 * 1024
"""Bytes of a request body that are read; more is answered with 413."""


class PromptTooLongError(Exception):
    """What the engine raises for a prompt that it cannot take. Raised before the first token."""

    def __init__(self, tokens: int) -> None:
        super().__init__(
            f"This model's maximum context length is {CONTEXT_WINDOW} tokens, but the prompt has {tokens}."
        )
        self.tokens = tokens


def _classify(error: BaseException) -> Failure:
    if isinstance(error, PromptTooLongError):
        return Failure.from_exception(
            error, Cause.CONTEXT_LENGTH_EXCEEDED, prompt_tokens=error.tokens, context_window=CONTEXT_WINDOW
        )
    return Failure.from_exception(error, Cause.ENGINE_ERROR)


def _newest_message(request: Mapping[str, Any]) -> str:
    """The text of the newest user message; `input` and the content of an item are strings or lists."""
    given = request.get("input")
    if isinstance(given, str):
        return given
    for item in reversed(given if isinstance(given, list) else []):
        if isinstance(item, dict) and item.get("role") == "user":
            content = item.get("content")
            if isinstance(content, str):
                return content
            parts = content if isinstance(content, list) else []
            return " ".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))
    return ""


def _wants_weather(request: Mapping[str, Any]) -> bool:
    """The client offers the tool and has not sent its answer yet."""
    tools, given = request.get("tools") or [], request.get("input")
    answered = isinstance(given, list) and any(
        isinstance(item, dict) and item.get("type") == "function_call_output" for item in given
    )
    offered = any(isinstance(tool, dict) and tool.get("name") == "get_weather" for tool in tools)
    return offered and not answered


async def _engine(request: Mapping[str, Any], stream: ResponseStream, pause: float) -> AsyncIterator[bytes]:
    """One scripted answer; the model's name decides: `demo-over-length`, `demo-server-error`, any other."""
    model, prompt = str(request["model"]), _newest_message(request)
    tokens = CONTEXT_WINDOW + 1 if "over-length" in model else len(prompt.split())
    if tokens > CONTEXT_WINDOW:
        raise PromptTooLongError(tokens)
    yield stream.start()
    reasoning = stream.reasoning()
    for piece in ("The user says hello. ", "A short greeting ", "is enough."):
        await asyncio.sleep(pause)
        yield reasoning.summary_text(piece)
    message = stream.message()
    for count, piece in enumerate(("Hel", "lo! ", "This is a ", "scripted ", "engine.")):
        await asyncio.sleep(pause)
        if count == 2 and "server-error" in model:  # after two pieces of text
            raise RuntimeError("the worker process is gone")
        yield message.text(piece)
    if _wants_weather(request):
        call = stream.function_call("get_weather")
        for piece in ('{"city":', '"Bern"}'):
            await asyncio.sleep(pause)
            yield call.arguments(piece)
    usage = {
        "input_tokens": tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 23,
        "output_tokens_details": {"reasoning_tokens": 9},
        "total_tokens": tokens + 23,
    }
    yield stream.complete(usage=usage)


def _frames(request: Mapping[str, Any], pause: float) -> AsyncIterator[bytes]:
    model = request["model"]
    stream = ResponseStream(model=model, request=request)
    return guard_stream(
        _engine(request, stream, pause),
        model=model,
        id=stream.id,
        created_at=stream.created_at,
        request=request,
        classify=_classify,
        on_failure=_log_failure,
    )


def _log_failure(failure: Failure) -> None:
    """The operator sees what the client does not."""
    print(
        f"  {failure.cause.value}: {type(failure.exception).__name__}: {failure.message}", file=sys.stderr, flush=True
    )


async def _body(receive: Receive) -> bytes | None:
    """The whole request body; None when the client went away or sends too much."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body"):
            return bytes(body)


async def _answer(send: Send, status: int, body: object) -> None:
    raw = json.dumps(body, ensure_ascii=False, indent=1).encode() + b"\n"
    await _start(send, status, b"application/json")
    await send({"type": "http.response.body", "body": raw})


async def _start(send: Send, status: int, content_type: bytes) -> None:
    headers = [(b"content-type", content_type), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})


def app(pause: float = PAUSE) -> Application:
    """Make the ASGI application: `POST /v1/responses` (and `/responses`), streamed or not."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path, method = scope["path"].rstrip("/"), scope["method"]
        if path == "/v1/models" and method == "GET":
            names = ("demo", "demo-over-length", "demo-server-error")
            data = [{"id": name, "object": "model", "created": 0, "owned_by": "respevents"} for name in names]
            await _answer(send, 200, {"object": "list", "data": data})
            return
        if path not in ("/v1/responses", "/responses") or method != "POST":
            await _refuse(send, Cause.INVALID_REQUEST, "This server has POST /v1/responses only.", 404)
            return
        raw = await _body(receive)
        if raw is None:
            await _refuse(send, Cause.PAYLOAD_TOO_LARGE, f"The body is larger than {MAX_BODY} bytes.")
            return
        try:
            request = decode_json(raw)
        except RemoteProtocolError as error:
            await _refuse(send, Cause.INVALID_REQUEST, str(error))
            return
        if not isinstance(request, dict):
            await _refuse(send, Cause.INVALID_REQUEST, "The body must be a JSON object.")
            return
        request = {"model": "demo", **request}
        if request.get("stream") is True:
            try:
                frames = _frames(request, pause)
            except ProtocolError as error:
                await _refuse(send, Cause.INVALID_REQUEST, str(error))
                return
            await _start(send, 200, b"text/event-stream; charset=utf-8")
            async for chunk in frames:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        else:
            await _answer_whole(send, request)

    return application


async def _refuse(send: Send, cause: Cause, message: str, status: int | None = None) -> None:
    default, envelope = error_envelope(Failure(cause=cause, message=message))
    await _answer(send, status or default, envelope)


async def _answer_whole(send: Send, request: Mapping[str, Any]) -> None:
    """A request without `stream`: the terminal snapshot, or the error as an HTTP answer."""
    stream = ResponseStream(model=str(request["model"]), request=request)
    decoder, last = FrameDecoder(), b""
    try:
        async for chunk in _engine(request, stream, 0):
            for frame in decoder.feed(chunk):
                last = frame.data
    except Exception as error:  # noqa: BLE001 - whatever the engine raises becomes an answer
        status, envelope = error_envelope(_classify(error))
        await _answer(send, status, envelope)
        return
    await _answer(send, 200, decode_json(last)["response"])


@contextmanager
def serving(application: Application | None = None, *, port: int = 0) -> Generator[int, None, None]:
    """Serve `application` (default: `app()`) on loopback while the block runs; gives the port (a free one for 0)."""
    listener = socket.create_server(("127.0.0.1", port))
    # asyncio does it only for sockets made with the number of TCP; without it a frame may wait 40 ms for the last ACK.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server = uvicorn.Server(uvicorn.Config(application or app(), log_level="warning", lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="respevents-demo", daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(timeout=5)
        listener.close()


class _Style(NamedTuple):
    """How the terminal shows it; all empty when the output is no terminal (or NO_COLOR is set)."""

    bold: str = ""
    dim: str = ""
    good: str = ""
    bad: str = ""
    off: str = ""


def _style() -> _Style:
    if not sys.stdout.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb":
        return _Style()
    return _Style("\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[31m", "\x1b[0m")


def _summary(event: Mapping[str, Any]) -> str:
    """What one line of the timeline says beside the event's type."""
    if isinstance(event.get("delta"), str):
        return json.dumps(event["delta"], ensure_ascii=False)
    for key in ("text", "arguments"):
        if isinstance(event.get(key), str):
            return f"{key}={json.dumps(event[key], ensure_ascii=False)}"
    if event["type"] == "error":
        return f"code={event.get('code')}"
    item, response = event.get("item"), event.get("response")
    if isinstance(item, dict):
        return f"{item.get('type')} {item.get('id')}"
    if isinstance(response, dict):
        error = response.get("error")
        if error:
            return f"{response['status']}: {error['code']}: {error['message']}"
        usage = response.get("usage")
        return f"{response['status']}" + (f", {usage['total_tokens']} tokens" if usage else f" {response['id']}")
    return ""


def _timeline(title: str, port: int, request: Mapping[str, Any]) -> str:
    """Post `request`, print a line for each frame as it comes, and give the type of the last event."""
    style = _style()
    print(f"\n{style.bold}{title}{style.off}")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    began, last, decoder = time.perf_counter(), "", FrameDecoder()
    try:
        connection.request("POST", "/v1/responses", json.dumps(request), {"content-type": "application/json"})
        answer = connection.getresponse()
        print(f"{style.dim}  HTTP {answer.status} {answer.getheader('content-type')}{style.off}")
        while chunk := answer.read1(65536):
            for frame in decoder.feed(chunk):
                event = decode_json(frame.data)
                last = str(event["type"])
                ends = {"response.completed": style.good, "response.failed": style.bad, "error": style.bad}
                at = f"{(time.perf_counter() - began) * 1000:6.0f} ms"
                kind = f"{ends.get(last, '')}{last:<42}{style.off}"
                print(
                    f"  {style.dim}{at} {event['sequence_number']:>3}{style.off}  {kind} {_summary(event)}",
                    flush=True,
                )
    finally:
        connection.close()
    print(f"{style.dim}  the body ended cleanly after {last}{style.off}")
    return last


_TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


def _show() -> int:
    with serving() as port:
        good = {"model": "demo", "input": "Hello! How is the weather?", "tools": [_TOOL], "stream": True}
        too_long = {"model": "demo", "input": "word " * (CONTEXT_WINDOW + 904), "stream": True}
        first = _timeline("A normal stream: reasoning, text, a tool call", port, good)
        second = _timeline("A prompt that is too long: the four frames of a failing stream", port, too_long)
    print("\nKeep it running for curl, the openai SDK or Codex: respevents demo --serve")
    return 0 if (first, second) == ("response.completed", "response.failed") else 1


def _serve(port: int) -> int:
    try:
        with serving(port=port) as bound:
            url = f"http://127.0.0.1:{bound}/v1"
            print(
                f"Serving {url}/responses. Stop with Ctrl-C.\n\n"
                f'  curl -N {url}/responses -d \'{{"model": "demo", "input": "Hi", "stream": true}}\'\n'
                f'  OpenAI(base_url="{url}", api_key="-").responses.create(model="demo", input="Hi")\n\n'
                f"Models: demo, demo-over-length (or over {CONTEXT_WINDOW} words), demo-server-error.",
                flush=True,
            )
            threading.Event().wait()
    except KeyboardInterrupt:
        return 0
    except (OSError, OverflowError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        print(f"respevents demo: port {port} cannot be used: {why}. Try another --port.", file=sys.stderr)
        return 2
    return 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `respevents demo` takes."""
    parser.add_argument("--serve", action="store_true", help="keep serving on loopback instead of the two timelines")
    parser.add_argument("--port", type=int, default=8765, help="port of --serve; 0 takes a free one (default: 8765)")


def run(arguments: argparse.Namespace) -> int:
    """Run it; gives the exit code."""
    return _serve(arguments.port) if arguments.serve else _show()
