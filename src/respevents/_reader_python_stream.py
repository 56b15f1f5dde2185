"""How `responses.stream()` of openai-python accumulates events: `lib/streaming/responses` of 2.48.0 and 3.57.0.

The helper builds the response up while it reads, so a stream that skips a step raises in the middle of it. Which
exception that is follows from Python itself (an index that does not exist, an attribute of None), so the values are
read with the same operations here.
"""

from __future__ import annotations

from typing import Any, Final

from respevents._reader import Answer, Reader, member, text_of
from respevents._reader_openai import PythonReading, Raised

__all__ = ["PYTHON_STREAM"]

_BY_CALL: Final = {"function_call", "custom_tool_call", "shell_call", "shell_call_output"}
_OPENING: Final = {"response.created", "response.queued", "response.in_progress"}
_LIFECYCLE: Final = _OPENING | {"response.completed", "response.failed", "response.incomplete"}

Identity = tuple[Any, Any, Any]


class _Model:
    """A decoded object with attributes: a key that did not come is None, as in the models of the library."""

    __slots__ = ("data",)
    __hash__ = None  # type: ignore[assignment] # as a dict: it can be no key

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def __getattr__(self, name: str) -> Any:
        return _wrap(self.data.get(name))

    def to_dict(self) -> dict[str, Any]:
        """A shallow copy; values that are no objects have no such method."""
        return dict(self.data)


def _wrap(value: Any) -> Any:
    if isinstance(value, dict):
        return _Model(value)
    if isinstance(value, list):
        return [_wrap(one) for one in value]
    return value


class _Item:
    """An output item of the snapshot; its parts are copied, so that what is added stays out of the events."""

    def __init__(self, item: Any) -> None:
        data = item.to_dict()
        self.type = data.get("type")
        self.id = data.get("id")
        self.call_id = data.get("call_id")
        self.content: Any = _wrap(data.get("content"))
        self.arguments: Any = data.get("arguments")


def _held(item: Any) -> Any:
    """An item of the first snapshot; what is no object stays what it is, and fails when it is used."""
    return _Item(_Model(item)) if isinstance(item, dict) else item


def _identity(item: Any) -> Identity:
    kind = item.type
    if kind in _BY_CALL:
        return kind, None, item.call_id
    return kind, item.id, item.call_id


def _same_id(previous: Any, replacement: Any) -> bool:
    return bool(
        previous.id == replacement.id
        or (previous.id is None and previous.type in {"function_call", "custom_tool_call"})
    )


class PythonStreamReading(PythonReading):
    """`ResponseStream` and, behind it, `get_final_response()`."""

    def __init__(self, client: str, version: str, answer: Answer) -> None:
        super().__init__(client, version, answer)
        self._snapshot: Any = None
        self._completed: Any = None
        self._items: Any = {}
        """3.57: by output index. 2.48: the list `snapshot.output`."""
        self._done: dict[Any, Any] = {}
        self._places: dict[Identity, Any] = {}
        self._old = version == "2.48"

    def deliver(self, data: Any) -> None:
        try:
            shown = self._handle(_wrap(data))
        except Exception as error:  # noqa: BLE001 - whatever the library would raise here, it raises
            name = type(error).__name__
            kind = text_of(member(data, "type"))
            self.say(f"{self.frame(kind)}: the helper raises {name} while it accumulates: {error}")
            raise Raised(name, str(error)) from None
        if shown:
            self.note(data)

    # -- one event

    def _handle(self, event: Any) -> bool:
        """Whether the event is handed on. Raises what the library raises."""
        kind = event.type if isinstance(event.type, str) else None
        if self._snapshot is None:
            if kind != "response.created":
                raise RuntimeError(f"Expected to have received `response.created` before `{kind}`")
            self._begin(event.response)
        elif self._old:
            self._accumulate_old(kind, event)
        else:
            self._accumulate(kind, event)
        if kind == "response.output_item.added" and not self._old and event.item is None:
            return False
        if kind in {"response.output_text.delta", "response.output_text.done"}:
            output = self._item(event.output_index)
            _must(output.type == "message")
            _must(output.content[event.content_index].type == "output_text")
        elif kind == "response.function_call_arguments.delta":
            _must(self._item(event.output_index).type == "function_call")
        elif kind == "response.completed":
            _must(self._completed is not None)
        return True

    def _begin(self, response: Any) -> None:
        self._snapshot = response
        output = response.to_dict().get("output")
        if self._old:
            self._items = None if output is None else [_held(item) for item in output]
        else:
            self._items = dict(enumerate(_held(item) for item in output or []))

    def _item(self, index: Any) -> Any:
        if self._old:
            return self._items[index]
        try:
            return self._items[index]
        except KeyError:
            raise RuntimeError(
                f"Received a content event for output index {index} before receiving its output item"
            ) from None

    def _accumulate_old(self, kind: Any, event: Any) -> None:
        if kind == "response.output_item.added":
            item = event.item
            _ = item.type
            self._items.append(_Item(item))
        elif kind == "response.completed":
            self._complete(event.response)
        else:
            self._content(kind, event)

    def _content(self, kind: Any, event: Any) -> None:
        if kind == "response.content_part.added":
            output = self._item(event.output_index)
            if output.type == "message":
                part = event.part.to_dict()
                output.content.append(_wrap(part))
        elif kind == "response.output_text.delta":
            output = self._item(event.output_index)
            if output.type == "message":
                part = output.content[event.content_index]
                _must(part.type == "output_text")
                part.data["text"] = part.text + event.delta
        elif kind == "response.function_call_arguments.delta":
            output = self._item(event.output_index)
            if output.type == "function_call":
                output.arguments += event.delta

    def _accumulate(self, kind: Any, event: Any) -> None:
        if kind in _LIFECYCLE and getattr(event.response, "id", None) != self._snapshot.id:
            raise RuntimeError("Lifecycle response identity changed.")
        if kind in _OPENING:
            self._reopen(event.response)
        elif kind == "response.output_item.added":
            item, index = event.item, event.output_index
            if item is None:
                return
            if index in self._items:
                raise RuntimeError(f"Duplicate response output index {index}.")
            _ = item.type
            self._items[index] = _Item(item)
        elif kind == "response.output_item.done":
            self._finish(event.item, event.output_index)
        elif kind == "response.completed":
            self._check_complete(event.response)
            self._complete(event.response)
        else:
            self._content(kind, event)

    def _reopen(self, response: Any) -> None:
        seen: dict[Identity, Any] = {}
        for item in response.output or []:
            identity = _identity(item)
            if identity in seen:
                raise RuntimeError("Response snapshot has conflicting output identities.")
            seen[identity] = item
        for identity, item in seen.items():
            index = self._places.get(identity)
            if index is not None:
                if not _same_id(self._done[index], item):
                    raise RuntimeError("Response snapshot has conflicting output identities.")
                self._done[index] = item

    def _finish(self, item: Any, index: Any) -> None:
        added = self._items.get(index)
        if added is not None and (_identity(added) != _identity(item) or not _same_id(added, item)):
            raise RuntimeError("Completed output item identity changed.")
        identity = _identity(item)
        place = self._places.get(identity)
        if place is not None and place != index:
            raise RuntimeError("Response snapshot has conflicting output identities.")
        previous = self._done.get(index)
        if previous is not None:
            del self._places[_identity(previous)]
        self._done[index] = item
        self._places[identity] = index

    def _check_complete(self, response: Any) -> None:
        final = {_identity(item): item for item in response.output or []}
        for item in self._done.values():
            same = final.get(_identity(item))
            if same is not None and not _same_id(item, same):
                raise RuntimeError("Completed response output identity changed.")
        for index, item in self._items.items():
            same = final.get(_identity(item))
            if index not in self._done and (same is None or not _same_id(item, same)):
                raise RuntimeError("Cannot complete response with unfinished output items.")

    def _complete(self, response: Any) -> None:
        given: Any = response.output
        output: Any = list(self._done.values()) if given is None and not self._old else given
        for item in output:  # what `parse_response` looks at
            if item.type == "message":
                for part in item.content:
                    _ = part.type
        self._completed = response

    # -- the end

    def final(self) -> tuple[str | None, Raised | None]:
        if self.raised is not None:
            return None, None
        if self._completed is not None:
            return str(self._completed.status), None
        raised = Raised("RuntimeError", "Didn't receive a `response.completed` event.")
        self.say("get_final_response() raises RuntimeError: only response.completed satisfies it")
        return f"raises {raised.name}", raised


def _must(truth: bool) -> None:
    if not truth:
        raise AssertionError


PYTHON_STREAM: Final = Reader(
    name="openai-python.stream",
    about="openai-python, the helper responses.stream()",
    versions=("2.48", "3.57"),
    opens=PythonStreamReading,
)
