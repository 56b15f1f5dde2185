"""One example of an event, made from its schema: always the same one, with the required keys alone.

It shows the shape, and that shape is valid; the values mean nothing. What a stream says in order, `respevents demo`
and the builder show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from respevents import schemas
from respevents.lifecycle import ITEMS, TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from respevents.schemas import Profile

__all__ = ["example"]

_PREFIX: Final = "#/$defs/"
_TIME: Final = 1767225600
_TEXTS: Final = {
    "arguments": "{}",
    "call_id": "call_1",
    "code": "print(1)",
    "delta": "Hello",
    "error.code": "server_error",
    "error.type": "server_error",
    "input": "Hello",
    "message": "What went wrong.",
    "model": "my-model",
    "partial_image_b64": "iVBORw0KGgo=",
    "text": "Hello",
}
"""Where a text reads better than the name of the field, alone or after the last word of the event type."""

_TOLD: Final = {
    ("added", "annotation"),
    ("completed", "usage"),
    ("error", "code"),
    ("failed", "error"),
    ("incomplete", "incomplete_details"),
    ("incomplete", "reason"),
}
"""(last word of the event type, key): what may be null, and is what this event is about."""

_USUAL: Final = ("in_progress", "completed", "auto", "server_error", "max_output_tokens")
"""Taken before the first value of an enum."""


def example(event_type: str, version: str = schemas.NEWEST, profile: Profile = "strict") -> dict[str, Any]:
    """The example of an event type, keys in wire order. Raises ValueError when the set has no such event."""
    schema = schemas.definition(event_type, version, profile)
    maker = _Maker(schema["$defs"], event_type)
    made: dict[str, Any] = maker.value(schema, "event")
    return made


class _Maker:
    def __init__(self, defs: Mapping[str, Any], event_type: str) -> None:
        self._defs = defs
        self._end = event_type.rpartition(".")[2]
        row = TABLE.get(event_type)
        self._item = row.items[0] if row is not None and row.items else "message"

    def value(self, schema: Mapping[str, Any], key: str, owner: str = "") -> Any:
        if "$ref" in schema:
            return self._object(schema["$ref"].removeprefix(_PREFIX))
        if "anyOf" in schema and "properties" not in schema:
            return self.value(self._branch(schema["anyOf"], key), key, owner)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema or "x-known" in schema:
            return self._usual(schema.get("enum") or schema["x-known"])
        kind = schema.get("type")
        if kind == "string":
            return self._text(schema, key, owner)
        if kind == "integer":
            return _TIME if key.endswith("_at") else 0
        if kind == "object" and "properties" in schema:
            return {name: self.value(schema["properties"][name], name) for name in schema["required"]}
        plain: dict[str | None, Any] = {"number": 1, "boolean": False, "array": [], "object": {}}
        return plain.get(kind)

    def _object(self, name: str) -> dict[str, Any]:
        schema = self._defs[name]
        needed = {*schema["required"], *(key for one in schema.get("anyOf", ()) for key in one["required"])}
        kind = schema["properties"].get("type", {}).get("const", "")
        owner = "response" if name == "Response" else kind
        told = {key for end, key in _TOLD if end == self._end} if owner == "response" else set[str]()
        return {
            key: self.value(one, key, owner)
            for key, one in schema["properties"].items()
            if key in needed or key in told
        }

    def _branch(self, branches: list[dict[str, Any]], key: str) -> dict[str, Any]:
        null = {"type": "null"}
        if null in branches and (self._end, key) not in _TOLD:
            return null
        plain = [one for one in branches if "$ref" not in one and one != null]
        wanted = [one for one in branches if self._type_of(one) == self._item]
        return [*wanted, *plain, *branches][0]

    def _type_of(self, schema: Mapping[str, Any]) -> Any:
        name = schema.get("$ref", "").removeprefix(_PREFIX)
        return self._defs[name]["properties"].get("type", {}).get("const") if name else None

    def _usual(self, values: list[str]) -> str:
        ended = "completed" if self._end == "done" else self._end
        return next((value for value in (ended, *_USUAL) if value in values), values[0])

    def _text(self, schema: Mapping[str, Any], key: str, owner: str) -> str:
        if key in {"id", "item_id"}:
            kind = self._item if key == "item_id" else owner
            return f"{'resp' if kind == 'response' else ITEMS[kind].prefix if kind in ITEMS else key}_1"
        return "slug:name" if "pattern" in schema else _TEXTS.get(f"{self._end}.{key}", _TEXTS.get(key, key))
