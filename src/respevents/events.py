"""Every event of the stream as a class, and the reader that makes them from bytes or mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from respevents._errors import RemoteProtocolError, show
from respevents._generated import events as _events
from respevents._generated.events import *  # noqa: F403 - the generated module declares its names
from respevents._generated.tables import EVENTS
from respevents._objects import Event, Object
from respevents._reading import from_mapping
from respevents.wire import decode_json

if TYPE_CHECKING:
    from respevents._generated.events import ResponseStreamEvent

__all__ = ["Event", "Object", "decode_event", *_events.__all__]  # noqa: PLE0604 - strings, from the generated module


def decode_event(data: bytes | str | Mapping[str, Any]) -> ResponseStreamEvent:
    """The event in one `data` value (JSON as bytes or text, or the decoded mapping).

    An unknown type becomes `UnknownEvent`, unknown keys go to `extra`; nothing is dropped. Raises
    `RemoteProtocolError` when the JSON is not strict JSON, is no object, or has no string `type`.
    """
    value = data if isinstance(data, Mapping) else decode_json(data)
    if not isinstance(value, Mapping):
        raise RemoteProtocolError(
            "an event is a JSON object",
            path="$",
            expected="an object",
            got=show(value),
            fix="send the event object itself",
        )
    kind = value.get("type")
    if not isinstance(kind, str):
        raise RemoteProtocolError(
            "an event names its type",
            path="$.type",
            expected="a string",
            got=show(kind),
            fix="send `type` in every event; the `event:` line of the frame does not replace it",
        )
    return cast("ResponseStreamEvent", from_mapping(EVENTS.get(kind, "UnknownEvent"), value))
