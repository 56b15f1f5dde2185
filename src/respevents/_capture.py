"""A captured stream as a value: what was kept of it, and its bytes, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NoReturn

from respevents._errors import LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

__all__ = ["Capture", "Framing", "is_note"]

Framing = Literal["sse", "json-lines"]


class Capture:
    """One captured stream.

    `name` is the file (with the place in it, when it holds several), `format` a key of `FORMATS`, `framing` says
    whether `chunks()` gives an event stream or one JSON event a line. `status`, `headers` (lower-case keys) and
    `request` (`method`, `url`, `headers`) are what the capture kept, else None and empty. `offset` is the first byte
    of the stream: in the file (gzip taken off), or in the decoded body where it lies packed inside a document, an
    envelope or chunks. `format` is final; a reader of a live source sees the rest as it comes.
    """

    __slots__ = ("_chunks", "_passed", "_taken", "format", "framing", "headers", "name", "offset", "request", "status")

    def __init__(
        self,
        chunks: Iterable[bytes],
        *,
        name: str = "<bytes>",
        format: str = "sse",  # noqa: A002 - the field's own name
        framing: Framing = "sse",
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        request: Mapping[str, Any] | None = None,
        offset: int = 0,
    ) -> None:
        self._chunks = chunks
        self._passed = False
        self._taken = False
        self.name = name
        self.format = format
        self.framing: Framing = framing
        self.status = status
        self.headers: Mapping[str, str] = headers or {}
        self.request = request
        self.offset = offset

    def __repr__(self) -> str:
        return f"Capture(name={self.name!r}, format={self.format!r}, framing={self.framing!r}, status={self.status!r})"

    def chunks(self) -> Iterator[bytes]:
        """The bytes of the stream, in pieces, once. Raises `CaptureError` where the file stops making sense."""
        if self._taken:
            raise LocalProtocolError(
                "A capture is read once",
                fix="It streams, so its bytes are not kept: call read_captures again.",
            )
        self._taken = True
        if self._passed:
            self._too_late()
        return self._read()

    def _read(self) -> Iterator[bytes]:
        for chunk in self._chunks:
            yield chunk
            if self._passed:
                self._too_late()

    def _too_late(self) -> NoReturn:
        raise LocalProtocolError(
            "This capture was passed over: the next one was asked for before it was read",
            fix="Read each capture inside the loop over read_captures.",
        )

    def skip(self) -> None:
        """Pass over what was not read, so that the source stands behind it."""
        self._passed = True
        for _ in self._chunks:
            pass


def is_note(path: Path) -> bool:
    """What `respevents record` writes beside a stream."""
    return path.suffix == ".json" and path.with_suffix(".sse").exists()
