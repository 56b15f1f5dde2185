"""A mapping becomes typed objects.

Reading never fails on a value of an unexpected type and never drops a key (the world is open): a value that does
not fit its field is kept as it came, a required key that did not come reads as `UNSET`. Whether a capture is right
is the validator's question, not the reader's.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from respevents._generated import tables
from respevents._objects import Object

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["from_mapping", "shape_of"]

# Beyond 2**53 a float no longer holds every integer, so converting could change the value.
_EXACT = 2**53


@functools.cache
def _classes() -> dict[str, type[Object]]:
    from respevents._generated import events, items

    found: dict[str, type[Object]] = {}
    for module in (items, events):
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type) and issubclass(value, Object):
                found[name] = value
    return found


@functools.cache
def _fields(shape: str) -> dict[str, tuple[str, Callable[[Any], Any] | None]]:
    """Key on the wire -> (attribute, converter) of a class."""
    kinds = tables.FIELDS.get(shape, {})
    return {
        field.encode_name: (field.name, _converter(kinds.get(field.encode_name, "any")))
        for field in msgspec.structs.fields(_classes()[shape])
        if field.name != "extra"
    }


def _converter(kind: Any) -> Callable[[Any], Any] | None:
    """What turns a JSON value into the field's value; None where it stays as it is."""
    if kind == "int":
        return _integer
    if kind == "float":
        return _number
    if isinstance(kind, str):
        return None
    if kind[0] in {"list", "map"}:
        inner = _converter(kind[1])
        return None if inner is None else functools.partial(_each, inner)
    if kind[0] == "anyof":
        options = [one for one in map(_converter, kind[1:]) if one is not None]
        return functools.partial(_in_turn, options) if options else None
    return functools.partial(_object, kind)


def _integer(value: Any) -> Any:
    return int(value) if type(value) is float and value.is_integer() else value


def _number(value: Any) -> Any:
    return float(value) if type(value) is int and -_EXACT <= value <= _EXACT else value


def _each(convert: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, list):
        return [convert(one) for one in value]
    if isinstance(value, Mapping):
        return {key: convert(one) for key, one in value.items()}
    return value


def _in_turn(options: list[Callable[[Any], Any]], value: Any) -> Any:
    for convert in options:
        value = convert(value)
    return value


def _object(kind: Any, value: Any) -> Any:
    return from_mapping(shape_of(kind, value), value) if isinstance(value, Mapping) else value


def shape_of(kind: Any, value: Mapping[str, Any]) -> str:
    """The shape a mapping has under a `ref` or `oneof` kind; one shape where several share a `type` value."""
    if kind[0] == "oneof":
        tag = value.get(kind[1])
        kind = kind[2].get(tag, kind[3]) if isinstance(tag, str) else kind[3]
    shape: str = kind[1]
    if "|" not in shape:
        return shape
    candidates = shape.split("|")
    missing = {name: sum(key not in value for key in tables.REQUIRED[name]) for name in candidates}
    return min(candidates, key=missing.__getitem__)


def from_mapping(shape: str, value: Mapping[str, Any]) -> Object:
    """A mapping as the object class of `shape`; keys the class does not know go to `extra`."""
    fields = _fields(shape)
    given: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for key, one in value.items():
        known = fields.get(key)
        if known is None:
            extra[key] = one
        else:
            given[known[0]] = one if known[1] is None else known[1](one)
    if extra:
        given["extra"] = extra
    if len(given) <= len(fields):
        for attribute, _ in fields.values():
            given.setdefault(attribute, UNSET)
    return _classes()[shape](**given)
