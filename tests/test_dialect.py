"""Open Responses end to end: what the builder, the guard and the relay emit, and what the validator says of it.

The rules are those of `specification.mdx` and `schema/*.tsp` in openresponses/openresponses, version 2026-04-24.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from respevents import (
    Cause,
    Failure,
    FrameDecoder,
    LocalProtocolError,
    Policy,
    Relay,
    RequestRejected,
    ResponseStream,
    error_envelope,
    guard_stream,
    guard_stream_sync,
    rejected_frames,
    rejected_stream,
    schemas,
)
from respevents._dialect import DONE_FRAME, ERROR_TYPES, is_extension
from respevents._generated.tables import EVENTS
from respevents._grammar import ALIASES, GRAMMARS
from respevents.asgi import ResponsesGuardMiddleware, wrap_route
from respevents.cli import main
from respevents.findings import BY_NAME
from respevents.testing import strategies
from respevents.testing._bodies import kinds_of, output_definitions
from respevents.validate import StreamValidator, validate_stream
from respevents.wire import decode_json, encode_frame

OPEN = "open-responses"
SET = GRAMMARS[OPEN].version
OVER = Failure(cause=Cause.CONTEXT_LENGTH_EXCEEDED, message="9000 tokens, the window has 8192.")
COUNTS = {"input_tokens": 3, "output_tokens": 2}
ENDS = {"response.completed", "response.incomplete", "response.failed"}


def stream_of(**options):
    numbers = itertools.count(1)
    made = {
        "model": "m",
        "id": "resp_1",
        "created_at": 1767225600,
        "dialect": OPEN,
        "id_factory": lambda prefix: f"{prefix}_{next(numbers)}",
        "clock": lambda: 1767225602,
    }
    return ResponseStream(**{**made, **options})


def events_of(body):
    decoder = FrameDecoder()
    frames = [*decoder.feed(body), *decoder.close()]
    return [decode_json(frame.data) for frame in frames if frame.data not in {b"", b"[DONE]"}]


def types(body):
    return [event["type"] for event in events_of(body)]


def judged(body, **options):
    """Hold a body against the dialect's strict set; its events. It ends with the only `[DONE]`."""
    report = validate_stream(body, dialect=OPEN, schema=SET, profile="strict", **options)
    assert report.ok, str(report)
    assert body.endswith(DONE_FRAME)
    assert body.count(b"[DONE]") == 1
    return events_of(body)


def names(body, *severities, **options):
    report = validate_stream(body, **{"dialect": OPEN, **options})
    return [one.name for one in report.findings if not severities or one.severity in severities]


def good():
    stream = stream_of()
    return stream.start() + stream.message().text("Hi") + stream.complete(COUNTS)


# ---- what the dialect is -------------------------------------------------------------------------------------------


def test_the_tables_of_the_dialect_are_those_of_its_schema_set():
    grammar = GRAMMARS[OPEN]
    assert list(schemas.VERSIONS).index(SET) >= 0
    assert set(grammar.table) == {event["type"] for event in schemas.manifest(SET)["events"]}
    assert set(grammar.items) == set(output_definitions(SET))


@pytest.mark.parametrize("name", ALIASES)
def test_an_event_under_another_name_has_the_keys_it_has_at_openai(name):
    mine = schemas.load(SET)["$defs"][GRAMMARS[OPEN].definitions[name]]["properties"]
    other = schemas.load()["$defs"][EVENTS[ALIASES[name]]]["properties"]
    assert set(mine) - {"obfuscation"} == set(other) - {"obfuscation"}


@pytest.mark.parametrize(
    ("name", "extension"),
    [("acme:thing", True), ("acme:a:b", True), ("acme:", False), (":x", False), ("acme", False), ("a b:c", False)],
)
def test_an_extension_is_named_by_slug_and_type(name, extension):
    assert is_extension(name) is extension


# ---- the builder ---------------------------------------------------------------------------------------------------


def test_a_stream_is_told_in_the_names_of_the_dialect():
    stream = stream_of()
    body = stream.start()
    thinking = stream.reasoning()
    body += thinking.text("h") + thinking.text("m") + thinking.summary_text("s")
    call = stream.function_call("f")
    body += call.arguments("{") + call.arguments("}")
    body += stream.message().refusal("no") + stream.complete(COUNTS)
    assert types(body) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.reasoning.delta",
        "response.reasoning.delta",
        "response.reasoning.done",
        "response.content_part.done",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.refusal.delta",
        "response.refusal.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    final = judged(body)[-1]["response"]
    assert [item["status"] for item in final["output"]] == ["completed"] * 3
    assert final["output"][0]["content"] == [{"type": "reasoning_text", "text": "hm"}]
    assert b"\nid:" not in body
    assert [frame.event for frame in FrameDecoder().feed(body)][:-1] == types(body)


@pytest.mark.parametrize("end", ["complete", "incomplete", "fail", "send", "queued"])
def test_done_follows_the_terminal_event_and_nothing_follows_it(end):
    stream = stream_of()
    body = stream.start(queued=end == "queued")
    if end == "send":
        failed = {**events_of(body)[0]["response"], "status": "failed", "error": {"code": "x", "message": "y"}}
        body += stream.send({"type": "response.failed", "response": failed})
    else:
        ends = {"incomplete": lambda: stream.incomplete("content_filter"), "fail": lambda: stream.fail(OVER)}
        body += ends.get(end, lambda: stream.complete(COUNTS))()
    judged(body)
    assert stream.keepalive() == b""
    assert stream.fail(OVER) == b""
    with pytest.raises(LocalProtocolError):
        stream.send({"type": "acme:late"})


@pytest.mark.parametrize("started", [False, True])
def test_a_failure_is_a_nested_error_then_response_failed(started):
    stream = stream_of()
    body = (stream.start() + stream.message().text("Hel") if started else b"") + stream.fail(OVER)
    *_, error, failed = judged(body)
    assert error == {
        "type": "error",
        "error": {
            "type": "invalid_request",
            "code": "context_length_exceeded",
            "message": OVER.message,
            "param": None,
        },
        "sequence_number": failed["sequence_number"] - 1,
    }
    assert failed["response"]["error"] == {"code": "context_length_exceeded", "message": OVER.message}


@pytest.mark.parametrize("cause", [cause for cause in Cause if Failure(cause=cause, message="x").ending != "silent"])
def test_every_cause_has_an_error_type_of_the_specification(cause):
    failure = Failure(cause=cause, message="x")
    policy = Policy(dialect=OPEN)
    said = failure.type_for(policy)
    assert said in ERROR_TYPES
    by_status = {404: "not_found", 429: "too_many_requests"}
    if failure.http_status in by_status:
        assert said == by_status[failure.http_status]
    else:
        assert (said == "invalid_request") is (failure.http_status < 500)
    assert error_envelope(failure, policy)[1]["error"]["type"] == said


def test_an_error_type_of_the_servers_own_is_kept_where_the_policy_names_it():
    failure = Failure(cause=Cause.ENGINE_ERROR, message="x")
    assert failure.type_for(Policy(dialect=OPEN)) == "model_error"
    assert failure.type_for(Policy(dialect=OPEN, error_types={Cause.ENGINE_ERROR: "acme_error"})) == "acme_error"
    odd = Failure(cause=Cause.ENGINE_ERROR, message="x", error_type="api_error")
    assert odd.type_for(Policy(dialect=OPEN)) == "model_error"
    assert Failure(cause=Cause.AUTH, message="x", error_type="not_found").type_for(Policy(dialect=OPEN)) == "not_found"
    assert odd.type_for(Policy.default) == "api_error"


def test_items_and_events_of_ones_own_go_by_slug_and_type():
    stream = stream_of()
    body = stream.start()
    message = stream.message()
    body += message.text("a") + stream.send({"type": "acme:progress", "done": 0.5}) + message.text("b")
    body += stream.item("acme:receipt") + stream.item({"type": "acme:search", "hits": [1]}, added={"hits": []})
    body += stream.complete(COUNTS)
    events = judged(body)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert {"type": "acme:progress", "done": 0.5, "sequence_number": 5} in events
    receipt, search = events[-1]["response"]["output"][1:]
    assert receipt == {"id": "item_2", "type": "acme:receipt", "status": "completed"}
    assert search == {"id": "item_3", "type": "acme:search", "status": "completed", "hits": [1]}
    assert names(body, strict=True) == []


REFUSED = {
    "an event without a slug": lambda stream: stream.send({"type": "response.of_tomorrow"}),
    "a hosted tool": lambda stream: stream.web_search().searching(),
    "a shell": lambda stream: stream.shell_call().command("ls"),
    "audio": lambda stream: stream.audio().sound("AA=="),
    "the keepalive event": lambda stream: stream.keepalive(event=True),
    "another item": lambda stream: stream.item("thing"),
    "parts as vLLM has them": lambda stream: stream.reasoning(part_events="reasoning_part").text("h"),
    "a step of a compaction": lambda stream: stream.compaction("x").compacting(),
    "reasoning in OpenAI's name": lambda stream: stream.send(
        {"type": "response.reasoning_text.delta", "item_id": "x", "output_index": 0, "content_index": 0, "delta": "h"}
    ),
    "a flat error": lambda stream: stream.send({"type": "error", "code": "x", "message": "y", "param": None}),
    "an item without a status": lambda stream: stream.send(
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "acme:x", "id": "i_1"}}
    ),
    "a citation the set does not have": lambda stream: stream.message().annotation(
        {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0}
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_dialect_does_not_have_is_refused_and_the_stream_goes_on(what):
    stream = stream_of()
    body = stream.start()
    with pytest.raises(LocalProtocolError) as told:
        REFUSED[what](stream)
    assert told.value.fix
    body += stream.message().text("Hi") + stream.complete(COUNTS)
    judged(body)


def test_openai_takes_what_the_dialect_refuses():
    for what, step in REFUSED.items():
        if what not in {"an event without a slug", "another item", "reasoning in OpenAI's name"}:
            stream = stream_of(dialect="openai")
            stream.start()
            assert step(stream), what


@pytest.mark.parametrize("kind", ["message", "reasoning", "function_call", "acme:search"])
def test_the_item_that_was_cut_is_the_last_one_and_incomplete(kind):
    stream = stream_of()
    body = stream.start() + stream.message().text("whole")
    if kind == "acme:search":
        item = {"id": "i_9", "type": kind, "status": "in_progress"}
        body += stream.reasoning().done()  # closes the message; an item that is sent as it is does not
        body += stream.send({"type": "response.output_item.added", "output_index": 2, "item": item})
    else:
        handle = stream.function_call("f") if kind == "function_call" else getattr(stream, kind)()
        body += getattr(handle, "arguments" if kind == "function_call" else "text")("{")
    body += stream.incomplete("max_output_tokens", COUNTS)
    output = judged(body)[-1]["response"]["output"]
    assert output[-1]["type"] == kind
    assert [item["status"] for item in output] == ["completed"] * (len(output) - 1) + ["incomplete"]


def test_only_the_last_item_may_be_incomplete():
    stream = stream_of(overlap=True)
    body = stream.start()
    first, second = stream.message(), stream.message()
    body += first.text("a") + second.text("b")
    with pytest.raises(LocalProtocolError, match=r"Output item 0 is not the last one.*Call \.done\(\) of it first"):
        stream.incomplete("max_output_tokens", COUNTS)
    body += first.done() + stream.incomplete("max_output_tokens", COUNTS)
    judged(body)


def test_nothing_but_an_incomplete_response_follows_an_incomplete_item():
    stream = stream_of()
    body = stream.start()
    message = stream.message()
    body += message.text("a") + message.done(status="incomplete")
    with pytest.raises(LocalProtocolError, match="no item after an incomplete one"):
        stream.message().text("b")
    with pytest.raises(LocalProtocolError, match=r"expected response\.incomplete"):
        stream.complete(COUNTS)
    judged(body + stream.incomplete("max_output_tokens", COUNTS))


def test_a_stream_that_goes_on_knows_the_items_before_it():
    done = {"id": "msg_0", "type": "message", "status": "incomplete", "content": [], "role": "assistant"}
    stream = stream_of(starting_after=5, output=[done])
    with pytest.raises(LocalProtocolError, match="no item after an incomplete one"):
        stream.message().text("b")


def test_obfuscation_pads_reasoning_under_its_other_name():
    stream = stream_of(obfuscation=random.Random(1))
    body = stream.start() + stream.reasoning().text("hm") + stream.complete(COUNTS)
    (delta,) = [event for event in judged(body) if event["type"] == "response.reasoning.delta"]
    assert len(delta["delta"] + delta["obfuscation"]) == 16


@pytest.mark.parametrize("build", [lambda **how: ResponseStream(model="m", **how), lambda **how: Relay(**how)])
def test_a_policy_that_cannot_be_told_in_the_dialect_is_refused(build):
    for policy, field in ((Policy.tensorrt_llm, "error_shape"), (Policy.gateway, "tail")):
        with pytest.raises(ValueError, match=rf"open-responses Policy\({field}"):
            build(policy=policy, dialect=OPEN)
    with pytest.raises(ValueError, match="expected one of openai, open-responses, got 'x'"):
        build(dialect="x")
    with pytest.raises(ValueError, match=r"Policy\(dialect=\.\.\.\)"):
        Policy(dialect="x")


def test_the_policy_carries_the_dialect():
    policy = Policy(dialect=OPEN)
    assert stream_of(dialect=None, policy=policy).fail(OVER) == stream_of().fail(OVER)
    assert stream_of(dialect="openai", policy=policy).fail(OVER).count(b"[DONE]") == 0


def test_openai_is_the_dialect_unless_another_is_asked_for():
    for how in ({}, {"dialect": None}, {"dialect": "openai"}):
        body = rejected_frames(OVER, model="m", id="resp_1", created_at=1, **how)
        assert body == rejected_frames(OVER, model="m", id="resp_1", created_at=1)
        assert b"[DONE]" not in body


# ---- the guard and the relay ---------------------------------------------------------------------------------------


def cut_stream():
    stream = stream_of()
    return [stream.start(), stream.message().text("Hel")]


PLAIN = [good().removesuffix(DONE_FRAME)]
SOURCES = {
    "a stream of the dialect": ([good()], None),
    "one that lacks [DONE]": (PLAIN, None),
    "one that breaks": (cut_stream(), RuntimeError("CUDA error")),
    "one that is rejected": ([], RequestRejected(OVER)),
    "one that just stops": (cut_stream(), None),
    "one that breaks after its end": (PLAIN, RuntimeError("late")),
    "one cut before its blank line": ([PLAIN[0][:-1]], None),
    "one that breaks in a frame after its end": ([*PLAIN, b'event: acme:x\ndata: {"ty'], RuntimeError("late")),
    "one that says [DONE] too early": ([*cut_stream(), DONE_FRAME], None),
    "one that says [DONE] too early and goes on": ([*cut_stream(), DONE_FRAME, *PLAIN], None),
}


def source_of(chunks, error):
    yield from chunks
    if error is not None:
        raise error


def guarded(chunks, error, *, way="sync", **options):
    options = {"model": "m", "dialect": OPEN, "on_failure": lambda failure: None, **options}
    if way == "sync":
        return b"".join(guard_stream_sync(source_of(chunks, error), **options))

    async def collect():
        return b"".join([chunk async for chunk in guard_stream(source_of(chunks, error), **options)])

    return asyncio.run(collect())


def relayed(chunks, error, **options):
    relay = Relay(**{"model": "m", "dialect": OPEN, "on_failure": lambda failure: None, **options})
    body = b"".join(relay.feed(chunk) for chunk in chunks)
    body += relay.close() if error is None else relay.fail(getattr(error, "failure", error))
    return body + relay.close()


WAYS = {
    "guard_stream_sync": guarded,
    "guard_stream": lambda chunks, error: guarded(chunks, error, way="async"),
    "Relay": relayed,
    "Relay with repairs": lambda chunks, error: relayed(chunks, error, repairs=["usage", "failure_code"]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", SOURCES)
def test_every_stream_gets_its_ending_and_one_done(what, way):
    chunks, error = SOURCES[what]
    body = WAYS[way](chunks, error)
    if what == "one that breaks in a frame after its end":
        assert body.endswith(b'data: {"ty\n\n' + DONE_FRAME)
        assert body.count(b"[DONE]") == 1
        return
    events = judged(body)
    assert sum(event["type"] in ENDS for event in events) == 1
    if "break" in what or "stops" in what or "early" in what or "reject" in what:
        ended = ["error", "response.failed"] if "after its end" not in what else ["response.completed"]
        assert [event["type"] for event in events][-len(ended) :] == ended
    if chunks and what != "one cut before its blank line":
        assert body.startswith(b"".join(chunks[:2]).removesuffix(DONE_FRAME))


@given(st.data())
def test_a_cut_body_is_ended_wherever_it_is_cut(data):
    whole = good().removesuffix(DONE_FRAME)
    at = data.draw(st.integers(0, len(whole)))
    for way in (guarded, relayed):
        body = way(data.draw(strategies.chunkings(whole[:at])), None)
        assert body.startswith(whole[:at])
        assert body.endswith(DONE_FRAME)
        assert body.count(b"[DONE]") == 1
        # What was cut in a frame stays cut; nothing else is wrong.
        assert set(names(body, "error")) <= {"not-json", "no-event-stream", "event-line-missing"}


def test_done_that_was_cut_is_not_sent_again():
    frames = [*cut_stream(), b"data: [DO", b"NE]\n\n"]
    for way in (guarded, relayed):
        body = way(frames, None)
        assert body.count(b"[DONE]") == 1
        assert types(body)[-1] == "response.failed"


def test_what_follows_a_done_that_was_cut_is_not_taken_for_another():
    for dialect in ("openai", OPEN):
        relay = Relay(model="m", dialect=dialect, on_failure=lambda failure: None)
        body = b"".join(map(relay.feed, [*cut_stream(), b"data: [DO", b"NE]\n\n", b"data: hello\n\n"]))
        assert body.endswith(b"data: [DONE]\n\ndata: hello\n\n")
        assert not relay.cut_off


def test_a_client_that_hung_up_gets_no_done():
    guard = guard_stream_sync(source_of(cut_stream(), None), model="m", dialect=OPEN, on_failure=lambda failure: None)
    next(guard)
    guard.close()
    relay = Relay(model="m", dialect=OPEN, on_failure=lambda failure: None)
    relay.feed(cut_stream()[0])
    assert relay.fail(GeneratorExit()) == b""
    assert relay.fail(Failure(cause=Cause.CANCELLED, message="")) == b""


def test_a_fault_told_before_an_early_done_is_raised_where_the_policy_says_so():
    policy = Policy(reraise="faults")
    told = []
    source = source_of([*cut_stream(), DONE_FRAME], None)
    guard = guard_stream_sync(source, model="m", dialect=OPEN, policy=policy, on_failure=told.append)
    body = b""
    with pytest.raises(LocalProtocolError, match="without a terminal event"):
        for chunk in guard:
            body += chunk
    judged(body)
    assert [failure.cause for failure in told] == [Cause.INTERNAL_ERROR]


def test_openai_bodies_pass_the_guard_with_their_done_as_before():
    for chunks in ([*PLAIN, DONE_FRAME], PLAIN):
        assert guarded(chunks, None, dialect="openai") == b"".join(chunks)
        assert relayed(chunks, None, dialect="openai") == b"".join(chunks)


def test_a_rejection_is_a_whole_stream():
    body = rejected_frames(OVER, model="m", id="resp_1", created_at=1, dialect=OPEN)
    assert [event["type"] for event in judged(body)] == [
        "response.created",
        "response.in_progress",
        "error",
        "response.failed",
    ]

    async def collect():
        frames = rejected_stream(OVER, model="m", id="resp_1", created_at=1, dialect=OPEN)
        return [frame async for frame in frames]

    assert b"".join(asyncio.run(collect())) == body
    assert rejected_frames(Failure(cause=Cause.CANCELLED, message=""), model="m", dialect=OPEN) == b""


# ---- the middleware ------------------------------------------------------------------------------------------------


def called(app, **options):
    """The body that an ASGI app answers a streamed request with, behind the middleware."""
    scope = {"type": "http", "method": "POST", "path": "/v1/responses", "headers": []}
    request = {"type": "http.request", "body": json.dumps({"model": "m", "stream": True}).encode()}
    sent = []

    async def receive():
        return request

    async def send(message):
        sent.append(message)

    middleware = ResponsesGuardMiddleware(app, on_failure=lambda failure: None, **options)
    asyncio.run(middleware(scope, receive, send))
    return b"".join(message.get("body", b"") for message in sent)


def app_of(*chunks, status=200, kind=b"text/event-stream", error=None):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if error is not None:
            raise error
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    return app


TOO_LONG = json.dumps({"error": {"message": "prompt is too long: 9001 tokens > 8192 maximum"}}).encode()
APPS = {
    "a rejection": app_of(TOO_LONG, status=400, kind=b"application/json"),
    "a stream that breaks": app_of(*cut_stream(), error=RuntimeError("x")),
    "a stream that stops": app_of(*cut_stream()),
    "a whole stream": app_of(good()),
    "a stream without [DONE]": app_of(*PLAIN),
    "a stream that breaks after its end": app_of(*PLAIN, error=RuntimeError("x")),
}


@pytest.mark.parametrize("what", APPS)
def test_the_middleware_ends_streams_in_the_dialect(what, monkeypatch):
    body = called(APPS[what], dialect=OPEN)
    judged(body)
    monkeypatch.setenv("RESPEVENTS_DIALECT", OPEN)
    assert types(called(APPS[what])) == types(body)


def test_a_dialect_that_does_not_exist_is_named_at_the_start(monkeypatch):
    with pytest.raises(ValueError, match="dialect: expected one of openai, open-responses"):
        ResponsesGuardMiddleware(APPS["a rejection"], dialect="x")
    monkeypatch.setenv("RESPEVENTS_DIALECT", "x")
    with pytest.raises(ValueError, match="RESPEVENTS_DIALECT: dialect"):
        ResponsesGuardMiddleware(APPS["a rejection"])


def test_a_wrapped_route_answers_in_the_dialect():
    def handler(request):
        return {"object": "error", "message": "prompt is too long: 9001 tokens > 8192 maximum", "code": 400}

    route = wrap_route(handler, dialect=OPEN, respond=bytes)
    judged(route({"model": "m", "stream": True}))


# ---- the validator -------------------------------------------------------------------------------------------------


def edited(change, kind="response.output_item.done", body=None):
    """A body with its first event of a type changed."""
    events = events_of(good() if body is None else body)
    change(next(event for event in events if event["type"] == kind))
    return b"".join(map(encode_frame, events)) + DONE_FRAME


def failing():
    stream = stream_of()
    return stream.start() + stream.fail(OVER)


def flatten(event):
    event.update(event.pop("error"), type="error")


def bare_reasoning():
    stream = stream_of()
    body = stream.start() + stream.reasoning().text("hm") + stream.complete(COUNTS)
    events = [event for event in events_of(body) if "part" not in event]
    for number, event in enumerate(events):
        event["sequence_number"] = number
    return b"".join(map(encode_frame, events)) + DONE_FRAME


def error_after_the_end():
    *before, error, failed = events_of(failing())
    events = [*before, failed, error]
    for number, event in enumerate(events):
        event["sequence_number"] = number
    return b"".join(map(encode_frame, events)) + DONE_FRAME


def cut_and_gone_on(overlap, end):
    """Two messages, the first one incomplete, as OpenAI's builder lets pass."""
    stream = stream_of(dialect="openai", overlap=overlap)
    body = stream.start()
    first, second = stream.message(), stream.message()
    body += first.text("a")
    if overlap:
        body += second.text("b") + first.done(status="incomplete")
    else:
        body += first.done(status="incomplete") + second.text("b")
    body += second.done()
    return body + (stream.complete(COUNTS) if end == "complete" else stream.incomplete("max_output_tokens", COUNTS))


SHOULD = {"id-or-retry-line": "warning", "item-status-missing": "warning", "error-type": "info"}
"""Rules that break no MUST: a SHOULD NOT, a text that the schema beside it does not follow, and a table of examples."""

FAULTS = {
    "error-after-terminal": error_after_the_end,
    "incomplete-item-not-last": lambda: cut_and_gone_on(False, "incomplete") + DONE_FRAME,
    "done-marker-missing": lambda: good().removesuffix(DONE_FRAME),
    "after-done-marker": lambda: good() + DONE_FRAME,
    "event-line-mismatch": lambda: good().replace(b"event: response.created", b"event: message", 1),
    "event-line-missing": lambda: good().replace(b"event: response.created\n", b"", 1),
    "id-or-retry-line": lambda: good().replace(b"event: ", b"id: 1\nevent: ", 1),
    "extension-name": lambda: edited(lambda event: event["item"].update(type="thing"), "response.output_item.added"),
    "item-status-missing": lambda: edited(lambda event: event["item"].pop("status")),
    "error-not-nested": lambda: edited(flatten, "error", failing()),
    "error-alone": lambda: failing().split(b"event: response.failed")[0] + DONE_FRAME,
    "content-part-missing": bare_reasoning,
    "sequence-missing": lambda: edited(lambda event: event.pop("sequence_number")),
    "error-type": lambda: edited(lambda event: event["error"].update(type="invalid_request_error"), "error", failing()),
}


@pytest.mark.parametrize("rule", FAULTS)
def test_each_rule_of_the_dialect_is_a_finding(rule):
    body = FAULTS[rule]()
    assert rule in names(body, SHOULD.get(rule, "error"))
    if BY_NAME[rule].severity == "off":
        assert rule not in names(body, dialect="openai")
        assert rule not in names(body.removesuffix(DONE_FRAME), dialect=None)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("end", ["complete", "incomplete"])
def test_an_incomplete_item_is_the_last_of_an_incomplete_response(overlap, end):
    body = cut_and_gone_on(overlap, end)
    report = validate_stream(body + DONE_FRAME, dialect=OPEN)
    at = [one.event for one in report.findings if one.name == "incomplete-item-not-last"]
    wanted = ["response.output_item.done" if overlap else "response.output_item.added"]
    assert at == wanted + (["response.completed"] if end == "complete" else [])
    stream = stream_of(overlap=True)  # and the builder does not take it, event by event
    with pytest.raises(LocalProtocolError, match="no item after an incomplete one"):
        for event in events_of(body):
            stream.send(event)


def test_openais_own_names_and_tools_are_no_part_of_the_dialect():
    stream = stream_of(dialect="openai")
    body = stream.start() + stream.reasoning().text("hm") + stream.web_search().done() + stream.complete(COUNTS)
    body += DONE_FRAME
    report = validate_stream(body, dialect=OPEN)
    said = [one.message for one in report.findings if one.name == "extension-name"]
    named = {kind for kind in types(body) if kind not in GRAMMARS[OPEN].table} | {"web_search_call"}
    assert len(said) == len(named) == 6
    assert all(any(f"got '{name}'" in one for one in said) for name in named)
    assert validate_stream(body, dialect="openai").ok


def test_the_dialect_is_told_by_what_only_it_has():
    stream = stream_of()
    body = stream.start() + stream.send({"type": "acme:progress"}) + stream.message().text("Hi")
    body += stream.complete(COUNTS)
    assert validate_stream(body).dialect == OPEN
    assert validate_stream(body.removesuffix(DONE_FRAME)).dialect == "openai"
    assert validate_stream(good()).dialect == "openai"
    named = edited(lambda event: event["item"].pop("status"), body=body)
    told = validate_stream(named)
    assert [one.rule for one in told.findings] == [one.rule for one in validate_stream(named, dialect=OPEN).findings]
    assert [one.frame for one in told.findings] == sorted(one.frame for one in told.findings)
    assert "item-status-missing" in {one.name for one in told.findings}


def test_findings_of_the_other_dialect_are_not_kept():
    validator = StreamValidator()
    assert validator.feed(FAULTS["error-not-nested"]().removesuffix(DONE_FRAME)) != []
    report = validator.close()
    assert report.dialect == "openai"
    assert {one.name for one in report.findings} == {"error-shape"}


def test_an_early_ending_of_reasoning_that_was_resumed_is_no_fault():
    stream = stream_of(starting_after=7)
    event = {"type": "response.reasoning.delta", "item_id": "rs_1", "output_index": 0, "content_index": 0, "delta": "h"}
    body = stream.send(event) + stream.fail(OVER)
    assert names(body, "error") == []


def test_the_command_takes_the_dialect(tmp_path, capsys):
    file = tmp_path / "stream.sse"
    file.write_bytes(good().removesuffix(DONE_FRAME))
    assert main(["validate", str(file)]) == 0
    assert main(["validate", "--dialect", OPEN, str(file)]) == 1
    assert "RE106 done-marker-missing" in capsys.readouterr().out
    file.write_bytes(good())
    assert main(["validate", "--dialect", OPEN, "--profile", "strict", "--strict", str(file)]) == 0
    assert f"{OPEN}, {SET} strict" in capsys.readouterr().out


# ---- the strategies ------------------------------------------------------------------------------------------------


@given(st.data())
def test_streams_of_the_dialect_hold_under_its_strict_set_in_any_chunking(data):
    body = data.draw(strategies.streams(dialect=OPEN))
    judged(body)
    chunks = data.draw(strategies.chunkings(body))
    assert validate_stream(iter(chunks), dialect=OPEN, schema=SET).ok
    for way in (guarded, relayed):  # a whole stream passes as it is
        assert way(chunks, None) == body


def test_streams_of_the_dialect_reach_all_its_events_and_items():
    seen = set()

    def look(events):
        seen.update(event["type"] for event in events)
        seen.update(event["item"]["type"] for event in events if "item" in event)

    few = settings(max_examples=60, derandomize=True, database=None, phases=[Phase.generate])
    for item in kinds_of(OPEN):
        few(given(strategies.event_lists(dialect=OPEN, item=item))(look))()
    assert {*GRAMMARS[OPEN].table, *GRAMMARS[OPEN].items, "acme:thing"} <= seen
    with pytest.raises(ValueError, match=r"item=.*acme:thing"):
        strategies.streams(dialect=OPEN, item="web_search_call")
    with pytest.raises(ValueError, match="dialect: expected"):
        strategies.streams(dialect="x")
