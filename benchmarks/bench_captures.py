"""Peak memory of reading a capture of 100 MB: it does not grow. And the time, over a bare decode."""

from __future__ import annotations

import gzip
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from _race import Verdict, options
from respevents import FrameDecoder, ResponseStream, read_captures

if TYPE_CHECKING:
    from collections.abc import Iterator

FULL = 100 * 1000 * 1000
HELD = 2.0
"""MB. A few pieces of 64 KiB, and what a tracer counts of the interpreter."""


def _body(size: int) -> Iterator[bytes]:
    """An event stream of `size` bytes in pieces of about 64 KiB."""
    stream = ResponseStream(model="m", id="resp_1", created_at=1767225600)
    yield stream.start()
    text = stream.message().text
    text("")
    written = 0
    while written < size:
        piece = b"".join(text("token ") for _ in range(300))
        written += len(piece)
        yield piece


def _lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    decoder = FrameDecoder()
    for piece in pieces:
        yield b"".join(frame.data + b"\n" for frame in decoder.feed(piece))


def _chunked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    for piece in pieces:
        yield b"%x\r\n%s\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def _curl(pieces: Iterator[bytes], note: bytes) -> Iterator[bytes]:
    mark = b"< " if note else b""
    yield note + mark + b"HTTP/1.1 200 OK\r\n" + mark + b"content-type: text/event-stream\r\n" + mark + b"\r\n"
    yield from pieces
    yield note


def _write(folder: Path, size: int) -> dict[str, Path]:
    paths = {name: folder / name for name in ("a.sse", "a.jsonl", "a.curl", "a.curl-v", "a.chunked", "a.sse.gz")}
    sources = {
        "a.sse": _body(size),
        "a.jsonl": _lines(_body(size)),
        "a.curl": _curl(_body(size), b""),
        "a.curl-v": _curl(_body(size), b"* Connected to localhost\n"),
        "a.chunked": _chunked(_body(size)),
    }
    for name, pieces in sources.items():
        with paths[name].open("wb") as file:
            file.writelines(pieces)
    with gzip.open(paths["a.sse.gz"], "wb", compresslevel=6) as file:
        file.writelines(_body(size))
    return paths


def _read(path: Path) -> tuple[str, int]:
    form, size = "", 0
    for capture in read_captures(path):
        form = capture.format
        for chunk in capture.chunks():
            size += len(chunk)
    return form, size


def _peak(path: Path) -> float:
    """MB held at the most."""
    tracemalloc.start()
    try:
        _read(path)
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def _decode_all(path: Path) -> None:
    for line in path.open("rb"):
        msgspec.json.decode(line)


def main() -> None:
    chosen = options(__doc__)
    verdict = Verdict(chosen.slack)
    size = FULL // 10 if chosen.quick else FULL
    with tempfile.TemporaryDirectory() as folder:
        paths = _write(Path(folder), size)
        began = time.perf_counter()
        _decode_all(paths["a.jsonl"])
        bare = time.perf_counter() - began
        for name, path in paths.items():
            began = time.perf_counter()
            form, read = _read(path)
            took = time.perf_counter() - began
            what = f"{name}: {form}, {path.stat().st_size / 1e6:.0f} MB, {read / 1e6:.0f} MB of stream"
            print(f"     {what:<66} {took:8.2f}s")
            verdict.at_most(f"{name}: peak memory", _peak(path), HELD, unit=" MB")
            verdict.at_most(f"{name}: time over msgspec.json.decode of its events", took / bare, 6)
    sys.stdout.flush()
    verdict.exit()


if __name__ == "__main__":
    main()
