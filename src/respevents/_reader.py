"""What the models of clients share: the outcome, the lines of an event stream, JSON as each reads it.

Each client has its own habits, so none of this is `FrameDecoder`, which follows the standard and drops nothing.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

__all__ = ["KINDS", "Answer", "End", "Event", "Events", "Kind", "Lines", "Outcome", "Reader", "Reading", "ToolCall"]

Kind = Literal["completed", "incomplete", "context_window_full", "retry", "stop", "silent_loss"]

KINDS: Final[Mapping[Kind, str]] = {
    "completed": "the client takes the answer for whole",
    "incomplete": "it keeps what came, and says that the answer was cut short",
    "context_window_full": "it knows that the prompt is too long, and will shorten it by itself",
    "retry": "it asks again by itself, and shows an error when it has asked often enough",
    "stop": "it shows an error: it raises, or hands the failure to the application as an event",
    "silent_loss": "something was lost (text, the end of the answer, a failure), and the client says nothing",
}
"""Every `Outcome.kind`, with what it means. An empty answer that was meant to be empty is `completed`."""

End = Literal["clean", "aborted", "reset", "open"]
"""How the body ends: as HTTP says (`clean`), cut off before its end (`aborted`: the connection is closed, `reset`: it
is reset), or not at all (`open`: the server keeps quiet until the client has waited long enough)."""

_MOST_EVENTS: Final = 10_000
"""Entries of `Outcome.events`, after repeats were counted together: a bound, not a limit anybody meets."""

_MOST_BODY: Final = 1 << 20
"""Bytes that are kept of a body which is no stream: more than an error envelope has."""

_TOOL_CALLS: Final = {
    "function_call": "arguments",
    "custom_tool_call": "input",
}


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call that the application has to carry out. `input` is its arguments as the text that came."""

    type: str
    name: str
    call_id: str
    input: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a client does with one answer, asked without tools and with its default settings.

    `text` and `tool_calls` are what of this answer reaches the user; `events` names what the client surfaces, in its
    own words (`delta x3`: three in a row). `code` and `message` are those of the failure, as the user gets them.
    `requests` counts what it sends
    in all if the server always answers the same; `retry_after` are the seconds it was told to wait in between.
    `raises` is the class of the exception (`Object`: what is thrown is no Error), `status` the HTTP status it carries.
    `final` is what the last call of a helper gives (`get_final_response()`, `finalResponse()`): a status, `absent`,
    or `raises X`. `why` are short sentences: which frame decided and by which rule.
    """

    client: str
    version: str
    kind: Kind
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    code: str | None = None
    message: str | None = None
    retry_after: float | None = None
    requests: int = 1
    events: tuple[str, ...] = ()
    raises: str | None = None
    status: int | None = None
    final: str | None = None
    why: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """The head of the HTTP answer; header names in lower case."""

    status: int
    headers: Mapping[str, str]


class Reading(ABC):
    """One answer being read: bytes in, then the outcome. Sans-IO; never raises, whatever the bytes are."""

    def __init__(self, client: str, version: str, answer: Answer) -> None:
        self.client = client
        self.version = version
        self.answer = answer
        self.why: list[str] = []
        self.frames = -1
        """Number of the frame that is looked at, from 0."""
        self.body = bytearray()
        """Of an answer that is refused: what was kept of it."""
        self._events: list[list[Any]] = []

    @property
    def refused(self) -> bool:
        """The status makes the client read an error and no stream."""
        return not 200 <= self.answer.status < 300

    def keep(self, chunk: bytes) -> None:
        """Keep a piece of a body that is no stream."""
        self.body += chunk[: _MOST_BODY - len(self.body)]

    @abstractmethod
    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the body."""

    @abstractmethod
    def close(self, end: End = "clean") -> Outcome:
        """Say how the body ended, and give the outcome."""

    def say(self, sentence: str) -> None:
        """Keep a reason; the same sentence once, and no more than a reader of them takes in."""
        if sentence not in self.why and len(self.why) < 40:
            self.why.append(sentence)

    def surface(self, kind: str) -> None:
        """Note what the client hands on; repeats are counted."""
        if self._events and self._events[-1][0] == kind:
            self._events[-1][1] += 1
        elif len(self._events) < _MOST_EVENTS:
            self._events.append([kind, 1])

    @property
    def events(self) -> tuple[str, ...]:
        return tuple(kind if count == 1 else f"{kind} x{count}" for kind, count in self._events)

    def frame(self, kind: Any = None) -> str:
        """The place in words: `frame 3 (response.failed)`."""
        named = f" ({shown(kind)})" if isinstance(kind, str) and kind else ""
        return f"frame {self.frames}{named}"

    def outcome(self, kind: Kind, **more: Any) -> Outcome:
        return Outcome(
            client=self.client, version=self.version, kind=kind, events=self.events, why=tuple(self.why), **more
        )


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """The model of one client. `versions` are those that behave differently, oldest first; the last is the default."""

    name: str
    about: str
    versions: tuple[str, ...]
    opens: Callable[[str, str, Answer], Reading]

    def open(
        self, *, version: str | None = None, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Reading:
        """Start to read an answer with this HTTP head. ValueError for a version that is not one of `versions`."""
        chosen = self.versions[-1] if version is None else version
        if chosen not in self.versions:
            raise ValueError(f"{self.name} has no version {chosen!r} here; there are {', '.join(self.versions)}")
        lower = {name.lower(): value for name, value in (headers or {}).items()}
        return self.opens(self.name, chosen, Answer(status, lower))


# ---- lines and frames ------------------------------------------------------------------------------------------------

_ANY_END = re.compile(rb"[\r\n]")


class Lines:
    """Cuts bytes into lines, in any chunking.

    `cr` says what a CR without LF does: `ends` the line at once; `waits` for the byte after it, so that one which is
    the last byte of the body ends nothing; `stays` part of the line (one before LF is dropped).
    """

    def __init__(self, cr: Literal["ends", "waits", "stays"]) -> None:
        self._cr = cr
        self._rest: list[bytes] = []
        self._after_cr = False

    @property
    def open_cr(self) -> bool:
        """A CR was the last byte so far; with `waits` its line is still held."""
        return self._after_cr

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        if not chunk:
            return
        if self._cr == "stays":
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                yield self._take(line).removesuffix(b"\r")
            if rest:
                self._rest.append(rest)
            return
        if self._after_cr:
            self._after_cr = False
            if self._cr == "waits":
                yield self._take(b"")
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        start = 0
        while (found := _ANY_END.search(chunk, start)) is not None:
            at = found.start()
            if chunk[at] == 0x0A:
                yield self._take(chunk[start:at])
                start = at + 1
                continue
            last = at + 1 == len(chunk)
            if last:
                self._after_cr = True
                if self._cr == "waits":
                    self._rest.append(chunk[start:at])
                    return
            yield self._take(chunk[start:at])
            start = at + (2 if chunk[at + 1 : at + 2] == b"\n" else 1)
        if start < len(chunk):
            self._rest.append(chunk[start:])

    def _take(self, end: bytes) -> bytes:
        if not self._rest:
            return end
        self._rest.append(end)
        line = b"".join(self._rest)
        self._rest.clear()
        return line

    def finish(self) -> bytes:
        """What stands after the last end of a line."""
        return self._take(b"")


class Event(msgspec.Struct, frozen=True):
    """A frame as a client dispatched it; `name` is None without an `event:` line."""

    name: str | None
    data: str


class Events:
    """Lines of text in, events out. What makes a blank line dispatch differs:

    `dispatch="data"` needs a `data:` line, `"any"` any of `data:` and `event:`, `"fields"` also `id:` and `retry:`
    (and an `id` is never forgotten, so each blank line after it dispatches again). Only with `data` does a blank line
    that dispatches nothing clear the name.
    """

    def __init__(self, dispatch: Literal["data", "any", "fields"]) -> None:
        self._dispatch = dispatch
        self._name: str | None = None
        self._data: list[str] = []
        self._id = ""
        self._retry = False

    def line(self, line: str) -> Event | None:
        if not line:
            return self.blank()
        if line[0] == ":":
            return None
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
        elif field == "id" and "\0" not in value:
            self._id = value
        elif field == "retry":
            self._retry = self._retry or _is_int(value)
        return None

    def blank(self) -> Event | None:
        held = bool(self._data)
        if self._dispatch != "data":
            held = held or bool(self._name)
        if self._dispatch == "fields":
            held = held or bool(self._id) or self._retry
        if not held:
            if self._dispatch == "data":
                self._name = None
            return None
        event = Event(self._name, "\n".join(self._data))
        self._name, self._data, self._retry = None, [], False
        return event


def _is_int(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


# ---- JSON ------------------------------------------------------------------------------------------------------------


class NotJSONError(ValueError):
    """A client's JSON reader refuses the text."""


def python_json(text: str) -> Any:
    """As Python's `json.loads` reads it: NaN and Infinity are values. Raises ValueError or RecursionError."""
    return json.loads(text)


def strict_json(text: str, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """As JavaScript, Go and Rust read it: no NaN. Lone surrogates stay. Raises NotJSONError."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_int=_whole, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise NotJSONError(str(error)) from None


def _refuse(name: str) -> Any:
    raise NotJSONError(f"{name} is no JSON")


def _whole(digits: str) -> Any:
    try:
        return int(digits)
    except ValueError:  # Python refuses thousands of digits; the others make a float of them
        return float(digits)


def member(value: Any, *keys: str) -> Any:
    """The value down a path of objects, None where it leaves them."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def text_of(value: Any) -> str | None:
    """A string, or None."""
    return value if isinstance(value, str) else None


def code_of(value: Any) -> str | None:
    """A code as an application would print it; None where there is none."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (bool, dict, list)):
        return json.dumps(value)
    return str(value)


def shown(text: str, limit: int = 100) -> str:
    """A text of a stranger in a sentence: one line, printable, bounded."""
    flat = " ".join(text.split())
    clipped = flat if len(flat) <= limit else f"{flat[:limit]}..."
    return clipped.encode("utf-8", "backslashreplace").decode()


def joined(text: str) -> str:
    """A text as JavaScript holds it: the halves of a surrogate pair that meet are one character."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


# ---- what an answer holds --------------------------------------------------------------------------------------------


def message_text(item: Any) -> str:
    """The text of a message item; "" for other items."""
    if member(item, "type") != "message":
        return ""
    content = member(item, "content")
    if not isinstance(content, list):
        return ""
    return "".join(member(part, "text") or "" for part in content if isinstance(member(part, "text"), str))


def output_text(response: Any) -> str:
    """The text of all message items of a response object."""
    output = member(response, "output")
    return "".join(map(message_text, output)) if isinstance(output, list) else ""


def tool_call(item: Any) -> ToolCall | None:
    """The call an item stands for; None for other items."""
    kind = member(item, "type")
    key = _TOOL_CALLS.get(kind) if isinstance(kind, str) else None
    if key is None:
        return None
    return ToolCall(
        type=kind,
        name=text_of(member(item, "name")) or "",
        call_id=text_of(member(item, "call_id")) or "",
        input=text_of(member(item, key)) or "",
    )


def tool_calls(items: Iterable[Any]) -> tuple[ToolCall, ...]:
    return tuple(call for call in map(tool_call, items) if call is not None)
