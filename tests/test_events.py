"""Event and object classes: every type, unknown things kept, absent and null told apart."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings

from respevents import UNSET, RemoteProtocolError, decode_event, encode_json, events, items, schemas
from respevents._generated import tables
from respevents.testing import strategies
from respevents.wire import decode_json

EVENT_TYPES = sorted(tables.EVENTS)
DELTA = {
    "type": "response.output_text.delta",
    "content_index": 0,
    "delta": "x",
    "item_id": "msg_1",
    "logprobs": [],
    "output_index": 0,
    "sequence_number": 4,
}


def classes():
    for module in (events, items):
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type) and issubclass(value, items.Object) and not name.startswith("Unknown"):
                yield value


def test_there_is_a_class_for_every_definition_of_the_set():
    names = {cls.__name__ for cls in classes()} - {"Object", "Event"}
    assert names == set(schemas.load(profile="wire")["$defs"])
    assert set(EVENT_TYPES) == {event["type"] for event in schemas.manifest()["events"]}


@pytest.mark.parametrize("cls", [cls for cls in classes() if cls.__name__ in tables.FIELDS], ids=lambda c: c.__name__)
def test_a_class_is_frozen_keyword_only_and_has_its_fields_in_wire_order(cls):
    fields = [field for field in msgspec.structs.fields(cls) if field.name != "extra"]
    assert [field.encode_name for field in fields] == list(tables.FIELDS[cls.__name__])
    assert cls.__struct_config__.frozen
    assert cls.__struct_config__.tag is None
    with pytest.raises(TypeError):
        cls("positional")


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_every_event_type_is_read_as_its_class_and_written_back(event_type):
    @settings(max_examples=15)
    @given(strategies.events(event_type))
    def check(event):
        read = decode_event(encode_json(event))
        assert type(read).__name__ == tables.EVENTS[event_type]
        assert read.type == event_type
        assert encode_json(read) == encode_json(event)
        assert decode_event(read.to_dict()) == read

    check()


def test_absent_and_null_are_told_apart():
    snapshot = {"id": "resp_1", "object": "response", "usage": None}
    read = decode_event({"type": "response.created", "response": snapshot, "sequence_number": 0})
    assert isinstance(read, events.ResponseCreatedEvent)
    assert read.response.usage is None
    assert read.response.error is UNSET
    assert decode_json(encode_json(read))["response"] == snapshot


def test_keys_that_no_schema_names_are_kept_in_their_alphabetical_place():
    read = decode_event(DELTA | {"model": "m", "zeta": {"b": 1, "a": 2}})
    assert read.extra == {"model": "m", "zeta": {"b": 1, "a": 2}}
    assert encode_json(read) == (
        b'{"type":"response.output_text.delta","content_index":0,"delta":"x","item_id":"msg_1","logprobs":[],'
        b'"model":"m","output_index":0,"sequence_number":4,"zeta":{"a":2,"b":1}}'
    )


def test_an_unknown_event_keeps_everything_and_reads_by_attribute():
    read = decode_event(b'{"type":"acme:progress","percent":40,"sequence_number":3}')
    assert isinstance(read, events.UnknownEvent)
    assert (read.type, read.sequence_number, read.percent) == ("acme:progress", 3, 40)
    with pytest.raises(AttributeError, match="no key 'other'"):
        _ = read.other
    assert encode_json(read) == b'{"type":"acme:progress","percent":40,"sequence_number":3}'


def test_an_unknown_item_part_and_tool_are_kept():
    item = {"status": "completed", "type": "acme:search", "id": "x_1", "query": "q"}
    read = items.decode_item(item)
    assert isinstance(read, items.UnknownItem)
    assert read.query == "q"
    assert encode_json(read) == b'{"id":"x_1","type":"acme:search","status":"completed","query":"q"}'
    message = items.decode_item(
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "video", "u": 1}],
        }
    )
    assert isinstance(message.content[0], items.UnknownObject)
    assert message.content[0].u == 1


def test_values_that_do_not_fit_their_field_are_kept_as_they_came():
    odd = DELTA | {"delta": 5, "logprobs": "none", "output_index": "0"}
    assert decode_event(odd).to_dict() == odd


def test_integral_floats_in_integer_fields_are_read_as_integers_and_nothing_else_is_coerced():
    read = decode_event(DELTA | {"sequence_number": 4.0, "output_index": 0.5, "content_index": True})
    assert type(read.sequence_number) is int
    assert read.output_index == 0.5
    assert read.content_index is True


def test_keyword_fields_are_renamed_in_the_class_and_not_on_the_wire():
    read = items.decode_item({"type": "function_call", "arguments": "", "call_id": "c", "name": "f", "async": True})
    assert read.async_ is True
    assert b'"async":true' in encode_json(read)
    config = items.ResponseFormatTextJSONSchemaConfig(name="n", schema_={"z": 1, "a": 2})
    assert encode_json(config) == b'{"type":"json_schema","name":"n","schema":{"z":1,"a":2}}'


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[]", r"an event is a JSON object at \$"),
        (b"{}", r"an event names its type at \$\.type"),
        (b'{"type":5}', r"got 5"),
        (b'{"type":', "JSON"),
    ],
)
def test_what_is_no_event_is_refused_with_the_reason(data, message):
    with pytest.raises(RemoteProtocolError, match=message):
        decode_event(data)


def test_a_class_cannot_be_made_without_what_every_server_sends():
    with pytest.raises(TypeError, match="delta"):
        events.ResponseTextDeltaEvent(content_index=0, item_id="m", logprobs=[], output_index=0)
