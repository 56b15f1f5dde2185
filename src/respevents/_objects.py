"""What every event and object class shares: unknown keys are kept, an absent key is told apart from null."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

__all__ = ["Event", "Object", "UnknownEvent", "UnknownItem", "UnknownObject"]


class Object(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON object of the stream. `UNSET` is an absent key, `None` is null."""

    extra: Mapping[str, Any] | UnsetType = UNSET
    """Keys that the schema does not name; written back at their alphabetical place."""

    def to_dict(self) -> dict[str, Any]:
        """The plain mapping that is written on the wire, keys in wire order. Raises `EncodeError` as encoding does."""
        from respevents.wire import to_wire

        return to_wire(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: object) -> Any:
        from respevents.interop.pydantic import core_schema_of

        return core_schema_of(cls)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: object, handler: Any) -> Any:
        from respevents.interop.pydantic import json_schema_of

        return json_schema_of(cls, handler)


class Event(Object, frozen=True, kw_only=True):
    """An event of the stream."""


class _Unknown(Object, frozen=True, kw_only=True):
    """An object of a `type` that the schema set does not name: its keys read as attributes."""

    def __getattr__(self, name: str) -> Any:
        extra = object.__getattribute__(self, "extra")
        if isinstance(extra, Mapping) and name in extra:
            return extra[name]
        message = f"{type(self).__name__} has no key {name!r}"
        raise AttributeError(message)


class UnknownObject(_Unknown, frozen=True, kw_only=True):
    """A tool, part, annotation ... of an unknown `type`."""

    type: str | UnsetType = UNSET


class UnknownItem(_Unknown, frozen=True, kw_only=True):
    """An output or input item of an unknown `type`."""

    id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    status: str | UnsetType = UNSET


class UnknownEvent(Event, frozen=True, kw_only=True):
    """An event of an unknown `type`: its keys read as attributes."""

    type: str
    sequence_number: int | UnsetType = UNSET

    def __getattr__(self, name: str) -> Any:
        return _Unknown.__getattr__(self, name)  # type: ignore[arg-type]
