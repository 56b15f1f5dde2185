"""Must type-check under mypy --strict and pyright strict: how our classes read to a server author."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import assert_never, assert_type

import respevents
from respevents import UNSET, UnsetType, decode_event, encode_frame, encode_json
from respevents.events import (
    ResponseCompletedEvent,
    ResponseErrorEvent,
    ResponseOutputItemDoneEvent,
    ResponseStreamEvent,
    ResponseTextDeltaEvent,
    UnknownEvent,
)
from respevents.items import (
    Response,
    ResponseFunctionToolCall,
    ResponseOutputItem,
    ResponseOutputMessage,
    ResponseOutputText,
    UnknownItem,
)


def construct() -> bytes:
    event = ResponseTextDeltaEvent(
        content_index=0, delta="Hi", item_id="msg_1", logprobs=[], output_index=0, sequence_number=4
    )
    assert_type(event.delta, str)
    assert_type(event.type, Literal["response.output_text.delta"])
    assert_type(event.sequence_number, int | UnsetType)
    assert_type(encode_json(event), bytes)
    assert_type(event.to_dict(), dict[str, Any])
    return encode_frame(event)


def narrow_on_class(event: ResponseStreamEvent) -> str:
    if isinstance(event, ResponseTextDeltaEvent):
        return event.delta
    if isinstance(event, ResponseCompletedEvent):
        assert_type(event.response, Response)
        return event.response.id
    if isinstance(event, ResponseErrorEvent):
        return event.message if isinstance(event.message, str) else ""
    if isinstance(event, UnknownEvent):
        assert_type(event.type, str)
        return event.type
    return ""


def narrow_on_type(event: ResponseTextDeltaEvent | ResponseOutputItemDoneEvent) -> str:
    if event.type == "response.output_text.delta":
        assert_type(event, ResponseTextDeltaEvent)
        return event.delta
    if event.type == "response.output_item.done":
        assert_type(event, ResponseOutputItemDoneEvent)
        return describe(event.item)
    assert_never(event)


def describe(item: ResponseOutputItem) -> str:
    if isinstance(item, ResponseFunctionToolCall):
        return item.name + item.arguments
    if isinstance(item, ResponseOutputMessage):
        for part in item.content:
            if isinstance(part, ResponseOutputText):
                return part.text
    if isinstance(item, UnknownItem):
        return str(item.type)
    return ""


def absent_or_null(event: ResponseErrorEvent) -> str:
    if event.code is UNSET:
        return "absent"
    if event.code is None:
        return "null"
    assert_type(event.code, str)
    return event.code


def decode(data: bytes) -> None:
    assert_type(decode_event(data), ResponseStreamEvent)
    assert_type(decode_event({"type": "error"}), ResponseStreamEvent)
    decoder = respevents.FrameDecoder()
    for frame in decoder.feed(data):
        assert_type(frame, respevents.Frame)
        assert_type(frame.data, bytes)
        assert_type(frame.event, str | None)


def build(request: dict[str, Any]) -> bytes:
    stream = respevents.ResponseStream(model="m", request=request)
    out = stream.start()
    assert_type(out, bytes)
    message = stream.message()
    out += message.text("Hel") + message.text("lo")
    out += stream.complete(usage={"input_tokens": 1})
    return out


def fail(stream: respevents.ResponseStream) -> bytes:
    failure = respevents.Failure(cause=respevents.Cause.CONTEXT_LENGTH_EXCEEDED, message="too long")
    status, body = respevents.error_envelope(failure)
    assert_type(status, int)
    assert_type(body, dict[str, Any])
    return stream.fail(failure)
