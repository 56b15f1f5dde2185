"""ASGI middleware that ends the Responses streams of a server that exists, without touching its code.

    vllm serve MODEL --middleware respevents.asgi.ResponsesGuardMiddleware
    app.add_middleware(ResponsesGuardMiddleware, engine="vllm")     # FastAPI, Starlette
    app = ResponsesGuardMiddleware(app)                             # any ASGI app

Pure ASGI: no framework, and no event loop of its own.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from respevents._dialect import checked_dialect
from respevents._errors import ProtocolError, show
from respevents._route import wrap_route
from respevents.classifier import HTTPAnswer, engine_named
from respevents.classifier import classify as _classify
from respevents.failures import Cause, Failure, Policy, policy_of
from respevents.relay import Relay, checked_repairs
from respevents.wire import DEFAULT_MAX_FRAME, decode_json

if TYPE_CHECKING:
    from typing import TypeAlias

    from respevents._dialect import Dialect
    from respevents._ending import OnFailure
    from respevents.relay import OnNotice

__all__ = ["ResponsesGuardMiddleware", "wrap_route"]

Message: TypeAlias = "MutableMapping[str, Any]"
Scope: TypeAlias = "MutableMapping[str, Any]"
Receive: TypeAlias = "Callable[[], Awaitable[Message]]"
Send: TypeAlias = "Callable[[Message], Awaitable[None]]"
App: TypeAlias = "Callable[[Any, Any, Any], Awaitable[None]]"  # frameworks type their scopes differently

MAX_REQUEST: Final = 32 * 1024 * 1024
"""Bytes of a request body that are read ahead. The stream of a larger one is guarded, its rejection passes."""

MAX_ANSWER: Final = 1024 * 1024
"""Bytes of an HTTP error's body that are held to see what failed. Servers echo input into some; a larger one passes."""

_OF_THE_BODY: Final = frozenset(
    b"content-length content-type content-encoding transfer-encoding content-md5 content-digest digest repr-digest "
    b"etag last-modified accept-ranges cache-control expires retry-after trailer".split()
)
"""Headers that describe a body that is not sent."""


class _Head(msgspec.Struct):
    """What of a request decides how it is answered."""

    stream: Any = None
    model: Any = None


_read_head = msgspec.json.Decoder(_Head).decode


class ResponsesGuardMiddleware:
    """An ASGI app around `app` whose streamed Responses end the way clients act on.

    For a POST to one of `paths` (matched at the end of the path, so that mounts under a prefix and a trailing slash
    match) whose JSON body has `"stream": true`:

    - an HTTP error whose cause is in the policy's `stream_rejections` (over-length alone unless set) becomes
      HTTP 200 and the failure frames; so does such an exception of an app that has not answered yet;
    - a running stream is watched as `Relay` does, and ended when the app raises, returns early or leaves out the
      terminal event. An exception that was told to the client so goes to `on_failure`, not to the server, unless the
      policy re-raises faults.

    Everything else passes as it is: other requests, other answers, bodies in a `content-encoding` (put compression
    outside of this middleware), what a client that hung up would not read.

    `classify` takes an exception or an `HTTPAnswer` and gives a `Failure` (default: `respevents.classify`, told the
    `engine`). `repairs` and `dialect` are those of `Relay`. Each setting left None comes from the environment, where
    there is one: RESPEVENTS_PATHS and RESPEVENTS_REPAIRS (comma-separated), RESPEVENTS_POLICY (default, tensorrt_llm,
    gateway, codex), RESPEVENTS_DIALECT, RESPEVENTS_STREAM_REJECTIONS (causes, comma-separated), RESPEVENTS_WORDING,
    RESPEVENTS_EXPOSE, RESPEVENTS_ENGINE, RESPEVENTS_MAX_REQUEST, RESPEVENTS_MAX_ANSWER and RESPEVENTS_MAX_FRAME
    (bytes).
    Raises TypeError or ValueError at once, naming the setting, for one that is wrong.
    """

    def __init__(
        self,
        app: App,
        *,
        paths: Iterable[str] | None = None,
        policy: Policy | None = None,
        dialect: Dialect | None = None,
        classify: Callable[[Any], Failure] | None = None,
        engine: str | None = None,
        repairs: Collection[str] | None = None,
        on_failure: OnFailure | None = None,
        on_notice: OnNotice | None = None,
        max_request: int | None = None,
        max_answer: int | None = None,
        max_frame: int | None = None,
    ) -> None:
        if not callable(app):
            raise TypeError(f"app: expected an ASGI application, got {show(app)}")
        self.app = app
        if isinstance(paths, str):
            raise TypeError(f"paths: expected a collection of paths, got {show(paths)}. Write [{paths!r}].")
        self.paths = tuple(_path(path) for path in (_listed("PATHS", ["/v1/responses"]) if paths is None else paths))
        chosen = _policy() if policy is None else policy
        if not isinstance(chosen, Policy):
            raise TypeError(f"policy: expected a Policy, got {show(policy)}")
        self.policy = policy_of(chosen, _dialect() if dialect is None else dialect)
        self.engine = (_environment("ENGINE") or None) if engine is None else engine
        if self.engine is not None and engine_named(self.engine) is None:
            logging.getLogger("respevents").warning("engine: no rules for %s, it is inferred", show(self.engine))
        self.classify = classify or functools.partial(_classify, engine=self.engine)
        self.repairs = checked_repairs(_listed("REPAIRS", []) if repairs is None else repairs)
        self.on_failure = on_failure
        self.on_notice = on_notice
        self.max_request = _bytes("MAX_REQUEST", max_request, MAX_REQUEST)
        self.max_answer = _bytes("MAX_ANSWER", max_answer, MAX_ANSWER)
        self.max_frame = _bytes("MAX_FRAME", max_frame, DEFAULT_MAX_FRAME)
        self._relay()  # raises now what would be wrong with every stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http" or scope["method"] != "POST" or not self._guards(scope["path"]):
            await self.app(scope, receive, send)
            return
        await _Exchange(self, scope, receive, send).run()

    def _guards(self, path: str) -> bool:
        return path.rstrip("/").endswith(self.paths)

    def _relay(self, model: str = "unknown", request: Mapping[str, Any] | None = None) -> Relay:
        return Relay(
            model=model,
            request=request,
            classify=self.classify,
            policy=self.policy,
            on_failure=self.on_failure,
            on_notice=self.on_notice,
            repairs=self.repairs,
            engine=self.engine,
            max_frame=self.max_frame,
        )

    def relay_for(self, request: _Request) -> Relay:
        """A relay for the stream that answers a request."""
        return self._relay(request.model, request)


class _Request(Mapping[str, Any]):
    """The body of a request, decoded when a failure has to repeat it and not before."""

    def __init__(self) -> None:
        self._body = b""
        self._fields: dict[str, Any] | None = None
        self.model = "unknown"
        self.streamed: bool | None = None
        """None: not known, because the body is too large, encoded or no JSON."""

    def read(self, body: bytes) -> None:
        try:
            head = _read_head(body)
        except (ValueError, RecursionError):  # half of a surrogate pair for one, which the server may well take
            fields = _lenient(body)
            if fields is None:
                return
            head = _Head(fields.get("stream"), fields.get("model"))
        self._body = body
        self.streamed = head.stream is True if isinstance(head.stream, (bool, type(None))) else None
        if isinstance(head.model, str) and head.model:
            self.model = head.model

    def forget(self) -> None:
        """Let go of the body: what it says has been announced."""
        self._body, self._fields = b"", {}

    def _decoded(self) -> dict[str, Any]:
        if self._fields is None:
            try:
                value = decode_json(self._body)
            except ProtocolError:
                value = _lenient(self._body)
            self._fields = value if isinstance(value, dict) else {}
        return self._fields

    def __getitem__(self, key: str) -> Any:
        return self._decoded()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoded())

    def __len__(self) -> int:
        return len(self._decoded())


class _Exchange:
    """One request and its answer."""

    def __init__(self, owner: ResponsesGuardMiddleware, scope: Scope, receive: Receive, send: Send) -> None:
        self._owner = owner
        self._scope = scope
        self._receive = receive
        self._send = send
        self._ahead: deque[Message] = deque()  # read, and not yet by the app
        self._request = _Request()
        self._relay: Relay | None = None  # once a stream began that is guarded
        self._held: list[Message] | None = None  # an HTTP error that may become a stream
        self._held_size = 0
        self._passing = False  # the answer began and is none of our business
        self._complete = False  # the end of the body went out
        self._trailers = False  # promised and not sent
        self._gone = False  # the client
        self._fresh = True  # nothing of the stream went out yet

    async def run(self) -> None:
        await self._peek()
        if self._request.streamed is False:
            self._request.forget()
            await self._owner.app(self._scope, self._again, self._send)
            return
        try:
            await self._owner.app(self._scope, self._again, self._answer)
        except Exception as error:
            if not await self._raised(error):
                raise
        except BaseException as error:
            if not await self._cancelled(error):
                raise
        else:
            await self._returned()

    # ---- the request ----------------------------------------------------------------------------------------------

    async def _peek(self) -> None:
        """Read the body as far as the bound allows."""
        headers = _headers(self._scope)
        length = headers.get("content-length", "")
        limit = self._owner.max_request
        if headers.get("content-encoding", "identity").lower() != "identity":
            return
        if length.isascii() and length.isdigit() and (len(length) > 18 or int(length) > limit):
            return
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            self._ahead.append(message)
            if message["type"] != "http.request":
                return
            part = message.get("body", b"")
            parts.append(part)
            size += len(part)
            if size > limit:
                return
            if not message.get("more_body", False):
                break
        self._request.read(parts[0] if len(parts) == 1 else b"".join(parts))

    async def _again(self) -> Message:
        """`receive` for the app: what was read ahead, then what comes."""
        message = self._ahead.popleft() if self._ahead else await self._receive()
        if message["type"] == "http.disconnect" and not self._complete:
            self._gone = True
        return message

    # ---- the answer -----------------------------------------------------------------------------------------------

    async def _answer(self, message: Message) -> None:
        """`send` for the app."""
        kind = message["type"]
        relay = self._relay
        if relay is not None and kind == "http.response.body":
            body = message.get("body", b"")
            if not body or self._complete or not message.get("more_body", False):
                await self._body(relay, message, body)
                return
            out = relay.feed(body)
            if out is body:  # the common case, without another coroutine
                try:
                    await self._send(message)
                except Exception:
                    self._gone = True
                    raise
            elif out:
                await self._out({**message, "body": out})
            if self._fresh and relay.started:
                self._fresh = False
                self._request.forget()
            if relay.cut_off:
                await self._finish(b"")
        elif self._passing:
            await self._out(message)
        elif kind == "http.response.start":
            await self._start(message)
        elif kind == "http.response.body" and self._held is not None:
            await self._hold(self._held, message)
        else:
            if kind == "http.response.trailers":
                self._trailers = message.get("more_trailers", False)
            if self._held is not None and kind.startswith("http.response."):
                await self._release()
            await self._out(message)

    async def _start(self, message: Message) -> None:
        headers = _headers(message)
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        good = 200 <= message["status"] < 300
        plain = headers.get("content-encoding", "identity").lower() in {"identity", ""}
        if good and plain and kind == "text/event-stream":
            self._relay = self._owner.relay_for(self._request)
            self._trailers = message.get("trailers", False)
            if "content-length" in headers:  # it would not hold with an ending
                kept = [pair for pair in message["headers"] if pair[0].lower() != b"content-length"]
                message = {**message, "headers": kept}
            await self._out(message)
        elif not good and plain and self._request.streamed and (kind.endswith("+json") or kind == "application/json"):
            self._held = [message]
        else:
            self._passing = True
            await self._out(message)

    async def _body(self, relay: Relay, message: Message, body: bytes) -> None:
        """The last part of a stream, an empty one, or one that comes too late."""
        last = not message.get("more_body", False)
        if self._complete:
            if body and not last:
                raise OSError("The stream was ended: what the server sent of it could not be forwarded")
        elif not last:
            await self._out(message)
        else:
            self._complete = True
            out = relay.feed(body) if body else body
            ending = relay.close()
            if not ending:
                await self._out(message if out is body else {**message, "body": out})
                return
            if out:
                await self._out({**message, "body": out, "more_body": True})
            await self._out({**message, "body": ending})

    async def _hold(self, held: list[Message], message: Message) -> None:
        held.append(message)
        self._held_size += len(message.get("body", b""))
        if self._held_size > self._owner.max_answer:
            await self._release()
        elif not message.get("more_body", False):
            body = b"".join(part.get("body", b"") for part in held[1:])
            failure = self._classified(HTTPAnswer(held[0]["status"], _headers(held[0]), body))
            if failure is None:
                await self._release()
            else:
                await self._reject(failure, held[0].get("headers", ()))

    async def _release(self) -> None:
        """Pass on an answer that was held."""
        held, self._held, self._passing = self._held or [], None, True
        for message in held:
            await self._out(message)

    def _classified(self, error: Exception | HTTPAnswer) -> Failure | None:
        """The failure that belongs into a stream; None when it is none of those."""
        try:
            failure: object = self._owner.classify(error)
        except Exception:
            logging.getLogger("respevents").exception("classify failed for %s", show(error))
            return None
        if not isinstance(failure, Failure) or failure.cause not in self._owner.policy.stream_rejections:
            return None
        return None if failure.ending_for(self._owner.policy) == "silent" else failure

    async def _reject(self, failure: Failure, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Answer with HTTP 200 and the failure frames. Of an answer that was held its own headers stay."""
        self._held = None
        self._relay = self._owner.relay_for(self._request)
        frames = self._relay.fail(failure)
        kept = [(name, value) for name, value in headers if name.lower() not in _OF_THE_BODY]
        kept += [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await self._out({"type": "http.response.start", "status": 200, "headers": kept})
        await self._finish(frames)

    async def _finish(self, last: bytes) -> None:
        """End the body, and send what else was promised."""
        if self._complete or self._gone:
            return
        self._complete = True
        await self._out({"type": "http.response.body", "body": last, "more_body": False})
        if self._trailers:
            self._trailers = False
            await self._out({"type": "http.response.trailers", "headers": [], "more_trailers": False})

    async def _out(self, message: Message) -> None:
        try:
            await self._send(message)
        except Exception:
            self._gone = True  # how a server says so
            raise

    # ---- how the app ended ----------------------------------------------------------------------------------------

    async def _raised(self, error: Exception) -> bool:
        """The app raised: whether that was told to the client, and is done with."""
        relay = self._relay
        if relay is not None:
            if self._gone:
                relay.hang_up(error)
                return False
            if self._complete:
                return relay.cut_off and isinstance(error, OSError)
            own = self._own_fault(error) if relay.started else None
            return await self._failed(relay, own or error)
        if self._held is not None:
            await self._release()
        if self._passing or self._gone or not self._request.streamed:
            return False
        failure = self._classified(error)
        if failure is None:
            return False
        if failure.exception is None:
            failure = msgspec.structs.replace(failure, exception=error)
        await self._reject(failure)
        return True

    @staticmethod
    def _own_fault(error: Exception) -> Failure | None:
        """A failed validation in a running stream: of an event, not of the request, which was taken.

        vLLM 0.33 raises one while it tries to make an event of an error, and by then that error is lost.
        """
        if type(error).__name__ != "ValidationError":
            return None
        return Failure.from_exception(error, Cause.INTERNAL_ERROR)

    async def _cancelled(self, error: BaseException) -> bool:
        """A hang-up or a shutdown: nothing is added. A task inside the app that was cancelled is a fault of the app."""
        relay = self._relay
        if relay is None or self._complete:
            return False
        if self._gone or not _cancelled_inside(error):
            relay.fail(error)
            return False
        return await self._failed(relay, Failure.from_exception(error, Cause.INTERNAL_ERROR))

    async def _failed(self, relay: Relay, error: Exception | Failure) -> bool:
        """End a stream with a failure: whether that is all. Where the policy says nothing, the body is left cut."""
        frames = relay.fail(error)
        if frames or relay.terminal is not None:
            await self._finish(frames)
        return not relay.reraise

    async def _returned(self) -> None:
        relay = self._relay
        if self._held is not None:
            await self._release()
        elif relay is not None and not self._complete:
            if self._gone:
                relay.hang_up()
            else:
                await self._finish(relay.close())


def _cancelled_inside(error: BaseException) -> bool:
    """Whether an asyncio cancellation is not one of this very task. Python 3.10 cannot tell: no."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None or not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # another event loop
        return False
    cancelling = getattr(task, "cancelling", None)
    return cancelling is not None and cancelling() == 0


def _lenient(body: bytes) -> dict[str, Any] | None:
    """The object in a body as Python's own reader has it."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _headers(message: Mapping[str, Any]) -> dict[str, str]:
    """Headers by lower-case name; of a name that comes twice the last."""
    return {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in message.get("headers", ())}


# ---- settings -----------------------------------------------------------------------------------------------------


def _environment(name: str) -> str:
    return os.environ.get(f"RESPEVENTS_{name}", "").strip()


def _listed(name: str, default: list[str]) -> list[str]:
    text = _environment(name)
    return [word.strip() for word in text.split(",") if word.strip()] if text else default


def _path(path: object) -> str:
    if not isinstance(path, str) or not path.startswith("/") or not path.strip("/"):
        raise ValueError(f"paths: expected paths such as /v1/responses, got {show(path)}")
    return path.rstrip("/")


def _bytes(name: str, given: int | None, default: int) -> int:
    where = name.lower()
    value: object = given
    if given is None:
        text = _environment(name)
        if not text:
            return default
        where, value = f"RESPEVENTS_{name}", int(text) if text.isascii() and text.isdigit() and len(text) < 19 else text
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{where}: expected a number of bytes, got {show(value)}")
    return value


def _dialect() -> Dialect | None:
    name = _environment("DIALECT")
    try:
        return checked_dialect(name) if name else None
    except ValueError as error:
        raise ValueError(f"RESPEVENTS_DIALECT: {error}") from None


def _policy() -> Policy:
    name = _environment("POLICY") or "default"
    known = {one: getattr(Policy, one) for one in ("default", "tensorrt_llm", "gateway", "codex")}
    if name not in known:
        raise ValueError(f"RESPEVENTS_POLICY: expected one of {', '.join(known)}, got {show(name)}")
    policy: Policy = known[name]
    changes: dict[str, Any] = {}
    if causes := _listed("STREAM_REJECTIONS", []):
        changes["stream_rejections"] = frozenset(causes)
    for key in ("wording", "expose"):
        if value := _environment(key.upper()):
            changes[key] = value
    try:
        return policy.replace(**changes) if changes else policy
    except (TypeError, ValueError) as error:
        raise ValueError(f"RESPEVENTS_{', RESPEVENTS_'.join(key.upper() for key in changes)}: {error}") from error
