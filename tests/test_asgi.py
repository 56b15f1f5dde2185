"""`ResponsesGuardMiddleware` as an ASGI app, message by message; `test_servers` runs it behind a real server."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guarding import events_of
from relaying import (
    BODY,
    FOUR,
    FRAMES,
    OPEN,
    TERMINALS,
    Relayed,
    app_that,
    call,
    judged,
    names,
    part,
    request_body,
    start,
)
from respevents.asgi import ResponsesGuardMiddleware
from respevents.failures import Cause, Failure, Policy, RequestRejected

OVER = (
    "This model's maximum context length is 512 tokens. However, your prompt contains at least 513 input tokens, "
    "which exceeds this limit even without any output tokens. Please reduce the length of the input prompt."
)
REJECTION = json.dumps({"error": {"message": OVER, "type": "BadRequestError", "param": None, "code": 400}}).encode()
FULL = [start(), *map(part, FRAMES), part(b"", more=False)]
JSON = b"application/json"


def guarded(app, **options):
    failures = []
    middleware = ResponsesGuardMiddleware(app, **{"on_failure": failures.append, **options})
    middleware.failures = failures
    return middleware


def run(*steps, request=None, options=None, **how):
    middleware = guarded(app_that(*steps), **(options or {}))
    answer = call(middleware, request, **how)
    answer.failures = middleware.failures
    return answer


# ---------------------------------------------------------------------------------------------- what passes


def test_a_whole_stream_is_the_very_same_messages():
    answer = run(*FULL)
    assert all(got is sent for got, sent in zip(answer.messages, FULL, strict=True))
    assert answer.failures == [] and answer.raised is None


@given(st.lists(st.integers(1, len(BODY) - 1), max_size=10, unique=True))
def test_bytes_and_chunk_boundaries_stay_in_every_cutting(places):
    edges = [0, *sorted(places), len(BODY)]
    chunks = [BODY[a:b] for a, b in itertools.pairwise(edges)]
    answer = run(start(), *map(part, chunks), part(b"", more=False))
    assert answer.bodies == [*chunks, b""]


@pytest.mark.parametrize(
    "case",
    [
        {"method": "GET"},
        {"path": "/v1/chat/completions"},
        {"path": "/v1/responses/resp_1"},
        {"path": "/v1/responsesx"},
        {"request": request_body(stream=False)},
        {"request": request_body(stream=None)},
        {"request": b'{"model":"m"}'},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["stream", "rejected", "raised"])
def test_what_is_no_streamed_responses_request_is_left_alone(case, kind):
    rejected = [start(400, JSON), part(REJECTION, more=False)]
    steps = {
        "stream": [start(), part(FRAMES[0]), part(b"", more=False)],
        "rejected": rejected,
        "raised": [ValueError(OVER)],
    }[kind]
    answer = run(*steps, **case)
    assert answer.messages == [step for step in steps if isinstance(step, dict)]
    assert str(answer.raised) == (OVER if kind == "raised" else "None")
    assert answer.failures == []


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/responses/", "/api/v1/responses", "/openai/v1/responses/"])
def test_mounts_under_a_prefix_and_trailing_slashes_are_guarded(path):
    assert judged(run(start(), *map(part, OPEN), part(b"", more=False), path=path).body)


def test_other_paths_can_be_named():
    steps = [start(), *map(part, OPEN), part(b"", more=False)]
    assert names(run(*steps, path="/r", options={"paths": ["/r"]}).body)[-1] == "response.failed"
    assert names(run(*steps, options={"paths": ["/r"]}).body)[-1] == "response.output_item.done"


@pytest.mark.parametrize("kind", ["lifespan", "websocket"])
def test_other_scopes_pass(kind):
    seen = []

    async def app(scope, receive, send):
        seen.append(scope)

    asyncio.run(ResponsesGuardMiddleware(app)({"type": kind, "path": "/v1/responses"}, None, None))
    assert seen == [{"type": kind, "path": "/v1/responses"}]


@pytest.mark.parametrize(
    "answer",
    [
        [start(429, JSON), part(b'{"error":{"message":"Rate limit","code":"rate_limit_exceeded"}}', more=False)],
        [start(500, JSON), part(b'{"error":{"message":"boom"}}'), part(b"", more=False)],
        [start(400, b"text/plain"), part(OVER.encode(), more=False)],
        [start(400, JSON, (b"content-encoding", b"gzip")), part(b"\x1f\x8b", more=False)],
        [start(200, JSON), part(b'{"object":"response"}', more=False)],
        [start(404, JSON), part(b"not json at all", more=False)],
        [start(400, JSON, trailers=True), part(b"{}", more=False), {"type": "http.response.trailers", "headers": []}],
        [start(200, b"text/event-stream", (b"content-encoding", b"gzip")), part(b"\x1f\x8b", more=False)],
    ],
    ids=range(8),
)
def test_an_answer_that_is_no_stream_and_no_over_length_stays_what_it_is(answer):
    got = run(*answer)
    assert got.messages == answer
    assert all(one is other for one, other in zip(got.messages, answer, strict=True))


def test_an_error_too_large_to_hold_passes():
    parts = [part(REJECTION + b" " * 600), part(b" " * 600), part(b"", more=False)]
    assert run(start(400, JSON), *parts, options={"max_answer": 1000}).messages == [start(400, JSON), *parts]


def test_keep_alive_comments_and_other_messages_pass():
    debug = {"type": "http.response.debug", "info": {}}
    early = {"type": "http.response.early_hint", "links": []}
    steps = [early, debug, start(), part(b": ping\n\n"), *map(part, FRAMES), part(b": bye\n\n", more=False)]
    assert run(*steps).messages == steps


# ---------------------------------------------------------------------------------------------- rejections


def test_an_over_long_prompt_answered_with_400_becomes_the_four_frames_and_names_the_model_asked_for():
    answer = run(
        start(400, JSON, (b"content-length", b"329"), (b"x-request-id", b"7"), (b"vary", b"Origin")),
        part(REJECTION[:100]),
        part(REJECTION[100:], more=False),
        request=request_body(temperature=0.1, metadata={"é": "ü"}),
    )
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (answer.headers["x-request-id"], answer.headers["vary"]) == ("7", "Origin")
    assert "content-length" not in answer.headers
    events = judged(answer.body)
    assert names(answer.body) == FOUR
    response = events[-1]["response"]
    assert response["model"] == "asked-for"
    assert response["error"] == {"code": "context_length_exceeded", "message": OVER}
    assert (response["temperature"], response["metadata"]) == (0.1, {"é": "ü"})
    assert answer.ended == 1
    assert [failure.cause for failure in answer.failures] == [Cause.CONTEXT_LENGTH_EXCEEDED]


@pytest.mark.parametrize(
    "error",
    [
        ValueError(OVER),
        RuntimeError(f"Request failed: {OVER} (id=7)"),
        RequestRejected(Failure(cause="context_length_exceeded", message="long")),
    ],
)
def test_an_app_that_raises_over_length_before_it_answered_is_answered_for(error):
    answer = run(error)
    assert answer.raised is None and answer.status == 200
    assert names(answer.body) == FOUR
    assert answer.failures[0].exception is error


def test_an_app_that_raises_anything_else_before_it_answered_is_left_to_the_server():
    answer = run(KeyError("x"))
    assert isinstance(answer.raised, KeyError) and answer.messages == [] and answer.failures == []


def test_which_causes_belong_into_the_stream_is_the_policys_choice():
    policy = Policy(stream_rejections={Cause.RATE_LIMITED})
    answer = run(start(400, JSON), part(REJECTION, more=False), options={"policy": policy})
    assert answer.status == 400
    body = b'{"error":{"message":"Rate limit reached","type":"x","code":"rate_limit_exceeded"}}'
    answer = run(start(429, JSON, (b"retry-after", b"3")), part(body, more=False), options={"policy": policy})
    assert answer.status == 200 and "retry-after" not in answer.headers
    last = judged(answer.body)[-1]["response"]["error"]
    assert last["code"] == "rate_limit_exceeded"
    assert "try again in 3s" in last["message"]


def test_a_users_text_echoed_in_an_error_does_not_decide():
    body = json.dumps(
        {"error": {"message": "Invalid value for tools", "code": "invalid_value", "input": OVER}}
    ).encode()
    assert run(start(400, JSON), part(body, more=False)).status == 400


def test_an_app_that_raises_while_its_error_is_held_has_sent_what_it_sent():
    answer = run(start(400, JSON), part(REJECTION[:50]), ValueError("x"))
    assert answer.messages == [start(400, JSON), part(REJECTION[:50])]
    assert str(answer.raised) == "x"
    assert run(start(400, JSON), part(REJECTION[:50])).messages == [start(400, JSON), part(REJECTION[:50])]


def test_headers_never_hold_what_a_text_says():
    evil = OVER + "\r\nset-cookie: a=b\r\n\r\nevent: response.completed\n\n"
    body = json.dumps({"error": {"message": evil, "code": "context_length_exceeded\r\nx: y"}}).encode()
    answer = run(start(400, JSON), part(body, more=False), request=request_body(model="m\r\nx-evil: 1\n\ndata: x"))
    assert names(answer.body) == FOUR
    assert set(answer.headers) == {"content-type", "cache-control"}
    assert not any(b"\r" in value or b"\n" in value for _, value in answer.messages[0]["headers"])


# ---------------------------------------------------------------------------------------------- broken streams

ENDS = {
    "raises": ([RuntimeError("CUDA error at 10.0.0.7")], "server_error"),
    "returns early": ([], "upstream_truncated"),
    "ends without a terminal": ([part(b"", more=False)], "upstream_truncated"),
    "ends with its last frame": ([part(FRAMES[5], more=False)], "upstream_truncated"),
    "ends in a frame": ([part(FRAMES[5][:40], more=False)], "upstream_truncated"),
    "raises in a frame": ([part(FRAMES[5][:40]), OSError("x")], "server_error"),
    "is cancelled inside": ([asyncio.CancelledError()], "server_error"),
}


@pytest.mark.parametrize(
    ("name", "sent"), [(name, sent) for name in ENDS for sent in (0, 1, 2, 5) if sent == 5 or "frame" not in name]
)
def test_a_stream_that_breaks_is_ended_and_the_body_ends_once(name, sent):
    steps, code = ENDS[name]
    if name == "is cancelled inside" and sys.version_info < (3, 11):
        pytest.skip("Python 3.10 cannot tell whose cancellation it is")
    answer = run(start(), *map(part, FRAMES[:sent]), *steps)
    assert answer.raised is None
    assert answer.ended == 1
    events = judged(answer.body, torn=True)
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["code"] == code
    assert b"10.0.0.7" not in answer.body
    assert len(answer.failures) == 1
    assert answer.bodies[:sent] == FRAMES[:sent]


@given(st.integers(0, len(BODY) - 1), st.sampled_from([None, RuntimeError("x"), ValueError(OVER)]))
def test_any_fault_at_any_byte_leaves_the_client_a_valid_stream(at, error):
    answer = run(start(), part(BODY[:at]), *([] if error is None else [error]))
    assert answer.body.startswith(BODY[:at])
    assert sum(name in TERMINALS for name in names(answer.body)) == 1
    assert answer.ended == 1 and answer.raised is None
    if answer.failures and names(answer.body)[-1] == "response.failed":
        judged(answer.body, torn=True)


def test_faults_are_raised_again_after_the_frames_when_the_policy_says_so():
    answer = run(start(), part(FRAMES[0]), RuntimeError("x"), options={"policy": Policy.tensorrt_llm})
    assert str(answer.raised) == "x"
    assert names(answer.body)[-2:] == ["error", "response.failed"]


def test_a_fault_after_the_terminal_event_adds_nothing_and_ends_the_body():
    answer = run(start(), *map(part, FRAMES), RuntimeError("teardown"))
    assert answer.body == BODY and answer.ended == 1 and answer.raised is None
    assert len(answer.failures) == 1


def test_a_fault_that_is_told_by_silence_leaves_the_body_cut_and_not_ended():
    """Client rule: eight frameworks take a clean end without a terminal event for success."""
    silent = Failure(cause=Cause.CANCELLED, message="the engine was asked to stop")
    answer = run(start(), part(FRAMES[0]), RuntimeError("x"), options={"classify": lambda _: silent})
    assert (answer.bodies, answer.ended, str(answer.raised)) == ([FRAMES[0]], 0, "x")
    answer = run(start(), *map(part, FRAMES), RuntimeError("x"), options={"classify": lambda _: silent})
    assert (answer.body, answer.ended) == (BODY, 1)


def test_a_content_length_that_would_not_hold_is_taken_off_a_stream():
    answer = run(start(200, b"text/event-stream", (b"Content-Length", b"99")), part(b"".join(OPEN), more=False))
    assert "content-length" not in answer.headers
    judged(answer.body)


def test_promised_trailers_are_sent_by_whoever_ends_the_body():
    trailers = {"type": "http.response.trailers", "headers": [(b"a", b"b")], "more_trailers": False}
    answer = run(start(trailers=True), *map(part, FRAMES), part(b"", more=False), trailers)
    assert answer.messages[-1] is trailers
    answer = run(start(trailers=True), part(FRAMES[0]), RuntimeError("x"))
    assert answer.messages[-1] == {"type": "http.response.trailers", "headers": [], "more_trailers": False}


def test_a_frame_over_the_bound_ends_the_body_at_once_and_stops_the_app():
    sent = []

    async def flood(receive, send):
        for _ in range(1000):
            sent.append(1)
            await send(part(b"data: " + b"x" * 500))

    answer = run(start(), part(FRAMES[0]), flood, options={"max_frame": 2000})
    judged(answer.body, torn=True)
    assert answer.ended == 1 and answer.raised is None
    assert len(sent) < 10


def test_done_without_a_terminal_event_comes_after_the_ending():
    answer = run(start(), *map(part, FRAMES[:2]), part(b"data: [DONE]\n\n"), part(b"", more=False))
    assert answer.body.endswith(b"data: [DONE]\n\n") and answer.ended == 1
    judged(answer.body.removesuffix(b"data: [DONE]\n\n"))


def test_repairs_are_applied_on_request_and_told():
    notices = []
    over = "The input (3519 tokens) is longer than the model's context length (512 tokens)."
    failed = json.loads(FRAMES[0].split(b"data: ")[1])
    failed = {**failed, "type": "response.failed", "sequence_number": 2}
    failed["response"] = {**failed["response"], "status": "failed", "error": {"code": "server_error", "message": over}}
    frame = b"event: response.failed\ndata: " + json.dumps(failed).encode() + b"\n\n"
    steps = [start(), *map(part, [*FRAMES[:2], frame]), part(b"", more=False)]
    assert b"server_error" in run(*steps).body
    answer = run(*steps, options={"repairs": ["failure_code"], "on_notice": notices.append, "engine": "sglang"})
    assert judged(answer.body)[-1]["response"]["error"]["code"] == "context_length_exceeded"
    assert [notice.kind for notice in notices] == ["failure_code"]


# ---------------------------------------------------------------------------------------------- clients that go


def test_a_client_that_hangs_up_gets_nothing_more_and_that_is_reported():
    async def until_gone(receive, send):
        while (await receive())["type"] != "http.disconnect":
            pass

    answer = run(start(), *map(part, FRAMES[:2]), until_gone, disconnect=True)
    assert answer.bodies == FRAMES[:2]
    assert [failure.cause for failure in answer.failures] == [Cause.CLIENT_DISCONNECT]
    answer = run(start(), *map(part, FRAMES), part(b"", more=False), until_gone, disconnect=True)
    assert answer.failures == []


def test_a_send_that_fails_is_the_client_gone():
    answer = run(*FULL, send_fails_after=3)
    assert isinstance(answer.raised, OSError)
    assert len(answer.messages) == 3
    assert [failure.cause for failure in answer.failures] == [Cause.CLIENT_DISCONNECT]


def test_a_cancelled_request_adds_nothing_and_stays_cancelled():
    async def forever(receive, send):
        await asyncio.Event().wait()

    answer = run(start(), *map(part, FRAMES[:2]), forever, cancel_after=3)
    assert isinstance(answer.raised, asyncio.CancelledError)
    assert answer.bodies == FRAMES[:2]
    assert [failure.cause for failure in answer.failures] == [Cause.CLIENT_DISCONNECT]


def test_a_client_gone_before_its_request_was_read_is_the_apps_to_see():
    seen = []

    async def app(scope, receive, send):
        seen.extend([await receive(), await receive()])

    messages = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    waiting = list(messages)

    async def receive():
        return waiting.pop(0)

    asyncio.run(guarded(app)({"type": "http", "method": "POST", "path": "/v1/responses", "headers": []}, receive, None))
    assert seen == messages


# ---------------------------------------------------------------------------------------------- the request


def test_the_request_is_replayed_message_by_message_with_its_boundaries():
    seen = []

    async def app(scope, receive, send):
        while True:
            message = await receive()
            seen.append(message)
            if not message.get("more_body"):
                return

    body = request_body()
    call(guarded(app), parts=[body[:5], body[5:20], b"", body[20:]])
    assert [message["body"] for message in seen] == [body[:5], body[5:20], b"", body[20:], b""]


@pytest.mark.parametrize("how", ["announced", "counted"])
def test_a_request_over_the_bound_is_not_read_ahead_and_its_stream_is_guarded_all_the_same(how):
    seen = []

    async def app(scope, receive, send):
        size = 0
        while True:
            message = await receive()
            seen.append(message)
            size += len(message["body"])
            if not message["more_body"]:
                break
        await send(start())
        await send(part(FRAMES[0]))

    body = request_body(input="x" * 5000)
    headers = [(b"content-length", str(len(body)).encode())] if how == "announced" else []
    parts = [body[i : i + 100] for i in range(0, len(body), 100)]
    taken = []

    async def watched(scope, receive, send):
        async def counted():
            message = await receive()
            if not seen:
                taken.append(message)
            return message

        await guarded(app, max_request=1000)(scope, counted, send)

    answer = call(watched, parts=parts, headers=headers)
    assert len(taken) == (1 if how == "announced" else 11)
    assert b"".join(message["body"] for message in seen) == body
    judged(answer.body)


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'"stream"', b"\xff", b'{"stream":"true"}', b'{"stream":1}'])
def test_a_request_that_cannot_be_told_to_be_streamed_keeps_its_errors(body):
    steps = [start(400, JSON), part(REJECTION, more=False)]
    assert run(*steps, request=body).messages == steps
    assert run(ValueError(OVER), request=body).messages == []


@pytest.mark.parametrize(
    "fields",
    [
        {"temperature": 1e300},
        {"metadata": {"ключ": "\ud83d\ude00"}},
        {"model": "\ud800"},
        {"tools": [{"type": "zork"}]},
        {"text": 7},
        {"input": OVER},
        {"instructions": "\x00\u2028"},
        {"model": ""},
        {"model": 7},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_whatever_a_request_holds_its_rejection_can_be_streamed(fields):
    answer = run(start(400, JSON), part(REJECTION, more=False), request=request_body(**fields))
    assert names(answer.body) == FOUR
    judged(answer.body)
    big = b'{"stream":true,"model":"m","temperature":1e999,"seed":' + b"9" * 5000 + b"}"
    assert names(run(ValueError(OVER), request=big).body) == FOUR


def test_a_compressed_request_passes_and_its_stream_is_guarded():
    answer = run(start(), part(FRAMES[0]), request=b"\x1f\x8b", headers=[(b"content-encoding", b"gzip")])
    judged(answer.body)


def test_the_body_of_a_request_is_let_go_once_the_stream_has_begun(monkeypatch):
    """Choice: 2,000 long prompts are not held while 2,000 long answers run."""
    sizes = []

    async def app(scope, receive, send):
        await receive()
        await send(start())
        for frame in FRAMES[:3]:
            sizes.append(len(held[0]._body))
            await send(part(frame))
        await send(part(b"", more=False))

    held = []
    monkeypatch.setattr(ResponsesGuardMiddleware, "relay_for", watched(ResponsesGuardMiddleware.relay_for, held))
    body = request_body(input="x" * 100_000)
    call(guarded(app), body)
    assert sizes == [len(body), 0, 0]


def watched(relay_for, held):
    def wrapper(self, request):
        held.append(request)
        return relay_for(self, request)

    return wrapper


def test_backpressure_reaches_the_app():
    """A frame is not taken before the one before it was accepted by the server."""
    order = []

    async def app(scope, receive, send):
        await receive()
        await send(start())
        for at, frame in enumerate(FRAMES):
            order.append(f"app {at}")
            await send(part(frame))
        await send(part(b"", more=False))

    async def main():
        async def receive():
            return {"type": "http.request", "body": request_body(), "more_body": False}

        async def send(message):
            for _ in range(3):
                await asyncio.sleep(0)
            order.append(f"server {message.get('body', b'')[:8]}")

        await guarded(app)({"type": "http", "method": "POST", "path": "/v1/responses", "headers": []}, receive, send)

    asyncio.run(main())
    steps = [word.split()[0] for word in order[1:-1]]
    assert steps == ["app", "server"] * len(FRAMES)


# ---------------------------------------------------------------------------------------------- settings


def test_settings_come_from_the_environment_when_they_are_not_given(monkeypatch):
    values = {
        "PATHS": "/a/, /b", "REPAIRS": "usage,fields", "POLICY": "gateway", "STREAM_REJECTIONS": "rate_limited",
        "ENGINE": "vllm", "MAX_REQUEST": "1000", "MAX_ANSWER": "2000", "MAX_FRAME": "3000", "WORDING": "widest",
    }  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(f"RESPEVENTS_{name}", value)
    made = ResponsesGuardMiddleware(app_that())
    assert made.paths == ("/a", "/b")
    assert made.repairs == {"usage", "fields"}
    assert (made.policy.tail, made.policy.wording) == ("failed,error", "widest")
    assert made.policy.stream_rejections == {Cause.RATE_LIMITED}
    assert (made.engine, made.max_request, made.max_answer, made.max_frame) == ("vllm", 1000, 2000, 3000)
    given = ResponsesGuardMiddleware(app_that(), policy=Policy.default, paths=["/c"], max_frame=7, repairs=())
    assert (given.policy, given.paths, given.max_frame, given.repairs) == (Policy.default, ("/c",), 7, frozenset())


@pytest.mark.parametrize(
    ("name", "value"),
    [("POLICY", "best"), ("MAX_FRAME", "-1"), ("MAX_REQUEST", "1e3"), ("REPAIRS", "magic"), ("PATHS", "v1"), ("STREAM_REJECTIONS", "x"), ("WORDING", "y")],
)  # fmt: skip
def test_a_wrong_setting_of_the_environment_is_named_at_the_start(monkeypatch, name, value):
    monkeypatch.setenv(f"RESPEVENTS_{name}", value)
    with pytest.raises(ValueError, match=name.lower() if name in {"PATHS", "REPAIRS"} else name):
        ResponsesGuardMiddleware(app_that())


@pytest.mark.parametrize(
    "options",
    [
        {"paths": "/v1"},
        {"paths": ["/"]},
        {"policy": "gateway"},
        {"max_frame": 0},
        {"max_request": True},
        {"on_failure": 3},
        {"repairs": "usage"},
    ],
    ids=str,
)
def test_a_wrong_argument_is_an_error_at_once(options):
    with pytest.raises((TypeError, ValueError)):
        ResponsesGuardMiddleware(app_that(), **options)
    with pytest.raises(TypeError, match="ASGI"):
        ResponsesGuardMiddleware(None)


def test_an_engine_nobody_knows_is_told(caplog):
    with caplog.at_level(logging.WARNING, "respevents"):
        ResponsesGuardMiddleware(app_that(), engine="zork")
    assert "zork" in caplog.text


def test_it_is_found_by_the_name_a_server_is_given():
    """vLLM imports `--middleware` by its dotted name and adds it as a class, with the app alone."""
    import importlib
    import inspect

    module, _, name = "respevents.asgi.ResponsesGuardMiddleware".rpartition(".")
    found = getattr(importlib.import_module(module), name)
    assert inspect.isclass(found)
    assert [p.name for p in inspect.signature(found).parameters.values() if p.default is p.empty] == ["app"]


def test_a_reporter_or_classifier_that_raises_changes_nothing():
    def broken(_):
        raise RuntimeError("broken")

    answer = run(start(), part(FRAMES[0]), ValueError("x"), options={"on_failure": broken, "classify": broken})
    judged(answer.body)
    steps = [start(400, JSON), part(REJECTION, more=False)]
    assert run(*steps, options={"classify": broken}).messages == steps
    assert run(ValueError(OVER), options={"classify": broken}).messages == []


def test_the_middleware_and_the_relay_end_a_stream_with_the_same_bytes():
    fixed = {"classify": lambda _: Failure(cause=Cause.INTERNAL_ERROR, message="x")}
    answer = run(start(), *map(part, FRAMES[:3]), RuntimeError("x"), options=fixed)
    assert answer.bodies[-1] == Relayed(FRAMES[:3], end=RuntimeError("x"), **fixed).ending
    assert events_of(answer.body)[-1][0] == "response.failed"
