"""`respevents.interop.pydantic`: our classes as fields, bodies and response models, checked by our schema set."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Annotated

import pytest
from hypothesis import given, settings

pydantic = pytest.importorskip("pydantic")
jsonschema = pytest.importorskip("jsonschema")
fastapi = pytest.importorskip("fastapi")

from fastapi import Body
from fastapi.testclient import TestClient

from respevents import UNSET, decode_event, encode_json, events, items, schemas
from respevents._objects import Object
from respevents.interop.pydantic import AnyEvent
from respevents.testing import strategies

EVENTS = {event["type"]: event["definition"] for event in schemas.manifest()["events"]}
CLASSES = sorted(
    {
        value
        for module in (events, items)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Object) and value not in (Object, events.Event)
    },
    key=lambda cls: cls.__name__,
)
ANY = pydantic.TypeAdapter(AnyEvent)
DELTA = {
    "type": "response.output_text.delta",
    "content_index": 0,
    "delta": "Hi",
    "item_id": "msg_1",
    "logprobs": [],
    "output_index": 0,
    "sequence_number": 4,
}


class Turn(pydantic.BaseModel):
    name: str
    last: events.ResponseTextDeltaEvent
    usage: items.ResponseUsage | None = None
    log: list[AnyEvent] = pydantic.Field(default_factory=list)


class Answer(pydantic.BaseModel):
    event: AnyEvent
    usage: items.ResponseUsage | None = None


@pytest.mark.parametrize("event_type", sorted(EVENTS))
def test_an_event_is_read_written_and_read_again(event_type):
    adapter = pydantic.TypeAdapter(getattr(events, EVENTS[event_type]))

    @settings(max_examples=15)
    @given(strategies.events(event_type))
    def check(event):
        ours = adapter.validate_python(event)
        assert type(ours).__name__ == EVENTS[event_type]
        assert encode_json(ours) == encode_json(event)
        written = adapter.dump_json(ours)
        assert json.loads(written) == json.loads(encode_json(event))
        assert list(json.loads(written)) == list(json.loads(encode_json(event))), "keys in wire order"
        again = adapter.validate_json(written)
        assert encode_json(again) == encode_json(event)
        assert adapter.validate_python(ours) is ours, "an instance is taken as it is"
        assert type(ANY.validate_python(event)) is type(ours)

    check()


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_has_a_valid_json_schema_for_reading_and_for_writing(cls):
    adapter = pydantic.TypeAdapter(cls)
    for mode in ("validation", "serialization"):
        schema = adapter.json_schema(mode=mode)
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["properties"], "not empty, and not a bare reference"


def test_a_class_that_holds_itself_is_read_and_described():
    inner = {"key": "k", "type": "eq", "value": "v"}
    nested = {"filters": [{"filters": [inner], "type": "or"}, inner], "type": "and"}
    adapter = pydantic.TypeAdapter(items.CompoundFilter)
    assert encode_json(adapter.validate_python(nested)) == encode_json(nested)
    schema = jsonschema.Draft202012Validator(adapter.json_schema())
    assert schema.is_valid(nested)
    assert not schema.is_valid({**nested, "filters": [{"filters": [5], "type": "or"}]})


@pytest.mark.parametrize(("mode", "profile"), [("validation", "wire"), ("serialization", "strict")])
@pytest.mark.parametrize("event_type", ["response.created", "response.output_item.done", "error", "response.queued"])
def test_the_json_schema_accepts_what_the_profile_accepts_and_no_less(event_type, mode, profile):
    generated = jsonschema.Draft202012Validator(
        pydantic.TypeAdapter(getattr(events, EVENTS[event_type])).json_schema(mode=mode)
    )
    ours = jsonschema.Draft202012Validator(schemas.definition(event_type, profile=profile))

    @settings(max_examples=15)
    @given(strategies.events(event_type, profile=profile))
    def check(event):
        assert ours.is_valid(event)
        assert generated.is_valid(event)
        for key in list(event):
            without = {name: value for name, value in event.items() if name != key}
            assert generated.is_valid(without) == ours.is_valid(without), key
            mistyped = {**event, key: 0.5}
            assert generated.is_valid(mistyped) == ours.is_valid(mistyped), key

    check()


def test_a_model_with_our_classes_as_fields():
    turn = Turn.model_validate({"name": "n", "last": DELTA, "log": [DELTA, {"type": "of.tomorrow", "x": 1}]})
    assert isinstance(turn.last, events.ResponseTextDeltaEvent)
    assert [type(event).__name__ for event in turn.log] == ["ResponseTextDeltaEvent", "UnknownEvent"]
    assert Turn.model_validate_json(turn.model_dump_json()) == turn
    assert json.loads(turn.model_dump_json())["log"][1] == {"type": "of.tomorrow", "x": 1}
    assert turn.model_dump()["last"] == DELTA
    schema = Turn.model_json_schema()
    assert schema["properties"]["last"]["properties"]["delta"]["type"] == "string"
    assert "ResponseTextDeltaEvent" in schema["$defs"], "the union's members are definitions of their own name"


@pytest.mark.parametrize(
    ("change", "where", "kind"),
    [
        ({"content_index": "0"}, ("content_index",), "int_type"),
        ({"content_index": True}, ("content_index",), "int_type"),
        ({"content_index": 0.5}, ("content_index",), "int_type"),
        ({"delta": b"x"}, ("delta",), "string_type"),
        ({"delta": UNSET}, ("delta",), "missing"),
        ({"type": "response.output_text.done"}, ("type",), "literal_error"),
        ({"logprobs": [{"token": "a", "logprob": float("nan")}]}, ("logprobs", 0, "logprob"), "finite_number"),
        ({"logprobs": {}}, ("logprobs",), "list_type"),
    ],
)
def test_what_the_wire_profile_refuses_is_an_error_at_its_place(change, where, kind):
    event = {key: value for key, value in {**DELTA, **change}.items() if value is not UNSET}
    with pytest.raises(pydantic.ValidationError) as caught:
        pydantic.TypeAdapter(events.ResponseTextDeltaEvent).validate_python(event)
    assert [(error["loc"], error["type"]) for error in caught.value.errors()] == [(where, kind)]


def test_an_error_inside_a_union_speaks_of_the_member_that_was_meant():
    with pytest.raises(pydantic.ValidationError) as caught:
        ANY.validate_python({
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {"type": "function_call", "id": "fc_1", "call_id": "c", "name": 7, "arguments": "{}"},
        })  # fmt: skip
    places = [error["loc"] for error in caught.value.errors()]
    assert ("response.output_item.done", "item", "function_call", "name") in places
    assert len(places) < 4, "one member, not thirty"


def test_an_error_event_needs_one_of_its_two_forms():
    for form in ({"message": "m"}, {"error": {"type": "t", "code": "c", "message": "m", "param": None}}):
        assert isinstance(ANY.validate_python({"type": "error", **form}), events.ResponseErrorEvent)
    with pytest.raises(pydantic.ValidationError, match="message or error"):
        ANY.validate_python({"type": "error", "code": "c"})


def test_an_unknown_event_has_a_type_that_no_schema_knows():
    adapter = pydantic.TypeAdapter(events.UnknownEvent)
    assert adapter.validate_python({"type": "of.tomorrow", "x": 1}).x == 1
    with pytest.raises(pydantic.ValidationError, match="a known type"):
        adapter.validate_python(DELTA)
    union = pydantic.TypeAdapter(events.ResponseStreamEvent)  # the plain union works too, if slower
    assert isinstance(union.validate_python(DELTA), events.ResponseTextDeltaEvent)
    assert isinstance(union.validate_python({"type": "of.tomorrow"}), events.UnknownEvent)


def test_an_integral_float_is_an_integer_as_in_json_and_unknown_keys_are_kept():
    event = ANY.validate_python({**DELTA, "content_index": 0.0, "zebra": {"b": 1, "a": 2}})
    assert encode_json(event) == encode_json({**DELTA, "zebra": {"b": 1, "a": 2}})


def test_another_class_in_a_field_is_refused():
    other = decode_event({"type": "keepalive", "sequence_number": 1})
    with pytest.raises(pydantic.ValidationError):
        pydantic.TypeAdapter(events.ResponseTextDeltaEvent).validate_python(other)


def test_a_fastapi_app_takes_and_answers_with_our_classes_and_documents_them():
    app = fastapi.FastAPI()

    @app.post("/events", response_model=events.ResponseTextDeltaEvent)
    def post_event(event: Annotated[events.ResponseTextDeltaEvent, Body()]):
        assert isinstance(event, events.ResponseTextDeltaEvent)
        return event

    @app.post("/any")
    def post_any(event: Annotated[AnyEvent, Body()]) -> Answer:
        return Answer(event=event)

    client = TestClient(app)
    answer = client.post("/events", json=DELTA)
    assert answer.status_code == 200
    assert answer.content == encode_json(DELTA)
    assert client.post("/any", json={"type": "of.tomorrow", "x": 1}).json()["event"] == {"type": "of.tomorrow", "x": 1}
    refused = client.post("/events", json={**DELTA, "delta": 5})
    assert refused.status_code == 422
    assert refused.json()["detail"][0]["loc"] == ["body", "delta"]
    document = client.get("/openapi.json").json()
    read = document["paths"]["/events"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert read["properties"]["delta"]["type"] == "string"
    answered = document["paths"]["/events"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert "logprobs" in answered["required"], "what is written follows the strict profile"
    assert "logprobs" not in read["required"]
    assert "ResponseCompletedEvent-Output" in document["components"]["schemas"]


def test_without_the_library_the_import_names_the_extra():
    code = "import sys; sys.modules['pydantic'] = None\nimport respevents.interop.pydantic"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "respevents.interop.pydantic needs pydantic" in run.stderr
    assert "pip install 'respevents[pydantic]'" in run.stderr
