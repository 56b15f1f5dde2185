"""The frame decoder. Every case is fed whole, byte by byte and in random chunks; rules are WHATWG's unless told."""

from __future__ import annotations

import random
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from respevents._errors import LocalProtocolError, RemoteProtocolError
from respevents.wire import Frame, FrameDecoder

BOM = b"\xef\xbb\xbf"

# name, body, [(event, data, raw, complete)]
CASES = [
    ("OpenAI's own form", b'event: a\ndata: {"x":1}\n\n', [("a", b'{"x":1}', None, True)]),
    (
        "two frames",
        b"event: a\ndata: 1\n\nevent: b\ndata: 2\n\n",
        [("a", b"1", b"event: a\ndata: 1\n\n", True), ("b", b"2", b"event: b\ndata: 2\n\n", True)],
    ),
    (
        "CR LF",
        b"event: a\r\ndata: 1\r\n\r\nevent: b\r\ndata: 2\r\n\r\n",
        [("a", b"1", b"event: a\r\ndata: 1\r\n\r\n", True), ("b", b"2", b"event: b\r\ndata: 2\r\n\r\n", True)],
    ),
    (
        "lone CR",
        b"event: a\rdata: 1\r\revent: b\rdata: 2\r\r",
        [("a", b"1", b"event: a\rdata: 1\r\r", True), ("b", b"2", b"event: b\rdata: 2\r\r", True)],
    ),
    (
        "LF then CR LF",
        b"data: 1\n\r\ndata: 2\n\n",
        [(None, b"1", b"data: 1\n\r\n", True), (None, b"2", b"data: 2\n\n", True)],
    ),
    ("LF then CR", b"data: 1\n\rdata: 2\n\n", [(None, b"1", b"data: 1\n\r", True), (None, b"2", b"data: 2\n\n", True)]),
    (
        "CR then CR LF",
        b"data: 1\r\r\ndata: 2\r\n\n",
        [(None, b"1", b"data: 1\r\r\n", True), (None, b"2", b"data: 2\r\n\n", True)],
    ),
    (
        "CR LF then CR",
        b"data: 1\r\n\rdata: 2\r\n\r\n",
        [(None, b"1", b"data: 1\r\n\r", True), (None, b"2", b"data: 2\r\n\r\n", True)],
    ),
    ("CR inside a plain frame ends a line", b"event: a\ndata: 1\rdata: 2\n\n", [("a", b"1\n2", None, True)]),
    ("CR inside an event name ends the line", b"event: a\rx\ndata: 1\n\n", [("a", b"1", None, True)]),
    ("several data lines", b"data: 1\ndata: 2\ndata:\ndata: 3\n\n", [(None, b"1\n2\n\n3", None, True)]),
    ("data before event", b"data: 1\nevent: a\n\n", [("a", b"1", None, True)]),
    ("no event line", b"data: 1\n\n", [(None, b"1", None, True)]),
    (
        "an empty event line",
        b"event:\ndata: 1\n\nevent: \ndata: 2\n\n",
        [(None, b"1", b"event:\ndata: 1\n\n", True), (None, b"2", b"event: \ndata: 2\n\n", True)],
    ),
    ("the last event line counts", b"event: a\nevent: b\ndata: 1\n\n", [("b", b"1", None, True)]),
    ("DONE is data", b"data: [DONE]\n\n", [(None, b"[DONE]", None, True)]),
    ("one leading space goes", b"event:a\ndata:1\ndata:  2\n\n", [("a", b"1\n 2", None, True)]),
    (
        "a comment",
        b": keep-alive\n\ndata: 1\n\n",
        [(None, b"", b": keep-alive\n\n", True), (None, b"1", b"data: 1\n\n", True)],
    ),
    ("a comment inside a frame", b":x\nevent: a\n:data: no\ndata: 1\n\n", [("a", b"1", None, True)]),
    ("other fields", b"id: 7\nretry: 10\ndatum: x\ndata: 1\nDATA: 2\n\n", [(None, b"1", None, True)]),
    ("fields without a colon", b"data\nevent\ndata\nnothing\n\n", [(None, b"\n", None, True)]),
    ("a colon in the value", b"event: a:b\ndata: c: d\n\n", [("a:b", b"c: d", None, True)]),
    (
        "blank lines at the start",
        b"\n\r\ndata: 1\n\n\n",
        [
            (None, b"", b"\n", True),
            (None, b"", b"\r\n", True),
            (None, b"1", b"data: 1\n\n", True),
            (None, b"", b"\n", True),
        ],
    ),
    (
        "a byte order mark",
        BOM + b"event: a\ndata: 1\n\n" + b"data: 2\n\n",
        [("a", b"1", BOM + b"event: a\ndata: 1\n\n", True), (None, b"2", b"data: 2\n\n", True)],
    ),
    (
        "a byte order mark and a blank line",
        BOM + b"\ndata: 1\n\n",
        [(None, b"", BOM + b"\n", True), (None, b"1", b"data: 1\n\n", True)],
    ),
    (
        "a mark later is part of the name",
        b"data: 1\n\n" + BOM + b"data: 2\n\n",
        [(None, b"1", b"data: 1\n\n", True), (None, b"", BOM + b"data: 2\n\n", True)],
    ),
    (
        "a mark and CR LF",
        BOM + b"\r\ndata: x\r\n\r\n",
        [(None, b"", BOM + b"\r\n", True), (None, b"x", b"data: x\r\n\r\n", True)],
    ),
    (
        "a mark and a lone CR",
        BOM + b"\revent: e\rdata: x\r\r",
        [(None, b"", BOM + b"\r", True), ("e", b"x", b"event: e\rdata: x\r\r", True)],
    ),
    (
        "a mark and two CR",
        BOM + b"\r\rdata: x\r\r",
        [(None, b"", BOM + b"\r", True), (None, b"", b"\r", True), (None, b"x", b"data: x\r\r", True)],
    ),
    ("half a mark", BOM[:2] + b"\n\n", [(None, b"", None, True)]),
    (
        "multi-byte characters",
        'event: é\ndata: "\u2028\x85😀"\n\n'.encode(),
        [("é", '"\u2028\x85😀"'.encode(), None, True)],
    ),
    ("bytes that are no UTF-8", b"event: \xff\ndata: \xff\n\n", [("\ufffd", b"\xff", None, True)]),
    (
        "no blank line at the end",
        b"data: 1\n\nevent: a\ndata: 2\n",
        [(None, b"1", b"data: 1\n\n", True), ("a", b"2", b"event: a\ndata: 2\n", False)],
    ),
    ("cut inside a line", b'event: a\ndata: {"x', [("a", b'{"x', None, False)]),
    ("cut inside a character", "event: a\ndata: é".encode()[:-1], [("a", b"\xc3", None, False)]),
    ("cut after a CR", b"data: 1\r", [(None, b"1", None, False)]),
    ("ends in the CR of a blank line", b"data: 1\r\n\r", [(None, b"1", None, True)]),
    ("only a CR", b"\r", [(None, b"", None, True)]),
    ("only a mark", BOM, [(None, b"", BOM, False)]),
    ("nothing", b"", []),
]


def decode(chunks, **options):
    decoder = FrameDecoder(**options)
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    return frames + decoder.close()


def cuts(body, seed):
    """The body in random chunks, some of them empty."""
    rng = random.Random(seed)
    at = sorted(rng.randrange(len(body) + 1) for _ in range(rng.randrange(1, 8)))
    return [body[a:b] for a, b in zip([0, *at], [*at, len(body)], strict=True)]


def chunkings(body):
    yield [body]
    yield [body[i : i + 1] for i in range(len(body))]
    for cut in range(1, len(body)):
        yield [body[:cut], body[cut:]]
    for seed in range(20):
        yield cuts(body, seed)


@pytest.mark.parametrize(("body", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_every_case_reads_the_same_in_every_chunking(body, expected):
    want = []
    offset = 0
    for event, data, raw, complete in expected:
        frame = Frame(event, data, body if raw is None else raw, offset, complete)
        want.append(frame)
        offset += len(frame.raw)
    for chunks in chunkings(body):
        assert decode(chunks) == want, chunks


def reference(body):
    """The frames of a body by the plainest reading: lines by the three ends, blocks by empty lines."""
    lines = re.findall(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", body)
    block, raw, offset, out = [], b"", 0, []
    for line in lines:
        text = line.rstrip(b"\r\n")
        if not raw and not out and text.startswith(BOM):
            text = text[3:]
        raw += line
        ended = line[-1:] in {b"\r", b"\n"}
        if text or not ended:
            block.append(text)
        if not text and ended:
            out.append(_frame(block, raw, offset, True))
            offset += len(raw)
            block, raw = [], b""
    if raw:
        out.append(_frame(block, raw, offset, False))
    return out


def _frame(block, raw, offset, complete):
    fields = [re.fullmatch(rb"([^:]*)(?:: ?(.*))?", line, re.DOTALL).groups(b"") for line in block]
    data = b"\n".join(value for name, value in fields if name == b"data")
    events = [value for name, value in fields if name == b"event"]
    return Frame(events[-1].decode("utf-8", "replace") or None if events else None, data, raw, offset, complete)


pieces = st.sampled_from(
    [
        b"event: a",
        b"event:b",
        b"data: 1",
        b"data:  x",
        b"data",
        b":c",
        b"id: 1",
        b"",
        b"\xc3\xa9",
        BOM,
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\r\n\r\n",
        b"event: x\ndata: y\n\n",
    ]
)


@given(st.lists(pieces, max_size=14).map(b"".join), st.integers(0, 2**32))
def test_any_body_in_any_chunking_reads_as_the_plainest_reader_does(body, seed):
    want = reference(body)
    assert decode([body]) == want
    assert decode(cuts(body, seed)) == want
    assert decode([body[i : i + 1] for i in range(len(body))]) == want
    assert b"".join(frame.raw for frame in want) == body


def test_lf_and_crlf_frames_are_delivered_with_the_last_byte_of_their_blank_line():
    """Our choice: nothing is kept back but where a CR could be half of a CR LF."""
    for body in (b"data: 1\n\n", b"data: 1\r\n\r\n"):
        decoder = FrameDecoder()
        assert decoder.feed(body[:-1]) == []
        assert len(decoder.feed(body[-1:])) == 1
    decoder = FrameDecoder()
    assert decoder.feed(b"data: 1\r\r") == []
    assert [frame.raw for frame in decoder.feed(b"d")] == [b"data: 1\r\r"]


def test_closing_twice_gives_nothing_more_and_feeding_after_it_is_an_error():
    decoder = FrameDecoder()
    decoder.feed(b"data: 1")
    assert [frame.data for frame in decoder.close()] == [b"1"]
    assert decoder.close() == []
    with pytest.raises(LocalProtocolError, match="closed"):
        decoder.feed(b"x")


@pytest.mark.parametrize("chunk", ["data: 1\n\n", "", 5, None, [1]])
def test_what_is_no_bytes_is_refused_with_the_reason(chunk):
    with pytest.raises(LocalProtocolError, match="bytes"):
        FrameDecoder().feed(chunk)


def test_any_bytes_like_chunk_is_taken():
    assert decode([bytearray(b"data: "), memoryview(b"1\n\n")]) == decode([b"data: 1\n\n"])


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b""])
def test_a_frame_over_the_limit_is_an_error_in_every_chunking(end):
    good = b"event: a\ndata: 1\n\n"
    body = good + b"event: b\ndata: " + b"x" * 40 + end + b"data: later\n\n"
    size = len(good) + 15 + 40 + len(end) - len(good)
    for chunks in chunkings(body):
        decoder = FrameDecoder(max_frame=size - 1 if end else 50)
        frames = []
        with pytest.raises(RemoteProtocolError) as caught:
            for chunk in chunks:
                frames += decoder.feed(chunk)
            decoder.close()
        frames += caught.value.frames
        assert [frame.raw for frame in frames] == [good]
        assert caught.value.offset == len(good)
        with pytest.raises(RemoteProtocolError) as again:
            decoder.feed(b"data: 1\n\n")
        assert again.value.frames == ()
        assert decoder.close() == []
    if end:
        for chunks in chunkings(body):
            assert len(decode(chunks, max_frame=size)) == 3


def test_the_limit_must_leave_room_for_a_byte():
    with pytest.raises(ValueError, match="max_frame"):
        FrameDecoder(max_frame=0)


def _seconds(body, size):
    best = float("inf")
    for _ in range(3):
        decoder = FrameDecoder()
        start = time.perf_counter()
        for at in range(0, len(body), size):
            decoder.feed(body[at : at + size])
        best = min(best, time.perf_counter() - start)
    return best


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 97])
def test_time_grows_linearly_with_one_large_frame(end, size):
    """Ten times the bytes may take at most sixty times as long, on a busy machine: a quadratic decoder takes a hundred."""
    small, large = (b"data: " + b"x" * (count * size) + end * 2 for count in (20_000, 200_000))
    # A busy machine may spoil a measurement; a decoder that is not linear spoils each.
    assert any(_seconds(large, size) < 60 * _seconds(small, size) for _ in range(3))


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_time_grows_linearly_with_many_frames_in_one_chunk(end):
    frame = b"event: a" + end + b"data: 1" + end * 2
    small, large = frame * 2_000, frame * 20_000
    # A busy machine may spoil a measurement; a decoder that is not linear spoils each.
    assert any(_seconds(large, len(large)) < 60 * _seconds(small, len(small)) for _ in range(3))


def test_a_frame_of_50_megabytes_in_small_chunks_is_read_within_seconds():
    body = b"event: a\ndata: " + b"x" * 50_000_000 + b"\n\n"
    start = time.perf_counter()
    frames = decode([body[at : at + 4096] for at in range(0, len(body), 4096)])
    assert time.perf_counter() - start < 10
    assert [len(frame.data) for frame in frames] == [50_000_000]


@pytest.mark.parametrize("unit", [b"data: {}\n\n", b": k\n\n", b"event: x\ndata: {}\n\n", b"data: {}\r\n\r\n"])
def test_many_small_frames_in_one_chunk_take_linear_time(unit):
    def seconds(count):
        body = unit * count + b"\r"  # a CR at the very end, for whoever looks for one
        best = 9.0
        for _ in range(3):
            began = time.perf_counter()
            assert len(FrameDecoder().feed(body)) >= count - 1
            best = min(best, time.perf_counter() - began)
        return best

    assert any(seconds(80_000) < 12 * seconds(20_000) for _ in range(3))  # quadratic: 16 times, and more
