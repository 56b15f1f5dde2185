"""How @ai-sdk/openai reads a stream, under `streamText` of the AI SDK.

Sources: `openai-responses-language-model` and `openai-stream-error` of @ai-sdk/openai 4.0.118,
`parse-json-event-stream` of @ai-sdk/provider-utils 5.0.81, eventsource-parser 3, `stream-text` of ai 7.0.173; all of
it was run.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from respevents._delays import retry_after
from respevents._reader import (
    Answer,
    End,
    Event,
    Events,
    Kind,
    Lines,
    NotJSONError,
    Outcome,
    Reader,
    Reading,
    ToolCall,
    code_of,
    joined,
    member,
    output_text,
    shown,
    strict_json,
    text_of,
    tool_call,
)
from respevents._reader_ai_schema import fits

__all__ = ["AI_SDK"]

_REQUESTS: Final = 3
"""One request and `maxRetries`, 2 by default."""

_LONGEST_WAIT: Final = 60.0

_STATUS_WORDS: Final = (
    (429, ("insufficient_quota", "rate_limit")),
    (401, ("authentication",)),
    (403, ("permission",)),
    (404, ("not_found",)),
    (400, ("invalid", "bad_request", "context_length")),
    (503, ("overload",)),
    (504, ("timeout",)),
)
"""Words in "code type", and the HTTP status they are taken for (`getStatusCode`); without any it is 500."""

_FINISH: Final = {"max_output_tokens": "length", "content_filter": "content-filter"}
_CUT_SHORT: Final = frozenset({"length", "content-filter", "interrupted", "other"})
_NO_OUTPUT: Final = frozenset({"response.created", "response.in_progress", "response.failed", "error"})
_NOTHING: Final = "raises AI_NoOutputGeneratedError"
_NETWORK: Final = "Failed to process successful response"


class _Error(msgspec.Struct, frozen=True):
    """An error part, or what is thrown."""

    name: str
    message: str
    code: str | None = None
    status: int | None = None
    retried: bool = False


def _retried(status: int) -> bool:
    return status in {408, 409, 429} or status >= 500


class _AiSdk(Reading):
    def __init__(self, client: str, version: str, answer: Answer) -> None:
        super().__init__(client, version, answer)
        self._lines = Lines("waits")
        self._sse = Events("data")
        self._first = True
        self._peeking = True
        """Nothing was shown yet: an error frame makes the call itself fail."""
        self._early: _Error | None = None
        self._errors: list[_Error] = []
        self._failed = False
        self._finish = "interrupted"
        self._texts: list[str] = []
        self._open: set[str] = set()
        self._reasoning: set[str] = set()
        self._ids: dict[Any, str] = {}
        self._calls: list[ToolCall] = []
        self._said_no = False
        self._unread = ""

    # -- bytes

    def feed(self, chunk: bytes) -> None:
        if self.refused:
            self.keep(chunk)
            return
        if self._early is not None:
            return
        for line in self._lines.feed(chunk):
            text = line.decode("utf-8", "replace")
            if self._first:
                self._first = False
                text = text.removeprefix("\ufeff")
            event = self._sse.line(text)
            if event is not None:
                self.frames += 1
                self._event(event)
                if self._over():
                    return

    def _over(self) -> bool:
        return self._early is not None

    # -- events

    def _event(self, event: Event) -> None:
        if event.data == "[DONE]":
            return
        try:
            data = strict_json(event.data)
            _secure(event.data, data)
        except NotJSONError as error:
            self._refuse("JSONParseError", f"JSON parsing failed: Text: {event.data}.\nError message: {error}")
            return
        fit = fits(data)
        if fit is False:
            self._refuse("TypeValidationError", "Type validation failed: Value: " + shown(event.data, 200), data)
            return
        kind: str = data["type"]
        if self._peeking:
            failed = kind == "error" or (kind == "response.failed" and member(data, "response", "error") is not None)
            if failed and fit:
                self._early = self._stream_error(kind, data, "APICallError")
                self._tell(kind, self._early, "before any output, so the call itself fails")
                return
            if fit and kind not in _NO_OUTPUT:
                self._peeking = False
        if fit:
            self._act(kind, data)

    def _refuse(self, name: str, message: str, data: Any = None) -> None:
        self.say(f"{self.frame(member(data, 'type'))}: {name}, an error part; reading goes on, finishReason is error")
        self._peeking = False
        self._failed = True
        self._finish = "error"
        self._part_error(_Error(name, message))

    def _part_error(self, error: _Error) -> None:
        self._errors.append(error)
        self.surface(f"error {error.name}")

    def _tell(self, kind: str, error: _Error, where: str) -> None:
        again = "is asked again" if error.retried else "is not asked again"
        self.say(
            f"{self.frame(kind)}: {error.name} {where}; the code {shown(str(error.code))} is taken for HTTP "
            f"{error.status}, which {again} (getStatusCode)"
        )

    @staticmethod
    def _stream_error(kind: str, data: Any, name: str) -> _Error:
        """What an error frame is taken for."""
        if kind == "response.failed":
            error, kind_of_error = member(data, "response", "error"), "response.failed"
        elif isinstance(data.get("error"), dict) and _is_nested(data):
            error = data["error"]
            kind_of_error = error["type"]
        else:
            error, kind_of_error = data, "error"
        code = text_of(member(error, "code"))
        status = _status(code, kind_of_error)
        quota = "insufficient_quota" in {code, kind_of_error}
        return _Error(name, text_of(member(error, "message")) or "", code, status, _retried(status) and not quota)

    def _act(self, kind: str, data: Any) -> None:
        index = data.get("output_index")
        if kind == "response.output_item.added":
            self._added(data["item"], index)
        elif kind == "response.output_item.done":
            self._done(data["item"], index)
        elif kind in {"response.output_text.delta", "response.refusal.delta"}:
            self._said_no = self._said_no or kind == "response.refusal.delta"
            given = self._id(data["item_id"], index)
            self.surface("text-delta")
            self._texts.append(data["delta"])
            if given not in self._open:
                self.say(
                    f"{self.frame(kind)}: no item opened the text part {shown(given)}: an error part; the delta is "
                    "in the stream, and not in the final text"
                )
                self._part_error(_Error("?", f"text part {given} not found"))
        elif kind == "response.refusal.done":
            self._said_no = True
        elif kind == "response.reasoning_summary_text.delta":
            part = f"{self._id(data['item_id'], index)}:{_number(data['summary_index'])}"
            if part in self._reasoning:
                self.surface("reasoning-delta")
            else:
                self._part_error(_Error("?", f"reasoning part {part} not found"))
        elif kind == "response.reasoning_summary_part.added":
            item = self._id(data["item_id"], index)
            if data["summary_index"] > 0 and any(one.startswith(f"{item}:") for one in self._reasoning):
                self._reasoning.add(f"{item}:{_number(data['summary_index'])}")
        elif kind in {"response.completed", "response.incomplete"}:
            reason = member(data, "response", "incomplete_details", "reason")
            if not self._failed:
                self._finish = self._reason(reason, refused=self._said_no)
            self._unread = output_text(data["response"])
            self.say(f"{self.frame(kind)}: finishReason {self._finish}")
        elif kind == "response.failed":
            self._fail(data)
        elif kind == "error":
            self._failed = True
            self._finish = "error"
            error = self._stream_error(kind, data, "StreamProviderError")
            self._tell(kind, error, "as an error part, behind what was shown")
            self._part_error(error)

    def _fail(self, data: Any) -> None:
        reason = member(data, "response", "incomplete_details", "reason")
        self._finish = self._reason(reason, refused=False) if reason else "error"
        if not self._failed and member(data, "response", "error") is not None:
            self._failed = True
            error = self._stream_error("response.failed", data, "StreamProviderError")
            self._tell("response.failed", error, "as an error part, behind what was shown")
            self._part_error(error)
        else:
            self.say(f"{self.frame('response.failed')}: finishReason {self._finish}, no error part of its own")

    def _reason(self, reason: str | None, *, refused: bool) -> str:
        if reason is None:
            if self._calls:
                return "tool-calls"
            return "content-filter" if refused else "stop"
        return _FINISH.get(reason) or ("tool-calls" if self._calls else "other")

    def _id(self, item_id: str, index: Any) -> str:
        return item_id if index is None else self._ids.get(index, item_id)

    def _added(self, item: Any, index: Any) -> None:
        kind, given = item["type"], item["id"]
        if kind == "message":
            self._ids[index] = given
            self._open.add(given)
            self.surface("text-start")
        elif kind == "reasoning":
            self._ids[index] = given
            self._reasoning.add(f"{given}:0")
            self.surface("reasoning-start")

    def _done(self, item: Any, index: Any) -> None:
        kind = item["type"]
        if kind == "message":
            given = self._id(item["id"], index)
            self._ids.pop(index, None)
            if given in self._open:
                self._open.discard(given)
                self.surface("text-end")
            else:
                self.say(f"{self.frame('response.output_item.done')}: the text part {shown(given)} was not opened")
                self._part_error(_Error("?", f"text part {given} not found"))
            return
        call = tool_call(item)
        if call is not None:
            self._calls.append(call)
            self.surface("tool-call")

    # -- the end

    def close(self, end: End = "clean") -> Outcome:
        if self.refused:
            return self._rejected()
        if self._early is not None:
            return self._thrown(self._early)
        if end != "clean":
            error = _Error("APICallError", _NETWORK, None, self.answer.status, retried=self._peeking)
            self.say(f"the body broke off after frame {self.frames}: {_NETWORK}, whatever came before")
            if self._peeking:
                return self._thrown(error)
            return self.outcome(
                "stop",
                text=joined("".join(self._texts)),
                tool_calls=tuple(self._calls),
                message=error.message,
                raises=error.name,
                status=error.status,
                final="raises",
            )
        return self._finished()

    def _finished(self) -> Outcome:
        self.surface(f"finish {self._finish}")
        kind: Kind = "completed"
        if self._errors or self._finish == "error":
            kind = "stop"
        elif self._finish in _CUT_SHORT:
            kind = "incomplete"
            if self._finish == "interrupted":
                self.say(f"the body ended after frame {self.frames} without a terminal event: finishReason interrupted")
        elif self._unread and not self._texts and not self._calls:
            kind = "silent_loss"
            self.say("the text of response.completed is not read, and there were no deltas")
        error = self._errors[0] if self._errors else None
        return self.outcome(
            kind,
            text=joined("".join(self._texts)),
            tool_calls=tuple(self._calls),
            code=error.code if error else None,
            message=error.message if error else None,
            raises=error.name if error and error.name != "?" else None,
            status=error.status if error else None,
            final=self._finish,
        )

    def _thrown(self, error: _Error) -> Outcome:
        """The call fails before it gives a stream: asked again where that may help."""
        wait = retry_after("", self.answer.headers) if error.retried else None
        return self.outcome(
            "retry" if error.retried else "stop",
            code=error.code,
            message=error.message,
            retry_after=wait if wait is not None and wait < _LONGEST_WAIT else None,
            requests=_REQUESTS if error.retried else 1,
            raises="RetryError" if error.retried else error.name,
            status=error.status,
            final=_NOTHING,
        )

    def _rejected(self) -> Outcome:
        text = self.body.decode("utf-8", "replace")
        try:
            error = member(strict_json(text), "error")
        except NotJSONError:
            error = None
        message, code = text_of(member(error, "message")), code_of(member(error, "code"))
        status = self.answer.status
        self.say(f"HTTP {status}: APICallError" + (", asked again" if _retried(status) else ""))
        return self._thrown(_Error("APICallError", message or shown(text, 500), code, status, _retried(status)))


def _is_nested(event: Any) -> bool:
    error = event["error"]
    return isinstance(error.get("type"), str) and isinstance(error.get("message"), str)


def _number(value: Any) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _status(code: str | None, kind: str) -> int:
    if code is not None and re.fullmatch(r"[0-9]{3}", code) and 400 <= int(code) <= 599:
        return int(code)
    words = " ".join(one for one in (code, kind) if one is not None).lower()
    return next((status for status, terms in _STATUS_WORDS if any(term in words for term in terms)), 500)


def _secure(text: str, data: Any) -> None:
    """`secureJsonParse` refuses keys that would reach the prototype of an object."""
    if "__proto__" not in text and "constructor" not in text and "\\u00" not in text:
        return
    held = [data]
    while held:
        one = held.pop()
        if isinstance(one, dict):
            if "__proto__" in one or (isinstance(one.get("constructor"), dict) and "prototype" in one["constructor"]):
                raise NotJSONError("Object contains forbidden prototype property")
            held.extend(one.values())
        elif isinstance(one, list):
            held.extend(one)


AI_SDK: Final = Reader(
    name="ai-sdk",
    about="@ai-sdk/openai 4 under streamText of ai 7",
    versions=("7",),
    opens=_AiSdk,
)
