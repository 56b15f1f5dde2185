"""`check`: the probes of a running server of `/v1/responses`, as a table, and what each of them expects."""

from __future__ import annotations

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from respevents._conformance_bench import Bench, Found, Skipped, codex_on, tell
from respevents._errors import show
from respevents._extras import load
from respevents.failures import Cause, FailureCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from respevents._conformance_bench import Options, Told
    from respevents._conformance_link import Answer

__all__ = ["PROBES", "Probe", "Result", "Verdict", "check"]

Verdict = Literal["pass", "fail", "skip"]

FIRST_PROMPT: Final = 8192
"""Words of the first over-long prompt; each is a token or more. The next one has four times as many."""

LARGEST_PROMPT: Final = 4 * 1024 * 1024
"""Bytes of the prompt that is not grown any more."""

_WORD: Final = "word "
_DELTA: Final = re.compile(rb'"type": ?"response\.[a-z_.]*\bdelta"')
_HELLO: Final = "Say hello in one short sentence."
_COUNT: Final = "Count from 1 to 200, one number on each line, and say nothing else."

_SCHEMA: Final = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "population": {"type": "integer"}},
    "required": ["city", "population"],
    "additionalProperties": False,
}
_PARAMETERS: Final = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
_TOOL: Final = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather in a city.",
    "parameters": _PARAMETERS,
    "strict": True,
}


class Probe(NamedTuple):
    """One probe."""

    name: str
    help: str
    run: Callable[[Bench], None]


class Result(NamedTuple):
    """What came out of one probe. `said` is why it was skipped, or what else is worth knowing."""

    name: str
    verdict: Verdict
    seconds: float
    said: str
    found: tuple[Found, ...]
    captures: tuple[str, ...]


def check(options: Options, names: Iterable[str] | None = None) -> Iterator[Result]:
    """Run the probes of these names (default: all), in the order of `PROBES`, and give each result as it is there.

    Raises RemoteProtocolError where nothing can be checked: no server, no way in, no such model.
    """
    wanted = None if names is None else set(names)
    shared: dict[str, Any] = {}
    for probe in PROBES:
        if wanted is not None and probe.name not in wanted:
            continue
        bench = Bench(probe.name, options, shared)
        began = time.monotonic()
        skipped = False
        try:
            probe.run(bench)
        except Skipped as reason:
            skipped = True
            bench.notes.insert(0, str(reason))
        failed = any(found.finding.severity == "error" for found in bench.found)
        verdict: Verdict = "fail" if failed else "skip" if skipped else "pass"
        yield Result(
            probe.name,
            verdict,
            time.monotonic() - began,
            "; ".join(bench.notes),
            tuple(bench.found),
            tuple(bench.saved),
        )


# ---- plain requests


def _models(bench: Bench) -> None:
    answer = bench.keep(bench.options.link.ask(None, path="/models"))
    if not bench.came(answer):
        return
    if answer.status in {401, 403, 404, 405, 501}:
        raise Skipped(f"the server answers HTTP {answer.status}")
    if answer.status != 200:
        bench.find("answer-refused", f"HTTP {answer.status}", answer)
        return
    body = answer.json()
    rows = body.get("data") if isinstance(body, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) and isinstance(row.get("id"), str) for row in rows):
        bench.find("models-form", f"The body is {show(answer.body[:60].decode('utf-8', 'replace'))}", answer)
        return
    bench.shared["models"] = [row["id"] for row in rows]
    mine = next((row for row in rows if row["id"] == bench.options.model), None)
    if mine is None:
        bench.notes.append(f"{bench.options.model} is not among the {len(rows)} that are listed")
    else:
        window = mine.get("max_model_len")  # vLLM and SGLang tell it here
        bench.shared["window"] = window if type(window) is int else None


def _text(bench: Bench) -> None:
    answer = bench.keep(bench.ask(_HELLO))
    told = bench.stream(answer)
    if told is not None and told.last == "response.completed":
        bench.shared["snapshot"] = told.response


def _text_not_streamed(bench: Bench) -> None:
    response = bench.whole(bench.keep(bench.ask(_HELLO, stream=False)))
    if response is None or response.get("status") != "completed":
        return
    streamed = bench.shared.get("snapshot")
    if streamed is None:
        told = bench.stream(bench.keep(bench.ask(_HELLO)))
        streamed = told.response if told is not None and told.last == "response.completed" else None
    if streamed is None:
        return
    for kind, whole, other in (("response", response, streamed), *_messages(response, streamed)):
        lost, more = sorted(_keys(other) - _keys(whole)), sorted(_keys(whole) - _keys(other))
        if lost:
            bench.find("snapshot-differs", f"The {kind} that is not streamed lacks {', '.join(lost)}")
        if more:
            bench.find("snapshot-differs", f"The streamed {kind} lacks {', '.join(more)}")


def _keys(value: dict[str, Any]) -> set[str]:
    return {key for key, one in value.items() if one is not None}


def _messages(*responses: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    first: list[dict[str, Any]] = []
    for response in responses:
        items = [one for one in response.get("output") or [] if isinstance(one, dict)]
        first.append(next((one for one in items if one.get("type") == "message"), {}))
    if all(first):
        yield "message", first[0], first[1]


def _tool_call(bench: Bench) -> None:
    answer = bench.keep(bench.ask("What is the weather in Bern?", tools=[_TOOL], tool_choice="required"))
    told = bench.stream(answer, feature=True)
    if told is None or told.last != "response.completed":
        _cut_short(bench, told)
        return
    calls = [item for item in told.items if item.get("type") == "function_call"]
    if not any(call.get("name") == _TOOL["name"] for call in calls):
        names = ", ".join(str(call.get("name")) for call in calls) or "no call"
        bench.find("tool-not-called", f"The answer has {names}", answer)
    for call in calls:
        if not _fits(_PARAMETERS, call.get("arguments")):
            bench.find("schema-ignored", f"The arguments are {show(call.get('arguments'))}", answer)


def _tool_result(bench: Bench) -> None:
    history = [
        {"role": "user", "content": "What is the weather in Bern?"},
        {"type": "function_call", "call_id": "call_1", "name": "get_weather", "arguments": '{"city":"Bern"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "18 degrees, sunny"},
    ]
    bench.stream(bench.keep(bench.ask(history, tools=[_TOOL])), feature=True)


def _structured_output(bench: Bench) -> None:
    form = {"type": "json_schema", "name": "city", "strict": True, "schema": _SCHEMA}
    prompt = "Name a city and the number of its inhabitants, as JSON."
    answer = bench.keep(bench.ask(prompt, text={"format": form}))
    told = bench.stream(answer, feature=True)
    if told is None or told.last != "response.completed":
        _cut_short(bench, told)
    elif not _fits(_SCHEMA, told.text):
        bench.find("schema-ignored", f"The text is {show(told.text)}", answer)


def _cut_short(bench: Bench, told: Told | None) -> None:
    if told is not None and told.last is not None:
        bench.notes.append(f"nothing to judge, the answer ended as {told.last}")


def _fits(schema: dict[str, Any], text: Any) -> bool:
    try:
        value = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return False
    library = load("jsonschema_rs", needed_by="respevents check")
    return bool(library.validator_for(schema).is_valid(value))


def _max_output_tokens(bench: Bench) -> None:
    answer = bench.keep(bench.ask(_COUNT, max_output_tokens=16))
    told = bench.stream(answer, feature=True)
    if told is None or told.last is None:
        return
    reason = (told.response.get("incomplete_details") or {}).get("reason")
    if told.last != "response.incomplete" or (reason is not None and reason != "max_output_tokens"):
        used = (told.response.get("usage") or {}).get("output_tokens")
        bench.find(
            "length-untold",
            f"200 numbers were asked for, in 16 tokens: the answer ends as {told.last} with the reason {show(reason)} "
            f"after {show(used)} tokens",
            answer,
        )


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


def _taken(piece: bytes) -> bool:
    """The model speaks: the prompt was not too long."""
    return _DELTA.search(piece) is not None


def _grown(bench: Bench) -> tuple[int, Answer]:
    """The first size that is not simply answered, or the last one, and the streamed answer to it."""
    sizes = _sizes(bench)
    for size in sizes:
        last = size == sizes[-1]
        answer = bench.ask(_WORD * size, leave=None if last else _taken)
        if last or answer.end != "left":
            told = tell(answer.body) if answer.streams else None
            if last or told is None or told.last not in {"response.completed", "response.incomplete"}:
                bench.shared["size"] = size
                return size, answer
    raise AssertionError("there is a last size")


def _over_long(bench: Bench) -> None:
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
    code = _refused(bench, answer)
    if (answer.status, code) == (400, FailureCode.CONTEXT_LENGTH_EXCEEDED.value):
        bench.find("over-long-before-stream", f"HTTP 400 to a prompt of {size} words", answer)


def _over_long_not_streamed(bench: Bench) -> None:
    size = bench.shared.get("size") or _grown(bench)[0]
    answer = bench.keep(bench.ask(_WORD * size, stream=False))
    if not bench.came(answer):
        return
    if answer.status != 200:
        _refused(bench, answer)
        return
    bench.shared["proved"] = True
    bench.ended(answer)
    response = answer.json()
    if not isinstance(response, dict):
        bench.find("not-a-response", f"The body is {show(answer.body[:60].decode('utf-8', 'replace'))}", answer)
    elif response.get("status") in {"completed", "incomplete"}:
        _accepted(bench, size, response, answer)
    else:
        error = response.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        _untold(bench, answer, code, f"HTTP 200 with the status {show(response.get('status'))}", codex=False)


def _refused(bench: Bench, answer: Answer) -> Any:
    """An over-long prompt was answered with an HTTP error."""
    failure = answer.failure()
    if not bench.shared.get("proved") and failure.cause in {Cause.AUTH, Cause.MODEL_NOT_FOUND}:
        bench.plain(answer)
    code = bench.envelope(answer)
    if (answer.status, code) != (400, FailureCode.CONTEXT_LENGTH_EXCEEDED.value):
        _untold(bench, answer, code, f"HTTP {answer.status}, {failure.cause}")
    return code


def _untold(bench: Bench, answer: Answer, code: Any, what: str, *, codex: bool = True) -> None:
    effect = f". {codex_on(answer, code)}" if codex else ""
    bench.find("over-long-untold", f"{what}, code {show(code)}{effect}", answer)


def _accepted(bench: Bench, size: int, response: dict[str, Any], answer: Answer) -> None:
    used = (response.get("usage") or {}).get("input_tokens")
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
        effect = f". {codex_on(answer, None)}" if streamed else ""
        bench.find("refused-as-fault", f"HTTP {answer.status}{effect}", answer)
        return True, None
    if answer.status >= 400:
        return True, bench.envelope(answer)
    if streamed:
        told = bench.events(answer)
        failure = None if told is None else told.failure
        if told is not None and failure is not None and codex_on(answer, told.code).endswith("6 times"):
            bench.find("refused-as-fault", f"Code {show(told.code)}. {codex_on(answer, told.code)}", answer)
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


def _invalid_request(bench: Bench) -> None:
    _invalid(bench, streamed=True)


def _invalid_request_not_streamed(bench: Bench) -> None:
    _invalid(bench, streamed=False)


def _unknown_model(bench: Bench) -> None:
    answer = bench.keep(bench.ask(_HELLO, model="respevents-no-such-model"))
    refused, code = _fault(bench, answer, streamed=True)
    if not refused:
        bench.find("model-accepted", "A model of another name is answered", answer)
    elif 400 <= answer.status < 500 and answer.failure().cause is not Cause.MODEL_NOT_FOUND:
        bench.find("model-not-told", f"HTTP {answer.status}, {answer.failure().cause}, code {show(code)}", answer)


# ---- more than one request


def _disconnect(bench: Bench) -> None:
    left = bench.keep(bench.ask(_COUNT, leave=_taken))
    if not bench.plain(left):
        return
    if left.end == "left":
        bench.events(left)
    else:
        bench.stream(left)
        bench.notes.append("the answer was over before the first delta could be left")
    answer = bench.keep(bench.ask(_HELLO))
    before = len(bench.found)
    told = bench.stream(answer)
    if told is None or told.last is None:
        why = bench.found[before].finding.message if len(bench.found) > before else "no terminal event"
        bench.find("server-lost", f"The request after a hang-up: {why}", answer)


_MARKS: Final = ("zephyr-41", "quartz-86")


def _two_at_once(bench: Bench) -> None:
    def ask(mark: str) -> Answer:
        prompt = f"Repeat this word ten times, one on each line: {mark}"
        return bench.ask(prompt, metadata={"mark": mark})

    with ThreadPoolExecutor(len(_MARKS)) as pool:
        answers = list(pool.map(ask, _MARKS))
    found: list[Told] = []
    for answer in answers:
        told = bench.stream(bench.keep(answer))
        if told is not None:
            found.append(told)
    if len(found) < len(_MARKS):
        return
    ids = [told.response.get("id") for told in found]
    if ids[0] == ids[1]:
        bench.find("streams-mixed", f"Both responses have the id {show(ids[0])}")
    for told, mine, other in zip(found, _MARKS, reversed(_MARKS), strict=True):
        heard = [(one.get("response") or {}).get("metadata") for one in told.events]
        if any(isinstance(one, dict) and one.get("mark") == other for one in heard):
            bench.find("streams-mixed", f"The answer to {mine} has the metadata of {other}")
        if other in told.text and mine not in told.text:
            bench.find("streams-mixed", f"The answer to {mine} is about {other}")


PROBES: Final = (
    Probe("models", "GET /v1/models: its form, where the server has it", _models),
    Probe("text", "a streamed text", _text),
    Probe("text-not-streamed", "the same without stream: the same fields", _text_not_streamed),
    Probe("tool-call", 'tool_choice "required": a call, its arguments by the schema', _tool_call),
    Probe("tool-result", "a conversation with a call and its result", _tool_result),
    Probe("structured-output", "text.format json_schema: text by the schema", _structured_output),
    Probe("max-output-tokens", "16 tokens for a long answer: response.incomplete", _max_output_tokens),
    Probe("over-long", "a streamed prompt beyond the window: a failed stream, context_length_exceeded", _over_long),
    Probe("over-long-not-streamed", "the same without stream: HTTP 400 with that code", _over_long_not_streamed),
    Probe("invalid-request", "a streamed request with a number as input: refused, not broken", _invalid_request),
    Probe("invalid-request-not-streamed", "the same without stream", _invalid_request_not_streamed),
    Probe("unknown-model", "a model that nobody has: model_not_found", _unknown_model),
    Probe("disconnect", "a client that hangs up at the first delta; then the next request", _disconnect),
    Probe("two-at-once", "two streams at the same time do not mix", _two_at_once),
)
