"""`ResponseStream`: the builder. Every step returns the bytes of the frames to send, in the only legal orders.

    stream = ResponseStream(model="m", request=request)
    send(stream.start())
    message = stream.message()
    for piece in engine:
        send(message.text(piece))
    send(stream.complete(usage=usage))

It numbers, counts, makes ids, keeps what was said for the `done` events and the terminal snapshot, and closes what is
open. The lifecycle machine looks at every event before it is written: a step that may not come raises
LocalProtocolError, and nothing of it is sent. Not thread-safe.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from respevents import _handles as handles
from respevents._errors import EncodeError, LocalProtocolError, show
from respevents._objects import UnknownItem
from respevents._snapshot import checked_usage, ending_events, random_id, response_snapshot
from respevents._writer import Writer, expect, sendable, step, wrong
from respevents.failures import Failure, Policy, policy_of
from respevents.wire import encode_frame, to_wire

if TYPE_CHECKING:
    from respevents._dialect import Dialect
    from respevents._writer import Random

__all__ = ["ResponseStream"]

_KEEPALIVE: Final = b": keep-alive\n\n"


class ResponseStream:
    """One response, streamed.

    - `id`, `created_at` (whole seconds since 1970): a random id and now by default.
    - `request`: the body of the request as a mapping; the response repeats it, with OpenAI's defaults.
    - `policy`: how a failure is told.
    - `dialect`: `openai` or `open-responses`; the policy's by default. Open Responses has the error nested, `[DONE]`
      behind the terminal event, `response.reasoning.delta` for `response.reasoning_text.delta`, a status in every item
      and an incomplete item last. It has no hosted tools: events and items of one's own are named `slug:type`.
    - `starting_after`: go on in a stream whose events up to this `sequence_number` the client has; `output` are its
      items that were done by then. `start` is left out.
    - `overlap`: items may be open side by side; otherwise opening one closes those before it.
    - `id_factory`: from a prefix (`resp`, `msg`, `rs`, `fc`, `call`, ...) to a whole id; `clock`: seconds since 1970.
    - `obfuscation`: a seeded `random.Random` that pads deltas to multiples of 16 characters, as OpenAI does to hide
      token lengths. Off by default.

    Raises LocalProtocolError, naming the argument, for one of the wrong kind.
    """

    __slots__ = ("_clock", "_id_factory", "_policy", "_request", "_writer")

    def __init__(
        self,
        *,
        model: str,
        id: str | None = None,  # noqa: A002 - the field's own name
        created_at: int | None = None,
        request: Mapping[str, Any] | None = None,
        policy: Policy | None = None,
        dialect: Dialect | None = None,
        starting_after: int | None = None,
        output: Iterable[Any] = (),
        overlap: bool = False,
        id_factory: Callable[[str], str] = random_id,
        clock: Callable[[], float] = time.time,
        obfuscation: Random | None = None,
    ) -> None:
        expect("model", model, str, "the name of the model")
        expect("id", id, (str, type(None)), "a response id")
        expect("created_at", created_at, (int, type(None)), "whole seconds since 1970")
        expect("policy", policy, (Policy, type(None)), "a Policy")
        expect("starting_after", starting_after, (int, type(None)), "the sequence_number the client has")
        if starting_after is not None and starting_after < 0:
            raise wrong("starting_after", "the sequence_number the client has", starting_after)
        expect("id_factory", id_factory, Callable, "a function from prefix to id")
        expect("clock", clock, Callable, "a function that gives seconds since 1970")
        self._id_factory, self._clock = id_factory, clock
        self._policy = policy_of(policy, dialect)
        self._request = request
        base = response_snapshot(
            model=sendable("model", model),
            id=sendable("id", self.new_id("resp") if id is None else id),
            created_at=int(clock()) if created_at is None else created_at,
            request=request,
            strict=True,
        )
        # A copy: what the caller does to the request afterwards does not change the response. A request that cannot be
        # written stays as it is, for `start` to name it and `fail` to do without it.
        with contextlib.suppress(EncodeError):
            base = to_wire(base)
        self._writer = Writer(
            base,
            dialect=self._policy.dialect,
            starting_after=starting_after,
            overlap=overlap,
            obfuscation=obfuscation,
        )
        for item in output:
            self._writer.adopt(item)

    # ---- what it is and how it stands

    @property
    def id(self) -> str:
        """The id of the response."""
        return self._writer.base["id"]  # type: ignore[no-any-return]

    @property
    def model(self) -> str:
        """The model as announced."""
        return self._writer.base["model"]  # type: ignore[no-any-return]

    @property
    def created_at(self) -> int:
        """Whole seconds since 1970."""
        return self._writer.base["created_at"]  # type: ignore[no-any-return]

    @property
    def state(self) -> str:
        """`idle`, `created`, `queued`, `in_progress`, `continued`, `error`, `completed`, `incomplete` or `failed`."""
        return self._writer.machine.state

    @property
    def sequence_number(self) -> int:
        """The number of the next event."""
        return self._writer.number

    def new_id(self, prefix: str) -> str:
        """An id from the factory; LocalProtocolError when it gives none."""
        found: object = self._id_factory(prefix)
        if isinstance(found, str) and found:
            return found
        raise LocalProtocolError(
            "The id factory gave no id",
            path="$.id",
            expected="a string that is not empty",
            got=show(found),
            fix=f"Have id_factory({prefix!r}) return a whole id, such as {random_id(prefix)}.",
        )

    # ---- the response

    @step
    def start(self, *, queued: bool | None = None) -> bytes:
        """`response.created` and `response.in_progress`.

        A background response is queued first: `response.created` and `response.queued`; `in_progress()` or the first
        item follows. It is queued when the request says `background`, or as `queued` says.
        """
        if queued is None:
            queued = self._writer.base["background"] is True
        first = "queued" if queued else "in_progress"
        out = self._writer.emit_response("response.created", first)
        return out + self._writer.emit_response(f"response.{first}", first)

    @step
    def in_progress(self) -> bytes:
        """`response.in_progress`, where it was not sent with `start`."""
        return self._writer.emit_response("response.in_progress", "in_progress")

    @step
    def complete(self, usage: Any = None) -> bytes:
        """Close what is open, then `response.completed`.

        `usage` (a mapping, Struct or model) has `input_tokens` and `output_tokens`; details that are left out are 0 and
        the total is their sum. None is sent as null. Raises LocalProtocolError for a count that is none.
        """
        return self._end("completed", usage)

    @step
    def incomplete(self, reason: str, usage: Any = None) -> bytes:
        """Close what is open as `incomplete`, then `response.incomplete`.

        `reason`: `max_output_tokens` or `content_filter`. `usage` as for `complete`.
        """
        expect("reason", reason, str, "max_output_tokens or content_filter")
        return self._end("incomplete", usage, incomplete_details={"reason": sendable("reason", reason)})

    @step
    def fail(self, failure: Failure) -> bytes:
        """`error` and `response.failed`, as the policy has them; before `start` its frames come first.

        The snapshot keeps what was announced; its output are the items that were done (an open item is not repaired),
        its usage is null. Never raises for what a failure or a request holds. After the terminal event, and for a
        failure that is told to nobody (`client_disconnect`, `cancelled`), it gives b"".
        """
        expect("failure", failure, Failure, "a Failure")
        if self._writer.machine.ended or failure.ending_for(self._policy) == "silent":
            return b""
        done = self._writer.output.done_items() if self._policy.failed_output == "done" else []
        for known, request, output in ((True, None, done), (False, self._request, done), (False, None, [])):
            state = self._writer.machine.state
            try:
                events = ending_events(
                    failure,
                    self._policy,
                    self._writer.base if known else self._plain(request),
                    output,
                    self._writer.number,
                    started=state != "idle",
                    told=failure.error_object(self._policy) if state == "error" else None,
                )
                frames = [encode_frame(event) for event in events]
            except Exception:  # noqa: BLE001, S112 - what a request holds must not keep the failure from being told
                continue
            for event in events:
                self._writer.machine.feed(event)
            self._writer.number += len(events)
            return self._writer.made(self._writer.sealed(b"".join(frames)))
        raise AssertionError("a plain failure can always be written")

    def _plain(self, request: Any) -> dict[str, Any]:
        """The response without what cannot be written."""
        base = self._writer.base
        return response_snapshot(model=base["model"], id=base["id"], created_at=base["created_at"], request=request)

    def _end(self, status: str, usage: Any, **extra: Any) -> bytes:
        counts = checked_usage(usage)
        if status == "completed":
            extra["completed_at"] = int(self._clock())  # before anything is sent: a caller's clock may raise
        kind = f"response.{status}"
        out = self._writer.run(kind)
        cut = status if status == "incomplete" else None
        items = self._writer.output.open_items()
        self._writer.check_closable(items, cut)
        for item in items:
            out += self._writer.close(item, cut)
        out += self._writer.close_audio()
        return out + self._writer.emit_response(kind, status, usage=counts, **extra)

    @step
    def keepalive(self, *, event: bool = False) -> bytes:
        """Something to send while nothing happens: an SSE comment, which every reader skips, at any time.

        `event=True` gives the `keepalive` event instead, which OpenAI was seen to send and which takes a number. After
        the terminal event it gives b"": a timer may be late.
        """
        if self._writer.machine.ended:
            return b""
        return self._writer.emit({"type": "keepalive"}) if event else _KEEPALIVE

    @step
    def send(self, event: Any) -> bytes:
        """Any event as it is: a class of `respevents.events`, a mapping or a pydantic model.

        `sequence_number` is filled in where it is absent. The event counts like one of a step: its items, parts and
        text stand in the terminal snapshot, and what it leaves open is closed with the rest. Raises LocalProtocolError
        when it may not come now or contradicts what was sent, EncodeError when JSON cannot carry it.
        """
        wire = to_wire(event)
        kind = wire.get("type")
        if not isinstance(kind, str) or not kind:
            raise LocalProtocolError(
                "An event has a type", path="$.type", expected="the type of the event", got=show(kind)
            )
        number = wire.setdefault("sequence_number", self._writer.number)
        if number != self._writer.number or isinstance(number, bool):
            raise LocalProtocolError(
                "The event has another number",
                event=kind,
                state=self.state,
                path="$.sequence_number",
                expected=str(self._writer.number),
                got=show(wire["sequence_number"]),
                fix="Leave sequence_number out: the stream numbers its events.",
            )
        self._writer.obey(wire)
        self._writer.refuse(self._writer.machine.check(wire))
        self._writer.agree(kind, wire)
        frame = encode_frame(wire)
        self._writer.take(kind, wire)
        return self._writer.made(self._writer.sealed(frame))

    # ---- the items

    def message(self, *, id: str | None = None, role: str = "assistant", **fields: Any) -> handles.MessageItem:  # noqa: A002
        """A message: `.text(...)`, `.refusal(...)`, `.annotation(...)`. `fields` are other keys of it (`phase`)."""
        item = self._item("message", id, {"content": [], "role": role}, fields)
        return handles.MessageItem(self._writer, item)

    def reasoning(
        self,
        *,
        id: str | None = None,  # noqa: A002
        part_events: Literal["content_part", "reasoning_part"] = "content_part",
        **fields: Any,
    ) -> handles.ReasoningItem:
        """Reasoning: `.summary_text(...)`, `.text(...)`; `encrypted_content` here or with `.done(...)`.

        `part_events`: what stands around the reasoning's own text, the events of the API or those of vLLM.
        """
        if part_events not in {"content_part", "reasoning_part"}:
            raise wrong("part_events", "content_part or reasoning_part", part_events)
        return handles.ReasoningItem(self._writer, self._item("reasoning", id, {"summary": []}, fields), part_events)

    def function_call(
        self,
        name: str,
        *,
        call_id: str | None = None,
        id: str | None = None,  # noqa: A002
        **fields: Any,
    ) -> handles.FunctionCallItem:
        """A call of a function: `.arguments(...)`."""
        expect("name", name, str, "the name of the function")
        item = {"arguments": "", "call_id": self._call_id(call_id), "name": name}
        return handles.FunctionCallItem(self._writer, self._item("function_call", id, item, fields))

    def custom_tool_call(
        self,
        name: str,
        *,
        call_id: str | None = None,
        id: str | None = None,  # noqa: A002
        **fields: Any,
    ) -> handles.CustomToolCallItem:
        """A call of a custom tool: `.input(...)`."""
        expect("name", name, str, "the name of the tool")
        item = {"call_id": self._call_id(call_id), "input": "", "name": name}
        return handles.CustomToolCallItem(self._writer, self._item("custom_tool_call", id, item, fields))

    def web_search(self, *, id: str | None = None, **fields: Any) -> handles.WebSearchCallItem:  # noqa: A002
        """A web search: `.searching()`, `.done(action={...})`."""
        item = self._item("web_search_call", id, {"action": {"type": "search"}}, fields)
        return handles.WebSearchCallItem(self._writer, item)

    def file_search(self, *, id: str | None = None, **fields: Any) -> handles.FileSearchCallItem:  # noqa: A002
        """A file search: `.searching()`, `.done(queries=[...], results=[...])`."""
        item = self._item("file_search_call", id, {"queries": [], "results": None}, fields)
        return handles.FileSearchCallItem(self._writer, item)

    def code_interpreter(
        self,
        *,
        container_id: str | None = None,
        id: str | None = None,  # noqa: A002
        **fields: Any,
    ) -> handles.CodeInterpreterCallItem:
        """Code that is run: `.code(...)`, `.interpreting()`, `.done(outputs=[...])`."""
        container = self.new_id("cntr") if container_id is None else container_id
        item = {"code": "", "container_id": container, "outputs": None}
        return handles.CodeInterpreterCallItem(self._writer, self._item("code_interpreter_call", id, item, fields))

    def image_generation(self, *, id: str | None = None, **fields: Any) -> handles.ImageGenerationCallItem:  # noqa: A002
        """An image: `.generating()`, `.partial_image(...)`, `.done(result="...")`."""
        return handles.ImageGenerationCallItem(self._writer, self._item("image_generation_call", id, {}, fields))

    def mcp_list_tools(
        self,
        server_label: str,
        *,
        id: str | None = None,  # noqa: A002
        **fields: Any,
    ) -> handles.McpListToolsItem:
        """The tools of an MCP server: `.done(tools=[...])` or `.failed(error)`."""
        expect("server_label", server_label, str, "the label of the server")
        item = self._item("mcp_list_tools", id, {"server_label": server_label, "tools": []}, fields)
        return handles.McpListToolsItem(self._writer, item)

    def mcp_call(
        self,
        name: str,
        server_label: str,
        *,
        approval_request_id: str | None = None,
        id: str | None = None,  # noqa: A002
        **fields: Any,
    ) -> handles.McpCallItem:
        """A call on an MCP server: `.arguments(...)`, then `.done(output="...")` or `.failed(error)`."""
        expect("name", name, str, "the name of the tool")
        expect("server_label", server_label, str, "the label of the server")
        item = {
            "status": "in_progress",
            "approval_request_id": approval_request_id,
            "arguments": "",
            "error": None,
            "name": name,
            "output": None,
            "server_label": server_label,
        }
        return handles.McpCallItem(self._writer, self._item("mcp_call", id, item, fields))

    def shell_call(
        self,
        *,
        call_id: str | None = None,
        timeout_ms: int | None = None,
        max_output_length: int | None = None,
        id: str | None = None,  # noqa: A002
        **fields: Any,
    ) -> handles.ShellCallItem:
        """Commands for a shell: `.command(...)`. `fields`: `environment`."""
        action: dict[str, Any] = {"commands": [], "max_output_length": max_output_length, "timeout_ms": timeout_ms}
        item = {"action": action, "call_id": self._call_id(call_id), "environment": None}
        return handles.ShellCallItem(self._writer, self._item("shell_call", id, item, fields))

    def shell_call_output(
        self,
        call_id: str,
        *,
        max_output_length: int | None = None,
        id: str | None = None,  # noqa: A002
        **fields: Any,
    ) -> handles.ShellCallOutputItem:
        """What the commands wrote: `.output(stdout, stderr)`, then `.exited(code)` or `.timed_out()` for each."""
        # OpenAI adds it with this status already.
        item: dict[str, Any] = {"status": "completed", "max_output_length": max_output_length, "output": []}
        item["call_id"] = self._call_id(call_id)
        return handles.ShellCallOutputItem(self._writer, self._item("shell_call_output", id, item, fields))

    def apply_patch_call(
        self,
        operation: Mapping[str, Any],
        *,
        call_id: str | None = None,
        id: str | None = None,  # noqa: A002
        **fields: Any,
    ) -> handles.ApplyPatchCallItem:
        """A patch: `.diff(...)`. `operation`: `type` (`create_file`, `update_file`, `delete_file`) and `path`."""
        expect("operation", operation, Mapping, "an object with type and path")
        whole = dict(operation)
        if whole.get("type") != "delete_file":
            whole.setdefault("diff", "")
        item = {"call_id": self._call_id(call_id), "operation": whole}
        return handles.ApplyPatchCallItem(self._writer, self._item("apply_patch_call", id, item, fields))

    def compaction(
        self,
        encrypted_content: str,
        *,
        id: str | None = None,  # noqa: A002
        **fields: Any,
    ) -> handles.CompactionItem:
        """A compacted context: `.compacting()`, `.done()`."""
        item = self._item("compaction", id, {"encrypted_content": encrypted_content}, fields)
        return handles.CompactionItem(self._writer, item)

    def audio(self) -> handles.Audio:
        """Spoken output: `.sound(base64)`, `.transcript(...)`, `.done()`."""
        return handles.Audio(self._writer)

    @step
    def item(self, item: Any, *, added: Mapping[str, Any] | None = None) -> bytes:
        """Any output item that is known whole: `response.output_item.added` and `response.output_item.done`.

        A mapping, a class of `respevents.items` or a model, with its `type`; without `id` or `status` it gets one. A
        type alone will do where an item has no more to say.
        `added` are keys that were different when it was added. Raises LocalProtocolError for a type that the schema
        set does not name, because clients drop such an item without a word; one that is meant has the form
        `slug:type` of an extension, or comes as an `UnknownItem`.
        """
        known = {"type": item} if isinstance(item, str) else self._writer.vet({"item": item}, None)["item"]
        if not isinstance(known, dict) or not isinstance(known.get("type"), str):
            raise LocalProtocolError(
                "An output item has a type",
                path="$.item.type",
                expected="the type of the item",
                got=show(known.get("type") if isinstance(known, dict) else item),
                fix="Give the item as a mapping with `type`, as it stands in the output of a response.",
                event="response.output_item.added",
            )
        kind = known["type"]
        names = self._writer.grammar.items
        if kind not in names and ":" not in kind and not isinstance(item, UnknownItem):
            raise LocalProtocolError(
                "No such output item",
                path="$.item.type",
                expected=f"one of {', '.join(sorted(names))}",
                got=show(kind),
                fix="Correct the type. An extension is named `slug:type`; what is newer than the schema set is passed "
                "as an UnknownItem of respevents.items.",
                event="response.output_item.added",
            )
        whole = self._item(kind, known.pop("id", None), {}, known, status="completed")
        out, found = self._writer.add({**whole, **(added or {})})
        return out + self._writer.emit(
            {"type": "response.output_item.done", "output_index": found.index, "item": whole}
        )

    # ---- inside

    def _item(
        self,
        kind: str,
        id: str | None,  # noqa: A002
        item: dict[str, Any],
        fields: Mapping[str, Any],
        status: str = "in_progress",
    ) -> dict[str, Any]:
        expect("id", id, (str, type(None)), "the id of the item")
        row = self._writer.grammar.items.get(kind)
        wire: dict[str, Any] = {"id": id or self.new_id(row.prefix if row is not None else "item"), "type": kind}
        if row.statuses if row is not None else self._policy.dialect == "open-responses":
            wire["status"] = status
        return {**wire, **item, **fields}

    def _call_id(self, call_id: str | None) -> str:
        expect("call_id", call_id, (str, type(None)), "the id of the call")
        return call_id or self.new_id("call")
