"""The items of a response as objects: each method is a step and returns the frames to send.

An item is added with its first step, so making a handle sends nothing. Opening one closes the items before it, unless
the stream was made with `overlap=True`: OpenAI's items never overlap. `done()` closes it; a later step on it raises
LocalProtocolError.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Literal

from respevents._errors import LocalProtocolError, show
from respevents._grammar import READING
from respevents._hot import quick
from respevents._output import route_of, step_fields
from respevents._writer import Writer, step, wrong

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from respevents._output import Item, Part, Text
    from respevents.lifecycle import ItemState, PartState, Row

__all__ = [
    "ApplyPatchCallItem",
    "Audio",
    "CodeInterpreterCallItem",
    "CompactionItem",
    "CustomToolCallItem",
    "FileSearchCallItem",
    "FunctionCallItem",
    "ImageGenerationCallItem",
    "ItemHandle",
    "McpCallItem",
    "McpListToolsItem",
    "MessageItem",
    "ReasoningItem",
    "ShellCallItem",
    "ShellCallOutputItem",
    "WebSearchCallItem",
]


def expect_text(name: str, value: object, event: str) -> str:
    """A `str` given to a step, subclasses made plain. Raises LocalProtocolError naming the argument."""
    if type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    raise LocalProtocolError(
        f"{name} takes text",
        path=f"$.{name}",
        expected="a str",
        got=show(value),
        fix="Decode bytes, and leave out a delta that has no text (None).",
        event=event,
    )


class ItemHandle:
    """One output item: what all types have in common."""

    __slots__ = ("__weakref__", "_fields", "_item", "_quick", "_writer")

    _first: tuple[str, ...] = ()
    """Events that always follow the one that adds it."""

    def __init__(self, writer: Writer, item: dict[str, Any]) -> None:
        self._writer = writer
        self._fields = item
        self._item: Item | None = None
        self._quick: dict[str, Callable[[Any], bytes]] = {}
        """Delta type -> what writes the next one, as long as it knows the whole state (see `_hot`)."""

    @property
    def id(self) -> str:
        """The id of the item."""
        found: str = self._fields["id"]
        return found

    @property
    def output_index(self) -> int | None:
        """Its place in the output; None until it was added."""
        return None if self._item is None else self._item.index

    @step
    def open(self) -> bytes:
        """Add the item now, before it has anything to say. Raises LocalProtocolError once it is done."""
        if self._item is None:
            out, self._item = self._writer.add(self._fields)
            for kind in self._first:
                out += self._writer.emit(step_fields(kind, self._item))
            return out
        if self._item.done:
            raise LocalProtocolError(
                f"The item {self.id} is done",
                event=f"a step of {self._item.type}",
                state=self._writer.machine.state,
                expected="no more steps of it",
                fix="Open another item. A new item closes those before it; ResponseStream(overlap=True) keeps "
                "several open.",
            )
        return b""

    @step
    def done(self, *, status: Literal["incomplete", "failed"] | None = None, **fields: Any) -> bytes:
        """Close the item: the events that are left of it, then `response.output_item.done`.

        `fields` are set on the item first, by their names on the wire. `status` is for one that was cut short.
        """
        self._writer.vet(fields, "item")
        for key in ("id", "type", "call_id"):
            if key in fields and fields[key] != self._fields.get(key):
                raise LocalProtocolError(
                    f"An item keeps its {key}",
                    path=f"$.item.{key}",
                    expected=show(self._fields.get(key)),
                    got=show(fields[key]),
                    fix=f"Give {key} where the item is made.",
                    event="response.output_item.done",
                    state=self._writer.machine.state,
                )
        out = self.open()
        assert self._item is not None
        self._writer.check_closable([self._item], status)
        self._item.wire.update(fields)
        return out + self._writer.close(self._item, status)

    # ---- for the types

    def _now(self) -> Item:
        assert self._item is not None
        return self._item

    def _step(self, kind: str) -> bytes:
        """Send a step of the item, after those that it cannot do without."""
        out, writer = self.open(), self._writer
        item = self._now()
        state = writer.machine.items[item.index]
        row, route = READING[kind], route_of(item)
        before: list[Row] = []
        at = state.state
        while at not in row.after and at not in row.stay:
            following = route.get(at)
            if following is None:
                before.clear()  # it is not ahead: the machine says what is
                break
            before.append(following)
            at = following.to
        for one in before:
            for event in writer.output.closing_step(item, one):
                out += writer.emit(event)
        return out + writer.emit(step_fields(kind, item))

    def _delta(self, kind: str, name: str, text: str) -> bytes:
        """Send a delta of the item."""
        quick = self._quick.get(kind)
        return self._slow_delta(kind, name, text) if quick is None else quick(text)

    @step
    def _slow_delta(self, kind: str, name: str, text: Any) -> bytes:
        self._arm(kind, None)
        text = expect_text(name, text, kind)
        if not text:
            return b""
        out, writer = self.open(), self._writer
        item = self._now()
        ready = item.joiner.push(text)
        event = step_fields(kind, item)
        if ready:
            out += writer.emit_delta({**event, "delta": ready})
            if not item.joiner.held:
                state = writer.machine.items[item.index]
                self._hasten(kind, state, item.text, event, ItemHandle._slow_delta, name)
        return out

    def _hasten(
        self,
        kind: str,
        holder: ItemState | PartState,
        text: Text,
        event: dict[str, Any],
        slow: Callable[..., bytes],
        *arguments: Any,
    ) -> None:
        """The deltas that follow need no look at the whole state."""
        owner = weakref.ref(self)

        def back(delta: Any) -> bytes:
            # The handle lives: `quick` is called by its methods alone. A strong reference would be a cycle, and
            # would keep the text of the whole stream until the collector comes by.
            handle = owner()
            assert handle is not None
            return slow(handle, kind, *arguments, delta)

        if self._writer.obfuscation is None:
            found = quick(self._writer, holder, text, event, back)
            if found is not None:
                self._arm(kind, found)

    def _arm(self, kind: str, quick: Callable[[Any], bytes] | None) -> None:
        """Set or forget what writes the next delta of a type. Half a surrogate pair must not be overtaken."""
        if quick is None:
            self._quick.pop(kind, None)
        else:
            self._quick[kind] = quick


class _Parts(ItemHandle):
    """An item whose text stands in parts, one open at a time."""

    __slots__ = ("_part",)

    def __init__(self, writer: Writer, item: dict[str, Any]) -> None:
        super().__init__(writer, item)
        self._part: Part | None = None

    @step
    def close_part(self) -> bytes:
        """Close the part that is open; the next text starts another. Without an open part it gives b""."""
        out, part = b"", self._part
        self._part = None
        if part is not None and self._item is not None and not self._item.done:
            for event in self._writer.output.closing_part(self._item, part):
                out += self._writer.emit(event)
        return out

    def _open_part(self, opener: str, key: str, kind: str, body: Mapping[str, Any]) -> bytes:
        """Make the open part one of `kind`."""
        out, writer, part = self.open(), self._writer, self._part
        item = self._now()
        parts = writer.machine.items[item.index].parts
        if part is not None and part.kind == kind and parts[part.key, part.number].state == "open":
            return out
        out += self.close_part()
        number = sum(other == key for other, _ in parts)
        out += writer.emit({**step_fields(opener, item), key: number, **body})
        self._part = item.parts[key, number]
        return out

    @step
    def _say(
        self,
        kind: str,
        opener: str,
        body: Mapping[str, Any],
        name: str,
        text: Any,
        logprobs: Sequence[Any] | None = None,
    ) -> bytes:
        """Send a delta of a part, and open what has to be open for it."""
        row = READING[kind]
        self._arm(kind, None)
        assert row.index is not None
        assert row.part is not None
        text = expect_text(name, text, kind)
        added = [] if logprobs is None else self._writer.vet({"logprobs": logprobs}, None)["logprobs"]
        if not isinstance(added, list):
            raise wrong("logprobs", "a list of objects with token, logprob, bytes and top_logprobs", logprobs)
        if not text and not added:
            return b""
        out, writer = self._open_part(opener, row.index, row.part, body), self._writer
        item, part = self._now(), self._part
        assert part is not None
        part.pending += added
        ready = part.joiner.push(text) if text else ""
        if not ready:
            return out
        event = {**step_fields(kind, item), row.index: part.number}
        full = {**event, "delta": ready}
        if row.part == "output_text":
            event["logprobs"] = []
            full["logprobs"], part.pending = part.pending, []
        out += writer.emit_delta(full)
        if not part.joiner.held:
            state = writer.machine.items[item.index].parts[part.key, part.number]
            self._hasten(kind, state, part.text, event, _Parts._say, opener, body, name)
        return out


_OUTPUT_TEXT = "response.output_text.delta"
_REFUSAL = "response.refusal.delta"
_SUMMARY = "response.reasoning_summary_text.delta"
_COMMAND = "response.shell_call_command.delta"


class MessageItem(_Parts):
    """A message of the assistant: text with annotations and logprobs, or a refusal."""

    __slots__ = ("_say_text",)

    def __init__(self, writer: Writer, item: dict[str, Any]) -> None:
        super().__init__(writer, item)
        self._say_text: Callable[[Any], bytes] | None = None
        """A slot of its own: this is the step that is taken thousands of times."""

    def _arm(self, kind: str, quick: Callable[[Any], bytes] | None) -> None:
        if kind == _OUTPUT_TEXT:
            self._say_text = quick
        else:
            super()._arm(kind, quick)

    def text(self, text: str, logprobs: Sequence[Any] | None = None) -> bytes:
        """A piece of the text: `response.output_text.delta`, after what has to be open for it.

        Half a surrogate pair at the end waits for the next piece; "" gives b"". `logprobs` are those of this piece
        (mappings with `token`, `logprob`, `bytes`, `top_logprobs`).
        """
        say = self._say_text
        if say is not None and logprobs is None:
            return say(text)
        part = {"part": {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}}
        return self._say(_OUTPUT_TEXT, "response.content_part.added", part, "text", text, logprobs)

    def refusal(self, text: str) -> bytes:
        """A piece of a refusal: `response.refusal.delta`. It closes a text that is open."""
        quick = self._quick.get(_REFUSAL)
        if quick is not None:
            return quick(text)
        part = {"part": {"type": "refusal", "refusal": ""}}
        return self._say(_REFUSAL, "response.content_part.added", part, "refusal", text)

    @step
    def annotation(self, annotation: Any) -> bytes:
        """An annotation of the text that is open: a mapping (`type`: url_citation, file_citation, ...) or a model."""
        kind = "response.output_text.annotation.added"
        self._writer.vet({"type": kind, "annotation": annotation}, None)
        part = {"part": {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}}
        out = self._open_part("response.content_part.added", "content_index", "output_text", part)
        item, here = self._now(), self._part
        assert here is not None
        counts = self._writer.machine.items[item.index].parts[here.key, here.number].counts
        return out + self._writer.emit(
            {
                **step_fields(kind, item),
                "content_index": here.number,
                "annotation_index": counts.get("annotation_index", 0),
                "annotation": annotation,
            }
        )


class ReasoningItem(_Parts):
    """Reasoning: a summary in parts, the reasoning's own text, encrypted content, any of them or none."""

    __slots__ = ("_events", "_text")

    def __init__(self, writer: Writer, item: dict[str, Any], events: Literal["content_part", "reasoning_part"]) -> None:
        super().__init__(writer, item)
        self._events = events
        self._text = writer.grammar.texts["reasoning_text"].type.replace(".done", ".delta")
        """What a piece of the reasoning itself is called: the dialects differ."""

    def summary_text(self, text: str) -> bytes:
        """A piece of the summary. `close_part()` ends the summary part; the next piece starts another."""
        quick = self._quick.get(_SUMMARY)
        if quick is not None:
            return quick(text)
        part = {"part": {"type": "summary_text", "text": ""}}
        return self._say(_SUMMARY, "response.reasoning_summary_part.added", part, "summary_text", text)

    def text(self, text: str) -> bytes:
        """A piece of the reasoning itself, as open-weights models show it."""
        quick = self._quick.get(self._text)
        if quick is not None:
            return quick(text)
        part = {"part": {"type": "reasoning_text", "text": ""}}
        return self._say(self._text, f"response.{self._events}.added", part, "text", text)


class ShellCallItem(_Parts):
    """A call of the shell tool: one command or more."""

    __slots__ = ()

    def command(self, text: str) -> bytes:
        """A piece of a command. `close_part()` ends it; the next piece starts the next command."""
        quick = self._quick.get(_COMMAND)
        if quick is not None:
            return quick(text)
        return self._say(_COMMAND, "response.shell_call_command.added", {"command": ""}, "command", text)


class ShellCallOutputItem(ItemHandle):
    """What the commands of a shell call wrote, in the order of the commands."""

    __slots__ = ()

    @step
    def output(self, stdout: str = "", stderr: str = "") -> bytes:
        """A piece of what the command wrote."""
        kind = "response.shell_call_output_content.delta"
        given = {
            "stdout": expect_text("stdout", stdout, kind),
            "stderr": expect_text("stderr", stderr, kind),
        }
        if not stdout and not stderr:
            return b""
        out = self.open()
        writing = self._now().writing
        return out + self._written({name: writing[name].push(text) for name, text in given.items() if text})

    @step
    def exited(self, exit_code: int) -> bytes:
        """The command ended with this code. What is written next belongs to the next command."""
        return self._ended({"type": "exit", "exit_code": exit_code})

    @step
    def timed_out(self) -> bytes:
        """The command was stopped."""
        return self._ended({"type": "timeout"})

    def _written(self, pieces: dict[str, str]) -> bytes:
        delta = {name: piece for name, piece in pieces.items() if piece}
        return self._writer.emit(self._writer.output.writing(self._now(), delta)) if delta else b""

    def _ended(self, outcome: dict[str, Any]) -> bytes:
        kind = "response.shell_call_output_content.done"
        self._writer.vet({"type": kind, "output": [{"outcome": outcome}]}, None)
        out = self.open()
        item, output = self._now(), self._writer.output
        out += self._written({name: joiner.flush() for name, joiner in item.writing.items()})
        number = output.writing(item, {})["command_index"]
        whole = output.written(item, number, outcome)
        return out + self._writer.emit({**step_fields(kind, item), "command_index": number, "output": whole})


class FunctionCallItem(ItemHandle):
    """A call of one of the request's functions."""

    __slots__ = ()

    def arguments(self, text: str) -> bytes:
        """A piece of the arguments, a JSON object as text."""
        return self._delta("response.function_call_arguments.delta", "arguments", text)


class CustomToolCallItem(ItemHandle):
    """A call of one of the request's custom tools."""

    __slots__ = ()

    def input(self, text: str) -> bytes:
        """A piece of the input, free text."""
        return self._delta("response.custom_tool_call_input.delta", "input", text)


class ApplyPatchCallItem(ItemHandle):
    """A patch of one file."""

    __slots__ = ()

    def diff(self, text: str) -> bytes:
        """A piece of the diff."""
        return self._delta("response.apply_patch_call_operation_diff.delta", "diff", text)


class McpListToolsItem(ItemHandle):
    """The tools of an MCP server; give them to `done(tools=[...])`."""

    __slots__ = ()
    _first = ("response.mcp_list_tools.in_progress",)

    @step
    def failed(self, error: str) -> bytes:
        """The server gave no list: `response.mcp_list_tools.failed`, and the item is done."""
        self._writer.vet({"error": error}, "item")
        out = self._step("response.mcp_list_tools.failed")
        return out + self.done(error=error)


class McpCallItem(ItemHandle):
    """A call of a tool on an MCP server; give its answer to `done(output="...")`."""

    __slots__ = ()
    _first = ("response.mcp_call.in_progress",)

    def arguments(self, text: str) -> bytes:
        """A piece of the arguments, a JSON object as text."""
        return self._delta("response.mcp_call_arguments.delta", "arguments", text)

    @step
    def failed(self, error: Any) -> bytes:
        """The call failed: `response.mcp_call.failed`, and the item is done.

        `error` is an object: `{"type": "http_error", "code": 424, "message": "..."}`, `mcp_protocol_error` (the same
        keys) or `mcp_tool_execution_error` (with `content`).
        """
        if isinstance(error, str):
            raise LocalProtocolError(
                "error takes an object",
                path="$.error",
                expected="an object with type, code and message",
                got=show(error),
                fix='Pass {"type": "http_error", "code": 424, "message": "..."}.',
                event="response.mcp_call.failed",
                state=self._writer.machine.state,
            )
        self._writer.vet({"error": error}, "item")
        out = self._step("response.mcp_call.failed")
        return out + self.done(error=error)


class WebSearchCallItem(ItemHandle):
    """A search on the web; give what was searched to `done(action={...})`."""

    __slots__ = ()
    _first = ("response.web_search_call.in_progress",)

    @step
    def searching(self) -> bytes:
        """The search runs."""
        return self._step("response.web_search_call.searching")


class FileSearchCallItem(ItemHandle):
    """A search in files; give `queries` and `results` to `done`."""

    __slots__ = ()
    _first = ("response.file_search_call.in_progress",)

    @step
    def searching(self) -> bytes:
        """The search runs."""
        return self._step("response.file_search_call.searching")


class CodeInterpreterCallItem(ItemHandle):
    """Code that is run; give what it wrote to `done(outputs=[...])`."""

    __slots__ = ()
    _first = ("response.code_interpreter_call.in_progress",)

    def code(self, text: str) -> bytes:
        """A piece of the code."""
        return self._delta("response.code_interpreter_call_code.delta", "code", text)

    @step
    def interpreting(self) -> bytes:
        """The code is whole, and runs."""
        return self._step("response.code_interpreter_call.interpreting")


class ImageGenerationCallItem(ItemHandle):
    """An image; give it to `done(result="...")`, base64."""

    __slots__ = ()
    _first = ("response.image_generation_call.in_progress",)

    @step
    def generating(self) -> bytes:
        """The image is being made."""
        return self._step("response.image_generation_call.generating")

    @step
    def partial_image(self, partial_image_b64: str, **fields: Any) -> bytes:
        """What the image looks like so far, base64; `fields` are `size`, `quality`, `background`, `output_format`."""
        kind = "response.image_generation_call.partial_image"
        expect_text("partial_image_b64", partial_image_b64, kind)
        self._writer.vet({"type": kind, "partial_image_b64": partial_image_b64, **fields}, None)
        out = self.open()
        item = self._now()
        state = self._writer.machine.items[item.index]
        if state.state != "generating":
            out += self.generating()
        number = state.counts.get("partial_image_index", 0)
        event = {**fields, "partial_image_index": number, "partial_image_b64": partial_image_b64}
        return out + self._writer.emit({**event, **step_fields(kind, item)})


class CompactionItem(ItemHandle):
    """A compacted context."""

    __slots__ = ()

    @step
    def compacting(self) -> bytes:
        """It is being made."""
        return self._step("response.compaction.compacting")


class Audio:
    """Spoken output. It belongs to the response and is no item: its events carry no index."""

    __slots__ = ("_writer",)

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    @step
    def sound(self, data: str) -> bytes:
        """A piece of the sound, base64."""
        kind = "response.audio.delta"
        return self._delta(kind, expect_text("data", data, kind))

    @step
    def transcript(self, text: str) -> bytes:
        """A piece of the transcript."""
        kind = "response.audio.transcript.delta"
        text = expect_text("text", text, kind)
        return self._delta(kind, self._writer.transcript.push(text) if text else "")

    def _delta(self, kind: str, delta: str) -> bytes:
        if not delta:
            return b""
        out = self._writer.run(kind)
        return out + self._writer.emit({"type": kind, "delta": delta})

    @step
    def done(self) -> bytes:
        """Close what is open of the two."""
        return self._writer.close_audio()
