"""The page of `respevents show --html`: one file, nothing loaded from elsewhere, every event inspectable.

What was captured is data in the page: it is written as JSON inside a script element that does not run, with `<`
escaped, and the page puts it on screen as text only. So a capture cannot bring markup or script with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from respevents._fmt import notes
from respevents._timeline import End, Row, timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from respevents.captures import Capture

__all__ = ["MAX_PAGE", "write"]

MAX_PAGE: Final = 64 * 1024 * 1024
"""Bytes of captured frames in one page: a browser holds several times that. The page says what it leaves out."""

_PLACE: Final = b"/*DATA*/"
_TITLE: Final = b"<!--TITLE-->"


def write(
    captures: Iterable[Capture], *, validate: Callable[[Capture], Any], limit: int = MAX_PAGE
) -> tuple[bytes, bool]:
    """The page of some captures, and whether one could not be read to its end. `validate` gives a validator, or None
    for a capture that is only drawn.
    """
    streams: list[dict[str, Any]] = []
    failed = False
    room = limit
    for capture in captures:
        stream, room = _stream(capture, validate(capture), room)
        failed |= stream["error"] is not None
        streams.append(stream)
    data = msgspec.json.encode({"streams": streams})
    # `<` opens whatever could end a script element or change how it is read.
    data = data.replace(b"<", b"\\u003c").replace(b"\xe2\x80\xa8", b"\\u2028").replace(b"\xe2\x80\xa9", b"\\u2029")
    name = streams[0]["name"] if streams else "no stream"
    title = name.replace("&", "&amp;").replace("<", "&lt;").encode("utf-8", "replace")
    template = (Path(__file__).parent / "_page.html").read_bytes()
    return template.replace(_TITLE, title).replace(_PLACE, data), failed


def _stream(capture: Capture, validator: Any, room: int) -> tuple[dict[str, Any], int]:
    rows: list[dict[str, Any]] = []
    findings: list[dict[str, Any]] = []
    left_out = 0
    end: End | None = None
    for row in timeline(capture, validator=validator, keep=True):
        if isinstance(row, End):
            end = row
            continue
        findings += [_finding(one) for one in row.findings]
        size = sum(len(frame.raw) for frame in row.frames)
        if size > room:
            left_out += row.count
            room = 0  # what follows is left out too: a page with holes would mislead
            continue
        room -= size
        rows.append(_row(row))
    assert end is not None
    findings += [_finding(one) for one in end.findings]
    if left_out:
        notes(f"{capture.name}: the page leaves out the last {left_out} frames: it holds {MAX_PAGE} bytes at most")
    return {
        "name": _text(capture.name),
        "format": capture.format,
        "framing": capture.framing,
        "status": capture.status,
        "rows": rows,
        "findings": findings,
        "frames": end.frames,
        "size": end.size,
        "terminal": end.terminal,
        "ok": end.ok,
        "error": None if end.error is None else _text(end.error),
        "leftOut": left_out,
    }, room


def _row(row: Row) -> dict[str, Any]:
    return {
        "first": row.first,
        "last": row.last,
        "kind": row.kind,
        "number": row.number,
        "lane": row.lane,
        "text": _text(row.text),
        "bad": row.bad,
        "opens": row.opens,
        "closes": row.closes,
        "frames": [
            {
                "event": None if frame.event is None else _text(frame.event),
                "data": frame.data.decode("utf-8", "backslashreplace"),
                "raw": ""
                if _is_plain(frame.event, frame.data, frame.raw)
                else frame.raw.decode("utf-8", "backslashreplace"),
                "offset": frame.offset,
            }
            for frame in row.frames
        ],
    }


def _is_plain(event: str | None, data: bytes, raw: bytes) -> bool:
    """The frame is what the page can write itself from its event and data."""
    return event is not None and raw == b"event: %s\ndata: %s\n\n" % (event.encode("utf-8", "replace"), data)


def _finding(one: Any) -> dict[str, Any]:
    return {
        "rule": _text(one.rule),
        "name": _text(getattr(one, "name", "") or ""),
        "severity": _text(one.severity),
        "frame": one.frame,
        "path": _text(one.path or ""),
        "message": _text(one.message),
        "breaks": _text(getattr(one, "breaks", "") or ""),
        "fix": _text(one.fix or ""),
    }


def _text(value: Any) -> str:
    """Text that JSON can carry: a lone surrogate is written as its escape."""
    return str(value).encode("utf-8", "backslashreplace").decode()
