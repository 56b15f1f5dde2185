"""The incremental decoder of event streams, by the WHATWG text "Server-sent events", section 9.2.6.

Sans-IO and bounded. Every byte is looked at once, however the body is cut into chunks, and what comes out does
not depend on the cutting. Two choices go past that text, for readers of captures: a last frame without its
blank line is delivered (`complete=False`), and nothing is dropped: every byte of the body lies in one `Frame.raw`.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from respevents._errors import LocalProtocolError, RemoteProtocolError, show

__all__ = ["DEFAULT_MAX_FRAME", "Frame", "FrameDecoder"]

DEFAULT_MAX_FRAME = 64 * 1024 * 1024
"""Bytes. The largest frame seen holds a base64 image of some megabytes; what never ends must not fill the memory."""

_BOM = b"\xef\xbb\xbf"

_BLANK_LINE = re.compile(rb"[\r\n](?:\r\n?|(?<=\n)\n)")
"""An end of line, and the end of the empty line after it. An end is LF, CR LF or a lone CR."""

_LINE_END = re.compile(rb"\r\n|\n|\r")

_REACH = 3
"""Bytes a blank line can reach back before a chunk: CR LF CR of CR LF CR LF. A byte order mark fits in as well."""


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One block of the stream, up to and with the blank line that ends it.

    `event` is the value of the last `event:` line; None when there is none, or an empty one. `data` joins the `data:`
    lines with LF; it is `b""` for a block without them (comments, a lone blank line). `raw` is the whole block,
    `offset` its first byte in the body. `complete` is False for a last block whose blank line never came.
    """

    event: str | None
    data: bytes
    raw: bytes
    offset: int
    complete: bool = True


def _plain_frame(data: bytes, start: int, offset: int) -> Frame | None:
    """The frame at `start` if it is whole and written as OpenAI writes it, in LF. All others go the general way,
    which gives the same result.
    """
    if not data.startswith(b"event: ", start):
        return None
    name = start + 7
    line = data.find(b"\n", name)
    if line <= name or not data.startswith(b"\ndata: ", line):
        return None
    value = line + 7
    stop = data.find(b"\n", value)
    if stop < 0 or data[stop + 1 : stop + 2] != b"\n":
        return None
    return Frame(data[name:line].decode("utf-8", "replace"), data[value:stop], data[start : stop + 2], offset)


def _as_bytes(chunk: Any) -> bytes:
    if isinstance(chunk, (bytes, bytearray, memoryview)):
        return bytes(chunk)
    raise LocalProtocolError(
        "The decoder takes bytes",
        got=show(chunk),
        fix="Read the body as bytes: str readers cut lines at characters that are part of the JSON.",
    )


class FrameDecoder:
    """Bytes of an event-stream body in, frames out.

    `max_frame` bounds the bytes of one frame and so the memory held (twice that while a frame is being cut out).
    A CR that may be the first half of CR LF keeps its frame back until the next byte; streams of LF or CR LF are
    delivered with the last byte of each blank line.
    """

    __slots__ = ("_closed", "_failed", "_head", "_max_frame", "_offset", "_tail")

    def __init__(self, max_frame: int = DEFAULT_MAX_FRAME) -> None:
        if max_frame < 1:
            raise ValueError(f"max_frame must be at least 1 byte, got {max_frame}")
        self._max_frame = max_frame
        self._offset = 0  # of the first byte not delivered yet
        self._head = bytearray()  # of the open frame: searched, holds no blank line
        self._tail = b""  # its last bytes, in which a blank line may have begun
        self._closed = False
        self._failed: RemoteProtocolError | None = None

    def feed(self, chunk: bytes | bytearray | memoryview) -> list[Frame]:
        """Take the next bytes and give the frames they complete.

        Raises RemoteProtocolError when a frame grows past `max_frame`: `.frames` holds those completed before it in
        this call. The decoder stays failed and raises again. Raises LocalProtocolError after `close()`.
        """
        if self._failed is not None:
            raise RemoteProtocolError(self._failed.what, offset=self._failed.offset, fix=self._failed.fix)
        if self._closed:
            raise LocalProtocolError(
                "The decoder is closed", event="feed", state="closed", fix="Use a new FrameDecoder for each body."
            )
        if type(chunk) is not bytes:
            chunk = _as_bytes(chunk)
        if not chunk:
            return []
        data = self._tail + chunk if self._tail else chunk
        end = len(data)
        frames: list[Frame] = []
        start = 0
        plain = b"\r" not in data
        while start < end:
            if plain and not self._head and (frame := _plain_frame(data, start, self._offset)) is not None:
                length = len(frame.raw)
                if length > self._max_frame:
                    self._fail(frames)
                frames.append(frame)
                self._offset += length
                start += length
                continue
            stop = self._find_end(data, start, plain=plain)
            if stop < 0:
                break
            raw = bytes(self._head) + data[start:stop] if self._head else data[start:stop]
            if len(raw) > self._max_frame:
                self._fail(frames)
            self._head = bytearray()
            frames.append(self._frame(raw, complete=True))
            start = stop
        if start == end:
            self._tail = b""
            return frames
        if len(self._head) + end - start > self._max_frame:
            self._fail(frames)
        cut = max(start, end - _REACH)
        if self._offset == 0 and not self._head and end - start <= len(_BOM) + 2:
            cut = start  # a byte order mark and a line end are looked at together
        if cut > start:
            self._head += memoryview(data)[start:cut]
        self._tail = data[cut:]
        return frames

    def close(self) -> list[Frame]:
        """Say that the body has ended, and give what is left of it: one frame, or none. Closing twice gives none."""
        rest = bytes(self._head) + self._tail
        self._head, self._tail = bytearray(), b""
        if self._closed or self._failed is not None or not rest:
            self._closed = True
            return []
        self._closed = True
        # Only a CR can have been kept back behind a blank line that was complete already.
        whole = self._starts_blank(rest, 0) > 0 or re.search(rb"[\r\n]\r\Z", rest) is not None
        return [self._frame(rest, complete=whole)]

    def _starts_blank(self, data: bytes, start: int) -> int:
        """The end of an empty line at the very start of a frame; 0 when there is none."""
        if self._offset == 0 and data.startswith(_BOM, start):
            start += len(_BOM)
        match = _LINE_END.match(data, start)
        return match.end() if match else 0

    def _find_end(self, data: bytes, start: int, *, plain: bool) -> int:
        """The end of the frame that starts or goes on at `start`; -1 when the data does not (surely) hold it."""
        stop = 0 if self._head else self._starts_blank(data, start)
        if not stop:
            if plain:  # asked once a chunk: looking for a CR behind each frame would be quadratic
                at = data.find(b"\n\n", start)
                return at + 2 if at >= 0 else -1
            match = _BLANK_LINE.search(data, start)
            if match is None:
                return -1
            stop = match.end()
        if stop == len(data) and data[-1:] == b"\r":
            return -1
        return stop

    def _frame(self, raw: bytes, *, complete: bool) -> Frame:
        text = raw[len(_BOM) :] if self._offset == 0 and raw.startswith(_BOM) else raw
        lines = _LINE_END.split(text) if b"\r" in text else text.split(b"\n")
        event: bytes | None = None
        data: list[bytes] = []
        for line in lines:
            if line.startswith(b"data"):
                name, _, value = line.partition(b":")
                if name == b"data":
                    data.append(value.removeprefix(b" "))
            elif line.startswith(b"event"):
                name, _, value = line.partition(b":")
                if name == b"event":
                    event = value.removeprefix(b" ")
        frame = Frame(
            event.decode("utf-8", "replace") if event else None, b"\n".join(data), raw, self._offset, complete
        )
        self._offset += len(raw)
        return frame

    def _fail(self, frames: list[Frame]) -> None:
        self._head, self._tail = bytearray(), b""
        self._failed = RemoteProtocolError(
            f"A frame is longer than {self._max_frame} bytes",
            offset=self._offset,
            fix="Raise max_frame if frames of this size are meant.",
            frames=frames,
        )
        raise self._failed
