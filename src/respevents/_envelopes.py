"""What an error says, from whatever it came in: exceptions, HTTP answers, events, and texts that quote any of them.

The result is what rules are matched against: one message, with what a client typed taken out of it, and the typed
facts beside it (codes, class names, status). A body repeats the client's input; a prompt that speaks of "maximum
context length" must decide nothing. So of an object only the keys that hold messages are read, and a quotation with
a blank in it is taken out of a plain text.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from respevents.failures import safe_text

__all__ = ["Evidence", "from_body", "from_exception", "from_text"]

_HEAD: Final = 12_288
_TAIL: Final = 2_048
"""Characters of a text that are looked at: of a longer one the beginning and the end."""

_MESSAGES: Final = (
    "message", "msg", "detail", "details", "Message", "errorMessage", "error_message", "error_description",
)  # fmt: skip
_NESTED: Final = ("error", "errors", "response", "metadata", "raw", "body", "cause", "last_error", "fault", "exception")
_CODES: Final = (
    "code", "type", "error_type", "status", "reason", "__type", "errorCode", "error_code", "name", "object",
)  # fmt: skip
_DEPTH: Final = 6
_OBJECTS: Final = 8
"""Objects that are read out of one text."""

_NO_CODES: Final = frozenset(
    {"error", "errors", "response", "failed", "list", "none", "null", "string", "response.failed", "abort", "missing"}
)

_CLASS_IN_TEXT: Final = re.compile(r"\b([A-Z]\w{1,60}(?:Error|Exception|Fault|Timeout|Disconnect))\b")
_CLASS_AND_CODE: Final = re.compile(r"^\s*([\w.:*/-]{1,80})\s*(?:\(([^()]{1,80})\))?\s*$")
_STATUS_IN_TEXT: Final = re.compile(r"^(?:Error(?: code)?:? ?|HTTP(?:/\d(?:\.\d)?)? ?)?([45]\d\d)\b(?!\.\d)")

_QUOTED: Final = re.compile(
    r"(?<![\w\])}])(?:'(?P<one>(?:[^'\\]|\\.|(?<=\w)'(?=\w)){12,4000}?)'|\"(?P<two>(?:[^\"\\]|\\.){12,4000}?)\""
    r"|`(?P<three>[^`]{12,4000}?)`|“(?P<four>[^”]{12,4000}?)”)(?!\w)"
)
_WRAPPER: Final = re.compile(
    r"^[\s(\[]*(?:(?:[\w.]{1,80}(?:Error|Exception|Fault)|error|message|detail|reason|\d{3})\b[\s:,(=-]{0,6}){0,6}$",
    re.IGNORECASE,
)
_STATUS_BEFORE: Final = re.compile(r"(?<![\w.])[45]\d\d $")
_MARKUP: Final = re.compile(
    r"<(?:style|script)\b[^>]{0,200}>.{0,4000}?</(?:style|script)>|<[!/a-z][^>]{0,400}>", re.IGNORECASE | re.DOTALL
)
_CUT_MESSAGE: Final = re.compile(r"[\"'](?:message|msg|detail)[\"']\s*:\s*([\"'])")


class Evidence(NamedTuple):
    """What is known of an error."""

    message: str
    """As it came, out of its envelope; to be shown."""
    match: str
    """What rules look at: white space folded, what a client typed taken out."""
    codes: tuple[str, ...] = ()
    """Typed facts as lower-case strings, the innermost first: `error.code`, `error.type`, class names in the text."""
    classes: tuple[str, ...] = ()
    """Class names of the exception and its bases, lower-case."""
    status: int | None = None
    module: str = ""
    """The module of the exception's class."""
    headers: Mapping[str, str] = {}
    numbers: Mapping[str, int] = {}
    """Token counts that the envelope carries by name."""
    delay: float | None = None
    """Seconds to wait, from a key of the envelope."""


class _Found:
    """What reading an envelope brings together, the outermost first."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.codes: list[str] = []
        self.status: int | None = None
        self.numbers: dict[str, int] = {}
        self.delay: float | None = None
        self.objects = 0

    def read(self, value: Any, depth: int = 0) -> None:
        """Read one JSON value as an envelope."""
        if depth > _DEPTH or self.objects > 64:
            return
        self.objects += 1
        if isinstance(value, str):
            self.text(value, depth)
        elif isinstance(value, (list, tuple)):
            for one in value[:8]:
                if isinstance(one, (Mapping, list)):
                    self.read(one, depth + 1)
                elif isinstance(one, str):
                    self.text(one, depth + 1)
        elif isinstance(value, Mapping):
            self.mapping(value, depth)

    def mapping(self, value: Mapping[str, Any], depth: int) -> None:
        for key in _CODES:
            self.code(value.get(key))
        for key in ("http_status", "status_code", "http_status_code", "statusCode"):
            self.code(value.get(key))
        for key, name in (("n_prompt_tokens", "prompt"), ("n_ctx", "limit"), ("prompt_tokens", "prompt")):
            if type(value.get(key)) is int:
                self.numbers[name] = value[key]
        for key in ("retry_after", "retryAfter", "retryDelay", "retry_delay", "resets_in_seconds"):
            self.delay = _delay(value.get(key)) or self.delay
        for key in _MESSAGES:
            found = value.get(key)
            if isinstance(found, str):
                self.text(found, depth, told=True)
            elif found is not None:
                self.read(found, depth + 1)
        for key in _NESTED:
            found = value.get(key)
            if isinstance(found, str) and key in {"error", "raw", "body"}:
                self.text(found, depth + 1, told=key == "error")
            elif isinstance(found, (Mapping, list)):
                self.read(found, depth + 1)

    def code(self, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            return
        text = str(value).strip()
        if text.isdigit() and len(text) == 3 and 400 <= int(text) <= 599:
            self.status = int(text)
        if text and len(text) <= 80:
            # `com.amazonaws#ValidationException`, `ns.ClassName`
            self.codes.append(re.split(r"[#.:/]", text)[-1].lower() if not text.isdigit() else text)

    def text(self, value: str, depth: int = 0, *, told: bool = False) -> None:
        """A message, which may quote another envelope."""
        plain, objects = _without_objects(_bounded(value), frames=not told)
        inner: list[str] = []
        for one in objects:
            below = _Found()
            below.objects = self.objects + 1
            below.read(one, depth + 1)
            self.codes += below.codes
            self.status = below.status if below.status is not None else self.status
            self.numbers.update(below.numbers)
            self.delay = below.delay if below.delay is not None else self.delay
            inner += below.messages
        message = " ".join(part for part in (plain.strip(), *inner) if part)
        if message:
            self.messages.append(message)


def from_text(value: str) -> Evidence:
    """A text, or any envelope as a text: JSON, an event-stream frame, HTML, a `repr`."""
    found = _Found()
    found.text(value)
    return _evidence(found)


def from_body(body: Any, status: int | None = None, headers: Mapping[str, str] | None = None) -> Evidence:
    """An HTTP answer: its body (decoded or not), status, and headers with lower-case names."""
    found = _Found()
    kind = (headers or {}).get("x-amzn-errortype")
    if kind:
        found.code(kind.split(":")[0])
    if isinstance(body, (bytes, bytearray, memoryview)):
        body = bytes(body[: 4 * _HEAD]).decode("utf-8", "replace")
    found.read(body)
    evidence = _evidence(found)
    return evidence._replace(status=evidence.status if status is None else status, headers=headers or {})


def from_exception(error: BaseException) -> Evidence:
    """An exception, by its class, its text and what HTTP clients hang on it (`status_code`, `body`, `response`)."""
    found = _Found()
    body, status = _attribute(error, "body"), _attribute(error, "status_code")
    detail = _attribute(error, "detail")
    message = safe_text(_attribute(error, "message")) if isinstance(_attribute(error, "message"), str) else ""
    text = safe_text(error, 4 * _HEAD)
    if isinstance(body, (Mapping, list)):
        found.read(body)
    if isinstance(detail, (str, Mapping, list)):
        found.read(detail)
    if text and (text not in found.messages) and not (found.messages and isinstance(body, (Mapping, list))):
        found.text(text)
    if message and not found.messages:
        found.text(message)
    found.code(_attribute(error, "code"))
    response = _attribute(error, "response")
    headers = _headers(_attribute(response, "headers") or _attribute(error, "headers"))
    if not isinstance(status, int) or isinstance(status, bool):
        status = _attribute(response, "status_code")
    if not isinstance(status, int) or isinstance(status, bool):
        status = _attribute(error, "status")
    evidence = _evidence(found)
    classes = tuple(
        dict.fromkeys(
            kind.__name__.lower() for kind in type(error).__mro__ if kind not in {object, BaseException, Exception}
        )
    )
    if isinstance(status, int) and not isinstance(status, bool) and 400 <= status <= 599:
        evidence = evidence._replace(status=status)
    module: object = type(error).__module__
    return evidence._replace(
        message=evidence.message or text,
        classes=classes,
        module=module if isinstance(module, str) else "",
        headers=headers,
    )


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name, None)
    except Exception:  # noqa: BLE001 - a property of a foreign exception may raise anything
        return None


def _headers(value: Any) -> dict[str, str]:
    try:
        return {str(key).lower(): str(one) for key, one in dict(value).items()}
    except Exception:  # noqa: BLE001 - whatever a foreign client calls headers
        return {}


def class_and_code(text: str) -> tuple[str, tuple[str, ...]]:
    """A class as callers write it, `pkg.RequestError(context_length_exceeded)`: its last name, and all as codes."""
    found = _CLASS_AND_CODE.match(text)
    if found is None:
        return text.strip().lower(), ()
    name = re.split(r"[.:]", found[1])[-1].strip("*").lower()
    codes = [found[2].strip().lower()] if found[2] else []
    return name, (*codes, name)


def _evidence(found: _Found) -> Evidence:
    message = "\n".join(dict.fromkeys(found.messages))
    match = _folded(message)
    codes = list(dict.fromkeys(code for code in reversed(found.codes) if code not in _NO_CODES))
    codes += [name for name in map(str.lower, _CLASS_IN_TEXT.findall(match[:_HEAD])) if name not in codes]
    status = found.status
    if status is None:
        leading = _STATUS_IN_TEXT.match(match)
        status = int(leading[1]) if leading else None
    return Evidence(
        message=safe_text(message),
        match=match,
        codes=tuple(codes[:32]),
        status=status,
        numbers=found.numbers,
        delay=found.delay,
    )


def _bounded(text: str) -> str:
    return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n{text[-_TAIL:]}"


def _folded(message: str) -> str:
    """The message as rules see it: markup and quotations out, white space as single blanks."""
    text = _bounded(message)
    if "<" in text:
        text = _MARKUP.sub(" ", text) if _MARKUP.search(text) and "</" in text else text
    text = " ".join(text.split())
    return _QUOTED.sub(lambda quoted: _kept(text, quoted), text)


def _kept(text: str, quoted: re.Match[str]) -> str:
    """A quotation: kept where it is a word, or all that an error wraps; otherwise somebody's text."""
    inner = next(group for group in quoted.groups() if group is not None)
    if " " not in inner:
        return quoted[0]
    before = text[: quoted.start()]
    if quoted["three"] and _STATUS_BEFORE.search(before):  # 400 `the error`: Ollama
        return inner
    whole = text[quoted.end() :].strip(" .,;:)]}") == "" and _WRAPPER.match(before)
    return f" {inner} " if whole else f"{quoted[0][0]}…{quoted[0][-1]}"


def _without_objects(text: str, *, frames: bool) -> tuple[str, list[Any]]:
    """The text without the objects in it (JSON, or a Python `repr`), and those objects.

    An object that is cut off gives the message that it got to say; the rest of it is left out, like all of an object
    that says nothing.
    """
    stripped = text.strip()
    for prefix in ("event:", "data:") if frames else ():  # in a message they are words
        if stripped.startswith(prefix) or f"\n{prefix}" in stripped[:400]:
            lines = stripped.splitlines()
            stripped = "\n".join(line[5:].strip() for line in lines if line.startswith("data:")) or stripped
            break
    plain: list[str] = []
    objects: list[Any] = []
    at = 0
    for start, end in _spans(stripped):
        plain.append(stripped[at:start])
        value = _parsed(stripped[start:end])
        if value is not None:
            objects.append(value)
        else:
            plain.append(_said(stripped[start:end]))
        at = end
    plain.append(stripped[at:])
    return " ".join(plain), objects


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Where objects and lists of objects stand, outermost, in one pass; quotes inside them are minded."""
    found, at, size = 0, 0, len(text)
    while at < size and found < _OBJECTS:
        start = text.find("{", at)
        if start < 0:
            return
        if start and text[start - 1] == "[":
            start -= 1
        depth, quote, place = 0, "", start
        while place < size:
            char = text[place]
            if quote:
                if char == "\\":
                    place += 1
                elif char == quote:
                    quote = ""
            elif char in "\"'" and depth:
                quote = char
            elif char in "{[":
                depth += 1
            elif char in "}]":
                depth -= 1
                if not depth:
                    break
            place += 1
        found += 1
        yield start, min(place + 1, size)
        at = place + 1


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        # A dict as Python prints it: openai-python puts one into the text of its exceptions.
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return None


def _said(text: str) -> str:
    """The messages of an object that does not parse: up to the quote that ends each, or to the end."""
    said: list[str] = []
    at = 0
    while len(said) < 4:
        found = _CUT_MESSAGE.search(text, at)
        if found is None:
            break
        end = found.end()
        while end < len(text) and text[end] != found[1]:
            end += 2 if text[end] == "\\" else 1
        said.append(text[found.end() : end])
        at = end + 1
    return " ".join(said)


def _delay(value: Any) -> float | None:
    if isinstance(value, str):
        found = re.match(r"^\s*(\d{1,9}(?:\.\d{1,9})?)\s*s?\s*$", value)
        value = float(found[1]) if found else None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9:
        return float(value)
    return None
