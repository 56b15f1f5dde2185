"""A capture for the eye: a timeline in the terminal, or one page of HTML that stands alone.

Each output item has a lane, runs of deltas are folded, failures are red, and what the validator finds stands beside
its frame.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from respevents._extras import MissingExtraError, load
from respevents._fmt import add_input_arguments, notes
from respevents._timeline import End, Row, printable, timeline
from respevents.captures import read_captures

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from respevents.captures import Capture

__all__ = ["Style", "Terminal", "add_arguments", "new_validator", "run"]


class Style(NamedTuple):
    """Escape sequences; all empty without colour."""

    bold: str = ""
    dim: str = ""
    good: str = ""
    bad: str = ""
    warn: str = ""
    off: str = ""
    lanes: tuple[str, ...] = ("",)


COLOURED: Final = Style(
    "\x1b[1m",
    "\x1b[2m",
    "\x1b[32m",
    "\x1b[31m",
    "\x1b[33m",
    "\x1b[0m",
    ("\x1b[36m", "\x1b[35m", "\x1b[34m", "\x1b[33m"),
)

_LINES: Final = {"open": "│", "opens": "┌", "closes": "└", "at": "├", "alone": "─", "response": "●"}
_ASCII: Final = {"open": "|", "opens": ",", "closes": "`", "at": "+", "alone": "-", "response": "*"}
_MAX_LANES: Final = 12
"""Lanes drawn beside each other in a terminal; a further one is told by its number."""


def new_validator(capture: Capture) -> Any:
    """A `StreamValidator` for a capture, or None where the validator or its libraries are not installed."""
    try:
        module = load("respevents.validate", needed_by="findings beside the frames")
    except MissingExtraError as error:
        notes(f"no findings are shown: {error}")
        return None
    except ModuleNotFoundError:
        return None
    return module.StreamValidator(framing=capture.framing)


class Terminal:
    """Draws the timeline of one capture, line by line as its rows come. `plain` draws in ASCII, without colour."""

    def __init__(self, *, style: Style | None = None, width: int = 100, plain: bool = False) -> None:
        self._style = style or Style()
        self._width = width
        self._plain = plain
        self._lanes = _Lanes(_ASCII if plain else _LINES, self._style)

    def title(self, capture: Capture) -> str:
        """The line above: the file, what it is, and the status if it is known."""
        about = capture.format + (f", HTTP {capture.status}" if capture.status else "")
        return (
            f"{self._style.bold}{printable(capture.name)}{self._style.off} {self._style.dim}({about}){self._style.off}"
        )

    def lines(self, row: Row | End) -> Iterator[str]:
        """The lines of a row, its findings under it; of the end, the line that sums up."""
        if isinstance(row, End):
            yield from _findings(row.findings, None, row.frames, self._style)
            yield _last_line(row, self._style)
            return
        yield _row_line(row, self._lanes.draw(row), self._style, self._width, plain=self._plain)
        yield from _findings(row.findings, row, None, self._style)


class _Lanes:
    """The columns of the items that are open."""

    def __init__(self, marks: dict[str, str], style: Style) -> None:
        self._marks = marks
        self._style = style
        self._columns: list[int | None] = []

    def draw(self, row: Row) -> str:
        """The columns at a row. Opens and closes lanes as the row says."""
        marks = self._marks
        column: int | None = None
        if row.lane is not None:
            if row.lane in self._columns:
                column = self._columns.index(row.lane)
            elif not row.closes:
                column = self._free()
                if column is not None:
                    self._columns[column] = row.lane
        cells: list[str] = []
        for index, lane in enumerate(self._columns):
            colour = self._style.lanes[index % len(self._style.lanes)]
            mark = " " if lane is None else marks["open"]
            if index == column:
                mark = marks["opens" if row.opens else "closes" if row.closes else "at"]
            cells.append(f"{colour}{mark}{self._style.off}" if mark != " " else " ")
        if row.closes and column is not None:
            self._columns[column] = None
        while self._columns and self._columns[-1] is None:
            self._columns.pop()
        used = len(cells)
        if row.lane is None and row.kind.startswith(("response.", "error")):
            cells.append(marks["response"])
            used += 1
        elif row.lane is not None and column is None:
            cells.append(str(row.lane))
            used += len(cells[-1])
        return "".join(cells) + " " * max(1, 4 - used)

    def _free(self) -> int | None:
        for index, lane in enumerate(self._columns):
            if lane is None:
                return index
        if len(self._columns) >= _MAX_LANES:
            return None
        self._columns.append(None)
        return len(self._columns) - 1


def _row_line(row: Row, lanes: str, style: Style, width: int, *, plain: bool) -> str:
    span = str(row.first) if row.first == row.last else f"{row.first}-{row.last}"
    number = "" if row.number is None else f"#{row.number}"
    times = f" x{row.count}" if plain else f" \N{MULTIPLICATION SIGN}{row.count}"
    kind = row.kind.removeprefix("response.") if row.lane is not None else row.kind
    kind += times if row.count > 1 else ""
    text = printable(row.text)
    if row.kind.endswith((".delta", ".done")) and text and row.lane is not None and not row.closes:
        text = f'"{text}"'
    room = max(10, width - 11 - 6 - 4 - 36)
    if len(text) > room:
        text = text[: room - 3] + "..."
    colour = style.bad if row.bad or row.findings else style.good if row.kind == "response.completed" else ""
    if row.findings and not row.bad and all(one.severity != "error" for one in row.findings):
        colour = style.warn
    off = style.off if colour else ""
    where = f"{style.dim}{span:>11} {number:<6}{style.off}"
    return f"{where}{lanes}{colour}{kind:<36}{off} {style.dim}{text}{style.off}".rstrip()


def _findings(findings: list[Any], row: Row | None, end: int | None, style: Style) -> Iterator[str]:
    for one in findings:
        colour = {"error": style.bad, "warning": style.warn}.get(one.severity, style.dim)
        where = f" (frame {one.frame})" if end is None or one.frame < end else " (end of stream)"
        if row is not None and one.frame == row.first:
            where = ""
        path = f" at {one.path}" if one.path and one.path != "$" else ""
        yield f"{'':>18}{colour}^ {one.rule} {one.severity}{where}: {printable(str(one.message))}{path}{style.off}"
        if one.fix:
            yield f"{'':>20}{style.dim}{printable(str(one.fix))}{style.off}"


def _last_line(end: End, style: Style) -> str:
    size = f"{end.frames} frames, {end.size:,} bytes"
    judged = "" if end.ok is None else ", valid" if end.ok else ", not valid"
    if end.error is not None:
        return f"{style.bad}CUT OFF{style.off} {size}: {printable(end.error)}"
    if end.terminal is None:
        return f"{style.bad}CUT OFF{style.off} {size}{judged}: no terminal event"
    if end.terminal == "response.failed":
        return f"{style.bad}FAILED{style.off} {size}{judged}: {end.terminal}"
    word = f"{style.bad}FAULTY" if end.ok is False else f"{style.good}ok"
    return f"{word}{style.off} {size}{judged}: {end.terminal}"


# ---- the command ----------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `respevents show` takes."""
    parser.add_argument("files", nargs="*", default=["-"], metavar="FILE", help="a capture; - is standard input")
    parser.add_argument("--html", metavar="OUT", help="write a page that stands alone; - is standard output")
    parser.add_argument("--no-validate", action="store_true", help="draw only; look for no faults")
    parser.add_argument("--ascii", action="store_true", help="draw lanes in ASCII")
    parser.add_argument("--width", type=int, default=0, help="columns (default: those of the terminal)")
    add_input_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run it: 0 for what could be shown, whatever it says of itself; 2 for what could not be read to its end."""
    captures = (
        capture for file in arguments.files for capture in read_captures(file, format=arguments.kind, on_skip=notes)
    )
    if arguments.html is not None:
        from respevents import _page

        out, failed = _page.write(captures, validate=(lambda _: None) if arguments.no_validate else new_validator)
        if arguments.html == "-":
            sys.stdout.buffer.write(out)
            sys.stdout.buffer.flush()
        else:
            Path(arguments.html).write_bytes(out)
        return 2 if failed else 0
    failed = False
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    width = arguments.width or shutil.get_terminal_size((120, 24)).columns
    plain = arguments.ascii or not (sys.stdout.encoding or "").lower().startswith("utf")
    for number, capture in enumerate(captures):
        if number:
            print()
        validator = None if arguments.no_validate else new_validator(capture)
        view = Terminal(style=COLOURED if coloured else None, width=width, plain=plain)
        _say(view.title(capture), plain=plain)
        for row in timeline(capture, validator=validator):
            for line in view.lines(row):
                _say(line, plain=plain)
            failed |= isinstance(row, End) and row.error is not None
    return 2 if failed else 0


def _say(line: str, *, plain: bool) -> None:
    print(line.encode("ascii", "backslashreplace").decode() if plain else line, flush=True)
