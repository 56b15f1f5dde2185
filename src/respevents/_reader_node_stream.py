"""How `responses.stream()` of openai-node accumulates events: `ResponseStream` of 6.49.0 and of 7.59.0.

The helper refuses what does not fit together, 7.x far more of it than 6.x. Whatever is thrown inside (a TypeError of
JavaScript too) comes out as OpenAIError, so what counts here is which event throws.
"""

from __future__ import annotations

from typing import Any, Final

from respevents._reader import Answer, Reader, member, text_of
from respevents._reader_openai import NodeReading, Raised, truthy

__all__ = ["NODE_STREAM"]

_OPENING: Final = {"response.created", "response.queued", "response.in_progress"}
_LIFECYCLE: Final = _OPENING | {"response.completed", "response.failed", "response.incomplete"}

_STATES: Final = {
    "code_interpreter_call": ("in_progress", "interpreting", "completed"),
    "file_search_call": ("in_progress", "searching", "completed"),
    "web_search_call": ("in_progress", "searching", "completed"),
    "image_generation_call": ("in_progress", "generating", "completed"),
    "mcp_call": ("in_progress", "completed", "failed"),
}
_ITEM_OF: Final = {
    "response.output_text.delta": "message",
    "response.output_text.done": "message",
    "response.output_text.annotation.added": "message",
    "response.refusal.delta": "message",
    "response.refusal.done": "message",
    "response.function_call_arguments.delta": "function_call",
    "response.function_call_arguments.done": "function_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
    "response.custom_tool_call_input.done": "custom_tool_call",
    "response.mcp_call_arguments.delta": "mcp_call",
    "response.mcp_call_arguments.done": "mcp_call",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_text.done": "reasoning",
    "response.reasoning_summary_part.added": "reasoning",
    "response.reasoning_summary_part.done": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_summary_text.done": "reasoning",
    "response.code_interpreter_call_code.delta": "code_interpreter_call",
    "response.code_interpreter_call_code.done": "code_interpreter_call",
    **{f"response.{item}.{state}": item for item, states in _STATES.items() for state in states},
}
"""Events of an item, and the type that the item must have (7.x)."""

_IGNORED: Final = {
    "response.audio.delta",
    "response.audio.done",
    "response.audio.transcript.delta",
    "response.audio.transcript.done",
    "keepalive",
    "error",
}
_IGNORED_ITEM: Final = {
    "response.image_generation_call.partial_image": "image_generation_call",
    "response.mcp_list_tools.in_progress": "mcp_list_tools",
    "response.mcp_list_tools.completed": "mcp_list_tools",
    "response.mcp_list_tools.failed": "mcp_list_tools",
}
_COMPACTING: Final = {"response.compaction.compacting": "compaction"}
_SHELL_CALL: Final = {
    "response.shell_call_command.added",
    "response.shell_call_command.delta",
    "response.shell_call_command.done",
}
_SHELL_OUTPUT: Final = {
    "response.shell_call_output_content.delta": "shell_call_output",
    "response.shell_call_output_content.done": "shell_call_output",
}
_OF_ITEMS: Final = {"response.output_item.added", "response.output_item.done"}
_OF_PARTS: Final = {"response.content_part.added", "response.content_part.done"}

_KNOWN_OLD: Final = frozenset(_LIFECYCLE | _OF_ITEMS | _OF_PARTS | _IGNORED | set(_ITEM_OF) | set(_IGNORED_ITEM))
_KNOWN_NEW: Final = frozenset(_KNOWN_OLD | set(_COMPACTING) | _SHELL_CALL | set(_SHELL_OUTPUT))
_ROUTED_NEW: Final = {**_ITEM_OF, **_IGNORED_ITEM, **_COMPACTING, **_SHELL_OUTPUT}

_BY_CALL: Final = {"function_call", "custom_tool_call", "shell_call", "shell_call_output"}
_OPTIONAL_ID: Final = {"function_call", "custom_tool_call"}
_MAX_SAFE: Final = 2**53 - 1


class _Thrown(Exception):  # noqa: N818 - a signal inside this module
    """The helper throws, for this reason."""


def _require(truth: Any, reason: str) -> None:
    if not truth:
        raise _Thrown(reason)


def _parts(item: Any) -> list[Any]:
    """The parts of a message, which JavaScript iterates over: a missing array throws, a string does not."""
    content = member(item, "content")
    if isinstance(content, str):
        return []
    _require(isinstance(content, list), "a message without an array `content`")
    for part in content:
        _require(part is not None, "a part that is null")
    return list(content)


def _texts(output: Any) -> None:
    """What adding up `output_text` needs of the output."""
    _require(isinstance(output, (list, str)), "no array `output`")
    for item in output:
        _require(item is not None, "an item that is null")
        if member(item, "type") == "message":
            _parts(item)


class NodeStreamReading(NodeReading):
    """`ResponseStream` and, behind it, `finalResponse()`."""

    def __init__(self, client: str, version: str, answer: Answer) -> None:
        super().__init__(client, version, answer)
        self._snapshot: dict[str, Any] | None = None
        self._place: dict[int, int] = {}
        """Output index -> position in the snapshot's output (7.x)."""
        self._finished: dict[int, Any] = {}
        self._open: dict[int, str] = {}

    # -- what comes out is an OpenAIError

    def _stop(self, raised: Raised) -> None:
        if raised.name not in {"APIError", "Object", "OpenAIError"}:
            self.say(f"the helper turns {raised.name} into OpenAIError")
            raised = Raised("OpenAIError", raised.message, raised.code)
        super()._stop(raised)

    def deliver(self, data: Any) -> None:
        kind = text_of(member(data, "type"))
        try:
            if self.new and kind == "error":
                error = member(data, "error")
                self.say(f"{self.frame(kind)}: the helper throws on every `error` event (7.x)")
                raise self._api_error(error if isinstance(error, (dict, list)) else data)
            shown = self._add_new(data) if self.new else self._add_old(data)
        except _Thrown as thrown:
            self.say(f"{self.frame(kind)}: the helper throws while it accumulates: {thrown}")
            raise Raised("OpenAIError", str(thrown)) from None
        if not shown:
            return
        self.note(data)
        if kind == "error":  # 6.x: the listeners of "error" get the event itself
            self.say(f"{self.frame(kind)}: handed on, and then thrown as it is: an object that is no Error (6.x)")
            raise Raised("Object", text_of(member(data, "message")) or "", _code(data))

    # -- 6.x

    def _add_old(self, event: Any) -> bool:
        _require(event is not None, "an event that is null")
        kind = text_of(member(event, "type"))
        if self._snapshot is None:
            _require(kind == "response.created", f"expected 'response.created' event, got {kind}")
        if kind in _LIFECYCLE:
            response = member(event, "response")
            _require(response is not None, "no response")
            if not isinstance(response, dict) or response.get("output_text") is None:
                _texts(member(response, "output"))
            self._snapshot = _copy(response) if isinstance(response, dict) else {}
            return True
        _require(kind in _KNOWN_OLD, "Unhandled response stream event")
        snapshot = self._snapshot or {}
        output: Any = snapshot.get("output")
        if kind in _IGNORED or kind in _IGNORED_ITEM:
            return True
        index = member(event, "output_index")
        if kind == "response.output_item.added":
            _require(isinstance(output, list), "no array `output`")
            item = member(event, "item")
            _require(item is not None, "an item that is null")
            output.append(_copy(item))
            if member(item, "type") == "message":
                _texts(output)
            return True
        held = _at(output, index)
        _require(truthy(held), f"missing output at index {index}")
        if kind == "response.output_item.done":
            item = member(event, "item")
            _require(item is not None, "an item that is null")
            output[index] = _copy(item)
            if member(item, "type") == "message":
                _texts(output)
            return True
        self._parts_of(event, held, strict=False)
        return True

    # -- 7.x

    def _add_new(self, event: Any) -> bool:
        """Whether the event is handed on."""
        kind = member(event, "type")
        _require(isinstance(kind, str) and kind in _KNOWN_NEW, "Unhandled response stream event: unknown")
        index, position = member(event, "output_index"), None
        if kind in _LIFECYCLE:
            self._lifecycle(kind, event)
            return True
        if self._snapshot is not None and kind != "keepalive" and "output_index" in event:
            _require(_is_index(index), "Invalid response output index.")
            if kind == "response.output_item.added":
                if event.get("item") is None:
                    return False
                _require(
                    index not in self._finished and index not in self._open, f"Duplicate response output index {index}."
                )
                position = len(self._snapshot["output"])
            else:
                _require(index in self._place, f"missing output at index {index}")
                position = self._place[index]
        _require(self._snapshot is not None, f"expected 'response.created' event, got {kind}")
        output = (self._snapshot or {})["output"]
        if kind == "response.output_item.added":
            item = event.get("item")
            _require(position is not None, "missing output at index undefined")
            keys = _identity_keys(item)
            taken = {key for one in output for key in _identity_keys(one)}
            _require(not taken.intersection(keys), "duplicate output item identity")
            if member(item, "type") == "message":
                _parts(item)
            output.append(_copy(item))
            self._place[index] = len(output) - 1
            self._open[index] = _identity(item)
            return True
        if kind == "response.output_item.done":
            _require(position is not None, "missing output at index undefined")
            item = event.get("item")
            _same_identity(output[position], item)
            if member(item, "type") == "message":
                _parts(item)
            output[position] = _copy(item)
            self._finished[index] = output[position]
            self._open.pop(index, None)
            return True
        if kind in _SHELL_CALL:
            _require(position is not None, "missing output at index undefined")
            self._command(event, output[position])
            return True
        if kind in _OF_PARTS or kind in _ROUTED_NEW:
            item_id = event.get("item_id")
            _require(isinstance(item_id, str) and item_id, f"expected a non-empty item_id for {kind}")
            _require(position is not None, "missing output at index undefined")
            held = output[position]
            _require(member(held, "id") == item_id, f"expected item_id '{member(held, 'id')}', got '{item_id}'")
            if kind in _OF_PARTS:
                _require(event.get("part") is not None, "a part that is null")
                expected = "reasoning" if member(event, "part", "type") == "reasoning_text" else "message"
            else:
                expected = _ROUTED_NEW[kind]
            got = member(held, "type")
            _require(got == expected, f"expected output item type '{expected}', got '{got}'")
            self._parts_of(event, held, strict=True)
        return True

    def _lifecycle(self, kind: str, event: Any) -> None:
        response = event.get("response")
        _require(isinstance(response, dict), "Lifecycle events require a response object.")
        snapshot = self._snapshot
        if snapshot is not None:
            _require(response.get("id") == snapshot.get("id"), "Lifecycle response identity changed.")
        else:
            _require(kind == "response.created", f"expected 'response.created' event, got {kind}")
        response = _copy(response)
        if response.get("output") is None:
            if kind == "response.completed":
                response["output"] = [self._finished[index] for index in sorted(self._finished)]
            elif kind in _OPENING:
                response["output"] = []
            else:
                response["output"] = [self._held(index) for index in sorted(self._place)]
        output = response["output"]
        if kind == "response.completed":
            self._check_complete(output)
        if kind in _OPENING and snapshot is not None and isinstance(output, list):
            if not output:  # nothing new: what was accumulated stays
                self._snapshot = {**response, "output": snapshot["output"]}
                return
            given = {_identity(item) for item in output}
            output = [*output, *(item for item in snapshot["output"] if _identity(item) not in given)]
            response["output"] = output
        _require(isinstance(output, list), "no array `output`")
        taken: set[str] = set()
        for item in output:
            keys = _identity_keys(item)
            _require(not taken.intersection(keys), "duplicate output item identity")
            taken.update(keys)
        if response.get("output_text") is None:
            _texts(output)
        if kind != "response.completed":
            self._record(output)
        self._snapshot = response

    def _record(self, output: list[Any]) -> None:
        previous = {_identity(item): index for index, item in self._finished.items()}
        previous |= {identity: index for index, identity in self._open.items()}
        place: dict[int, int] = {}
        for position, item in enumerate(output):
            identity = _identity(item)
            index = previous.get(identity, position)
            done, unfinished = self._finished.get(index), self._open.get(index)
            _require(
                index not in place
                and (done is None or _identity(done) == identity)
                and (unfinished is None or unfinished == identity),
                "Response snapshot has conflicting output positions.",
            )
            held = self._held(index)
            if held is not None:
                _same_identity(held, item)
            place[index] = position
            if done is not None:
                self._finished[index] = item
            else:
                self._open[index] = identity
        self._place = place

    def _held(self, index: int) -> Any:
        if index in self._finished:
            return self._finished[index]
        position = self._place.get(index)
        return None if position is None or self._snapshot is None else _at(self._snapshot["output"], position)

    def _check_complete(self, output: Any) -> None:
        if not self._open and not self._finished:
            return
        _require(isinstance(output, list), "no array `output`")
        final = {_identity(item): item for item in output}
        for item in self._finished.values():
            if _identity(item) in final:
                _same_identity(item, final[_identity(item)])
        for index, identity in self._open.items():
            _require(identity in final, "Cannot complete response with unfinished output items.")
            held = self._held(index)
            _require(held is not None, "Cannot complete response with a missing output identity.")
            _same_identity(held, final[identity])

    @staticmethod
    def _command(event: Any, held: Any) -> None:
        _require(member(held, "type") == "shell_call", f"expected 'shell_call', got '{member(held, 'type')}'")
        commands = member(held, "action", "commands")
        index = event.get("command_index")
        _require(isinstance(commands, list) and _is_index(index), f"missing command at index {index}")
        size = len(commands) + (event["type"] == "response.shell_call_command.added")
        _require(index < size, f"missing command at index {index}")
        if index == len(commands):
            commands.append(event.get("command"))

    # -- both

    def _parts_of(self, event: Any, held: Any, *, strict: bool) -> None:
        """What an event of a part needs: that the part it speaks of is there, and of its type."""
        kind: str = event["type"]
        item_type = member(held, "type")
        if kind in _OF_PARTS:
            part = event.get("part")
            _require(part is not None, "a part that is null")
            reasoning = member(part, "type") == "reasoning_text"
            if item_type != ("reasoning" if reasoning else "message"):
                return
            if reasoning and held.get("content") is None and kind == "response.content_part.added":
                held["content"] = []
            content: Any = member(held, "content")
            _require(isinstance(content, list), "no array `content`")
            index = event.get("content_index")
            if strict and member(part, "type") == "output_text":
                _require(part.get("text") is not None, "a part without text")
            if kind == "response.content_part.added":
                _require(not strict or index == len(content), f"missing content at index {index}")
                content.append(_copy(part))
            else:
                _require(truthy(_at(content, index)), f"missing content at index {index}")
                content[index] = _copy(part)
            return
        if kind not in _ITEM_OF or item_type != _ITEM_OF[kind]:
            return
        if item_type == "message":
            self._of_type(held.get("content"), event.get("content_index"), _part_type(kind))
            if strict and kind.startswith("response.output_text.d"):
                part = held["content"][event["content_index"]]
                _require(part.get("text") is not None, "a part without text")
                _require(kind.endswith(".delta") or event.get("text") is not None, "no text")
            if kind == "response.output_text.annotation.added":
                part = held["content"][event["content_index"]]
                annotations, index = part.get("annotations"), event.get("annotation_index")
                _require(isinstance(annotations, list), "no array `annotations`")
                _require(not strict or (_is_index(index) and index <= len(annotations)), f"missing annotation {index}")
                annotations.append(event.get("annotation"))
        elif item_type == "reasoning":
            self._reasoning(kind, event, held, strict=strict)

    @staticmethod
    def _of_type(content: Any, index: Any, expected: str) -> None:
        _require(isinstance(content, list), "no array `content`")
        part = _at(content, index)
        _require(truthy(part), f"missing content at index {index}")
        got = member(part, "type")
        _require(got == expected, f"expected content to be '{expected}', got {got}")

    def _reasoning(self, kind: str, event: Any, held: Any, *, strict: bool) -> None:
        if kind.startswith("response.reasoning_text."):
            _require(held.get("content"), f"missing content at index {event.get('content_index')}")
            self._of_type(held.get("content"), event.get("content_index"), "reasoning_text")
            return
        summary, index = held.get("summary"), event.get("summary_index")
        _require(isinstance(summary, list), "no array `summary`")
        if kind == "response.reasoning_summary_part.added":
            _require(not strict or index == len(summary), f"missing content at index {index}")
            summary.append(_copy(event.get("part")))
        else:
            _require(truthy(_at(summary, index)), f"missing content at index {index}")

    def broken(self, end: Any) -> Raised:
        raised = super().broken(end)
        return Raised("OpenAIError", raised.message)

    def final(self) -> tuple[str | None, Raised | None]:
        if self.raised is not None:
            return None, None
        snapshot = self._snapshot or {}
        status = snapshot.get("status", "absent")
        return (status if isinstance(status, str) else str(status)), None

    def verdict(self) -> Any:
        if self.raised is None and self._snapshot is None:
            self.say("the body ended without any event: finalResponse() and the iteration throw")
            self.raised = Raised("OpenAIError", "request ended without sending any events")
        elif self.raised is None:
            try:
                self._check_final()
            except _Thrown as thrown:
                self.say(f"finalResponse() throws: {thrown}")
                self.raised = Raised("OpenAIError", str(thrown))
        return super().verdict()

    def _check_final(self) -> None:
        """What parsing the last snapshot needs."""
        output: Any = (self._snapshot or {}).get("output")
        _require(isinstance(output, list), "no array `output`")
        for item in output:
            _require(item is not None, "an item that is null")
            if member(item, "type") == "message":
                _require(isinstance(member(item, "content"), list), "a message without an array `content`")


def _code(event: Any) -> str | None:
    return text_of(member(event, "code"))


def _part_type(kind: str) -> str:
    return "refusal" if kind.startswith("response.refusal.") else "output_text"


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value


def _at(values: Any, index: Any) -> Any:
    """The value at an index, None where JavaScript finds nothing there."""
    if not isinstance(values, list) or not _is_index(index) or index >= len(values):
        return None
    return values[index]


def _is_index(value: Any) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and 0 <= value <= _MAX_SAFE and value % 1 == 0


def _identity(item: Any) -> str:
    kind = member(item, "type")
    given = None if kind in _BY_CALL else member(item, "id")
    return repr((kind, given, member(item, "call_id")))


def _identity_keys(item: Any) -> list[str]:
    """What an item is known by; raises where that is not what it should be."""
    kind = member(item, "type")
    _require(isinstance(kind, str), "expected an own output item type")
    keys: list[str] = []
    if "id" in item:
        given = item["id"]
        _require(isinstance(given, str) and (given or kind == "computer_call"), "expected a non-empty output item id")
        keys.append(f"id:{given}")
    else:
        _require(kind in _OPTIONAL_ID, "expected a non-empty output item id")
    if kind in _BY_CALL:
        call = item.get("call_id")
        _require(isinstance(call, str) and (call or kind == "function_call"), "expected an output item call_id")
        keys.append(f"call:{kind}:{call}")
    return keys


def _same_identity(held: Any, replacement: Any) -> None:
    _identity_keys(held)
    _identity_keys(replacement)
    _require(held["type"] == replacement["type"], f"expected output item type '{held['type']}'")
    adds = "id" not in held and held["type"] in _OPTIONAL_ID
    _require(adds or held.get("id") == replacement.get("id"), f"expected output item id '{held.get('id')}'")
    if held["type"] in _BY_CALL:
        _require(held.get("call_id") == replacement.get("call_id"), "expected output item call_id")


NODE_STREAM: Final = Reader(
    name="openai-node.stream",
    about="openai-node, the helper responses.stream()",
    versions=("6.49", "7.59"),
    opens=NodeStreamReading,
)
