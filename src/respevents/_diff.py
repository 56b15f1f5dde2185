"""`respevents diff A B`: two captures, event by event.

Events are paired by their type, in order. Where the types part, the nearest place where they meet again is looked for,
at most 64 events ahead, and what lies between is missing on the other side. So nothing is held but that window.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import msgspec

from respevents._compare import KINDS, Difference, compare, compare_values, frames_of
from respevents._errors import ProtocolError
from respevents._fmt import add_input_arguments, notes
from respevents.captures import read_captures
from respevents.wire import Frame, decode_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator

    from respevents.captures import Capture

__all__ = ["NORMALS", "Pair", "add_arguments", "diff_captures", "run"]

NORMALS: Final = {
    "ids": "ids count as equal when they stand in the same places of both",
    "times": "created_at, completed_at and the like",
    "numbers": "sequence_number",
    "padding": "obfuscation, which is random",
    "deltas": "runs of deltas of one part are joined, so that only their text counts",
}
"""What can be normalised before values are compared."""

_WINDOW: Final = 64


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """An event of one side. `value` is None when it is no strict JSON."""

    frame: int
    offset: int
    kind: str
    data: bytes
    value: Any = None


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two events that belong together, or one that is missing on the other side."""

    left: Event | None
    right: Event | None
    differences: list[Difference]

    @property
    def outcome(self) -> str:
        """`equal`, `left` (only there), `right`, or the weightiest kind of difference."""
        if self.left is None:
            return "right"
        if self.right is None:
            return "left"
        kinds = {one.kind for one in self.differences}
        return next((kind for kind in KINDS if kind in kinds), "equal")


def diff_captures(left: Capture, right: Capture, *, normalise: Iterable[str] = ()) -> Iterator[Pair]:
    """The pairs of two captures, in order. `normalise` has keys of `NORMALS`."""
    wanted = {*normalise}
    if unknown := wanted - {*NORMALS}:
        raise ValueError(f"cannot normalise {sorted(unknown)}; there are {', '.join(NORMALS)}")
    normals = _Normal(wanted), _Normal(wanted)
    for a, b in _aligned(_events(left, wanted), _events(right, wanted)):
        # Both sides take note of their ids, also of an event that is alone.
        values = [None if one is None else normal(one.value) for one, normal in zip((a, b), normals, strict=True)]
        found: list[Difference] = []
        if a is not None and b is not None and a.data != b.data:
            if not wanted or a.value is None or b.value is None:
                found = compare(a.data, b.data)
            else:
                found = compare_values(values[0], values[1]) or _only_bytes(a, b)
        yield Pair(left=a, right=b, differences=found)


def _only_bytes(a: Event, b: Event) -> list[Difference]:
    return [] if compare_values(a.value, b.value) else compare(a.data, b.data)


def _events(capture: Capture, normalise: set[str]) -> Iterator[Event]:
    events = _each(capture)
    return _joined(events) if "deltas" in normalise else events


def _each(capture: Capture) -> Iterator[Event]:
    for number, frame in enumerate(frames_of(capture)):
        if frame.data:
            yield _event(number, frame)


def _event(number: int, frame: Frame) -> Event:
    try:
        value = decode_json(frame.data)
    except ProtocolError:
        kind = frame.event or ("[DONE]" if frame.data == b"[DONE]" else "unreadable")
        return Event(frame=number, offset=frame.offset, kind=kind, data=frame.data)
    named: Any = value.get("type") if isinstance(value, dict) else None
    known = named if isinstance(named, str) else frame.event or "no event"
    return Event(frame=number, offset=frame.offset, kind=known, data=frame.data, value=value)


_MOST_JOINED: Final = 1024 * 1024
"""Characters of a run of deltas that are compared at once."""


def _joined(events: Iterator[Event]) -> Iterator[Event]:
    """Runs of deltas as one event: its text is that of all, the rest that of the first but its number."""
    run: Event | None = None
    parts: list[str] = []
    size = 0
    for one in itertools.chain(events, [None]):
        joins = (
            one is not None
            and run is not None
            and one.kind == run.kind
            and _place(one) == _place(run)
            and _place(one) is not None
            and size < _MOST_JOINED
        )
        if one is not None and joins:
            parts.append(one.value["delta"])
            size += len(parts[-1])
            continue
        if run is not None:
            yield _whole(run, parts)
        run = one
        parts = [one.value["delta"]] if one is not None and _place(one) is not None else []
        size = sum(map(len, parts))


def _place(event: Event) -> tuple[Any, ...] | None:
    """The part an event adds text to; None for one that is no delta."""
    value = event.value
    if not event.kind.endswith(".delta") or not isinstance(value, dict) or not isinstance(value.get("delta"), str):
        return None
    keys = ("item_id", "output_index", "content_index", "summary_index", "command_index")
    return tuple(str(value.get(key)) for key in keys)


def _whole(event: Event, parts: list[str]) -> Event:
    if not parts:
        return event
    value = {key: one for key, one in event.value.items() if key not in {"sequence_number", "obfuscation", "logprobs"}}
    value["delta"] = "".join(parts)
    return Event(frame=event.frame, offset=event.offset, kind=event.kind, data=msgspec.json.encode(value), value=value)


_TIMES = re.compile(r"(?:created|completed|started|expires|cancelled|failed)_at\Z")


class _Normal:
    """One side, normalised: ids are numbered as they appear, what is left out of the comparison gets one value."""

    def __init__(self, wanted: set[str]) -> None:
        self._wanted = wanted
        self._ids: dict[str, str] = {}

    def __call__(self, value: Any) -> Any:
        return self._walk(value, "") if self._wanted else value

    def _walk(self, value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {name: self._walk(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [self._walk(one, key) for one in value]
        if isinstance(value, str) and "ids" in self._wanted and (key == "id" or key.endswith("_id")):
            return self._ids.setdefault(value, f"<id {len(self._ids) + 1}>")
        if isinstance(value, (int, float)) and "times" in self._wanted and _TIMES.match(key):
            return "<time>"
        if key == "sequence_number" and "numbers" in self._wanted:
            return "<number>"
        if key == "obfuscation" and "padding" in self._wanted:
            return "<padding>"
        return value


def _aligned(left: Iterator[Event], right: Iterator[Event]) -> Iterator[tuple[Event | None, Event | None]]:
    sides: tuple[deque[Event], deque[Event]] = deque(), deque()
    sources = left, right

    def fill() -> None:
        for held, source in zip(sides, sources, strict=True):
            held.extend(itertools.islice(source, _WINDOW - len(held)))

    while True:
        if not all(sides):
            fill()
        a, b = sides
        if not a and not b:
            return
        if a and b and a[0].kind == b[0].kind:
            yield a.popleft(), b.popleft()
            continue
        fill()
        skip_a, skip_b = _meeting([one.kind for one in a], [one.kind for one in b])
        for _ in range(skip_a):
            yield a.popleft(), None
        for _ in range(skip_b):
            yield None, b.popleft()


def _meeting(a: list[str], b: list[str]) -> tuple[int, int]:
    """How many to pass over on each side until the types meet again: the fewest, two in a row before one."""
    for wanted in (2, 1):
        for total in range(1, len(a) + len(b)):
            for i in range(max(0, total - len(b) + 1), min(total, len(a) - 1) + 1):
                j = total - i
                ends = i + wanted > len(a) and j + wanted > len(b)
                if a[i : i + wanted] == b[j : j + wanted] and (i + wanted <= len(a) or ends):
                    return i, j
    return len(a), len(b)


# ---- the command ----------------------------------------------------------------------------------------------------


def _names(text: str) -> list[str]:
    names = [*NORMALS] if text == "all" else [one.strip() for one in text.split(",") if one.strip()]
    if not {*names} <= {*NORMALS}:
        raise ValueError
    return names


_names.__name__ = "list"  # argparse says "invalid list value"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `respevents diff` takes."""
    told = "; ".join(f"{name}: {what}" for name, what in NORMALS.items())
    parser.add_argument("left", metavar="A", help="a capture; - is standard input")
    parser.add_argument("right", metavar="B", help="the other one")
    parser.add_argument("--normalise", "--normalize", type=_names, default=[], metavar="LIST", help=f"all, or {told}")
    parser.add_argument("--quiet", action="store_true", help="the summary alone")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    add_input_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run it: 0 when nothing differs, 1 when something does."""
    if arguments.left == arguments.right == "-":
        notes("only one of the two can be standard input")
        return 2
    streams = [read_captures(file, format=arguments.kind, on_skip=notes) for file in (arguments.left, arguments.right)]
    tally: dict[str, int] = {}
    number = 0
    say = _Speaker(as_json=arguments.format == "json", quiet=arguments.quiet)
    for number, (a, b) in enumerate(itertools.zip_longest(*streams), start=1):
        if a is None or b is None:
            say.alone(a, b, number)
            tally["streams"] = tally.get("streams", 0) + 1
            continue
        for pair in diff_captures(a, b, normalise=arguments.normalise):
            tally[pair.outcome] = tally.get(pair.outcome, 0) + 1
            say.pair(pair)
        say.flush()
    say.summary(tally, number)
    return int(set(tally) - {"equal"} != set())


_OUTCOMES: Final = {"left": "only in A", "right": "only in B", "streams": "streams in one of them only"}


class _Speaker:
    """Prints pairs: equal ones counted, the others line by line."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self._json = as_json
        self._quiet = quiet
        self._equal = 0
        colour = sys.stdout.isatty() and not as_json
        self._paint: Callable[[str, str], str] = _painted if colour else _plain

    def pair(self, pair: Pair) -> None:
        if self._quiet:
            return
        if pair.outcome == "equal":
            self._equal += 1
            return
        if self._json:
            record = {
                "outcome": pair.outcome,
                "event": (pair.left or pair.right or Event(frame=0, offset=0, kind="", data=b"")).kind,
                "left": pair.left and {"frame": pair.left.frame, "offset": pair.left.offset},
                "right": pair.right and {"frame": pair.right.frame, "offset": pair.right.offset},
                "differences": pair.differences,
            }
            print(msgspec.json.encode(record).decode())
            return
        self.flush()
        if pair.right is None and pair.left is not None:
            print(self._paint("31", f"- {pair.left.frame:>5}       {pair.left.kind}"))
        elif pair.left is None and pair.right is not None:
            print(self._paint("32", f"+       {pair.right.frame:>5} {pair.right.kind}"))
        elif pair.left is not None and pair.right is not None:
            print(f"~ {pair.left.frame:>5} {pair.right.frame:>5} {pair.left.kind}")
            for one in pair.differences:
                print(self._paint("33", f"      {one}"))

    def flush(self) -> None:
        if self._equal and not self._json:
            print(self._paint("2", f"= {self._equal} equal"))
        self._equal = 0

    def alone(self, left: Capture | None, right: Capture | None, number: int) -> None:
        one, side = (left, "A") if left is not None else (right, "B")
        if one is not None and not self._json and not self._quiet:
            print(f"stream {number} is only in {side}: {one.name}")

    def summary(self, tally: dict[str, int], streams: int) -> None:
        if self._json:
            print(msgspec.json.encode({"streams": streams, **tally}).decode())
            return
        told = [f"{count} {_OUTCOMES.get(name, name)}" for name, count in sorted(tally.items())]
        print(f"{streams} {'stream' if streams == 1 else 'streams'}: {', '.join(told) or 'no events'}")


def _painted(colour: str, text: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m"


def _plain(_colour: str, text: str) -> str:
    return text
