"""The readers of captures: every format in every chunking, several streams, damage, and hostile input."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import threading
import tracemalloc

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

import recordings
from respevents import CaptureError, FrameDecoder, ProtocolError, read_captures
from respevents.captures import FORMATS, Capture, Limits, detect
from respevents.testing import strategies

ALL = recordings.SSE | recordings.JSON_LINES
BODY = recordings.stream()
SMALL = Limits(line=4096, headers=1024, document=200_000, yaml=200_000, unpacked=10_000_000)


def read(source, **options):
    """(format, framing, bytes) of each capture."""
    return [(one.format, one.framing, b"".join(one.chunks())) for one in read_captures(source, **options)]


def told(name, body):
    kind, _ = ALL[name]
    return [
        (kind, "sse", prelude(name) + body) if name in recordings.SSE else (kind, "json-lines", recordings.lines(body))
    ]


def prelude(name):
    return b": hello\n\n" if name == "sse with a mark" else b""


def cut(data, sizes):
    at = 0
    for size in sizes:
        yield data[at : at + size]
        at += size
    yield data[at:]


@pytest.mark.parametrize("name", ALL)
def test_every_format_is_named_and_its_stream_read_byte_for_byte(name):
    data = ALL[name][1](BODY)
    assert read(data) == told(name, BODY)


@pytest.mark.parametrize("name", ALL)
def test_a_format_reads_the_same_byte_by_byte_and_packed(name):
    data = ALL[name][1](BODY)
    assert read(bytes([byte]) for byte in data) == told(name, BODY)
    assert read(gzip.compress(data)) == told(name, BODY)
    assert read(gzip.compress(data[:100]) + gzip.compress(data[100:]) + b"\0" * 100) == told(name, BODY)


@settings(max_examples=60)
@given(
    name=st.sampled_from(sorted(ALL)),
    text=st.text(st.characters(codec="utf-8"), min_size=1, max_size=40),
    sizes=st.lists(st.integers(1, 2000), max_size=20),
)
def test_any_text_in_any_format_in_any_chunking(name, text, sizes):
    body = recordings.stream.__wrapped__(text)
    assert read(cut(ALL[name][1](body), sizes)) == told(name, body)


@pytest.mark.parametrize("name", sorted(ALL))
def test_what_some_formats_take_for_the_end_of_a_line_is_text(name):
    body = recordings.stream.__wrapped__("a\x85b\u2028c\u2029d\x0be\x0cf\x1cg")
    assert read(ALL[name][1](body)) == told(name, body)


@settings(max_examples=25)
@given(body=strategies.streams(), name=st.sampled_from(sorted(set(ALL) - {"sse with a mark"})), data=st.data())
def test_any_stream_in_any_format(body, name, data):
    written = ALL[name][1](body)
    sizes = data.draw(st.lists(st.integers(1, 5000), max_size=10))
    assert read(cut(written, sizes)) == told(name, body)


@pytest.mark.parametrize("name", ALL)
def test_a_named_format_is_taken_at_its_word(name):
    kind, write = ALL[name]
    assert read(write(BODY), format=kind) == told(name, BODY)


def test_every_format_of_the_table_is_tried_here():
    assert {kind for kind, _ in ALL.values()} == set(FORMATS)


def test_status_headers_and_request_are_kept():
    for name in ("curl -i", "curl -v", "curl -v -i", "har", "vcr yaml, gzip", "vcr yaml of Ruby", "test proxy", "nock"):
        (one,) = read_captures(ALL[name][1](BODY), name="a file")
        assert one.status == 200, name
        assert one.headers["x-request-id"] == "req_1", name
        assert one.headers["content-type"].startswith("text/event-stream"), name
        assert one.name.startswith("a file"), name
        if name not in {"curl -i"}:
            assert one.request["method"] == "POST", name
            assert one.request["url"].endswith("/v1/responses"), name


def test_json_over_several_lines_keeps_its_values():
    ((kind, framing, body),) = read(recordings.pretty(BODY))
    assert (kind, framing) == ("json", "json-lines")
    assert [json.loads(line) for line in body.splitlines()] == [json.loads(one) for one in recordings.events(BODY)]


def test_envelopes_of_objects_keep_their_bytes():
    line = b'{"event": "response.created",  "data": {"type": "response.created","n":1.0}}\n'
    assert read(line) == [("jsonl", "sse", b'event: response.created\ndata: {"type": "response.created","n":1.0}\n\n')]
    done = line + b'{"event":null,"data":"[DONE]"}\n'
    assert read(done)[0][2].endswith(b"\n\ndata: [DONE]\n\n")


def test_text_with_line_ends_in_an_envelope_is_framed_line_by_line():
    line = json.dumps({"event": "a\nb", "data": "1\n2\r\n3"}).encode()
    assert read(line)[0][2] == b"event: a b\ndata: 1\ndata: 2\ndata: 3\n\n"


# ---- sources --------------------------------------------------------------------------------------------------------


def test_a_path_a_file_and_standard_input(tmp_path):
    path = tmp_path / "a.sse"
    path.write_bytes(BODY)
    expected = [("sse", "sse", BODY)]
    assert read(path) == expected
    assert read(str(path)) == expected
    with path.open("rb") as file:
        assert read(file) == expected
    assert read(io.BytesIO(BODY)) == expected
    assert read(bytearray(BODY)) == expected
    assert read(memoryview(BODY)) == expected
    code = "from respevents import read_captures as r; print([b''.join(c.chunks()) for c in r('-')])"
    run = subprocess.run([sys.executable, "-c", code], input=BODY, capture_output=True, check=True)
    assert run.stdout.decode().strip() == repr([BODY])


def test_a_live_pipe_is_read_as_it_comes():
    """Choice: a format is named with the first bytes that show it, so that a stream can be watched."""
    inlet, outlet = os.pipe()
    first, rest = BODY[:200], BODY[200:]
    seen = threading.Event()

    def write():
        os.write(outlet, first)
        assert seen.wait(10)
        os.write(outlet, rest)
        os.close(outlet)

    writer = threading.Thread(target=write)
    writer.start()
    with os.fdopen(inlet, "rb") as file:
        captures = read_captures(file, split=False)
        chunks = next(captures).chunks()
        assert next(chunks) == first
        seen.set()
        assert b"".join(chunks) == rest
    writer.join()


def test_what_is_no_source_is_refused(tmp_path):
    with pytest.raises(TypeError, match="not 3"):
        read(3)
    with pytest.raises(TypeError, match="are bytes, got 'a'"):
        read(["a"])
    with pytest.raises(TypeError, match="binary mode"):
        read(io.StringIO("a"))
    with pytest.raises(CaptureError, match="cannot be opened: No such file"):
        read(tmp_path / "none")
    with pytest.raises(CaptureError, match="Is a directory"):
        read(tmp_path)
    with pytest.raises(CaptureError, match="cannot be opened"):
        read("a\0b")
    with pytest.raises(ValueError, match="unknown format 'xml'"):
        read(b"", format="xml")


def test_a_capture_is_read_once():
    one = next(read_captures(BODY))
    b"".join(one.chunks())
    with pytest.raises(ProtocolError, match="read once"):
        one.chunks()
    assert repr(one).startswith("Capture(name='<bytes>', format='sse'")


def test_a_capture_that_was_passed_over_says_so_and_is_not_just_empty(tmp_path):
    (one,) = read_captures(BODY)
    with pytest.raises(ProtocolError, match="passed over"):
        one.chunks()
    captures = read_captures([BODY[:100], BODY[100:]])
    chunks = next(captures).chunks()
    next(chunks)
    assert next(captures, None) is None
    with pytest.raises(ProtocolError, match="passed over"):
        next(chunks)
    path = tmp_path / "a.sse"
    path.write_bytes(BODY * 100)
    alone = next(read_captures(path, split=False))  # nobody holds the iterator, so the file is closed
    with pytest.raises(CaptureError, match="Keep the iterator"):
        b"".join(alone.chunks())


def test_an_empty_file_is_an_empty_stream():
    for nothing in (b"", b"\n\n", b"\xef\xbb\xbf"):
        assert read(nothing)[0][:2] == ("sse", "sse")


# ---- several streams ------------------------------------------------------------------------------------------------

OTHER = recordings.stream("another", "resp_2")


@pytest.mark.parametrize("name", ["sse", "curl -i", "curl -v", "json lines", "websocket, prefixed", "chunked"])
def test_streams_that_follow_one_another_are_told_apart(name):
    write = ALL[name][1]
    data = write(BODY) + write(OTHER) if name.startswith("curl") else write(BODY + OTHER)
    expected = told(name, BODY) + told(name, OTHER)
    assert read(data) == expected
    assert read(bytes([one]) for one in data) == expected
    names = [one.name for one in read_captures(data, name="f")]
    assert len(set(names)) == 2
    assert names[0] == "f"


def test_the_first_of_two_may_be_left_unread_or_half_read():
    for take in (0, 1):
        both = read_captures([BODY[:300], BODY[300:] + OTHER])
        first = next(both)
        chunks = first.chunks()
        for _ in range(take):
            next(chunks)
        chunks.close()
        second = next(both)
        assert b"".join(second.chunks()) == OTHER
        assert second.offset == len(BODY)
        assert next(both, None) is None


def test_a_cut_off_stream_before_another_is_a_stream_of_its_own():
    half = BODY[: BODY.index(b"event: response.output_text.done")]
    assert [one[2] for one in read(half + OTHER)] == [half, OTHER]


def test_the_same_capture_twice_is_two_streams():
    assert [one[2] for one in read(BODY + BODY)] == [BODY, BODY]


def test_an_event_that_came_twice_is_one_fault_of_one_stream():
    first = BODY[: BODY.index(b"\n\n") + 2]
    assert [one[2] for one in read(first + BODY)] == [first + BODY]


def test_streams_are_kept_together_on_request():
    assert [one[2] for one in read(BODY + OTHER, split=False)] == [BODY + OTHER]


def test_what_has_no_event_lines_is_told_apart_by_its_json():
    bare = b"".join(b"data: " + one + b"\n\n" for one in recordings.events(BODY))
    other = b"".join(b"data: " + one + b"\n\n" for one in recordings.events(OTHER))
    assert [one[2] for one in read(bare + b"data: [DONE]\n\n" + other)] == [bare + b"data: [DONE]\n\n", other]


def test_a_recording_with_several_streams_gives_each_and_says_what_it_left_out():
    archive = json.loads(recordings.har(BODY))
    archive["log"]["entries"].append(json.loads(recordings.har(OTHER))["log"]["entries"][1])
    chat = json.loads(json.dumps(archive["log"]["entries"][1]))
    chat["request"]["url"] = "https://api.openai.com/v1/chat/completions"
    chat["response"]["content"]["text"] = 'data: {"id":"chatcmpl-1","object":"chat.completion.chunk"}\n\n'
    archive["log"]["entries"].append(chat)
    said = []
    found = read(json.dumps(archive).encode(), on_skip=said.append)
    assert [one[2] for one in found] == [BODY, OTHER]
    assert len(said) == 2
    assert "example.org" in said[0] and "no event stream" in said[0]
    assert "chat/completions" in said[1] and "no stream of /v1/responses" in said[1]


def test_an_error_answer_among_streams_of_curl_is_left_out_and_said():
    error = b'HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\n\r\n{"error":{"code":"rate"}}'
    said = []
    assert [one[2] for one in read(error + recordings.curl_i(BODY), on_skip=said.append)] == [BODY]
    assert said == ["<bytes>: HTTP 429 application/json is no event stream"]
    with pytest.raises(CaptureError, match=r"HTTP 429 application/json is no event stream.*respevents classify"):
        read(error)


# ---- curl in detail ---------------------------------------------------------------------------------------------------


def test_a_last_line_that_curl_wrote_its_note_behind():
    torn = BODY[:-20]
    note = (
        b"* transfer closed with outstanding read data remaining\n* Closing connection 0\ncurl: (18) transfer closed\n"
    )
    data = recordings.curl_v(BODY)
    start = data.index(b"event: response.created")
    for source in (
        data[:start] + torn + note,
        [data[:start] + torn, note],
        [bytes([one]) for one in data[:start] + torn + note],
    ):
        assert read(source)[0][2] == torn


def test_a_note_quoted_in_a_text_is_text():
    quoting = BODY.replace(
        b"Hel", b"* Connection #0 to host a left intact * Closing connection curl: (18) { [1 bytes data]"
    )
    for source in (recordings.curl_v(quoting), [bytes([one]) for one in recordings.curl_v(quoting)]):
        assert read(source)[0][2] == quoting


def test_notes_without_header_lines_and_progress_among_the_body():
    data = b"* Connected to localhost\n" + BODY + b"* Connection #0 to host localhost left intact\n"
    assert read(data) == [("curl", "sse", BODY)]


def test_the_meter_of_a_download_is_taken_off_and_the_body_behind_it_kept():
    meter = b"\r  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0"
    meter += b"\r100  1369    0  1369  100    30   2706     59 --:--:-- --:--:-- --:--:--  2765"
    at = BODY.index(b"\n\n") + 2
    data = recordings.curl_v(BODY[:at] + meter + BODY[at:] + meter + b"\n", progress=True)
    for source in (data, [bytes([one]) for one in data]):
        assert read(source)[0][2] == BODY


def test_a_status_line_inside_an_event_is_text():
    inside = BODY.replace(b"Hel", b"HTTP/1.1 200 OK HTTP/2 ")
    assert read(recordings.curl_i(inside))[0][2] == inside


def test_chunk_sizes_of_a_dump_with_bare_line_feeds():
    assert read(recordings.chunked(BODY).replace(b"\r\n", b"\n")) == [("chunked", "sse", BODY)]


def test_an_answer_of_json_lines():
    body = recordings.lines(BODY)
    assert read(recordings.curl_i(body).replace(b"text/event-stream", b"application/x-ndjson")) == [
        ("curl", "json-lines", body)
    ]


# ---- damage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"PK\x03\x04zip", "a zip archive"),
        (b"\x28\xb5\x2f\xfdzstd", "zstd"),
        ("event: a\n".encode("utf-16"), "UTF-16"),
        (b"<html><body>502 Bad Gateway</body></html>", "no capture that is known"),
        (b"\x00\x01\x02\x03" * 100, "no capture that is known"),
        (gzip.compress(BODY)[:-30], "cut off"),
        (gzip.compress(BODY)[:60] + b"\xff" * 60, "damaged"),
        (gzip.compress(BODY) + b"more", "data follows"),
        (gzip.compress(gzip.compress(gzip.compress(BODY))), "gzip inside gzip"),
        (recordings.chunked(BODY)[:-5], "ends without its last chunk"),
        (recordings.chunked(BODY)[:-9], "cut off|ends without"),
        (
            recordings.chunked(BODY.replace(b"\n", b"\r\n")).replace(b"\r\n", b"\n"),
            "longer than its size|size should stand",
        ),
        (recordings.curl_i(b"")[:-2], "inside the header lines"),
        (b"HTTP/1.1 200 OK\r\n!!!\r\n\r\n", "a header line should stand here"),
        (recordings.har(BODY)[:-500], "cannot be read|cut off"),
        (recordings.vcr_yaml(BODY, form="text")[:-2] + b"'\n- ]", "cannot be read in line"),
        (b'{"log":{"entries":[]}}', "holds no event stream"),
        (recordings.curl_i(b"\x8b\x01\x80\x00", more=b"content-encoding: br\r\n"), "packed with br"),
        (
            recordings.har(BODY).replace(b'"text": "event', b'"encoding": "base64", "text": "event1'),
            "cannot be decoded",
        ),
    ],
)
def test_damage_is_named_with_a_place_and_a_way_out(data, what):
    with pytest.raises(CaptureError, match=what) as caught:
        read(data, name="here.bin")
    assert str(caught.value).startswith("here.bin: ")


def test_what_came_before_the_damage_is_given_first():
    packed = gzip.compress(BODY * 50)[:-30]
    got = b""
    with pytest.raises(CaptureError):
        for one in read_captures(packed, split=False):
            for chunk in one.chunks():
                got += chunk
    assert got
    assert (BODY * 50).startswith(got)


def test_after_damage_in_one_capture_the_reader_ends():
    captures = read_captures(gzip.compress(BODY)[:-30])
    one = next(captures)
    with pytest.raises(CaptureError):
        b"".join(one.chunks())
    assert next(captures, None) is None


def test_a_body_that_is_packed_with_something_else_says_which_entry():
    archive = json.loads(recordings.har(BODY, packed=True))
    answer = archive["log"]["entries"][1]["response"]
    answer["headers"].append({"name": "Content-Encoding", "value": "br"})
    answer["content"]["text"] = "iwuAaGVsbG8gd29ybGQD////"
    with pytest.raises(CaptureError, match=r"packed with br at \$\.log\.entries\[1\]"):
        read(json.dumps(archive).encode())


# ---- bounds ----------------------------------------------------------------------------------------------------------


def test_a_gzip_bomb_is_refused_by_its_ratio():
    import zlib

    deflater = zlib.compressobj(9, wbits=31)
    block = b"data: " + b" " * (1 << 20)
    bomb = b"".join(deflater.compress(block) for _ in range(100)) + deflater.flush()
    assert len(bomb) < 200_000
    with pytest.raises(CaptureError, match="unpacks to more than it should"):
        for one in read_captures(bomb, split=False):
            for _ in one.chunks():
                pass


def test_a_gzip_bomb_inside_a_recording_is_refused():
    bomb = recordings.nock(b"data: " + b"a" * 3_000_000, packed=True)
    with pytest.raises(CaptureError, match="unpacks to more than"):
        read(bomb, limits=SMALL)


def test_every_bound_names_itself():
    with pytest.raises(CaptureError, match="A line is longer than 4096"):
        read(b'{"type":"response.created"}\n{"type":"' + b"a" * 5000, limits=SMALL)
    with pytest.raises(CaptureError, match="A header line is longer than 1024"):
        read(b"HTTP/1.1 200 OK\r\na: " + b"b" * 2000, limits=SMALL)
    with pytest.raises(CaptureError, match="A JSON document is larger than"):
        read(recordings.har(b"data: " + b"a" * 300_000), limits=SMALL)
    with pytest.raises(CaptureError, match="A YAML document is larger than"):
        read(recordings.vcr_yaml(b"data: " + b"a" * 300_000, form="text"), limits=SMALL)


def test_a_yaml_alias_bomb_is_refused():
    chunk = "x" * 1000
    bomb = (
        f"interactions:\n- request: {{url: /v1/responses}}\n  response:\n    body:\n      chunks: [&a {chunk}"
        + ", *a" * 2000
    )
    with pytest.raises(CaptureError, match="come to more than"):
        read(bomb.encode() + b"]\n", limits=SMALL)


def test_a_yaml_merge_bomb_is_read_in_no_time():
    """PyYAML before 6.0.4 multiplies what is merged; here nothing is merged at all."""
    import yaml

    from respevents._documents import _yaml_loader

    assert yaml.load("{<<: {a: 1}}", Loader=_yaml_loader(yaml)) == {"<<": {"a": 1}}
    levels = ["- &l0 {k: v}"]
    levels += [f"- &l{n} {{<<: [{', '.join([f'*l{n - 1}'] * 9)}]}}" for n in range(1, 12)]
    with pytest.raises(CaptureError, match="holds no event stream"):
        read(("interactions:\n" + "\n".join(levels) + "\n").encode())


def test_yaml_nested_by_indentation_is_refused():
    with pytest.raises(CaptureError, match="nest"):
        read(b"interactions:\n" + b"".join(b" " * depth + b"a:\n" for depth in range(1, 1500)))


@pytest.mark.parametrize("opening", [b"[", b"{a: ", b"- ", b"? "])
def test_deep_yaml_is_refused_and_does_not_crash(opening):
    with pytest.raises(CaptureError):
        read(b"interactions:\n- " + opening * 60_000)


@pytest.mark.parametrize("opening", [b"[", b'{"log":', b'[{"request":'])
def test_deep_json_is_refused_and_does_not_crash(opening):
    with pytest.raises(CaptureError):
        read(opening * 60_000)


def test_a_frame_beyond_any_bound_passes_through():
    large = b'event: response.output_text.delta\ndata: {"delta":"' + b"a" * (9 << 20) + b'"}\n\n'
    data = BODY + large + OTHER
    pieces = [data[at : at + 65536] for at in range(0, len(data), 65536)]
    found = read(pieces)
    assert b"".join(one[2] for one in found) == data
    assert found[-1][2] == OTHER


@pytest.mark.parametrize("name", ["sse", "json lines", "curl -i", "curl -v", "chunked", "envelopes of text"])
def test_memory_does_not_grow_with_the_file(name):
    write = ALL[name][1]
    at = BODY.index(b"event: response.output_text.delta")
    delta = BODY[at : BODY.index(b"\n\n", at) + 2]
    data = write(BODY[:at] + delta * 10_000 + BODY[at:])
    assert len(data) > 1_500_000

    def chunks():
        for start in range(0, len(data), 65536):
            yield data[start : start + 65536]

    tracemalloc.start()
    try:
        for one in read_captures(chunks()):
            for _ in one.chunks():
                pass
        assert tracemalloc.get_traced_memory()[1] < 1_500_000
    finally:
        tracemalloc.stop()


# ---- anything at all -------------------------------------------------------------------------------------------------

STARTS = [write(BODY)[:300] for _, write in ALL.values()]


@settings(max_examples=100)
@given(
    start=st.sampled_from([b"", *STARTS]),
    middle=st.binary(max_size=200) | st.text("{}[]\"':,-<>*\n ad0\\", max_size=100).map(str.encode),
    end=st.sampled_from([b"", BODY[-200:], b'"}]}}\n', b"0\r\n\r\n"]),
    sizes=st.lists(st.integers(1, 60), max_size=8),
)
@example(b"", b"[", b"", [])
@example(b"", b"{", b"", [])
def test_random_bytes_are_read_or_refused_and_never_crash(start, middle, end, sizes):
    data = start + middle + end

    def outcome(source):
        got = []
        try:
            for one in read_captures(source, limits=SMALL):
                got.append(one.format)
                for chunk in one.chunks():
                    assert isinstance(chunk, bytes)
        except CaptureError as error:
            assert str(error)
            got.append("refused")
        return got

    whole, pieces = outcome(data), outcome(cut(data, sizes))
    # Damage shows when it is read, which may be before the capture is handed out or after it.
    assert whole == pieces or whole[-1] == pieces[-1] == "refused"


@settings(max_examples=60)
@given(st.binary(max_size=300))
def test_an_event_stream_passes_through_unchanged_whatever_is_in_it(junk):
    data = b"event: response.created\n" + junk
    assert b"".join(one[2] for one in read(data, format="sse")) == data


def test_detection_needs_no_more_than_the_head():
    for name, (_, write) in ALL.items():
        assert detect(write(BODY)[:65536]) is not None, name
    assert detect(b"", at_end=False) is None


def test_first_lines_longer_than_the_head_are_named_right():
    long = recordings.stream.__wrapped__("a" * 70_000)
    body = long[long.index(b"event: response.output_text.delta") :]
    for write, kind in ((recordings.lines, "json-lines"), (lambda one: recordings.enveloped(one, text=True), "sse")):
        ((_, framing, got),) = read(write(body))
        assert framing == kind
        assert got == (body if kind == "sse" else recordings.lines(body))


@given(
    start=st.sampled_from(STARTS),
    at=st.integers(0, 300),
    junk=st.text("{}[]\"':,-<>*\n ad0\\", max_size=6).map(str.encode),
)
def test_what_a_head_is_named_stays_the_name_of_what_begins_with_it(start, at, junk):
    data = start[:at] + junk + start[at:]
    last = None
    for size in range(len(data) + 1):
        found = detect(data[:size], at_end=False)
        assert last is None or found == last, (data[:size], last, found)
        last = found


def test_a_capture_can_be_made_by_hand():
    one = Capture([BODY[:10], BODY[10:]], name="mine")
    assert b"".join(one.chunks()) == BODY
    assert one.framing == "sse"
    assert FrameDecoder().feed(BODY)


def test_what_follows_a_continued_stream_is_a_stream_of_its_own():
    """One that starts in the middle has no response.created; its end ends it all the same. (Found by `captures()`.)"""
    tail = BODY[BODY.rindex(b"event: ") :]
    assert [body for _, _, body in read(tail + BODY)] == [tail, BODY]
    assert [body for _, _, body in read(recordings.lines(tail + BODY))] == [
        recordings.lines(tail),
        recordings.lines(BODY),
    ]
