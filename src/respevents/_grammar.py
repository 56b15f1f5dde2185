"""What each dialect has of the lifecycle table: its rows of events and of items.

Open Responses (`schema/routes.tsp` there, `StreamingEvent`) is the table without the tools that run on OpenAI's side,
but for three things: reasoning text comes as `response.reasoning.*`, always inside a content part; `error` comes before
`response.failed` and never after it; and every item has a status.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from respevents import schemas
from respevents._generated.tables import EVENTS
from respevents._table import ITEMS, TABLE, ItemRow, Row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from respevents._dialect import Dialect

__all__ = ["ALIASES", "GRAMMARS", "READING", "Grammar"]

_OPEN_ITEMS: Final = ("message", "function_call", "function_call_output", "reasoning", "compaction")
"""`ItemField` in `schema/items.tsp`."""

ALIASES: Final = {
    "response.reasoning.delta": "response.reasoning_text.delta",
    "response.reasoning.done": "response.reasoning_text.done",
}
"""Event type of Open Responses -> the one OpenAI has for the same, key for key."""

_OPENAI_ONLY: Final = frozenset(
    {
        *ALIASES.values(),
        "response.reasoning_part.added",
        "response.reasoning_part.done",
        "response.compaction.compacting",
    }
)


class Grammar(NamedTuple):
    """One dialect's rows, each by its type, and the schema set that goes with them."""

    version: str
    table: Mapping[str, Row]
    items: Mapping[str, ItemRow]
    texts: Mapping[str | None, Row]
    """Kind of part -> the row of the event that sums up its text."""

    @classmethod
    def of(cls, version: str, table: Mapping[str, Row], items: Mapping[str, ItemRow]) -> Grammar:
        """The grammar of a table."""
        texts = {row.part: row for row in table.values() if row.scope == "part" and row.whole}
        return cls(version, table, items, texts)

    @property
    def definitions(self) -> Mapping[str, str]:
        """Event type -> the name of its definition in the schema set."""
        return EVENTS if self.version == schemas.NEWEST else _definitions(self.version)


@functools.cache
def _definitions(version: str) -> Mapping[str, str]:
    return {event["type"]: event["definition"] for event in schemas.manifest(version)["events"]}


def _aliased(name: str, of: str) -> Row:
    """The row of an event under its other name."""
    row = TABLE[of]
    done = next((alias for alias, one in ALIASES.items() if one == row.done), row.done)
    return msgspec.structs.replace(row, type=name, done=done)


def _inside(row: Row) -> Row:
    """A text that does not come without the events around its part."""
    if row.whole is not None:
        return msgspec.structs.replace(row, after=("open",))
    return msgspec.structs.replace(row, after=(), to="", stay=("open",), opens=False)


def _open_responses() -> Grammar:
    table: dict[str, Row] = {}
    for row in TABLE.values():
        shared = row.scope == "response" or (row.scope in {"item", "part"} and set(row.items) <= set(_OPEN_ITEMS))
        if shared and row.type not in _OPENAI_ONLY:
            table[row.type] = row
    table["error"] = msgspec.structs.replace(TABLE["error"], stay=())
    table |= {name: _inside(_aliased(name, of)) for name, of in ALIASES.items()}
    items = {kind: msgspec.structs.replace(ITEMS[kind], statuses=True, cut="incomplete") for kind in _OPEN_ITEMS}
    return Grammar.of(schemas.at(None, "open-responses"), table, items)


GRAMMARS: Final[Mapping[Dialect, Grammar]] = {
    "openai": Grammar.of(schemas.NEWEST, TABLE, ITEMS),
    "open-responses": _open_responses(),
}

READING: Final[Mapping[str, Row]] = {**TABLE, **{name: _aliased(name, of) for name, of in ALIASES.items()}}
"""The rows of both dialects, for a reader that is not told which it reads."""
