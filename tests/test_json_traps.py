"""What JSON's text leaves open has one answer here. The rules are our choice where RFC 8259 leaves one."""

from __future__ import annotations

import json
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from respevents._canonical import MAX_DEPTH, MAX_INT_DIGITS
from respevents._errors import RemoteProtocolError
from respevents.wire import decode_json

# document, byte offset, path, words of the error
FAULTS = [
    (b"NaN", 0, None, "not finite"),
    (b'{"a":[1,NaN]}', 8, "$.a[1]", "not finite"),
    (b'{"a":Infinity}', 5, "$.a", "not finite"),
    (b'{"a":-Infinity}', 5, "$.a", "not finite"),
    (b'{"a":1e400}', 5, "$.a", "out of range"),
    (b"[0,-1E400]", 3, "$[1]", "out of range"),
    (b'{"a":1,"a":2}', 7, "$.a", "repeats a key"),
    (b'{"a":1,"a":1}', 7, "$.a", "repeats a key"),
    (b'{"a" :1,"a":2}', 8, "$.a", "repeats a key"),
    (b'{"a":1,"\\u0061":2}', 7, "$.a", "repeats a key"),
    (b'{"x":[{"b":{}},{"b":1,"c":2,"b":3}]}', 28, "$.x[1].b", "repeats a key"),
    (b'{"":1,"":2}', 6, "$['']", "repeats a key"),
    (b'{"a":"\\ud800"}', 6, "$.a", "lone surrogate"),
    (b'["x\\uDBFFyyyyyyyyyy"]', 3, "$[0]", "lone surrogate"),
    (b'["\\ude00"]', 2, "$[0]", "lone surrogate"),
    (b'["\\ud83d\\ud83d\\ude00"]', 2, "$[0]", "lone surrogate"),
    (b'["\\ud83d\\\\ude00"]', 2, "$[0]", "lone surrogate"),
    (b'["\\ud83d \\ude00"]', 2, "$[0]", "lone surrogate"),
    (b'{"\\ud800":1}', 2, None, "lone surrogate"),
    (b'{"a":"x\xff"}', 7, None, "UTF-8"),
    (b'"\xc0\x80"', 1, None, "UTF-8"),
    (b'"\xed\xa0\x80"', 1, None, "UTF-8"),
    (b'{"\xc3":1}', 2, None, "UTF-8"),
    (b"\xef\xbb\xbf{}", 0, None, "byte order mark"),
    (b"", 0, None, "empty"),
    (b" \n", 2, None, "empty"),
    (b"{} x", 3, None, "more data"),
    (b"{}{}", 2, None, "more data"),
    (b'{"a":1', 6, None, "ends"),
    (b'["abc', 5, "$[0]", "ends inside a string"),
    (b'["a\nb"]', 3, "$[0]", "control character"),
    (b'["\\x"]', 2, "$[0]", "unknown escape"),
    (b'["\\u12x4"]', 2, "$[0]", "unknown escape"),
    (b"[1,]", 3, None, "comma too many"),
    (b'{"a":1,}', 7, None, "comma too many"),
    (b"[1 2]", 3, None, "comma"),
    (b"{a:1}", 1, None, "double quotes"),
    (b'{"a" 1}', 5, "$.a", "colon"),
    (b"[01]", 1, "$[0]", "malformed number"),
    (b"[1.]", 1, "$[0]", "malformed number"),
    (b"[.5]", 1, "$[0]", "no value"),
    (b"[+1]", 1, "$[0]", "no value"),
    (b"['a']", 1, "$[0]", "no value"),
    (b"[tru]", 1, "$[0]", "no value"),
    (b"\x00", 0, None, "no value"),
    (b"[" * 10_000 + b"]" * 10_000, MAX_DEPTH, "$[0]", "nested deeper"),
    (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), MAX_DEPTH, "$[0]", "nested deeper"),
    (b'{"a":' * 10_000, 5 * MAX_DEPTH, "$.a", "nested deeper"),
    (b"[" + b"1" * (MAX_INT_DIGITS + 1) + b"]", 1, "$[0]", "digits"),
    (b"[-" + b"1" * MAX_INT_DIGITS + b"]", 1, "$[0]", "digits"),
]


@pytest.mark.parametrize(("data", "offset", "path", "words"), FAULTS, ids=[repr(case[0][:24]) for case in FAULTS])
def test_each_fault_is_named_with_its_place(data, offset, path, words):
    with pytest.raises(RemoteProtocolError, match=words) as caught:
        decode_json(data)
    assert (caught.value.offset, caught.value.path) == (offset, path)


SOUND = [
    (b'{"a":1,"b":{"a":1}}', {"a": 1, "b": {"a": 1}}),
    (b' {"a" : [1 ,2 ] }\r\n', {"a": [1, 2]}),
    (b'"\\ud83d\\ude00\\u0000\\/"', "😀\0/"),
    (b'"\\\\ud800"', "\\ud800"),
    ('"\u2028\x7f\x85\ufeff"'.encode(), "\u2028\x7f\x85\ufeff"),
    (b'{"text":"\\":\\":\\":"}', {"text": '":":":'}),
    (b"18446744073709551617", 2**64 + 1),
    (b"-18446744073709551617", -(2**64) - 1),
    (b"9007199254740993", 2**53 + 1),
    (b"1e308", 1e308),
    (b"1e-400", 0.0),
    (b"[null,true,false]", [None, True, False]),
    (b'[{"a":1},{"a":2}]', [{"a": 1}, {"a": 2}]),
]


@pytest.mark.parametrize(("data", "value"), SOUND)
def test_sound_documents_are_read_exactly(data, value):
    assert decode_json(data) == value
    assert decode_json(bytearray(data)) == decode_json(memoryview(data)) == decode_json(data.decode()) == value


def test_an_integral_float_stays_a_float_until_a_field_says_more():
    assert type(decode_json(b"11.0")) is float
    assert type(decode_json(b"11")) is int


def test_the_longest_integer_and_the_deepest_document_are_read():
    digits = b"9" * MAX_INT_DIGITS
    assert decode_json(digits) == 10**MAX_INT_DIGITS - 1
    deep = b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert json.dumps(decode_json(deep)).encode() == deep


def test_text_with_a_lone_surrogate_is_a_fault_of_the_peer_too():
    with pytest.raises(RemoteProtocolError, match="surrogate") as caught:
        decode_json('"é\ud800"')
    assert caught.value.offset == 3


def test_a_reader_deep_in_the_stack_gets_the_defined_error():
    def down(left):
        return decode_json(b"[" * 200 + b"]" * 200) if left == 0 else down(left - 1)

    room = sys.getrecursionlimit() - 120
    with pytest.raises((RemoteProtocolError, RecursionError)) as caught:
        down(room)
    # The frames of `down` alone may overflow; what decode_json raises itself is never a RecursionError.
    if caught.type is RecursionError:
        assert "decode_json" not in str(caught.traceback[-1].name)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(json_values, st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_what_python_writes_is_read_back_in_any_layout(value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    assert decode_json(text.encode()) == value


@given(st.text('{}[]",:\\u0d8ae1.-+ \n\tntrf', max_size=24))
def test_it_reads_what_python_reads_and_refuses_the_rest(text):
    """Python's reader is the reference, made as strict as RFC 8259 and our choices."""

    def unique(pairs):
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    def refuse(_):
        raise ValueError

    try:
        want = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
        json.dumps(want, ensure_ascii=False).encode()  # no lone surrogates
        json.dumps(want, allow_nan=False)  # no overflow
    except (ValueError, AssertionError):
        with pytest.raises(RemoteProtocolError):
            decode_json(text)
    else:
        assert decode_json(text) == want


@given(json_values, st.data())
def test_a_damaged_document_gives_a_value_or_the_one_error(value, data):
    body = bytearray(json.dumps(value).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_json(bytes(body))
    except RemoteProtocolError as error:
        assert error.offset is not None, error  # the scan found what msgspec refused
        assert 0 <= error.offset <= len(body)


@pytest.mark.parametrize(
    "body",
    [
        b'["' + b"\\n" * 500_000,
        b"[" + b"1," * 500_000,
        b'{"a":1,' * 200,
        b'"' + b"x" * 1_000_000,
        b'["\\ud800' + b"\\n" * 500_000 + b'"]',
        b"[" + b'"\\u0041":' * 1000,
    ],
)
def test_naming_a_fault_takes_linear_time(body):
    start = time.perf_counter()
    with pytest.raises(RemoteProtocolError):
        decode_json(body)
    assert time.perf_counter() - start < 5
