"""How OpenAI's own libraries read a stream: openai-python, openai-node and openai-go, `create` with `stream=True`.

They hand every event on and judge none of them; what they differ in is the event stream itself, the JSON, and which
frames they raise on. Sources: `openai/_streaming.py` of 2.48.0 and 3.57.0, `core/streaming` and
`internal/decoders/line` of openai-node 6.49.0 and 7.59.0, `packages/ssestream` of openai-go; all of it was run.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, Literal

from respevents._delays import retry_after
from respevents._reader import (
    Answer,
    End,
    Event,
    Events,
    Kind,
    Lines,
    NotJSONError,
    Outcome,
    Reader,
    Reading,
    code_of,
    joined,
    member,
    output_text,
    python_json,
    shown,
    strict_json,
    text_of,
    tool_call,
    tool_calls,
)
from respevents.lifecycle import TERMINAL

__all__ = ["GO", "NODE", "PYTHON", "NodeReading", "PythonReading", "Raised", "SdkReading", "http_error"]

_HTTP_REQUESTS: Final = 3
"""One request and `max_retries`, 2 by default in all of them."""

_LONGEST_WAIT: Final = 60.0
"""Seconds: a `retry-after` beyond a minute is not kept to."""

_ENDS: Final = frozenset(f"response.{state}" for state in TERMINAL)

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Raised(Exception):  # noqa: N818 - it stands for an exception of the client
    """The client raises: class, text, and the code its error object has."""

    def __init__(self, name: str, message: str = "", code: str | None = None) -> None:
        super().__init__(message)
        self.name = name
        self.message = message
        self.code = code


class SdkReading(Reading):
    """What is the same in the three: events are handed on until something raises or the body ends."""

    cr: Literal["ends", "waits", "stays"] = "ends"
    dispatch: Literal["data", "any", "fields"] = "any"
    classes: dict[int, str]
    """HTTP status -> exception class."""
    other_class: str
    server_class: str

    def __init__(self, client: str, version: str, answer: Answer) -> None:
        super().__init__(client, version, answer)
        self._lines = Lines(self.cr)
        self._sse = Events(self.dispatch)
        self.raised: Raised | None = None
        self.stopped = False
        """Nothing more is read: an exception, or `[DONE]`."""
        self._deltas: list[str] = []
        self._called: list[Any] = []
        self._terminal: tuple[str, Any, str] | None = None
        self._error: tuple[Any, str] | None = None

    # -- bytes

    def feed(self, chunk: bytes) -> None:
        if self.refused:
            self.keep(chunk)
            return
        if self.stopped or not chunk:
            return
        for line in self._lines.feed(chunk):
            self._line(line)
            if self._over():
                return

    def _over(self) -> bool:
        return self.stopped

    def _line(self, line: bytes) -> None:
        try:
            event = self._sse.line(self.decode(line))
            if event is not None:
                self._dispatch(event)
        except Raised as raised:
            self._stop(raised)

    def _dispatch(self, event: Event) -> None:
        self.frames += 1
        self.take(event)

    def _stop(self, raised: Raised) -> None:
        self.raised = raised
        self.stopped = True

    def _ends_here(self) -> None:
        self.say(f"{self.frame('[DONE]')}: reading ends here")
        self.stopped = True

    def decode(self, line: bytes) -> str:
        """A line of bytes as text; may raise Raised."""
        return line.decode("utf-8", "replace")

    def take(self, event: Event) -> None:
        """Act on one dispatched event; may raise Raised."""
        raise NotImplementedError

    def last_line(self, line: bytes) -> None:
        """The body ended cleanly; `line` is what stands behind the last end of a line."""
        if line:
            self._line(line)

    # -- events

    def deliver(self, data: Any) -> None:
        """Hand a decoded event to the application; may raise Raised."""
        self.note(data)

    def note(self, data: Any) -> None:
        """Keep what the outcome is made of."""
        kind = member(data, "type")
        kind = kind if isinstance(kind, str) else None
        self.surface(kind or "?")
        if kind in {"response.output_text.delta", "response.refusal.delta"}:
            delta = text_of(member(data, "delta"))
            if delta:
                self._deltas.append(delta)
        elif kind == "response.output_item.done":
            if tool_call(member(data, "item")) is not None:
                self._called.append(data["item"])
        elif kind == "error":
            self._error = (data, self.frame("error"))
        elif kind in _ENDS:
            self._terminal = (kind, member(data, "response"), self.frame(kind))

    # -- the end

    def close(self, end: End = "clean") -> Outcome:
        if self.refused:
            return http_error(self, bytes(self.body))
        if not self.stopped:
            rest = self._lines.finish()
            if end == "clean":
                self.last_line(rest)
            else:
                raised = self.broken(end)
                what = {"aborted": "was cut off", "reset": "was cut off by a reset", "open": "never ended"}[end]
                self.say(f"the body {what} after frame {self.frames}: {raised.name}, whatever events came before")
                self._stop(raised)
        return self.verdict()

    def broken(self, end: End) -> Raised:
        """What is raised when the body does not end as it should."""
        raise NotImplementedError

    def verdict(self) -> Outcome:
        """The outcome, once nothing more comes."""
        final, raises = self.final()
        kind: Kind
        code: str | None = None
        message: str | None = None
        if self.raised is not None:
            return self.outcome(
                "stop",
                text=self.text,
                tool_calls=self.calls,
                code=self.raised.code,
                message=self.raised.message,
                raises=self.raised.name,
                final=None,
            )
        if self._terminal is not None:
            name, response, place = self._terminal
            if name == "response.completed":
                kind = "completed"
                self.say(f"{place}: handed on as an event; the last terminal event decides")
            elif name == "response.incomplete":
                kind, code = "incomplete", text_of(member(response, "incomplete_details", "reason"))
                self.say(f"{place}: handed on as an event, nothing is raised")
            else:
                kind = "stop"
                code, message = (
                    code_of(member(response, "error", "code")),
                    text_of(member(response, "error", "message")),
                )
                self.say(f"{place}: handed on as an event, nothing is raised: the application has to look at it")
        elif self._error is not None:
            data, place = self._error
            kind = "stop"
            code, message = code_of(member(data, "code")), text_of(member(data, "message"))
            self.say(f"{place}: handed on as an event, nothing is raised: the application has to look at it")
        else:
            self.say(f"the body ended after frame {self.frames} without a terminal event, and nobody objects")
            kind = "silent_loss"
            if raises is not None:
                kind, message = "stop", raises.message
        return self.outcome(
            kind, text=self.text, tool_calls=self.calls, code=code, message=message, final=final, raises=None
        )

    def final(self) -> tuple[str | None, Raised | None]:
        """What the helper's last call gives: a word for `Outcome.final`, and what it raises."""
        return None, None

    @property
    def text(self) -> str:
        """What the deltas gave; without any, what the terminal event holds."""
        if self._deltas or self._terminal is None:
            return self.as_held("".join(self._deltas))
        return self.as_held(output_text(self._terminal[1]))

    def as_held(self, text: str) -> str:
        """A text as the language holds it."""
        return text

    @property
    def calls(self) -> Any:
        if self._called or self._terminal is None:
            return tool_calls(self._called)
        output = member(self._terminal[1], "output")
        return tool_calls(output) if isinstance(output, list) else ()

    def class_for(self, status: int) -> str:
        return self.classes.get(status) or (self.server_class if status >= 500 else self.other_class)


def http_error(reading: SdkReading, body: bytes) -> Outcome:
    """An answer that is no stream: an exception by its status, after two more requests where asking again may help."""
    answer = reading.answer
    text = body.decode("utf-8", "replace")
    try:
        data: Any = strict_json(text)
    except NotJSONError:
        data = None
    error = member(data, "error") if isinstance(data, dict) and "error" in data else data
    again = answer.headers.get("x-should-retry")
    retried = answer.status in {408, 409, 429} or answer.status >= 500
    if again in {"true", "false"}:
        retried = again == "true"
    wait = retry_after("", answer.headers) if retried else None
    name = reading.class_for(answer.status)
    reading.say(
        f"HTTP {answer.status}: {name}"
        + (f", after {_HTTP_REQUESTS} requests (408, 409, 429 and 500 up are asked again)" if retried else "")
    )
    return reading.outcome(
        "retry" if retried else "stop",
        code=code_of(member(error, "code")),
        message=text_of(member(error, "message")) or shown(text, 500),
        retry_after=wait if wait is not None and 0 < wait <= _LONGEST_WAIT else None,
        requests=_HTTP_REQUESTS if retried else 1,
        raises=name,
        status=answer.status,
    )


# ---- openai-python ---------------------------------------------------------------------------------------------------


class PythonReading(SdkReading):
    """`openai/_streaming.py`: `Stream.__stream__` over `SSEDecoder`."""

    dispatch = "fields"
    classes = {  # noqa: RUF012 - the same for every reading
        400: "BadRequestError",
        401: "AuthenticationError",
        403: "PermissionDeniedError",
        404: "NotFoundError",
        409: "ConflictError",
        422: "UnprocessableEntityError",
        429: "RateLimitError",
    }
    other_class = "APIStatusError"
    server_class = "InternalServerError"

    def decode(self, line: bytes) -> str:
        try:
            return line.decode("utf-8")
        except UnicodeDecodeError as error:
            self.say(f"after frame {self.frames}: a line is no UTF-8, and each is decoded strictly")
            raise Raised("UnicodeDecodeError", str(error)) from None

    def take(self, event: Event) -> None:
        if event.data.startswith("[DONE]"):
            self._ends_here()
            return
        try:
            data = python_json(event.data)
        except RecursionError as error:
            raise Raised("RecursionError", str(error)) from None
        except ValueError as error:
            name = "JSONDecodeError" if isinstance(error, json.JSONDecodeError) else "ValueError"
            self.say(f"{self.frame(event.name)}: no JSON, and `sse.json()` raises")
            raise Raised(name, str(error)) from None
        if event.name is not None and event.name.startswith("thread."):
            self.deliver({"event": event.name, "data": data})
            return
        given = member(data, "error")
        if given:
            self.say(f"{self.frame(data.get('type'))}: a top-level `error` that is not empty: APIError")
            message = text_of(member(given, "message")) or "An error occurred during streaming"
            raise Raised("APIError", message, code_of(member(given, "code")))
        self.deliver(data)

    def broken(self, end: End) -> Raised:
        if self.version == "2.48":
            if end == "open":
                return Raised("ReadTimeout", "The read operation timed out")
            if end == "reset":
                return Raised("ReadError", "[Errno 104] Connection reset by peer")
            message = "peer closed connection without sending complete message body (incomplete chunked read)"
            return Raised("RemoteProtocolError", message)
        if end == "open":
            return Raised("APITimeoutError", "Request timed out.")
        return Raised("APIConnectionError", "Connection error.")


# ---- openai-node -----------------------------------------------------------------------------------------------------


def truthy(value: Any) -> bool:
    """As JavaScript sees it: an empty object or array is true."""
    return isinstance(value, (dict, list)) or bool(value)


class NodeReading(SdkReading):
    """`Stream.fromSSEResponse` over `SSEDecoder` and `LineDecoder`."""

    classes = PythonReading.classes
    other_class = "APIError"
    server_class = "InternalServerError"

    def __init__(self, client: str, version: str, answer: Answer) -> None:
        super().__init__(client, version, answer)
        self.new = version != "6.49"
        if not self.new:
            self._lines = Lines("waits")
        self._after_done = False
        """6.x reads on behind `[DONE]`, and drops what comes."""

    def decode(self, line: bytes) -> str:
        return line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")  # one TextDecoder call for each line

    def take(self, event: Event) -> None:
        if self._after_done:
            return
        if event.data == "[DONE]" or (not self.new and event.data.startswith("[DONE]")):
            self._ends_here()
            self.stopped, self._after_done = self.new, True
            return
        try:
            data = strict_json(event.data)
        except NotJSONError:
            self.say(f"{self.frame(event.name)}: no JSON, and JSON.parse throws")
            raise Raised("SyntaxError", "Error reading response: malformed server-sent event JSON.") from None
        if event.name is not None and event.name.startswith("thread."):
            self.deliver({"event": event.name, "data": data})
            return
        error = member(data, "error")
        if self.new and event.name == "error":
            self.say(f"{self.frame(event.name)}: the line `event: error` makes it an APIError (7.x)")
            raise self._api_error(data if error is None else error)
        if truthy(error):
            self.say(f"{self.frame(member(data, 'type'))}: a top-level `error` that is not empty: APIError")
            raise self._api_error(error)
        self.deliver(data)

    def as_held(self, text: str) -> str:
        return joined(text)

    @staticmethod
    def _api_error(error: Any) -> Raised:
        message = text_of(member(error, "message"))
        return Raised("APIError", message or json.dumps(error), code_of(member(error, "code")))

    def last_line(self, line: bytes) -> None:
        if not self.new and self._lines.open_cr:
            self._line(line)  # the LF that 6.x puts behind the body ends the line
            return
        super().last_line(line)
        if self.new and not self.stopped:
            self._line(b"")  # 7.x delivers a last frame without its blank line

    def broken(self, end: End) -> Raised:
        return Raised("TypeError", "terminated" if end != "open" else "terminated: Body Timeout Error")


# ---- openai-go -------------------------------------------------------------------------------------------------------


class GoReading(SdkReading):
    """`ssestream.Stream.Next` over a `bufio.Scanner`."""

    cr = "stays"
    dispatch = "data"
    classes: dict[int, str] = {}  # noqa: RUF012 - the same for every reading
    other_class = server_class = "Error"

    @property
    def refused(self) -> bool:
        return self.answer.status >= 400

    def take(self, event: Event) -> None:
        if event.data.startswith("[DONE]"):
            self._ends_here()
            return
        try:
            data, bad = strict_json(event.data), False
        except NotJSONError:
            data, bad = _lenient(event.data), True
        if isinstance(data, dict) and "error" in data:
            self.say(f"{self.frame(data.get('type'))}: a top-level key `error`, whatever it holds, is a StreamError")
            error = data["error"]
            message = error if isinstance(error, str) else json.dumps(error)
            raise Raised("StreamError", f"received error while streaming: {message}", code_of(member(error, "code")))
        if bad:
            self.say(f"{self.frame(event.name)}: no JSON, and json.Unmarshal gives an error")
            raise Raised("SyntaxError", "invalid character in the JSON of a frame")
        if event.name is not None and event.name.startswith("thread."):
            data = {"event": event.name, "data": data}
        self.deliver(data)

    def as_held(self, text: str) -> str:
        return text if text.isascii() else _SURROGATE.sub("\ufffd", text)

    def broken(self, end: End) -> Raised:
        if end == "reset":
            return Raised("OpError", "read tcp: read: connection reset by peer")
        if end == "open":
            return Raised("deadlineExceededError", "context deadline exceeded")
        return Raised("errorString", "unexpected EOF")


def _lenient(text: str) -> Any:
    """What gjson may find in a text that is no JSON by the rules: NaN does not stop it."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


PYTHON: Final = Reader(
    name="openai-python",
    about="openai-python, responses.create(stream=True)",
    versions=("2.48", "3.57"),
    opens=PythonReading,
)
NODE: Final = Reader(
    name="openai-node",
    about="openai-node, responses.create({stream: true})",
    versions=("6.49", "7.59"),
    opens=NodeReading,
)
GO: Final = Reader(
    name="openai-go",
    about="openai-go, Responses.NewStreaming",
    versions=("3.52",),
    opens=GoReading,
)
