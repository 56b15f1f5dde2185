"""What the events of a walk carry: strategies for events, parts and items, from the strict schema of a dialect."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from hypothesis import strategies as st

from respevents import schemas
from respevents._grammar import GRAMMARS
from respevents.testing._walker import FREE, TEXT, walker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from respevents._dialect import Dialect
    from respevents.lifecycle import Row

__all__ = ["EXTENSION", "FREE_KEYS", "Bodies", "bodies_of", "kinds_of", "output_definitions"]

EXTENSION: Final = "acme:thing"
"""An event and an item of an implementor's own."""

FREE_KEYS: Final = st.dictionaries(TEXT.map("x_{}".format), FREE, max_size=3)


@functools.cache
def output_definitions(version: str = schemas.NEWEST) -> Mapping[str, dict[str, Any]]:
    """Item type -> its schema, for what may stand in `output` of a response."""
    found: dict[str, dict[str, Any]] = {}
    definitions = walker(version).bundle["$defs"]
    for branch in definitions["Response"]["properties"]["output"]["items"]["anyOf"]:
        if "$ref" in branch:
            definition = definitions[branch["$ref"].rpartition("/")[2]]
            kind = definition["properties"]["type"].get("const")
            if kind is not None:
                found[kind] = branch
    return found


def kinds_of(dialect: Dialect) -> list[str]:
    """The types of output items in a dialect."""
    named = output_definitions(GRAMMARS[dialect].version)
    return [*named] if dialect == "openai" else [*named, EXTENSION]


class Bodies:
    """The strategies of one dialect. Where a value may be left plain, the least one is drawn half of the time: it is
    what all of a value shrinks to in one stroke, however many draws it is made of.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.grammar = GRAMMARS[dialect]
        self.made = walker(self.grammar.version)
        self._events: dict[str, st.SearchStrategy[dict[str, Any]]] = {}
        self._rows: dict[str, list[Row]] = {}

    def rows(self, kind: str) -> list[Row]:
        """The rows of the items of one type, and of their parts."""
        if kind not in self._rows:
            rows = self.grammar.table.values()
            mine = [row for row in rows if row.scope in {"item", "part"} and (not row.items or kind in row.items)]
            self._rows[kind] = mine
        return self._rows[kind]

    def properties(self, kind: str) -> dict[str, Any]:
        """The keys of an event type."""
        found: dict[str, Any] = self.made.bundle["$defs"][self.grammar.definitions[kind]]["properties"]
        return found

    def resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The definition a schema refers to, or the schema itself."""
        found: dict[str, Any] = schema
        if "$ref" in schema:
            found = self.made.bundle["$defs"][schema["$ref"].rpartition("/")[2]]
        return found

    def type_of(self, schema: dict[str, Any]) -> str | None:
        """The one `type` that an object of this schema has."""
        found: str | None = self.resolved(schema).get("properties", {}).get("type", {}).get("const")
        return found

    def parts(self, row: Row, item: str) -> list[dict[str, Any]] | None:
        """The kinds of part an event opens, as far as the table lets an item of this type have them; None where the
        event says itself which it is.
        """
        part = self.properties(row.type).get("part", {}) if row.opens else {}
        if not part or not (row.part is None or "anyOf" in part):
            return None
        fits: list[dict[str, Any]] = []
        for branch in part.get("anyOf", [part]):
            kind = self.type_of(branch)
            text = self.grammar.texts.get(kind)
            if text is not None and item in text.items and text.index == row.index and row.part in {None, kind}:
                fits.append(branch)
        return fits

    def _part_properties(self, kind: str | None) -> dict[str, Any]:
        """The keys of a kind of part, from the events that open one."""
        for row in self.grammar.table.values():
            if kind is not None and row.opens and row.scope == "part" and "part" in self.properties(row.type):
                part = self.properties(row.type)["part"]
                for branch in part.get("anyOf", [part]):
                    if self.type_of(branch) == kind:
                        found: dict[str, Any] = self.resolved(branch)["properties"]
                        return found
        return {}

    def value(self, schema: dict[str, Any]) -> st.SearchStrategy[Any]:
        """Values of a schema."""
        return st.builds(self.made.least, st.just(schema)) | self.made.value(schema, 1)

    def item(self, kind: str) -> st.SearchStrategy[dict[str, Any]]:
        """Output items of one type."""
        definition = output_definitions(self.grammar.version).get(kind)
        return self.value(definition) if definition is not None else FREE_KEYS

    def event(self, kind: str) -> st.SearchStrategy[dict[str, Any]]:
        """Events of one type. What ends up in a part is no more than the part takes."""
        if kind not in self._events:
            self._events[kind] = self._event(kind)
        return self._events[kind]

    def _event(self, kind: str) -> st.SearchStrategy[dict[str, Any]]:
        known, made = self.properties(kind), self.made
        told: dict[str, dict[str, Any]] = {}
        for key, schema in self._part_properties(self.grammar.table[kind].part).items():
            if key in known and key != "type":
                told[key] = schema
            elif key[:-1] in known and "items" in schema:  # one `annotation` of its `annotations`
                told[key[:-1]] = schema["items"]
        name = self.grammar.definitions[kind]
        least = made.least({"$ref": f"#/$defs/{name}"})
        least |= {key: made.least(schema) for key, schema in told.items() if key in least}

        @st.composite
        def full(draw: Callable[[Any], Any]) -> dict[str, Any]:
            event: dict[str, Any] = draw(made.definition(name))
            for key, schema in told.items():
                if key in event:
                    drawn = draw(made.value(schema, 2))
                    event[key] = type(event[key])() if drawn is None and event[key] is not None else drawn
            return event

        return st.builds(dict, st.just(least)) | full()

    def outcome(self) -> st.SearchStrategy[Any]:
        """How a command of a shell ended."""
        row = self.grammar.texts["output"]
        entry = self.resolved(self.properties(row.type)[row.whole or ""]["items"])
        return self.value(entry["properties"]["outcome"])


@functools.cache
def bodies_of(dialect: Dialect) -> Bodies:
    """The strategies of a dialect, made once."""
    return Bodies(dialect)
