"""The lifecycle page and its diagrams, drawn from the table.

A box is a state. In it stand the events that lead to it (`+`) and those that come without leaving it (`=`); an arrow
says from where. Nearly every event type leads to one state, so the arrows need no labels and nothing overlaps.
"""

from __future__ import annotations

from collections import defaultdict
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from docs_text import HEAD, code, codes, table
from respevents.lifecycle import ITEMS, TABLE, TERMINAL, Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LINE, _PAD, _GAP, _LETTER, _MARGIN, _LANE = 17, 9, 34, 7.3, 16, 22
"""Pixels: a line of text, the inside of a box, between boxes, a letter, around the drawing, between arrows beside."""

_MIDDLE = "continued"
"""Where a stream that starts in the middle stands. It may go on as any live state may, and is not drawn."""

_RESPONSE = {
    "idle": (0, 0), "created": (0, 1), "queued": (0, 2), "in_progress": (0, 3),
    "error": (1, 1), "failed": (1, 2), "completed": (0, 4), "incomplete": (1, 4),
}  # fmt: skip
"""Column and row of each state of the response. Only where it is drawn: what leads where comes from the table."""


_TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#44546a"/></marker></defs>'
)
"""The tip of an arrow."""


_LIVE = frozenset({"created", "queued", "in_progress"})
"""States with a frame around them: what may come in all of them has one arrow, from the frame."""


class Drawing(NamedTuple):
    """A diagram as SVG, and what it says, in words, for who cannot see it."""

    svg: str
    text: str


class _Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def bottom(self) -> float:
        return self.y + self.height


class Machine:
    """States, the events in them, and the arrows between them."""

    def __init__(self, first: str) -> None:
        self.inside: dict[str, list[str]] = {first: []}
        self.arrows: list[tuple[str, str]] = []

    def enter(self, event: str, after: Iterable[str], to: str) -> None:
        """`event` leads from each of `after` to `to`."""
        for state in (*after, to):
            self.inside.setdefault(state, [])
        line = f"+ {event}"
        if line not in self.inside[to]:
            self.inside[to].append(line)
        self.arrows += [(state, to) for state in after if (state, to) not in self.arrows and state != to]

    def stay(self, event: str, states: Iterable[str]) -> None:
        """`event` may come in these states and changes nothing."""
        for state in states:
            self.inside.setdefault(state, []).append(f"= {event}")

    def row(self, row: Row, *, without: str = _MIDDLE) -> None:
        """What a row of the table says."""
        if row.to:
            self.enter(row.type, [state for state in row.after if state != without], row.to)
        self.stay(row.type, [state for state in row.stay if state != without])

    def ranks(self) -> dict[str, int]:
        """How many steps a state is from the first, at most."""
        rank = dict.fromkeys(self.inside, 0)
        for _ in self.inside:
            for start, end in self.arrows:
                rank[end] = max(rank[end], min(rank[start] + 1, len(rank)))
        return rank

    # ---- drawing

    def draw(self, title: str, places: Mapping[str, tuple[int, int]] | None = None) -> Drawing:
        """The diagram: in the given places (column, row), or else from top to bottom."""
        if places is None:
            at: dict[int, int] = defaultdict(int)
            found: dict[str, tuple[int, int]] = {}
            for state, rank in self.ranks().items():
                found[state] = (at[rank], rank)
                at[rank] += 1
            places = found
        missing = set(self.inside) - set(places)
        if missing:
            raise SystemExit(f"{title}: no place in the drawing for {', '.join(sorted(missing))}")
        boxes = self._boxes(places)
        lanes: list[str] = []
        right = max(box.x + box.width for box in boxes.values())
        framed = {
            end for end in self.inside
            if set(self.inside) >= _LIVE and {start for start, to in self.arrows if to == end} >= _LIVE
        }  # fmt: skip
        arrows = [(start, end) for start, end in self.arrows if not (end in framed and start in _LIVE)]
        drawn = [self._arrow(boxes, start, end, lanes) for start, end in arrows]
        frame = ""
        if framed:
            inner = [boxes[state] for state in _LIVE]
            x, y = min(box.x for box in inner) - _PAD, min(box.y for box in inner) - _PAD
            edge = max(box.x + box.width for box in inner) + _LANE * 2
            size = f'width="{edge - x:.0f}" height="{max(box.bottom for box in inner) + _PAD - y:.0f}"'
            frame = f'<rect x="{x:.0f}" y="{y:.0f}" {size} rx="8" fill="none" stroke="#8497b0" stroke-dasharray="5 4"/>'
            for end in sorted(framed):
                box = boxes[end]
                middle = box.y + box.height / 2
                drawn.append(f'<path d="M{edge:.0f} {middle:.0f}H{box.x - 1:.0f}"/>')
        width = right + _MARGIN + len(lanes) * _LANE + (_LANE if lanes else 0)
        height = max(box.bottom for box in boxes.values()) + _MARGIN
        size = f'width="{width:.0f}" height="{height:.0f}"'
        svg = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" {size} role="img">',
            f"<title>{escape(title)}</title>",
            _TIP,
            '<rect width="100%" height="100%" rx="6" fill="#ffffff"/>',
            '<g fill="none" stroke="#44546a" stroke-width="1.4" marker-end="url(#tip)">',
            *drawn,
            "</g>",
            *([frame] if frame else []),
            *(self._box(state, box) for state, box in boxes.items()),
            "</svg>\n",
        ]
        return Drawing("\n".join(svg), self._words())

    def _boxes(self, places: Mapping[str, tuple[int, int]]) -> dict[str, _Box]:
        widths = {
            state: max(len(line) for line in (state, *lines)) * _LETTER + 2 * _PAD
            for state, lines in self.inside.items()
        }
        heights = {state: (1 + len(lines)) * _LINE + 2 * _PAD for state, lines in self.inside.items()}
        columns: dict[int, float] = defaultdict(float)
        rows: dict[int, float] = defaultdict(float)
        for state in self.inside:
            column, row = places[state]
            columns[column] = max(columns[column], widths[state])
            rows[row] = max(rows[row], heights[state])
        left = {column: _MARGIN + sum(columns[one] + 3 * _GAP for one in columns if one < column) for column in columns}
        top = {row: _MARGIN + sum(rows[one] + _GAP for one in rows if one < row) for row in rows}
        boxes = {}
        for state in self.inside:
            column, row = places[state]
            boxes[state] = _Box(left[column], top[row], columns[column], heights[state])
        return boxes

    def _arrow(self, boxes: Mapping[str, _Box], start: str, end: str, lanes: list[str]) -> str:
        """Straight where nothing stands between, and beside the boxes where something does."""
        one, two = boxes[start], boxes[end]
        between = [
            box for state, box in boxes.items()
            if state not in {start, end} and box.x == one.x == two.x and one.y < box.y < two.y
        ]  # fmt: skip
        if two.y > one.y and not between:
            x1, x2, y1, y2 = one.middle, two.middle, one.bottom, two.y - 1
            bend = (y2 - y1) / 2
            return f'<path d="M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"/>'
        if two.y == one.y or not between:
            x1, x2 = (one.x + one.width, two.x - 1) if two.x > one.x else (one.x, two.x + two.width + 1)
            y = min(one.bottom, two.bottom) - _PAD
            return f'<path d="M{x1:.0f} {y:.0f}L{x2:.0f} {y:.0f}"/>'
        if end not in lanes:
            lanes.append(end)
        lane = one.x + one.width + (lanes.index(end) + 1) * _LANE
        x1, y1, x2, y2 = one.x + one.width, one.bottom - _PAD, two.x + two.width + 1, two.y + _PAD
        return f'<path d="M{x1:.0f} {y1:.0f}H{lane - 6:.0f}q6 0 6 6V{y2 - 6:.0f}q0 6 -6 6H{x2:.0f}"/>'

    def _box(self, state: str, box: _Box) -> str:
        ends = not any(start == state for start, _ in self.arrows)
        fill = "#e7efe3" if ends else "#eef3fb"
        size = f'width="{box.width:.0f}" height="{box.height:.0f}"'
        lines = [f'<rect x="{box.x:.0f}" y="{box.y:.0f}" {size} rx="5" fill="{fill}" stroke="#8497b0"/>']
        for number, line in enumerate((state, *self.inside[state])):
            x, y = box.x + _PAD, box.y + _PAD + (number + 0.75) * _LINE
            style = 'font-weight="bold"' if number == 0 else 'fill="#333333"'
            lines.append(
                f'<text x="{x:.0f}" y="{y:.0f}" font-family="ui-monospace,Menlo,Consolas,monospace" font-size="12" '
                f'{style} xml:space="preserve">{escape(line)}</text>'
            )
        return "\n".join(lines)

    def _words(self) -> str:
        rows = []
        for state, lines in self.inside.items():
            before = [start for start, end in self.arrows if end == state]
            rows.append((
                code(state),
                codes(before),
                codes(line[2:] for line in lines if line.startswith("+")),
                codes(line[2:] for line in lines if line.startswith("=")),
            ))  # fmt: skip
        return table(("state", "after", "entered by", "stays on"), rows)


# ---- the machines of the table


def response() -> Machine:
    """The response."""
    made = Machine("idle")
    for row in TABLE.values():
        if row.scope == "response":
            made.row(row)
    for row in TABLE.values():  # what may come at any time matters where nothing else may
        if row.scope == "free":
            made.stay(row.type, [state for state in row.stay if state in TERMINAL])
    return made


def item(kind: str) -> Machine:
    """The items of one type: their own events between `added` and `done`."""
    made = Machine("absent")
    rows = [row for row in TABLE.values() if row.scope == "item"]
    for row in rows:
        if row.opens:
            made.row(row)
    for row in rows:
        if kind in row.items:
            made.row(row)
    for row in rows:
        if row.closes:
            made.enter(row.type, ITEMS[kind].ready if kind in ITEMS else ("added",), row.to)
    return made


def part(kind: str) -> Machine:
    """The parts of one kind, with the events around parts of any kind."""
    own = [row for row in TABLE.values() if row.scope == "part" and row.part == kind]
    around = [
        row for row in TABLE.values()
        if row.scope == "part" and row.part is None and row.index == own[0].index and set(row.items) & set(own[0].items)
    ]  # fmt: skip
    made = Machine("absent")
    for row in sorted((*around, *own), key=lambda row: (not row.opens, row.closes)):
        made.row(row)
    if around and any(row.to == "finished" for row in own):
        # A part whose text is summed up closes after the sum (`Lifecycle` says so, not the row of any kind).
        made.arrows = [pair for pair in made.arrows if pair != ("open", "closed")]
    return made


def audio(kind: str) -> Machine:
    """The sound or its transcript."""
    made = Machine("absent")
    for row in TABLE.values():
        if row.scope == "audio" and row.part == kind:
            made.row(row)
    return made


def drawings() -> dict[str, tuple[str, Drawing]]:
    """Name of the file -> title, drawing."""
    found = {"response": ("The response", response().draw("The response", _RESPONSE))}
    plain = [kind for kind in ITEMS if not any(kind in row.items for row in TABLE.values() if row.scope == "item")]
    found["item"] = ("An item", item(plain[0]).draw("An item without events of its own"))
    for kind in dict.fromkeys(one for row in TABLE.values() if row.scope == "item" for one in row.items):
        found[f"item-{kind}"] = (f"Item {kind}", item(kind).draw(f"An item of type {kind}"))
    for kind in dict.fromkeys(row.part for row in TABLE.values() if row.scope == "part" and row.part):
        found[f"part-{kind}"] = (f"Part {kind}", part(kind).draw(f"A part of type {kind}"))
    for kind in dict.fromkeys(row.part for row in TABLE.values() if row.scope == "audio" and row.part):
        found[f"audio-{kind}"] = (f"Audio {kind}", audio(kind).draw(f"Audio: the {kind}"))
    return found


_WORDS = {
    "response": "A stream that starts in the middle (`?starting_after=N`) may go on as from any live state. "
    "While the response lives, {free} may come at any time. What may come in all of the framed states has "
    "one arrow, from the frame.",
    "item": "The items without events of their own: {plain}. A `done` item whose status is `incomplete` or `failed` "
    "may skip the steps that did not happen; so may any item whose server does not send them.",
}


def files() -> dict[str, str]:
    """The page and its pictures."""
    free = codes(row.type for row in TABLE.values() if row.scope == "free")
    plain = codes(kind for kind in ITEMS if f"item-{kind}" not in drawings())
    text = f"""{HEAD}# The lifecycle

Which event may follow which, drawn from the table that the builder, the validator and the strategies read
(`respevents.lifecycle.TABLE`). A box is a state; `+` is an event that leads to it, `=` one that may come in it and
changes nothing. Four kinds of small machines stand inside each other: the response, its items by `output_index`, the
parts of an item by an index of their own, and audio. Items and parts move while the response is `in_progress`; a
response is completed or incomplete when its items are done, and may fail at any time. Every event of these:
[events](events.md).
"""
    made = {}
    for name, (title, drawing) in drawings().items():
        picture = f"lifecycle-{name}.svg"
        made[picture] = drawing.svg
        text += f"\n## {title}\n\n![{title}: states and events, as in the table below]({picture})\n\n"
        text += _WORDS.get(name, "").format(free=free, plain=plain)
        text += ("\n\n" if name in _WORDS else "") + drawing.text
    rows = [
        (code(row.type), code(row.prefix + "_"), codes(row.ready), code(row.cut) if row.cut else "no status")
        for row in ITEMS.values()
    ]
    text += "\n## Item types\n\nStates in which `response.output_item.done` may come, how ids begin at OpenAI, and the"
    text += " status of an item that the end of the response cut short.\n\n"
    text += table(("type", "id", "may be done after", "cut short"), rows)
    return {"lifecycle.md": text, **made}
