"""What a failing test says: the timeline of a stream with its findings, or how two streams differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from respevents._capture import Capture
from respevents._diff import diff_captures
from respevents._timeline import printable, timeline
from respevents.show import Terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from respevents.validate import Report

__all__ = ["MAX_DRAWN", "compared", "drawn", "rules"]

MAX_DRAWN: Final = 8 * 1024 * 1024
"""Bytes of a stream that are drawn; a longer one is told by its findings alone."""

_AROUND: Final = 4
"""Rows kept around a finding, and at both ends."""

_MOST: Final = 40
"""Differences of two streams that are told."""


def drawn(capture: Capture, validator: Any) -> str:
    """The timeline of a stream, what is wrong under its frame; rows far from any finding are left out."""
    view = Terminal(plain=True, width=110)
    rows = timeline(capture, validator=validator)
    blocks = [(bool(row.findings), list(view.lines(row))) for row in rows]
    wanted = {at for at, (found, _) in enumerate(blocks) if found} | {0, len(blocks) - 1}
    near = {one for at in wanted for one in range(at - _AROUND, at + _AROUND + 1)}
    lines: list[str] = []
    left_out = 0
    for at, (_, block) in enumerate(blocks):
        if at not in near:
            left_out += 1
            continue
        if left_out:
            lines.append(f"{'':>18}... {left_out} rows without a finding")
            left_out = 0
        lines += block
    return "\n".join(lines)


def rules(report: Report) -> str:
    """The counts of a report, and whom each rule that was broken breaks."""
    lines = [str(report).partition("\n")[0]]
    found = {one.rule: one for one in reversed(report.findings)}
    for rule in dict.fromkeys(one.rule for one in report.findings):
        one = found[rule]
        lines.append(f"  {one.severity} {rule} {one.name}: {one.breaks} {one.fix}")
    return "\n".join(lines)


def compared(left: bytes, right: bytes) -> Iterator[str]:
    """How two streams differ, a line for each event that does."""
    told = 0
    for pair in diff_captures(Capture([left]), Capture([right])):
        if pair.outcome == "equal":
            continue
        told += 1
        if told > _MOST:
            yield "... and more"
            return
        if pair.left is None or pair.right is None:
            one = pair.left or pair.right
            assert one is not None
            side = "right" if pair.left is None else "left"
            yield f"frame {one.frame} only on the {side}: {printable(one.kind)}"
            continue
        for difference in pair.differences:
            yield f"frame {pair.left.frame} ({printable(pair.left.kind)}): {printable(str(difference))}"
    if not told:
        yield "The events are the same; what differs is framing: line ends, comments, event lines or chunks of space."
