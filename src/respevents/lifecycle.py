"""The machine that holds a stream of events against the table in `_table` (read its theory of operation first).

Role-blind and sans-IO: the builder refuses to write what it calls a violation, the validator reports it and reads on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from respevents._errors import show
from respevents._table import FREE, ITEMS, MID_DELTA, PART_KINDS, TABLE, TERMINAL, ItemRow, Row

__all__ = ["ITEMS", "TABLE", "TERMINAL", "ItemRow", "ItemState", "Lifecycle", "PartState", "Row", "Violation"]

_RUNNING: Final = frozenset({"in_progress", "continued"})
"""States of the response in which events of items come."""

_UNKNOWN: Final = "unknown"
"""The state of an item or a part whose start was not seen: anything may come."""


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """One event that came when it may not. A value, to be raised or reported."""

    rule: str
    """A stable slug: which of the rules of the theory above is broken."""
    event: str
    """The event type."""
    state: str
    """Where the machine stood, in words: `in_progress`, `output item 2 (function_call): arguments`."""
    expected: str
    fix: str
    path: str | None = None
    """JSON path into the event, where one key is at fault."""
    got: str | None = None


class ItemState:
    """How one item stands. Read it; the machine writes it."""

    __slots__ = ("counts", "parts", "state", "type")

    def __init__(self, kind: str, state: str) -> None:
        self.type = kind
        self.state = state
        self.parts: dict[tuple[str, int], PartState] = {}
        self.counts: dict[str, int] = {}


class PartState:
    """How one part of an item, or of the response's audio, stands. Read it; the machine writes it."""

    __slots__ = ("counts", "kind", "state", "wrapped")

    def __init__(self, kind: str | None, state: str, *, wrapped: bool = False) -> None:
        self.kind = kind
        self.state = state
        self.wrapped = wrapped
        """An event opened it, so an event has to close it."""
        self.counts: dict[str, int] = {}

    @property
    def settled(self) -> bool:
        """Nothing is left to come."""
        return self.state in {"closed", _UNKNOWN} or (self.state == "finished" and not self.wrapped)


class Lifecycle:
    """The machine. Feed it every event in order: our Structs or mappings. It keeps no text.

    `continued` is a stream that starts in the middle (`GET /responses/{id}?stream=true&starting_after=N`): items
    whose start was not seen are taken as they come. `table` has the rows of another dialect.
    """

    __slots__ = ("audio", "continued", "items", "state", "table")

    def __init__(self, *, continued: bool = False, table: Mapping[str, Row] = TABLE) -> None:
        self.continued = continued
        self.table = table
        self.state = "continued" if continued else "idle"
        self.items: dict[int, ItemState] = {}
        self.audio: dict[str, PartState] = {}

    @property
    def ended(self) -> bool:
        """The terminal event came."""
        return self.state in TERMINAL

    @property
    def running(self) -> bool:
        """Events of items may come."""
        return self.state in _RUNNING

    def open_items(self) -> list[int]:
        """The `output_index` of every item that is not done."""
        return [index for index, item in self.items.items() if item.state not in {"done", _UNKNOWN}]

    def check(self, event: Mapping[str, Any] | msgspec.Struct) -> Violation | None:
        """What is wrong with `event` as the next one; changes nothing."""
        return _Look(self, event).violation

    def feed(self, event: Mapping[str, Any] | msgspec.Struct) -> Violation | None:
        """Move on `event`. After a violation the machine stands where a reader best goes on from."""
        look = _Look(self, event)
        look.move()
        return look.violation

    def close(self) -> Violation | None:
        """What is wrong with the stream's ending here."""
        if self.ended:
            return None
        return Violation(
            rule="unterminated",
            event="end of stream",
            state=self.state,
            expected="response.completed, response.incomplete or response.failed",
            fix="end every stream with one of the three; clients take a clean end without one for success",
        )


_JSON_INDEX: Final = "an integer from 0"


def _reader(event: Any) -> Callable[[str], Any]:
    if type(event) is dict or isinstance(event, Mapping):
        return event.get

    def read(key: str) -> Any:
        value = getattr(event, key, None)
        return None if value is msgspec.UNSET else value

    return read


def _skips_sum(row: Row, kind: str | None, state: str) -> bool:
    """The event closes a part without its whole text, of a kind whose text is summed up by an event of its own."""
    return row.closes and row.part is None and state == "open" and kind in PART_KINDS


class _Look:
    """One event held against the machine: what is wrong, and where to move."""

    __slots__ = ("index", "item", "kind", "lost", "machine", "part", "part_key", "read", "row", "violation")

    def __init__(self, machine: Lifecycle, event: Any) -> None:
        self.machine = machine
        self.read = read = _reader(event)
        self.kind = kind = read("type")
        self.row = row = machine.table.get(kind, FREE) if isinstance(kind, str) else FREE
        self.item: ItemState | None = None
        self.part: PartState | None = None
        self.index: int | None = None
        self.part_key: Any = None
        self.lost = False
        """There is nothing to move: the event does not say what it belongs to, or comes after its end."""
        self.violation: Violation | None = self._response()
        if self.lost:
            return
        found: Violation | None = None
        if row.scope == "item":
            found = self._item()
        elif row.scope == "part":
            found = self._part()
        elif row.scope == "audio":
            found = self._audio()
        if self.violation is None:
            self.violation = found

    # -- looking

    def _fault(self, rule: str, state: str, expected: str, fix: str, **at: str | None) -> Violation:
        return Violation(rule=rule, event=str(self.kind), state=state, expected=expected, fix=fix, **at)

    def _response(self) -> Violation | None:
        row, state, machine = self.row, self.machine.state, self.machine
        inside = row.scope in {"item", "part", "audio"}
        if inside and state in _RUNNING:
            return None
        if not inside and (state in row.after or state in row.stay):
            return self._all_done() if row.to in {"completed", "incomplete"} else None
        if state in TERMINAL:
            self.lost = True
            return self._fault(
                "after-terminal",
                state,
                "nothing, or response.rate_limits.updated",
                "send nothing after the terminal event",
            )
        if state == "error":
            self.lost = inside
            return self._fault("after-error", state, "response.failed", "send response.failed next and nothing else")
        if state == "idle":
            return self._fault(
                "not-started", state, "response.created", "send response.created and response.in_progress first"
            )
        expected = ", ".join(
            sorted(other.type for other in machine.table.values() if state in other.after and other.scope == "response")
        )
        if inside:
            return self._fault("response-order", state, expected, "send response.in_progress before any item")
        fix = "send it once, where the response enters this state: created, (queued,) in_progress, then the ending"
        return self._fault("response-order", machine.state, expected, fix)

    def _all_done(self) -> Violation | None:
        machine = self.machine
        left = machine.open_items()
        if left:
            named = ", ".join(f"{index} ({machine.items[index].type})" for index in left[:8])
            return self._fault(
                "item-open",
                f"output item {named} is not done",
                "response.output_item.done of every item first",
                "close every item before the response ends, or end it with response.failed",
            )
        for name, part in machine.audio.items():
            if part.state == "bare":
                return self._fault(
                    "audio-open",
                    f"{name} is open",
                    "response.audio.done and response.audio.transcript.done first",
                    "send the done event of the audio before the response ends",
                )
        return None

    def _number(self, key: str) -> int | None:
        value = self.read(key)
        return value if type(value) is int and value >= 0 else None

    def _missing(self, key: str, state: str) -> Violation:
        self.lost = True
        return self._fault(
            "index-missing",
            state,
            _JSON_INDEX,
            f"say with `{key}` what the event belongs to",
            path=f"$.{key}",
            got=show(self.read(key)),
        )

    def _item(self) -> Violation | None:
        machine, row = self.machine, self.row
        self.index = index = self._number("output_index")
        if index is None:
            return self._missing("output_index", machine.state)
        self.item = item = machine.items.get(index)
        if row.opens:
            return self._added(index, item)
        if item is None:
            if machine.continued:
                return None
            return self._not_added(index)
        if item.state == "done":
            return self._after_done()
        if row.items and item.type not in row.items:
            return self._of_another_type(index)
        if item.state == _UNKNOWN:
            return None
        if row.closes:
            return self._done(item)
        if item.state in row.after or item.state in row.stay:
            return self._counted(item.counts)
        return self._out_of_order(item.state)

    def _added(self, index: int, item: ItemState | None) -> Violation | None:
        machine = self.machine
        if item is not None and item.state != _UNKNOWN:
            self.lost = True
            return self._fault(
                "item-added-twice",
                self._where(),
                f"output_index {len(machine.items)} for a new item",
                "add each item once, under a number of its own",
                path="$.output_index",
                got=str(index),
            )
        if index != len(machine.items) and not machine.continued:
            return self._fault(
                "index-order",
                machine.state,
                f"output_index {len(machine.items)}",
                "number output items from 0 in the order they are added: clients append them to a list",
                path="$.output_index",
                got=str(index),
            )
        return None

    def _not_added(self, index: int) -> Violation:
        return self._fault(
            "item-not-added",
            f"no item at output_index {index}",
            "response.output_item.added first",
            "send response.output_item.added before anything else of the item",
            path="$.output_index",
            got=str(index),
        )

    def _after_done(self) -> Violation:
        self.lost = True
        return self._fault(
            "item-done",
            self._where(),
            "nothing more of this item",
            "send what belongs to an item before its response.output_item.done",
        )

    def _of_another_type(self, index: int) -> Violation:
        self.lost = True
        return self._fault(
            "item-type",
            self._where(),
            f"an item of type {' or '.join(self.row.items)}",
            "add an item of that type, or send the events of this one",
            path="$.output_index",
            got=str(index),
        )

    def _done(self, item: ItemState) -> Violation | None:
        read = _reader(self.read("item") or {})
        kind = read("type")
        if isinstance(kind, str) and kind != item.type:
            return self._fault(
                "item-type",
                self._where(),
                f"an item of type {item.type}",
                "close an item with the type it was added with",
                path="$.item.type",
                got=show(kind),
            )
        for (key, number), part in item.parts.items():
            if not part.settled:
                return self._fault(
                    "item-unfinished",
                    f"{self._where()}, {key} {number} ({part.kind}) is {part.state}",
                    "the done events of its parts first",
                    f"close {key} {number} before the item",
                )
        row = ITEMS.get(item.type)
        if item.state in MID_DELTA or (
            row is not None and item.state not in row.ready and read("status") not in {"incomplete", "failed"}
        ):
            following = self._following(item.state, item.type)
            return self._fault(
                "item-unfinished",
                self._where(),
                following,
                f"send {following} before the item is done"
                + ("" if item.state in MID_DELTA else ", or close it with the status failed or incomplete"),
            )
        return None

    def _part(self) -> Violation | None:
        before = self._item_of_part()
        if self.lost:
            return before
        row, item = self.row, self.item
        assert item is not None
        assert row.index is not None
        number = self._number(row.index)
        if number is None:
            return self._missing(row.index, self._where())
        self.part_key = key = (row.index, number)
        self.part = part = item.parts.get(key)
        if item.state == _UNKNOWN and part is None:
            return before
        state = "absent" if part is None else part.state
        if state == _UNKNOWN:
            return before
        if part is not None and row.part is not None and part.kind is not None and part.kind != row.part:
            if part.kind in PART_KINDS:
                self.lost = True
                return self._fault(
                    "part-kind",
                    f"{self._where()}, {row.index} {number} is a part of type {part.kind}",
                    f"a part of type {row.part}",
                    "open a part of that type under the next index",
                    path=f"$.{row.index}",
                    got=str(number),
                )
            return before
        if state not in row.after and state not in row.stay:
            return self._part_order(state, number)
        if part is None:
            return before or self._opened(item, number)
        if _skips_sum(row, part.kind, state):
            return self._part_order(state, number)
        return self._counted(part.counts)

    def _item_of_part(self) -> Violation | None:
        """The checks of the item that a part belongs to."""
        machine, row = self.machine, self.row
        self.index = index = self._number("output_index")
        if index is None:
            return self._missing("output_index", machine.state)
        self.item = item = machine.items.get(index)
        if item is None:
            # Go on as if it had been added, once reported.
            self.item = ItemState(row.items[0] if len(row.items) == 1 else "", _UNKNOWN)
            return None if machine.continued else self._not_added(index)
        if item.state == "done":
            return self._after_done()
        if item.type not in row.items and item.type in ITEMS:
            return self._of_another_type(index)
        return None

    def _opened(self, item: ItemState, number: int) -> Violation | None:
        key = self.row.index
        count = sum(other == key for other, _ in item.parts)
        if number != count:
            return self._fault(
                "index-order",
                self._where(),
                f"{key} {count}",
                f"number the parts of an item from 0 in the order they are opened ({key})",
                path=f"$.{key}",
                got=str(number),
            )
        for (other, at), part in item.parts.items():
            if other == key and not part.settled:
                return self._fault(
                    "part-open",
                    f"{self._where()}, {other} {at} ({part.kind}) is {part.state}",
                    f"the done events of {other} {at} first",
                    "close a part before the next one opens; one text keeps one index",
                    path=f"$.{key}",
                    got=str(number),
                )
        return None

    def _part_order(self, state: str, number: int) -> Violation:
        row, item = self.row, self.item
        assert item is not None
        items = {item.type} if item.type in ITEMS else set(row.items)
        kind = row.part if self.part is None else self.part.kind
        expected = [
            other.type
            for other in self.machine.table.values()
            if other.index == row.index
            and (state in other.after or (state in other.stay and other.count is None))
            and (kind is None or other.part is None or other.part == kind)
            and items & set(other.items)
            and not _skips_sum(other, kind, state)
        ]
        following = " or ".join(expected) if expected else "nothing more of this part"
        return self._fault(
            "part-order",
            f"{self._where()}, {row.index} {number} is {state}",
            following,
            f"send {following} here" if expected else "open the next part under the next index",
            path=f"$.{row.index}",
            got=str(number),
        )

    def _audio(self) -> Violation | None:
        row, machine = self.row, self.machine
        assert row.part is not None
        self.part = part = machine.audio.get(row.part)
        state = "absent" if part is None else part.state
        if state in row.after or state in row.stay or machine.continued:
            return None
        return self._fault("audio-order", f"{row.part} is {state}", "a delta", "send one done event after the deltas")

    def _counted(self, counts: dict[str, int]) -> Violation | None:
        key = self.row.count
        if key is None:
            return None
        number = self._number(key)
        if number is None:
            value = self.read(key)
            return self._fault(
                "index-missing", self._where(), _JSON_INDEX, "number it", path=f"$.{key}", got=show(value)
            )
        if number != counts.get(key, 0) and not self.machine.continued:
            return self._fault(
                "index-order",
                self._where(),
                f"{key} {counts.get(key, 0)}",
                f"number them from 0 in the order they are sent ({key})",
                path=f"$.{key}",
                got=str(number),
            )
        return None

    def _out_of_order(self, state: str) -> Violation:
        assert self.item is not None
        following = self._following(state, self.item.type)
        return self._fault("item-order", self._where(), following, f"send {following} here")

    def _following(self, state: str, kind: str) -> str:
        """The events an item may go on with. There are some: only items of known types wait for something."""
        names = [
            row.type
            for row in self.machine.table.values()
            if row.scope == "item" and kind in row.items and (state in row.after or state in row.stay)
        ]
        if state in ITEMS[kind].ready:
            names.append("response.output_item.done")
        return " or ".join(names)

    def _where(self) -> str:
        if self.item is None:
            return self.machine.state
        return f"output item {self.index} ({self.item.type}): {self.item.state}"

    # -- moving

    def move(self) -> None:
        row, machine = self.row, self.machine
        if self.lost:
            return
        scope = row.scope
        if scope == "response":
            if not machine.ended:
                machine.state = row.to
            return
        if scope == "free":
            return
        if machine.state not in _RUNNING:
            machine.state = "in_progress"  # reported once: what came before it was lost
        if scope == "audio":
            self._move_audio()
        elif scope == "item":
            self._move_item()
        else:
            self._move_part()

    def _move_audio(self) -> None:
        row, part = self.row, self.part
        assert row.part is not None
        if part is None:
            self.machine.audio[row.part] = PartState(row.part, row.to)
        else:
            part.state = row.to

    def _move_item(self) -> None:
        row, machine, index = self.row, self.machine, self.index
        assert index is not None
        if row.opens:
            kind = _reader(self.read("item") or {})("type")
            machine.items[index] = ItemState(kind if isinstance(kind, str) else "", row.to)
            return
        item = self.item
        if item is None:
            kind = row.items[0] if row.items else _reader(self.read("item") or {})("type")
            item = machine.items[index] = ItemState(kind if isinstance(kind, str) else "", row.to or _UNKNOWN)
        elif row.to and item.state not in row.stay:
            item.state = row.to
        if row.closes:
            item.parts.clear()
        if row.count is not None:
            item.counts[row.count] = item.counts.get(row.count, 0) + 1

    def _move_part(self) -> None:
        row, item, key = self.row, self.item, self.part_key
        assert item is not None
        assert self.index is not None
        self.machine.items.setdefault(self.index, item)
        part = self.part
        if part is None:
            kind = row.part if row.part is not None else _reader(self.read("part") or {})("type")
            # An event that leads nowhere is no start: the start was reported as missing, or not seen.
            known = kind if isinstance(kind, str) else None
            part = item.parts[key] = PartState(known, row.to or _UNKNOWN, wrapped=row.to == "open")
        elif row.to and part.state not in row.stay:
            part.state = row.to
        if row.count is not None:
            part.counts[row.count] = part.counts.get(row.count, 0) + 1
