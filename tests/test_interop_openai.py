"""`respevents.interop.openai`: every event and object of the SDK becomes ours and comes back with the same values."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import get_args

import pytest
from hypothesis import given, settings

openai = pytest.importorskip("openai")

from openai.types import responses as sdk

from respevents import LocalProtocolError, decode_event, encode_json, events, items, schemas
from respevents.interop.openai import from_sdk, to_sdk
from respevents.testing import strategies

pytestmark = pytest.mark.sdk

MODELS = {
    get_args(model.model_fields["type"].annotation)[0]: model
    for model in get_args(get_args(sdk.ResponseStreamEvent)[0])
}
EVENT_TYPES = sorted(event["type"] for event in schemas.manifest()["events"])
MODELLED = [event_type for event_type in EVENT_TYPES if event_type in MODELS]


@pytest.mark.parametrize("event_type", MODELLED)
def test_an_event_goes_to_the_sdk_and_comes_back_the_same(event_type):
    @settings(max_examples=15)
    @given(strategies.events(event_type))
    def check(event):
        ours = decode_event(event)
        model = to_sdk(ours)
        assert type(model) is MODELS[event_type]
        assert to_sdk(event) == model, "a mapping is as good as the class"
        assert json.loads(model.to_json(exclude_unset=True)) == json.loads(encode_json(ours))
        back = from_sdk(model)
        assert type(back) is type(ours)
        assert encode_json(back) == encode_json(ours) == encode_json(model)

    check()


def test_the_sdk_models_most_event_types_and_the_others_are_refused_by_name():
    assert len(MODELLED) > 50
    for event_type in sorted({*EVENT_TYPES} - {*MODELLED}):
        with pytest.raises(LocalProtocolError, match=f"has no event of type '{event_type}'"):
            to_sdk({"type": event_type})


@given(strategies.items())
def test_an_item_goes_to_the_sdk_and_comes_back_the_same(item):
    ours = items.decode_item(item)
    if not hasattr(sdk, type(ours).__name__):
        with pytest.raises(LocalProtocolError, match="has no exported model"):
            to_sdk(ours)
        return
    assert encode_json(from_sdk(to_sdk(ours))) == encode_json(ours)


def test_a_response_its_items_and_nested_objects_convert_one_by_one():
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1767225600,
        "status": "completed",
        "model": "m",
        "output": [
            {
                "id": "sh_1",
                "type": "shell_call",
                "status": "completed",
                "action": {"commands": ["ls"], "max_output_length": None, "timeout_ms": None},
                "call_id": "c",
            }
        ],
    }
    model = to_sdk({"type": "response.completed", "response": response, "sequence_number": 3}).response
    ours = from_sdk(model)
    assert isinstance(ours, items.Response)
    assert ours.created_at == 1767225600
    assert type(ours.created_at) is int, "the SDK types it as float"
    call = from_sdk(model.output[0])
    assert isinstance(call, items.ResponseFunctionShellToolCall)
    action = from_sdk(model.output[0].action)
    assert isinstance(action, items.ResponseFunctionShellToolCallAction), "nested names get their parent's prefix"
    assert encode_json(to_sdk(ours)) == encode_json(ours)


def test_unknown_keys_and_enum_values_survive_both_ways():
    event = {
        "type": "response.created",
        "response": {"id": "resp_1", "status": "rebooting", "output": [], "zebra": {"b": 1, "a": 2}},
        "sequence_number": 0,
        "unheard_of": [1, None],
    }
    assert encode_json(from_sdk(to_sdk(event))) == encode_json(event)


def test_null_and_absent_stay_apart():
    base = {"type": "error", "message": "m", "sequence_number": 1}
    absent, null = from_sdk(to_sdk(base)), from_sdk(to_sdk({**base, "code": None}))
    assert isinstance(absent, events.ResponseErrorEvent)
    assert (absent.code, null.code) == (events.UNSET if hasattr(events, "UNSET") else absent.code, None)
    assert b"code" not in encode_json(absent)
    assert b'"code":null' in encode_json(null)


def test_a_model_made_by_hand_leaves_unset_what_was_not_given():
    model = sdk.ResponseUsage.construct(input_tokens=1, total_tokens=1)
    assert encode_json(from_sdk(model)) == b'{"input_tokens":1,"total_tokens":1}'


def test_what_is_no_model_of_the_stream_is_refused_with_the_way_out():
    with pytest.raises(LocalProtocolError, match=r"respevents\.decode_event"):
        from_sdk({"type": "error"})
    from openai.types import Model

    with pytest.raises(LocalProtocolError, match="no counterpart"):
        from_sdk(Model.construct(id="m", object="model"))


def test_an_event_the_sdk_did_not_know_is_read_by_its_type_and_not_by_the_class_it_landed_in():
    from openai._models import construct_type

    stray = construct_type(type_=sdk.ResponseStreamEvent, value={"type": "keepalive", "sequence_number": 4})
    assert isinstance(from_sdk(stray), events.ResponseKeepaliveEvent)


def test_without_the_library_the_import_names_the_extra():
    code = "import sys; sys.modules['openai'] = None\nimport respevents.interop.openai"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "respevents.interop.openai needs openai" in run.stderr
    assert "pip install 'respevents[openai]'" in run.stderr
