"""For test suites (extra `respevents[testing]`): `assert_valid_stream`, strategies, mutations and a scripted server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from respevents.validate import Report

__all__ = ["assert_valid_stream"]


def assert_valid_stream(source: Any, **options: Any) -> Report:
    """Give the report of `validate_stream(source, **options)`; AssertionError when it holds an error.

    The message is the timeline with each finding under its frame, then whom each rule's breach breaks. `source` is what
    `validate_stream` takes: the bytes, a path, an iterable of bytes, a `Capture`. A path and a `Capture` are held
    against the schema set of their date, bytes against the newest of the dialect, whatever a test's clock says;
    `schema=` names another.
    """
    __tracebackhide__ = True
    from respevents import schemas
    from respevents.validate import StreamValidator, validate_stream

    given = dict(options)
    if hasattr(source, "chunks") and hasattr(source, "framing"):
        given = {"framing": source.framing, "name": source.name, **options}
        source = b"".join(source.chunks())
    elif not isinstance(source, (str, os.PathLike)):
        source = bytes(source) if isinstance(source, (bytes, bytearray, memoryview)) else b"".join(source)
        given.setdefault("schema", schemas.at(None, given.get("dialect") or "openai"))
    report = validate_stream(source, **given)
    if report.ok:
        return report
    from respevents.testing import _telling

    text = str(report)
    if isinstance(source, (str, os.PathLike)):
        from respevents.captures import read_captures

        capture = next(iter(read_captures(os.fspath(source))))
        small = Path(source).stat().st_size <= _telling.MAX_DRAWN
    else:
        from respevents.captures import Capture

        capture = Capture([bytes(source)], framing=report.framing)
        small = len(source) <= _telling.MAX_DRAWN
    if small:
        given["framing"] = capture.framing
        text = f"{_telling.drawn(capture, StreamValidator(**given))}\n\n{_telling.rules(report)}"
    raise AssertionError(f"not a valid stream\n{text}")
