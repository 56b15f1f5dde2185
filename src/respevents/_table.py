"""Which event may follow which: one table, and the machine that reads it.

Theory of operation
===================

A stream is a handful of small state machines inside each other, and every event type moves exactly one of them.

- The *response* goes `idle`, `created`, (`queued`,) `in_progress`, and ends as `completed`, `incomplete` or `failed`.
  An `error` event leaves one way out: `response.failed`.
- Each *item* of the output, known by its `output_index`, goes `absent`, `added`, then through states of its own
  (a web search is `searching`, a function call gets its `arguments`), and ends `done`.
- Each *part* of an item (a content part, a summary part, a shell command, the output of one) is known by an index of
  its own besides, and goes `absent`, `open`, `finished` (its whole text was sent), `closed`. Where a part has no
  event that opens it, its first delta does, and it is `bare` until its text is whole.
- *Audio* belongs to the response and has two such parts without an index: the sound and its transcript.
- *Free* events (`keepalive`, `response.rate_limits.updated`) move nothing.

A row of `TABLE` says of one event type which of these machines it moves, in which states it may come (`after`; `stay`
are states in which it may come without a change) and which state it leads to. `ITEMS` says of each item type in
which states its `response.output_item.done` may come. The rest is one rule a sentence:

- Events of items, parts and audio come while the response is `in_progress`.
- Output items are numbered from 0 in the order they are added, and so are the parts of an item: clients append, and
  look up by number.
- One part of a kind is open at a time; items may overlap.
- An item is done when its parts are closed and its deltas were summed up by their `done` event. A `done` item whose
  status is `incomplete` or `failed` may skip the steps that did not happen.
- A response is completed or incomplete when all its items are done. It may fail at any time.
- The terminal event is the last one, but for the trailers: an `error` after `response.failed` (for clients that read
  no other failure) and `response.rate_limits.updated`.

The table is role-blind: the builder refuses to write what it forbids, the validator reports it and reads on. The
orders are those of OpenAI's own captured streams; where other servers were seen to differ and no client minds, the
row allows both and its comment says who. Values (text, ids, sequence numbers) are other people's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["FREE", "ITEMS", "MID_DELTA", "PART_KINDS", "TABLE", "TERMINAL", "ItemRow", "Row"]

Scope = Literal["response", "item", "part", "audio", "free"]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """What the lifecycle knows of one event type."""

    type: str
    scope: Scope
    after: tuple[str, ...] = ()
    """States it may come in; it leads to `to`."""
    to: str = ""
    stay: tuple[str, ...] = ()
    """States it may come in that it does not change."""
    items: tuple[str, ...] = ()
    """Item types it belongs to; empty: any."""
    part: str | None = None
    """Kind of part it belongs to; None: any."""
    index: str | None = None
    """The key that tells the part: `content_index`, `summary_index`, `command_index`."""
    count: str | None = None
    """A key that numbers events of this type within their part, from 0."""
    done: str | None = None
    """Of a delta: the event type that sends the whole."""
    whole: str | None = None
    """Of a `done` event: the key that holds the sum of the deltas."""
    into: tuple[str, ...] = ()
    """Where in the item (or, with a part, in the part) the sum of the deltas stands."""
    opens: bool = False
    """It starts an item or a part."""
    closes: bool = False
    """It ends an item or a part."""


class ItemRow(msgspec.Struct, frozen=True, kw_only=True):
    """What the lifecycle knows of one type of output item."""

    type: str
    prefix: str
    """What ids of this type start with at OpenAI, before the underscore."""
    ready: tuple[str, ...] = ("added",)
    """States in which its `response.output_item.done` may come."""
    cut: str | None = "incomplete"
    """The status of one that was cut short by the end of the response; None: it carries no status."""
    statuses: bool = True
    """Its schema requires a status."""
    steps: bool = True
    """One that finishes goes through the events of its type, up to the last of `ready`."""


# ---- response -----------------------------------------------------------------------------------------------------

_LIVE: Final = ("created", "queued", "in_progress", "continued")
TERMINAL: Final = ("completed", "incomplete", "failed")
"""States of the response after which only trailers come."""


def _response(kind: str, after: tuple[str, ...], to: str) -> Row:
    return Row(type=kind, scope="response", after=after, to=to)


_rows: list[Row] = [
    _response("response.created", ("idle",), "created"),
    # Background responses only: 7 of 7 captured go created, queued, in_progress.
    _response("response.queued", ("created", "continued"), "queued"),
    _response("response.in_progress", ("created", "queued", "continued"), "in_progress"),
    _response("response.completed", ("in_progress", "continued"), "completed"),
    _response("response.incomplete", ("in_progress", "continued"), "incomplete"),
    _response("response.failed", (*_LIVE, "error"), "failed"),
    Row(type="error", scope="response", after=_LIVE, to="error", stay=("failed",)),
    Row(type="keepalive", scope="free", stay=_LIVE),
    Row(type="response.rate_limits.updated", scope="free", stay=(*_LIVE, *TERMINAL)),
]


# ---- items --------------------------------------------------------------------------------------------------------


def _step(kind: str, item: str, after: tuple[str, ...], to: str, stay: tuple[str, ...] = ()) -> Row:
    return Row(type=kind, scope="item", after=after, to=to, stay=stay, items=(item,))


def _sum(
    kind: str, item: str, after: str, state: str, whole: str, into: tuple[str, ...], summed: str = "done"
) -> list[Row]:
    """The rows of a delta and its `done` event on an item. A `done` without any delta is legal (LM Studio)."""
    delta, done = f"{kind}.delta", f"{kind}.{summed}"
    return [
        Row(type=delta, scope="item", after=(after,), to=state, stay=(state,), items=(item,), done=done, into=into),
        Row(
            type=done,
            scope="item",
            after=(after, state),
            to=f"{state} whole",
            items=(item,),
            whole=whole,
            into=into,
        ),
    ]


_rows += [
    Row(type="response.output_item.added", scope="item", after=("absent",), to="added", opens=True),
    Row(type="response.output_item.done", scope="item", to="done", closes=True),
    *_sum("response.function_call_arguments", "function_call", "added", "arguments", "arguments", ("arguments",)),
    *_sum("response.custom_tool_call_input", "custom_tool_call", "added", "input", "input", ("input",)),
    *_sum(
        "response.apply_patch_call_operation_diff", "apply_patch_call", "added", "diff", "diff", ("operation", "diff")
    ),
    _step("response.web_search_call.in_progress", "web_search_call", ("added",), "in_progress"),
    _step("response.web_search_call.searching", "web_search_call", ("in_progress",), "searching"),
    _step("response.web_search_call.completed", "web_search_call", ("searching",), "completed"),
    _step("response.file_search_call.in_progress", "file_search_call", ("added",), "in_progress"),
    _step("response.file_search_call.searching", "file_search_call", ("in_progress",), "searching"),
    _step("response.file_search_call.completed", "file_search_call", ("searching",), "completed"),
    _step("response.code_interpreter_call.in_progress", "code_interpreter_call", ("added",), "in_progress"),
    *_sum("response.code_interpreter_call_code", "code_interpreter_call", "in_progress", "code", "code", ("code",)),
    _step("response.code_interpreter_call.interpreting", "code_interpreter_call", ("code whole",), "interpreting"),
    _step("response.code_interpreter_call.completed", "code_interpreter_call", ("interpreting",), "completed"),
    _step("response.image_generation_call.in_progress", "image_generation_call", ("added",), "in_progress"),
    _step("response.image_generation_call.generating", "image_generation_call", ("in_progress",), "generating"),
    Row(
        type="response.image_generation_call.partial_image",
        scope="item",
        stay=("generating",),
        items=("image_generation_call",),
        count="partial_image_index",
    ),
    _step("response.image_generation_call.completed", "image_generation_call", ("generating",), "completed"),
    _step("response.mcp_list_tools.in_progress", "mcp_list_tools", ("added",), "in_progress"),
    _step("response.mcp_list_tools.completed", "mcp_list_tools", ("in_progress",), "completed"),
    _step("response.mcp_list_tools.failed", "mcp_list_tools", ("in_progress",), "failed"),
    # OpenAI repeated it once between the arguments and their sum, after an approval.
    _step("response.mcp_call.in_progress", "mcp_call", ("added",), "in_progress", ("arguments", "arguments whole")),
    *_sum("response.mcp_call_arguments", "mcp_call", "in_progress", "arguments", "arguments", ("arguments",)),
    _step("response.mcp_call.completed", "mcp_call", ("arguments whole",), "completed"),
    _step("response.mcp_call.failed", "mcp_call", ("arguments whole", "in_progress"), "failed"),
    _step("response.compaction.compacting", "compaction", ("added",), "compacting", ("compacting",)),
]


# ---- parts --------------------------------------------------------------------------------------------------------


def _parts(kind: str, index: str, items: tuple[str, ...], part: str | None = None) -> list[Row]:
    """The two events around a part."""
    closed = ("finished", "open") if part is None else ("finished",)
    base: dict[str, Any] = {"scope": "part", "index": index, "items": items, "part": part}
    return [
        Row(type=f"{kind}.added", after=("absent",), to="open", opens=True, **base),
        Row(type=f"{kind}.done", after=closed, to="closed", closes=True, **base),
    ]


def _text(kind: str, index: str, items: tuple[str, ...], part: str, whole: str, *, bare: bool = False) -> list[Row]:
    """A delta inside a part, and its sum. `bare`: the part may also do without the two events around it."""
    base: dict[str, Any] = {"scope": "part", "index": index, "items": items, "part": part, "into": (whole,)}
    delta, done = f"{kind}.delta", f"{kind}.done"
    if not bare:
        return [
            Row(type=delta, stay=("open",), done=done, **base),
            Row(type=done, after=("open",), to="finished", whole=whole, **base),
        ]
    return [
        Row(type=delta, after=("absent",), to="bare", stay=("open", "bare"), done=done, opens=True, **base),
        Row(type=done, after=("open", "bare", "absent"), to="finished", whole=whole, **base),
    ]


_rows += [
    *_parts("response.content_part", "content_index", ("message", "reasoning")),
    *_text("response.output_text", "content_index", ("message",), "output_text", "text"),
    *_text("response.refusal", "content_index", ("message",), "refusal", "refusal"),
    Row(
        type="response.output_text.annotation.added",
        scope="part",
        stay=("open",),
        items=("message",),
        part="output_text",
        index="content_index",
        count="annotation_index",
    ),
    # Around reasoning text LM Studio and the schema have response.content_part.*, Bedrock and vLLM
    # response.reasoning_part.*, DeepSeek nothing.
    *_parts("response.reasoning_part", "content_index", ("reasoning",), "reasoning_text"),
    *_text("response.reasoning_text", "content_index", ("reasoning",), "reasoning_text", "text", bare=True),
    *_parts("response.reasoning_summary_part", "summary_index", ("reasoning",), "summary_text"),
    *_text("response.reasoning_summary_text", "summary_index", ("reasoning",), "summary_text", "text"),
    Row(
        type="response.shell_call_command.added",
        scope="part",
        after=("absent",),
        to="open",
        items=("shell_call",),
        part="command",
        index="command_index",
        opens=True,
    ),
    Row(
        type="response.shell_call_command.delta",
        scope="part",
        stay=("open",),
        items=("shell_call",),
        part="command",
        index="command_index",
        done="response.shell_call_command.done",
        into=("command",),
    ),
    Row(
        type="response.shell_call_command.done",
        scope="part",
        after=("open",),
        to="closed",
        items=("shell_call",),
        part="command",
        index="command_index",
        whole="command",
        into=("command",),
        closes=True,
    ),
    Row(
        type="response.shell_call_output_content.delta",
        scope="part",
        after=("absent",),
        to="bare",
        stay=("bare",),
        items=("shell_call_output",),
        part="output",
        index="command_index",
        done="response.shell_call_output_content.done",
        into=("output",),
        opens=True,
    ),
    Row(
        type="response.shell_call_output_content.done",
        scope="part",
        after=("bare", "absent"),
        to="closed",
        items=("shell_call_output",),
        part="output",
        index="command_index",
        whole="output",
        into=("output",),
        opens=True,
        closes=True,
    ),
]


# ---- audio --------------------------------------------------------------------------------------------------------

for _kind, _name in (("response.audio", "sound"), ("response.audio.transcript", "transcript")):
    # No capture has it. The events carry no index, so another sound may follow one that is done.
    _rows += [
        Row(
            type=f"{_kind}.delta",
            scope="audio",
            after=("absent", "closed"),
            to="bare",
            stay=("bare",),
            part=_name,
            done=f"{_kind}.done",
        ),
        Row(type=f"{_kind}.done", scope="audio", after=("absent", "bare"), to="closed", part=_name),
    ]

TABLE: Final[Mapping[str, Row]] = {row.type: row for row in _rows}
"""Event type -> row. A type without a row is free: it may come while the response lives."""

FREE: Final = Row(type="", scope="free", stay=_LIVE)


def _item(kind: str, prefix: str, *ready: str, **rest: Any) -> tuple[str, ItemRow]:
    return kind, ItemRow(type=kind, prefix=prefix, ready=("added", *ready), **rest)


# `added` is ready for all: tool calls of xAI have no other event, nor have most types at OpenAI.
ITEMS: Final[Mapping[str, ItemRow]] = dict(
    (
        _item("message", "msg"),
        _item("reasoning", "rs", cut=None, statuses=False),
        _item("function_call", "fc", "arguments whole"),
        _item("function_call_output", "fco"),
        _item("custom_tool_call", "ctc", "input whole"),
        _item("custom_tool_call_output", "ctco"),
        _item("web_search_call", "ws", "completed"),
        _item("file_search_call", "fs", "completed"),
        _item("code_interpreter_call", "ci", "completed"),
        _item("image_generation_call", "ig", "completed", cut="failed"),
        _item("mcp_list_tools", "mcpl", "completed", "failed", cut=None, statuses=False),
        _item("mcp_call", "mcp", "completed", "failed", statuses=False),
        _item("mcp_approval_request", "mcpr", cut=None, statuses=False),
        _item("mcp_approval_response", "mcprr", cut=None, statuses=False),
        _item("shell_call", "sh"),
        _item("shell_call_output", "sho"),
        _item("local_shell_call", "lsh"),
        _item("local_shell_call_output", "lsho", statuses=False),
        _item("apply_patch_call", "apc", "diff whole", cut="completed"),
        _item("apply_patch_call_output", "apco", cut="failed"),
        _item("computer_call", "cu"),
        _item("computer_call_output", "cuo"),
        _item("compaction", "cmp", "compacting", cut=None, statuses=False, steps=False),
        _item("program", "cm", cut=None, statuses=False),
        _item("program_output", "cmo"),
        _item("tool_search_call", "tsc"),
        _item("tool_search_output", "tso"),
        _item("additional_tools", "at", cut=None, statuses=False),
    )
)
"""Item type -> row. Another type has the two events around it."""

MID_DELTA: Final = frozenset(row.to for row in _rows if row.scope == "item" and row.done)
"""States of an item that wait for the sum of its deltas."""

PART_KINDS: Final = frozenset(row.part for row in _rows if row.scope == "part" and row.whole)
"""Kinds of part whose text is summed up by an event of their own."""
