"""A capture as rows: what happened, in which lane, with runs of deltas folded. The terminal and the page draw these.

The response has the lane None, each output item the lane of its `output_index`. Rows come as the stream does, so a
live one can be watched, and a long one is not held.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

from respevents._compare import frames_of
from respevents._errors import ProtocolError
from respevents._table import TERMINAL
from respevents.wire import Frame, decode_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from respevents.captures import Capture

__all__ = ["MAX_TEXT", "End", "Row", "printable", "timeline"]

MAX_TEXT: Final = 400
"""Characters of text that a row keeps for the eye."""


class Row(msgspec.Struct, kw_only=True):
    """One event, or a run of deltas of one part. `frames` are the frames in it, only kept on request."""

    first: int
    """Number of the first frame, from 0."""
    last: int
    offset: int
    kind: str
    """The event type; `comment` and `[DONE]` for frames that are no events, `unreadable` for broken JSON."""
    count: int = 1
    number: int | None = None
    """The sequence number of the first event."""
    lane: int | None = None
    text: str = ""
    bad: bool = False
    opens: bool = False
    """The lane starts here: the item was added."""
    closes: bool = False
    findings: list[Any] = msgspec.field(default_factory=list)
    frames: list[Frame] = msgspec.field(default_factory=list)


class End(msgspec.Struct, kw_only=True):
    """What is known at the end of a stream. `findings` are those that belong to no single row before."""

    frames: int
    size: int
    terminal: str | None
    findings: list[Any]
    ok: bool | None
    """What the validator says; None without one."""
    error: str | None = None
    """Why the capture could not be read to its end."""


def timeline(capture: Capture, *, validator: Any = None, keep: bool = False) -> Iterator[Row | End]:
    """The rows of a capture, then its `End`. `validator` has `feed` and `close` as `StreamValidator` does; `keep` puts
    the frames into the rows.
    """
    run: Row | None = None
    place: tuple[Any, ...] | None = None
    told: list[Any] = []
    terminal: str | None = None
    number = size = 0
    error: str | None = None
    try:
        for number, frame in enumerate(frames_of(capture), start=1):
            size += len(frame.raw)
            findings = list(validator.feed(frame.raw)) if validator is not None else []
            told += findings
            row, here = _row(number - 1, frame)
            row.findings = findings
            if row.kind.removeprefix("response.") in TERMINAL:
                terminal = row.kind
            if run is not None and here is not None and here == place and not findings:
                _extend(run, row)
                if keep:
                    run.frames.append(frame)
                continue
            if run is not None:
                yield run
            run, place = row, None if findings else here
            if keep:
                run.frames.append(frame)
    except ProtocolError as broken:
        error = str(broken)
    if run is not None:
        yield run
    report = validator.close() if validator is not None else None
    rest = [] if report is None else [one for one in report.findings if one not in told]
    yield End(
        frames=number,
        size=size,
        terminal=terminal,
        findings=rest,
        ok=None if report is None else bool(report.ok),
        error=error,
    )


def _row(number: int, frame: Frame) -> tuple[Row, tuple[Any, ...] | None]:
    """The row of a frame, and the part it adds a delta to (None for what is no delta)."""
    row = Row(first=number, last=number, offset=frame.offset, kind="comment")
    if not frame.data:
        row.text = printable(frame.raw.decode("utf-8", "replace").strip())
        return row, ("comment",) if not row.text else None
    if frame.data == b"[DONE]":
        row.kind = "[DONE]"
        return row, None
    try:
        event = decode_json(frame.data)
    except ProtocolError as error:
        event = _lenient(frame.data)
        row.bad = True
        row.text = str(error)
    if not isinstance(event, dict):
        row.kind = "unreadable" if row.bad else "no event"
        row.text = row.text or printable(frame.data.decode("utf-8", "replace"))
        row.bad = True
        return row, None
    kind = event.get("type")
    row.kind = printable(kind if isinstance(kind, str) else frame.event or "no type")
    number_ = event.get("sequence_number")
    row.number = number_ if isinstance(number_, int) and not isinstance(number_, bool) else None
    index = event.get("output_index")
    row.lane = index if isinstance(index, int) and not isinstance(index, bool) and index >= 0 else None
    row.opens = row.kind == "response.output_item.added"
    row.closes = row.kind == "response.output_item.done"
    row.bad = row.bad or row.kind in {"error", "response.failed"} or row.kind.endswith("_call.failed")
    delta = event.get("delta")
    if row.kind.endswith(".delta") and isinstance(delta, str):
        row.text = row.text or delta[:MAX_TEXT]
        keys = ("item_id", "output_index", "content_index", "summary_index", "command_index")
        return row, None if row.bad else (row.kind, *(repr(event.get(key))[:100] for key in keys))
    row.text = row.text or printable(_summary(row.kind, event))[:MAX_TEXT]
    return row, None


def _extend(run: Row, row: Row) -> None:
    run.last = row.last
    run.count += 1
    if len(run.text) < MAX_TEXT:
        run.text = (run.text + row.text)[:MAX_TEXT]


def _lenient(data: bytes) -> Any:
    """What a lenient client reads."""
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def printable(text: str) -> str:
    """Text that cannot move a cursor or turn a line around: what does not print is written as an escape."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "backslashreplace").decode() for one in text
    )


def _summary(kind: str, event: dict[str, Any]) -> str:
    """What a row says beside the type of its event."""
    if kind == "error":
        nested = event.get("error")
        return _error(nested if isinstance(nested, dict) else event)
    response = event.get("response")
    if isinstance(response, dict):
        return _response(response)
    for key, names in (
        ("item", ("type", "id", "name", "status")),
        ("part", ("type",)),
        ("annotation", ("type", "url")),
    ):
        box = event.get(key)
        if isinstance(box, dict):
            return " ".join(str(box[name])[:80] for name in names if isinstance(box.get(name), str))
    for key in ("text", "arguments", "refusal", "code", "input", "transcript", "command", "diff", "output"):
        if isinstance(event.get(key), str):
            return str(event[key])[:MAX_TEXT]
    return ""


def _error(error: dict[str, Any]) -> str:
    return ": ".join(str(error[key])[:MAX_TEXT] for key in ("code", "message") if error.get(key) is not None)


def _response(response: dict[str, Any]) -> str:
    parts = [str(response[key])[:80] for key in ("status", "id", "model") if isinstance(response.get(key), str)]
    error = response.get("error")
    if isinstance(error, dict):
        parts.append(_error(error))
    details = response.get("incomplete_details")
    if isinstance(details, dict) and isinstance(details.get("reason"), str):
        parts.append(details["reason"])
    usage = response.get("usage")
    if isinstance(usage, dict) and isinstance(usage.get("total_tokens"), int):
        parts.append(f"{usage['total_tokens']} tokens")
    return "  ".join(parts)
