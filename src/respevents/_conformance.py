"""`check`: the probes of a running server of `/v1/responses`, as a table, and what each of them expects."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from respevents._conformance_bench import Bench, Found, Skipped, field, objects
from respevents._conformance_refusals import (
    HELLO,
    invalid_request,
    invalid_request_not_streamed,
    over_long,
    over_long_not_streamed,
    taken,
    unknown_model,
)
from respevents._errors import show
from respevents._extras import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from respevents._conformance_bench import Options, Told
    from respevents._conformance_link import Answer

__all__ = ["PROBES", "Probe", "Result", "Verdict", "check"]

Verdict = Literal["pass", "fail", "skip"]

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
    rows = field(body, "data")
    if not isinstance(rows, list) or not all(isinstance(row, dict) and isinstance(row.get("id"), str) for row in rows):
        bench.find("models-form", f"The body is {show(answer.body[:60].decode('utf-8', 'replace'))}", answer)
        return
    bench.shared["models"] = [row["id"] for row in rows]
    mine = next((row for row in rows if row["id"] == bench.options.model), None)
    if mine is None:
        bench.notes.append(f"{bench.options.model} is not among the {len(rows)} that are listed")
    else:
        window = mine.get("max_model_len")  # vLLM and SGLang tell it here
        bench.shared["window"] = window if type(window) is int and window > 0 else None


def _text(bench: Bench) -> None:
    answer = bench.keep(bench.ask(HELLO))
    told = bench.stream(answer)
    if told is not None and told.last == "response.completed":
        bench.shared["snapshot"] = told.response


def _text_not_streamed(bench: Bench) -> None:
    response = bench.whole(bench.keep(bench.ask(HELLO, stream=False)))
    if response is None or response.get("status") != "completed":
        return
    streamed = bench.shared.get("snapshot")
    if streamed is None:
        told = bench.stream(bench.keep(bench.ask(HELLO)))
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
        items = objects(response.get("output"))
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
    reason = field(told.response, "incomplete_details", "reason")
    if told.last != "response.incomplete" or (reason is not None and reason != "max_output_tokens"):
        used = field(told.response, "usage", "output_tokens")
        bench.find(
            "length-untold",
            f"200 numbers were asked for, in 16 tokens: the answer ends as {told.last} with the reason {show(reason)} "
            f"after {show(used)} tokens",
            answer,
        )


# ---- more than one request


def _disconnect(bench: Bench) -> None:
    left = bench.keep(bench.ask(_COUNT, leave=taken))
    if not bench.plain(left):
        return
    if left.end == "left":
        bench.events(left)
    else:
        bench.stream(left)
        bench.notes.append("the answer was over before the first delta could be left")
    answer = bench.keep(bench.ask(HELLO))
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
    if ids[0] is not None and ids[0] == ids[1]:
        bench.find("streams-mixed", f"Both responses have the id {show(ids[0])}")
    for told, mine, other in zip(found, _MARKS, reversed(_MARKS), strict=True):
        if any(field(one, "response", "metadata", "mark") == other for one in told.events):
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
    Probe("over-long", "a streamed prompt beyond the window: a failed stream, context_length_exceeded", over_long),
    Probe("over-long-not-streamed", "the same without stream: HTTP 400 with that code", over_long_not_streamed),
    Probe("invalid-request", "a streamed request with a number as input: refused, not broken", invalid_request),
    Probe("invalid-request-not-streamed", "the same without stream", invalid_request_not_streamed),
    Probe("unknown-model", "a model that nobody has: model_not_found", unknown_model),
    Probe("disconnect", "a client that hangs up at the first delta; then the next request", _disconnect),
    Probe("two-at-once", "two streams at the same time do not mix", _two_at_once),
)
