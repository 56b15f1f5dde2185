"""Whether a value has the shape that the strict schema gives it, and if not, where and what instead.

For the builder, which checks what a caller put into an event before it is sent. It knows the keywords that the schema
sets use; the validator uses a JSON Schema library. Unknown keys are no fault, and an enum is none in what a Response
repeats of its request: a server may accept what is newer than the set.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from respevents import schemas
from respevents._errors import show
from respevents._snapshot import ECHOED

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Misfit", "misfit"]

_PREFIX: Final = "#/$defs/"
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list, tuple),
    "object": (dict,),
}
_ARTICLES: Final = {"string": "a string", "integer": "an integer", "number": "a number", "boolean": "true or false"}


class Misfit(NamedTuple):
    """A value that does not fit: its JSON path, what was expected there, and what came."""

    path: str
    expected: str
    got: str


@functools.cache
def _definitions(version: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = schemas.load(version)["$defs"]
    return found


def misfit(value: Any, definition: str, version: str = schemas.NEWEST) -> Misfit | None:
    """What is wrong with `value` as the named definition of a strict set; None when nothing is."""
    definitions = _definitions(version)
    return _object(value, definitions[definition], "$", definitions, closed=True)


def _check(
    value: Any, schema: Mapping[str, Any], path: str, definitions: Mapping[str, Any], *, closed: bool
) -> Misfit | None:
    if "$ref" in schema:
        name = schema["$ref"][len(_PREFIX) :]
        return _object(value, definitions[name], path, definitions, closed=closed, echoes=name == "Response")
    if "anyOf" in schema:
        return _any(value, schema["anyOf"], path, definitions, closed=closed)
    if "const" in schema:
        return None if value == schema["const"] else Misfit(path, show(schema["const"]), show(value))
    kind = schema.get("type")
    if kind is not None and not (
        isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
    ):
        return Misfit(path, _named(schema), show(value))
    if closed and "enum" in schema and value not in schema["enum"]:
        return Misfit(path, _named(schema), show(value))
    if "properties" in schema:
        return _object(value, schema, path, definitions, closed=closed)
    if "items" in schema:
        for at, one in enumerate(cast("list[Any]", value)):
            found = _check(one, schema["items"], f"{path}[{at}]", definitions, closed=closed)
            if found is not None:
                return found
    return None


def _object(
    value: Any,
    schema: Mapping[str, Any],
    path: str,
    definitions: Mapping[str, Any],
    *,
    closed: bool,
    echoes: bool = False,
) -> Misfit | None:
    if not isinstance(value, dict):
        return Misfit(path, "an object", show(value))
    properties = schema["properties"]
    for key in schema.get("required", ()):
        if key not in value:
            return Misfit(f"{path}.{key}", _named(properties[key]), "nothing")
    for key, one in value.items():
        if key in properties:
            open_ = echoes and key in ECHOED
            found = _check(one, properties[key], f"{path}.{key}", definitions, closed=closed and not open_)
            if found is not None:
                return found
    return None


def _any(value: Any, branches: list[Any], path: str, definitions: Mapping[str, Any], *, closed: bool) -> Misfit | None:
    """One branch has to fit. The fault of an object is told by the branch of its `type`, as a reader means it."""
    faults: list[tuple[bool, Misfit]] = []
    kind = value.get("type") if isinstance(value, dict) else None
    types: list[str] = []
    for branch in branches:
        found = _check(value, branch, path, definitions, closed=closed)
        if found is None:
            return None
        known = _type_of(branch, definitions)
        types += [known] if known is not None else []
        meant = known == kind if known is not None else (isinstance(value, dict) == ("$ref" in branch))
        faults.append((meant and isinstance(value, (dict, list, tuple)), found))
    if isinstance(kind, str) and types and kind not in types:
        if ":" in kind:
            return None  # an extension: its shape is its author's
        return Misfit(f"{path}.type", f"one of {', '.join(types)}", show(kind))
    chosen = [fault for meant, fault in faults if meant]
    if len(chosen) == 1:
        return chosen[0]
    return Misfit(path, " or ".join(dict.fromkeys(_named(branch) for branch in branches)), show(value))


def _type_of(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> str | None:
    if "$ref" in schema:
        schema = definitions[schema["$ref"][len(_PREFIX) :]]
    found: str | None = schema.get("properties", {}).get("type", {}).get("const")
    return found


def _named(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(show(value) for value in schema["enum"])
    if "const" in schema:
        return show(schema["const"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_named(branch) for branch in schema["anyOf"]))
    if "$ref" in schema:
        return "an object"
    kind = schema.get("type")
    if kind == "array":
        return "an array"
    return _ARTICLES.get(kind or "", "an object" if kind == "object" else kind or "a value")
