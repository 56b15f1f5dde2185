"""A test suite that uses the kit: run it with `pytest examples/testing_a_server`. Needs `respevents[testing,validate]`.

`assert_stream` is a fixture of the pytest plugin, which is there wherever respevents is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from app import proxy, respond
from hypothesis import given
from hypothesis import strategies as st

from respevents import FrameDecoder, decode_json, validate_stream
from respevents.testing import assert_valid_stream, strategies
from respevents.testing.mutations import MUTATIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from respevents.testing.strategies import EngineError


def last(body: bytes) -> dict[str, Any]:
    """The response of the terminal event."""
    events = [decode_json(frame.data) for frame in FrameDecoder().feed(body) if frame.data]
    found: dict[str, Any] = events[-1]["response"]
    return found


def test_an_answer_is_a_valid_stream(assert_stream: Callable[..., Any]) -> None:
    assert_stream(respond({"model": "m", "input": "hi"}, lambda _: ["Hel", "lo"]), client="codex")


@given(strategies.requests(), st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_any_request_and_any_text_give_a_valid_stream(request: dict[str, Any], texts: list[str]) -> None:
    body = b"".join(respond(request, lambda _: texts))
    assert_valid_stream(body)
    said = [part["text"] for item in last(body)["output"] for part in item["content"]]
    assert "".join(said) == "".join(texts)


@given(strategies.engine_errors(), st.integers(0, 3))
def test_whatever_the_engine_raises_the_stream_ends_as_failed(made: EngineError, after: int) -> None:
    if not isinstance(made.error, Exception):
        return  # texts and HTTP answers come from engines behind a socket

    def engine(_: dict[str, Any]) -> Iterator[str]:
        yield from ["word"] * after
        raise made.error

    body = b"".join(respond({"model": "m"}, engine))
    assert b"event: response.completed" not in body
    assert_valid_stream(body)
    assert last(body)["status"] == "failed"


@given(strategies.streams(), st.data())
def test_what_another_server_sends_passes_unchanged(body: bytes, data: st.DataObject) -> None:
    chunks = data.draw(strategies.chunkings(body))
    assert b"".join(proxy(chunks)) == body


@pytest.mark.parametrize("name", ["no-ending", "a-number-skipped", "another-text"])
def test_the_checks_of_this_suite_can_fail(name: str) -> None:
    frames = [frame.raw for frame in FrameDecoder().feed(b"".join(respond({"model": "m"}, lambda _: ["a", "b"])))]
    mutation = MUTATIONS[name]
    broken = mutation.apply(frames)
    assert broken is not None
    assert mutation.rule in {finding.rule for finding in validate_stream(broken.body).findings}
