"""What a relay repairs on request: frames in, frames out, the values an upstream gave kept as the bytes they were.

Objects on the way to a repaired key are read one level deep (`msgspec.Raw`), so that what is not repaired is written
back byte for byte, whatever its numbers, escapes and key order look like. Only blanks between tokens may go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from respevents._watch import ENDS
from respevents.failures import Cause, Failure, safe_text
from respevents.inputs import repair_usage
from respevents.wire import FrameDecoder, encode_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from respevents._ending import Guard
    from respevents.wire import Frame

__all__ = ["Repairer"]

Members: TypeAlias = "dict[str, msgspec.Raw]"

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.json.encode

_GENERAL: Final = frozenset(
    {"", "server_error", "internal_error", "internal_server_error", "api_error", "error", "unknown", "unknown_error"}
    | {"invalid_request_error", "bad_request", "bad_request_error", "badrequesterror", "invalid_prompt"}
)
"""Codes that say no more than whose fault it was."""

_UNTOLD: Final = frozenset({Cause.INTERNAL_ERROR, Cause.ENGINE_ERROR, Cause.INVALID_REQUEST, Cause.INVALID_PROMPT})
"""Causes no more precise than such a code."""

_EMPTY: Final = msgspec.Raw(b"[]")
_ZERO: Final = msgspec.Raw(b"0")

_CONTENT: Final = ("response.content_part.", "response.output_text.", "response.refusal.", "response.reasoning_text.")
_SUMMARY: Final = ("response.reasoning_summary_part.", "response.reasoning_summary_text.")
_PARTS: Final[Mapping[str, tuple[str, ...]]] = {"output_text": ("annotations", "logprobs")}
_ITEMS: Final[Mapping[str, tuple[str, ...]]] = {"message": ("content",), "reasoning": ("summary",)}
"""Lists that objects of these types always have."""


class Repairer:
    """Frames in any cutting in, whole frames out, repaired as `names` say."""

    def __init__(
        self,
        names: Collection[str],
        guard: Guard,
        notice: Callable[[str, str, str | None], None],
        engine: str | None,
        max_frame: int,
    ) -> None:
        self._names = names
        self._guard = guard
        self._notice = notice
        self._engine = engine
        self._decoder = FrameDecoder(max_frame)
        self._number = 0  # what the next event should carry
        self._terminal: str | None = None
        self._open: dict[str, str] = {}  # output_index -> id of the items that are not done
        self._indexes: dict[str, str] = {}  # id -> output_index
        self._broken = ""  # what belies a completion
        self._base: dict[str, Any] | None = None

    def feed(self, chunk: bytes) -> bytes:
        """The frames that `chunk` completes, repaired. Raises RemoteProtocolError for one over the bound."""
        return b"".join([self._frame(frame) for frame in self._decoder.feed(chunk)])

    def close(self) -> bytes:
        """What was held of a last frame that never became whole, as it came."""
        return b"".join([self._frame(frame) if frame.complete else frame.raw for frame in self._decoder.close()])

    def _frame(self, frame: Frame) -> bytes:
        if not frame.data:
            return frame.raw
        try:
            event = _members(frame.data)
            kind = _string(event.get("type")) or frame.event or ""
            changed = self._event(kind, event)
        except (ValueError, RecursionError):
            if frame.data.strip() != b"[DONE]":
                self._broken = self._broken or "a frame before it holds no JSON"
            return frame.raw
        if changed is None:
            return b""
        if not changed:
            return frame.raw
        kind = _string(event.get("type")) or kind
        return _framed(frame, kind, _encode(event))

    def _event(self, kind: str, event: Members) -> bool | None:
        """Repair one event in place: whether it changed, or None when it is left out."""
        changed = False
        if kind in ENDS:
            if self._terminal is not None and "single_terminal" in self._names:
                self._notice("single_terminal", f"{kind} after {self._terminal} was left out", kind)
                return None
            self._terminal = self._terminal or kind
        if "fields" in self._names:
            changed |= self._fill(kind, event)
        if "usage" in self._names:
            changed |= self._usage(kind, event)
        if "truncated_completion" in self._names and kind == "response.completed":
            changed |= self._completion(event)
        if "failure_code" in self._names and kind in {"response.failed", "error"}:
            changed |= self._code(kind, event)
        self._track(kind, event)
        number = event.get("sequence_number")
        value = _integer(number)
        if value is None and "sequence_number" in self._names and (number is None or bytes(number) == b"null"):
            event["sequence_number"] = _raw(self._number)
            self._notice("sequence_number", f"{kind or 'an event'} had no number", kind)
            value, changed = self._number, True
        self._number = self._number + (value is None) if value is None or value < self._number else value + 1
        return changed

    # ---- the repairs ----------------------------------------------------------------------------------------------

    def _code(self, kind: str, event: Members) -> bool:
        """An engine's text under a general code: the code that the text stands for."""
        from respevents.classifier import classify

        holder = _object(event.get("response")) if kind == "response.failed" else event
        if holder is None:
            return False
        error = _object(holder.get("error"))
        flat = kind == "error" and "code" in event
        given = (error if error is not None else holder if flat else {}).get("code")
        code = _string(given)
        general = code is None or code.lower() in _GENERAL or code.isdigit()
        if not general or (error is None and not flat):
            return False
        source = error if error is not None else event
        body = {"code": code, "message": _string(source.get("message")) or "", "type": _string(source.get("type"))}
        failure: Failure = classify({"type": "error", "error": body}, engine=self._engine)
        right = failure.code_for(self._guard.policy)
        if right is None or right == code or failure.rule is None or failure.cause in _UNTOLD:
            return False
        if error is not None:
            error["code"] = _raw(right)
            if "type" in error:
                error["type"] = _raw(failure.type_for(self._guard.policy))
            holder["error"] = _raw(error)
            if holder is not event:
                event["response"] = _raw(holder)
        if flat:
            event["code"] = _raw(right)
        was = "no code" if given is None else bytes(given)[:60].decode("utf-8", "replace")
        self._notice("failure_code", f"{kind}: {was} became {right}, by the rule {failure.rule}", kind)
        return True

    def _usage(self, kind: str, event: Members) -> bool:
        response = _object(event.get("response"))
        if response is None or (usage := _object(response.get("usage"))) is None:
            return False
        given = msgspec.json.decode(_raw(usage))
        repaired = repair_usage(given)
        if repaired == given:
            return False
        for key, value in repaired.items():
            if key not in given or given[key] != value:
                usage[key] = _merged(usage.get(key), value)
        response["usage"] = _raw(usage)
        event["response"] = _raw(response)
        self._notice("usage", f"Counters were missing in the usage of {kind}", kind)
        return True

    def _completion(self, event: Members) -> bool:
        response = _object(event.get("response"))
        why = self._broken
        if not why and self._open:
            why = f"{len(self._open)} items were begun and never done"
        status = _string(response.get("status")) if response else None
        if not why and status in {"failed", "cancelled"}:
            why = f"its own status is {status}"
        if not why or response is None:
            return False
        text = f"The upstream was cut: it sent response.completed, but {why}."
        failure = Failure(cause=Cause.UPSTREAM_TRUNCATED, message=text)
        event["type"] = _raw("response.failed")
        response["status"] = _raw("failed")
        response["error"] = _raw(failure.error_object(self._guard.policy))
        response["completed_at"] = _raw(None)
        event["response"] = _raw(response)
        self._terminal = "response.failed"
        self._notice("truncated_completion", text, "response.completed")
        return True

    def _fill(self, kind: str, event: Members) -> bool:
        added: list[str] = []
        if "type" not in event and kind:
            _put(event, "type", _raw(kind), added)
        if kind.startswith(("response.output_text.delta", "response.output_text.done")):
            _put(event, "logprobs", _EMPTY, added)
        if kind.startswith(_CONTENT):
            _put(event, "content_index", _ZERO, added)
        if kind.startswith(_SUMMARY):
            _put(event, "summary_index", _ZERO, added)
        item_id = _string(event.get("item_id"))
        if item_id is not None and item_id in self._indexes:
            _put(event, "output_index", _raw(int(self._indexes[item_id])), added)
        elif kind == "response.output_item.added":
            _put(event, "output_index", _raw(len(self._indexes)), added)
        elif kind == "response.output_item.done":
            own = _string((_object(event.get("item")) or {}).get("id")) or ""
            if own in self._indexes:
                _put(event, "output_index", _raw(int(self._indexes[own])), added)
        if (part := _object(event.get("part"))) is not None and _fill_part(part, added):
            event["part"] = _raw(part)
        if (item := _object(event.get("item"))) is not None and _fill_item(item, added):
            event["item"] = _raw(item)
        if (response := _object(event.get("response"))) is not None and self._fill_response(kind, response, added):
            event["response"] = _raw(response)
        if added:
            self._notice("fields", f"{kind or 'An event'} had no {', '.join(added[:8])}", kind)
        return bool(added)

    def _fill_response(self, kind: str, response: Members, added: list[str]) -> bool:
        before = len(added)
        if self._base is None:
            self._base = self._guard.snapshot(self._guard.request)
        for key, value in self._base.items():
            if key in response:
                continue
            if key == "status":
                state = kind.removeprefix("response.")
                value = state if state in {"completed", "failed", "incomplete", "queued"} else "in_progress"  # noqa: PLW2901
            _put(response, key, msgspec.Raw(encode_json({"object": "response", key: value})), added, key=key)
        if kind in {"response.created", "response.in_progress", "response.queued"}:
            for key in ("id", "created_at", "model"):  # what was filled in once stays
                if key in response:
                    self._base[key] = msgspec.json.decode(response[key])
        output = _array(response.get("output"))
        whole = [_object(one) for one in output]
        changed = [_fill_item(item, added) for item in whole if item is not None]
        if any(changed):
            filled = [one if item is None else _raw(item) for one, item in zip(output, whole, strict=True)]
            response["output"] = _raw(filled)
        return len(added) > before

    def _track(self, kind: str, event: Members) -> None:
        if kind not in {"response.output_item.added", "response.output_item.done"}:
            return
        item_id = _string((_object(event.get("item")) or {}).get("id")) or ""
        index = bytes(event.get("output_index", b"")).decode("ascii", "replace") or item_id
        if kind.endswith("added"):
            self._open[index] = item_id
            if item_id and len(self._indexes) < 10_000:
                self._indexes[item_id] = index if index.isdigit() else str(len(self._indexes))
        elif index in self._open:
            del self._open[index]
        else:  # servers that change indexes or ids on the way: by the other of the two
            for key, value in self._open.items():
                if value == item_id:
                    del self._open[key]
                    break


def _fill_part(part: Members, added: list[str]) -> bool:
    before = len(added)
    for key in _PARTS.get(_string(part.get("type")) or "", ()):
        _put(part, key, _EMPTY, added)
    return len(added) > before


def _fill_item(item: Members, added: list[str]) -> bool:
    before = len(added)
    kind = _string(item.get("type")) or ""
    for key in _ITEMS.get(kind, ()):
        _put(item, key, _EMPTY, added)
    if kind == "message":
        _put(item, "role", _raw("assistant"), added)
        content = _array(item.get("content"))
        parts = [_object(one) for one in content]
        changed = [_fill_part(part, added) for part in parts if part is not None]
        if any(changed):
            filled = [one if part is None else _raw(part) for one, part in zip(content, parts, strict=True)]
            item["content"] = _raw(filled)
    return len(added) > before


def _put(holder: Members, name: str, value: msgspec.Raw, added: list[str], key: str | None = None) -> None:
    if name in holder:
        return
    if key is not None:  # `value` is an object that holds the canonical form of the key
        value = _members(value)[key]
    holder[name] = value
    added.append(name)


def _merged(given: msgspec.Raw | None, value: Any) -> msgspec.Raw:
    """`value` with the bytes of those of its members that were given."""
    members = _object(given)
    if members is None or not isinstance(value, dict):
        return _raw(value)
    kept: dict[str, Any] = {key: msgspec.json.decode(raw) for key, raw in members.items()}
    for key, one in value.items():
        if key not in kept or kept[key] != one:
            members[key] = _raw(one)
    return _raw(members)


def _framed(frame: Frame, kind: str, data: bytes) -> bytes:
    """The block of a frame with other data: its comments, ids and line ends stay."""
    end = b"\r\n" if b"\r\n" in frame.raw else b"\r" if b"\r" in frame.raw else b"\n"
    lines: list[bytes] = []
    written = False
    for line in frame.raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"):
        name = line.partition(b":")[0]
        if name == b"data":
            if not written:
                lines.append(b"data: " + data)
            written = True
        elif name == b"event":
            lines.append(b"event: " + safe_text(kind).replace("\r", "").replace("\n", "").encode())
        else:
            lines.append(line)
    return end.join(lines)


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(_encode(value))


def _object(raw: msgspec.Raw | None) -> Members | None:
    if raw is None or not bytes(raw).lstrip().startswith(b"{"):
        return None
    return _members(raw)


def _array(raw: msgspec.Raw | None) -> list[msgspec.Raw]:
    if raw is None or not bytes(raw).lstrip().startswith(b"["):
        return []
    return _list(raw)


def _string(raw: msgspec.Raw | None) -> str | None:
    if raw is None or not bytes(raw).startswith(b'"'):
        return None
    value = msgspec.json.decode(raw)
    return value if isinstance(value, str) else None


def _integer(raw: msgspec.Raw | None) -> int | None:
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw, type=int)
    except ValueError:
        return None
