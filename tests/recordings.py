"""The recordings of the test kit, around one small stream."""

from __future__ import annotations

import functools

from respevents import ResponseStream
from respevents.testing import _recordings
from respevents.testing._recordings import (
    chunked,
    curl_i,
    curl_v,
    enveloped,
    events,
    har,
    lines,
    nock,
    pretty,
    vcr_yaml,
)

__all__ = [
    "JSON_LINES",
    "SSE",
    "chunked",
    "curl_i",
    "curl_v",
    "enveloped",
    "events",
    "har",
    "lines",
    "nock",
    "pretty",
    "stream",
    "vcr_yaml",
]


@functools.cache
def stream(text: str = "Hel|lo, wörld \U0001f600", response_id: str = "resp_1") -> bytes:
    """A whole stream; `|` parts the deltas."""
    made = ResponseStream(model="m", id=response_id, created_at=1767225600)
    body = made.start()
    message = made.message()
    for piece in text.split("|"):
        body += message.text(piece)
    return body + made.complete()


SSE = _recordings.SSE | {"sse with a mark": ("sse", lambda body: b": hello\n\n" + body)}
JSON_LINES = _recordings.JSON_LINES
