"""Streams that go well, told through the builder: one story for each thing a model can do.

A story is a generator over a `ResponseStream`: it yields the bytes of its steps and may end the stream itself; one
that does not is completed. Its docstring is what `respevents serve --list` says.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from respevents.stream import ResponseStream

    Story = Callable[[ResponseStream, Mapping[str, Any]], Iterator[bytes]]

__all__ = ["STORIES", "USAGE"]

USAGE: Final = {"input_tokens": 11, "output_tokens": 7}
"""What every story counts: the same for each, so that a test can tell it."""

WORDS: Final = ("Hel", "lo", " from", " the", " script", ".")
PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A picture of one pixel."""

STORIES: Final[dict[str, Story]] = {}
"""Name -> story."""


def _story(name: str) -> Callable[[Story], Story]:
    def add(function: Story) -> Story:
        STORIES[name] = function
        return function

    return add


@_story("text")
def _text(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """A message of a few words."""
    yield stream.start()
    message = stream.message()
    for word in WORDS:
        yield message.text(word)


@_story("long-text")
def _long_text(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """A message of 2,000 deltas, characters of every width among them."""
    yield stream.start()
    message = stream.message()
    for number in range(2000):
        yield message.text(("word ", "wörd ", "語 ", "🙂 ")[number % 4])


@_story("reasoning")
def _reasoning(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """Reasoning with a summary of two parts and encrypted content, then a message."""
    yield stream.start()
    reasoning = stream.reasoning()
    yield reasoning.summary_text("The user says hello. ")
    yield reasoning.summary_text("A greeting is due.")
    yield reasoning.close_part()
    yield reasoning.summary_text("A short one.")
    yield reasoning.done(encrypted_content="c2VjcmV0")
    message = stream.message()
    for word in WORDS:
        yield message.text(word)


@_story("reasoning-text")
def _reasoning_text(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """Raw reasoning text, as open-weight models send it, then a message."""
    yield stream.start()
    reasoning = stream.reasoning()
    yield reasoning.text("They say hello. ")
    yield reasoning.text("I greet them.")
    message = stream.message()
    for word in WORDS:
        yield message.text(word)


@_story("refusal")
def _refusal(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """A message that refuses."""
    yield stream.start()
    message = stream.message()
    yield message.refusal("I can not ")
    yield message.refusal("help with that.")


@_story("annotations")
def _annotations(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """A web search, then a message that cites what it found."""
    yield stream.start()
    search = stream.web_search()
    yield search.searching()
    yield search.done(action={"type": "search", "query": "respevents", "queries": ["respevents"]})
    message = stream.message()
    yield message.text("Found it.")
    yield message.annotation(
        {"type": "url_citation", "url": "https://example.org/", "title": "Example", "start_index": 0, "end_index": 8}
    )


@_story("tool-call")
def _tool_call(stream: ResponseStream, request: Mapping[str, Any]) -> Iterator[bytes]:
    """A call of the first function of the request (get_weather without one); a message once its output is there."""
    yield from _calls(stream, request, 1)


@_story("tool-calls")
def _tool_calls(stream: ResponseStream, request: Mapping[str, Any]) -> Iterator[bytes]:
    """Two calls at once; a message once their outputs are there."""
    yield from _calls(stream, request, 2)


def answers_a_call(request: Mapping[str, Any]) -> bool:
    """The newest item of the input is the output of a call that the client carried out."""
    given = request.get("input")
    newest = given[-1] if isinstance(given, list) and given else None
    return isinstance(newest, dict) and str(newest.get("type")).endswith("_call_output")


def _calls(stream: ResponseStream, request: Mapping[str, Any], count: int) -> Iterator[bytes]:
    if answers_a_call(request):
        yield from _text(stream, request)
        return
    tools = request.get("tools")
    offered = [
        tool
        for tool in (tools if isinstance(tools, list) else [])
        if isinstance(tool, dict) and tool.get("type") == "function" and isinstance(tool.get("name"), str)
    ]
    tool: dict[str, Any] = offered[0] if offered else {"name": "get_weather", "parameters": _WEATHER}
    yield stream.start()
    for _ in range(count):
        call = stream.function_call(tool["name"])
        arguments = json.dumps(_instance(tool.get("parameters"), tool.get("parameters"), 0))
        half = len(arguments) // 2
        yield call.arguments(arguments[:half])
        yield call.arguments(arguments[half:])
        yield call.done()


_WEATHER: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@_story("custom-tool")
def _custom_tool(stream: ResponseStream, request: Mapping[str, Any]) -> Iterator[bytes]:
    """A call of a custom tool, with free text for its input; a message once its output is there."""
    if answers_a_call(request):
        yield from _text(stream, request)
        return
    yield stream.start()
    call = stream.custom_tool_call("run")
    yield call.input("print(")
    yield call.input("1)")


@_story("structured")
def _structured(stream: ResponseStream, request: Mapping[str, Any]) -> Iterator[bytes]:
    """A message of JSON that fits the schema in `text.format` ({} without one)."""
    text = request.get("text")
    form = text.get("format") if isinstance(text, dict) else None
    schema = form.get("schema") if isinstance(form, dict) else None
    yield stream.start()
    message = stream.message()
    written = json.dumps(_instance(schema, schema, 0), ensure_ascii=False)
    for at in range(0, len(written), 8):
        yield message.text(written[at : at + 8])


def _instance(schema: Any, root: Any, depth: int) -> Any:
    """The smallest value of a JSON Schema as requests carry them (structured outputs, tool parameters)."""
    if not isinstance(schema, dict) or depth > 16:
        return {}
    if isinstance(schema.get("$ref"), str):
        found = root
        for step in schema["$ref"].removeprefix("#").strip("/").split("/"):
            found = found.get(step) if step and isinstance(found, dict) else found
        return _instance(found, root, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return _instance(schema[key][0], root, depth + 1)
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object":
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = schema.get("required")
        names = required if isinstance(required, list) else list(properties)
        return {name: _instance(properties.get(name), root, depth + 1) for name in names}
    if kind == "array":
        count = schema.get("minItems", 0)
        count = count if isinstance(count, int) else 0
        return [_instance(schema.get("items"), root, depth + 1)] * min(count, 100)
    scalars: dict[Any, Any] = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "null": None}
    if kind in {"integer", "number"} and isinstance(schema.get("minimum"), (int, float)):
        return schema["minimum"]
    return scalars.get(kind)


@_story("file-search")
def _file_search(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """A search in files, then a message."""
    yield stream.start()
    search = stream.file_search()
    yield search.searching()
    yield search.done(queries=["greeting"], results=None)
    yield stream.message().text("Nothing found.")


@_story("code-interpreter")
def _code_interpreter(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """Code that is run, then a message."""
    yield stream.start()
    code = stream.code_interpreter()
    yield code.code("1 + ")
    yield code.code("1")
    yield code.interpreting()
    yield code.done(outputs=[{"type": "logs", "logs": "2"}])
    yield stream.message().text("It is 2.")


@_story("image")
def _image(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """An image, with two partial ones before it."""
    yield stream.start()
    image = stream.image_generation()
    yield image.generating()
    yield image.partial_image(PIXEL)
    yield image.partial_image(PIXEL)
    yield image.done(result=PIXEL)


@_story("mcp")
def _mcp(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """The tools of an MCP server, a call that answers and one that fails, then a message."""
    yield stream.start()
    tools = stream.mcp_list_tools("files")
    read = {
        "name": "read",
        "description": "Reads a file.",
        "input_schema": {"type": "object"},
        "annotations": {"read_only": True},
    }
    yield tools.done(tools=[read])
    call = stream.mcp_call("read", "files")
    yield call.arguments('{"path":')
    yield call.arguments('"a.txt"}')
    yield call.done(output="hello")
    call = stream.mcp_call("read", "files")
    yield call.arguments('{"path":"b.txt"}')
    yield call.failed({"type": "http_error", "code": 404, "message": "no such file"})
    yield stream.message().text("The file says hello.")


@_story("shell")
def _shell(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """Two commands for a shell and what they wrote, then a message."""
    yield stream.start()
    shell = stream.shell_call(call_id="call_shell")
    yield shell.command("ls")
    yield shell.command(" -l")
    yield shell.close_part()
    yield shell.command("pwd")
    yield shell.done()
    output = stream.shell_call_output("call_shell")
    yield output.output("total 0\n")
    yield output.exited(0)
    yield output.output("/\n", "warning\n")
    yield output.exited(0)
    yield output.done()
    yield stream.message().text("The folder is empty.")


@_story("apply-patch")
def _apply_patch(stream: ResponseStream, request: Mapping[str, Any]) -> Iterator[bytes]:
    """A patch of one file; a message once it is answered."""
    if answers_a_call(request):
        yield from _text(stream, request)
        return
    yield stream.start()
    patch = stream.apply_patch_call({"type": "create_file", "path": "a.txt"})
    yield patch.diff("+hel")
    yield patch.diff("lo\n")


@_story("compaction")
def _compaction(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """A compacted context, then a message."""
    yield stream.start()
    compaction = stream.compaction("c2VjcmV0")
    yield compaction.compacting()
    yield compaction.done()
    yield stream.message().text("Where were we?")


@_story("audio")
def _audio(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """Spoken output and its transcript, and a message."""
    yield stream.start()
    yield stream.message().text("Hello.")
    audio = stream.audio()
    yield audio.transcript("Hel")
    yield audio.sound("AAAA")
    yield audio.transcript("lo")
    yield audio.sound("AAAA")


@_story("background")
def _background(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """A response that is queued first, as one in the background is."""
    yield stream.start(queued=True)
    yield stream.in_progress()
    message = stream.message()
    for word in WORDS:
        yield message.text(word)


@_story("keepalives")
def _keepalives(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """A message with comments and a keepalive event between its deltas."""
    yield stream.start()
    message = stream.message()
    for word in WORDS:
        yield stream.keepalive()
        yield message.text(word)
    yield stream.keepalive(event=True)


@_story("unknown-event")
def _unknown_event(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """A message with an event in the middle that no client knows."""
    yield stream.start()
    message = stream.message()
    yield message.text("Hel")
    yield stream.send({"type": "response.brand_new.thing", "detail": {"number": 1}})
    yield message.text("lo")


@_story("incomplete-max-output-tokens")
def _max_output_tokens(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """A message that is cut at the limit of tokens."""
    yield stream.start()
    yield stream.message().text("Hello from the")
    yield stream.incomplete("max_output_tokens", USAGE)


@_story("incomplete-content-filter")
def _content_filter(stream: ResponseStream, _request: Mapping[str, Any]) -> Iterator[bytes]:
    """A message that a filter stops."""
    yield stream.start()
    yield stream.message().text("Hello from the")
    yield stream.incomplete("content_filter", USAGE)
