"""`classify`: what an engine's error is, from whatever a server has at hand.

Rules are data (`rules/*.toml`, compiled into `_generated.rules`). An error is taken out of its envelope (`_envelopes`)
and then decided by the first of these that speaks:

1. a wording together with the class that gives it its meaning (TensorRT-LLM's `ValueError`),
2. a decisive code (`insufficient_quota`): no text says it better,
3. the wording that begins first. What wraps an error comes before it, but what a message quotes comes after it, and
   so "Unknown model 'maximum context length'" is about a model,
4. a code or a class name, a wording that only wraps others, and last an HTTP status, which alone proves little.

Wordings that blame the output budget and the prompt in one sentence are told apart by their numbers. What nothing
recognises is an internal error: calling an error over-length that is not makes a client throw its history away.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from respevents import _envelopes
from respevents._delays import retry_after
from respevents._envelopes import Evidence
from respevents._errors import show
from respevents._generated.rules import MODULES, NAMES, RULES, Rule
from respevents.failures import CATALOGUE, Cause, Failure, RequestRejected, safe_text

__all__ = ["FinishReason", "HTTPAnswer", "classify", "engine_named", "readable"]

_NUMBER: Final = r"\d[\d,]{0,15}(?:\.\d{1,9})?"
"""Bounded, so that a row of digits costs no more than other text."""

_MACROS: Final = {
    "{n}": f"-?{_NUMBER}",
    "{prompt}": f"(?P<prompt>{_NUMBER})",
    "{limit}": f"(?P<limit>{_NUMBER})",
    "{output}": f"(?P<output>{_NUMBER})",
    "{model}": r"(?:(?:this|the) )?(?:(?:model|endpoint)(?:'s|s)? )?",
}
_CHAIN: Final = 8
"""Exceptions of one chain or group that are looked at."""

FINISH_CAUSES: Final = {
    "abort": Cause.CANCELLED,
    "aborted": Cause.CANCELLED,
    "cancelled": Cause.CANCELLED,
    "canceled": Cause.CANCELLED,
    "error": Cause.ENGINE_ERROR,
    "timeout": Cause.TIMEOUT,
    "timed_out": Cause.TIMEOUT,
    "content_filter": Cause.CONTENT_POLICY,
}
"""What engines call the end of a generation that is a failure; anything else is an error of the engine."""


class HTTPAnswer(NamedTuple):
    """An answer of another server: status, headers (any case) and body, as bytes, text or decoded JSON."""

    status: int
    headers: Mapping[str, str] = {}
    body: Any = b""


class FinishReason(NamedTuple):
    """How an engine says that a generation ended: `abort`, `error`, ...; `message` where it gives one."""

    reason: str
    message: str = ""


def classify(error: Any, *, engine: str | None = None) -> Failure:
    """The failure an error stands for.

    `error`: an exception (its causes, contexts and groups are looked at; engines are never imported), a text, an
    `HTTPAnswer`, an event or body as a mapping, a `FinishReason`, or None for a stream that just ended. `engine`: who
    said it (`vllm`, `tensorrt-llm`, `azure openai`, ...); when it is None or unknown it is inferred, and where it
    cannot be told only wordings that mean the same everywhere apply.

    The failure has cause and code, the client-safe message comes from `Failure.said`, `rule` is the id of what matched,
    `details` holds the raw error for the log. Never raises for what an error holds; TypeError for an object of
    another kind.
    """
    name = engine_named(engine)
    if isinstance(error, BaseException):
        return _exception(error, name)
    if error is None:
        text = "The stream ended without a terminal event."
        return Failure(cause=Cause.UPSTREAM_TRUNCATED, message=text, rule="end-of-stream", engine=name)
    if isinstance(error, FinishReason):
        return _finish(error, name)
    if isinstance(error, HTTPAnswer):
        headers = {str(key).lower(): str(value) for key, value in error.headers.items()}
        evidence = _envelopes.from_body(error.body, error.status, headers)
        return _failure(evidence, name, {"status": error.status, "body": error.body})
    if isinstance(error, Mapping):
        return _event(error, name)
    if isinstance(error, (bytes, bytearray)):
        error = bytes(error).decode("utf-8", "replace")
    if isinstance(error, str):
        return _failure(_envelopes.from_text(safe_text(error, 1 << 16)), name, {"text": error})
    raise TypeError(
        f"classify: expected an exception, a text, an HTTPAnswer, a mapping, a FinishReason or None, got {show(error)}"
    )


def row(given: Mapping[str, Any], *, engine: str | None = None) -> Failure:
    """An error as a log row tells it: `message`, `exception_class`, `http_status`, `body`, any of them absent."""
    name = engine_named(engine)
    body, message, status = given.get("body"), given.get("message"), given.get("http_status")
    evidence = _envelopes.from_body(body) if body else Evidence("", "")
    if message:
        said = _envelopes.from_text(safe_text(message, 1 << 16))
        evidence = said._replace(
            codes=(*said.codes, *evidence.codes), numbers={**evidence.numbers, **said.numbers},
            status=evidence.status if said.status is None else said.status,
        )  # fmt: skip
    kind = given.get("exception_class")
    if isinstance(kind, str) and kind:
        last, codes = _envelopes.class_and_code(kind)
        evidence = evidence._replace(classes=(last,), codes=(*codes, *evidence.codes))
        name = name or engine_named(kind.partition(".")[0] if "." in kind else None)
    if isinstance(status, int) and not isinstance(status, bool):
        evidence = evidence._replace(status=status)
    return _failure(evidence, name, {"row": dict(given)})


@functools.lru_cache(maxsize=256)
def engine_named(name: str | None) -> str | None:
    """The rules file of an engine by any name it goes by (`TensorRT-LLM disagg`, `azure openai`); None if unknown."""
    if not name:
        return None
    text = name.lower()
    found = [
        (match.start(), -len(known), engine)
        for known, engine in NAMES
        if (match := re.search(rf"(?<![a-z0-9]){re.escape(known)}(?![a-z])", text))
    ]
    return min(found)[2] if found else None


# ---- the kinds of error


def _exception(error: BaseException, engine: str | None) -> Failure:
    if isinstance(error, RequestRejected):
        return error.failure
    first: Failure | None = None
    for one in _chain(error):
        failure = _one_exception(one, engine)
        if failure.rule is not None and not failure.rule.startswith("generic.status"):
            return _of(failure, error)
        first = first or failure
    assert first is not None
    return _of(first, error)


def _of(failure: Failure, error: BaseException) -> Failure:
    import msgspec

    return msgspec.structs.replace(failure, exception=error)


def _one_exception(error: BaseException, engine: str | None) -> Failure:
    if isinstance(error, RequestRejected):
        return error.failure
    if type(error).__name__ in {"CancelledError", "GeneratorExit", "ClientDisconnect"}:
        return Failure(cause=Cause.CLIENT_DISCONNECT, message=safe_text(error), rule="hang-up", engine=engine)
    evidence = _envelopes.from_exception(error)
    name = engine or MODULES.get(evidence.module) or MODULES.get(evidence.module.partition(".")[0])
    failure = _failure(evidence, name, {"class": type(error).__name__, "text": safe_text(error)})
    if (
        name is None
        and failure.cause is Cause.INVALID_REQUEST
        and evidence.status is None
        and evidence.module == "builtins"
    ):
        # A bug in the server reads the same ("x must be at least 1"), and its text would be shown to the client.
        return Failure(cause=Cause.INTERNAL_ERROR, message=failure.message, details=failure.details)
    return failure


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The exception, what is inside it if it is a group, and what it came from; each once."""
    queue, seen = [error], set[int]()
    while queue and len(seen) < _CHAIN:
        one = queue.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        inner = getattr(one, "exceptions", None)
        group = list(inner) if isinstance(inner, (tuple, list)) else []
        if not group:
            yield one
        queue += [each for each in group if isinstance(each, BaseException)]
        origin = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        if origin is not None:
            queue.append(origin)
    if getattr(error, "exceptions", None):
        yield error


def _finish(finish: FinishReason, engine: str | None) -> Failure:
    if finish.message:
        failure = _failure(_envelopes.from_text(finish.message), engine, {"finish_reason": finish.reason})
        if failure.rule is not None:
            return failure
    cause = FINISH_CAUSES.get(str(finish.reason).lower(), Cause.ENGINE_ERROR)
    message = finish.message or f"The engine ended the generation: {finish.reason}."
    return Failure(cause=cause, message=safe_text(message), rule="finish-reason", engine=engine)


def _event(event: Mapping[str, Any], engine: str | None) -> Failure:
    """An event of a stream, or the body of an answer. One whose `error` says nothing is quoted in the message."""
    failure = _failure(_envelopes.from_body(dict(event)), engine, {"event": dict(event)})
    error = event.get("error")
    told = isinstance(error, Mapping) and error.get("message")
    if "error" in event and not told and not isinstance(error, str):
        import msgspec

        text = f"{failure.message or 'An event with an error came in the stream'}: {show(dict(event))}"
        return msgspec.structs.replace(failure, message=safe_text(text))
    return failure


# ---- deciding


def _failure(evidence: Evidence, engine: str | None, details: dict[str, Any]) -> Failure:
    found = _decide(evidence, engine)
    numbers = dict(evidence.numbers)
    cause, rule = Cause.INTERNAL_ERROR, None
    if found is not None:
        rule, cause = found.id, Cause(found.cause)
        if found.pattern:
            numbers |= _numbers(found, evidence.match)
        cause = _weighed(cause, numbers)
        if engine is None and found.engine != "generic":
            engine = found.engine
    prompt = numbers.get("prompt") if cause is Cause.CONTEXT_LENGTH_EXCEEDED else None
    limit = numbers.get("limit") if cause is Cause.CONTEXT_LENGTH_EXCEEDED else None
    delay = retry_after(evidence.match, evidence.headers)
    return Failure(
        cause=cause,
        message=evidence.message or CATALOGUE[cause].generic or "",
        rule=rule,
        engine=engine,
        prompt_tokens=prompt,
        context_window=limit,
        retry_after=evidence.delay if delay is None else delay,
        details=details,
    )


def _decide(evidence: Evidence, engine: str | None) -> Rule | None:
    book = _book(engine)
    text = evidence.match
    for rule, pattern in book.with_class if evidence.classes else ():
        if evidence.classes[0] in rule.classes and pattern.search(text):
            return rule
    for code in evidence.codes:
        if code in book.decisive:
            return book.decisive[code]
    found = book.wording.search(text)
    if found is None:
        for code in (*evidence.codes, *evidence.classes):
            if code in book.codes:
                return book.codes[code]
        found = book.weak.search(text)
    if found is not None and found.lastgroup is not None:
        return book.rules[int(found.lastgroup[1:])]
    return book.status.get(evidence.status) if evidence.status is not None else None


class _Book(NamedTuple):
    """The rules as one engine's errors are held against them."""

    rules: tuple[Rule, ...]
    wording: re.Pattern[str]
    """Every wording in one alternation: it finds the one that begins first, and of those the first of the list."""
    weak: re.Pattern[str]
    """Wordings that wrap others ("Bad Gateway: ..."), and so decide only where nothing else does."""
    with_class: tuple[tuple[Rule, re.Pattern[str]], ...]
    decisive: dict[str, Rule]
    codes: dict[str, Rule]
    status: dict[int, Rule]


@functools.lru_cache(maxsize=64)
def _book(engine: str | None) -> _Book:
    """The engine's own rules, then the others'. What means something at one engine alone is left out elsewhere, and
    `generic` has its own and no others.
    """
    mine = [rule for rule in RULES if rule.engine == engine]
    others = [rule for rule in RULES if rule.engine != engine and not rule.own and engine != "generic"]
    rules = (*mine, *others)
    wordings: dict[bool, list[str]] = {False: [], True: []}
    for at, rule in enumerate(rules):
        if rule.pattern and not rule.classes:
            wordings[rule.weak].append(f"(?P<r{at}>{_without_names(rule.pattern)})")
    decisive: dict[str, Rule] = {}
    codes: dict[str, Rule] = {}
    status: dict[int, Rule] = {}
    for rule in rules:
        for code in rule.codes:
            (decisive if rule.decisive else codes).setdefault(code, rule)
        for number in rule.status:
            status.setdefault(number, rule)
    return _Book(
        rules,
        _alternation(wordings[False]),
        _alternation(wordings[True]),
        tuple((rule, _own(rule.pattern)) for rule in rules if rule.pattern and rule.classes),
        decisive,
        codes,
        status,
    )


def _alternation(patterns: list[str]) -> re.Pattern[str]:
    return re.compile(r"(?<![a-z0-9_-])(?:" + "|".join(patterns) + ")", re.IGNORECASE)


def readable(pattern: str) -> str:
    """A rule's pattern with its macros written out: groups are named `prompt`, `limit` and `output`."""
    for macro, expression in _MACROS.items():
        pattern = pattern.replace(macro, expression)
    return pattern


def _without_names(pattern: str) -> str:
    return re.sub(r"\(\?P<\w+>", "(?:", readable(pattern))


@functools.lru_cache(maxsize=512)
def _own(pattern: str) -> re.Pattern[str]:
    return re.compile(readable(pattern), re.IGNORECASE)


def _numbers(rule: Rule, text: str) -> dict[str, int]:
    found = _own(rule.pattern).search(text)
    numbers: dict[str, int] = {}
    for name, value in found.groupdict().items() if found else ():
        if value is not None:
            digits = value.replace(",", "").partition(".")[0]
            if digits and len(digits) < 16:
                numbers[name] = int(digits)
    return numbers


def _weighed(cause: Cause, numbers: Mapping[str, int]) -> Cause:
    """Prompt and output together do not fit: whose fault it is, the numbers say. An output that would not fit beside
    an empty prompt is to blame, unless the prompt alone is too long as well.
    """
    limit, output = numbers.get("limit"), numbers.get("output")
    if cause is not Cause.CONTEXT_LENGTH_EXCEEDED or limit is None or output is None:
        return cause
    return Cause.MAX_TOKENS_TOO_LARGE if output >= limit > numbers.get("prompt", 0) else cause
