"""Where one stream ends and the next begins, in a body that holds several."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from respevents._capture import Capture
from respevents._errors import RemoteProtocolError
from respevents._table import TERMINAL
from respevents.wire import FrameDecoder

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

__all__ = ["split"]

_ENDS: Final = frozenset(f"response.{state}" for state in TERMINAL)


class _Created(msgspec.Struct):
    type: str = ""
    response: msgspec.Raw = msgspec.Raw(b"{}")


class _Id(msgspec.Struct):
    id: str = ""


_read_created = msgspec.json.Decoder(_Created).decode
_read_id = msgspec.json.Decoder(_Id).decode


class _Seams:
    """Where one stream ends and the next begins, in the events of a body.

    A new stream is a `response.created` of another response, or one that comes after a terminal event or `[DONE]` and
    starts the numbers anew. One that merely came twice is a fault of its stream, and stays in it.
    """

    __slots__ = ("created", "ended")

    def __init__(self) -> None:
        self.created: str | None = None
        self.ended = False

    def starts(self, kind: str | None, data: bytes) -> bool:
        """Whether a new stream starts with this event. `kind` is what its `event:` line says."""
        if not data:
            return False
        if kind is None:
            kind = _type_of(data)
        if kind in _ENDS or data == b"[DONE]":
            self.ended = True
            return False
        if kind != "response.created":
            return False
        before, self.created = self.created, _response_id(data)
        first = before is None
        new = self.ended or (not first and self.created != before)  # what ended first may have been a continued stream
        if new or first:
            self.ended = False
        return new


def _type_of(data: bytes) -> str | None:
    """The type of an event, read only where it may matter here."""
    if b'"response.c' not in data and b'"response.' not in data and data != b"[DONE]":
        return None
    try:
        return _read_created(data).type
    except (ValueError, RecursionError):
        return None


def _response_id(data: bytes) -> str:
    try:
        return _read_id(_read_created(data).response).id
    except (ValueError, RecursionError):
        return ""


def split(capture: Capture) -> Iterator[Capture]:
    """The streams of one body, as captures that share its bytes: each is read before the next is known of."""
    parts = _sse_parts(capture) if capture.framing == "sse" else _line_parts(capture)
    state = _Shared(parts)
    number = 0
    while True:
        number += 1
        one = Capture(
            state.next_stream(),
            name=capture.name if number == 1 else f"{capture.name} (stream {number})",
            format=capture.format,
            framing=capture.framing,
            status=capture.status,
            headers=capture.headers,
            request=capture.request,
            offset=capture.offset + state.given,
        )
        yield one
        state.finish(one)
        if state.ended:
            return


class _Shared:
    """The parts of a body, dealt out stream by stream. A part of None stands between two streams."""

    def __init__(self, parts: Iterator[bytes | None]) -> None:
        self._parts = parts
        self._open = False
        self.given = 0
        self.ended = False

    def stream(self) -> Generator[bytes, None, None]:
        """What is left of the stream that was dealt last."""
        while self._open:
            try:
                part = next(self._parts, _NO_PART)
            except BaseException:
                self._open, self.ended = False, True
                raise
            if not isinstance(part, bytes):
                self._open, self.ended = False, part is _NO_PART
                break
            self.given += len(part)
            yield part

    def next_stream(self) -> Generator[bytes, None, None]:
        self._open = True
        return self.stream()

    def finish(self, capture: Capture) -> None:
        """Pass over what was not read of a stream, also when whoever read it closed it half way."""
        capture.skip()
        for _ in self.stream():
            pass


_NO_PART: Final = object()

_LARGE_FRAME: Final = 8 * 1024 * 1024
"""Bytes. A frame beyond that passes through unread: a seam is not looked for in it."""

_BLANK = re.compile(rb"\n\n|\r\n\r\n|\r\r")


def _sse_parts(capture: Capture) -> Iterator[bytes | None]:
    decoder = FrameDecoder(_LARGE_FRAME)
    seams = _Seams()
    held = bytearray()  # what the decoder took and has not given back as frames
    passing: bytes | None = None  # the last bytes of a large frame that is passing through
    for piece in capture.chunks():
        chunk = piece
        if passing is not None:
            data = passing + chunk
            found = _BLANK.search(data)
            if found is None:
                yield chunk
                passing = data[-3:]
                continue
            cut = found.end() - len(passing)
            yield chunk[:cut]
            chunk = chunk[cut:]
            passing, decoder = None, FrameDecoder(_LARGE_FRAME)
        held += chunk
        try:
            frames = decoder.feed(chunk)
        except RemoteProtocolError as error:
            frames = list(error.frames)
            passing = b""
        del held[: sum(len(frame.raw) for frame in frames)]
        yield from _dealt(frames, seams)
        if passing is not None:
            rest = bytes(held)
            held.clear()
            found = _BLANK.search(rest, 1)
            yield rest
            # A blank line in what is left is rare: frames after it in this piece are not looked at for seams.
            passing = rest[-3:] if found is None else None
            if found is not None:
                decoder = FrameDecoder(_LARGE_FRAME)
    yield from _dealt(decoder.close(), seams)


def _dealt(frames: Iterable[Any], seams: _Seams) -> Iterator[bytes | None]:
    together: list[bytes] = []
    for frame in frames:
        if seams.starts(frame.event, frame.data):
            if together:
                yield b"".join(together)
                together = []
            yield None
        together.append(frame.raw)
    if together:
        yield b"".join(together)


def _line_parts(capture: Capture) -> Iterator[bytes | None]:
    seams = _Seams()
    for chunk in capture.chunks():  # whole lines
        if b'"response.created"' not in chunk and not any(end.encode() in chunk for end in _ENDS):
            yield chunk
            continue
        together: list[bytes] = []
        for line in chunk.splitlines(keepends=True):
            if seams.starts(None, line.rstrip()):
                if together:
                    yield b"".join(together)
                    together = []
                yield None
            together.append(line)
        if together:
            yield b"".join(together)
