"""Our bytes through the openai SDK's own stream decoding: the same values come out (3.57 here, 2.48 in CI as well)."""

from __future__ import annotations

import importlib
from typing import get_args

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent

from respevents import decode_event, encode_frame, encode_json, schemas
from respevents.testing import strategies
from respevents.wire import decode_json

pytestmark = pytest.mark.sdk

# The HTTP library under the SDK is another one since 3.x; it is whatever its default client derives from.
http = importlib.import_module(openai.DefaultHttpxClient.__mro__[1].__module__.partition(".")[0])

MODELS = {
    model.model_fields["type"].annotation.__args__[0]: model for model in get_args(get_args(ResponseStreamEvent)[0])
}
EVENT_TYPES = sorted(event["type"] for event in schemas.manifest()["events"])
_body = [b""]
_client = openai.OpenAI(
    api_key="unused",
    base_url="http://sdk.test/v1",
    max_retries=0,
    http_client=openai.DefaultHttpxClient(
        transport=http.MockTransport(
            lambda request: http.Response(200, headers={"content-type": "text/event-stream"}, content=_body[0])
        )
    ),
)


def through_the_sdk(frames: bytes):
    _body[0] = frames
    with _client.responses.create(model="m", input="x", stream=True) as stream:
        return list(stream)


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_the_sdk_reads_back_the_values_that_were_written(event_type):
    """Oracle: the SDK's lenient construction, which is what a client really runs."""

    @settings(max_examples=20)
    @given(strategies.events(event_type))
    def check(event):
        written = decode_json(encode_json(event))
        assert same(written, event)
        assert decode_event(encode_json(event)).to_dict() == written
        if event_type not in MODELS:
            return
        if event.get("error"):
            with pytest.raises(openai.APIError) as caught:
                through_the_sdk(encode_frame(event))
            assert caught.value.body == written["error"]
            assert caught.value.code == written["error"]["code"]
            return
        (read,) = through_the_sdk(encode_frame(event))
        assert type(read) is MODELS[event_type]
        assert same(read.to_dict(warnings=False), written)  # which older models say of values newer than they

    check()


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_class_mapping_and_sdk_model_give_the_same_bytes(event_type):
    @settings(max_examples=20)
    @given(strategies.events(event_type))
    def check(event):
        frame = encode_frame(event)
        assert encode_frame(decode_event(event)) == frame
        if event_type in MODELS and not event.get("error"):
            (read,) = through_the_sdk(frame)
            assert encode_frame(read) == frame

    check()


@settings(max_examples=60)
@given(st.lists(strategies.events(), min_size=1, max_size=6))
def test_a_body_of_several_frames_is_read_frame_by_frame(events):
    known = [event for event in events if event["type"] in MODELS and not event.get("error")]
    read = through_the_sdk(b"".join(map(encode_frame, known)))
    assert [one.type for one in read] == [event["type"] for event in known]


def same(left, right) -> bool:
    """Equal as JSON: numbers by value, but true is not 1; key order aside."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right
