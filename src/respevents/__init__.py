"""The event stream of OpenAI's `/v1/responses`: build it, send it, and end it right when something breaks.

Every public name is imported on first use, so `import respevents` costs next to nothing and loads no optional
library, no asyncio and no table. A name whose module needs an optional library says which extra brings it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msgspec import UNSET, UnsetType

    from respevents._errors import EncodeError, LocalProtocolError, ProtocolError, RemoteProtocolError
    from respevents.captures import Capture, CaptureError, read_captures
    from respevents.classifier import FinishReason, HTTPAnswer, classify
    from respevents.events import decode_event
    from respevents.failures import Cause, Failure, FailureCode, Policy, RequestRejected, error_envelope
    from respevents.guard import guard_stream, guard_stream_sync, rejected_frames, rejected_stream
    from respevents.inputs import check_input_items, repair_usage
    from respevents.lifecycle import Lifecycle
    from respevents.relay import Notice, Relay
    from respevents.stream import ResponseStream
    from respevents.validate import Finding, Report, StreamValidator, validate_file, validate_stream
    from respevents.wire import Frame, FrameDecoder, decode_json, encode_frame, encode_json

__version__ = "0.1.0"

__all__ = [
    "UNSET",
    "Capture",
    "CaptureError",
    "Cause",
    "EncodeError",
    "Failure",
    "FailureCode",
    "Finding",
    "FinishReason",
    "Frame",
    "FrameDecoder",
    "HTTPAnswer",
    "Lifecycle",
    "LocalProtocolError",
    "Notice",
    "Policy",
    "ProtocolError",
    "Relay",
    "RemoteProtocolError",
    "Report",
    "RequestRejected",
    "ResponseStream",
    "StreamValidator",
    "UnsetType",
    "__version__",
    "check_input_items",
    "classify",
    "decode_event",
    "decode_json",
    "encode_frame",
    "encode_json",
    "error_envelope",
    "guard_stream",
    "guard_stream_sync",
    "read_captures",
    "rejected_frames",
    "rejected_stream",
    "repair_usage",
    "validate_file",
    "validate_stream",
]

_HOME = {
    "UNSET": "msgspec",
    "UnsetType": "msgspec",
    "EncodeError": "respevents._errors",
    "LocalProtocolError": "respevents._errors",
    "ProtocolError": "respevents._errors",
    "RemoteProtocolError": "respevents._errors",
    "FinishReason": "respevents.classifier",
    "HTTPAnswer": "respevents.classifier",
    "classify": "respevents.classifier",
    "Capture": "respevents.captures",
    "CaptureError": "respevents.captures",
    "read_captures": "respevents.captures",
    "decode_event": "respevents.events",
    "Cause": "respevents.failures",
    "Failure": "respevents.failures",
    "FailureCode": "respevents.failures",
    "Policy": "respevents.failures",
    "RequestRejected": "respevents.failures",
    "error_envelope": "respevents.failures",
    "guard_stream": "respevents.guard",
    "guard_stream_sync": "respevents.guard",
    "rejected_frames": "respevents.guard",
    "rejected_stream": "respevents.guard",
    "check_input_items": "respevents.inputs",
    "repair_usage": "respevents.inputs",
    "Lifecycle": "respevents.lifecycle",
    "Notice": "respevents.relay",
    "Relay": "respevents.relay",
    "ResponseStream": "respevents.stream",
    "Finding": "respevents.validate",
    "Report": "respevents.validate",
    "StreamValidator": "respevents.validate",
    "validate_file": "respevents.validate",
    "validate_stream": "respevents.validate",
    "Frame": "respevents.wire",
    "FrameDecoder": "respevents.wire",
    "decode_json": "respevents.wire",
    "encode_frame": "respevents.wire",
    "encode_json": "respevents.wire",
}
"""The module each public name lives in; the imports above say the same to type checkers."""


if not TYPE_CHECKING:  # a checker that sees this would accept any name

    def __getattr__(name: str) -> object:
        module = _HOME.get(name)
        if module is None:
            raise AttributeError(f"module 'respevents' has no attribute {name!r}")
        from respevents._extras import load

        value: object = getattr(load(module), name)
        globals()[name] = value  # the next use is a plain lookup
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
