"""What named clients do with a stream: models of how they read its bytes, each with its own habits.

    outcome = read(body, "codex")
    outcome.kind, outcome.requests, outcome.why    # "context_window_full", 1, ("frame 3 (response.failed): ...",)

A model is not the client: it was held against the released one on several hundred scripted answers, and it reads as
the sources do. A client with tools, other settings or a proxy in between may do otherwise; so may one whose timers
decide, since no model has a clock.
"""

from __future__ import annotations

import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from respevents._reader import KINDS, Answer, End, Kind, Lines, Outcome, Reader, Reading, ToolCall
from respevents._reader_ai_sdk import AI_SDK
from respevents._reader_codex import CODEX
from respevents._reader_node_stream import NODE_STREAM
from respevents._reader_openai import GO, NODE, PYTHON
from respevents._reader_python_stream import PYTHON_STREAM
from respevents.captures import Capture, NoStreamError, read_captures

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

__all__ = [
    "KINDS",
    "READERS",
    "Answer",
    "End",
    "Kind",
    "Outcome",
    "Reader",
    "Reading",
    "ToolCall",
    "body_of",
    "open_reader",
    "read",
    "read_capture",
]

READERS: Final[Mapping[str, Reader]] = MappingProxyType(
    {one.name: one for one in (CODEX, PYTHON, PYTHON_STREAM, NODE, NODE_STREAM, GO, AI_SDK)}
)
"""Name -> model, for `client=`."""


def open_reader(client: str) -> Reader:
    """The model of a client. ValueError, naming the known ones, for one that there is none of."""
    try:
        return READERS[client]
    except KeyError:
        raise ValueError(f"no model of a client {client!r}; there are {', '.join(READERS)}") from None


def read(
    source: bytes | str | os.PathLike[str] | Iterable[bytes],
    client: str,
    *,
    version: str | None = None,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    end: End = "clean",
) -> Outcome:
    """What `client` does with one answer, whatever its bytes are.

    `source` is the body, as bytes or in pieces, or the path of a capture in any form that `read_captures` knows (its
    first stream, or the error that it was refused with; the status and the headers it kept count unless they are given
    here). `version` is one of the model's `versions` (default: the newest), `status` and `headers` are those of the
    answer, `end` says how its body ends. The outcome does not depend on how the body is cut.

    Raises ValueError for an unknown client or version, CaptureError for a path that cannot be read.
    """
    reader = open_reader(client)
    if isinstance(source, (str, os.PathLike)):
        answers = answers_of(source, split=False)  # held on to: what it gives is read below
        first = next(answers, KeptAnswer("", (), None, {}))
        source = first.body
        status = first.status if status is None else status
        headers = first.headers if headers is None else headers
    reading = reader.open(version=version, status=200 if status is None else status, headers=headers)
    for chunk in (source,) if isinstance(source, (bytes, bytearray, memoryview)) else source:
        reading.feed(bytes(chunk))
    return reading.close(end)


def read_capture(
    capture: Capture,
    client: str,
    *,
    version: str | None = None,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    end: End = "clean",
) -> Outcome:
    """As `read`, of a capture. Captured JSON lines are read as frames of one `data:` line each."""
    return read(
        body_of(capture),
        client,
        version=version,
        status=capture.status if status is None else status,
        headers=capture.headers if headers is None else headers,
        end=end,
    )


class KeptAnswer(NamedTuple):
    """An answer that a file keeps. `status` is None where the file does not say."""

    name: str
    body: Iterable[bytes]
    status: int | None
    headers: Mapping[str, str]


def answers_of(path: str | os.PathLike[str], *, split: bool = True) -> Iterator[KeptAnswer]:
    """The answers in a file, each read before the next: its streams, or the error that it was refused with.

    Raises CaptureError.
    """
    name = os.fspath(path)
    try:
        for capture in read_captures(name, split=split):
            yield KeptAnswer(capture.name, body_of(capture), capture.status, capture.headers)
    except NoStreamError as refused:
        if refused.status < 400:
            raise
        yield KeptAnswer(name, (refused.body,), refused.status, refused.headers)


def body_of(capture: Capture) -> Iterator[bytes]:
    """The bytes of a capture as a client gets them; JSON lines become frames of one `data:` line."""
    if capture.framing == "sse":
        yield from capture.chunks()
        return
    lines = Lines("stays")
    for chunk in capture.chunks():
        for line in lines.feed(chunk):
            if line.strip():
                yield b"data: " + line + b"\n\n"
    last = lines.finish()
    if last.strip():
        yield b"data: " + last + b"\n\n"
