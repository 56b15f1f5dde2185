"""What Open Responses asks of a stream beyond the lifecycle, as a reader of events. Role-blind and sans-IO.

The builder refuses to write what it calls a violation, the validator reports it where the dialect is spoken. Each rule
is a MUST of `specification.mdx`, named at its place; those of the frames (`[DONE]`, `event:`, `id:`) are the
validator's and the writer's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from respevents._dialect import is_extension
from respevents._errors import show
from respevents._grammar import ALIASES, GRAMMARS
from respevents._table import TERMINAL
from respevents.lifecycle import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["OpenResponses"]

_TABLE: Final = GRAMMARS["open-responses"].table
_ITEMS: Final = GRAMMARS["open-responses"].items
_NAMES: Final = {of: name for name, of in ALIASES.items()}
_ENDS: Final = frozenset(f"response.{state}" for state in TERMINAL)


class OpenResponses:
    """The rules, over one stream. `violations` looks, `feed` moves on; both take every event in order."""

    __slots__ = ("_added", "_cut", "_ended", "_last", "_parts")

    def __init__(self) -> None:
        self._last = -1  # the highest output_index
        self._added: set[int] = set()
        self._cut: int | None = None  # the output_index of an item that is incomplete
        self._parts: set[tuple[Any, Any]] = set()  # content parts that an event opened
        self._ended = False

    def violations(self, event: Mapping[str, Any]) -> Iterator[Violation]:
        """What is wrong with `event` as the next one; changes nothing."""
        kind = event.get("type")
        if not isinstance(kind, str):
            return
        if kind not in _TABLE:
            if not is_extension(kind):
                yield _unnamed(kind, "event", "an event of Open Responses", "$.type", kind)
        elif kind == "error":
            yield from self._error(event)
        elif kind in {"response.output_item.added", "response.output_item.done"}:
            yield from self._item(kind, event)
        elif kind == "response.completed" and self._cut is not None:
            yield _fault(
                "incomplete-item-not-last",
                kind,
                f"output item {self._cut} is incomplete",
                "response.incomplete",
                "end the response of an incomplete item with response.incomplete",
            )
        index = event.get("output_index")
        if kind in ALIASES and index in self._added and (index, event.get("content_index")) not in self._parts:
            # Items are streamable, 2: streamable content "MUST be backed by a content part".
            yield _fault(
                "content-part-missing",
                kind,
                "no content part of the reasoning is open",
                "response.content_part.added first",
                "send response.content_part.added before the text and response.content_part.done after it",
                path="$.content_index",
                got=show(event.get("content_index")),
            )

    def _error(self, event: Mapping[str, Any]) -> Iterator[Violation]:
        if not isinstance(event.get("error"), dict):  # `ErrorStreamingEvent` in schema/events.tsp
            yield _fault(
                "error-not-nested",
                "error",
                "the error stands flat",
                "an object with type, code, message and param",
                'put it under the key error: {"type": "error", "error": {...}}',
                path="$.error",
                got=show(event.get("error")),
            )
        if self._ended:  # Errors: an error "will be followed by a `response.failed` event"
            yield _fault(
                "error-after-terminal",
                "error",
                "the terminal event came",
                "nothing but [DONE]",
                "send the error event before response.failed",
            )

    def _item(self, kind: str, event: Mapping[str, Any]) -> Iterator[Violation]:
        item, index = event.get("item"), event.get("output_index")
        if not isinstance(item, dict):
            return
        name = item.get("type")
        if isinstance(name, str) and name not in _ITEMS and not is_extension(name):  # Extending Items
            yield _unnamed(kind, "item", f"one of {', '.join(_ITEMS)}", "$.item.type", name)
        if not isinstance(item.get("status"), str):  # Extending Items, Required item fields
            yield _fault(
                "item-status-missing",
                kind,
                f"an item of type {show(name)}",
                "in_progress, completed or incomplete",
                "give every item a status",
                path="$.item.status",
                got=show(item.get("status")),
            )
        if type(index) is not int:
            return
        # Items are state machines: an incomplete item "MUST be the last item emitted".
        if kind == "response.output_item.added":
            if self._cut is not None:
                yield _not_last(kind, self._cut, f"output item {self._cut} is incomplete")
        elif item.get("status") == "incomplete" and index < self._last:
            yield _not_last(kind, index, f"output item {self._last} was added after it")

    def feed(self, event: Mapping[str, Any]) -> None:
        """Move on `event`."""
        kind, index = event.get("type"), event.get("output_index")
        if kind in _ENDS:
            self._ended = True
        if type(index) is not int:
            return
        if kind == "response.output_item.added":
            self._last = max(self._last, index)
            self._added.add(index)
        elif kind == "response.content_part.added":
            number = event.get("content_index")
            if type(number) is int:
                self._parts.add((index, number))
        elif kind == "response.output_item.done":
            self._last = max(self._last, index)
            item = event.get("item")
            if isinstance(item, dict) and item.get("status") == "incomplete" and self._cut is None:
                self._cut = index

    def last(self) -> int:
        """The output_index of the item that may be incomplete."""
        return self._last


def _unnamed(kind: str, what: str, known: str, path: str, name: str) -> Violation:
    other = _NAMES.get(name)
    return _fault(
        "extension-name",
        kind,
        f"Open Responses has no {what} of that type",
        f"{known}, or slug:type",
        f"send {other}, as the dialect calls it"
        if other is not None
        else f"name what is your own with your slug, such as acme:{name.rpartition('.')[2] or 'thing'}",
        path=path,
        got=show(name),
    )


def _not_last(kind: str, index: int, state: str) -> Violation:
    return _fault(
        "incomplete-item-not-last",
        kind,
        state,
        "no item after an incomplete one",
        "close the items before it as completed, and end with the incomplete item",
        path="$.output_index",
        got=str(index),
    )


def _fault(rule: str, event: str, state: str, expected: str, fix: str, **at: str) -> Violation:
    return Violation(rule=rule, event=event, state=state, expected=expected, fix=fix, **at)
