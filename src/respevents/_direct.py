"""Whether msgspec may write a Struct as it stands, in place of the canonical mapping: the fast path of the encoder.

A class of ours declares its fields in wire order, so msgspec's own output is right unless a value needs care: a key in
`extra`, an int where a float belongs, a float where an int belongs or that is not finite, a mapping or a model where an
object belongs (they have no order of their own), a value that msgspec would write without asking (bytes, sets,
datetimes). A check may be too careful, the slow path gives the same bytes; it is never too lax. What msgspec refuses
by itself (lone surrogates, subclasses, `UNSET` in an array) is left to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import NoneType
from typing import Any

import msgspec

from respevents import _canonical
from respevents._generated import tables

__all__ = ["Check", "event_check", "never"]

Check = Callable[[Any], bool]

_LEAF = frozenset({str, int, bool, NoneType, msgspec.UnsetType})
"""Types that are written the same in every field but a float one."""

_FLOAT_LEAF = _LEAF - {int}

_ARRAY = frozenset({list, tuple})

_FREE_DEPTH = 64
"""Far below the bound of the encoder: what is deeper is measured on the slow path."""


def never(_: Any) -> bool:
    """The check of a class that always takes the slow path."""
    return False


def event_check(cls: type[Any]) -> tuple[Check, str | None]:
    """The check of a whole event and its wire type; `never` for what is no event class of ours."""
    name = _canonical.shape_name(cls)
    kind = _EVENT_TYPES.get(name or "")
    return (never, None) if kind is None else (_struct(cls), kind)


_EVENT_TYPES = {shape: kind for kind, shape in tables.EVENTS.items()}

_structs: dict[type[Any], Check] = {}


def _struct(cls: type[Any]) -> Check:
    check = _structs.get(cls)
    if check is None:
        check = _structs[cls] = _compile_struct(cls)
    return check


def _compile_struct(cls: type[Any]) -> Check:
    """One expression over all fields: a call for each would cost more than the encoding."""
    name = _canonical.shape_name(cls)
    if name is None:
        return never
    config = cls.__struct_config__
    wire = [key for key in cls.__struct_encode_fields__ if key != "extra"]
    if config.tag is not None or config.array_like or config.omit_defaults or wire != _canonical.wire_order(name, wire):
        return never
    kinds = tables.FIELDS.get(name, {})
    scope: dict[str, Any] = {"UNSET": msgspec.UNSET, "LEAF": _LEAF, "FLOAT_LEAF": _FLOAT_LEAF, "ARRAY": _ARRAY}
    tests = ["event.extra is UNSET"]
    if name in _EVENT_TYPES:  # another `type` would be ordered by the fields of another event
        tests.append(f"event.type == {_EVENT_TYPES[name]!r}")
    for key, field in zip(cls.__struct_encode_fields__, cls.__struct_fields__, strict=True):
        if key == "extra":
            continue
        kind = kinds.get(key, "any")
        value = f"event.{field}"
        if isinstance(kind, str) and kind in {"str", "int", "bool"}:
            tests.append(f"(type({value}) is {'int' if kind == 'int' else 'str'} or type({value}) in LEAF)")
        elif kind[0] == "list":
            scope[f"check_{field}"] = _check(kind)
            tests.append(f"(type({value}) in ARRAY and not {value} or check_{field}({value}))")
        else:
            scope[f"check_{field}"] = _check(kind)
            tests.append(f"check_{field}({value})")
    # The source is made of the field names of our own classes and nothing else.
    exec(f"def check(event):\n    return ({' and '.join(tests)})", scope)  # noqa: S102
    check: Check = scope["check"]
    return check


def _check(kind: Any) -> Check:
    if isinstance(kind, str):
        return {"float": _is_float, "any": _is_any, "free": _is_free}.get(kind, _is_leaf)
    name = kind[0]
    if name == "ref":
        return _compile_object({}, frozenset(kind[1].split("|")))
    if name == "oneof":
        options = {tag: _names(option) for tag, option in kind[2].items()}
        return _compile_object(options, _names(kind[3]), kind[1])
    if name == "list":
        return _compile_list(_check(kind[1]))
    if name == "map":
        return _compile_map(_check(kind[1]))
    return _compile_anyof(kind[1:])


def _names(kind: Any) -> frozenset[str]:
    return frozenset(kind[1].split("|")) if isinstance(kind, tuple) and kind[0] == "ref" else frozenset()


def _is_leaf(value: Any) -> bool:
    return type(value) in _LEAF


def _is_float(value: Any) -> bool:
    return math.isfinite(value) if type(value) is float else type(value) in _FLOAT_LEAF


def _is_scalar(value: Any) -> bool:
    return math.isfinite(value) if type(value) is float else type(value) in _LEAF


def _is_any(value: Any) -> bool:
    """Scalars, and arrays of them: an object would have to be put in order."""
    return all(map(_is_scalar, value)) if type(value) in _ARRAY else _is_scalar(value)


def _is_free(value: Any, depth: int = 0) -> bool:
    kind = type(value)
    if kind is dict:
        return (
            depth < _FREE_DEPTH
            and all(type(key) is str for key in value)
            and all(_is_free(one, depth + 1) for one in value.values())
        )
    if kind in _ARRAY:
        return depth < _FREE_DEPTH and all(_is_free(one, depth + 1) for one in value)
    return _is_scalar(value)


def _compile_object(options: dict[str, frozenset[str]], rest: frozenset[str], key: str = "") -> Check:
    def check(value: Any) -> bool:
        cls = type(value)
        if cls in _LEAF:
            return True
        names = rest
        if options:
            tag = getattr(value, key, None)
            names = options.get(tag, rest) if type(tag) is str else rest
        return cls.__name__ in names and _struct(cls)(value)

    return check


def _compile_list(item: Check) -> Check:
    def check(value: Any) -> bool:
        return all(map(item, value)) if type(value) in _ARRAY else type(value) in _LEAF

    return check


def _compile_map(item: Check) -> Check:
    def check(value: Any) -> bool:
        if type(value) is dict:
            return all(type(key) is str for key in value) and all(map(item, value.values()))
        return type(value) in _LEAF

    return check


def _compile_anyof(kinds: tuple[Any, ...]) -> Check:
    objects, lists, other = _canonical.alternatives(kinds)
    check_object = _check(other if objects is None else objects)
    check_list = _check(other if lists is None else ("list", lists))

    def check(value: Any) -> bool:
        if type(value) in _ARRAY:
            return check_list(value)
        return _is_scalar(value) or check_object(value)

    return check
