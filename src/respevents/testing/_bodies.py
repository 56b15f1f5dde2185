"""What the events of a walk carry: strategies for events, parts and items, from the strict schema of the newest set."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from respevents._generated.tables import EVENTS
from respevents.lifecycle import TABLE
from respevents.testing._walker import walker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["bodies", "either", "of_any_kind", "outcomes", "output_definitions", "part_schemas", "resolved", "type_of"]


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """The definition a schema refers to, or the schema itself."""
    found: dict[str, Any] = schema
    if "$ref" in schema:
        found = walker().bundle["$defs"][schema["$ref"].rpartition("/")[2]]
    return found


def type_of(schema: dict[str, Any]) -> str | None:
    """The one `type` that an object of this schema has."""
    found: str | None = resolved(schema).get("properties", {}).get("type", {}).get("const")
    return found


def either(schema: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    """Values of a schema, the least one now and then: that is what all of a value shrinks to in one stroke."""
    made = walker()
    return st.builds(made.least, st.just(schema)) | made.value(schema, depth)


@functools.cache
def output_definitions() -> Mapping[str, dict[str, Any]]:
    """Item type -> its schema, for what may stand in `output` of a response."""
    branches = walker().bundle["$defs"]["Response"]["properties"]["output"]["items"]["anyOf"]
    known = {type_of(branch): branch for branch in branches if "$ref" in branch}
    return {kind: branch for kind, branch in known.items() if kind is not None}


def _properties(kind: str) -> dict[str, Any]:
    """The keys of an event type."""
    found: dict[str, Any] = walker().bundle["$defs"][EVENTS[kind]]["properties"]
    return found


@functools.cache
def of_any_kind(kind: str) -> bool:
    """Events of this type open parts of any kind, and carry them."""
    row = TABLE[kind]
    return row.opens and row.part is None and "part" in _properties(kind)


@functools.cache
def part_schemas(kind: str, item: str) -> list[dict[str, Any]]:
    """The kinds of part that events of a type open, as far as the table lets an item of this type have them."""
    part = _properties(kind)["part"]
    fits: list[dict[str, Any]] = []
    for branch in part.get("anyOf", [part]):
        text = next((one for one in TABLE.values() if one.part == type_of(branch) and one.whole), None)
        if text is not None and item in text.items:
            fits.append(branch)
    return fits


def _part_properties(kind: str | None) -> dict[str, Any]:
    """The keys of a kind of part, from the events that open one."""
    for row in TABLE.values():
        if kind is not None and row.opens and row.scope == "part" and "part" in _properties(row.type):
            part = _properties(row.type)["part"]
            for branch in part.get("anyOf", [part]):
                if type_of(branch) == kind:
                    found: dict[str, Any] = resolved(branch)["properties"]
                    return found
    return {}


@functools.cache
def bodies(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Events of one type. What ends up in a part is no more than the part takes."""
    made = walker()
    known = _properties(kind)
    told: dict[str, dict[str, Any]] = {}
    for key, schema in _part_properties(TABLE[kind].part).items():
        if key in known and key != "type":
            told[key] = schema
        elif key[:-1] in known and "items" in schema:  # one `annotation` of its `annotations`
            told[key[:-1]] = schema["items"]
    least = made.least({"$ref": f"#/$defs/{EVENTS[kind]}"}) | {key: made.least(one) for key, one in told.items()}

    @st.composite
    def full(draw: Callable[[Any], Any]) -> dict[str, Any]:
        event: dict[str, Any] = draw(made.definition(EVENTS[kind]))
        for key, schema in told.items():
            if key in event:
                drawn = draw(made.value(schema, 2))
                event[key] = type(event[key])() if drawn is None and event[key] is not None else drawn
        return event

    return st.builds(dict, st.just(least)) | full()


@functools.cache
def outcomes() -> st.SearchStrategy[Any]:
    """How a command of a shell ended."""
    row = next(one for one in TABLE.values() if one.part == "output" and one.whole)
    entry = resolved(_properties(row.type)[row.whole or ""]["items"])
    return either(entry["properties"]["outcome"], 1)
