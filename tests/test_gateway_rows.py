"""What the tingly-box gateway does, as far as the guard is concerned, under `Policy.gateway`."""

from __future__ import annotations

import json

import pytest

from respevents.failures import Cause, Failure, Policy
from respevents.guard import guard_stream_sync
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
