"""`respevents diff`: two captures aligned, and what differs between the events that belong together."""

from __future__ import annotations

import json
import tracemalloc

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

import recordings
from respevents import encode_frame, read_captures
from respevents._diff import NORMALS, diff_captures
from respevents.captures import Capture
from respevents.cli import main

BODY = recordings.stream()
FRAMES = [block + b"\n\n" for block in BODY.removesuffix(b"\n\n").split(b"\n\n")]


def pairs(left, right, **options):
    a, b = next(read_captures(left, split=False)), next(read_captures(right, split=False))
    return list(diff_captures(a, b, **options))


def outcomes(left, right, **options):
    return [one.outcome for one in pairs(left, right, **options)]


def test_equal_captures_have_only_equal_pairs_in_whatever_format_they_are():
    assert set(outcomes(BODY, BODY)) == {"equal"}
    assert set(outcomes(recordings.har(BODY), recordings.lines(BODY))) == {"equal"}
    assert set(outcomes(recordings.curl_v(BODY), recordings.chunked(BODY))) == {"equal"}


@pytest.mark.parametrize("at", range(len(FRAMES)))
def test_a_missing_frame_is_one_difference_at_its_place(at):
    less = b"".join(FRAMES[:at] + FRAMES[at + 1 :])
    # The second of two equal types is missing as well as the first: either is right, and it is one.
    found = outcomes(BODY, less, normalise=["numbers"])
    assert found.count("left") == 1
    assert found.count("right") == 0
    assert len(found) == len(FRAMES)
    turned = outcomes(less, BODY, normalise=["numbers"])
    assert turned.count("right") == 1
    assert turned.count("left") == 0


def test_each_kind_of_difference_is_told():
    for change, outcome in [
        ((b'"delta":"Hel"', b'"delta":"Hal"'), "value"),
        ((b'"sequence_number":4', b'"sequence_number":4.0'), "number form"),
        (
            (
                b'"logprobs":[],"output_index":0,"sequence_number":4',
                b'"output_index":0,"logprobs":[],"sequence_number":4',
            ),
            "key order",
        ),
        ((b'"delta":"Hel"', b'"delta": "Hel"'), "bytes"),
        ((b',"logprobs":[],"output_index":0,"sequence_number":4', b',"output_index":0,"sequence_number":4'), "missing"),
        ((b'"delta":"Hel"', b'"delta":"Hel'), "unreadable"),
    ]:
        assert change[0] in BODY, change
        found = outcomes(BODY, BODY.replace(*change, 1))
        if outcome == "unreadable":  # it has no type in its JSON, but its event line says what it is
            assert found.count("unreadable") == 1
        else:
            assert [one for one in found if one != "equal"] == [outcome]


def test_ids_are_equal_when_they_stand_in_the_same_places():
    one, two = recordings.stream.__wrapped__(response_id="resp_a"), recordings.stream.__wrapped__(response_id="resp_b")
    assert "value" in outcomes(one, two)
    assert set(outcomes(one, two, normalise=["ids"])) == {"equal"}
    item = json.loads(recordings.events(one)[2])["item"]["id"].encode()
    last = one.rindex(item)
    swapped = one[:last] + b"msg_other" + one[last + len(item) :]
    (odd,) = [pair for pair in pairs(one, swapped, normalise=["ids"]) if pair.outcome != "equal"]
    assert odd.left.kind == "response.completed"
    assert odd.differences[0].path == "$.response.output[0].id"


def test_times_numbers_and_padding_on_request():
    later = BODY.replace(b"1767225600", b"1767225999")
    assert set(outcomes(BODY, later)) == {"equal", "value"}
    assert set(outcomes(BODY, later, normalise=["times"])) == {"equal"}
    counted = BODY.replace(b'"sequence_number":', b'"sequence_number":1')
    assert set(outcomes(BODY, counted, normalise=["numbers"])) == {"equal"}
    padded = [encode_frame({"type": "response.output_text.delta", "delta": "a", "obfuscation": word}) for word in "xy"]
    assert outcomes(*padded) == ["value"]
    assert outcomes(*padded, normalise=["padding"]) == ["equal"]
    with pytest.raises(ValueError, match="cannot normalise"):
        pairs(BODY, BODY, normalise=["everything"])


def test_runs_of_deltas_count_by_their_text_on_request():
    one, two = recordings.stream.__wrapped__("a|b|cd"), recordings.stream.__wrapped__("ab|c|d")
    assert set(outcomes(one, two, normalise=[*NORMALS])) == {"equal"}
    other = recordings.stream.__wrapped__("ab|cX")
    assert "value" in outcomes(one, other, normalise=[*NORMALS])


def test_a_difference_of_bytes_survives_normalising():
    assert "bytes" in outcomes(BODY, BODY.replace(b'"delta":"Hel"', b'"delta": "Hel"'), normalise=["ids"])


@settings(max_examples=60)
@given(
    left=st.lists(st.sampled_from("abcd"), max_size=30),
    right=st.lists(st.sampled_from("abcd"), max_size=30),
)
def test_every_event_is_in_one_pair_in_order_whatever_the_two_are(left, right):
    def body(kinds):
        return b"".join(encode_frame({"type": kind, "sequence_number": i}) for i, kind in enumerate(kinds))

    found = list(diff_captures(Capture([body(left)]), Capture([body(right)])))
    assert [pair.left.kind for pair in found if pair.left is not None] == left
    assert [pair.right.kind for pair in found if pair.right is not None] == right
    for pair in found:
        if pair.left is not None and pair.right is not None:
            assert pair.left.kind == pair.right.kind
    if left == right:
        assert all(pair.outcome == "equal" for pair in found)


def test_memory_does_not_grow_with_the_captures():
    delta = FRAMES[4]

    def chunks(other):
        for _ in range(200):
            yield delta * 50
            if other:
                yield FRAMES[3]

    tracemalloc.start()
    try:
        missing = 0
        for pair in diff_captures(Capture(chunks(other=False)), Capture(chunks(other=True))):
            missing += pair.left is None
        assert missing == 200
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def write(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    return str(path)


def test_the_command_prints_what_differs(tmp_path, capsys):
    a = write(tmp_path, "a.sse", BODY)
    b = write(tmp_path, "b.jsonl", recordings.lines(BODY.replace(b'"delta":"Hel"', b'"delta":"Hal"') + FRAMES[-1]))
    assert main(["diff", a, a]) == 0
    assert capsys.readouterr().out == f"= {len(FRAMES)} equal\n1 stream: {len(FRAMES)} equal\n"
    assert main(["diff", a, b]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0] == "= 4 equal"
    assert told[1] == "~     4     4 response.output_text.delta"
    assert told[2].strip() == "value at $.delta: 'Hel' | 'Hal'"
    assert told[-2] == f"+       {len(FRAMES):>5} response.completed"
    assert told[-1] == f"1 stream: {len(FRAMES) - 1} equal, 1 only in B, 1 value"
    assert main(["diff", "--quiet", a, b]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 1


def test_the_command_tells_programs(tmp_path, capsys):
    a = write(tmp_path, "a.sse", BODY)
    b = write(tmp_path, "b.sse", BODY.replace(b'"delta":"Hel"', b'"delta":"Hal"'))
    assert main(["diff", "--format", "json", a, b]) == 1
    record, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert record["outcome"] == "value"
    assert record["left"] == {"frame": 4, "offset": BODY.index(FRAMES[4])}
    assert record["differences"] == [{"kind": "value", "path": "$.delta", "left": "'Hel'", "right": "'Hal'"}]
    assert summary == {"streams": 1, "equal": len(FRAMES) - 1, "value": 1}


def test_the_command_compares_stream_by_stream(tmp_path, capsys):
    other = recordings.stream("x", "resp_2")
    two = write(tmp_path, "two.sse", BODY + other)
    one = write(tmp_path, "one.sse", BODY)
    assert main(["diff", two, two]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("2 streams: ")
    assert main(["diff", one, two]) == 1
    assert "stream 2 is only in B" in capsys.readouterr().out


def test_wrong_usage_is_2(tmp_path, capsys):
    a = write(tmp_path, "a.sse", BODY)
    assert main(["diff", "-", "-"]) == 2
    assert main(["diff", a, str(tmp_path / "none")]) == 2
    with pytest.raises(SystemExit) as caught:
        main(["diff", "--normalise", "nothing", a, a])
    assert caught.value.code == 2
    assert "invalid list value" in capsys.readouterr().err
    assert main(["diff", "--normalise", "all", a, a]) == 0
