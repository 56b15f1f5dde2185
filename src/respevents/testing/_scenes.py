"""Whole legal streams: a random walk over the lifecycle table, with bodies from the schema set.

Nothing here names an event, an item or a part: which steps there are is read from `lifecycle.TABLE` and `ITEMS`, what
a step carries comes from the walker over the strict schema, and the machine says which of them may come. The builder
then does what it does for a server: it numbers, sums up, closes and ends. So a row that is added to the table, or an
event that is added to the set, is walked without a change here.
"""

from __future__ import annotations

import functools
import itertools
import zlib
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from respevents import schemas
from respevents._grammar import GRAMMARS
from respevents._output import step_fields
from respevents._snapshot import request_echo
from respevents.failures import Cause, Failure, FailureCode, Policy
from respevents.lifecycle import ITEMS, TABLE, Row
from respevents.stream import ResponseStream
from respevents.testing._bodies import EXTENSION, FREE_KEYS, bodies_of, kinds_of, output_definitions
from respevents.testing._walker import walker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from respevents._dialect import Dialect
    from respevents._output import Item, Part

__all__ = ["ENDINGS", "failure", "frames", "request", "scene"]

_CREATED: Final = 1767225600
_STEPS: Final = 24
"""The most steps of a walk; a step is one event, or the events that close an item or a part."""

_TURNS: Final = ("stop", *["going"] * 9, *["adding"] * 3, *["closing"] * 3, *["free"] * 3)
"""How often a step is of which kind; kinds of their own, since thirty items could be added for each delta."""

ENDINGS: Final = ("response.completed", "response.incomplete", "response.failed")
_POLICIES: Final[Mapping[Dialect, list[Policy]]] = {
    "openai": [Policy.default, Policy.tensorrt_llm, Policy.gateway, Policy.codex],
    "open-responses": [Policy.default, Policy.codex],
}
_MODELS: Final = ("m", "org/model-7b", "modèle")
_LISTS: Final = {"content_index": "content", "summary_index": "summary"}


@functools.cache
def _weighted(dialect: Dialect) -> list[str]:
    """Item types to add, each as often as the table has rows of its own for it, and once; the simple ones first."""
    table = GRAMMARS[dialect].table.values()
    weights = {kind: 1 + sum(kind in row.items for row in table) for kind in kinds_of(dialect)}
    return [kind for kind in sorted(weights, key=lambda kind: weights[kind]) for _ in range(weights[kind])]


class _Ring:
    """A number that stands for a step: the one that may come now and is nearest behind it, on a ring where each step
    has several places.

    An index into the list of what may come would stand for another step as soon as one before it is taken out, and
    then nothing shrinks.
    """

    def __init__(self, names: list[str]) -> None:
        self.ring = [*dict.fromkeys(names)]  # what stands first is what the others shrink to
        for turn in range(8):
            # The order of each turn is another one and never changes: sorted by a digest.
            digests = {zlib.crc32(f"{turn} {name} {at}".encode()): name for at, name in enumerate(names)}
            self.ring += [digests[digest] for digest in sorted(digests)]
        self.places = st.integers(0, len(self.ring) - 1)

    def nearest(self, place: int, offers: Mapping[str, list[Callable[[], bytes]]]) -> list[Callable[[], bytes]]:
        """The offers of the name that is found first from `place` on."""
        turned = itertools.chain(self.ring[place:], self.ring[:place])
        return next(offers[name] for name in turned if name in offers)


@functools.cache
def _ring(turn: str, dialect: Dialect) -> _Ring:
    if turn == "adding":
        return _Ring(_weighted(dialect))
    if turn == "closing":
        return _Ring(["item", "part", "sum"])
    return _Ring([*GRAMMARS[dialect].table, EXTENSION])


@functools.cache
def _emptied(kind: str) -> tuple[tuple[str, ...], ...]:
    """Where deltas of an item of this type gather: places that are empty when it is added."""
    paths = [row.into for row in TABLE.values() if row.scope == "item" and kind in row.items and row.into]
    return tuple(dict.fromkeys(paths))


def _empty(value: Any, path: tuple[str, ...]) -> None:
    for key in path[:-1]:
        value = value.get(key)
        if not isinstance(value, dict):
            return
    if isinstance(value, dict) and isinstance(value.get(path[-1]), str):
        value[path[-1]] = ""


class _Walk:
    """One walk: draws a step, asks the machine, sends it."""

    def __init__(
        self,
        draw: Callable[[Any], Any],
        stream: ResponseStream,
        kinds: list[str],
        statuses: tuple[str | None, ...],
        dialect: Dialect,
    ) -> None:
        self.draw = draw
        self.kinds = kinds
        self.statuses = statuses
        """How an item may end: one that was cut short is no part of a completed response."""
        self.stream = stream
        self.writer = stream._writer  # noqa: SLF001 - the kit is part of the package
        self.grammar = self.writer.grammar
        self.dialect = dialect
        self.extends = EXTENSION in kinds_of(dialect)
        self.bodies = bodies_of(dialect)
        self.sent: list[bytes] = []
        self.ids = 0

    def run(self, start: Callable[[], bytes] | None) -> None:
        if start is not None:
            self.sent.append(start())
        for _ in range(_STEPS):
            turn = self.draw(st.sampled_from(_TURNS))
            if turn == "stop":
                break
            offers: dict[str, list[Callable[[], bytes]]] = getattr(self, turn)()
            if offers:
                ring = _ring(turn, self.dialect)
                steps = ring.nearest(self.draw(ring.places), offers)
                self.sent.append((steps[0] if len(steps) == 1 else self.draw(st.sampled_from(steps)))())

    # ---- what may come now, by name

    def going(self) -> dict[str, list[Callable[[], bytes]]]:
        """The next of an item that is open."""
        found: dict[str, list[Callable[[], bytes]]] = {}
        for item in self.writer.output.open_items():
            for row in self.bodies.rows(item.type):
                steps = self.item_steps(item, row)
                if steps:
                    found.setdefault(row.type, []).extend(steps)
        return found

    def adding(self) -> dict[str, list[Callable[[], bytes]]]:
        """Another item."""
        return {kind: [functools.partial(self.add, kind)] for kind in self.kinds}

    def closing(self) -> dict[str, list[Callable[[], bytes]]]:
        """The end of something that is open."""
        found: dict[str, list[Callable[[], bytes]]] = {}
        for item in self.writer.output.open_items():
            states = self.writer.machine.items[item.index].parts
            found.setdefault("item", []).append(functools.partial(self.close_item, item))
            for part in item.parts.values():
                if not states[part.key, part.number].settled:
                    found.setdefault("part", []).append(functools.partial(self.close_part, item, part))
            for row in self.bodies.rows(item.type):
                whole = row.scope == "item" and row.whole is not None
                if whole and self.allowed(step_fields(row.type, item)):
                    found.setdefault("sum", []).append(functools.partial(self.sum_up, item, row))
        return found

    def free(self) -> dict[str, list[Callable[[], bytes]]]:
        """What belongs to no item."""
        found: dict[str, list[Callable[[], bytes]]] = {
            row.type: [functools.partial(self.body, {"type": row.type})]
            for row in self.grammar.table.values()
            if row.scope in {"free", "audio"} and self.allowed({"type": row.type})
        }
        if self.extends and self.allowed({"type": EXTENSION}):
            found[EXTENSION] = [lambda: self.stream.send({**self.draw(FREE_KEYS), "type": EXTENSION})]
        return found

    def allowed(self, event: dict[str, Any]) -> bool:
        return self.writer.machine.check(event) is None

    def item_steps(self, item: Item, row: Row) -> list[Callable[[], bytes]]:
        """The steps of one row on one item. What sums up and closes is the builder's to make."""
        if row.closes or row.whole is not None or row.type == "response.output_item.added":
            return []
        where = step_fields(row.type, item)
        if row.scope == "item":
            numbers: list[int | None] = [None]
        else:
            state = self.writer.machine.items[item.index]
            numbers = [*{number for key, number in state.parts if key == row.index}]
            numbers.append(len(numbers))
        found: list[Callable[[], bytes]] = []
        for number in numbers:
            event = dict(where)
            if row.index is not None:
                event[row.index] = number
            if row.count is not None:
                event[row.count] = self.count(item, row, number)
            parts = self.bodies.parts(row, item.type)
            if parts is not None:
                found += [
                    functools.partial(self.body, event, part=one)
                    for one in parts
                    if self.allowed({**event, "part": {"type": self.bodies.type_of(one)}})
                ]
            elif self.allowed(event):
                found.append(functools.partial(self.body, event))
        return found

    def count(self, item: Item, row: Row, number: int | None) -> int:
        state = self.writer.machine.items[item.index]
        counts = state.counts
        if row.index is not None and number is not None:
            part = state.parts.get((row.index, number))
            counts = part.counts if part is not None else {}
        return counts.get(row.type, 0)

    # ---- the steps

    def body(self, known: dict[str, Any], part: dict[str, Any] | None = None) -> bytes:
        """An event of the walker, with what says whose it is; b"" where the machine has it otherwise after all."""
        event = self.draw(self.bodies.event(known["type"])) | known
        event.pop("sequence_number", None)
        opened = event.get("part") if part is None else self.draw(self.bodies.value(part))
        if isinstance(opened, dict):  # a part is empty when it opens
            event["part"] = {
                key: type(value)() if key != "type" and isinstance(value, (str, list)) else value
                for key, value in opened.items()
            }
        return self.stream.send(event) if self.allowed(event) else b""

    def add(self, kind: str) -> bytes:
        definition = output_definitions(self.grammar.version).get(kind, {"properties": {}})
        item = self.draw(self.bodies.item(kind)) | {"type": kind}
        self.ids += 1
        row = ITEMS.get(kind)
        item["id"] = f"{row.prefix if row is not None else 'item'}_{self.ids}"
        if "call_id" in item:
            item["call_id"] = f"call_{self.ids}"
        statuses = self.bodies.resolved(definition)["properties"].get("status", {})
        if self.extends or "in_progress" in statuses.get("enum", ()):
            item["status"] = "in_progress"
        elif item.get("status") == "incomplete":
            item["status"] = "completed"
        for path in _emptied(kind):
            _empty(item, path)
        for index, name in _LISTS.items():
            if any(one.index == index and kind in one.items for one in TABLE.values()) and name in item:
                item[name] = [] if item[name] is not None else None
        for one in TABLE.values():
            if one.scope == "part" and one.whole and kind in one.items and one.part in {"command", "output"}:
                _without_parts(item, one)
        event = {"type": "response.output_item.added", "output_index": len(self.writer.machine.items), "item": item}
        out = self.writer.run("response.output_item.added")  # a queued response is brought on its way
        if not self.writer.overlap:
            out += b"".join(map(self.close_item, self.writer.output.open_items()))
        return out + self.stream.send(event)

    def sum_up(self, item: Item, row: Row) -> bytes:
        return b"".join(map(self.writer.emit, self.writer.output.closing_step(item, row)))

    def close_part(self, item: Item, part: Part) -> bytes:
        out = b""
        for event in self.writer.output.closing_part(item, part):
            said: dict[str, Any] = {}
            if part.kind == "output":  # how a command ended is no sum of anything
                outcome = self.draw(self.bodies.outcome())
                said["output"] = self.writer.output.written(item, part.number, outcome)
            out += self.writer.emit({**event, **said})
        return out

    def close_item(self, item: Item) -> bytes:
        return self.settle(item) + self.writer.close(item, self.draw(st.sampled_from(self.statuses)))

    def make_way(self) -> bytes:
        """Close what only OpenAI leaves to be cut short: in Open Responses the last item alone may be incomplete."""
        if not self.extends:
            return b""
        last = len(self.writer.machine.items) - 1
        return b"".join(self.close_item(item) for item in self.writer.output.open_items() if item.index < last)

    def settle(self, item: Item) -> bytes:
        """Say how the commands of an item ended that were not said to."""
        states = self.writer.machine.items[item.index].parts
        unsaid = [one for one in item.parts.values() if not states[one.key, one.number].settled]
        return b"".join(self.close_part(item, part) for part in unsaid if part.kind == "output")


def _without_parts(item: dict[str, Any], row: Row) -> None:
    """An item whose parts are said by events has none when it is added."""
    if isinstance(item.get(row.into[0]), list):
        item[row.into[0]] = []
    action = item.get("action")
    if isinstance(action, dict) and isinstance(action.get(f"{row.into[0]}s"), list):
        action[f"{row.into[0]}s"] = []


@st.composite
def scene(
    draw: Callable[[Any], Any], *, ending: str | None = None, item: str | None = None, dialect: Dialect = "openai"
) -> bytes:
    """The bytes of one whole legal stream.

    `ending`: the type of the terminal event, `item`: the type of its output items; any by default.
    """
    kinds = _weighted(dialect) if item is None else [item]
    how = draw(st.sampled_from(["plain", "overlap", "background", "continued"]))
    stream = ResponseStream(
        model=draw(st.sampled_from(_MODELS)),
        request=draw(st.none() | request(GRAMMARS[dialect].version)),
        id="resp_1",
        created_at=_CREATED,
        overlap=how == "overlap",
        starting_after=draw(st.integers(0, 1000)) if how == "continued" else None,
        clock=lambda: _CREATED + 2,
        policy=draw(st.sampled_from(_POLICIES[dialect])),
        dialect=dialect,
    )
    wanted = ending or draw(st.sampled_from(ENDINGS))
    whole = wanted == "response.completed" or dialect == "open-responses"
    walk = _Walk(draw, stream, kinds, (None,) if whole else (None, "incomplete"), dialect)
    if how == "continued":
        walk.run(draw(st.sampled_from([None, stream.in_progress])))
    elif wanted == "response.failed" and draw(st.integers(0, 9)) == 9:  # the server dies before it begins
        walk.sent.append(walk.writer.emit_response("response.created", "in_progress"))
    else:
        walk.run(functools.partial(stream.start, queued=how == "background"))
    if wanted == "response.incomplete":
        walk.sent.append(walk.make_way())
    if wanted != "response.failed":
        walk.sent += [walk.settle(item) for item in walk.writer.output.open_items()]
    if stream.state == "queued" and wanted != "response.failed":
        walk.sent.append(stream.in_progress())
    if wanted == "response.failed":
        walk.sent.append(stream.fail(draw(failure())))
    elif wanted == "response.incomplete":
        walk.sent.append(
            stream.incomplete(draw(st.sampled_from(["max_output_tokens", "content_filter"])), draw(usage()))
        )
    else:
        walk.sent.append(stream.complete(draw(usage())))
    return b"".join(walk.sent)


@functools.cache
def usage() -> st.SearchStrategy[dict[str, Any] | None]:
    """Usage as an engine counts it, or none."""
    count = st.integers(0, 1_000_000)
    return st.none() | st.fixed_dictionaries({"input_tokens": count, "output_tokens": count})


@st.composite
def failure(draw: Callable[[Any], Any]) -> Failure:
    """Failures of every cause that is told to a client, with every code of the catalogue."""
    told = [cause for cause in Cause if Failure(cause=cause, message="x").ending != "silent"]
    return Failure(
        cause=draw(st.sampled_from(told)),
        message=draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=40)),
        code=draw(st.none() | st.sampled_from([code.value for code in FailureCode])),
        retry_after=draw(st.none() | st.floats(0, 3600)),
        param=draw(st.none() | st.sampled_from(["input", "input[2].type"])),
    )


@functools.cache
def request(version: str = schemas.NEWEST) -> st.SearchStrategy[dict[str, Any]]:
    """Requests: the keys that the response repeats, as far as its schema takes them; `model` and `stream` besides."""
    made = walker(version)
    properties: dict[str, Any] = made.bundle["$defs"]["Response"]["properties"]
    properties = {**properties, "metadata": walker().bundle["$defs"]["Response"]["properties"]["metadata"]}
    echoed = {
        key: made.value(schema, 2)
        for key, schema in properties.items()
        if key in request_echo(None) and key != "background"
    }
    return st.fixed_dictionaries(
        {"model": st.sampled_from(_MODELS), "stream": st.just(True)},
        optional=echoed,
    )


def frames(body: bytes) -> list[bytes]:
    """The frames of a body of the builder's, each with its blank line."""
    return [frame + b"\n\n" for frame in body.split(b"\n\n")[:-1]]
