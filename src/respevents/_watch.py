"""What is known of a stream that is being forwarded: how far it got, what it announced, and how to end it.

Sans-IO. `feed` takes what goes out to the client, cut anywhere; nothing is changed or held back. A delta costs one
look at its `type` and `sequence_number`; the objects a failed snapshot needs are kept as bytes and only read when a
stream has to be ended. What counts is the JSON of a whole frame, so a marker quoted inside a text is just text.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from respevents._dialect import DONE
from respevents._errors import ProtocolError, RemoteProtocolError
from respevents._table import TERMINAL
from respevents.wire import DEFAULT_MAX_FRAME, Frame, FrameDecoder, decode_json

__all__ = ["ENDS", "MAX_ITEMS", "Watch"]

ENDS: Final = frozenset(f"response.{state}" for state in TERMINAL)
"""The events after which nothing follows."""

_ANNOUNCING: Final = frozenset({"response.queued", "response.created", "response.in_progress"})
_KEPT: Final = ENDS | _ANNOUNCING | {"response.output_item.done", "error"}

MAX_ITEMS: Final = 16 * 1024 * 1024
"""Bytes of finished items that are kept for a failed snapshot. Those past the bound are left out of it."""


class _Head(msgspec.Struct):
    """The part of an event that every frame is looked at for."""

    type: str | None = None
    sequence_number: int | None = None


_LF: Final = 10
_read_head = msgspec.json.Decoder(_Head).decode


class Watch:
    """The state of one forwarded stream.

    `next_number` is the sequence number the next event should carry: one more than the highest forwarded, or the
    count of events where they carry none. `terminal` is the type of the terminal event, None before it. `started`
    says whether any event but a keepalive went out: then it is too late for `response.created`. `held` counts the bytes
    of a frame that went out in part, `fed` those the decoder was given. `marked`: `[DONE]` went out.
    """

    __slots__ = (
        "_announced",
        "_decoder",
        "_error",
        "_items",
        "_last",
        "_max_frame",
        "_room",
        "_tail",
        "_torn",
        "fed",
        "frame_at",
        "held",
        "marked",
        "next_number",
        "started",
        "terminal",
    )

    def __init__(self, max_frame: int = DEFAULT_MAX_FRAME) -> None:
        self._decoder = FrameDecoder(max_frame)
        self._max_frame = max_frame
        self.frame_at = 0
        self.fed = 0  # bytes the decoder took
        self.held = 0  # those of them that belong to a frame not complete yet
        self._tail = b""  # their last ones: what a cut character or line looks like
        self._torn = False  # a frame over the bound was partly sent
        self._announced = b""
        self._error = b""
        self._last = b""
        self._items: list[bytes] = []
        self._room = MAX_ITEMS
        self.next_number = 0
        self.started = False
        self.terminal: str | None = None
        self.marked = False

    def feed(self, chunk: bytes) -> None:
        """Take bytes that are about to go out.

        Raises RemoteProtocolError for a frame over the bound: `chunk` must not go out, the stream can only be ended.
        """
        if not self.held and len(chunk) <= self._max_frame:
            # What a server sends, `event:`, `data:` and a blank line in LF: without the decoder and its bookkeeping.
            line, end = chunk.find(b"\n", 7), len(chunk) - 2
            if (
                line > 7
                and chunk.startswith(b"event: ")
                and chunk.startswith(b"data: ", line + 1)
                and chunk.find(b"\n", line + 7) == end
                and chunk[-1] == _LF
                and chunk.find(b"\r") < 0
            ):
                self.frame_at = 0
                self._note(chunk[line + 7 : end], chunk[7:line])
                return
        try:
            frames = self._decoder.feed(chunk)
        except RemoteProtocolError as error:
            # Its first byte lies before this chunk: the client has a part of it.
            self._torn = error.offset is not None and error.offset < self.fed
            raise
        self.fed += len(chunk)
        self.held += len(chunk) - sum(len(frame.raw) for frame in frames)
        self._tail = chunk[-4:] if len(chunk) >= 4 else (self._tail + chunk)[-4:]
        before = self.fed - len(chunk)
        for frame in frames:
            self.frame_at = frame.offset - before
            self._note(frame.data, frame.event)

    def note(self, frame: Frame) -> None:
        """Take account of a frame whose bytes were not fed."""
        self._note(frame.data, frame.event)

    def _note(self, data: bytes, name: str | bytes | None) -> None:
        if not data:
            return
        self._last = data
        try:
            head = _read_head(data)
            kind, number = head.type, head.sequence_number
        except (ValueError, RecursionError):
            # No strict JSON, or a number of another type. It went out all the same: half of a surrogate pair in each
            # of two deltas is common, and lenient clients read it.
            event = _lenient(data)
            if event is None:
                self._unreadable(data)
                return
            kind, number = _type_and_number(event)
        if not kind:
            kind = name.decode("utf-8", "replace") if isinstance(name, bytes) else name or ""
            if not kind and _bare_error(data):
                kind = "error"
        expected = self.next_number
        self.next_number = number + 1 if number is not None and number >= expected else expected + (number is None)
        if not self.started and kind != "keepalive":
            self.started = True
        if kind in _KEPT:
            self._keep(kind, data)

    def _unreadable(self, data: bytes) -> None:
        """A frame whose data is no JSON object; it went out all the same."""
        if data.strip() == DONE:
            self.marked = True

    def _keep(self, kind: str, data: bytes) -> None:
        if kind == "response.output_item.done":
            if len(data) <= self._room:
                self._room -= len(data)
                self._items.append(data)
            else:
                self._room = 0  # a later, smaller item would leave a hole in the middle of the output
        elif kind in ENDS:
            self.terminal = self.terminal or kind
        elif kind in _ANNOUNCING:
            self._announced = data
        else:
            self._error = data

    def snapshot(self) -> dict[str, Any]:
        """The response as last announced, strict JSON or not; {} when none was."""
        response = (_lenient(self._announced) or {}).get("response")
        return cast("dict[str, Any]", response) if isinstance(response, dict) else {}

    def items(self) -> list[Any]:
        """The items that were done, in stream order."""
        events = [_lenient(data) or {} for data in self._items]
        return [event["item"] for event in events if "item" in event]

    def error(self) -> dict[str, Any] | None:
        """`code`, `message` and whatever else an `error` event said that went out, in any of its shapes; or None."""
        event = _lenient(self._error)
        nested = event and event.get("error")
        if isinstance(nested, str):  # some gateways write {"error": "text"}
            return {"message": nested}
        return cast("dict[str, Any]", nested) if isinstance(nested, dict) else event

    def last_error(self) -> str | None:
        """The last event, when it has a top-level `error` that says nothing."""
        return raw_error(self._last)

    def close(self) -> bytes:
        """End the body: the bytes that keep a half-sent frame apart from what follows; b"" when there is none.

        A frame whose data is cut gets its blank line: it becomes an event of its own, and is noted as one if its JSON
        is whole. Lines without data, or cut before it, are ended and no more: the next frame overrides their `event:`
        and adds to their `data:`, while an event without data makes most clients raise. A cut character is completed,
        because readers that decode UTF-8 before they look for lines would stop at it.
        """
        rest = self._decoder.close()
        if self._torn:
            return _complete_character(self._tail) + b"\n\n"
        if not rest or rest[0].complete:
            for frame in rest:
                self._note(frame.data, frame.event)
            return b""
        frame = rest[0]
        raw = frame.raw
        ended = raw[-1:] in {b"\n", b"\r"}
        if not _has_data(raw) or not frame.data:
            return b"" if ended else _complete_character(raw) + b"\n"
        self._note(frame.data, frame.event)
        return b"\n" if raw[-1:] == b"\n" else _complete_character(raw) + b"\n\n"


def raw_error(data: bytes) -> str | None:
    """An event with a top-level `error`, null included, that says nothing of what happened: as text. None for others.

    openai-go aborts a stream at such a key, whatever it holds, and its error then has an empty message.
    """
    if b'"error"' not in data:
        return None
    event = _lenient(data)
    if event is None or "error" not in event:
        return None
    error = event["error"]
    told = (
        error if isinstance(error, str) else error.get("message") if isinstance(error, dict) else event.get("message")
    )
    return None if told else data.decode("utf-8", "replace")


def _lenient(data: bytes) -> dict[str, Any] | None:
    """The object in a `data` value as the most lenient clients read it; None when there is none."""
    value: Any
    try:
        value = decode_json(data)
    except ProtocolError:
        import json

        try:
            value = json.loads(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


def _bare_error(data: bytes) -> bool:
    """Whether an event without a type is `{"error": ...}`, as llama.cpp and some gateways write it."""
    return b'"error"' in data and (_lenient(data) or {}).get("error") is not None


def _type_and_number(event: dict[str, Any]) -> tuple[str, int | None]:
    kind, number = event.get("type"), event.get("sequence_number")
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(number, bool) or not isinstance(number, int):
        number = None
    return kind if isinstance(kind, str) else "", number


def _has_data(raw: bytes) -> bool:
    lines = raw.replace(b"\r", b"\n").split(b"\n")
    return any(line.startswith(b"data:") or line == b"data" for line in lines)


def _complete_character(raw: bytes) -> bytes:
    """The bytes that turn a character cut at the end of `raw` into some whole one."""
    for back in range(1, min(3, len(raw)) + 1):
        lead = raw[-back]
        if lead < 0x80:
            return b""
        if lead < 0xC0:
            continue
        missing = (2 if lead < 0xE0 else 3 if lead < 0xF0 else 4) - back
        if missing <= 0:
            return b""
        # The second byte of some leads has a range of its own; A0 lies in that of E0, 90 in that of F0.
        second = b"\xa0" if lead == 0xE0 else b"\x90" if lead == 0xF0 else b"\x80"
        return second + b"\x80" * (missing - 1) if back == 1 else b"\x80" * missing
    return b""
