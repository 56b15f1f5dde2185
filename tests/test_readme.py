"""What the README shows runs as it stands there."""

from __future__ import annotations

import asyncio

import pytest

from conftest import ROOT
from respevents import FrameDecoder, decode_json
from snippets import blocks, run_python

README = (ROOT / "README.md").read_text()
SNIPPETS = [block for block in blocks(README) if block.language == "python"]
COMMANDS = [block.text for block in blocks(README) if block.language == "console"]


def kinds(body):
    return [frame.event for frame in FrameDecoder().feed(body)]


def test_the_first_snippet_stands_within_forty_lines_and_does_what_it_says():
    lines = README.split("\n")
    start = lines.index("```python")
    assert start + SNIPPETS[0].text.count("\n") < 40
    assert SNIPPETS[0].text.count("\n") >= 10
    names = {}
    run_python(SNIPPETS[0], names, "README.md")
    assert kinds(names["answer"]) == ["response.created", "response.in_progress", "error", "response.failed"]
    assert kinds(names["body"])[-1] == "response.completed"
    final = decode_json(FrameDecoder().feed(names["body"])[-1].data)["response"]
    assert final["output"][0]["content"][0]["text"] == "Hello"


def test_the_guard_snippet_ends_a_dying_engine_and_tells_the_client_nothing_internal(capsys):
    names = {}
    run_python(SNIPPETS[1], names, "README.md")

    async def collect():
        return b"".join([chunk async for chunk in names["respond"]({"model": "m", "input": "hi", "stream": True})])

    body = asyncio.run(collect())
    assert kinds(body)[-2:] == ["error", "response.failed"]
    assert b"CUDA" not in body
    assert "CUDA" in capsys.readouterr().out


def test_the_reading_snippet_prints_the_text(capsys):
    names = {}
    run_python(SNIPPETS[0], names, "README.md")
    run_python(SNIPPETS[3], names, "README.md")
    assert capsys.readouterr().out == "Hello"


def test_the_classifier_snippet_holds():
    names = {}
    run_python(SNIPPETS[0], names, "README.md")
    run_python(SNIPPETS[2], names, "README.md")
    assert names["failure"].context_window == 8192


def test_every_snippet_is_run_here():
    assert len(SNIPPETS) == 4


@pytest.mark.parametrize("command", COMMANDS)
def test_a_set_up_command_is_one_line_that_starts_from_nothing(command):
    assert len(COMMANDS) == 2
    assert command.count("\n") == 1
    assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
