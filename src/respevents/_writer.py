"""The one place where events are looked at, numbered, written and remembered. Steps and handles go through it."""

from __future__ import annotations

import functools
import re
import weakref
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

import msgspec

from respevents._dialect import DONE_FRAME
from respevents._errors import LocalProtocolError, show
from respevents._grammar import GRAMMARS
from respevents._open_responses import OpenResponses
from respevents._output import Item, Joiner, Output, keys_of
from respevents._shape import misfit
from respevents._snapshot import standing
from respevents.lifecycle import ItemState, Lifecycle
from respevents.wire import frame_bytes, to_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from respevents._dialect import Dialect
    from respevents.lifecycle import Violation

__all__ = ["Random", "Writer", "expect", "sendable", "step", "wrong"]

_Step = TypeVar("_Step", bound="Callable[..., bytes]")

_encode: Final = msgspec.json.encode
"""Of what `to_wire` has made: together they are `encode_frame`, and the mapping is kept besides."""

_BY_CALL: Final = frozenset({"function_call", "custom_tool_call", "shell_call", "shell_call_output"})
"""Items that the openai SDK knows by their `call_id`. (A tool_search_call of OpenAI's changed it on its way.)"""

_ITEM_TYPE: Final = re.compile(r"\$\.(?:item|response\.output\[\d+\])\.type$")
_PADDING: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


class Random(Protocol):
    """`random.Random`, as far as it is used."""

    def choices(self, population: str, *, k: int) -> list[str]:
        """`k` characters of `population`."""
        ...


class Handle(Protocol):
    """A handle, as far as the writer knows it."""

    def disarm(self) -> None:
        """Forget what writes the next delta without a look at the whole state."""
        ...


def step(method: _Step) -> _Step:
    """A step of the caller's: one that is refused loses nothing (see `Writer.whole`)."""

    @functools.wraps(method)
    def run(self: Any, *arguments: Any, **named: Any) -> bytes:
        return self._writer.whole(method, self, *arguments, **named)  # type: ignore[no-any-return]

    return cast("_Step", run)


class Writer:
    """The stream below the steps. An event counts once its frame is made; one that is refused changes nothing."""

    __slots__ = (
        "_inside",
        "_made",
        "_rules",
        "base",
        "grammar",
        "handles",
        "machine",
        "number",
        "obfuscation",
        "output",
        "overlap",
        "owed",
        "transcript",
    )

    def __init__(
        self,
        base: dict[str, Any],
        *,
        dialect: Dialect,
        starting_after: int | None,
        overlap: bool,
        obfuscation: Random | None,
    ) -> None:
        self.base = base
        """The Response as announced, or to be announced."""
        self.grammar = GRAMMARS[dialect]
        self.machine = Lifecycle(continued=starting_after is not None, table=self.grammar.table)
        self.output = Output(self.machine, self.grammar)
        self._rules = OpenResponses() if dialect == "open-responses" else None
        self.number = 0 if starting_after is None else starting_after + 1
        """Of the next event."""
        self.transcript = Joiner()
        """Of the audio, which is no item."""
        self.overlap = overlap
        self.obfuscation = obfuscation
        self.owed = b""
        """Frames that count, of a step that was refused after them: they go out before the next ones."""
        self._made: list[bytes] = []
        self._inside = False
        self.handles: weakref.WeakSet[Handle] = weakref.WeakSet()

    def whole(self, step: Callable[..., bytes], *arguments: Any, **named: Any) -> bytes:
        """Run one step of the caller's. What it made before it raised is not lost, and neither is the order."""
        if self._inside:
            return step(*arguments, **named)
        self._inside, self._made = True, []
        try:
            out = step(*arguments, **named)
        except BaseException:
            self.owed += b"".join(self._made)
            for handle in self.handles:  # what they have ready does not look at what is owed
                handle.disarm()
            raise
        finally:
            self._inside = False
        if self.owed:
            out, self.owed = self.owed + out, b""
        return out

    def made(self, frame: bytes) -> bytes:
        """Note a frame that counts."""
        if self._inside:
            self._made.append(frame)
        return frame

    def adopt(self, item: Any) -> None:
        """An item that was done before this stream goes on."""
        wire = self.vet({"item": item}, None)["item"]
        if not isinstance(wire, dict) or not isinstance(wire.get("type"), str):
            raise wrong("output", "output items", item)
        index = len(self.output.items)
        self.output.items[index] = known = Item(index, wire)
        known.done = True
        self.machine.items[index] = ItemState(wire["type"], "done")
        if self._rules is not None:
            self._rules.feed({"type": "response.output_item.done", "output_index": index, "item": wire})

    def obey(self, event: Mapping[str, Any]) -> None:
        """Refuse what the dialect forbids. The lifecycle table cannot say it: a type without a row is free there."""
        if self._rules is not None:
            self.refuse(next(self._rules.violations(event), None))

    def sealed(self, frame: bytes) -> bytes:
        """A frame with what the dialect has behind the terminal event."""
        return frame + DONE_FRAME if self._rules is not None and self.machine.ended else frame

    def add(self, wire: dict[str, Any]) -> tuple[bytes, Item]:
        """Add an item, and close those before it. What the caller put into it is looked at before anything is sent."""
        kind = "response.output_item.added"
        index = len(self.machine.items)
        event = {"type": kind, "output_index": index, "item": wire}
        known = to_wire(event)
        self.obey(known)
        self.distinct(known["item"])
        out = self.run(kind)
        if not self.overlap:
            items = self.output.open_items()
            self.check_closable(items, None)
            for item in items:
                out += self.close(item, None)
        out += self.emit(event)
        return out, self.output.items[index]

    def distinct(self, wire: dict[str, Any]) -> None:
        """No two items may be taken for one another: the openai SDK tells calls by `call_id` and the rest by `id`, and
        raises when two are the same.
        """
        for key in ("id", "call_id"):
            value = wire.get(key)
            if not isinstance(value, str):
                continue
            for item in self.output.items.values():
                if item.wire.get(key) == value and (key == "id" or item.type == wire.get("type")):
                    raise LocalProtocolError(
                        f"Another item has this {key}",
                        event="response.output_item.added",
                        state=self.machine.state,
                        path=f"$.item.{key}",
                        expected=f"a {key} that output item {item.index} does not have",
                        got=show(value),
                        fix=f"Give every item its own {key}, or leave it out.",
                    )

    def close(self, item: Item, status: str | None) -> bytes:
        out = b""
        for event in self.output.closing(item, status):
            out += self.emit(event)
        return out

    def close_audio(self) -> bytes:
        out, rest = b"", self.transcript.flush()
        if rest:
            out += self.emit({"type": "response.audio.transcript.delta", "delta": rest})
        for kind, name in (("response.audio.done", "sound"), ("response.audio.transcript.done", "transcript")):
            part = self.machine.audio.get(name)
            if part is not None and part.state == "bare":
                out += self.emit({"type": kind})
        return out

    def check_closable(self, items: Iterable[Item], status: str | None) -> None:
        """Nothing may be made up: a command's exit code has to be given. Nor may the dialect's order be broken."""
        for item in items:
            if self._rules is not None and status == "incomplete" and item.index < self._rules.last():
                raise LocalProtocolError(
                    f"Output item {item.index} is not the last one, so it cannot be incomplete",
                    event="response.output_item.done",
                    state=self.machine.state,
                    expected=f"output item {item.index} closed as completed",
                    fix="Call .done() of it first: in Open Responses only the last item may be incomplete.",
                )
            parts = self.machine.items[item.index].parts.values()
            written = any(part.kind == "output" and part.state == "bare" for part in parts)
            if status is None and (written or any(joiner.held for joiner in item.writing.values())):
                raise LocalProtocolError(
                    f"The output of a command has no outcome (output item {item.index})",
                    event="response.shell_call_output_content.done",
                    state=self.machine.state,
                    expected="its exit code, or that it timed out",
                    fix="Call .exited(code) or .timed_out() after the last piece of output.",
                )

    def run(self, kind: str) -> bytes:
        """Bring the response to where items may come. Raises when it is not on the way."""
        if self.machine.running:
            return b""
        if self.machine.state in {"created", "queued"}:
            return self.emit_response("response.in_progress", "in_progress")
        self.refuse(self.machine.check({"type": kind, "output_index": len(self.machine.items)}))
        return b""

    def emit_response(self, kind: str, status: str, **extra: Any) -> bytes:
        output = self.output.done_items() if status not in {"queued", "in_progress"} else []
        return self.emit({"type": kind, "response": standing(self.base, status, output, **extra)})

    def emit_delta(self, event: dict[str, Any]) -> bytes:
        if self.obfuscation is not None and "obfuscation" in keys_of(event["type"]):
            event["obfuscation"] = "".join(self.obfuscation.choices(_PADDING, k=-len(event["delta"]) % 16))
        return self.emit(event)

    def emit(self, event: dict[str, Any]) -> bytes:
        """Look at an event, write it, and only then let it count."""
        event["sequence_number"] = self.number
        self.obey(event)
        self.refuse(self.machine.check(event))
        wire = to_wire(event)
        self.fit(wire)
        frame = frame_bytes(wire["type"], _encode(wire))
        self.take(wire["type"], wire)
        return self.made(self.sealed(frame))

    def fit(self, wire: dict[str, Any]) -> None:
        """What the caller put into an event has the shape that the strict schema gives it."""
        found = misfit(wire, self.grammar.definitions[wire["type"]], self.grammar.version)
        # The type of a whole item was looked at where it was given: one newer than the set is let through on purpose.
        if found is not None and not _ITEM_TYPE.match(found.path):
            raise LocalProtocolError(
                "A value has another shape",
                event=wire["type"],
                state=self.machine.state,
                path=found.path,
                expected=found.expected,
                got=found.got,
                fix="Correct what was passed in; keys that the schema does not name are free.",
            )

    def take(self, kind: str, wire: dict[str, Any]) -> None:
        self.machine.feed(wire)
        if self._rules is not None:
            self._rules.feed(wire)
        self.output.absorb(self.grammar.table.get(kind), wire)
        self.number += 1

    def refuse(self, violation: Violation | None) -> None:
        if violation is not None:
            raise LocalProtocolError(
                "The event may not come here",
                event=violation.event,
                state=violation.state,
                path=violation.path,
                expected=violation.expected,
                got=violation.got,
                fix=violation.fix[:1].upper() + violation.fix[1:] + ".",
            )

    @staticmethod
    def vet(value: Mapping[str, Any], shape: str | None) -> dict[str, Any]:
        """Look at what the caller gave before anything is sent: EncodeError names its path."""
        return to_wire({shape: value} if shape is not None else value)

    def agree(self, kind: str, wire: dict[str, Any]) -> None:
        """An event of the caller's must not contradict the stream. Raises LocalProtocolError naming the key."""

        def contradiction(what: str, path: str, expected: str, got: object, fix: str) -> LocalProtocolError:
            return LocalProtocolError(
                what, event=kind, state=self.machine.state, path=path, expected=expected, got=show(got), fix=fix
            )

        row = self.grammar.table.get(kind)
        if row is None:
            return
        if row.scope == "response" and kind != "error":
            response = wire.get("response")
            if not isinstance(response, dict):
                raise contradiction(
                    "The event has no response", "$.response", "the whole Response", response, "Add it."
                )
            known = None if self.machine.state == "idle" else self.base["id"]
            found = response.get("id")
            if not isinstance(found, str) or not found or (known is not None and found != known):
                raise contradiction(
                    "The response has another id" if found else "The response has no id",
                    "$.response.id",
                    known or "the id of the response",
                    found,
                    "Every snapshot carries the id that response.created announced.",
                )
            if row.to in {"completed", "incomplete", "failed"} and response.get("status") != row.to:
                raise contradiction(
                    "The response has another status",
                    "$.response.status",
                    row.to,
                    response.get("status"),
                    f"Set it to {row.to}, or send the event of that status.",
                )
            if kind == "response.created":
                self.base = {**self.base, **response}
        elif row.type in {"response.output_item.added", "response.output_item.done"}:
            item = wire.get("item")
            if not isinstance(item, dict) or not isinstance(item.get("type"), str):
                raise contradiction(
                    "The event has no item", "$.item.type", "an output item with a type", item, "Add it."
                )
            if not isinstance(item.get("id"), str):
                raise contradiction(
                    "The item has no id",
                    "$.item.id",
                    "the id of the item",
                    item.get("id"),
                    "Give every item an id: the events of its parts name it.",
                )
            if row.opens:
                self.distinct(item)
                return
            known_item = self.output.items.get(wire["output_index"])
            for key in ("id", "call_id") if item["type"] in _BY_CALL else ("id",):
                if known_item is not None and known_item.wire.get(key, item.get(key)) != item.get(key):
                    raise contradiction(
                        f"The item has another {key}",
                        f"$.item.{key}",
                        f"{known_item.wire[key]}, as it was added",
                        item.get(key),
                        "An item keeps its identity from response.output_item.added on.",
                    )
        elif row.scope in {"item", "part"} and "item_id" in wire:
            item = self.output.items.get(wire["output_index"])
            if item is not None and wire["item_id"] != item.id:
                raise contradiction(
                    "The event names another item",
                    "$.item_id",
                    f"{item.id}, the id of output item {item.index}",
                    wire["item_id"],
                    "Events of an item carry its id and its output_index.",
                )


def wrong(name: str, expected: str, got: object) -> LocalProtocolError:
    return LocalProtocolError(
        f"{name} is of the wrong kind",
        path=f"$.{name}",
        expected=expected,
        got=show(got),
        fix=f"Pass {expected}.",
    )


def expect(name: str, value: object, kinds: Any, expected: str) -> None:
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise wrong(name, expected, value)
    if isinstance(value, str) and not value:
        raise wrong(name, expected, value)


def sendable(name: str, text: str) -> str:
    """A text that can be written. A lone surrogate raises here and not in the middle of the stream."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise wrong(name, "text without lone surrogates", text) from None
    return text
