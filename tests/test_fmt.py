"""`respevents fmt`: canonical bytes, and what is said of frames that are not."""

from __future__ import annotations

import json

import pytest

import recordings
from conftest import shared_path
from respevents import FrameDecoder, encode_frame, read_captures
from respevents._compare import KINDS, compare, frames_of
from respevents._fmt import format_capture
from respevents.cli import main

BODY = recordings.stream()


def formatted(data):
    return [one for capture in read_captures(data) for one in format_capture(capture)]


def spaced(body):
    """The stream as `json.dumps` writes it, with sorted keys, in CRLF, without event lines."""
    return b"".join(
        b"data:" + json.dumps(json.loads(one), sort_keys=True).encode() + b"\r\n\r\n" for one in recordings.events(body)
    )


def test_what_the_builder_writes_is_canonical():
    assert all(one.canonical for one in formatted(BODY))
    assert b"".join(one.after for one in formatted(BODY)) == BODY


@pytest.mark.parametrize("name", recordings.SSE)
def test_a_capture_in_any_format_becomes_the_canonical_stream(name):
    written = recordings.SSE[name][1](BODY)
    assert b"".join(one.after for one in formatted(written)).removeprefix(b": hello\n\n") == BODY


def test_another_spelling_becomes_canonical_and_stays_so():
    once = b"".join(one.after for one in formatted(spaced(BODY)))
    assert once == BODY
    assert b"".join(one.after for one in formatted(once)) == once


def test_json_lines_stay_json_lines():
    lines = b"".join(json.dumps(json.loads(one), sort_keys=True).encode() + b"\n" for one in recordings.events(BODY))
    assert b"".join(one.after for one in formatted(lines)) == recordings.lines(BODY)


def test_what_has_no_canonical_form_stays_as_it_is():
    odd = b': ping\n\ndata: [DONE]\n\ndata: {"type":\n\ndata: 3\n\ndata: {"a":1}\n\nevent: x\n\n'
    found = formatted(odd)
    assert b"".join(one.after for one in found) == odd
    assert [one.problem is not None for one in found] == [False, False, True, True, True, False]
    assert [one.frame for one in found] == [0, 1, 2, 3, 4, 5]
    assert [one.offset for one in found] == [0, 8, 22, 38, 47, 62]


def delta(**changes):
    event = {
        "type": "response.output_text.delta",
        "content_index": 0,
        "delta": "é",
        "item_id": "msg_1",
        "logprobs": [],
        "output_index": 0,
        "sequence_number": 4,
    }
    return event | changes


GOOD = encode_frame(delta())


@pytest.mark.parametrize(
    ("frame", "kind", "told"),
    [
        (GOOD.replace(b"\n", b"\r\n"), "framing", r"\r\n"),
        (GOOD.replace(b"data: ", b"data:"), "framing", "data:"),
        (GOOD.replace(b"event: response.output_text.delta\n", b""), "framing", "event: response.output_text.delta"),
        (GOOD.replace(b"event: response.output_text.delta", b"event: response.created"), "framing", "response.created"),
        (GOOD[:-1], "framing", "data"),
        (GOOD.replace(b'","', b'", "'), "bytes", "$"),
        (GOOD.replace("é".encode(), b"\\u00e9"), "bytes", "u00e9"),
        (GOOD.replace(b'"sequence_number":4', b'"sequence_number":4.0'), "number form", "4.0 | 4"),
        (
            GOOD.replace(b'"delta":"\xc3\xa9","item_id":"msg_1"', b'"item_id":"msg_1","delta":"\xc3\xa9"'),
            "key order",
            "item_id, delta | delta, item_id",
        ),
    ],
)
def test_check_says_how_a_frame_differs(frame, kind, told):
    (one,) = formatted(frame)
    assert one.after == GOOD
    assert [found.kind for found in one.differences] == [kind]
    assert told in str(one.differences[0])


def test_what_the_canonical_form_has_no_place_for_is_said(tmp_path, capfdbinary):
    for frame, told in [
        (b": hello\nid: 7\n" + GOOD, b"lost lines that are no `event:` and no `data:`: ': hello id: 7'"),
        (GOOD.replace(b"event: response.output_text.delta", b"event: a"), b"lost its `event:` line, 'a'"),
    ]:
        path = tmp_path / "a.sse"
        path.write_bytes(frame)
        assert main(["fmt", str(path)]) == 0
        captured = capfdbinary.readouterr()
        assert captured.out == GOOD
        assert told in captured.err
    assert [one.lost for one in formatted(BODY + GOOD.replace(b"\n", b"\r\n"))] == [None] * (
        len(recordings.events(BODY)) + 1
    )


def test_compare_names_every_difference_with_its_path():
    left = b'{"a":1,"b":[1,{"c":true}],"d":null,"x":{"y":1}}'
    right = b'{"b":[1,{"c":1},2],"a":2,"d":null,"x":{"z":1}}'
    assert [str(one) for one in compare(left, right)] == [
        "key order at $: a, b | b, a",
        "value at $.a: 1 | 2",
        "$.b[2] is missing left: 2",
        "value at $.b[1].c: True | 1",
        "$.x.y is missing right: 1",
        "$.x.z is missing left: 1",
    ]
    assert compare(b"1", b"1") == []
    assert compare(b'{"a":1}', b'{"a":1.0}')[0].kind == "number form"
    assert compare(b'{"a":1}', b'{"a":')[0].kind == "unreadable"
    assert {one.kind for one in compare(left, right)} < set(KINDS)


def test_the_command_writes_and_checks(tmp_path, capfdbinary):
    path = tmp_path / "a.sse"
    path.write_bytes(spaced(BODY))
    assert main(["fmt", str(path)]) == 0
    assert capfdbinary.readouterr().out == BODY
    assert main(["fmt", "--check", str(path)]) == 1
    told = capfdbinary.readouterr().out.decode()
    assert "frame 0 (byte 0) response.created" in told
    assert "key order at $" in told
    assert told.endswith(f"{len(recordings.events(BODY))} frames, {len(recordings.events(BODY))} not canonical\n")
    path.write_bytes(BODY)
    assert main(["fmt", "--check", str(path)]) == 0
    assert capfdbinary.readouterr().out.decode().endswith("frames, all canonical\n")


def test_the_command_tells_programs(tmp_path, capfdbinary):
    path = tmp_path / "a.sse"
    path.write_bytes(spaced(BODY) + b"data: {\n\n")
    assert main(["fmt", "--check", "--format", "json", str(path)]) == 1
    records = [json.loads(line) for line in capfdbinary.readouterr().out.splitlines()]
    assert {"name", "frame", "offset", "event", "problem", "differences"} == set(records[0])
    assert records[0]["differences"][0]["kind"] in KINDS
    assert "JSON ends" in records[-1]["problem"]


def test_the_command_says_what_it_leaves_and_what_it_cannot_read(tmp_path, capfdbinary):
    path = tmp_path / "a.sse"
    path.write_bytes(b"data: {\n\n")
    assert main(["fmt", str(path)]) == 1
    captured = capfdbinary.readouterr()
    assert captured.out == b"data: {\n\n"
    assert b"frame 0 (byte 0) is left as it is" in captured.err
    assert main(["fmt", str(tmp_path / "none")]) == 2
    assert b"cannot be opened" in capfdbinary.readouterr().err
    path.write_bytes(b"<html>")
    assert main(["fmt", str(path)]) == 2
    assert main(["fmt", "--from", "sse", str(path)]) == 0


def test_what_openai_sent_is_what_fmt_writes():
    """The same oracle as for the serializer: raw captures from 2026-01-13 on, background mode aside."""
    root = shared_path("corpus")
    tried = 0
    for line in (root / "index.jsonl").read_text().splitlines():
        row = json.loads(line)
        if (row["producer"], row["captured_or_handwritten"], row["fidelity"]) != ("openai", "captured", "raw"):
            continue
        body = (root / row["file"]).read_bytes()
        first = json.loads(FrameDecoder().feed(body)[0].data).get("response", {})
        if first.get("background") or (first.get("created_at") or 0) < 1768262400:
            continue
        for one in formatted(body):
            tried += 1
            assert one.canonical, (row["file"], one.frame, one.differences)
    assert tried > 5000


def test_frames_of_lines_that_are_cut_anywhere():
    from respevents.captures import Capture

    data = recordings.lines(BODY)
    cut = Capture([data[at : at + 7] for at in range(0, len(data), 7)], framing="json-lines")
    found = list(frames_of(cut))
    assert b"".join(one.raw for one in found) == data
    assert [one.data for one in found] == recordings.events(BODY)
    assert next(iter(frames_of(Capture([b"{}"], framing="json-lines")))).complete is False
