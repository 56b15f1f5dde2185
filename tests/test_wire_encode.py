"""The serializer: one event, one sequence of bytes, whatever form it comes in; and what it refuses, with the path."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import json
import math
import types
import uuid
from typing import Any, ClassVar, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from respevents import _canonical, _direct, wire
from respevents._canonical import MAX_DEPTH, MAX_INT_DIGITS
from respevents._errors import EncodeError
from respevents._generated import tables
from respevents.events import ResponseCreatedEvent, ResponseTextDeltaEvent, decode_event
from respevents.wire import _plan, encode_frame, encode_json, frame_bytes, to_wire

DELTA = {
    "type": "response.output_text.delta",
    "content_index": 0,
    "delta": "Hi",
    "item_id": "msg_1",
    "logprobs": [],
    "output_index": 0,
    "sequence_number": 4,
}
DELTA_JSON = (
    b'{"type":"response.output_text.delta","content_index":0,"delta":"Hi","item_id":"msg_1","logprobs":[],'
    b'"output_index":0,"sequence_number":4}'
)


def event(**keys: Any) -> dict[str, Any]:
    """An event of a type no schema knows."""
    return {"type": "x.new", **keys}


def text(value: Any) -> str:
    return encode_json(value).decode()


def delta(**keys: Any) -> ResponseTextDeltaEvent:
    return ResponseTextDeltaEvent(**{**{key: one for key, one in DELTA.items() if key != "type"}, **keys})


class Word(str):
    __slots__ = ()


class Kind(str, enum.Enum):
    DELTA = "response.output_text.delta"
    WORD = "w"


class Level(enum.IntEnum):
    THREE = 3


class Plain(enum.Enum):
    VALUE = "v"


class Whole(int):
    pass


class Real(float):
    pass


class Pair(NamedTuple):
    a: int
    b: str


# ---- bytes -----------------------------------------------------------------------------------------------------


def test_a_frame_is_event_line_data_line_and_blank_line():
    want = b"event: response.output_text.delta\ndata: " + DELTA_JSON + b"\n\n"
    assert encode_frame(DELTA) == encode_frame(delta()) == want
    assert frame_bytes("response.output_text.delta", DELTA_JSON) == want


def test_keys_come_in_wire_order_whatever_order_they_were_given_in():
    assert encode_json(dict(reversed(DELTA.items()))) == DELTA_JSON


def test_a_response_starts_with_id_object_created_at_status_and_ends_with_user_metadata():
    response = dict.fromkeys(["metadata", "aa", "user", "zz", "usage", "status", "created_at", "object", "id", "type"])
    keys = list(to_wire({"type": "response.created", "response": response})["response"])
    assert keys == ["id", "object", "created_at", "status", "aa", "type", "usage", "zz", "user", "metadata"]
    alone = {**response, "object": "response"}
    del alone["type"]
    assert list(to_wire(alone)) == [key for key in keys if key != "type"]


@pytest.mark.parametrize("kind", ["message", "function_call", "a_type_from_tomorrow"])
def test_an_item_starts_with_id_type_status_and_ends_with_metadata(kind):
    item = {"metadata": None, "zz": 1, "aa": 1, "status": "completed", "type": kind, "id": "i"}
    want = ["id", "type", "status", "aa", "zz", "metadata"]
    assert list(to_wire({"type": "response.output_item.done", "item": item})["item"]) == want
    assert (
        list(to_wire({"type": "response.completed", "response": {"output": [item]}})["response"]["output"][0]) == want
    )


def test_what_no_schema_knows_has_type_first_then_the_alphabet_at_every_depth():
    value = event(b=[{"d": 1, "c": {"z": 1, "type": 2, "y": 3}}], a={"k": 1, "B": 2, "type": "t"})
    assert text(value) == '{"type":"x.new","a":{"type":"t","B":2,"k":1},"b":[{"c":{"type":2,"y":3,"z":1},"d":1}]}'
    inside = {**DELTA, "zz": {"b": 1, "type": 2, "a": 3}, "aa": 1}
    assert encode_json(inside).startswith(b'{"type":"response.output_text.delta","aa":1,"content_index":0')
    assert encode_json(inside).endswith(b'"sequence_number":4,"zz":{"type":2,"a":3,"b":1}}')


def test_json_the_user_owns_keeps_its_order_at_every_depth():
    schema = {"zeta": {"type": "object", "b": [{"y": 1, "x": 2}], "a": 1}, "type": "object", "alpha": 2}
    response = {
        "metadata": {"b": "1", "type": "2", "a": "3"},
        "tools": [{"strict": True, "type": "function", "parameters": schema, "name": "f"}],
        "text": {"format": {"schema": schema, "name": "n", "type": "json_schema"}},
    }
    out = to_wire({"type": "response.created", "response": response})["response"]
    assert list(out["metadata"]) == ["b", "type", "a"]
    assert list(out["tools"][0]) == ["type", "name", "parameters", "strict"]
    assert json.dumps(out["tools"][0]["parameters"]) == json.dumps(schema)
    assert json.dumps(out["text"]["format"]["schema"]) == json.dumps(schema)


def test_text_is_raw_utf8_with_the_shortest_escapes():
    raw = "é\u2028\u2029\x85\ufeff\x7f/<😀"
    assert text(event(a=raw)) == f'{{"type":"x.new","a":"{raw}"}}'
    assert text(event(a='"\\\b\f\n\r\t\0\x1f')) == '{"type":"x.new","a":"\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f"}'


def test_absent_stays_absent_and_null_stays_null():
    assert (
        text({"type": "response.created", "response": {"usage": None}})
        == '{"type":"response.created","response":{"usage":null}}'
    )
    assert to_wire(delta(obfuscation=UNSET)) == DELTA
    assert to_wire({**DELTA, "obfuscation": UNSET}) == DELTA
    assert to_wire({**DELTA, "obfuscation": None}) == {**DELTA, "obfuscation": None} == to_wire(delta(obfuscation=None))


# ---- numbers ---------------------------------------------------------------------------------------------------


def test_a_float_field_writes_a_point_and_an_integer_field_none():
    response = {"temperature": 1, "top_p": 0, "created_at": 1700000000.0, "top_logprobs": 11.0, "frequency_penalty": -2}
    assert text({"type": "response.created", "response": response}) == (
        '{"type":"response.created","response":{"created_at":1700000000,"frequency_penalty":-2.0,"temperature":1.0,"top_logprobs":11,"top_p":0.0}}'
    )


def test_nothing_else_is_coerced():
    response = {
        "temperature": True,
        "top_p": "1",
        "created_at": 11.5,
        "top_logprobs": False,
        "model": 1.0,
        "max_output_tokens": "3",
    }
    assert to_wire({"type": "response.created", "response": response})["response"] == response
    assert text(event(a=1.0, b=1)) == '{"type":"x.new","a":1.0,"b":1}'
    assert text(event(sequence_number=3.0)) == '{"type":"x.new","sequence_number":3}'


def test_class_and_mapping_agree_on_numbers_of_the_wrong_kind():
    assert encode_json(delta(sequence_number=4.0, output_index=0.0)) == DELTA_JSON
    assert b'"output_index":true' in encode_json(delta(output_index=True))
    assert b'"content_index":0.5' in encode_json(delta(content_index=0.5))


def test_integers_are_exact_at_any_size():
    for number in (2**53 + 1, 2**63, 2**64, 2**64 + 1, -(2**63) - 1, 10**300, 10**MAX_INT_DIGITS - 1):
        assert text(event(a=number)) == f'{{"type":"x.new","a":{number}}}'
        assert text({"type": "response.created", "response": {"max_output_tokens": number}}).endswith(f":{number}}}}}")
        assert str(number).encode() in encode_json(delta(sequence_number=number))
    for number in (10**MAX_INT_DIGITS, -(10**MAX_INT_DIGITS)):
        with pytest.raises(EncodeError, match=r"too long at \$\.sequence_number"):
            encode_json(delta(sequence_number=number))


def test_an_integer_that_no_float_holds_stays_as_it_is_in_a_float_field():
    assert (
        to_wire({"type": "response.created", "response": {"temperature": 2**53 + 1}})["response"]["temperature"]
        == 2**53 + 1
    )
    assert b'"temperature":1e300' not in encode_json({"type": "response.created", "response": {"temperature": 10**300}})


@pytest.mark.parametrize(
    ("number", "form"),
    [
        (1.0, "1.0"),
        (0.1, "0.1"),
        (-0.0, "-0.0"),
        (1e16, "1e16"),
        (1e15, "1000000000000000.0"),
        (0.00001, "0.00001"),
        (1e-6, "1e-6"),
        (0.699999988079071, "0.699999988079071"),
        (5e-324, "5e-324"),
    ],
)
def test_floats_have_the_shortest_form_that_reads_back(number, form):
    assert text(event(a=number)) == f'{{"type":"x.new","a":{form}}}'


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_the_floor_in_a_logprob_and_refused_elsewhere(number):
    entry = {"token": "a", "logprob": number, "top_logprobs": [{"token": "b", "logprob": number}]}
    form = b'{"logprob":-9999.0,"token":"a","top_logprobs":[{"logprob":-9999.0,"token":"b"}]}'
    assert form in encode_json({**DELTA, "logprobs": [entry]})
    assert form in encode_json(decode_event({**DELTA, "logprobs": [entry]}))
    assert text(event(a={"logprob": number})) == '{"type":"x.new","a":{"logprob":-9999.0}}'
    for value, path in [
        ({**DELTA, "zz": number}, "$.zz"),
        ({"type": "response.created", "response": {"temperature": number}}, "$.response.temperature"),
        (
            {
                "type": "response.created",
                "response": {"tools": [{"type": "function", "parameters": {"logprob": [number]}}]},
            },
            "$.response.tools[0].parameters.logprob[0]",
        ),
    ]:
        for form in (value, decode_event(value)):
            with pytest.raises(EncodeError) as caught:
                encode_json(form)
            assert caught.value.path == path
            assert caught.value.fix


# ---- what JSON cannot carry ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        b"x",
        bytearray(b"x"),
        memoryview(b"x"),
        dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc),
        dt.date(2026, 1, 1),
        decimal.Decimal("1.5"),
        uuid.UUID(int=0),
        {1},
        frozenset(),
        complex(1),
        object(),
        (one for one in ()),
        range(3),
        msgspec.Raw(b"1"),
        Exception("x"),
        ...,
        collections.deque([1]),
        type,
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("place", ["delta", "zz", "free", "list"])
def test_values_of_no_json_type_are_refused_with_path_and_fix_in_every_place(value, place):
    if place == "delta":
        forms, path = [{**DELTA, "delta": value}, delta(delta=value)], "$.delta"
    elif place == "zz":
        forms, path = [{**DELTA, "zz": {"a": value}}, delta(extra={"zz": {"a": value}})], "$.zz.a"
    elif place == "list":
        forms, path = [{**DELTA, "logprobs": [value]}, delta(logprobs=[value])], "$.logprobs[0]"
    else:
        whole = {
            "type": "response.created",
            "sequence_number": 0,
            "response": {"tools": [{"type": "function", "parameters": {"a": [value]}}]},
        }
        forms, path = [whole, decode_event(whole)], "$.response.tools[0].parameters.a[0]"
    for form in forms:
        for encode in (encode_json, encode_frame, to_wire):
            with pytest.raises(EncodeError) as caught:
                encode(form)
            assert caught.value.path == path
            assert caught.value.fix
            assert type(value).__name__ in str(caught.value)


@pytest.mark.parametrize("bad", ["\ud800", "a\udfffb", "\ud83d", "\ude00\ud83d"])
def test_a_lone_surrogate_is_refused_with_its_path(bad):
    for form in ({**DELTA, "delta": bad}, delta(delta=bad)):
        with pytest.raises(EncodeError, match=r"surrogate.*\$\.delta") as caught:
            encode_frame(form)
        str(caught.value).encode()
    with pytest.raises(EncodeError, match="surrogate"):
        encode_json({**DELTA, bad: 1})
    with pytest.raises(EncodeError, match="surrogate"):
        encode_json(delta(extra={"a": [bad]}))
    assert "😀" in text({**DELTA, "delta": "\U0001f600"})


@pytest.mark.parametrize("key", [1, 1.5, None, True, b"k", ("a",)])
def test_keys_that_are_not_text_are_refused(key):
    whole = {"type": "response.created", "response": {"metadata": {key: "v"}}}
    for form, path in [
        ({**DELTA, key: 1}, "$"),
        (event(a=[{key: 1}]), "$.a[0]"),
        (whole, "$.response.metadata"),
        (decode_event(whole), "$.response.metadata"),
    ]:
        with pytest.raises(EncodeError, match="key") as caught:
            encode_json(form)
        assert caught.value.path == path


@pytest.mark.parametrize("bad", [None, 1, "text", b"{}", [], [DELTA], 1.5, object(), {1}])
def test_what_is_no_object_is_no_event(bad):
    for encode in (encode_json, encode_frame, to_wire):
        with pytest.raises(EncodeError):
            encode(bad)


def nested(depth, box):
    value: Any = 1
    for _ in range(depth):
        value = box(value)
    return value


@pytest.mark.parametrize(
    "box",
    [
        lambda value: [value],
        lambda value: (value,),
        lambda value: {"a": value},
        lambda value: types.MappingProxyType({"a": value}),
    ],
)
def test_depth_is_bounded_and_never_overflows_the_stack(box):
    deepest = nested(MAX_DEPTH - 1, box)
    encode_json(event(a=deepest))
    free = {"type": "response.created", "response": {"metadata": nested(MAX_DEPTH - 2, box)}}
    encode_json(free)
    encode_json(decode_event(free))
    for form in (
        event(a=nested(MAX_DEPTH, box)),
        event(a=nested(10_000, box)),
        {"type": "response.created", "response": {"metadata": nested(MAX_DEPTH - 1, box)}},
        {"type": "response.created", "response": {"metadata": nested(10_000, box)}},
        ResponseCreatedEvent(response={"metadata": nested(10_000, box)}),
        delta(extra={"a": nested(10_000, box)}),
        delta(delta=nested(10_000, box)),
        delta(logprobs=nested(10_000, box)),
    ):
        with pytest.raises(EncodeError, match="nested too deep"):
            encode_json(form)


def test_a_cycle_ends_as_too_deep():
    cycle: dict[str, Any] = {"type": "x"}
    cycle["self"] = [cycle]
    with pytest.raises(EncodeError, match="cycle"):
        encode_json(cycle)


def test_a_frame_needs_a_type_of_one_line():
    for bad in ({}, {"type": None}, {"type": 1}, {"type": ""}, {"type": "a\nb"}, {"type": "a\rdata: x"}):
        with pytest.raises(EncodeError) as caught:
            encode_frame(bad)
        assert caught.value.path == "$.type"
        assert json.loads(encode_json(bad)) == bad
    for data in (b'{\n"a":1}', b"1\r"):
        with pytest.raises(EncodeError):
            frame_bytes("a", data)


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (lambda: encode_frame({}), "An event needs a `type` at $.type: expected a string, got no such key"),
        (lambda: encode_frame({"type": 1}), "An event needs a `type` at $.type: expected a string, got 1"),
        (lambda: frame_bytes("a\nb", b"{}"), r"An event type is one line of text at $.type: got 'a\nb'"),
        (lambda: frame_bytes("a", b"1\r"), r"The JSON of a frame is one line: got b'1\r'. Write it compact."),
    ],
)
def test_an_event_that_makes_no_frame_is_told_what_and_where(step, said):
    with pytest.raises(EncodeError) as caught:
        step()
    assert str(caught.value) == said


def test_a_stack_that_is_nearly_full_is_an_encode_error(monkeypatch):
    def full(_):
        raise RecursionError

    monkeypatch.setattr(wire, "_encode", full)
    with pytest.raises(EncodeError) as caught:
        encode_json(DELTA)
    assert str(caught.value) == "The value is nested too deep for what is left of the stack at $"


@pytest.mark.parametrize("encode", [encode_json, encode_frame])
def test_a_class_is_looked_at_once_and_its_events_are_written_directly(monkeypatch, encode):
    """Choice: the hot path, see the bounds of the design; the slow path would give the same bytes."""
    looked = []

    def look(cls):
        looked.append(cls)
        return _direct.event_check(cls)

    expected = encode(DELTA)
    monkeypatch.setattr(wire, "_plans", {})
    monkeypatch.setattr(wire, "event_check", look)
    monkeypatch.setattr(wire, "canonical", None)
    assert [encode(delta()), encode(delta())] == [expected, expected]
    assert looked == [ResponseTextDeltaEvent]


# ---- forms -----------------------------------------------------------------------------------------------------


def test_subclasses_and_enums_are_written_by_value():
    class Mine(dict):
        pass

    for value, form in [
        (Word("é"), '"é"'),
        (Kind.WORD, '"w"'),
        (Level.THREE, "3"),
        (Plain.VALUE, '"v"'),
        (Whole(7), "7"),
        (Real(1.5), "1.5"),
        (Pair(1, "b"), '[1,"b"]'),
        ((1, 2), "[1,2]"),
        (Mine(b=1, a=2), '{"a":2,"b":1}'),
        (collections.OrderedDict(a=1), '{"a":1}'),
        (types.MappingProxyType({"a": 1}), '{"a":1}'),
        (collections.ChainMap({"a": 1}, {"b": 2}), '{"a":1,"b":2}'),
    ]:
        assert text(event(a=value)) == f'{{"type":"x.new","a":{form}}}'
        assert text(delta(extra={"aa": value})) == DELTA_JSON.decode().replace('"content', f'"aa":{form},"content')
    assert encode_json({**DELTA, "type": Kind.DELTA, "delta": Word("Hi")}) == DELTA_JSON
    assert encode_frame({Word(key): one for key, one in DELTA.items()} | {Kind.WORD: 1}).endswith(b',"w":1}\n\n')
    assert encode_json(delta(delta=Word("Hi"), output_index=Whole(0))) == DELTA_JSON
    assert encode_json(types.MappingProxyType(DELTA)) == DELTA_JSON


def test_plain_types_are_all_that_to_wire_gives():
    out = to_wire({**DELTA, "delta": Word("x"), "zz": (Whole(1), types.MappingProxyType({Word("k"): Real(1.0)}))})
    assert type(out["delta"]) is str
    assert type(out["zz"]) is list
    assert [type(one) for one in out["zz"]] == [int, dict]
    assert [(type(key), type(one)) for key, one in out["zz"][1].items()] == [(str, float)]


def test_keys_in_extra_take_their_alphabetical_place_and_may_not_repeat_a_field():
    assert b'"item_id":"msg_1","j":1,"logprobs"' in encode_json(delta(extra={"j": 1}))
    assert encode_json(delta(extra={})) == DELTA_JSON
    assert encode_json(delta(obfuscation=UNSET, extra={"obfuscation": "x"})) == encode_json(delta(obfuscation="x"))
    with pytest.raises(EncodeError, match="repeats"):
        encode_json(delta(extra={"delta": "x"}))
    with pytest.raises(EncodeError, match="mapping"):
        encode_json(delta(extra=["x"]))


def test_a_class_with_the_type_of_another_event_is_written_as_that_event():
    wrong = delta(type="response.created", extra={"response": {"temperature": 1}})
    assert encode_json(wrong) == encode_json({**DELTA, "type": "response.created", "response": {"temperature": 1}})
    assert b'"temperature":1.0' in encode_json(wrong)


def test_mappings_and_classes_may_hold_each_other():
    whole = {
        "type": "response.created",
        "response": {"object": "response", "id": "r", "temperature": 1, "tools": [{"name": "f", "type": "function"}]},
        "sequence_number": 0,
    }
    inner = decode_event(whole).response
    want = b'{"type":"response.created","response":{"id":"r","object":"response","temperature":1.0,"tools":[{"type":"function","name":"f"}]},"sequence_number":0}'
    assert encode_json(whole) == want
    assert encode_json({**whole, "response": inner}) == want
    assert encode_json(ResponseCreatedEvent(response=whole["response"], sequence_number=0)) == want
    assert encode_json(inner) == encode_json(whole["response"])


def test_a_struct_of_another_library_is_refused():
    class Foreign(msgspec.Struct):
        type: str = "x"

    with pytest.raises(EncodeError, match="Foreign"):
        encode_json(Foreign())
    with pytest.raises(EncodeError, match="Foreign") as caught:
        encode_json({**DELTA, "a": Foreign()})
    assert caught.value.path == "$.a"


def test_a_pydantic_model_is_its_set_fields_by_alias_with_its_extras():
    pydantic = pytest.importorskip("pydantic")

    class Part(pydantic.BaseModel):
        model_config: ClassVar = {"extra": "allow"}
        schema_: Any = pydantic.Field(alias="schema", default=None)
        unset: int = 3

    class Model(pydantic.BaseModel):
        type: str
        part: Any
        created_at: float
        nothing: int | None = None

    part = Part(schema={"z": 1, "a": 2}, more=[1])
    model = Model(type="x.new", part=part, created_at=1.0)
    want = b'{"type":"x.new","created_at":1.0,"part":{"more":[1],"schema":{"a":2,"z":1}}}'
    assert encode_json(model) == want
    assert encode_json({"type": "x.new", "created_at": 1.0, "part": part}) == want
    assert encode_json(Model(type="x.new", part=part, created_at=1.0, nothing=None)) == want.replace(
        b'"part"', b'"nothing":null,"part"'
    )
    assert b'"zz":{"more":[1]' in encode_json(delta(extra={"zz": part}))
    assert b'"logprobs":[{"more"' in encode_json(delta(logprobs=[part]))
    for bad, path in [
        (b"x", "$.part.schema"),
        (math.nan, "$.part.schema"),
        ("\ud800", "$.part.schema"),
        ({1: 2}, "$.part.schema"),
    ]:
        with pytest.raises(EncodeError) as caught:
            encode_json(Model(type="x.new", part=Part(schema=bad), created_at=1.0))
        assert caught.value.path == path


def test_a_model_whose_dump_fails_is_an_encode_error():
    pydantic = pytest.importorskip("pydantic")

    class Broken(pydantic.BaseModel):
        type: str

        @pydantic.field_serializer("type")
        def fail(self, value):
            raise RuntimeError("no")

    with pytest.raises(EncodeError, match="dumped") as caught:
        encode_json(event(a=Broken(type="x")))
    assert caught.value.path == "$.a"
    assert caught.value.__cause__ is not None


# ---- the fast path is exact --------------------------------------------------------------------------------------


def fast(value: Any) -> bool:
    return _plan(type(value))[0](value)


def test_ordinary_events_take_the_fast_path_and_those_that_need_care_do_not():
    assert fast(delta())
    assert fast(delta(obfuscation="x", logprobs=[]))
    assert fast(decode_event({**DELTA, "logprobs": [{"token": "a", "logprob": -0.5, "top_logprobs": []}]}))
    assert fast(
        decode_event(
            {"type": "response.created", "response": {"temperature": 1, "metadata": {"b": "1", "a": "2"}, "output": []}}
        )
    )
    for value in (
        delta(extra={"a": 1}),
        delta(sequence_number=1.0),
        delta(delta=b"x"),
        delta(type="response.created"),
        delta(logprobs=[{}]),
        ResponseCreatedEvent(response={"b": 1, "a": 1}),
        decode_event({**DELTA, "logprobs": [{"token": "a", "logprob": -math.inf}]}),
        decode_event({"type": "response.created", "response": {"metadata": {1: "x"}}}),
    ):
        assert not fast(value)


def test_every_class_is_written_directly_when_all_is_plain():
    from respevents._generated import events, items

    for module in (events, items):
        for name in module.__all__:
            cls = getattr(module, name)
            if isinstance(cls, type) and issubclass(cls, msgspec.Struct):
                assert _direct._struct(cls) is not _direct.never, name


odd = st.one_of(
    st.sampled_from(
        [
            None,
            UNSET,
            True,
            0,
            1,
            2**64,
            11.0,
            0.5,
            math.nan,
            math.inf,
            "",
            "x",
            "é",
            "\ud800",
            b"x",
            Word("w"),
            Kind.WORD,
            Level.THREE,
            Plain.VALUE,
            Whole(1),
            Real(1.0),
            {1},
            (),
            [],
            {},
            decimal.Decimal(1),
        ]
    ),
)
keys = st.sampled_from(["type", "a", "b", "logprob", "metadata", Word("k"), 1, "é", "schema", "id", "status"])
any_value = st.recursive(
    odd,
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


def outcome(value):
    try:
        return encode_json(value)
    except EncodeError as error:
        return error.path


def mapping(value):
    """A Struct and all Structs in it as plain mappings, values untouched."""
    if isinstance(value, msgspec.Struct):
        fields = {
            wire: getattr(value, name)
            for name, wire in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
            if name != "extra"
        }
        extra = value.extra if isinstance(value.extra, dict) else {}
        return {key: mapping(one) for key, one in (fields | extra).items()}
    if type(value) in {list, tuple}:
        return [mapping(one) for one in value]
    return value


@given(
    st.dictionaries(
        st.sampled_from(
            ["content_index", "delta", "item_id", "logprobs", "obfuscation", "output_index", "sequence_number"]
        ),
        any_value,
        max_size=3,
    ),
    st.none() | st.dictionaries(st.sampled_from(["aa", "zz", "m"]), any_value),
)
def test_a_class_with_any_values_gives_what_its_mapping_gives(values, extra):
    form = delta(**values, **({} if extra is None else {"extra": extra}))
    assert outcome(form) == outcome(mapping(form))


TOP = {
    "type": "response.completed",
    "response": {
        "id": "r",
        "object": "response",
        "temperature": 1.0,
        "metadata": {"a": "b"},
        "usage": {"input_tokens": 1, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 1},
        "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}],
        "output": [
            {
                "id": "m",
                "type": "message",
                "status": "completed",
                "content": [
                    {
                        "type": "output_text",
                        "text": "x",
                        "annotations": [],
                        "logprobs": [{"token": "a", "logprob": -1.0}],
                    }
                ],
            }
        ],
    },
    "sequence_number": 3,
}


def _places(value, path=()):
    yield path
    for key, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _places(one, (*path, key))


def _replaced(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _replaced(value[path[0]], path[1:], new)
    return copy


@given(st.sampled_from([path for path in _places(TOP) if path and path != ("type",)]), any_value)
def test_a_deep_class_with_one_odd_value_gives_what_its_mapping_gives(path, new):
    form = decode_event(_replaced(TOP, path, new))
    assert outcome(form) == outcome(mapping(form))


@given(any_value, any_value)
def test_what_is_written_is_json_and_writing_it_again_changes_nothing(first, second):
    for form in (event(a=first, b=second), {**DELTA, "delta": first, "zz": second}):
        try:
            out = encode_json(form)
        except EncodeError as error:
            assert error.path is not None
            continue
        assert encode_json(json.loads(out)) == out
        assert b"NaN" not in out
        assert next(iter(json.loads(out))) == "type"


def test_every_float_field_of_the_tables_is_a_float_and_every_counter_an_integer():
    """By reflection: a new field is tested the moment it is in the tables."""
    seen = collections.Counter()
    for shape, fields in tables.FIELDS.items():
        write = _canonical._shape(shape)
        for key, kind in fields.items():
            if kind in ("int", "float"):
                out = write({key: 3 if kind == "float" else 3.0}, 0)
                assert repr(out) == repr({key: 3.0 if kind == "float" else 3})
                seen[kind] += 1
    assert seen["int"] > 200
    assert seen["float"] > 10
