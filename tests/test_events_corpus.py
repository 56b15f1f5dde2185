"""The classes against captured traffic: what was read is written back."""

from __future__ import annotations

import json

from conftest import shared_path
from respevents import decode_event, encode_json
from respevents.wire import FrameDecoder, decode_json
from test_schemas import RECENT
from test_sdk_decode import same


def rows():
    corpus = shared_path("corpus")
    for line in (corpus / "index.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        content = (corpus / row["file"]).read_bytes()
        decoder = FrameDecoder()
        lines = [
            frame.data for frame in [*decoder.feed(content), *decoder.close()] if frame.data not in {b"", b"[DONE]"}
        ]
        yield row, lines


def is_recent_raw(row, lines):
    """A raw capture of an OpenAI stream dated 2026-01-13 or later that is no background stream."""
    if (row["producer"], row["captured_or_handwritten"], row["fidelity"]) != ("openai", "captured", "raw"):
        return False
    for line in lines:
        response = json.loads(line).get("response")
        if isinstance(response, dict):
            return response.get("created_at", 0) >= RECENT and not response.get("background")
    return False


def test_every_recent_raw_line_of_openai_is_reproduced_byte_for_byte():
    streams = count = 0
    for row, lines in rows():
        if is_recent_raw(row, lines):
            streams += 1
            for line in lines:
                assert encode_json(decode_event(line)) == line, row["file"]
                count += 1
    assert streams > 200
    assert count > 6_000


def test_every_other_line_comes_back_equal_as_json_and_settles_after_one_pass():
    count = 0
    for row, lines in rows():
        if row["captured_or_handwritten"] == "handwritten":
            continue
        for line in lines:
            written = encode_json(decode_event(line))
            assert same(decode_json(written), decode_json(line)), row["file"]
            assert encode_json(decode_event(written)) == written
            count += 1
    assert count > 20_000
