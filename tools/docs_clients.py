"""The page of the client matrix, from what `tests/clients/record.py` recorded."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

from docs_text import HEAD, code, table
from respevents.testing.scenarios import SCENARIOS

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "clients"))

import outcomes  # type: ignore[import-not-found]

_ORDER = ("endings", "bodies that break", "failures", "HTTP errors", "faults", "streams that go well")
_SHORT = {
    "completed": "whole",
    "tool call": "call",
    "incomplete": "cut short",
    "context window full": "**full window**",
    "success: no text": "**no text**",
    "success: another text": "**other text**",
    "told: turn failed": "told",
}


def clients_page() -> str:
    """Readers across, endings down."""
    recorded: dict[str, Any] = outcomes.results()
    notes: dict[str, int] = {}
    sections = []
    for title, names in _groups():
        rows = [(code(name), *(_cell(client, name, recorded, notes) for client in recorded)) for name in names]
        sections.append(f"## {title}\n\n{table(('scenario', *recorded), rows)}")
    versions = textwrap.fill(", ".join(f"{client} {one['version']}" for client, one in recorded.items()), 118)
    body = "\n".join(sections)
    known = "".join(f"{number}. {why}\n" for why, number in notes.items())
    return f"""{HEAD}# Client matrix

What released clients made of the scripted server's answers (`respevents serve --list` says what each scenario is):
{versions}.
`.stream` is the SDK's `responses.stream()` helper, the rest reads `create(stream=True)`.

- *whole*: the text that was sent, all of it; *call*: the tool call; *cut short*: what came, and that it is a part
- *full window*: the client knows that the prompt is too long, and shortens it by itself (Codex compacts)
- *its code*: the user is told, with the code that was sent; a class of exception: told, without it; `6x` counts the
  requests, since the client asked again by itself
- **no text**, **other text**: the answer was taken for a success and it was not; *waits*: still waiting after 40 s
  (Codex: 150 s)

A number in brackets points to the reason why a cell is not what the user should get.

{body}
## Known gaps

{known}
`tests/clients/setup.sh` installs the clients, `python tests/clients/record.py` runs them and writes this page, and
`pytest -m clients` holds a later run against it. What a client will do with one stream of yours, and why, is said by
`respevents read FILE --as codex`: the models behind it are held against this record.
"""


def _groups() -> list[tuple[str, list[str]]]:
    chosen: list[str] = outcomes.CHOSEN
    found: dict[str, list[str]] = {}
    for name in chosen:
        found.setdefault(SCENARIOS[name].group, []).append(name)
    return [(title[0].upper() + title[1:], found[title]) for title in sorted(found, key=_ORDER.index)]


def _cell(client: str, name: str, recorded: dict[str, Any], notes: dict[str, int]) -> str:
    said, _, requests = recorded[client]["outcomes"][name].partition(", ")
    times = f" {requests.removesuffix(' requests')}x" if requests else ""
    why = outcomes.gap(client, name)
    note = f" [{notes.setdefault(why, len(notes) + 1)}]" if why else ""
    # openai-python tells each code as it was sent.
    sent = recorded["openai-python"]["outcomes"][name].partition(", ")[0]
    if said == sent and said.startswith("told: ") and said.islower():
        return f"its code{times}{note}"
    short = _SHORT.get(said) or (code(said.removeprefix("told: ")) if said.startswith("told: ") else said)
    return f"{short}{times}{note}"
