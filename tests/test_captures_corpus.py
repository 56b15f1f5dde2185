"""The readers of captures against captured streams: every file is named and read right, through every recorder."""

from __future__ import annotations

import json

import pytest

import recordings
from conftest import shared_path
from respevents.wire import frame_bytes
from test_captures import ALL, read, told

CORPUS = shared_path("corpus", "index.jsonl")
ROWS = [json.loads(line) for line in CORPUS.read_text().splitlines()]


def test_every_file_of_the_corpus_is_named_and_read_right():
    assert len(ROWS) > 500
    for row in ROWS:
        path = CORPUS.parent / row["file"]
        assert read(path) == [("sse", "sse", path.read_bytes())], row["file"]


@pytest.mark.parametrize("name", sorted(set(ALL) - {"sse", "sse with a mark"}))
def test_streams_of_the_corpus_survive_every_recorder(name):
    for row in ROWS[::60]:
        body = (CORPUS.parent / row["file"]).read_bytes()
        plain = b"".join(frame_bytes(json.loads(data)["type"], data) for data in recordings.events(body))
        if body != plain or b"\n\n" not in body[len(body) // 2 : -2]:
            continue  # an envelope keeps no other layout, and this file's curl -v parts a body at a blank line
        assert read(ALL[name][1](body), split=False) == told(name, body), (row["file"], name)
