"""Bytes of the stream: the one serializer and the readers of JSON and of event streams.

The bytes are those of OpenAI's own servers, from 2026-01-13 on: compact JSON in UTF-8, keys in the order that
`_canonical` tells, framed as `event: <type>` and `data: <json>`. The serializer orders keys, writes an integral number
as its field has it (`1.0` in a float field, `11` in an integer field) and refuses what JSON cannot carry. It checks
nothing else: whether an event is right is the validator's question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from respevents._canonical import canonical
from respevents._direct import event_check
from respevents._errors import EncodeError, show
from respevents._json import decode_json
from respevents._sse import DEFAULT_MAX_FRAME, Frame, FrameDecoder

if TYPE_CHECKING:
    from respevents._direct import Check

__all__ = [
    "DEFAULT_MAX_FRAME",
    "Frame",
    "FrameDecoder",
    "decode_json",
    "encode_frame",
    "encode_json",
    "frame_bytes",
    "to_wire",
]

_encode = msgspec.json.encode

_plans: dict[type[Any], tuple[Check, bytes]] = {}
"""For each class of a value that was encoded: may msgspec write it directly, and the frame up to the JSON."""


def to_wire(event: Any) -> dict[str, Any]:
    """The plain mapping that `encode_json` writes: keys in wire order, plain types, nothing added and nothing lost.

    Takes a class of `respevents.events`, a mapping or a pydantic model (its unset fields are absent), with any of them
    inside each other; `UNSET` stands for an absent key. Beside events it takes a Response and an output item alone.
    Raises EncodeError, with the JSON path, for what JSON cannot carry: bytes, NaN and infinities (in a `logprob` they
    are -9999.0), lone surrogates, keys that are not str, more than 256 levels, integers of more than 4,300 digits.
    """
    return canonical(event)


def encode_json(event: Any) -> bytes:
    """The JSON of an event in OpenAI's bytes, without framing (what a WebSocket message holds). Takes and raises as
    `to_wire` does; an event has the same bytes in all its forms.
    """
    check, _ = _plans.get(type(event)) or _plan(type(event))
    if check(event):
        try:
            return _encode(event)
        except (TypeError, ValueError, OverflowError, RecursionError):
            pass  # the slow path knows the answer, or the path of the fault
    return _write(canonical(event))


def encode_frame(event: Any) -> bytes:
    """The frame of an event: `event:` line, `data:` line, blank line. Takes and raises as `encode_json` does, and the
    event needs a `type`.
    """
    check, head = _plans.get(type(event)) or _plan(type(event))
    if check(event):
        try:
            return head + _encode(event) + b"\n\n"
        except (TypeError, ValueError, OverflowError, RecursionError):
            pass
    wire = canonical(event)
    kind = wire.get("type")
    if not isinstance(kind, str):
        raise EncodeError(
            "An event needs a `type`",
            path="$.type",
            expected="a string",
            got=show(kind) if "type" in wire else "no such key",
        )
    return frame_bytes(kind, _write(wire))


def frame_bytes(type: str, json_bytes: bytes) -> bytes:  # noqa: A002 - the field's own name
    """Frame JSON that is encoded already. Raises EncodeError when a line break in it would break the frame."""
    if not type or "\n" in type or "\r" in type:
        raise EncodeError("An event type is one line of text", path="$.type", got=show(type))
    if b"\n" in json_bytes or b"\r" in json_bytes:
        raise EncodeError("The JSON of a frame is one line", got=show(json_bytes), fix="Write it compact.")
    return b"event: " + type.encode() + b"\ndata: " + json_bytes + b"\n\n"


def _write(wire: dict[str, Any]) -> bytes:
    try:
        return _encode(wire)
    except RecursionError as error:  # within the bound of depth, but the caller's own stack is nearly full
        raise EncodeError("The value is nested too deep for what is left of the stack", path="$") from error


def _plan(cls: type[Any]) -> tuple[Check, bytes]:
    check, kind = event_check(cls)
    plan = check, b"" if kind is None else b"event: " + kind.encode() + b"\ndata: "
    _plans[cls] = plan
    return plan
