"""JSON lines and WebSocket logs: an event a line, alone or in an envelope."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from respevents._capture import Capture
from respevents._documents import text_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from respevents._sources import Limits, Source

__all__ = ["MESSAGE", "PIECE", "flavour_of_line", "frame_of", "json_lines", "payload", "plain_lines", "together"]

MESSAGE = re.compile(rb"[<>][ \t]*\{")
_PAYLOADS: Final = ("data", "payload", "message", "body", "msg", "text", "event")
_DIRECTIONS: Final = ("direction", "dir", "type", "kind", "from", "source", "opcode", "op")
_SENT: Final = frozenset({"send", "sent", "out", "outgoing", "outbound", "client", "tx", "request", ">", "up", "c2s"})
_RECEIVED: Final = frozenset(
    {"receive", "received", "recv", "in", "incoming", "inbound", "server", "rx", "response", "<", "down", "s2c"}
    | {"message", "text"}
)


def flavour_of_line(line: bytes) -> str:
    """What a line of JSON lines is: an event, `{event, data}`, or a message in an envelope."""
    if MESSAGE.match(line):
        return "websocket"
    try:
        value = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return "jsonl"
    if not isinstance(value, dict):
        return "jsonl"
    if _is_event(value):
        return "jsonl"
    if "data" in value and "event" in value and _is_name(value["event"]):
        return "envelope"
    if any(_direction(value, key) is not None for key in _DIRECTIONS) and any(key in value for key in _PAYLOADS):
        return "websocket"
    if any(_carries_event(value.get(key)) for key in _PAYLOADS):
        return "websocket"
    return "jsonl"


def _is_event(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    if not isinstance(kind, str):
        return False
    return kind.startswith("response.") or (kind in {"error", "keepalive"} and "data" not in value)


def _is_name(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _carries_event(value: Any) -> bool:
    if isinstance(value, str):
        if value.strip() == "[DONE]":
            return True
        try:
            value = msgspec.json.decode(text_bytes(value))
        except (ValueError, RecursionError):
            return False
    return isinstance(value, dict) and _is_event(value)


def _direction(value: Mapping[str, Any], key: str) -> bool | None:
    """True for a message that was sent to the server, False for one from it, None when `key` does not say."""
    word = value.get(key)
    if not isinstance(word, str):
        return None
    word = word.lower()
    return True if word in _SENT else False if word in _RECEIVED else None


def json_lines(source: Source, flavour: str, limits: Limits, on_skip: Callable[[str], None]) -> Capture:
    if source.peek(3).startswith(b"\xef\xbb\xbf"):
        source.take(3)
    if flavour == "jsonl":
        return Capture(
            plain_lines(source, limits),
            name=source.name,
            format="jsonl",
            framing="json-lines",
            offset=source.offset,
        )
    if flavour == "envelope":
        return Capture(_enveloped(source, limits), name=source.name, format="jsonl", framing="sse")
    return Capture(_messages(source, limits, on_skip), name=source.name, format="websocket", framing="json-lines")


def _lines(source: Source, limits: Limits) -> Iterator[bytes]:
    """The lines that are not blank, each with one LF at its end."""
    while line := source.line(limits.line, "A line"):
        text = line.strip(b" \t\r\n")
        if text:
            yield text + b"\n"


PIECE: Final = 64 * 1024


def together(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces."""
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= PIECE:
            yield b"".join(parts)
            parts.clear()
            size = 0
    if parts:
        yield b"".join(parts)


def plain_lines(source: Source, limits: Limits) -> Iterator[bytes]:
    return together(_lines(source, limits))


class _Envelope(msgspec.Struct):
    data: msgspec.Raw
    event: str | None = None


_read_envelope = msgspec.json.Decoder(_Envelope).decode


def _enveloped(source: Source, limits: Limits) -> Iterator[bytes]:
    """`{event, data}` a line, as the frames they were: the recorder took the framing apart, and kept its fields."""
    return together(frame_of(line) for line in _lines(source, limits))


def frame_of(line: bytes) -> bytes:
    try:
        envelope = _read_envelope(line)
    except (ValueError, RecursionError):
        return b"data: " + line + b"\n"  # no envelope: for the reader of the stream to report
    data = bytes(envelope.data)
    if data[:1] == b'"':
        with contextlib.suppress(ValueError):
            data = text_bytes(msgspec.json.decode(data))
    elif data == b"null":
        data = b""
    head = b"" if not envelope.event else b"event: " + _one_line(envelope.event.encode("utf-8", "replace")) + b"\n"
    body = b"".join(b"data: " + part + b"\n" for part in re.split(rb"\r\n|\n|\r", data)) if data else b""
    return head + body + b"\n"


def _one_line(text: bytes) -> bytes:
    return text.replace(b"\r", b" ").replace(b"\n", b" ")


def _messages(source: Source, limits: Limits, on_skip: Callable[[str], None]) -> Iterator[bytes]:
    return together(_each_message(source, limits, on_skip))


def _each_message(source: Source, limits: Limits, on_skip: Callable[[str], None]) -> Iterator[bytes]:
    sent = other = 0
    for line in _lines(source, limits):
        if line[:1] == b">":
            sent += 1
            continue
        text = line[1:].lstrip() if line[:1] == b"<" else line
        message = payload(text)
        if message is None:
            sent += 1
        elif not message:
            other += 1
        else:
            yield message
    if sent or other:
        on_skip(
            f"{source.name}: left out {sent} messages to the server and {other} that carry no text (pings, closing)"
        )


def payload(line: bytes) -> bytes | None:
    """The message in a line, with LF; None for one that was sent to the server, `b""` for one without text."""
    try:
        value = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError):
        return line  # no envelope: for the reader of the stream to report
    plain = {key: _plain(raw) for key, raw in value.items() if key in _DIRECTIONS}
    if _is_event(plain):
        return line
    directions = [way for key in _DIRECTIONS if (way := _direction(plain, key)) is not None]
    if True in directions:
        return None
    for key in _PAYLOADS:
        raw = bytes(value[key]) if key in value else b""
        if raw[:1] == b"{":
            return raw + b"\n"
        if raw[:1] == b'"':
            text = text_bytes(msgspec.json.decode(raw)) if _valid_text(raw) else raw
            if text.lstrip()[:1] in {b"{", b"["}:
                return b" ".join(text.splitlines()) + b"\n"
    return b"" if directions else line


def _plain(raw: msgspec.Raw) -> Any:
    data = bytes(raw)
    return msgspec.json.decode(data) if data[:1] == b'"' and len(data) < 200 and _valid_text(data) else None


def _valid_text(raw: bytes) -> bool:
    try:
        msgspec.json.decode(raw)
    except ValueError:
        return False
    return True
