"""What is different between two events, and what of it matters: values, keys, their order, or only the bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from respevents._errors import ProtocolError, json_path, show
from respevents.wire import Frame, FrameDecoder, decode_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from respevents.captures import Capture

__all__ = ["KINDS", "Difference", "compare", "compare_values", "frames_of"]

KINDS: Final = {
    "missing": "a key or an array element is in one and not in the other",
    "value": "two values differ",
    "number form": "the same number, once as an integer and once as a float (`1` and `1.0`)",
    "key order": "the same keys in another order",
    "bytes": "the same value in the same order: white space, escapes, digits of a number",
    "framing": "the same JSON in another frame: lines, line ends, the `event:` line",
    "unreadable": "one of the two is no strict JSON",
}
"""What can differ, the weightiest first."""

_MOST: Final = 50
"""Differences that are told of one event: after that the two are other events."""


_MOST_KEYS: Final = 6
"""Keys of another order that are told."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One difference. `left` and `right` are shown values, None where there is none."""

    kind: str
    """A key of `KINDS`."""
    path: str = "$"
    left: str | None = None
    right: str | None = None

    def __str__(self) -> str:
        sides = [side for side in (self.left, self.right) if side is not None]
        if self.kind == "missing":
            where = "right" if self.right is None else "left"
            return f"{self.path} is missing {where}: {sides[0] if sides else ''}"
        return f"{self.kind} at {self.path}" + (f": {' | '.join(sides)}" if sides else "")


def compare(left: bytes, right: bytes) -> list[Difference]:
    """The differences of two JSON documents; none when their bytes are equal."""
    if left == right:
        return []
    values: list[Any] = []
    for data in (left, right):
        try:
            values.append(decode_json(data))
        except ProtocolError as error:
            return [Difference(kind="unreadable", left=show_text(left), right=f"{error}")]
    found = compare_values(values[0], values[1])
    if not found:
        at = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
        start = max(0, at - 12)
        found = [
            Difference(kind="bytes", left=show_text(left[start : at + 24]), right=show_text(right[start : at + 24]))
        ]
    return found


def show_text(data: bytes) -> str:
    """Bytes for the eye, shortened."""
    return show(data[:400].decode("utf-8", "backslashreplace"))


def compare_values(left: Any, right: Any) -> list[Difference]:
    """The differences of two decoded JSON values, in document order, at most 50. Without recursion: depth is bounded
    by the reader of JSON, the stack of the caller is not known.
    """
    found: list[Difference] = []
    open_pairs: list[tuple[tuple[str | int, ...], Any, Any]] = [((), left, right)]
    while open_pairs and len(found) < _MOST:
        path, a, b = open_pairs.pop()
        inner: list[tuple[tuple[str | int, ...], Any, Any]] = []
        if isinstance(a, dict) and isinstance(b, dict):
            for key, value in a.items():
                if key in b:
                    inner.append(((*path, key), value, b[key]))
                else:
                    found.append(Difference(kind="missing", path=json_path((*path, key)), left=show(value)))
            found += [
                Difference(kind="missing", path=json_path((*path, key)), right=show(value))
                for key, value in b.items()
                if key not in a
            ]
            order = [key for key in a if key in b], [key for key in b if key in a]
            if order[0] != order[1]:
                moved = [i for i, pair in enumerate(zip(*order, strict=True)) if pair[0] != pair[1]]
                first, stop = moved[0], min(moved[-1] + 1, moved[0] + _MOST_KEYS)
                found.append(
                    Difference(
                        kind="key order",
                        path=json_path(path),
                        left=", ".join(order[0][first:stop]),
                        right=", ".join(order[1][first:stop]),
                    )
                )
        elif isinstance(a, list) and isinstance(b, list):
            inner = [((*path, i), x, y) for i, (x, y) in enumerate(zip(a, b, strict=False))]
            for i in range(min(len(a), len(b)), max(len(a), len(b))):
                side = {"left": show(a[i])} if i < len(a) else {"right": show(b[i])}
                found.append(Difference(kind="missing", path=json_path((*path, i)), **side))
        elif a != b or type(a) is not type(b):
            kind = "value" if a != b or isinstance(a, bool) or isinstance(b, bool) else "number form"
            found.append(Difference(kind=kind, path=json_path(path), left=show(a), right=show(b)))
        open_pairs += reversed(inner)
    return found[:_MOST]


def frames_of(capture: Capture) -> Iterator[Frame]:
    """The frames of a capture; of one without framing each line is a frame without an event name."""
    if capture.framing == "sse":
        decoder = FrameDecoder()
        for chunk in capture.chunks():
            yield from decoder.feed(chunk)
        yield from decoder.close()
        return
    offset = 0
    rest = b""
    for chunk in capture.chunks():
        lines = (rest + chunk).split(b"\n")
        rest = lines.pop()
        for line in lines:
            yield Frame(None, line, line + b"\n", offset)
            offset += len(line) + 1
    if rest:
        yield Frame(None, rest, rest, offset, complete=False)
