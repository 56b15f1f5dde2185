"""What TensorRT-LLM's server does, row by row, under `Policy.tensorrt_llm`.

The rows of its list; row 8 (disaggregated serving) by the middleware and `wrap_route`. The facts are those of its
own tests of `guard_responses_stream` and of its change for over-length requests. Its classes are named after here.
"""

from __future__ import annotations

import asyncio
import inspect
import json

import pytest
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from fastapi.testclient import TestClient
from pydantic import BaseModel

from conftest import shared_path
from guarding import events_of
from relaying import Relayed, app_that, call, part, start
from respevents.asgi import ResponsesGuardMiddleware, wrap_route
from respevents.failures import CATALOGUE, Cause, Failure, Policy, error_envelope
from respevents.guard import guard_stream, rejected_frames, rejected_stream
from respevents.wire import FrameDecoder, encode_frame

TRT = Policy.tensorrt_llm
OVER_LENGTH = (
    "This model's maximum context length is 69632 tokens. However, your messages resulted in 69666 tokens. "
    "Please reduce the length of the messages."
)
BATCH_LIMIT = "The sum of prompt length (9000.0), query length (0) should not exceed max_num_tokens (8192)"


class RequestError(RuntimeError):
    pass


class EngineDeadError(Exception):
    def __init__(self):
        super().__init__("Engine has died")


class ClientPayloadError(OSError):
    """aiohttp's."""


def classify(error):
    """What a server passes as `classify`: the causes TensorRT-LLM tells apart."""
    text = str(error)
    if isinstance(error, RequestError):
        if "maximum context length" in text:
            return Failure(cause=Cause.CONTEXT_LENGTH_EXCEEDED, message=text)
        if "should not exceed max_num_tokens" in text:
            return Failure(cause=Cause.PROMPT_TOO_LONG_FOR_BATCH, message=text)
        return Failure(cause=Cause.ENGINE_ERROR, message=text)
    if isinstance(error, EngineDeadError):
        return Failure(cause=Cause.ENGINE_DEAD, message=text)
    if isinstance(error, ClientPayloadError):
        return Failure(cause=Cause.UPSTREAM_READ_ERROR, message=text)
    return Failure(cause=Cause.INTERNAL_ERROR, message=text)


RESPONSE = {"id": "resp_1", "object": "response", "created_at": 1, "status": "in_progress", "model": "m", "output": []}
OPENING = [
    encode_frame({"type": kind, "sequence_number": number, "response": RESPONSE})
    for number, kind in enumerate(("response.created", "response.in_progress"))
]
COMPLETED = [
    b"event: response.created\ndata: {}\n\n",
    b"event: response.output_text.delta\ndata: {}\n\n",
    b"event: response.completed\ndata: {}\n\n",
]


def drive(frames, error=None, *, classify=classify, **options):
    """The frames that came out, what was raised, and what was reported."""
    seen, noted = [], []

    async def source():
        for frame in frames:
            yield frame
        if error is not None:
            raise error

    async def main():
        guarded = guard_stream(
            source(), model="m", classify=classify, policy=TRT, **{"on_failure": noted.append, **options}
        )
        try:
            async for chunk in guarded:
                seen.append(chunk)  # noqa: PERF401 - what came before the exception counts
        except BaseException as raised:
            return raised
        return None

    raised = asyncio.run(main())
    return seen, raised, noted


def kinds(frames):
    return [frame.partition(b"\n")[0].removeprefix(b"event: ").decode() for frame in frames]


def data(frame):
    (read,) = FrameDecoder().feed(frame)
    return json.loads(read.data)


# ------------------------------------------------------------------------------------------------ rows 1 to 7


def test_row_1_over_length_is_told_by_its_text_and_a_value_error_with_that_text_stays_internal():
    seen, raised, _ = drive(OPENING, RequestError(OVER_LENGTH))
    assert data(seen[-1])["response"]["error"] == {"code": "context_length_exceeded", "message": OVER_LENGTH}
    assert raised is None
    seen, raised, _ = drive(OPENING, ValueError(OVER_LENGTH))
    assert data(seen[-1])["response"]["error"] == {"code": "server_error", "message": "ValueError"}
    assert data(seen[-2])["code"] == "internal_error"
    assert isinstance(raised, ValueError)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RequestError(OVER_LENGTH), OVER_LENGTH),
        (RequestError("request failed"), "RequestError: request failed"),
        (EngineDeadError(), "EngineDeadError: Engine has died"),
        (ValueError("at 10.0.0.7:8001"), "ValueError"),
        (ClientPayloadError("from 10.0.0.7:8001"), "ClientPayloadError"),
    ],
)
def test_row_2_a_rejection_is_its_message_an_engine_fault_has_its_class_and_the_rest_is_the_class_alone(error, said):
    seen, _, _ = drive(OPENING, error)
    assert data(seen[-2])["message"] == data(seen[-1])["response"]["error"]["message"] == said


def test_row_2_the_message_is_the_one_a_request_that_is_not_streamed_gets():
    failure = classify(RequestError(OVER_LENGTH))
    assert (
        error_envelope(failure, TRT)[1]["error"]["message"]
        == data(drive([], RequestError(OVER_LENGTH))[0][-1])["response"]["error"]["message"]
    )


def test_row_3_the_failed_frame_is_the_server_error_frame_with_the_real_code_in_its_place():
    frames = {}
    for code in ("server_error", "context_length_exceeded"):
        failure = Failure(cause=Cause.CONTEXT_LENGTH_EXCEEDED, message=OVER_LENGTH, code=code)
        frames[code] = rejected_frames(failure, model="m", id="resp_1", created_at=1, policy=TRT)
    assert frames["context_length_exceeded"] == frames["server_error"].replace(
        b'"code":"server_error"', b'"code":"context_length_exceeded"'
    )


@pytest.mark.parametrize(
    "cause",
    [cause for cause, facts in CATALOGUE.items() if facts.ending != "silent" and cause != "context_length_exceeded"],
)
def test_row_3_every_other_cause_keeps_the_server_error_frame(cause):
    failure = Failure(cause=cause, message="same")
    policy = TRT.replace(expose=dict.fromkeys(Cause, "message"))
    frames = rejected_frames(failure, model="m", id="resp_1", created_at=1, policy=policy).split(b"\n\n")
    other = Failure(cause=Cause.ENGINE_ERROR, message="same")
    expected = rejected_frames(other, model="m", id="resp_1", created_at=1, policy=policy).split(b"\n\n")
    assert frames[3] == expected[3]
    assert b'"code":"server_error"' in frames[3]


def test_row_4_over_length_ends_normally_and_every_other_failure_is_raised_again_after_the_frames():
    assert drive(OPENING, RequestError(OVER_LENGTH))[1] is None
    for error in (RequestError("x"), RequestError(BATCH_LIMIT), EngineDeadError(), ValueError(), ClientPayloadError()):
        seen, raised, noted = drive(OPENING, error)
        assert kinds(seen) == ["response.created", "response.in_progress", "error", "response.failed"]
        assert raised is error
        assert noted[0].exception is error


def test_row_5_a_request_rejected_before_generation_streams_the_same_four_frames():
    """Whether the worker rejected it (an exception out of the source) or this process did (`rejected_stream`)."""
    failure = classify(RequestError(OVER_LENGTH))
    options = {"model": "m", "id": "resp_1", "created_at": 1, "policy": TRT}

    async def main():
        async def worker():
            raise RequestError(OVER_LENGTH)
            yield b""

        ours = [chunk async for chunk in rejected_stream(failure, **options)]
        theirs = [chunk async for chunk in guard_stream(worker(), classify=classify, **options)]
        return ours, theirs

    ours, theirs = asyncio.run(main())
    assert ours == theirs
    assert kinds(ours) == ["response.created", "response.in_progress", "error", "response.failed"]
    assert [data(frame)["sequence_number"] for frame in ours] == [0, 1, 2, 3]


def test_row_6_an_over_length_request_that_is_not_streamed_keeps_http_400_and_the_code():
    status, body = error_envelope(classify(RequestError(OVER_LENGTH)), TRT)
    assert status == 400
    assert body["error"]["code"] == "context_length_exceeded"
    assert body["error"]["message"] == OVER_LENGTH


def test_row_7_the_batch_limit_is_another_cause_and_keeps_its_form():
    seen, raised, noted = drive(OPENING, RequestError(BATCH_LIMIT))
    assert noted[0].cause is Cause.PROMPT_TOO_LONG_FOR_BATCH
    assert data(seen[-1])["response"]["error"] == {"code": "server_error", "message": f"RequestError: {BATCH_LIMIT}"}
    assert isinstance(raised, RequestError)
    assert (
        error_envelope(noted[0])[1]["error"]["code"] == "invalid_prompt"
    )  # and without the profile, a code that stops


# ------------------------------------------------------------------------------------------------ row 9


def test_row_9_a_completed_stream_is_forwarded_unchanged():
    assert drive(COMPLETED) == (COMPLETED, None, [])


def test_row_9_a_failure_after_the_terminal_event_adds_nothing():
    seen, raised, _ = drive(COMPLETED, RuntimeError("reset"))
    assert seen == COMPLETED
    assert isinstance(raised, RuntimeError)


def test_row_9_a_failure_mid_stream_ends_with_flat_error_and_response_failed():
    seen, raised, _ = drive(OPENING, ValueError("item had no id"))
    assert kinds(seen) == ["response.created", "response.in_progress", "error", "response.failed"]
    assert [data(frame)["sequence_number"] for frame in seen] == [0, 1, 2, 3]
    assert data(seen[2]) == {
        "type": "error",
        "code": "internal_error",
        "message": "ValueError",
        "param": None,
        "sequence_number": 2,
    }
    assert isinstance(raised, ValueError)


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit()], ids=repr)
def test_row_9_a_hang_up_adds_nothing_is_reported_out_of_band_and_raised_again(error):
    seen, raised, noted = drive(COMPLETED[:1], error)
    assert seen == COMPLETED[:1]
    assert raised is error
    assert [(failure.cause, type(failure.exception)) for failure in noted] == [(Cause.CLIENT_DISCONNECT, type(error))]


def test_row_9_a_reporter_that_fails_does_not_replace_the_first_fault():
    def broken(failure):
        raise KeyError("snapshot field missing")

    _, raised, _ = drive(OPENING, ValueError("the real fault"), on_failure=broken)
    assert str(raised) == "the real fault"


def test_row_9_numbering_follows_the_frames_forwarded_when_another_process_numbered_them():
    frames = [*OPENING, encode_frame({"type": "response.output_text.delta", "sequence_number": 609, "delta": "x"})]
    seen, _, _ = drive(frames, ValueError())
    assert [data(frame)["sequence_number"] for frame in seen[-2:]] == [610, 611]


def test_row_9_numbering_holds_when_a_blank_line_is_split_over_two_reads():
    frames = [
        b"event: response.created\ndata: {}\n\n",
        b"event: response.in_progress\ndata: {}\n",
        b"\nevent: response.output_text.delta\ndata: {}\n\n",
    ]
    seen, _, _ = drive(frames, RuntimeError("upstream cut"))
    assert kinds(seen[-2:]) == ["error", "response.failed"]
    assert data(seen[-2])["sequence_number"] == 3


def test_row_9_a_half_sent_frame_is_closed_first():
    frames = [b"event: response.created\ndata: {}\n\n", b"event: response.output_text.delta\ndata: {"]
    seen, _, _ = drive(frames, RuntimeError("upstream cut"))
    assert seen[2] == b"\n\n"
    assert kinds(seen[3:]) == ["error", "response.failed"]
    assert data(seen[3])["sequence_number"] == 1


def test_row_9_a_completion_marker_inside_a_text_does_not_end_the_watch():
    text = json.dumps({"delta": "\n\nevent: response.completed\n"}).encode()
    seen, raised, _ = drive([b"event: response.output_text.delta\ndata: %b\n\n" % text], RuntimeError("cut"))
    assert kinds(seen[1:]) == ["error", "response.failed"]
    assert isinstance(raised, RuntimeError)


def test_row_9_a_stream_that_never_started_numbers_from_zero():
    seen, raised, _ = drive([], RuntimeError("no context worker"))
    assert [data(frame)["sequence_number"] for frame in seen] == [0, 1, 2, 3]
    assert isinstance(raised, RuntimeError)


def test_row_9_the_failed_snapshot_says_failed_and_carries_no_content():
    done = {
        "type": "response.output_item.done",
        "sequence_number": 2,
        "output_index": 0,
        "item": {"id": "msg_1", "type": "message"},
    }
    seen, _, _ = drive([*OPENING, encode_frame(done)], ValueError("x"))
    response = data(seen[-1])["response"]
    assert (response["status"], response["output"], response["id"]) == ("failed", [], "resp_1")


# ------------------------------------------------------------------------------------------------ row 10


@pytest.mark.parametrize(
    ("error", "label"),
    [
        (RequestError("request failed"), "engine_error"),
        (EngineDeadError(), "engine_error"),
        (ValueError("bad item"), "internal_error"),
        (ClientPayloadError("cut"), "upstream_error"),
        (RequestError(OVER_LENGTH), "context_length_exceeded"),
    ],
)
def test_row_10_the_error_event_names_the_cause(error, label):
    seen, _, _ = drive(OPENING, error)
    assert data(seen[2])["code"] == label


def test_row_1_the_over_length_text_used_here_is_the_one_collected_from_the_engine():
    lines = shared_path("engine_errors", "errors.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    texts = {row["example_message"]: row["cause"] for row in rows if row["engine"].startswith("tensorrt-llm")}
    assert texts[OVER_LENGTH] == "context_length_exceeded"


# ---------------------------------------------------------------------------------------------- row 8, and 9 relayed

ENVELOPE = {
    "object": "error",
    "message": OVER_LENGTH,
    "type": "BadRequestError",
    "param": None,
    "code": "context_length_exceeded",
}


class WorkerError(Exception):
    """aiohttp's ClientResponseError, as the frontend sees a context worker's 400."""

    def __init__(self, status, message):
        super().__init__(f"{status}, message={message!r}")
        self.status, self.message = status, message


class Frontend:
    """A disaggregated frontend: what its handler makes of an error is up to `_handle_exception`."""

    def __init__(self, error):
        self.error = error
        self.seen = []

    async def openai_responses(self, request: dict) -> object:
        try:
            raise self.error
        except Exception as error:
            return self._handle_exception(error)

    def _handle_exception(self, exception):
        self.seen.append(exception)
        if isinstance(exception, WorkerError):
            raise HTTPException(status_code=exception.status, detail=exception.message)
        raise HTTPException(status_code=500, detail="Internal server error")


class Kept(Frontend):
    """A subclass of somebody else's, written when the method took one argument."""

    def _handle_exception(self, exception):
        self.seen.append(exception)
        return JSONResponse({"object": "error", "message": "come back later", "code": 503}, status_code=503)


class Own(Frontend):
    """One that answers over-length itself, in the flat form."""

    def _handle_exception(self, exception):
        return JSONResponse(ENVELOPE, status_code=400)


def ask(handler, **fields):
    return asyncio.run(handler({"model": "asked-for", "input": "x", "stream": True, **fields}))


def four(response):
    assert (response.status_code, response.media_type) == (200, "text/event-stream")
    events = [json.loads(frame.data) for frame in FrameDecoder().feed(response.body)]
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "error",
        "response.failed",
    ]
    assert [event["sequence_number"] for event in events] == [0, 1, 2, 3]
    return events[-1]["response"]


@pytest.mark.parametrize(
    "frontend",
    [Frontend(WorkerError(400, json.dumps(ENVELOPE))), Own(WorkerError(400, "x"))],
    ids=["raised", "returned"],
)
def test_row_8_a_workers_over_length_envelope_is_the_failure_stream_for_a_streamed_request(frontend):
    failed = four(ask(wrap_route(frontend.openai_responses, policy=TRT, on_failure=lambda _: None)))
    assert failed["model"] == "asked-for"
    assert failed["error"] == {"code": "context_length_exceeded", "message": OVER_LENGTH}


def test_row_8_other_requests_keep_the_envelope():
    frontend = Frontend(WorkerError(400, json.dumps(ENVELOPE)))
    route = wrap_route(frontend.openai_responses)
    for fields in ({"stream": False}, {"stream": None}):
        with pytest.raises(HTTPException) as raised:
            ask(route, **fields)
        assert raised.value.status_code == 400
    assert ask(wrap_route(Own(KeyError()).openai_responses), stream=False).status_code == 400


def test_row_8_other_errors_keep_their_form():
    batch = json.dumps({**ENVELOPE, "message": BATCH_LIMIT, "code": 400})
    for error, status in ((WorkerError(400, batch), 400), (WorkerError(429, "slow down"), 429), (KeyError("x"), 500)):
        with pytest.raises(HTTPException) as raised:
            ask(wrap_route(Frontend(error).openai_responses, engine="tensorrt-llm"))
        assert raised.value.status_code == status


def test_row_8_a_subclass_whose_handler_takes_one_argument_works_and_its_answer_is_kept():
    frontend = Kept(WorkerError(400, json.dumps(ENVELOPE)))
    answer = ask(wrap_route(frontend.openai_responses))
    assert answer.status_code == 503
    assert len(frontend.seen) == 1


class Body(BaseModel):
    model: str
    input: str
    stream: bool = False
    temperature: float | None = None


class Typed(Frontend):
    async def respond(self, req: Body, raw_request: Request) -> object:
        return await self.openai_responses({})

    async def untyped(self, raw_request: Request) -> object:
        await raw_request.json()
        return await self.openai_responses({})


def test_row_8_the_wrapper_is_a_route_of_fastapi_with_the_handlers_own_signature():
    frontend = Typed(WorkerError(400, json.dumps(ENVELOPE)))
    app = FastAPI()
    for path, handler in (("/v1/responses", frontend.respond), ("/u", frontend.untyped)):
        route = wrap_route(handler, on_failure=lambda _: None)
        assert inspect.signature(route).parameters.keys() == inspect.signature(handler).parameters.keys()
        app.post(path, response_model=None)(route)
    with TestClient(app) as client:
        for path in ("/v1/responses", "/u"):
            body = {"model": "asked-for", "input": "x", "stream": True, "temperature": 0.5}
            answer = client.post(path, json=body)
            assert answer.headers["content-type"].startswith("text/event-stream")
            last = json.loads(FrameDecoder().feed(answer.content)[-1].data)["response"]
            assert (last["model"], last["temperature"]) == ("asked-for", 0.5)
            assert client.post(path, json={**body, "stream": False}).status_code == 400


def test_row_8_a_plain_handler_and_an_envelope_as_a_mapping():
    def handler(request):
        return ENVELOPE

    assert wrap_route(handler, respond=bytes)({"model": "m", "stream": True}).startswith(b"event: response.created")
    assert wrap_route(handler, respond=bytes)({"model": "m"}) is ENVELOPE
    assert wrap_route(lambda request: {"object": "response"}, respond=bytes)({"stream": True}) == {"object": "response"}

    def raising(request):
        raise RequestError(OVER_LENGTH)

    assert b"context_length_exceeded" in wrap_route(raising, respond=bytes, engine="tensorrt-llm")({"stream": True})
    with pytest.raises(RequestError):
        wrap_route(raising, respond=bytes)({})


def test_row_8_the_middleware_does_the_same_for_the_whole_frontend():
    steps = [start(400, b"application/json"), part(json.dumps({"detail": json.dumps(ENVELOPE)}).encode(), more=False)]
    answer = call(ResponsesGuardMiddleware(app_that(*steps), policy=TRT, on_failure=lambda _: None))
    events = [json.loads(frame.data) for frame in FrameDecoder().feed(answer.body)]
    assert events[-1]["response"]["error"] == {"code": "context_length_exceeded", "message": OVER_LENGTH}
    assert events[-1]["response"]["model"] == "asked-for"


def test_row_9_the_relay_of_a_frontend_keeps_all_of_it_for_frames_another_process_numbered():
    frames = [
        encode_frame(
            {
                "type": "response.created",
                "sequence_number": 0,
                "response": {"id": "resp_w", "model": "w", "created_at": 3},
            }
        )
    ]
    frames += [
        encode_frame({"type": "response.output_text.delta", "sequence_number": n, "delta": "response.completed"})
        for n in (1, 2)
    ]
    body = b"".join(frames)
    for size in (1, 5, len(body)):
        done = Relayed(
            [body[i : i + size] for i in range(0, len(body), size)], end=ClientPayloadError("10.0.0.7"), policy=TRT
        )
        assert done.body.startswith(body)
        (_, error), (_, failed) = events_of(done.body)[-2:]
        assert (error["sequence_number"], failed["sequence_number"]) == (3, 4)
        assert (error["code"], error["message"]) == ("upstream_error", "ClientPayloadError")
        assert failed["response"]["id"] == "resp_w" and failed["response"]["output"] == []
        assert done.relay.reraise
    half = Relayed([body[:-1]], end=ClientPayloadError("x"), policy=TRT)  # half of the blank line
    assert half.body.startswith(body) and len(events_of(half.body)) == 5
