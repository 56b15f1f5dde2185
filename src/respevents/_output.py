"""What a stream has sent so far: items, parts, text. Read for the `done` events and for the terminal snapshot.

It learns from the events alone (with the columns `into`, `whole` and `done` of the lifecycle table), so it makes no
difference whether a handle built an event or the caller sent it as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from respevents._generated.tables import EVENTS, FIELDS
from respevents._grammar import ALIASES, GRAMMARS, Grammar
from respevents.lifecycle import ITEMS, TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from respevents.lifecycle import Lifecycle, Row

__all__ = ["Item", "Joiner", "Output", "Part", "Text", "keys_of", "route_of", "step_fields"]

_COALESCE: Final = 1024
"""Pieces that are joined at a time. A list of small strings takes 13 bytes a character, a joined one takes 1."""

_LISTS: Final = {"content_index": "content", "summary_index": "summary"}
"""Index of a part -> the list of the item that holds it."""


class Text:
    """Text that grows by pieces; linear in time, near one byte an ASCII character."""

    __slots__ = ("blocks", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.blocks: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.pieces or self.blocks)

    def add(self, piece: str) -> None:
        self.pieces.append(piece)
        if len(self.pieces) >= _COALESCE:
            self.coalesce()

    def coalesce(self) -> None:
        self.blocks.append("".join(self.pieces))
        self.pieces.clear()

    def set(self, text: str) -> None:
        self.pieces.clear()
        self.blocks[:] = [text]

    def value(self) -> str:
        return "".join(self.blocks) + "".join(self.pieces)


class Joiner:
    """Joins surrogate pairs that were cut between two deltas: a high half waits for the next one."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = ""

    def push(self, text: str) -> str:
        """What can be sent now. A half that stays alone is U+FFFD."""
        if self.held:
            text, self.held = self.held + text, ""
        if text.isascii():
            return text
        if "\ud800" <= text[-1] <= "\udbff":
            self.held, text = text[-1], text[:-1]
        try:
            text.encode()
        except UnicodeEncodeError:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return text

    def flush(self) -> str:
        """What was held, now that nothing follows."""
        held, self.held = self.held, ""
        return "\ufffd" if held else ""


class Part:
    """One part of an item that was opened."""

    __slots__ = ("joiner", "key", "kind", "logprobs", "number", "opener", "outputs", "pending", "text", "wire")

    def __init__(self, key: str, number: int, kind: str, opener: str | None, wire: dict[str, Any]) -> None:
        self.key = key
        self.number = number
        self.kind = kind
        self.opener = opener
        """The event type that opened it; None for a part that its first delta opened."""
        self.wire = wire
        self.text = Text()
        self.joiner = Joiner()
        self.pending: list[Any] = []
        """Logprobs of a delta that is held back."""
        self.logprobs: list[Any] = []
        self.outputs: dict[str, Text] = {}
        """stdout and stderr of a shell command."""


class Item:
    """One output item that was added."""

    __slots__ = ("done", "id", "index", "joiner", "parts", "text", "type", "wire", "writing")

    def __init__(self, index: int, wire: dict[str, Any]) -> None:
        self.index = index
        self.wire = wire
        self.id: str | None = wire.get("id")
        self.type: str = wire["type"]
        self.parts: dict[tuple[str, int], Part] = {}
        self.text = Text()
        self.joiner = Joiner()
        self.writing = {"stdout": Joiner(), "stderr": Joiner()} if self.type == "shell_call_output" else {}
        self.done = False


def keys_of(kind: str) -> Mapping[str, Any]:
    """The keys that the schema names for an event."""
    found: Mapping[str, Any] = FIELDS[EVENTS[ALIASES.get(kind, kind)]]
    return found


def step_fields(kind: str, item: Item) -> dict[str, Any]:
    """An event of an item, with what says whose it is. (`shell_call_command` events carry no `item_id`.)"""
    event: dict[str, Any] = {"type": kind, "output_index": item.index}
    if item.id is not None and "item_id" in keys_of(kind):
        event["item_id"] = item.id
    return event


def _route(kind: str) -> dict[str, Row]:
    """For each state of an item type the step that leads closest to its end."""
    row = ITEMS.get(kind)
    if row is None or not row.steps:
        return {}
    steps = [
        one
        for one in TABLE.values()
        if one.scope == "item" and kind in one.items and not one.done and one.after and one.to != "failed"
    ]
    route: dict[str, Row] = {}
    goals = [state for state in row.ready if state not in {"added", "failed"}]
    while goals:
        goal = goals.pop(0)
        for step in steps:
            if step.to == goal:
                for state in step.after:
                    if state not in route and state not in row.ready[1:]:
                        route[state] = step
                        goals.append(state)
    return route


def route_of(item: Item) -> dict[str, Row]:
    operation = item.wire.get("operation")
    if isinstance(operation, dict) and operation.get("type") == "delete_file":
        return {}  # it has no diff
    return _ROUTES.get(item.type, {})


_ROUTES: Final = {kind: _route(kind) for kind in ITEMS}


class Output:
    """The output so far."""

    __slots__ = ("grammar", "items", "machine")

    def __init__(self, machine: Lifecycle, grammar: Grammar = GRAMMARS["openai"]) -> None:
        self.machine = machine
        self.grammar = grammar
        self.items: dict[int, Item] = {}

    def done_items(self) -> list[dict[str, Any]]:
        """The items that are done, in stream order."""
        return [self.items[index].wire for index in sorted(self.items) if self.items[index].done]

    def open_items(self) -> list[Item]:
        return [item for _, item in sorted(self.items.items()) if not item.done]

    # ---- learning

    def absorb(self, row: Row | None, event: dict[str, Any]) -> None:
        """Take in an event that the machine let pass. Values of odd types are left out."""
        if row is None or row.scope not in {"item", "part"}:
            return
        index = event["output_index"]
        if row.type == "response.output_item.added":
            self.items[index] = Item(index, event["item"])
            return
        item = self.items.get(index)
        if item is None:  # of a stream that was continued: the client has its start
            if row.type == "response.output_item.done":
                self.items[index] = item = Item(index, event["item"])
                item.done = True
            return
        if row.type == "response.output_item.done":
            item.wire, item.done = event["item"], True
            item.parts.clear()
            item.text = Text()
        elif row.scope == "part":
            self._part(row, item, event)
        elif row.done:
            item.text.add(_text(event.get("delta")))
        elif row.whole:
            whole = _text(event.get(row.whole))
            item.text.set(whole)
            _place(item.wire, row.into, whole)

    def _part(self, row: Row, item: Item, event: dict[str, Any]) -> None:
        assert row.index is not None
        key = row.index, event[row.index]
        part = item.parts.get(key)
        if part is None:
            wire = event.get("part")
            wire = wire if isinstance(wire, dict) else {}
            kind = wire.get("type", row.part)
            opener = None if row.done or row.whole else row.type
            part = item.parts[key] = Part(*key, kind if isinstance(kind, str) else "", opener, wire)
        if row.type == "response.output_text.annotation.added":
            _append_to(part.wire, "annotations", event.get("annotation"))
        elif part.kind == "output":
            _output(row, item, part, event)
        elif row.done:
            part.text.add(_text(event.get("delta")))
            part.logprobs += _list(event.get("logprobs"))
        elif row.whole:
            part.text.set(_text(event.get(row.whole)))
            if "logprobs" in event:
                part.logprobs = _list(event["logprobs"])
            if part.kind == "command":
                _command(item, part)
            elif part.opener is None:
                _append(item, _LISTS[part.key], {"type": part.kind, **self.whole(part)})
        elif row.closes:
            closed = event.get("part")
            closed = dict(closed) if isinstance(closed, dict) else dict(part.wire)
            if part.logprobs and not closed.get("logprobs"):
                closed["logprobs"] = part.logprobs
            _append(item, _LISTS[part.key], closed)

    def whole(self, part: Part) -> dict[str, Any]:
        """What the deltas of a part sum up to, as keys of the part. Logprobs stand in the `done` events of text and
        item, and not in that of the part: so OpenAI has it, 2 of 2.
        """
        row = self.grammar.texts.get(part.kind)
        return {} if row is None else {row.into[0]: part.text.value()}

    @staticmethod
    def written(item: Item, number: int, outcome: dict[str, Any]) -> list[dict[str, Any]]:
        """The `output` of a shell command's `done` event: one entry with what was written and how it ended."""
        part = item.parts.get(("command_index", number))
        texts = part.outputs if part is not None else {}
        written = {name: texts[name].value() if name in texts else "" for name in ("stdout", "stderr")}
        return [{"outcome": outcome, **written}]

    def writing(self, item: Item, delta: dict[str, str]) -> dict[str, Any]:
        """The delta of what a shell command writes: the one whose output is open, or the next."""
        parts = self.machine.items[item.index].parts
        number = sum(part.state == "closed" for part in parts.values())
        kind = "response.shell_call_output_content.delta"
        return {**step_fields(kind, item), "command_index": number, "delta": delta}

    # ---- closing

    def closing_part(self, item: Item, part: Part) -> Iterator[dict[str, Any]]:
        """The events that are left of a part. Each must be fed before the next is asked for."""
        row = self.grammar.texts.get(part.kind)
        where = {part.key: part.number}

        def state() -> str:
            return self.machine.items[item.index].parts[part.key, part.number].state

        if row is not None and state() in {"open", "bare"}:
            rest = part.joiner.flush()
            if rest:
                delta: dict[str, Any] = {
                    **step_fields(row.type[: -len("done")] + "delta", item),
                    **where,
                    "delta": rest,
                }
                if part.kind == "output_text":
                    delta["logprobs"], part.pending = part.pending, []
                yield delta
            if part.kind == "output":
                output = self.written(item, part.number, {"type": "timeout"})
                yield {**step_fields(row.type, item), **where, "output": output}
                return
            assert row.whole is not None
            event = {**step_fields(row.type, item), **where, row.whole: part.text.value()}
            if part.kind == "output_text":
                event["logprobs"] = part.logprobs
            yield event
        if part.opener is not None and state() in {"open", "finished"}:
            closer = part.opener[: -len("added")] + "done"
            yield {**step_fields(closer, item), **where, "part": {**part.wire, **self.whole(part)}}

    def closing(self, item: Item, status: str | None = None) -> Iterator[dict[str, Any]]:
        """The events that are left of an item, its `done` included. `status` is for one that was cut short (a step
        that did not happen is left out then); None closes it as finished.
        """
        if item.done:
            return
        rest = {name: joiner.flush() for name, joiner in item.writing.items() if joiner.held}
        if rest:
            yield self.writing(item, rest)
        parts = self.machine.items[item.index].parts
        for (key, number), part in list(item.parts.items()):
            if not parts[key, number].settled:
                yield from self.closing_part(item, part)
        machine_item = self.machine.items[item.index]
        # Deltas that came have to be summed up, whatever the item is.
        route = _ROUTES.get(item.type, {}) if machine_item.state in _MID_DELTA else route_of(item)
        known = self.grammar.items.get(item.type)
        # An item without a status cannot say that it was cut short: it goes through its steps.
        cut = status is not None and (known is None or known.cut is not None)
        while (row := route.get(machine_item.state)) is not None and (not cut or machine_item.state in _MID_DELTA):
            yield from self.closing_step(item, row)
        wire = dict(item.wire)
        if cut:
            wire["status"] = status if known is None or status != "incomplete" else known.cut
        elif "status" in wire or (known is not None and known.statuses):
            wire["status"] = _final(wire.get("status"), machine_item.state)
        yield {"type": "response.output_item.done", "output_index": item.index, "item": wire}

    @staticmethod
    def closing_step(item: Item, row: Row) -> Iterator[dict[str, Any]]:
        """The events of one step towards the end of an item."""
        if row.whole is not None:
            rest = item.joiner.flush()
            if rest:
                yield {**step_fields(row.type.rpartition(".")[0] + ".delta", item), "delta": rest}
            yield {**step_fields(row.type, item), row.whole: item.text.value() or _at(item.wire, row.into)}
        else:
            yield step_fields(row.type, item)


_MID_DELTA: Final = frozenset(row.to for row in TABLE.values() if row.scope == "item" and row.done)


def _final(status: Any, state: str) -> str:
    """The status of an item that is closed as finished."""
    if state == "failed":
        return "failed"
    return status if status in {"completed", "incomplete", "failed"} else "completed"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _append(item: Item, name: str, value: dict[str, Any]) -> None:
    _append_to(item.wire, name, value)


def _append_to(wire: dict[str, Any], name: str, value: Any) -> None:
    held = wire.get(name)
    # A new list: events that were built from the old one stay as they were.
    wire[name] = [*(held if isinstance(held, list) else []), value]


def _place(wire: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        held = wire.get(key)
        wire[key] = dict(held) if isinstance(held, dict) else {}
        wire = wire[key]
    wire[path[-1]] = value


def _at(wire: Any, path: tuple[str, ...]) -> str:
    """The text at a place of an item: some are added with it whole."""
    for key in path:
        wire = wire.get(key) if isinstance(wire, dict) else None
    return _text(wire)


def _command(item: Item, part: Part) -> None:
    held = item.wire.get("action")
    action = dict(held) if isinstance(held, dict) else {}
    action["commands"] = [*_list(action.get("commands")), part.text.value()]
    item.wire["action"] = action


def _output(row: Row, item: Item, part: Part, event: dict[str, Any]) -> None:
    if row.done:
        delta = event.get("delta")
        for name, piece in delta.items() if isinstance(delta, dict) else ():
            part.outputs.setdefault(name, Text()).add(_text(piece))
    else:
        item.wire["output"] = [*_list(item.wire.get("output")), *_list(event.get("output"))]
