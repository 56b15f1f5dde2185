"""Any accepted form of an event as one plain mapping: keys in wire order, numbers as their fields have them.

The order and the number rules are OpenAI's own, measured on captured streams (2026-01-13 and later):

- A Response: `id, object, created_at, status`, then alphabetical, then `user, metadata`.
- An output or input item: `id, type, status`, then alphabetical, then `metadata`.
- Every other object: `type`, then alphabetical. Keys that no schema knows stand in the same alphabetical run.
- JSON that the user owns (`metadata`, a tool's `parameters`, ...) keeps its order at every depth.

Which object has which shape, and which field is an integer or a float, is read from the generated tables.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from respevents._errors import EncodeError, json_path, show
from respevents._generated import tables

__all__ = ["ENDS", "MAX_DEPTH", "MAX_INT_DIGITS", "alternatives", "canonical", "shape_name", "wire_order"]

MAX_DEPTH = 256
"""Objects and arrays inside each other. Readers give up early: serde_json, which Codex reads with, at 128. And the
walk takes a frame of Python's stack (1,000 by default) for each one or two of them, with room left for the caller."""

MAX_INT_DIGITS = 4300
"""Characters of an integer, its sign included: msgspec stops reading there, as Python does (CVE-2020-10735)."""

LOGPROB_FLOOR = -9999.0
"""What OpenAI writes for a log probability of minus infinity."""

Write = Callable[[Any, int], Any]
"""Value, depth -> plain value. Raises _Fault."""

_INT_LIMIT = 10**MAX_INT_DIGITS
_SMALL = 2**64
_UNSET = msgspec.UNSET

ENDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "object": (("type",), ()),
    "response": (("id", "object", "created_at", "status"), ("user", "metadata")),
    "item": (("id", "type", "status"), ("metadata",)),
}
"""The keys that stand before and after the alphabetical run."""

_FIXES: dict[str, str] = {
    "bytes": "Decode it to str, or write base64 text.",
    "bytearray": "Decode it to str, or write base64 text.",
    "memoryview": "Decode it to str, or write base64 text.",
    "datetime": "Times on the wire are whole seconds: int(value.timestamp()).",
    "date": "Write value.isoformat().",
    "time": "Write value.isoformat().",
    "timedelta": "Write value.total_seconds().",
    "Decimal": "Write float(value) or str(value).",
    "UUID": "Write str(value).",
    "set": "JSON has arrays only: sorted(value).",
    "frozenset": "JSON has arrays only: sorted(value).",
    "generator": "Write list(value).",
    "complex": "JSON has no complex numbers.",
}


class _Fault(Exception):  # noqa: N818 - turned into an EncodeError once the path is known
    """An EncodeError in the making: each container on the way out adds its key to `parts`."""

    def __init__(
        self, what: str, *, expected: str | None = None, got: str | None = None, fix: str | None = None
    ) -> None:
        self.what, self.expected, self.got, self.fix = what, expected, got, fix
        self.parts: list[str | int] = []


def canonical(event: Any) -> dict[str, Any]:
    """The plain mapping of an event in wire order. Raises EncodeError naming the path of what cannot be written."""
    try:
        value = _plain_object(event)
        wire: dict[str, Any] = _top(event, value)(value, 0)
    except _Fault as fault:
        path = json_path(reversed(fault.parts))
        raise EncodeError(
            fault.what, path=path, expected=fault.expected, got=fault.got, fix=fault.fix
        ) from fault.__cause__
    except RecursionError as error:
        raise EncodeError(
            "The value is nested too deep for what is left of the stack", path="$", fix=f"Stay below {MAX_DEPTH}."
        ) from error
    return wire


def shape_name(cls: type[Any]) -> str | None:
    """The shape of one of our classes; None for a foreign class."""
    return cls.__name__ if "extra" in getattr(cls, "__struct_fields__", ()) else None


def _top(event: Any, value: dict[str, Any]) -> Write:
    """The writer of a whole document: an event, or one of the objects that also travel alone."""
    kind = _tag(value.get("type"))
    if kind is not None:
        if kind in tables.EVENTS:
            return _shape(tables.EVENTS[kind])
        item = _ITEM[2].get(kind)
        if item is not None:
            return _compile(item)
    elif "type" not in value and _tag(value.get("object")) == "response":
        return _shape("Response")
    name = shape_name(type(event))
    return _shape(name if name is not None else "UnknownEvent")


# ---- values ----------------------------------------------------------------------------------------------------


def _refuse(value: Any) -> _Fault:
    name = type(value).__name__
    fix = _FIXES.get(name, "Pass a mapping, a class of respevents.events or a pydantic model.")
    if type(value).__module__.partition(".")[0] in {"numpy", "torch"}:
        fix = "Write value.item() or value.tolist()."
    elif isinstance(value, msgspec.Struct):
        fix = "Foreign Structs have no wire order: pass msgspec.structs.asdict(value)."
    return _Fault("JSON cannot carry this value", got=f"{name} {show(value)}", fix=fix)


def _text(value: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise _Fault(
                "A lone surrogate cannot be sent",
                got=f"U+{ord(value[error.start]):04X} at character {error.start}",
                fix="Join the halves of a pair before sending, or replace it by U+FFFD.",
            ) from None
    return value


def _plain(value: Any) -> Any:
    """One step down to plain types: a scalar, a dict with str keys, a list or a tuple."""
    kind = type(value)
    if kind is str:
        return _text(value)
    if kind is bool or value is None:
        return value
    if kind is int:
        if -_SMALL < value < _SMALL or -_INT_LIMIT // 10 < value < _INT_LIMIT:
            return value
        raise _Fault("The integer is too long", expected=f"at most {MAX_INT_DIGITS} digits", fix="Write it as text.")
    if kind is float:
        if math.isfinite(value):
            return value
        raise _Fault("JSON has no number for this", expected="a finite number", got=repr(value), fix=_NOT_FINITE)
    if kind is list or kind is tuple:
        return value
    if isinstance(value, enum.Enum):
        if isinstance(value.value, (str, int, float)) and not isinstance(value.value, enum.Enum):
            return _plain(value.value)
        raise _refuse(value)
    if isinstance(value, str):  # a subclass is written by its value
        return _text(str.__str__(value))
    if isinstance(value, int):
        return _plain(int.__int__(value))
    if isinstance(value, float):
        return _plain(float.__float__(value))
    if isinstance(value, (list, tuple)):
        return list(value)
    return _mapping(value)


_NOT_FINITE = "Only a logprob has a floor (-9999.0); leave the key out, or send null."


def _mapping(value: Any) -> dict[str, Any]:
    """A mapping, a Struct of ours or a pydantic model as a dict with exact str keys."""
    found: dict[Any, Any]
    if type(value) is dict:
        found = value
    elif isinstance(value, msgspec.Struct):
        if shape_name(type(value)) is None:
            raise _refuse(value)
        found = _struct(value)
    elif isinstance(value, Mapping):
        found = dict(value)
    elif hasattr(type(value), "model_dump") and hasattr(type(value), "model_fields_set"):
        found = _model(value)
    else:
        raise _refuse(value)
    for key in found:
        if type(key) is not str:
            return {_key(key): one for key, one in found.items()}
    return found


def _key(key: Any) -> str:
    if type(key) is str:
        return key
    if isinstance(key, str):
        return str(key.value) if isinstance(key, enum.Enum) else str.__str__(key)
    raise _Fault("A key of a JSON object is a string", got=show(key), fix="Write the key as str.")


def _tag(value: Any) -> str | None:
    """The value of a discriminator; None when it is no string."""
    if isinstance(value, enum.Enum):
        value = value.value
    return str.__str__(value) if isinstance(value, str) else None


def _struct(value: msgspec.Struct) -> dict[str, Any]:
    cls = type(value)
    found = {
        wire: one
        for name, wire in zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
        if name != "extra" and (one := getattr(value, name)) is not _UNSET
    }
    extra = getattr(value, "extra", _UNSET)
    if extra is not _UNSET and extra is not None:
        if not isinstance(extra, Mapping):
            raise _Fault("`extra` holds keys and values", expected="a mapping", got=show(extra))
        for key, one in extra.items():
            if key in found:
                raise _Fault("`extra` repeats a key", got=show(key), fix="Set the field alone.")
            found[key] = one
    return found


def _model(value: Any) -> dict[str, Any]:
    try:
        # Values that do not fit the model are the validator's business; unset fields are absent on the wire.
        found = value.model_dump(mode="python", by_alias=True, exclude_unset=True, warnings=False)
    except RecursionError:
        raise
    except Exception as error:
        raise _Fault("The model cannot be dumped", got=f"{type(error).__name__}: {error}") from error
    if isinstance(found, dict):
        return found
    raise _Fault("A model must stand for a JSON object", got=show(found))


def _plain_object(event: Any) -> dict[str, Any]:
    if event is None or isinstance(event, (str, bytes, bytearray, int, float, list, tuple)):
        raise _Fault(
            "An event is a JSON object",
            expected="a class of respevents.events, a mapping or a pydantic model",
            got=show(event),
            fix="Bytes of JSON are read by decode_json or decode_event." if isinstance(event, (str, bytes)) else None,
        )
    return _mapping(event)


# ---- writers by kind -------------------------------------------------------------------------------------------


def _check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise _Fault(
            "The value is nested too deep", expected=f"at most {MAX_DEPTH} levels", fix="Look for a cycle in the value."
        )


def _array(items: Iterable[Any], write: Write, depth: int) -> list[Any]:
    _check_depth(depth)
    out: list[Any] = []
    index = 0
    try:
        for one in items:
            out.append(write(one, depth + 1))
            index += 1
    except _Fault as fault:
        fault.parts.append(index)
        raise
    return out


def _object(keys: Iterable[str], value: dict[str, Any], writers: Mapping[str, Write], rest: Write, depth: int) -> Any:
    _check_depth(depth)
    out: dict[str, Any] = {}
    key = ""
    try:
        for key in keys:
            one = value[key]
            kind = type(one)
            if kind is str:  # strings, booleans and null are written the same by every writer
                one = one if one.isascii() else _text(one)
            elif kind is not bool and one is not None:
                if one is _UNSET:  # which is how an absent key is spelled
                    continue
                one = writers.get(key, rest)(one, depth + 1)
            out[key if key.isascii() else _text(key)] = one
    except _Fault as fault:
        fault.parts.append(key)
        raise
    return out


def _any(value: Any, depth: int) -> Any:
    """What no schema names: `type` first, then alphabetical, at every depth."""
    value = _plain(value)
    if type(value) is dict:
        return _object(_sorted(value, ("type",), ()), value, _ANY_KEYS, _any, depth)
    if type(value) is list or type(value) is tuple:
        return _array(value, _any, depth)
    return value


def _free(value: Any, depth: int) -> Any:
    """JSON the user owns: as it came."""
    value = _plain(value)
    if type(value) is dict:
        return _object(value, value, _NO_KEYS, _free, depth)
    if type(value) is list or type(value) is tuple:
        return _array(value, _free, depth)
    return value


def _int(value: Any, depth: int) -> Any:
    if type(value) is int and -_SMALL < value < _SMALL:
        return value
    value = _any(value, depth)
    return int(value) if type(value) is float and value.is_integer() else value


def _float(value: Any, depth: int) -> Any:
    value = _any(value, depth)
    if type(value) is int and -_SMALL < value < _SMALL and float(value) == value:  # exact, or left as it is
        return float(value)
    return value


def _floor(write: Write) -> Write:
    """The writer of a log probability: what is not finite is the floor."""

    def logprob(value: Any, depth: int) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return LOGPROB_FLOOR
        return write(value, depth)

    return logprob


_NO_KEYS: dict[str, Write] = {}
_ANY_KEYS: dict[str, Write] = {"logprob": _floor(_any)}


def _sorted(value: dict[str, Any], head: tuple[str, ...], tail: tuple[str, ...]) -> list[str]:
    keys = sorted(value)
    at = 0
    for key in head:
        if key in value:
            keys.remove(key)
            keys.insert(at, key)
            at += 1
    for key in tail:
        if key in value:
            keys.remove(key)
            keys.append(key)
    return keys


def wire_order(shape: str, keys: Iterable[str]) -> list[str]:
    """The order of keys in an object of a shape."""
    return _sorted(dict.fromkeys(keys), *ENDS[tables.ORDER.get(shape, "object")])


_shapes: dict[str, Write] = {}


def _shape(name: str) -> Write:
    """The writer of a shape. Compiled on first use, which also lets shapes hold each other."""
    write = _shapes.get(name)
    if write is None:
        write = _shapes[name] = _compile_shape(name)
    return write


def _compile_shape(name: str) -> Write:
    head, tail = ENDS[tables.ORDER.get(name, "object")]
    fields: Mapping[str, Any] = tables.FIELDS.get(name, {})
    if name == "UnknownEvent":
        fields = {"sequence_number": "int", **fields}  # every event has it, known or not
    writers = {key: _compile(kind) for key, kind in fields.items()}
    writers["logprob"] = _floor(writers.get("logprob", _any))

    def write(value: Any, depth: int) -> Any:
        value = _plain(value)
        if type(value) is dict:
            return _object(_sorted(value, head, tail), value, writers, _any, depth)
        return _any(value, depth)

    return write


def _compile(kind: Any) -> Write:
    """The writer of a kind (the forms of a kind are told in the generated tables). Never refuses a kind of value."""
    if isinstance(kind, str):
        return {"int": _int, "float": _float, "free": _free}.get(kind, _any)
    name = kind[0]
    if name == "ref":
        return _compile_ref(kind[1])
    if name == "list":
        return _compile_list(_compile(kind[1]))
    if name == "map":
        return _compile_map(_compile(kind[1]))
    if name == "oneof":
        return _compile_oneof(kind)
    return _compile_anyof(kind[1:])


def _compile_ref(name: str) -> Write:
    def write(value: Any, depth: int) -> Any:
        return _shape(name)(value, depth)  # looked up late: shapes may hold each other

    return write


def _compile_list(item: Write) -> Write:
    def write(value: Any, depth: int) -> Any:
        value = _plain(value)
        return _array(value, item, depth) if type(value) is list or type(value) is tuple else _any(value, depth)

    return write


def _compile_map(item: Write) -> Write:
    def write(value: Any, depth: int) -> Any:
        value = _plain(value)
        return _object(value, value, _NO_KEYS, item, depth) if type(value) is dict else _any(value, depth)

    return write


def _compile_oneof(kind: Any) -> Write:
    _, key, options, rest = kind
    writers: dict[str | None, Write] = {value: _compile(option) for value, option in options.items()}
    other = _compile(rest)

    def write(value: Any, depth: int) -> Any:
        value = _plain(value)
        if type(value) is dict:
            return writers.get(_tag(value.get(key)), other)(value, depth)
        return _any(value, depth)

    return write


def _compile_anyof(kinds: tuple[Any, ...]) -> Write:
    """A field of mixed JSON types: the type of the value chooses. Scalars stay as they are."""
    objects, lists, other = alternatives(kinds)
    write_object = _compile(other if objects is None else objects)
    write_list = _compile(other if lists is None else ("list", lists))

    def write(value: Any, depth: int) -> Any:
        value = _plain(value)
        if type(value) is dict:
            return write_object(value, depth)
        if type(value) is list or type(value) is tuple:
            return write_list(value, depth)
        return value

    return write


def alternatives(kinds: tuple[Any, ...]) -> tuple[Any, Any, str]:
    """What an "anyof" says of an object, of the items of an array (None: nothing), and of the rest."""
    objects = [kind for kind in kinds if isinstance(kind, tuple) and kind[0] in {"ref", "oneof", "map"}]
    lists = [kind[1] for kind in kinds if isinstance(kind, tuple) and kind[0] == "list"]
    return _merged(objects), _merged(lists), "free" if "free" in kinds else "any"


def _merged(kinds: list[Any]) -> Any:
    """One kind for several of the same JSON type: the tables of their `type` values joined, else the first."""
    tagged = [kind for kind in kinds if isinstance(kind, tuple) and kind[0] == "oneof"]
    if len(tagged) < 2:
        return kinds[0] if kinds else None
    options: dict[str, Any] = {}
    for kind in tagged:
        options = {**kind[2], **options}
    return ("oneof", tagged[0][1], options, tagged[0][3])


_ITEM: Any = tables.FIELDS["ResponseOutputItemAddedEvent"]["item"]
