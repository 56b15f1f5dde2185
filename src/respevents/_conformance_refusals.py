"""The probes of requests that a server has to refuse: too long, none of the API's, for a model that nobody has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from respevents._conformance_bench import Bench, Skipped, codex_on, field, tell
from respevents._errors import show
from respevents.failures import Cause, FailureCode

if TYPE_CHECKING:
    from respevents._conformance_link import Answer

__all__ = [
    "HELLO",
    "invalid_request",
    "invalid_request_not_streamed",
    "over_long",
    "over_long_not_streamed",
    "taken",
    "unknown_model",
]

FIRST_PROMPT: Final = 8192
"""Words of the first over-long prompt; each is a token or more. The next one has four times as many."""

LARGEST_PROMPT: Final = 4 * 1024 * 1024
"""Bytes of the prompt that is not grown any more."""

_WORD: Final = "word "
_DELTA: Final = re.compile(rb'"type": ?"response\.[a-z_.]*\bdelta"')
HELLO: Final = "Say hello in one short sentence."


# ---- too long


def _sizes(bench: Bench) -> list[int]:
    """Words of the prompts to try, smallest first."""
    if bench.options.prompt_tokens is not None:
        return [bench.options.prompt_tokens]
    largest = LARGEST_PROMPT // len(_WORD)
    window = bench.shared.get("window")
    size = FIRST_PROMPT if window is None else min(largest, window + window // 8 + 64)
    sizes = [size]
    while size * 4 <= largest:
        size *= 4
        sizes.append(size)
    return sizes


def taken(piece: bytes) -> bool:
    """The model speaks: the prompt was not too long."""
    return _DELTA.search(piece) is not None


def _grown(bench: Bench) -> tuple[int, Answer]:
    """The first size that is not simply answered, or the last one, and the streamed answer to it."""
    sizes = _sizes(bench)
    for size in sizes:
        last = size == sizes[-1]
        answer = bench.ask(_WORD * size, leave=None if last else taken)
        if last or answer.end != "left":
            told = tell(answer.body) if answer.streams else None
            if last or told is None or told.last not in {"response.completed", "response.incomplete"}:
                bench.shared["size"] = size
                return size, answer
    raise AssertionError("there is a last size")


def over_long(bench: Bench) -> None:
    size, answer = _grown(bench)
    bench.keep(answer)
    if not bench.came(answer):
        return
    if answer.status == 200:
        bench.shared["proved"] = True
        told = bench.events(answer)
        if told is None:
            return
        if told.last in {"response.completed", "response.incomplete"}:
            _accepted(bench, size, told.response, answer)
        elif told.code != FailureCode.CONTEXT_LENGTH_EXCEEDED.value:
            _untold(bench, answer, told.code, told.last or "no terminal event")
        return
    code = _refused(bench, answer, codex=True)
    if (answer.status, code) == (400, FailureCode.CONTEXT_LENGTH_EXCEEDED.value):
        bench.find("over-long-before-stream", f"HTTP 400 to a prompt of {size} words", answer)


def over_long_not_streamed(bench: Bench) -> None:
    size = bench.shared.get("size") or _grown(bench)[0]
    answer = bench.keep(bench.ask(_WORD * size, stream=False))
    if not bench.came(answer):
        return
    if answer.status != 200:
        _refused(bench, answer, codex=False)
        return
    bench.shared["proved"] = True
    bench.ended(answer)
    response = answer.json()
    if not isinstance(response, dict):
        bench.find("not-a-response", f"The body is {show(answer.body[:60].decode('utf-8', 'replace'))}", answer)
    elif response.get("status") in ("completed", "incomplete"):
        _accepted(bench, size, response, answer)
    else:
        code = field(response, "error", "code")
        _untold(bench, answer, code, f"HTTP 200 with the status {show(response.get('status'))}", codex=False)


def _refused(bench: Bench, answer: Answer, *, codex: bool) -> Any:
    """An over-long prompt was answered with an HTTP error."""
    failure = answer.failure()
    if not bench.shared.get("proved") and failure.cause in {Cause.AUTH, Cause.MODEL_NOT_FOUND}:
        bench.plain(answer)
    code = bench.envelope(answer)
    if (answer.status, code) != (400, FailureCode.CONTEXT_LENGTH_EXCEEDED.value):
        _untold(bench, answer, code, f"HTTP {answer.status}, read as {failure.cause}", codex=codex)
    return code


def _untold(bench: Bench, answer: Answer, code: Any, what: str, *, codex: bool = True) -> None:
    """`codex`: whether to say what Codex does; it asks for streams only."""
    effect = f". {codex_on(answer)[0]}" if codex else ""
    bench.find("over-long-untold", f"{what}, with the code {show(code)}{effect}", answer)


def _accepted(bench: Bench, size: int, response: dict[str, Any], answer: Answer) -> None:
    used = field(response, "usage", "input_tokens")
    if type(used) is int and 0 < used < size // 2:
        bench.find("over-long-shortened", f"The prompt has {size} words, and the usage counts {used} tokens", answer)
        return
    raise Skipped(f"a prompt of {size} words is not too long; --prompt-tokens takes a larger number")


# ---- requests at fault


def _fault(bench: Bench, answer: Answer, *, streamed: bool) -> tuple[bool, Any]:
    """Whether the request was refused, and with which code; how it was refused is judged."""
    if not bench.came(answer):
        return True, None
    if answer.status >= 500:
        effect = f". {codex_on(answer)[0]}" if streamed else ""
        bench.find("refused-as-fault", f"HTTP {answer.status}{effect}", answer)
        return True, None
    if answer.status >= 400:
        return True, bench.envelope(answer)
    if streamed:
        told = bench.events(answer)
        if told is not None and told.failure is not None:
            effect, again = codex_on(answer)
            if again:
                bench.find("refused-as-fault", f"Code {show(told.code)}. {effect}", answer)
        return told is None or told.last not in {"response.completed", "response.incomplete"}, told and told.code
    bench.ended(answer)
    response = answer.json()
    if not isinstance(response, dict):
        bench.find("not-a-response", f"The body ({answer.kind or 'no content type'}) is no JSON object", answer)
        return True, None
    return response.get("status") == "failed", None


def _invalid(bench: Bench, *, streamed: bool) -> None:
    answer = bench.keep(bench.ask(12345, stream=streamed))
    refused, _ = _fault(bench, answer, streamed=streamed)
    if not refused:
        bench.find("invalid-accepted", "`input` is the number 12345, and the request is answered", answer)


def invalid_request(bench: Bench) -> None:
    _invalid(bench, streamed=True)


def invalid_request_not_streamed(bench: Bench) -> None:
    _invalid(bench, streamed=False)


def unknown_model(bench: Bench) -> None:
    answer = bench.keep(bench.ask(HELLO, model="respevents-no-such-model"))
    refused, code = _fault(bench, answer, streamed=True)
    if not refused:
        bench.find("model-accepted", "A model of another name is answered", answer)
    elif 400 <= answer.status < 500 and answer.failure().cause is not Cause.MODEL_NOT_FOUND:
        bench.find("model-not-told", f"HTTP {answer.status}, {answer.failure().cause}, code {show(code)}", answer)
