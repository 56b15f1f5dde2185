"""What the tingly-box gateway does, row by row, under `Policy.gateway`."""

from __future__ import annotations

import json

import pytest

from guarding import events_of
from relaying import Relayed
from respevents.failures import Cause, Failure, Policy, error_envelope
from respevents.guard import guard_stream_sync
from respevents.inputs import check_input_items, repair_usage
from respevents.wire import FrameDecoder, encode_frame

RESPONSE = {
    "id": "resp_up",
    "object": "response",
    "created_at": 1,
    "status": "in_progress",
    "model": "up",
    "output": [],
}
OPENING = [encode_frame({"type": "response.created", "sequence_number": 0, "response": RESPONSE})]


def end(cause, message):
    def source():
        yield from OPENING
        raise OSError(message)

    failure = Failure(cause=cause, message=message)
    chunks = guard_stream_sync(
        source(), model="asked-for", classify=failure, policy=Policy.gateway, on_failure=lambda _: None
    )
    decoder = FrameDecoder()
    return [(frame.event, json.loads(frame.data)) for chunk in chunks for frame in decoder.feed(chunk)]


@pytest.mark.parametrize(
    ("cause", "code"),
    [(Cause.UPSTREAM_TRUNCATED, "upstream_truncated"), (Cause.UPSTREAM_READ_ERROR, "stream_failed")],
)
def test_row_1_failed_comes_first_then_the_error_frame_and_the_announced_id_is_carried_over(cause, code):
    _, (failed_name, failed), (error_name, error) = end(cause, "upstream went away")
    assert (failed_name, error_name) == ("response.failed", "error")
    assert failed["response"]["id"] == "resp_up"
    assert failed["response"]["error"] == {"code": code, "message": "upstream went away"}
    assert error["error"] == {"type": "stream_error", "code": code, "message": "upstream went away", "param": None}
    assert (failed["sequence_number"], error["sequence_number"]) == (1, 2)


def test_row_1_the_frame_its_older_clients_read_is_all_there():
    """They look at `error.message`, `error.type` and `error.code` of the last frame."""
    legacy = {"message": "m", "type": "stream_error", "code": "upstream_truncated"}
    assert legacy.items() <= end(Cause.UPSTREAM_TRUNCATED, "m")[-1][1]["error"].items()


# ---------------------------------------------------------------------------------------------- the same, relayed


def relayed(frames, end="close", **options):
    done = Relayed(frames, end, policy=Policy.gateway, **options)
    return done, events_of(done.body)


@pytest.mark.parametrize(("end", "code"), [("close", "upstream_truncated"), (OSError("read: reset"), "stream_failed")])
def test_row_1_a_relayed_upstream_that_ends_or_breaks_gets_failed_and_then_the_legacy_frame(end, code):
    done, events = relayed(OPENING, end)
    (_, failed), (_, error) = events[-2:]
    assert [name for name, _ in events] == ["response.created", "response.failed", "error"]
    assert failed["response"]["id"] == "resp_up"
    assert failed["response"]["error"]["code"] == error["error"]["code"] == code
    assert error["error"]["type"] == "stream_error"
    assert done.failures[0].message in {failed["response"]["error"]["message"], "read: reset"}
    assert (failed["sequence_number"], error["sequence_number"]) == (1, 2)


def test_row_2_null_usage_stays_null_and_only_an_object_is_filled():
    created = {"type": "response.created", "sequence_number": 0, "response": {**RESPONSE, "usage": None}}
    given = {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12}
    completed = {
        "type": "response.completed",
        "sequence_number": 1,
        "response": {**RESPONSE, "status": "completed", "usage": given},
    }
    frames = [encode_frame(created), encode_frame(completed)]
    done, events = relayed(frames, repairs=["usage"])
    assert done.chunks[0] == frames[0]
    usage = events[1][1]["response"]["usage"]
    assert usage["output_tokens_details"] == {"reasoning_tokens": 0}
    assert {key: usage[key] for key in given} == given
    assert repair_usage(None) is None
    assert repair_usage([]) == []
    assert repair_usage({**given, "output_tokens_details": {"reasoning_tokens": 3}})["output_tokens_details"] == {
        "reasoning_tokens": 3
    }


@pytest.mark.parametrize(
    "event",
    [
        b'{"error":null,"type":"response.output_text.delta","delta":"x"}',
        b'{"error":{}}',
        b'{"error":{"code":"x"}}',
        b'{"error":null}',
    ],
)
def test_row_3_an_event_with_an_error_key_that_says_nothing_is_attached_to_the_message(event):
    """openai-go aborts there with an empty message; a gateway built on it hands that error to `fail`."""
    done, events = relayed([*OPENING, b"data: " + event + b"\n\n"], OSError(""))
    failed = next(data for name, data in events if name == "response.failed")
    assert event.decode() in failed["response"]["error"]["message"]
    assert event.decode() in done.failures[0].message


def test_row_3_an_error_that_says_something_is_told_as_it_is():
    _, events = relayed([*OPENING, b'data: {"error":{"message":"slow down","code":"rate_limit_exceeded"}}\n\n'])
    failed = events[-1][1]["response"]["error"]
    assert failed == {"code": "rate_limit_exceeded", "message": "slow down"}


def test_row_4_an_input_item_that_the_pinned_sdk_does_not_model_is_named_by_index_and_type():
    items = [
        {"role": "user", "content": "hi"},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
        {"type": "hologram_call", "id": "h"},
        {"type": "other"},
    ]
    failure = check_input_items(items)
    assert "input[2]" in failure.message and "hologram_call" in failure.message
    assert failure.param == "input[2].type"
    assert (failure.details["index"], failure.details["type"]) == (2, "hologram_call")
    status, body = error_envelope(failure)
    assert status == 400 and "hologram_call" in body["error"]["message"]
    assert check_input_items(items[:2]) is None
    assert check_input_items(items[:2], known={"message"}).details["type"] == "function_call_output"
