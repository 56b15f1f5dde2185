"""The schema layer of the validator: whether an event has the form that a schema set gives it, and what else it has.

jsonschema-rs decides, in one validator for each event type that comes; `jsonschema` explains what was refused.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from respevents import schemas
from respevents._errors import show
from respevents._extras import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = ["Shapes", "shapes_of"]

_PREFIX: Final = "#/$defs/"


class Shapes:
    """The schema layer: a validator for each event type, made when the first such event comes."""

    def __init__(self, schema: str, profile: schemas.Profile) -> None:
        self._newest = schema == schemas.NEWEST
        self._bundle = schemas.load(schema, profile)
        self._names = {event["type"]: event["definition"] for event in schemas.manifest(schema)["events"]}
        self._fast: dict[str, Any] = {}
        self.forms: dict[tuple[str, tuple[str, ...], tuple[type, ...]], tuple[str, ...]] = {}
        """Type, keys and types of values of events that the schema accepts whatever the values are, as long as the
        lists (named by their keys) are empty."""
        self._plain: dict[str, bool] = {}
        self._library = load("jsonschema_rs", needed_by="respevents.validate")

    def knows(self, kind: str) -> bool:
        return kind in self._names

    def _schema(self, kind: str) -> dict[str, Any]:
        return {
            "$schema": self._bundle["$schema"],
            "$ref": f"{_PREFIX}{self._names[kind]}",
            "$defs": self._bundle["$defs"],
        }

    def takes(self, event: dict[str, Any], kind: str) -> bool:
        """Whether the set names the event and accepts it."""
        return self.knows(kind) and self.accepts(event, kind)

    def accepts(self, event: dict[str, Any], kind: str) -> bool:
        check = self._fast.get(kind)
        if check is None:
            check = self._fast[kind] = self._library.validator_for(self._schema(kind)).is_valid
        return bool(check(event))

    def flat(self, event: dict[str, Any], kind: str, types: tuple[type, ...]) -> bool:
        """Whether the schema looks at nothing but the types of this event's values."""
        if len(self.forms) > 512 or not self.knows(kind) or not {str, int, list}.issuperset(types):
            return False
        if any(value for value in event.values() if type(value) is list):
            return False
        plain = self._plain.get(kind)
        if plain is None:
            properties = self._bundle["$defs"][self._names[kind]]["properties"]
            plain = self._plain[kind] = all(
                key == "type" or not {"enum", "const", "$ref", "not"} & set(_keywords(one))
                for key, one in properties.items()
            )
        return plain and self.accepts(event, kind)

    def faults(self, event: dict[str, Any], kind: str) -> Iterator[tuple[str, str, str]]:
        """(rule, path, message) of everything wrong with an event that was not accepted."""
        library = load("jsonschema", needed_by="respevents.validate")
        seen: set[tuple[str, str]] = set()
        for error in library.Draft202012Validator(self._schema(kind)).iter_errors(event):
            for one in _innermost(error):
                missing = one.validator == "required"
                path = _json_path(one.absolute_path)
                key = next((key for key in one.validator_value if key not in one.instance), "") if missing else ""
                found = ("field-missing", f"{path}.{key}") if missing else ("field-shape", path)
                if found in seen:
                    continue
                seen.add(found)
                message = f"{key} is missing" if missing else _told(one)
                yield found[0], found[1], message

    def floats(self, event: dict[str, Any], kind: str) -> Iterator[tuple[dict[str, Any], str, str]]:
        from respevents._generated import tables

        name = tables.EVENTS.get(kind)
        if name is not None:
            yield from _floats(event, name, "$")

    def unknown(self, event: dict[str, Any], kind: str, *, exact: bool) -> Iterator[tuple[str, str]]:
        """(path, key) of the keys that this set does not name; unless `exact`, those that the newest names neither."""
        from respevents._generated import tables

        name = tables.EVENTS.get(kind)
        found = [] if name is None else list(_unknown(event, name, "$"))
        if not self._newest and (exact or found):
            own = list(self._undeclared(event, {"$ref": f"{_PREFIX}{self._names[kind]}"}, "$"))
            found = own if exact else [one for one in found if one in own]
        yield from found

    def _undeclared(self, value: Any, schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
        if isinstance(value, list):
            for branch in schema.get("anyOf", [schema]):
                if "items" in branch:
                    for at, one in enumerate(value):
                        yield from self._undeclared(one, branch["items"], f"{path}[{at}]")
                    return
        if not isinstance(value, dict):
            return
        properties = self._properties(value, schema)
        if properties is None:
            return
        for key, one in value.items():
            if key not in properties:
                yield f"{path}.{key}", key
            else:
                yield from self._undeclared(one, properties[key], f"{path}.{key}")

    def _properties(self, value: dict[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """What an object may hold where it stands: of the branch that has its `type`, and most of its keys."""
        names = [one["$ref"].removeprefix(_PREFIX) for one in schema.get("anyOf", [schema]) if "$ref" in one]
        found: list[dict[str, Any]] = []
        for name in names:
            properties = self._bundle["$defs"][name]["properties"]
            tag = properties.get("type", {})
            if "pattern" in tag:
                continue  # an extension owns its keys
            closed = "const" in tag or "enum" in tag
            if not closed or value.get("type") in tag.get("enum", [tag.get("const")]):
                found.append(properties)
        return max(found, key=lambda one: len(one.keys() & value.keys()), default=None)


def _keywords(schema: Any) -> Iterator[str]:
    """Every keyword of a property's schema; the items of a list are left out, because a list is empty here."""
    for key, value in schema.items():
        yield key
        if key == "anyOf":
            for branch in value:
                yield from _keywords(branch)


@functools.lru_cache(maxsize=16)
def shapes_of(schema: str, profile: schemas.Profile) -> Shapes:
    """Compiled validators are shared by all streams of a process."""
    return Shapes(schema, profile)


def _walk(value: Any, kind: Any, path: str) -> Iterator[tuple[str, str, Any]]:
    """(path, shape, object) of every typed object below a value."""
    from respevents._reading import shape_of

    if isinstance(kind, str):
        return
    if kind[0] == "list" and isinstance(value, list):
        for at, one in enumerate(value):
            yield from _walk(one, kind[1], f"{path}[{at}]")
    elif kind[0] == "map" and isinstance(value, dict):
        for key, one in value.items():
            yield from _walk(one, kind[1], f"{path}.{key}")
    elif kind[0] == "anyof":
        for one in kind[1:]:
            yield from _walk(value, one, path)
    elif kind[0] in {"ref", "oneof"} and isinstance(value, dict):
        yield path, shape_of(kind, value), value


def _floats(value: dict[str, Any], shape: str, path: str) -> Iterator[tuple[dict[str, Any], str, str]]:
    from respevents._generated import tables

    kinds = tables.FIELDS.get(shape, {})
    for key, one in value.items():
        kind = kinds.get(key, "any")
        if type(one) is float and _is_int(kind):
            yield value, key, f"{path}.{key}"
        elif isinstance(one, (dict, list)):
            for where, name, inner in _walk(one, kind, f"{path}.{key}"):
                yield from _floats(inner, name, where)


def _is_int(kind: Any) -> bool:
    if kind == "int":
        return True
    return not isinstance(kind, str) and kind[0] == "anyof" and "int" in kind[1:] and "float" not in kind[1:]


def _unknown(value: dict[str, Any], shape: str, path: str) -> Iterator[tuple[str, str]]:
    from respevents._generated import tables

    kinds = tables.FIELDS.get(shape)
    if kinds is None:
        return
    for key, one in value.items():
        if key not in kinds:
            yield f"{path}.{key}", key
        elif isinstance(one, (dict, list)):
            for where, name, inner in _walk(one, kinds[key], f"{path}.{key}"):
                yield from _unknown(inner, name, where)


def _innermost(error: Any) -> Iterator[Any]:
    """The errors behind an `anyOf`: those of the branch that was meant (the one of the object's `type`)."""
    if error.validator != "anyOf" or not error.context:
        yield error
        return
    branches: dict[int, list[Any]] = {}
    for one in error.context:
        branches.setdefault(one.relative_schema_path[0], []).append(one)
    meant = [
        found
        for found in branches.values()
        if not any(
            list(one.relative_path) in ([], ["type"]) and one.validator in {"const", "type", "not", "enum", "pattern"}
            for one in found
        )
    ]
    if len(meant) == 1:
        for one in meant[0]:
            yield from _innermost(one)
        return
    yield error


def _json_path(parts: Iterable[str | int]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _told(error: Any) -> str:
    value = show(error.instance)
    if error.validator == "type":
        return f"expected {error.validator_value}, got {value}"
    if error.validator == "const":
        return f"expected {show(error.validator_value)}, got {value}"
    if error.validator == "enum":
        return f"expected one of {', '.join(map(str, error.validator_value))}, got {value}"
    return f"{value} has none of the forms that the schema allows"
