"""How the Codex CLI reads a stream over HTTP, with a provider of its own (`wire_api = "responses"`, default retries).

Sources: `process_sse` of its `codex-api` crate, the `eventsource-stream` crate 0.2.3, and runs of the released
binaries: 0.171.0 on every rule here, the others where a version is named.
"""

from __future__ import annotations

import codecs
import re
from http import HTTPStatus
from typing import Any, Final, Literal

import msgspec

from respevents._reader import (
    Answer,
    End,
    Events,
    Lines,
    NotJSONError,
    Outcome,
    Reader,
    Reading,
    ToolCall,
    code_of,
    member,
    message_text,
    output_text,
    shown,
    strict_json,
    text_of,
    tool_call,
)
from respevents.failures import FailureCode

__all__ = ["CODEX"]

_VERSIONS: Final = ("0.101", "0.160", "0.164", "0.167.2", "0.169", "0.171")

_STREAM_REQUESTS: Final = 6
"""One request and `stream_max_retries`, 5 by default."""

_HTTP_REQUESTS: Final = 5
"""One request and `request_max_retries`, 4 by default: what HTTP 5xx gets inside each of the above."""

_AT_ONCE: Final = frozenset(
    {
        "context_length_exceeded",
        "flex_unavailable",
        "content_policy_violation",
        "inference_hook_denied",
        "access_program_not_enabled",
        "invalid_access_program",
        "unsupported_access_program",
        "budget_reached",
    }
)
"""Codes that end the turn with the frame that carries them (0.169); a code of another failure waits for the end of
the body, and a `response.completed` behind it wins."""

_AUDIO: Final = frozenset(
    {
        "invalid_audio",
        "invalid_audio_data",
        "invalid_audio_format",
        "missing_audio_sample_rate",
        "audio_too_large",
        "audio_too_short",
    }
)

_IN_ERROR_EVENT: Final = _AT_ONCE | _AUDIO | {"model_not_found"}
"""Codes that count in an `error` event (0.169), if it has an `error` object."""

_FULL: Final = (
    "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying."
)
_FIXED: Final = {
    "context_length_exceeded": _FULL,
    "insufficient_quota": "Quota exceeded. Check your plan and billing details.",
    "usage_not_included": ("To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus."),
    "server_is_overloaded": "Selected model is at capacity. Please try a different model.",
    "policy_capacity_unavailable": "Policy-restricted capacity is unavailable. Please try again later.",
    "flex_unavailable": "Flex capacity unavailable.",
    "budget_reached": "budget reached",
}
_QUOTA: Final = frozenset(
    {
        "insufficient_quota",
        "credit_balance_exhausted",
        "organization_spend_limit_exceeded",
        "project_spend_limit_exceeded",
    }
)
_WITHOUT_MESSAGE: Final = {
    "invalid_prompt": "Invalid request.",
    "bio_policy": "This content was flagged for possible biological risk.",
    "cyber_policy": "This request has been flagged for possible cybersecurity risk.",
}
_AUDIO_ADVICE: Final = " Please remove or replace the affected audio attachment and try again."
_DISCONNECTED: Final = "stream disconnected before completion: "
_CLOSED: Final = "stream closed before response.completed"
_HIGH_DEMAND: Final = "We\u2019re currently experiencing high demand, which may cause temporary errors."

_DELAY: Final = re.compile(r"try again in\s*(\d+(?:\.\d+)?)\s*(s|ms|seconds?)", re.IGNORECASE)

_CAPTURED: Final = frozenset(
    {"type", "headers", "metadata", "response", "item", "error", "item_id", "call_id", "delta", "text"}
    | {"summary_index", "content_index"}
)
"""Keys of an event that are read; what stands in others is looked at as JSON only."""

_STRINGS: Final = frozenset({"type", "item_id", "call_id", "delta", "text"})

_MAX_DEPTH: Final = 127
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_FACTS: Final = {member.value: member.facts for member in FailureCode}

Effect = Literal["context_window", "stop", "wait", "retry"]


class _Failure(msgspec.Struct, frozen=True, kw_only=True):
    effect: Effect
    message: str
    code: str | None = None
    delay: float | None = None
    at_once: bool = False
    incomplete: bool = False


class _Refused(Exception):  # noqa: N818 - a signal inside this module
    """serde gives up, with this sentence."""


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in f"{version}.0.0".split(".")[:3])


class _Codex(Reading):
    def __init__(self, client: str, version: str, answer: Answer) -> None:
        super().__init__(client, version, answer)
        self._since = _number(version)
        self._lines = Lines("waits")
        self._decode = codecs.getincrementaldecoder("utf-8")()
        self._sse = Events("data")
        self._bad_utf8: str | None = None
        self._started = False
        self._dead = False
        self._done: Outcome | None = None
        self._failure: _Failure | None = None
        self._texts: list[str] = []
        self._calls: list[ToolCall] = []
        self._lost: str | None = None

    def since(self, version: str) -> bool:
        """Whether the release that is modelled is this one or a later one."""
        return self._since >= _number(version)

    # -- bytes

    def feed(self, chunk: bytes) -> None:
        if self.refused:
            self.keep(chunk)
            return
        if self._done is not None or self._dead or self._bad_utf8 is not None or not chunk:
            return
        try:
            text = self._decode.decode(chunk)
        except UnicodeDecodeError as error:
            # The crate keeps what it cannot decode, hoping for more, and complains about it at the end of the body.
            data = bytes(error.object)
            text = data[: error.start].decode()
            width = max(1, error.end - error.start)
            self._bad_utf8 = f"invalid utf-8 sequence of {width} bytes from index 0"
        if not text:
            return
        if not self._started:
            self._started = True
            if text[0] == "\ufeff":
                self._dead = True
                self.say(
                    "byte 0: a byte order mark makes eventsource-stream 0.2.3 panic (event_stream.rs:271), so no frame "
                    "is read"
                )
                return
        for line in self._lines.feed(text.encode("utf-8", "surrogatepass")):
            event = self._sse.line(line.decode("utf-8", "surrogatepass"))
            if event is not None:
                self.frames += 1
                self._event(event.data)
                if self._over():
                    return

    def _over(self) -> bool:
        return self._done is not None

    # -- events

    def _event(self, data: str) -> None:
        try:
            event = self._parse(data)
        except _Refused as refused:
            if data != "[DONE]":
                self.say(f"{self.frame()}: skipped, {refused} (process_sse goes on when serde_json refuses a frame)")
            return
        kind: str = event["type"]
        if kind == "response.output_item.done":
            self._item(event)
        elif kind == "response.output_text.delta":
            if event.get("delta") and self._lost is None:
                self._lost = "text deltas are shown while they come, and only a finished item is kept"
            self.surface(kind)
        elif kind == "response.completed":
            self._completed(event)
        elif kind == "response.incomplete":
            self._incomplete(event)
        elif kind == "response.failed":
            self._failed(event)
        elif kind == "error":
            self._error(event)
        elif (kind == "response.created" and event.get("response") is not None) or (
            kind == "response.output_item.added" and _item_problem(event.get("item")) is None
        ):
            self.surface(kind)

    def _parse(self, data: str) -> dict[str, Any]:
        try:
            event = strict_json(data, _pairs)
        except NotJSONError as error:
            raise _Refused(f"no JSON ({shown(str(error), 60)})") from None
        if not isinstance(event, _Object):
            raise _Refused("no object")
        for key, value in event.items():
            if key not in _CAPTURED:
                continue
            if key in event.twice:
                raise _Refused(f"the key {key} comes twice")
            if key in {"summary_index", "content_index"}:
                if value is not None and not _is_i64(value):
                    raise _Refused(f"{key} is no integer")
            elif key in _STRINGS and not (isinstance(value, str) or (value is None and key != "type")):
                raise _Refused(f"{key} is no string")
            problem = _unusable(value)
            if problem:
                raise _Refused(f"{problem} in {key}")
        if "type" not in event:
            raise _Refused("no type")
        return event

    def _item(self, event: dict[str, Any]) -> None:
        item = event.get("item")
        problem = _item_problem(item)
        if problem is not None:
            self._lost = f"a finished item is dropped ({problem})"
            self.say(f"{self.frame('response.output_item.done')}: the item is dropped, {problem}")
            return
        self.surface("response.output_item.done")
        call = tool_call(item)
        if call is not None:
            self._calls.append(call)
        if member(item, "type") == "message" and member(item, "role") == "assistant":
            self._texts.append(message_text(item))
            self.say(f"{self.frame('response.output_item.done')}: its text is shown and kept")

    def _completed(self, event: dict[str, Any]) -> None:
        place = self.frame("response.completed")
        response = event.get("response")
        if response is None:
            self.say(f"{place}: no response in it, so it is not acted on")
            return
        try:
            _check_completed(response)
        except _Refused as refused:
            message = f"failed to parse ResponseCompleted: {refused}"
            self.say(f"{place}: {message}; it counts as an error of the stream")
            self._keep(_Failure(effect="retry", message=_DISCONNECTED + message))
            return
        self.surface("response.completed")
        text = "".join(self._texts)
        if self._lost is None and not self._texts and output_text(response):
            self._lost = "the output of response.completed is not read, items come from response.output_item.done only"
        if self._lost is None and self._failure is not None:
            self._lost = "a failure before response.completed is forgotten"
        kind: Literal["completed", "silent_loss"] = "completed"
        if not self._texts and not self._calls and self._lost is not None:
            kind = "silent_loss"
            self.say(f"{place}: the turn is completed without a message: {self._lost}")
        else:
            self.say(f"{place}: the turn is completed, without waiting for the end of the body")
        self._done = self.outcome(kind, text=text, tool_calls=tuple(self._calls))

    def _incomplete(self, event: dict[str, Any]) -> None:
        self.surface("response.incomplete")
        reason = text_of(member(event.get("response"), "incomplete_details", "reason")) or "unknown"
        message = f"Incomplete response returned, reason: {reason}"
        if self.since("0.164") and reason != "content_filter":
            rule = "shown, and not asked again (0.164)"
            failure = _Failure(effect="stop", message=message, code=reason, at_once=True, incomplete=True)
        else:
            rule = "an error of the stream, asked again"
            failure = _Failure(effect="retry", message=_DISCONNECTED + message, code=reason, incomplete=True)
        self.say(f"{self.frame('response.incomplete')}: reason {shown(reason)}: {rule}")
        self._keep(failure)

    def _failed(self, event: dict[str, Any]) -> None:
        self.surface("response.failed")
        error = member(event.get("response"), "error")
        code = text_of(member(error, "code"))
        if self.since("0.169") and code in _AT_ONCE:
            failure = self._by_code(code, text_of(member(error, "message")))
        elif not isinstance(error, dict) or any(
            not isinstance(error.get(key), (str, type(None))) for key in ("type", "code", "message")
        ):
            message = "response.failed event received"
            failure = _Failure(effect="retry", message=_DISCONNECTED + message, code=code_of(member(error, "code")))
        else:
            failure = self._by_code(code, error.get("message"))
        self._tell("response.failed", failure)
        self._keep(failure)

    def _error(self, event: dict[str, Any]) -> None:
        error = event.get("error")
        code = text_of(member(error, "code"))
        if not self.since("0.169") or code not in _IN_ERROR_EVENT:
            what = f"one with the code {shown(str(code))}" if isinstance(error, dict) else "one without an error object"
            self.say(f"{self.frame('error')}: ignored, as every error event but some codes of 0.169 ({what})")
            return
        failure = self._by_code(code, text_of(member(error, "message")))
        self.surface("error")
        self._tell("error", failure)
        self._keep(failure)

    def _tell(self, kind: str, failure: _Failure) -> None:
        code = f"the code {shown(failure.code)}" if failure.code is not None else "no code that is a string"
        when = "at once" if failure.at_once else "when the body ends, unless response.completed comes"
        rule = {
            "context_window": "the context window is full, the conversation is compacted before the next turn",
            "stop": "the turn ends with the message",
            "wait": "asked again as a rate limit",
            "retry": "asked again as any other failure",
        }[failure.effect]
        self.say(f"{self.frame(kind)}: {code}: {rule}, {when} (measured on the released binaries)")

    def _by_code(self, code: str | None, message: str | None) -> _Failure:
        effect = self._effect(code)
        at_once = self.since("0.169") and code in _AT_ONCE
        delay = None
        if effect == "wait" or (effect == "retry" and code == "rate_limit_exceeded"):
            delay = _delay(message or "")
        if effect == "wait":
            said = f"rate limit exceeded: {message or ''}"
        elif effect == "retry":
            said = _DISCONNECTED + (message or "")
        elif code in _QUOTA:
            said = _FIXED["insufficient_quota"]
        elif code == "slow_down":
            said = _FIXED["server_is_overloaded"]
        elif code in _FIXED:
            said = _FIXED[code or ""]
        else:
            said = message or _WITHOUT_MESSAGE.get(code or "", code or "")
            if code in _AUDIO:
                said += _AUDIO_ADVICE
        return _Failure(effect=effect, message=said, code=code, delay=delay, at_once=at_once)

    def words(self, code: str, message: str | None) -> str:
        """What the user is shown for a code that stops."""
        return self._by_code(code, message).message

    def _effect(self, code: str | None) -> Effect:
        facts = _FACTS.get(code or "")
        if facts is None:
            return "retry"
        if facts.codex_since is not None and not self.since(facts.codex_since):
            return "stop" if code == "slow_down" else "retry"  # until 0.150 it counted as an overload
        return facts.codex

    def _keep(self, failure: _Failure) -> None:
        self._failure = failure
        if failure.at_once:
            self._done = self._fail(failure)

    # -- the end

    def _fail(self, failure: _Failure) -> Outcome:
        kind: Literal["incomplete", "context_window_full", "retry", "stop"]
        if failure.effect in {"retry", "wait"}:
            kind = "retry"
        elif failure.incomplete:
            kind = "incomplete"
        else:
            kind = "context_window_full" if failure.effect == "context_window" else "stop"
        return self.outcome(
            kind,
            text="".join(self._texts),
            tool_calls=tuple(self._calls),
            code=failure.code,
            message=failure.message,
            retry_after=failure.delay,
            requests=_STREAM_REQUESTS if kind == "retry" else 1,
        )

    def close(self, end: End = "clean") -> Outcome:
        if self.refused:
            return _refusal(self, bytes(self.body))
        if self._done is not None:
            return self._done
        return self._fail(self._at_end(end))

    def _at_end(self, end: End) -> _Failure:
        if self._dead:
            return _Failure(effect="retry", message=_DISCONNECTED + _CLOSED)
        if end in {"aborted", "reset"}:
            self.say("the body was cut off: an error of the transport, whatever failure came before")
            return _Failure(
                effect="retry",
                message=_DISCONNECTED + "Transport error: network error: error decoding response body"
                if self.since("0.160")
                else _DISCONNECTED + "error decoding response body",
            )
        if end == "open":
            self.say("nothing came for 300 s (stream_idle_timeout_ms)")
            return _Failure(effect="retry", message=_DISCONNECTED + "idle timeout waiting for SSE")
        if self._bad_utf8 is None and self._decode.getstate()[0]:
            self._bad_utf8 = "incomplete utf-8 byte sequence from index 0"
        if self._bad_utf8 is not None:
            self.say(f"after frame {self.frames}: {self._bad_utf8}; nothing behind it was read (eventsource-stream)")
            return _Failure(effect="retry", message=f"{_DISCONNECTED}UTF8 error: {self._bad_utf8}")
        if self._failure is not None:
            return self._failure
        self.say(f"the body ended without response.completed after frame {self.frames}: {_CLOSED}")
        return _Failure(effect="retry", message=_DISCONNECTED + _CLOSED)


def _delay(message: str) -> float | None:
    found = _DELAY.search(message)
    if found is None:
        return None
    seconds = float(found[1])
    return seconds / 1000 if found[2].lower() == "ms" else seconds


# ---- JSON as serde reads it ------------------------------------------------------------------------------------------


class _Object(dict[str, Any]):
    """An object that remembers which of its keys came twice."""

    twice: frozenset[str] = frozenset()


def _pairs(pairs: list[tuple[str, Any]]) -> _Object:
    made = _Object(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        made.twice = frozenset(name for name in names if names.count(name) > 1) if len(names) < 1000 else frozenset()
    return made


def _unusable(value: Any) -> str | None:
    """What serde_json refuses in a value that it keeps: half a surrogate pair, more than 127 levels."""
    held = [(value, 1)]
    while held:
        one, depth = held.pop()
        if depth > _MAX_DEPTH:
            return "more than 127 levels"
        if isinstance(one, str):
            if _SURROGATE.search(one):
                return "half a surrogate pair"
        elif isinstance(one, dict):
            for key, inner in one.items():
                if _SURROGATE.search(key):
                    return "half a surrogate pair"
                held.append((inner, depth + 1))
        elif isinstance(one, list):
            held.extend((inner, depth + 1) for inner in one)
    return None


def _is_i64(value: Any) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean `{str(value).lower()}`"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return f'string "{shown(value)}"'
    return "sequence" if isinstance(value, list) else "map"


def _check_completed(response: Any) -> None:
    """What `response.completed` must hold: `id`, and whole token counts if there is `usage`."""
    if not isinstance(response, dict):
        raise _Refused(f"invalid type: {_kind_of(response)}, expected struct ResponseCompleted")
    if "id" not in response:
        raise _Refused("missing field `id`")
    if not isinstance(response["id"], str):
        raise _Refused(f"invalid type: {_kind_of(response['id'])}, expected a string")
    end_turn = response.get("end_turn")
    if end_turn is not None and not isinstance(end_turn, bool):
        raise _Refused(f"invalid type: {_kind_of(end_turn)}, expected a boolean")
    usage = response.get("usage")
    if usage is not None:
        _check_counts(usage, "ResponseCompletedUsage", 6, ("input_tokens", "output_tokens", "total_tokens"))
        for details, name, size, count in (
            ("input_tokens_details", "ResponseCompletedInputTokensDetails", 2, "cached_tokens"),
            ("output_tokens_details", "ResponseCompletedOutputTokensDetails", 1, "reasoning_tokens"),
        ):
            if usage.get(details) is not None:
                _check_counts(usage[details], name, size, (count,))


def _check_counts(value: Any, name: str, size: int, counts: tuple[str, ...]) -> None:
    if isinstance(value, list):
        raise _Refused(f"invalid length {len(value)}, expected struct {name} with {size} elements")
    if not isinstance(value, dict):
        raise _Refused(f"invalid type: {_kind_of(value)}, expected struct {name}")
    for count in counts:
        if count not in value:
            raise _Refused(f"missing field `{count}`")
        number = value[count]
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            if not _is_i64(number):
                raise _Refused("invalid number")
        else:
            raise _Refused(f"invalid type: {_kind_of(number)}, expected i64")


_PARTS: Final = {"output_text": "text", "input_text": "text", "input_image": "image_url"}
_NEEDED: Final = {
    "function_call": ("name", "arguments", "call_id"),
    "custom_tool_call": ("name", "input", "call_id"),
    "function_call_output": ("call_id",),
}


def _item_problem(item: Any) -> str | None:
    """Why `ResponseItem` refuses an item; None where it takes it. Unknown types are taken, and ignored."""
    if not isinstance(item, dict):
        return "it is no object"
    kind = item.get("type")
    if not isinstance(kind, str):
        return "it has no type"
    for key in ("id", "status"):
        if not isinstance(item.get(key), (str, type(None))) and (kind in _NEEDED or kind == "message"):
            return f"its {key} is no string"
    if kind in _NEEDED:
        for key in _NEEDED[kind]:
            if not isinstance(item.get(key), str):
                return f"{kind} needs a string {key}"
    if kind != "message":
        return None
    if not isinstance(item.get("role"), str):
        return "a message needs a role"
    if item.get("phase") not in {None, "commentary", "final_answer"}:
        return "its phase is not known"
    content = item.get("content")
    if not isinstance(content, list):
        return "the content of a message is an array"
    for part in content:
        part_kind = member(part, "type")
        needed = _PARTS.get(part_kind) if isinstance(part_kind, str) else None
        if needed is None:
            return f"a part of the type {shown(str(part_kind))} is not known"
        if not isinstance(part.get(needed), str):
            return f"a part {part_kind} needs a string {needed}"
        for key in ("annotations", "logprobs"):
            if part.get(key) is not None and not isinstance(part[key], list):
                return f"{key} is an array"
    return None


# ---- an HTTP error ---------------------------------------------------------------------------------------------------


_BY_BODY: Final[dict[int, frozenset[str]]] = {
    400: frozenset(
        {"context_length_exceeded", "budget_reached", "invalid_prompt", "bio_policy", "cyber_policy"}
        | {"misalignment_policy_violation", "model_not_found", "content_policy_violation"}
        | _AUDIO
    ),
    403: frozenset({"misalignment_policy_violation", "model_not_found", "inference_hook_denied"}),
    404: frozenset({"model_not_found"}),
    429: frozenset(_QUOTA | {"flex_unavailable"}),
}
"""HTTP status -> codes in the body that are acted on (0.169 and later); other codes count as none."""

_ACCESS: Final = frozenset({"access_program_not_enabled", "invalid_access_program", "unsupported_access_program"})
_OVERLOADS: Final = frozenset({"server_is_overloaded", "policy_capacity_unavailable"})
_BY_TYPE: Final = {
    "usage_not_included": _FIXED["usage_not_included"],
    "usage_limit_reached": "You\u2019ve hit your usage limit. Try again later.",
}
"""`error.type` of an HTTP 429."""

_BAD_IMAGE: Final = "The image data you provided does not represent a valid image"
_PHRASES: Final = {
    413: "Payload Too Large",
    416: "Range Not Satisfiable",
    418: "I'm a teapot",
    422: "Unprocessable Entity",
}
"""What the http crate of Rust calls a status, where Python has another name for it."""


def _phrase(status: int) -> str:
    if status in _PHRASES:
        return _PHRASES[status]
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "<unknown status code>"


def _refusal(reading: _Codex, body: bytes) -> Outcome:
    """An answer that is no stream: by status, then by the code in its body."""
    status = reading.answer.status
    text = body.decode("utf-8", "replace")
    try:
        error = member(strict_json(text), "error")
    except NotJSONError:
        error = None
    code, message = text_of(member(error, "code")), text_of(member(error, "message"))
    unexpected = f"unexpected status {status} {_phrase(status)}: {message if message is not None else text}"
    unexpected += ", url: {base_url}/responses" + _named(reading.answer)
    wait = reading.answer.headers.get("retry-after", "")
    delay = float(wait) if re.fullmatch(r"[0-9]{1,9}", wait.strip()) else None

    def end(requests: int, said: str, rule: str, *, full: bool = False) -> Outcome:
        reading.say(f"HTTP {status}, code {shown(str(code))}: {rule} (measured on the released binaries)")
        return reading.outcome(
            "context_window_full" if full else ("retry" if requests > 1 else "stop"),
            code=code,
            message=said,
            retry_after=delay if requests > 1 else None,
            requests=requests,
            status=status,
        )

    if code is not None and code in _BY_BODY.get(status, ()) and (reading.since("0.169") or code in _OLD_BODY):
        said = reading.words(code, message)
        return end(1, said, "the code is acted on", full=code == "context_length_exceeded")
    if status == 400:
        said = "Invalid image in your last message. Please remove it and try again." if _BAD_IMAGE in text else text
        return end(1, said, "an invalid request, the body is shown as it is")
    if status == 403 and code in _ACCESS and reading.since("0.169"):
        return end(1, unexpected, "no access, not asked again")
    if status == 429:
        kind = text_of(member(error, "type"))
        if kind in _BY_TYPE:
            return end(1, _BY_TYPE[kind], f"the type {kind} is acted on")
        if delay is not None:
            return end(_STREAM_REQUESTS, _limit(reading.answer), "asked again after Retry-After")
        return end(1, _limit(reading.answer), "a rate limit without Retry-After is not asked again")
    if status == 503 and code in _OVERLOADS:
        many = _HTTP_REQUESTS * _STREAM_REQUESTS if delay is not None else _HTTP_REQUESTS
        return end(many, _FIXED[code or ""], "an overload, asked again for one turn of requests")
    if status >= 500:
        said = unexpected
        if status == 500:
            said = _HIGH_DEMAND
        elif status == 503 and code == "slow_down":
            said = f"rate limit exceeded: {message or ''}" if reading.since("0.160") else _FIXED["server_is_overloaded"]
        return end(_HTTP_REQUESTS * _STREAM_REQUESTS, said, "5 requests for each of 6 turns")
    return end(_STREAM_REQUESTS, unexpected, "an unexpected status, asked again")


_OLD_BODY: Final = frozenset({"cyber_policy"} | _QUOTA)
"""Codes in a body that releases before 0.169 knew too (source: api_bridge)."""


def _named(answer: Answer) -> str:
    """The request id, where the answer has one."""
    given = answer.headers.get("x-request-id")
    return "" if given is None else f", request id: {given}"


def _limit(answer: Answer) -> str:
    return f"exceeded retry limit, last status: {answer.status} {_phrase(answer.status)}{_named(answer)}"


CODEX: Final = Reader(
    name="codex",
    about="Codex CLI, a provider of its own over HTTP",
    versions=_VERSIONS,
    opens=_Codex,
)
