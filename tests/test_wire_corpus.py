"""The serializer against bytes nobody here wrote: streams captured from servers."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest

from conftest import shared_path
from respevents._errors import RemoteProtocolError
from respevents.events import decode_event
from respevents.wire import FrameDecoder, decode_json, encode_frame, encode_json

CORPUS = shared_path("corpus")
ROWS = [json.loads(line) for line in (CORPUS / "index.jsonl").read_text().splitlines()]

SINCE = datetime(2026, 1, 13, tzinfo=timezone.utc).timestamp()
"""From this day on OpenAI orders keys as it does now."""


def read(row):
    """The bytes of the data lines and the events of a file; what is no JSON (hand-written files) is left out."""
    body = (CORPUS / row["file"]).read_bytes()
    decoder = FrameDecoder()
    frames = decoder.feed(body) + decoder.close()
    assert b"".join(frame.raw for frame in frames) == body
    out = []
    for frame in frames:
        if frame.data and frame.data != b"[DONE]":
            try:
                out.append((frame.data, decode_json(frame.data)))
            except RemoteProtocolError:
                assert row["captured_or_handwritten"] == "handwritten", row["file"]
    return out


def _is_canonical(row, events):
    """Whether a file holds OpenAI's own bytes of today, background mode aside (another code path of theirs)."""
    responses = [event["response"] for _, event in events if isinstance(event.get("response"), dict)]
    times = [one["created_at"] for one in responses if isinstance(one.get("created_at"), (int, float))]
    return (
        (row["producer"], row["captured_or_handwritten"], row["fidelity"]) == ("openai", "captured", "raw")
        and bool(times)
        and min(times) >= SINCE
        and not any(one.get("background") for one in responses)
    )


FILES = [(row, read(row)) for row in ROWS]
CANONICAL = [(row["file"], events) for row, events in FILES if _is_canonical(row, events)]


def same(a, b):
    """JSON equality: 1 equals 1.0, and True equals True alone."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def test_equality_tells_numbers_from_booleans():
    assert same({"a": [1, None]}, {"a": [1.0, None]})
    assert not same([1], [True])
    assert not same([0.0], [False])
    assert not same({"a": None}, {})
    assert not same([1], [1, 2])


def test_the_captures_of_today_are_enough_to_say_something():
    assert len(CANONICAL) >= 200
    kinds = {event["type"] for _, events in CANONICAL for _, event in events}
    assert len(kinds) >= 20


@pytest.mark.parametrize("form", ["mapping", "class"])
def test_every_data_line_openai_sends_today_is_reproduced_byte_for_byte(form):
    for file, events in CANONICAL:
        for data, event in events:
            assert encode_json(event if form == "mapping" else decode_event(data)) == data, file


def test_whole_frames_openai_sends_today_are_reproduced_byte_for_byte():
    for file, events in CANONICAL:
        decoder = FrameDecoder()
        frames = decoder.feed((CORPUS / file).read_bytes())
        assert [encode_frame(event) for _, event in events] == [frame.raw for frame in frames], file


def test_every_other_capture_keeps_its_values_and_encodes_to_the_same_bytes_again():
    """Of any producer and any age, hand-written files among them: nothing is lost, nothing is made up."""
    seen = 0
    for row, events in FILES:
        for data, event in events:
            if isinstance(event, dict):
                seen += 1
                out = encode_json(event)
                assert same(json.loads(out), json.loads(data)), row["file"]
                assert encode_json(decode_json(out)) == out, row["file"]
                if isinstance(event.get("type"), str):
                    assert encode_json(decode_event(event)) == out, row["file"]
    assert seen > 20_000


def test_keys_and_events_that_no_schema_knows_survive():
    for _, events in CANONICAL[:20]:
        for data, event in events:
            known = encode_json({**event, "zz_new": {"b": 1, "type": "x", "a": [None, {"d": 1, "c": 2}]}})
            assert json.loads(known)["zz_new"] == {"b": 1, "type": "x", "a": [None, {"d": 1, "c": 2}]}
            assert known == data[:-1] + b',"zz_new":{"type":"x","a":[null,{"c":2,"d":1}],"b":1}}'
            renamed = {**event, "type": "response.new.thing"}
            assert same(json.loads(encode_json(renamed)), renamed)
            assert same(json.loads(encode_json(decode_event(renamed))), renamed)
