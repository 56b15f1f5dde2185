"""The layers of the validator that remember: ids, numbers, accumulated text, usage, and how the stream ended.

Texts are compared by running digest and length; up to 1 MiB of each is kept, for the message.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from respevents._dialect import ERROR_TYPES, is_extension
from respevents._errors import show
from respevents._grammar import ALIASES, READING
from respevents._table import ITEMS
from respevents.failures import FailureCode

if TYPE_CHECKING:
    from respevents._table import Row

__all__ = ["StreamChecks"]

_KEPT: Final = 1 << 20
_FRESH: Final = frozenset({"encrypted_content", "fingerprint"})
"""Keys that OpenAI's servers write anew each time: 68 captured streams differ in them and in nothing else."""

_FAR: Final = 100_000_000_000
"""Seconds: the year 5138. What is more counts milliseconds."""
_INTERNALS: Final = re.compile(r"Traceback \(most recent call last\)|File \"/[^\"]{1,200}\", line \d+")
_LISTS: Final = {"content_index": "content", "summary_index": "summary"}
_CODES: Final = frozenset(code.value for code in FailureCode)
_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
_KEPT_KEYS: Final = ("name", "namespace", "role", "container_id", "server_label", "call_id")
"""What an item is known by, from added to done. (A tool_search_call of OpenAI's changed its call_id on its way.)"""


class _Sum:
    """Text that came in deltas: a running digest, and the first of it."""

    __slots__ = ("_digest", "_kept", "_size", "pieces")

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._kept = ""
        self._size = 0
        self.pieces: list[str] = []
        """The last ones, not digested yet."""

    def add(self, piece: str) -> None:
        self.pieces.append(piece)
        if len(self.pieces) >= 1024:
            self._settle()

    def _settle(self) -> None:
        text = "".join(self.pieces)
        self.pieces.clear()
        self._digest.update(text.encode("utf-8", "surrogatepass"))
        self._size += len(text)
        if len(self._kept) < _KEPT:
            self._kept += text[: _KEPT - len(self._kept)]

    @property
    def size(self) -> int:
        """Characters."""
        self._settle()
        return self._size

    def text(self) -> str | None:
        """The text, unless it was too long to keep."""
        return self._kept if self.size <= _KEPT else None

    def equals(self, text: str) -> bool:
        if len(text) != self.size:
            return False
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        return self._digest.digest() == digest

    def shown(self) -> str:
        self._settle()
        return show(self._kept[:200])


class _Item:
    __slots__ = ("call_id", "done", "id", "index", "notes", "parts", "sums", "type", "wholes", "wire")

    def __init__(self, index: int, wire: dict[str, Any]) -> None:
        self.index = index
        self.wire = wire
        self.id = wire.get("id")
        self.call_id = wire.get("call_id")
        self.type = wire.get("type")
        self.sums: dict[tuple[str | None, Any], _Sum] = {}
        """(kind of text, part) -> what its deltas said."""
        self.wholes: dict[tuple[str | None, Any], _Sum] = {}
        """The same -> what its `done` event said."""
        self.parts: dict[tuple[str, Any], Any] = {}
        """(index key, index) -> the type a part was opened with."""
        self.notes: dict[Any, list[Any]] = {}
        """Annotations by part."""
        self.done: dict[str, Any] | None = None


Find = Callable[..., None]


class StreamChecks:
    """What is remembered of a stream, held against each event. `find(rule, message, path)` takes the findings."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._items: dict[int, _Item] = {}
        self._ids: dict[str, int] = {}
        self._calls: dict[str, int] = {}
        self._response: dict[str, Any] = {}
        self._next: int | None = None
        self._numbered = False
        self._continued = False
        self._error: dict[str, Any] | None = None
        self._terminal: str | None = None
        self._first = True
        self._replaced = 0
        self.of_open_responses = False
        """Something came that OpenAI has otherwise."""

    def begin(self, *, continued: bool, number: Any) -> None:
        self._continued = continued
        if continued and type(number) is int:
            self._next = number

    def bare(self, event: dict[str, Any]) -> None:
        """An event without a type."""
        if "error" in event:
            self._find("error-shape", "The error event has no type: chat completions send errors so", "$")

    # ---- numbers

    def running(self, event: dict[str, Any], kind: str) -> _Sum | None:
        """The text that a delta just added to, if it was in order."""
        row = READING.get(kind)
        item = self._items.get(event.get("output_index", -1))
        if (
            row is None
            or row.done is None
            or row.scope not in {"item", "part"}
            or item is None
            or item.done is not None
        ):
            return None
        if event.get("item_id", item.id) != item.id or "error" in event or "command_index" in event:
            return None
        part = event.get(row.index) if row.index is not None else None
        place = (row.part or kind.rpartition(".")[0], part)
        return None if place in item.wholes else item.sums.get(place)

    def number(self, event: dict[str, Any]) -> None:
        number = event.get("sequence_number")
        if number is not None and number == self._next and number.__class__ is int:
            self._next = number + 1
            return
        first, self._first = self._first, False
        if type(number) is not int:
            if number is None:
                if not (self._numbered is False and "sequence_number" not in event) or first:
                    self._find("sequence-missing", "The event has no sequence_number", "$.sequence_number")
                if self._next is not None and self._numbered:
                    self._next += 1
            return
        self._numbered = True
        if self._next is None:
            if first and number != 0:
                self._find("sequence-start", f"The first event has the number {number}", "$.sequence_number")
        elif number != self._next:
            rule = "sequence-repeated" if number < self._next else "sequence-gap"
            self._find(rule, f"expected {self._next}, got {number}", "$.sequence_number")
        self._next = number + 1

    # ---- events

    def event(self, event: dict[str, Any], kind: str) -> None:
        self.number(event)
        if kind in ALIASES or is_extension(kind):
            self.of_open_responses = True
        if kind == "error":
            self._error_event(event)
            return
        if "error" in event:
            self._find("error-key-in-event", f"The event has the key error: {show(event['error'])}", "$.error")
        row = READING.get(kind)
        if row is None:
            return
        if row.scope == "response":
            self._snapshot(event, kind)
        elif row.scope in {"item", "part"}:
            self._of_item(event, row)

    def _error_event(self, event: dict[str, Any]) -> None:
        nested = event.get("error")
        told = nested if isinstance(nested, dict) else event
        self._error = told
        if not isinstance(told.get("message"), str) or not told.get("message"):
            path = "$.error.message" if isinstance(nested, dict) else "$.message"
            self._find("error-message-missing", f"The message is {show(told.get('message'))}", path)
        if not (isinstance(nested, dict) and "message" in event):
            said = "nested alone" if isinstance(nested, dict) else "flat alone"
            self._find("error-shape", f"The error stands {said}", "$")
        if isinstance(nested, dict) and nested.get("type") not in ERROR_TYPES:
            self._find("error-type", f"The error has the type {show(nested.get('type'))}", "$.error.type")
        if told.get("code") is not None:
            self._code(told["code"], told.get("message"), "$.error.code" if told is nested else "$.code")

    def _code(self, code: Any, message: Any, path: str) -> None:
        if not isinstance(code, str):
            self._find("code-form", f"The code is {show(code)}", path)
            return
        if code not in _CODES:
            self._find("code-unknown", f"No catalogue names the code {show(code)}", path)
        if isinstance(message, str) and _INTERNALS.search(message[:20_000]):
            self._find("internals-exposed", f"The message is {show(message[:200])}", path)
        if isinstance(message, str) and code != "context_length_exceeded":
            from respevents.classifier import classify
            from respevents.failures import Cause

            if classify(message).cause is Cause.CONTEXT_LENGTH_EXCEEDED:
                self._find("code-contradicts-text", f"The text is over-length's, the code {show(code)}", path)

    # ---- snapshots of the response

    def _snapshot(self, event: dict[str, Any], kind: str) -> None:
        response = event.get("response")
        if not isinstance(response, dict):
            return
        self._identity(response)
        status = kind.rpartition(".")[2]
        if status in {"completed", "incomplete", "failed"}:
            self._terminal = status
            self._ending(response, status)
            self._output(response, status)
        else:
            if isinstance(response.get("usage"), dict):
                self._find("usage-early", "usage is an object before the end", "$.response.usage")
            wanted = {"created": ("in_progress", "queued"), "in_progress": ("in_progress",), "queued": ("queued",)}
            if response.get("status") not in (*wanted.get(status, ()), None):
                said = f"The status is {show(response.get('status'))} in {kind}"
                self._find("status-mismatch", said, "$.response.status")
        usage = response.get("usage")
        if isinstance(usage, dict):
            self._usage(usage)
        elif status == "completed":
            self._find("usage-missing", f"usage is {show(usage)}", "$.response.usage")

    def _identity(self, response: dict[str, Any]) -> None:
        known = self._response
        identity = response.get("id")
        if not isinstance(identity, str) or not identity:
            self._find("id-missing", f"The response has the id {show(identity)}", "$.response.id")
        elif known.get("id") is None and not identity.startswith("resp"):
            self._find("id-form", f"The response has the id {show(identity)}", "$.response.id")
        elif known.get("id") is not None and identity != known["id"]:
            self._find(
                "response-id-changed", f"announced as {show(known['id'])}, now {show(identity)}", "$.response.id"
            )
        for key in ("created_at", "completed_at"):
            if type(response.get(key)) in {int, float} and response[key] > _FAR:
                self._find("time-unit", f"{key} is {response[key]}", f"$.response.{key}")
        for key in ("created_at", "model"):
            if known.get(key) is not None and response.get(key) is not None and response[key] != known[key]:
                said = f"{key} was {show(known[key])}, now {show(response[key])}"
                self._find("response-changed", said, f"$.response.{key}")
        for key in ("id", "created_at", "model"):
            if known.get(key) is None and response.get(key) is not None:
                known[key] = response[key]

    def _ending(self, response: dict[str, Any], status: str) -> None:
        if response.get("status") != status:
            said = f"The status is {show(response.get('status'))} in response.{status}"
            self._find("status-mismatch", said, "$.response.status")
        error = response.get("error")
        if status == "failed":
            if not isinstance(error, dict) or error.get("code") in (None, "") or not error.get("message"):
                self._find("failed-without-error", f"error is {show(error)}", "$.response.error")
            if isinstance(error, dict) and error.get("code") is not None:
                self._code(error["code"], error.get("message"), "$.response.error.code")
        elif isinstance(error, dict) and status == "completed":
            self._find("completed-with-error", f"error is {show(error)}", "$.response.error")
        if status == "incomplete":
            details = response.get("incomplete_details")
            if not isinstance(details, dict) or not details.get("reason"):
                self._find("incomplete-without-reason", f"incomplete_details is {show(details)}",
                           "$.response.incomplete_details")  # fmt: skip

    def _output(self, response: dict[str, Any], status: str) -> None:
        output = response.get("output")
        if not isinstance(output, list):
            return
        if status == "completed":
            for at, item in enumerate(output):
                # A call that waits for the client's answer is in progress in a completed response.
                if isinstance(item, dict) and item.get("status") == "incomplete":
                    self._find("unfinished-completed", f"output item {at} is {item['status']}",
                               f"$.response.output[{at}].status")  # fmt: skip
        if self._continued or status == "failed":
            self._known(output)
            return
        if status == "completed" and not output and not self._items:
            self._find("completed-empty", "No item was added, the output is empty", "$.response.output")
        done = [item for _, item in sorted(self._items.items()) if item.done is not None]
        if not output and done:
            self._find("output-empty", f"{len(done)} items were done, the output is empty", "$.response.output")
            return
        if len(output) != len(self._items):
            said = f"{len(self._items)} items were added, the output has {len(output)}"
            self._find("output-incomplete", said, "$.response.output")
            return
        for at, (item, final) in enumerate(zip((one for _, one in sorted(self._items.items())), output, strict=True)):
            if item.done is None or not isinstance(final, dict):
                continue
            if item.done.get("id") != final.get("id") and isinstance(final.get("id"), str):
                self._find("item-id-changed", f"{show(item.done.get('id'))} was done, {show(final.get('id'))} is final",
                           f"$.response.output[{at}].id")  # fmt: skip
            where = _differs({**item.done, "id": None}, {**final, "id": None}, f"$.response.output[{at}]")
            if where is not None:
                self._find("output-mismatch", "The item was done with another value than it has at the end", where)

    def _known(self, output: list[Any]) -> None:
        """The output of a stream that was not seen whole, or failed: what was done and stands there is the same."""
        done = {item.done.get("id"): item.done for item in self._items.values() if item.done is not None
                and isinstance(item.done.get("id"), str)}  # fmt: skip
        for at, final in enumerate(output):
            identity = final.get("id") if isinstance(final, dict) else None
            known = done.get(identity) if isinstance(identity, str) else None
            where = None if known is None else _differs(known, final, f"$.response.output[{at}]")
            if where is not None:
                self._find("output-mismatch", "The item was done with another value than it has at the end", where)

    def _usage(self, usage: dict[str, Any]) -> None:
        counts = [usage.get(key) for key in ("input_tokens", "output_tokens", "total_tokens")]
        if "input_tokens" not in usage and ("prompt_tokens" in usage or "completion_tokens" in usage):
            self._find("usage-names", f"usage counts {', '.join(usage)}", "$.response.usage")
            return
        if counts[1] == 0 and any(sums.size for item in self._items.values() for sums in item.sums.values()):
            self._find("usage-zero", "text was streamed, output_tokens is 0", "$.response.usage.output_tokens")
        if all(type(count) is int for count in counts) and counts[0] + counts[1] != counts[2]:  # type: ignore[operator]
            said = f"{counts[0]} and {counts[1]} are not {counts[2]}"
            self._find("usage-total", said, "$.response.usage.total_tokens")
        for key, inner in (("input_tokens_details", "cached_tokens"), ("output_tokens_details", "reasoning_tokens")):
            details = usage.get(key)
            if not isinstance(details, dict) or type(details.get(inner)) not in {int, float}:
                said = f"{key} is {show(details)}" if key in usage else f"{key} is missing"
                self._find("usage-details", said, f"$.response.usage.{key}")
                return

    # ---- items

    def _of_item(self, event: dict[str, Any], row: Row) -> None:
        index = event.get("output_index")
        if type(index) is not int:
            return
        item = self._items.get(index)
        if row.type == "response.output_item.added":
            wire = event.get("item")
            if isinstance(wire, dict) and item is None:
                self._items[index] = added = _Item(index, wire)
                self._new_item(added)
            return
        if item is None:
            wire = event.get("item")
            if row.type == "response.output_item.done" and isinstance(wire, dict) and not self._continued:
                self._items[index] = item = _Item(index, wire)
                item.done = wire
            return
        if row.type == "response.output_item.done":
            wire = event.get("item")
            if isinstance(wire, dict):
                self._item_done(item, wire)
            return
        identity = event.get("item_id")
        if identity is not None and item.id is not None and identity != item.id:
            self._find(
                "item-id-mismatch", f"the item is {show(item.id)}, the event names {show(identity)}", "$.item_id"
            )
        part = event.get(row.index) if row.index is not None else None
        if part is not None and type(part) is not int:
            return
        place = (row.part or row.type.rpartition(".")[0], part)
        if row.part == "output":
            self._written(item, event, row, part)
        elif row.type == "response.output_text.annotation.added":
            item.notes.setdefault(part, []).append(event.get("annotation"))
        elif row.opens and isinstance(event.get("part"), dict):
            item.parts[row.index or "", part] = event["part"].get("type")
        elif row.done is not None:
            delta = event.get("delta")
            if isinstance(delta, str):
                self._cut_characters(delta)
                if not delta:
                    self._find("delta-empty", "The delta is empty", "$.delta")
                sums = item.sums.get(place)
                if sums is None:
                    sums = item.sums[place] = _Sum()
                sums.add(delta)
        elif row.whole is not None and row.part != "output":
            whole = event.get(row.whole)
            if isinstance(whole, str):
                self._whole(item, place, whole, row)
        elif row.closes and row.index in _LISTS:
            self._part_done(item, event, row, part)

    def _cut_characters(self, delta: str) -> None:
        """Two deltas in a row that are nothing but U+FFFD."""
        if delta and not delta.strip("\ufffd"):
            self._replaced += 1
            if self._replaced == 2:
                self._find("replacement-characters", "Two deltas in a row are nothing but U+FFFD", "$.delta")
        else:
            self._replaced = 0

    def _new_item(self, item: _Item) -> None:
        identity, call = item.id, item.call_id
        if isinstance(identity, str) and identity:
            if identity in self._ids:
                said = f"output item {self._ids[identity]} has the id {show(identity)} too"
                self._find("item-id-repeated", said, "$.item.id")
            self._ids[identity] = item.index
        else:
            self._find("id-missing", f"The item has the id {show(identity)}", "$.item.id")
        if not isinstance(item.type, str):
            item.type = None
        elif item.type not in ITEMS:
            self._find("unknown-item", f"No schema names the item type {show(item.type)}", "$.item.type")
        if item.type in _CALLS and isinstance(call, str):
            if call in self._calls:
                said = f"output item {self._calls[call]} has the call_id {show(call)} too"
                self._find("call-id-repeated", said, "$.item.call_id")
            self._calls[call] = item.index

    def _whole(self, item: _Item, place: tuple[str | None, Any], whole: str, row: Row) -> None:
        name = "arguments-mismatch" if row.whole in {"arguments", "input"} else "text-mismatch"
        sums = item.sums.get(place)
        if sums is None:
            if whole and row.whole in {"arguments", "input", "text", "refusal", "code", "diff"}:
                self._find("deltas-missing", f"{row.whole} came whole, without a delta", f"$.{row.whole}")
        elif name == "arguments-mismatch" and not sums.equals(whole) and _redacted(sums, whole):
            self._find("arguments-rewritten", "The deltas have an absolute path that the whole lacks", f"$.{row.whole}")
        elif not sums.equals(whole):
            said = f"the deltas said {sums.shown()}, the whole is {show(whole[:200])}"
            self._find(name, said, f"$.{row.whole}")
        told = item.wholes[place] = _Sum()
        told.add(whole)
        if row.whole == "arguments" and item.type == "function_call" and whole:
            try:
                json.loads(whole)
            except (ValueError, RecursionError):
                self._find("arguments-not-json", f"{show(whole)} is not JSON", "$.arguments")

    def _written(self, item: _Item, event: dict[str, Any], row: Row, part: Any) -> None:
        """What a command wrote: two texts at once."""
        if row.done is not None:
            delta = event.get("delta")
            for name, piece in delta.items() if isinstance(delta, dict) else ():
                if isinstance(piece, str):
                    item.sums.setdefault((name, part), _Sum()).add(piece)
            return
        output = event.get("output")
        entries = [one for one in output if isinstance(one, dict)] if isinstance(output, list) else []
        for name in ("stdout", "stderr"):
            whole = "".join(one[name] for one in entries if isinstance(one.get(name), str))
            sums = item.sums.get((name, part))
            if sums is not None and not sums.equals(whole):
                said = f"the deltas said {sums.shown()}, the whole is {show(whole[:200])}"
                self._find("text-mismatch", said, f"$.output.{name}")

    def _part_done(self, item: _Item, event: dict[str, Any], row: Row, part: Any) -> None:
        wire = event.get("part")
        if not isinstance(wire, dict) or not isinstance(wire.get("type"), str):
            return
        kind = wire["type"]
        opened = item.parts.get((row.index or "", part))
        if opened is not None and opened != kind:
            self._find("part-kind", f"The part was opened as {show(opened)}, closed as {show(kind)}", "$.part.type")
            return
        for key in ("text", "refusal"):
            said = self._said(item, kind, part)
            if isinstance(wire.get(key), str) and said is not None and not said.equals(wire[key]):
                message = f"the text was {said.shown()}, the part has {show(wire[key][:200])}"
                self._find("part-mismatch", message, f"$.part.{key}")
        notes = item.notes.get(part, [])
        if kind == "output_text" and notes and _differs(notes, wire.get("annotations"), "$") is not None:
            said_notes = f"{len(notes)} annotations were added, the part has others"
            self._find("part-mismatch", said_notes, "$.part.annotations")

    def _said(self, item: _Item, kind: Any, part: Any) -> _Sum | None:
        """The text of a part as it was said whole, or by its deltas; None if it was not said."""
        place = (kind, part)
        return item.wholes.get(place) or item.sums.get(place)

    def _item_done(self, item: _Item, wire: dict[str, Any]) -> None:
        if item.done is not None:
            return
        item.done = wire
        if wire.get("id") != item.id and item.id is not None:
            said = f"added as {show(item.id)}, done as {show(wire.get('id'))}"
            self._find("item-id-changed", said, "$.item.id")
        if item.type in _CALLS and item.call_id is not None and wire.get("call_id") != item.call_id:
            said = f"added with {show(item.call_id)}, done with {show(wire.get('call_id'))}"
            self._find("call-id-changed", said, "$.item.call_id")
        if item.type in ITEMS and item.type != "tool_search_call":
            for key in _KEPT_KEYS[: -1 if item.type in _CALLS else None]:
                added, done = item.wire.get(key), wire.get(key)
                if isinstance(added, str) and added and added != done:
                    self._find("item-mismatch", f"{key} was {show(added)}, is {show(done)}", f"$.item.{key}")
        if not item.sums and not item.wholes and not item.parts:
            self._unstreamed(item, wire)
        status = wire.get("status")
        if isinstance(status, str) and status in {"in_progress", "searching", "generating", "interpreting"}:
            self._find("item-status", f"The done item is {show(wire['status'])}", "$.item.status")
        for place in dict.fromkeys((*item.sums, *item.wholes)):  # no set: the order of findings is that of the stream
            self._in_item(item, wire, place)

    def _in_item(self, item: _Item, wire: dict[str, Any], place: tuple[str | None, Any]) -> None:
        """The text of one place, as it stands in the done item."""
        kind, part = place
        row = _WHOLE.get(kind)
        if row is None:
            return
        said = self._said(item, kind, part)
        if said is None:
            return
        if row.index in _LISTS:
            parts = wire.get(_LISTS[row.index])
            if not isinstance(parts, list) or type(part) is not int or part >= len(parts):
                if said.size:
                    self._find("item-mismatch", f"The item has no part {part}", f"$.item.{_LISTS[row.index]}")
                return
            found, path = parts[part], f"$.item.{_LISTS[row.index]}[{part}]"
            keys = row.into
        elif row.index is None:
            found, path, keys = wire, "$.item", row.into
        else:
            return
        for key in keys:
            found, path = (found.get(key) if isinstance(found, dict) else None), f"{path}.{key}"
        if isinstance(found, str) and not said.equals(found):
            self._find("item-mismatch", f"{said.shown()} was streamed, the item has {show(found[:200])}", path)
        elif found is None and said.size:
            self._find("item-mismatch", f"{said.shown()} was streamed, the item has nothing", path)

    def _unstreamed(self, item: _Item, wire: dict[str, Any]) -> None:
        """An item that says something and had no event of its own."""
        content = wire.get("content")
        parts = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
        if item.type == "message" and any(one.get("text") or one.get("refusal") for one in parts):
            self._find("deltas-missing", "The message came whole, without an event of its parts", "$.item.content")
        elif item.type in _CALLS and (wire.get("arguments") or wire.get("input")):
            self._find("deltas-missing", "The call came whole, without an event of its own", "$.item")

    def end(self) -> None:
        """The stream is over."""


_WHOLE: Final[dict[str | None, Any]] = {
    **{row.part: row for row in READING.values() if row.scope == "part" and row.whole is not None},
    **{row.type.rpartition(".")[0]: row for row in READING.values() if row.scope == "item" and row.whole is not None},
}
"""Kind of text -> the row of the event that says it whole."""


_PATH: Final = re.compile(r"/[\w.@-]{1,80}(?:/[\w.@-]{1,80}){4,30}")


def _redacted(sums: _Sum, whole: str) -> bool:
    """The same object but for strings that lost a path: what recorders do that redact events one by one."""
    try:
        streamed, said = json.loads(sums.text() or ""), json.loads(whole)
    except (ValueError, RecursionError):
        return False
    if not (isinstance(streamed, dict) and isinstance(said, dict) and list(streamed) == list(said)):
        return False
    for key, value in streamed.items():
        other = said[key]
        if value == other:
            continue
        if not (isinstance(value, str) and isinstance(other, str)):
            return False
        paths = _PATH.findall(value)
        if not paths or any(path in other for path in paths):
            return False
    return True


def _differs(one: Any, other: Any, path: str) -> str | None:
    """Where two values differ first, what is written anew each time aside."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            if key in _FRESH:
                continue
            if key not in one or key not in other:
                if one.get(key) is None and other.get(key) is None:
                    continue
                return f"{path}.{key}"
            found = _differs(one[key], other[key], f"{path}.{key}")
            if found is not None:
                return found
        return None
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return path
        for at, (left, right) in enumerate(zip(one, other, strict=True)):
            found = _differs(left, right, f"{path}[{at}]")
            if found is not None:
                return found
        return None
    return None if one == other else path
