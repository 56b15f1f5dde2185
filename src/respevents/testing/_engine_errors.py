"""Errors as engines raise and send them, from the rules of the classifier and their examples."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hypothesis import strategies as st

from respevents._generated.rule_examples import EXAMPLES
from respevents._generated.rules import MODULES, RULES, Rule
from respevents.classifier import FINISH_CAUSES, FinishReason, HTTPAnswer
from respevents.failures import Cause, Failure

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ENGINES", "EngineError", "engine_error"]

_SAYS_NOTHING: Final = "The request was not served"
"""A message that no rule knows: the code, the class or the status beside it decides."""


class EngineError(NamedTuple):
    """An error, who said it, and what `classify(error, engine=engine)` has to make of it.

    `error` is an exception, a text, an `HTTPAnswer`, an event as a mapping, a `FinishReason` or None. `rule` is the id
    of the rule it was made from, None for what no rule is for.
    """

    error: Any
    engine: str | None
    cause: Cause
    rule: str | None


@functools.cache
def _modules() -> dict[str, str]:
    """Engine -> the package of its exceptions."""
    return {engine: module for module, engine in reversed(MODULES.items())}


def _raised(rule: Rule, text: str, kind: str, **attributes: Any) -> Exception:
    """An exception of a class of the engine's own, as its client or its server raises it."""
    made = type(kind, (Exception,), {"__module__": _modules().get(rule.engine, "engine"), **attributes})
    error: Exception = made(text)
    return error


def _envelope(text: str, code: str | None = None) -> dict[str, Any]:
    return {"error": {"message": text, "type": None, "param": None, "code": code}}


def _answer(rule: Rule, text: str, code: str | None = None) -> HTTPAnswer:
    status = Failure(cause=Cause(rule.cause), message=text).http_status or 500
    return HTTPAnswer(status, {"content-type": "application/json"}, _envelope(text, code))


def _event(_rule: Rule, text: str, code: str | None = None) -> dict[str, Any]:
    return {"type": "error", "sequence_number": 2, "code": code, "message": text, "param": None}


def _failed(_rule: Rule, text: str, code: str | None = None) -> dict[str, Any]:
    response = {"id": "resp_1", "object": "response", "status": "failed", "error": {"code": code, "message": text}}
    return {"type": "response.failed", "sequence_number": 3, "response": response}


def _makers(rule: Rule) -> list[Callable[[], Any]]:
    """Every error of one rule; each is made when it is drawn, since an exception is raised once."""
    part = functools.partial
    found: list[Callable[[], Any]] = []
    for text in EXAMPLES.get(rule.id, ()):
        if rule.classes:
            # The class gives the wording its meaning, so it has to be there.
            found += [part(_raised, rule, text, kind) for kind in rule.classes]
            continue
        found += [part(str, text), part(_raised, rule, text, "EngineRaised")]
        found += [part(make, rule, text) for make in (_answer, _event, _failed)]
    for code in rule.codes:
        found += [part(make, rule, _SAYS_NOTHING, code) for make in (_answer, _event, _failed)]
        found.append(part(_raised, rule, _SAYS_NOTHING, "EngineRaised", code=code))
    for status in rule.status:
        found.append(part(HTTPAnswer, status, {}, _envelope(_SAYS_NOTHING)))
        found.append(part(_raised, rule, _SAYS_NOTHING, "EngineRaised", status_code=status))
    return found


@functools.cache
def _errors() -> list[tuple[Callable[[], Any], str | None, Cause, str | None]]:
    """Those of the rules, and what needs none: a stream that just ended, and how engines say that one was cut."""
    made: list[tuple[Callable[[], Any], str | None, Cause, str | None]] = [
        (maker, rule.engine, Cause(rule.cause), rule.id) for rule in RULES for maker in _makers(rule)
    ]
    made.append((lambda: None, None, Cause.UPSTREAM_TRUNCATED, None))
    made += [(functools.partial(FinishReason, said), None, cause, None) for said, cause in FINISH_CAUSES.items()]
    return made


ENGINES: Final = tuple(dict.fromkeys(rule.engine for rule in RULES))


def engine_error(engine: str | None) -> st.SearchStrategy[EngineError]:
    """Errors of one engine, or of all; an engine with few rules comes as often as one with many."""
    by_engine = st.sampled_from([*ENGINES, None]) if engine is None else st.just(engine)
    return by_engine.flatmap(_of)


@functools.cache
def _of(engine: str | None) -> st.SearchStrategy[EngineError]:
    by_rule: dict[str | None, list[tuple[Callable[[], Any], str | None, Cause, str | None]]] = {}
    for one in _errors():
        if one[1] == engine:
            by_rule.setdefault(one[3], []).append(one)
    chosen = st.sampled_from(list(by_rule)).flatmap(lambda rule: st.sampled_from(by_rule[rule]))
    return chosen.map(lambda one: EngineError(one[0](), *one[1:]))
