"""Bytes with a look ahead, from wherever a capture lies: a path, standard input, an open file, chunks, gzip.

One chunk is held at a time, and what was looked at. What unpacks is bounded by total and by ratio, so a small
file cannot fill the disk, the memory or the day.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Union

import msgspec

from respevents._errors import RemoteProtocolError, show
from respevents.wire import DEFAULT_MAX_FRAME

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["CaptureError", "Limits", "NoStreamError", "Origin", "Source", "inflate", "open_source"]

CHUNK: Final = 64 * 1024
GZIP_MAGIC: Final = b"\x1f\x8b"
_FREE_RATIO: Final = 64 * 1024 * 1024
"""Bytes that may unpack before the ratio counts: a short file of one repeated line is no bomb."""

Origin = Union[bytes, bytearray, memoryview, str, "os.PathLike[str]", BinaryIO, Iterable[bytes]]
"""Where a capture can be read from: its bytes, a path (`-` is standard input), a binary file, chunks of bytes."""


class CaptureError(RemoteProtocolError):
    """A capture cannot be read: what is wrong, in which file at which byte, and how to mend it."""


class NoStreamError(CaptureError):
    """A dump of HTTP answers without a stream in it: refusals, or answers that were not streamed.

    `status`, `headers` and `body` (its first 64 KiB at least) are those of the first answer.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes

    _fields = (*CaptureError._fields, "status", "headers", "body")

    def __init__(self, what: str, *, status: int, headers: Mapping[str, str], body: bytes, **more: Any) -> None:
        self.__dict__.update(status=status, headers=headers, body=body)
        super().__init__(what, **more)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of the readers, in bytes. What passes one is refused with a `CaptureError` that names it."""

    line: int = DEFAULT_MAX_FRAME
    """A line of JSON lines. Event streams have no bound here: their lines pass through in pieces."""
    headers: int = 256 * 1024
    """The header lines of one answer, and any other line of a dump that is no body."""
    document: int = 256 * 1024 * 1024
    """A HAR file, a cassette, a JSON array: read whole, because a parser needs all of it, at several times its size in
    memory. Also what the bodies inside one may unpack to."""
    yaml: int = 64 * 1024 * 1024
    """A YAML document: its parser takes longer and holds more for each byte than that of JSON."""
    unpacked: int = 16 * 1024 * 1024 * 1024
    """What a gzip file may unpack to. It streams, so this bounds time, not memory."""
    ratio: int = 500
    """Unpacked to packed bytes of gzip, past the first 64 MiB. Streams reach 100, bombs 1,000."""


class Source:
    """Bytes in order, with a look ahead. `offset` is that of the first byte not taken."""

    __slots__ = ("_at", "_chunks", "_data", "ended", "name", "offset")

    def __init__(self, chunks: Iterator[bytes], name: str) -> None:
        self._chunks = chunks
        self._data = b""  # what was read; its first `_at` bytes are taken
        self._at = 0
        self.ended = False
        self.name = name
        self.offset = 0

    @property
    def held(self) -> bytes:
        """What was read and not taken."""
        if self._at:
            self._data = self._data[self._at :]
            self._at = 0
        return self._data

    def more(self) -> bool:
        """Read one chunk more; False when there is none."""
        if self.ended:
            return False
        for chunk in self._chunks:
            if chunk:
                held = self.held
                self._data = held + chunk if held else chunk
                return True
        self.ended = True
        return False

    def peek(self, size: int) -> bytes:
        """The next `size` bytes, or what there is."""
        while len(self._data) - self._at < size and self.more():
            pass
        return self._data[self._at : self._at + size]

    def take(self, size: int | None = None) -> bytes:
        """The next bytes: at most `size`, at least one; `b""` at the end."""
        if self._at == len(self._data) and not self.more():
            return b""
        data = self._data[self._at :] if size is None else self._data[self._at : self._at + size]
        self._at += len(data)
        self.offset += len(data)
        return data

    def put_back(self, data: bytes) -> None:
        """Give back the bytes that were taken last."""
        if len(data) <= self._at:
            self._at -= len(data)
        else:
            self._data = data + self.held
        self.offset -= len(data)

    def line(self, limit: int, what: str) -> bytes:
        """The next line with its end; the last one may have none, and `b""` is the end."""
        end = self._data.find(b"\n", self._at) + 1
        if end:
            line = self._data[self._at : end]
            self._at = end
        else:
            parts = [self._data[self._at :]]
            size = len(parts[0])
            self._data, self._at = b"", 0
            while size <= limit and not end and self.more():
                end = self._data.find(b"\n") + 1
                self._at = end or len(self._data)
                parts.append(self._data[: self._at])
                size += self._at
            line = b"".join(parts)
        if len(line) > limit:
            raise self.error(
                f"{what} is longer than {limit} bytes", fix="Raise the bound (limits=) if lines of this size are meant."
            )
        self.offset += len(line)
        return line

    def rest(self, limit: int, what: str) -> bytes:
        """Everything that is left, at most `limit` bytes."""
        parts: list[bytes] = []
        size = 0
        while part := self.take():
            size += len(part)
            if size > limit:
                raise self.error(
                    f"{what} is larger than {limit} bytes",
                    fix="It has to be read whole. Take the stream out of it as .sse or JSON lines, which have no bound"
                    ", or raise the bound (limits=).",
                )
            parts.append(part)
        return b"".join(parts)

    def error(self, what: str, *, fix: str | None = None, got: bytes | str | None = None) -> CaptureError:
        """A `CaptureError` at where the reading stands."""
        text = got if got is None or isinstance(got, str) else show(got[:60].decode("utf-8", "replace"))
        return CaptureError(f"{self.name}: {what}", offset=self.offset, got=text, fix=fix)

    def no_stream(self, what: str, status: int, headers: Mapping[str, str], body: bytes) -> NoStreamError:
        """The error of a dump whose answers are no streams; the first of them is given."""
        return NoStreamError(
            f"{self.name}: {what}",
            status=status,
            headers=headers,
            body=body,
            offset=self.offset,
            fix="An error answer is no stream: `respevents classify` reads it, `respevents read` says what clients do.",
        )


def open_source(origin: Origin, name: str | None, limits: Limits) -> tuple[Source, Callable[[], None]]:
    """The source of what a caller handed in, gzip taken off, and what closes it.

    Raises `CaptureError` when a file cannot be opened, TypeError for what is no source of bytes.
    """
    chunks, label, close = _chunks(origin)
    source = Source(_reported(chunks, name or label), name or label)
    depth = 0
    while source.peek(2) == GZIP_MAGIC:
        depth += 1
        if depth > 2:  # a file that was packed twice happens; more is made to annoy
            close()
            raise source.error("gzip inside gzip inside gzip", fix="Unpack the file first.")
        source = Source(_gunzip(source, limits), source.name)
    return source, close


def _chunks(origin: Any) -> tuple[Iterator[bytes], str, Callable[[], None]]:
    def nothing() -> None:
        pass

    if isinstance(origin, (bytes, bytearray, memoryview)):
        view = memoryview(origin).cast("B")
        return (bytes(view[at : at + CHUNK]) for at in range(0, len(view), CHUNK)), "<bytes>", nothing
    if isinstance(origin, str) and origin == "-":
        return _from_file(sys.stdin.buffer), "<stdin>", nothing
    if isinstance(origin, (str, os.PathLike)):
        path = os.fspath(origin)
        try:
            file = Path(path).open("rb")  # noqa: SIM115 - closed by the function handed back
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise CaptureError(f"{path}: cannot be opened: {reason}") from error
        return _from_file(file), str(path), file.close
    if hasattr(origin, "read"):
        return _from_file(origin), str(getattr(origin, "name", "<file>")), nothing
    if isinstance(origin, Iterable):
        return _checked(origin), "<chunks>", nothing
    raise TypeError(f"a capture is bytes, a path, a binary file or an iterable of bytes, not {show(origin)}")


def _from_file(file: Any) -> Iterator[bytes]:
    read = getattr(file, "read1", None) or file.read  # read1 gives what a pipe has, and does not wait for more
    while chunk := read(CHUNK):
        if not isinstance(chunk, (bytes, bytearray)):
            raise TypeError("a capture is read from a file opened in binary mode ('rb')")
        yield bytes(chunk)


def _checked(chunks: Iterable[Any]) -> Iterator[bytes]:
    for chunk in chunks:
        if not isinstance(chunk, (bytes, bytearray, memoryview)):
            raise TypeError(f"the chunks of a capture are bytes, got {show(chunk)}")
        yield bytes(chunk)


def _reported(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    try:
        yield from chunks
    except OSError as error:  # a directory, a disk that fails, a connection that was reset
        raise CaptureError(f"{name}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # a file that was closed
        raise CaptureError(
            f"{name}: cannot be read: {error}",
            fix="Keep the iterator of read_captures (a loop does) for as long as its captures are read.",
        ) from error


def _gunzip(source: Source, limits: Limits) -> Iterator[bytes]:
    """Unpack, member after member, in pieces of at most 64 KiB."""
    unpacked = 0
    inflater = zlib.decompressobj(wbits=31)
    piece = b""
    while True:
        # A full piece may leave output inside the inflater, with no input left to ask for it.
        chunk = inflater.unconsumed_tail
        if not chunk and len(piece) < CHUNK:
            chunk = source.take(CHUNK)
            if not chunk:
                # What came is worth reading, and was given.
                raise source.error(
                    f"the gzip data is cut off, after {unpacked} good bytes",
                    fix="Unpack it with `gzip -dc`, which keeps what can be read.",
                )
        try:
            piece = inflater.decompress(chunk, CHUNK)
        except zlib.error as error:
            raise source.error(
                f"the gzip data is damaged ({error}), after {unpacked} good bytes",
                fix="Unpack it with `gzip -dc`, which keeps what can be read, or capture it again.",
            ) from error
        unpacked += len(piece)
        if unpacked > limits.unpacked or (unpacked > _FREE_RATIO and unpacked > limits.ratio * source.offset):
            raise source.error(
                f"gzip data unpacks to more than it should: {unpacked} bytes out of {source.offset}",
                fix="Unpack the file first, or raise the bounds (limits=), if it is no bomb.",
            )
        if piece:
            yield piece
        if inflater.eof:
            source.put_back(inflater.unused_data)
            while source.peek(1) == b"\0":  # tape blocks pad with NUL
                held = source.take()
                source.put_back(held.lstrip(b"\0"))
            if not source.held:
                return
            if source.peek(2) != GZIP_MAGIC:
                raise source.error("data follows the end of the gzip data", got=source.held)
            inflater = zlib.decompressobj(wbits=31)
            piece = b""


def inflate(data: bytes, encoding: str, limit: int) -> bytes | None:
    """The body of a recorded answer without its `content-encoding`; as it is when it was unpacked already; None when
    it cannot be unpacked. Raises ValueError when it unpacks to more than `limit` bytes.
    """
    for one in reversed([part.strip().lower() for part in encoding.split(",")]):
        if one in {"", "identity"}:
            continue
        if data[:2] == GZIP_MAGIC or one == "deflate":
            out = _inflate(data, limit)
            if out is None:
                return data if one == "deflate" and _is_text(data) else None
            data = out
        elif not _is_text(data):
            return None
    if data[:2] == GZIP_MAGIC:
        return _inflate(data, limit)
    return data


def _inflate(data: bytes, limit: int) -> bytes | None:
    for wbits in (47, -15):  # gzip or zlib by their headers; deflate is sent without one too
        inflater = zlib.decompressobj(wbits=wbits)
        try:
            out = inflater.decompress(data, limit)
        except zlib.error:
            continue
        if inflater.unconsumed_tail:
            raise ValueError(f"unpacks to more than {limit} bytes")
        return out
    return None


def _is_text(data: bytes) -> bool:
    head = data[:256]
    try:
        head.decode()
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4 or len(data) <= 256:
            return False
    return not any(byte < 9 for byte in head)
