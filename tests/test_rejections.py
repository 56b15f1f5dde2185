"""The failure frames by themselves, and the arguments of everything that makes them."""

from __future__ import annotations

import asyncio
import json

import pytest

from guarding import events_of, run_sync
from respevents import HTTPAnswer, schemas
from respevents.failures import CATALOGUE, Cause, Failure, Policy, RequestRejected
from respevents.guard import guard_stream, guard_stream_sync, rejected_frames, rejected_stream
from respevents.stream import ResponseStream

# ---------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model.*empty"),
        ({"id": 3}, "id: expected a response id"),
        ({"created_at": 1.5}, "created_at: expected whole seconds"),
        ({"created_at": True}, "created_at"),
        ({"request": "x"}, "request: expected the request as a mapping"),
        ({"policy": "codex"}, "policy: expected a Policy"),
    ],
)
def test_a_wrong_argument_is_refused_by_name_before_anything_is_sent(fields, words):
    failure = Failure(cause=Cause.AUTH, message="m")
    arguments = {"model": "m", **fields}
    for call in (
        lambda: guard_stream([], **arguments),
        lambda: guard_stream_sync([], **arguments),
        lambda: rejected_stream(failure, **arguments),
        lambda: rejected_frames(failure, **arguments),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            call()


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"classify": "internal_error"}, "classify.*function"), ({"on_failure": "log"}, "on_failure.*function")],
)
def test_a_wrong_function_is_refused_by_name(fields, words):
    with pytest.raises(TypeError, match=words):
        guard_stream_sync([], model="m", **fields)


async def later(_):
    pass


@pytest.mark.parametrize("name", ["classify", "on_failure"])
def test_a_coroutine_function_is_refused_because_nobody_would_await_it(name):
    with pytest.raises(TypeError, match=f"{name}: expected a plain function"):
        guard_stream([], model="m", **{name: later})


@pytest.mark.parametrize("source", [None, 3, "event: x", b"event: x", {"type": "x"}, list])
def test_a_source_that_is_no_iterable_of_chunks_is_refused_at_once(source):
    for guard in (guard_stream, guard_stream_sync):
        with pytest.raises(TypeError, match="source: expected"):
            guard(source, model="m")


def test_a_rejection_is_classified_where_it_is_no_failure_yet():
    text = "prompt is too long: 9001 tokens > 8192 maximum"
    for error in (text, ValueError(text), {"type": "error", "error": {"message": text}}, HTTPAnswer(413, body=text)):
        assert rejected_frames(error, model="m").count(b'"code":"context_length_exceeded"') == 3
    with pytest.raises(TypeError, match=r"^failure: expected a Failure, or what can be classified as one, got None$"):
        rejected_frames(None, model="m")
    with pytest.raises(TypeError, match="expected an exception, a text"):
        rejected_frames(5, model="m")


# ---------------------------------------------------------------------------------------------- the frames


def rejected(cause, policy=None, **fields):
    failure = Failure(cause=cause, message=f"message of {cause}", **fields)
    return failure, rejected_frames(failure, model="m", id="resp_1", created_at=1767225600, policy=policy)


SHAPES = {shape: Policy(error_shape=shape) for shape in ("both", "nested", "flat")}


@pytest.mark.parametrize("policy", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("cause", [cause for cause, facts in CATALOGUE.items() if facts.ending != "silent"])
def test_for_every_cause_the_bytes_are_the_server_errors_with_code_message_and_type_changed(cause, policy):
    base, expected = rejected(Cause.INTERNAL_ERROR, policy)
    failure, frames = rejected(cause, policy)
    expected = expected.replace(
        f'"type":"{base.type_for(policy)}"'.encode(), f'"type":"{failure.type_for(policy)}"'.encode()
    )
    expected = expected.replace(
        f'"code":"{base.code_for(policy)}"'.encode(), f'"code":"{failure.code_for(policy)}"'.encode()
    )
    expected = expected.replace(json.dumps(base.said(policy)).encode(), json.dumps(failure.said(policy)).encode())
    assert frames == expected


def test_a_code_outside_the_sdk_literal_changes_that_one_string():
    _, known = rejected(Cause.INVALID_REQUEST, code="invalid_prompt")
    _, unknown = rejected(Cause.INVALID_REQUEST, code="nobody_knows_this")
    assert unknown == known.replace(b'"invalid_prompt"', b'"nobody_knows_this"')


@pytest.mark.parametrize("cause", [Cause.CLIENT_DISCONNECT, Cause.CANCELLED])
def test_nothing_is_sent_for_a_hang_up(cause):
    assert rejected(cause)[1] == b""


@pytest.mark.parametrize(
    ("tail", "names"),
    [
        ("error,failed", ["error", "response.failed"]),
        ("failed,error", ["response.failed", "error"]),
        ("failed", ["response.failed"]),
    ],
)
def test_the_tail_is_in_the_order_of_the_policy_and_numbered_in_it(tail, names):
    _, frames = rejected(Cause.QUOTA, Policy(tail=tail))
    events = events_of(frames)
    assert [name for name, _ in events][2:] == names
    assert [one["sequence_number"] for _, one in events] == list(range(2 + len(names)))


def test_the_rejected_stream_is_the_rejected_frames_one_by_one():
    failure = Failure(cause=Cause.CONTEXT_LENGTH_EXCEEDED, message="m")

    async def main():
        return [chunk async for chunk in rejected_stream(failure, model="m", id="resp_1", created_at=1)]

    chunks = asyncio.run(main())
    assert [chunk.partition(b"\n")[0] for chunk in chunks] == [
        b"event: response.created",
        b"event: response.in_progress",
        b"event: error",
        b"event: response.failed",
    ]
    assert b"".join(chunks) == rejected_frames(failure, model="m", id="resp_1", created_at=1)


def test_ids_and_times_are_made_where_none_are_given():
    failure = Failure(cause=Cause.AUTH, message="m")
    one, two = (events_of(rejected_frames(failure, model="m")) for _ in range(2))
    assert one[0][1]["response"]["id"].startswith("resp_")
    assert one[0][1]["response"]["id"] != two[0][1]["response"]["id"]
    assert isinstance(one[0][1]["response"]["created_at"], int)
    assert {event_["response"]["id"] for name, event_ in one if name != "error"} == {one[0][1]["response"]["id"]}


ENDINGS = {
    **{name: getattr(Policy, name) for name in ("default", "codex", "tensorrt_llm", "gateway")},
    "failed alone": Policy(tail="failed"),
    "nested": Policy(error_shape="nested"),
}


@pytest.mark.parametrize("policy", ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("cause", [Cause.CONTEXT_LENGTH_EXCEEDED, Cause.ENGINE_ERROR, Cause.CANCELLED])
@pytest.mark.parametrize("step", ["idle", "started", "after an item", "amid an item", "ended"])
def test_the_guard_and_the_builder_end_a_stream_with_the_same_bytes(policy, cause, step):
    """Whether the server's own code fails the stream, or the guard does it from the outside."""
    request = {"model": "m", "temperature": 1, "metadata": {"b": "1", "a": "2"}}
    options = {"model": "m", "id": "resp_1", "created_at": 1767225600, "request": request, "policy": policy}
    failure = Failure(cause=cause, message="why")
    stream = ResponseStream(**options)
    sent = b"" if step == "idle" else stream.start()
    if "item" in step:
        message = stream.message()
        sent += message.text("Hello")
        if step == "after an item":
            sent += message.done()
    if step == "ended":
        sent += stream.complete()
    ended = stream.fail(failure)
    assert bool(ended) == (step != "ended" and cause is not Cause.CANCELLED)
    assert run_sync([sent], RequestRejected(failure), **options).body == sent + ended


@pytest.mark.parametrize("policy", [Policy.default, Policy.codex, Policy.tensorrt_llm, Policy.gateway])
@pytest.mark.parametrize(
    "request_", [None, {"model": "m", "temperature": 1, "tools": [{"type": "function", "name": "f"}]}]
)
def test_the_frames_of_a_rejection_are_what_the_strict_schema_asks_for(policy, request_):
    jsonschema_rs = pytest.importorskip("jsonschema_rs")
    for cause in (Cause.CONTEXT_LENGTH_EXCEEDED, Cause.RATE_LIMITED, Cause.ENGINE_ERROR):
        failure = Failure(cause=cause, message="m", code="nobody_knows_this")
        for name, one in events_of(rejected_frames(failure, model="m", policy=policy, request=request_)):
            validator = jsonschema_rs.Draft202012Validator(schemas.definition(name))
            assert [error.message for error in validator.iter_errors(one)] == [], name


@pytest.mark.sdk
@pytest.mark.parametrize("policy", [Policy.default, Policy.codex, Policy.tensorrt_llm])
def test_the_sdk_reads_every_frame_of_a_rejection(policy):
    pytest.importorskip("openai")
    from openai._models import construct_type
    from openai.types.responses import ResponseStreamEvent

    failure = Failure(cause=Cause.CONTEXT_LENGTH_EXCEEDED, message="m")
    for name, event_ in events_of(rejected_frames(failure, model="m", policy=policy)):
        assert construct_type(value=event_, type_=ResponseStreamEvent).type == name
