"""Events and objects of the openai SDK as ours, and back.

The two carry the same values. What the SDK does not model (a newer event type, unknown keys of an object it does
model) crosses as well as the SDK allows: keys are kept on both sides, an event type it does not know is refused by
`to_sdk`, since the SDK would build an unrelated class from it.
"""

from __future__ import annotations

import functools
import sys
import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, overload

from respevents._extras import load

if not TYPE_CHECKING:
    load("openai", needed_by=__name__)

import openai
import openai.types.responses as sdk
from openai import BaseModel

from respevents._errors import LocalProtocolError, show
from respevents._objects import Event, Object
from respevents._reading import from_mapping
from respevents.events import decode_event
from respevents.wire import to_wire

if TYPE_CHECKING:
    from respevents._generated.events import ResponseStreamEvent

__all__ = ["from_sdk", "to_sdk"]


@functools.cache
def _sdk_events() -> dict[str, type[BaseModel]]:
    """Event type -> class of the installed SDK, read from its own union."""
    union = typing.get_args(sdk.ResponseStreamEvent)[0]
    classes: dict[str, type[BaseModel]] = {}
    for cls in typing.get_args(union):
        for event_type in typing.get_args(cls.model_fields["type"].annotation):
            classes[event_type] = cls
    return classes


def _our_name(cls: type[BaseModel]) -> str:
    """The name of our class: the SDK's where it exports it, else the module's exported class and the nested name."""
    own: str = cls.__name__
    if getattr(sdk, own, None) is cls:
        return own
    for name, other in vars(sys.modules[cls.__module__]).items():
        if getattr(other, "__module__", None) == cls.__module__ and getattr(sdk, name, None) is other:
            return name + own
    return own


@overload
def from_sdk(model: sdk.ResponseStreamEvent) -> ResponseStreamEvent: ...
@overload
def from_sdk(model: BaseModel) -> Object: ...
def from_sdk(model: BaseModel) -> Object:
    """Our object with the values of an SDK model; fields that were never set stay `UNSET`.

    Raises `LocalProtocolError` for what is no model of `openai.types.responses`.
    """
    if not isinstance(model, BaseModel):
        raise LocalProtocolError(
            "from_sdk takes models of the openai SDK",
            expected="a model of openai.types.responses",
            got=show(model),
            fix="use respevents.decode_event for JSON and mappings",
        )
    value = to_wire(model)
    # An unknown event reaches the SDK's user as one of its event classes with a foreign `type`, so `type` decides.
    if isinstance(model, tuple(_sdk_events().values())):
        return decode_event(value)
    name = _our_name(type(model))
    try:
        return from_mapping(name, value)
    except KeyError:
        raise LocalProtocolError(
            "this SDK model has no counterpart among the objects of the event stream",
            expected="an event of openai.types.responses, or an object under one",
            got=f"{type(model).__module__}.{type(model).__qualname__}",
            fix="convert the event or response that holds it",
        ) from None


@overload
def to_sdk(value: ResponseStreamEvent | Mapping[str, Any]) -> sdk.ResponseStreamEvent: ...
@overload
def to_sdk(value: Object) -> BaseModel: ...
def to_sdk(value: Object | Mapping[str, Any]) -> BaseModel:
    """The SDK's model of an event (class or mapping), or of an object whose class the SDK exports.

    Built the way the SDK decodes a stream: leniently, keeping what its model does not name. Raises
    `LocalProtocolError` when the installed SDK has no such class, `EncodeError` as encoding does.
    """
    wire = to_wire(value)
    event_type = wire.get("type")
    cls: type[BaseModel] | None
    if isinstance(value, (Mapping, Event)):
        cls = _sdk_events().get(event_type) if isinstance(event_type, str) else None
        what = f"no event of type {show(event_type)}"
    else:
        found = getattr(sdk, type(value).__name__, None)
        cls = found if isinstance(found, type) and issubclass(found, BaseModel) else None
        what = f"no exported model {type(value).__name__}"
    if cls is None:
        raise LocalProtocolError(
            f"openai {openai.__version__} has {what}",
            expected="an event or object that the installed SDK models",
            got=show(event_type),
            fix="install a newer openai, or keep the event as one of respevents",
        )
    return cls.construct(**wire)
