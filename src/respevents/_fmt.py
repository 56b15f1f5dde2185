"""`respevents fmt`: a capture in canonical bytes, or which of its frames are not.

Canonical are the bytes that `encode_frame` writes: key order, number forms and escapes of OpenAI's servers, `event:`
and `data:` in LF, a blank line. What is no event (a comment, `[DONE]`, JSON that is broken) has no canonical form and
stays as it is.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

import msgspec

from respevents._compare import Difference, compare, frames_of, show_text
from respevents._errors import EncodeError, ProtocolError, show
from respevents.captures import FORMATS, read_captures
from respevents.wire import decode_json, encode_json, frame_bytes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from respevents.captures import Capture
    from respevents.wire import Frame

__all__ = ["Formatted", "add_arguments", "add_input_arguments", "format_capture", "notes", "run"]

_DONE: Final = b"[DONE]"


class Formatted(msgspec.Struct, frozen=True, kw_only=True):
    """One frame and its canonical bytes. `problem` says why it has none; then `after` is the frame as it was."""

    frame: int
    offset: int
    event: str | None
    before: bytes
    after: bytes
    differences: list[Difference]
    problem: str | None = None
    lost: str | None = None
    """What of the frame the canonical form has no place for."""

    @property
    def canonical(self) -> bool:
        """The frame was canonical already."""
        return self.problem is None and self.before == self.after


def format_capture(capture: Capture) -> Iterator[Formatted]:
    """Each frame of a capture with its canonical bytes, one at a time."""
    for number, frame in enumerate(frames_of(capture)):
        kind = frame.event
        after, problem, lost = frame.raw, None, None
        found: list[Difference] = []
        if frame.data and frame.data != _DONE:
            try:
                value = decode_json(frame.data)
                data = encode_json(value)
                if capture.framing == "sse":
                    kind = _kind(value)
                    after = frame_bytes(kind, data)
                    lost = _lost(frame, kind)
                else:
                    kind = value.get("type") if isinstance(value, dict) else None
                    after = data + b"\n"
                found = compare(frame.data, data)
                if after != frame.raw:
                    found += _framing(frame.raw, after, frame.event, kind, has_data_change=bool(found))
            except (ProtocolError, EncodeError) as error:
                problem = str(error)
        yield Formatted(
            frame=number,
            offset=frame.offset,
            event=kind if isinstance(kind, str) else None,
            before=frame.raw,
            after=after,
            differences=found,
            problem=problem,
            lost=lost,
        )


def _kind(value: Any) -> str:
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str):
        raise EncodeError("An event needs a `type`", path="$.type", expected="a string", got=show(kind))
    return kind


_OTHER_LINE = re.compile(rb"^(?!data(?::|$)|event(?::|$))[^\r\n]+", re.MULTILINE)


def _lost(frame: Frame, kind: str) -> str | None:
    if frame.event is not None and frame.event != kind:
        return f"its `event:` line, {show(frame.event)}"
    lines = _OTHER_LINE.findall(frame.raw.replace(b"\r", b"\n")) if frame.raw.count(b"\n") > 3 else []
    return f"lines that are no `event:` and no `data:`: {show_text(b' '.join(lines))}" if lines else None


def _framing(before: bytes, after: bytes, name: str | None, kind: Any, *, has_data_change: bool) -> list[Difference]:
    """What is different about the lines around the JSON."""
    if name != kind and name is not None:
        return [Difference(kind="framing", left=f"event: {name}", right=f"event: {kind}")]
    head, _, _ = before.partition(b"{")
    wanted, _, _ = after.partition(b"{")
    if head != wanted or before[-2:] != after[-2:]:
        return [Difference(kind="framing", left=show_text(head + b"..." + before[-4:]), right=show_text(wanted))]
    return [] if has_data_change else [Difference(kind="framing", left=show_text(before), right=show_text(after))]


# ---- the command ----------------------------------------------------------------------------------------------------


def add_input_arguments(parser: argparse.ArgumentParser) -> None:
    """What every command that reads captures takes."""
    parser.add_argument("--from", dest="kind", choices=list(FORMATS), help="format of the input (default: detected)")


def notes(sentence: str) -> None:
    """Say on standard error what was left out."""
    print(f"note: {sentence}", file=sys.stderr)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `respevents fmt` takes."""
    parser.add_argument("files", nargs="*", default=["-"], metavar="FILE", help="a capture; - is standard input")
    parser.add_argument("--check", action="store_true", help="list the frames that are not canonical; write nothing")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the list (default: text)")
    add_input_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run it: 0 when all was canonical (or could be made so), 1 for frames that are not (or could not)."""
    worst = 0
    for file in arguments.files:
        for capture in read_captures(file, format=arguments.kind, on_skip=notes):
            if arguments.check:
                worst |= _check(capture, as_json=arguments.format == "json")
            else:
                worst |= _write(capture)
    return worst


def _write(capture: Capture) -> int:
    out = sys.stdout.buffer
    left = 0
    for one in format_capture(capture):
        out.write(one.after)
        if one.problem is not None:
            left += 1
            notes(f"{capture.name}: frame {one.frame} (byte {one.offset}) is left as it is: {one.problem}")
        if one.lost is not None:
            notes(f"{capture.name}: frame {one.frame} (byte {one.offset}) lost {one.lost}")
    out.flush()
    return int(left > 0)


def _check(capture: Capture, *, as_json: bool) -> int:
    total = wrong = 0
    for one in format_capture(capture):
        total += 1
        if one.canonical:
            continue
        wrong += 1
        if as_json:
            record = {
                "name": capture.name,
                "frame": one.frame,
                "offset": one.offset,
                "event": one.event,
                "problem": one.problem,
                "differences": one.differences,
            }
            print(msgspec.json.encode(record).decode())
            continue
        print(f"{capture.name}: frame {one.frame} (byte {one.offset}) {one.event or 'without a type'}")
        for line in [one.problem] if one.problem is not None else one.differences:
            print(f"    {line}")
    if not as_json:
        verdict = "all canonical" if not wrong else f"{wrong} not canonical"
        print(f"{capture.name}: {capture.format}, {total} frames, {verdict}")
    return int(wrong > 0)
