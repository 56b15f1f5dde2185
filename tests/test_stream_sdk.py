"""Streams of the builder, over a loopback server, through the openai SDK's own accumulator."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jsonschema_rs
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from respevents import Cause, Failure, FrameDecoder, ResponseStream, encode_frame, schemas
from respevents.lifecycle import Lifecycle

pytestmark = [
    pytest.mark.sdk,
    # The accumulator dumps items of types it does not know, and pydantic warns of that.
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
]

USAGE = {
    "input_tokens": 3,
    "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 1},
    "output_tokens": 2,
    "output_tokens_details": {"reasoning_tokens": 1},
    "total_tokens": 5,
}


STRICT = jsonschema_rs.validator_for(schemas.load())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    body = b""
    step = 0

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        body, step = type(self).body, type(self).step or len(type(self).body)
        for start in range(0, len(body), step):
            chunk = body[start : start + step]
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        self.wfile.write(b"0\r\n\r\n")

    def handle(self):
        try:
            super().handle()
        except ConnectionError:
            pass  # the client had read enough

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def url():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def client(url):
    with openai.OpenAI(api_key="unused", base_url=url, max_retries=0, timeout=20) as made:
        yield made


@contextmanager
def serving(body, step=0):
    _Handler.body, _Handler.step = body, step
    yield


def read(client):
    """What the accumulator makes of the stream: its events, the last snapshots of text and arguments, the response."""
    texts, arguments, types = {}, {}, []
    with client.responses.stream(model="m", input="x") as stream:
        for event in stream:
            types.append(event.type)
            if event.type == "response.output_text.delta":
                texts[event.output_index, event.content_index] = event.snapshot
            elif event.type == "response.function_call_arguments.delta":
                arguments[event.output_index] = event.snapshot
        return types, texts, arguments, stream.get_final_response()


def read_async(url):
    async def run():
        texts, arguments, types = {}, {}, []
        async with (
            openai.AsyncOpenAI(api_key="unused", base_url=url, max_retries=0, timeout=20) as client,
            client.responses.stream(model="m", input="x") as stream,
        ):
            async for event in stream:
                types.append(event.type)
                if event.type == "response.output_text.delta":
                    texts[event.output_index, event.content_index] = event.snapshot
                elif event.type == "response.function_call_arguments.delta":
                    arguments[event.output_index] = event.snapshot
            return types, texts, arguments, await stream.get_final_response()

    return asyncio.run(run())


# ---- mixes --------------------------------------------------------------------------------------------------------

pieces = st.lists(st.text(st.characters(), min_size=1, max_size=6), min_size=1, max_size=5)
ITEMS = {
    "message": pieces,
    "two texts": st.tuples(pieces, pieces),
    "refusal": pieces,
    "reasoning": st.tuples(st.lists(pieces, max_size=3), st.one_of(st.none(), pieces)),
    "function_call": pieces,
    "custom_tool_call": pieces,
    "mcp_call": pieces,
    "code_interpreter": pieces,
    "apply_patch": pieces,
    "shell": st.lists(pieces, min_size=1, max_size=3),
    "web_search": st.booleans(),
    "file_search": st.booleans(),
    "image": st.lists(st.just("AAAA"), max_size=2),
    "mcp_list_tools": st.booleans(),
    "compaction": st.none(),
    "whole": st.sampled_from(["local_shell_call", "mcp_approval_request", "acme:brand_new_call"]),
    "keepalive": st.none(),
    "audio": pieces,
}
plans = st.lists(st.one_of([st.tuples(st.just(kind), value) for kind, value in ITEMS.items()]), max_size=6)


WHOLE = {
    "local_shell_call": {"action": {"type": "exec", "command": ["ls"], "env": {}}},
    "mcp_approval_request": {"arguments": "{}", "name": "n", "server_label": "s"},
}


def fixed(text):
    """Text as the client gets it: halves of pairs joined, single ones replaced."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def play(stream, plan):
    """The frames of a plan, and what a client must see of it: texts and arguments by place."""
    out, texts, arguments = [], {}, {}
    for kind, value in plan:
        if kind in {"message", "two texts"}:
            message = stream.message()
            for number, part in enumerate([value] if kind == "message" else value):
                out += map(message.text, part)
                texts[message.output_index, number] = fixed("".join(part))
                out.append(message.close_part())
        elif kind == "refusal":
            out += map(stream.message().refusal, value)
        elif kind == "reasoning":
            reasoning = stream.reasoning()
            for part in value[0]:
                out += map(reasoning.summary_text, part)
                out.append(reasoning.close_part())
            out += map(reasoning.text, value[1] or [])
            out.append(reasoning.done())
        elif kind == "function_call":
            call = stream.function_call("f")
            out += map(call.arguments, value)
            arguments[call.output_index] = fixed("".join(value))
        elif kind == "custom_tool_call":
            out += map(stream.custom_tool_call("c").input, value)
        elif kind == "mcp_call":
            call = stream.mcp_call("t", "s")
            out += map(call.arguments, value)
            out.append(call.done(output="4"))
        elif kind == "code_interpreter":
            out += map(stream.code_interpreter().code, value)
        elif kind == "apply_patch":
            out += map(stream.apply_patch_call({"type": "create_file", "path": "p"}).diff, value)
        elif kind == "shell":
            call = stream.shell_call()
            for command in value:
                out += map(call.command, command)
                out.append(call.close_part())
            output = stream.shell_call_output("call_of_shell_" + str(len(arguments) + len(out)))
            for command in value:
                out += [output.output(*command[:2]), output.exited(0)]
        elif kind in {"web_search", "file_search"}:
            search = getattr(stream, kind)()
            out += [search.searching() if value else b"", search.done()]
        elif kind == "image":
            image = stream.image_generation()
            out += [*map(image.partial_image, value), image.done(result="BBBB")]
        elif kind == "mcp_list_tools":
            tools = stream.mcp_list_tools("s")
            out.append(tools.done(tools=[]) if value else tools.failed("no"))
        elif kind == "compaction":
            out.append(stream.compaction("gAAA").compacting())
        elif kind == "whole":
            out.append(stream.item({"type": value, "note": "x", **WHOLE.get(value, {}), "call_id": f"call_{len(out)}"}))
        elif kind == "keepalive":
            out.append(stream.keepalive())
        else:
            audio = stream.audio()
            out += [*map(audio.transcript, value), audio.done()]
    return b"".join(out), texts, arguments


def whole(plan, **how):
    stream = ResponseStream(model="m")
    out = stream.start(**how)
    said, texts, arguments = play(stream, plan)
    return stream, out + said, texts, arguments


def own_types(body):
    return [frame.event for frame in FrameDecoder().feed(body) if frame.data]


def plain(item):
    return {
        key: value for key, value in item.to_dict(warnings=False).items() if key not in {"parsed", "parsed_arguments"}
    }


def unparsed(items):
    """The final output without what the SDK adds to it."""
    found = [plain(item) for item in items]
    for item in found:
        item["content"] = [
            {key: value for key, value in part.items() if key != "parsed"} for part in item.get("content") or []
        ]
    return found


def contents(items):
    return [{**item, "content": item.get("content") or []} for item in items]


ENDINGS = {
    "complete": lambda stream: stream.complete(usage=USAGE),
    "incomplete": lambda stream: stream.incomplete("content_filter"),
    "fail": lambda stream: stream.fail(Failure(cause=Cause.OUT_OF_MEMORY, message="x")),
}


@given(plan=plans, ending=st.sampled_from(sorted(ENDINGS)), queued=st.booleans())
def test_every_mix_is_numbered_legal_strict_and_canonical(plan, ending, queued):
    plan = [(kind, value) for kind, value in plan if kind != "whole"]  # the items there are made up
    stream, out, _, _ = whole(plan, queued=queued)
    machine = Lifecycle()
    for number, frame in enumerate(one for one in FrameDecoder().feed(out + ENDINGS[ending](stream)) if one.data):
        event = json.loads(frame.data)
        assert event["sequence_number"] == number
        assert machine.feed(event) is None
        assert STRICT.is_valid(event), event
        assert encode_frame(event) == frame.raw
    assert machine.close() is None


@settings(max_examples=60)
@given(plan=plans, step=st.sampled_from([0, 0, 1000, 37]))
def test_the_accumulator_sees_what_was_said(client, plan, step):
    stream, out, texts, arguments = whole(plan)
    body = out + stream.complete(usage=USAGE)
    with serving(body, step):
        types, seen_texts, seen_arguments, final = read(client)
    assert types == own_types(body)
    assert seen_texts == {place: text for place, text in texts.items() if text}
    assert seen_arguments == {place: text for place, text in arguments.items() if text}
    assert final.output_text == "".join(texts.values())
    assert final.usage.to_dict() == USAGE
    sent = json.loads(FrameDecoder().feed(body)[-1].data)["response"]
    assert unparsed(final.output) == contents(sent["output"])
    assert (final.id, final.status, final.model) == (stream.id, "completed", "m")


@settings(max_examples=12)
@given(plan=plans)
def test_the_async_accumulator_sees_the_same(url, plan):
    stream, out, texts, arguments = whole(plan, queued=True)
    body = out + stream.complete(usage=USAGE)
    with serving(body):
        types, seen_texts, seen_arguments, final = read_async(url)
    assert types == own_types(body)
    assert seen_texts == texts
    assert seen_arguments == arguments
    assert final.output_text == "".join(texts.values())
    assert final.usage.to_dict() == USAGE


@settings(max_examples=25)
@given(plan=plans)
def test_a_stream_that_is_cut_is_read_to_its_end(client, plan):
    """The accumulator has a final response for completed streams alone; it must read the others all the same."""
    stream, out, texts, _ = whole(plan)
    body = out + stream.incomplete("max_output_tokens", usage=USAGE)
    with serving(body), client.responses.stream(model="m", input="x") as reader:
        seen = list(reader)
    assert [event.type for event in seen] == own_types(body)
    response = seen[-1].response
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
    assert response.output_text == "".join(texts.values())


@settings(max_examples=25)
@given(plan=plans)
def test_a_stream_that_fails_raises_with_the_code(client, plan):
    stream, out, _, _ = whole(plan)
    body = out + stream.fail(Failure(cause=Cause.CONTEXT_LENGTH_EXCEEDED, message="too long"))
    with serving(body), pytest.raises(openai.APIError) as caught:
        read(client)
    assert caught.value.code == "context_length_exceeded"
    assert "too long" in caught.value.message


def test_overlapping_items_are_told_apart(client):
    stream = ResponseStream(model="m", overlap=True)
    out = stream.start()
    one, two, message = stream.function_call("f"), stream.function_call("g"), stream.message()
    for piece in ("{", '"a"', ":1}"):
        out += one.arguments(piece) + message.text(piece) + two.arguments(piece)
    with serving(out + stream.complete(usage=USAGE)):
        _, texts, arguments, final = read(client)
    assert texts == {(1, 0): '{"a":1}'}
    assert arguments == {0: '{"a":1}', 2: '{"a":1}'}
    assert final.output_text == '{"a":1}'


@pytest.mark.parametrize("lost", [b"event: response.created", b"response.output_item.added", b"content_part.added"])
def test_the_accumulator_is_a_check_that_can_fail(client, lost):
    """Without one of the events that open something it raises."""
    _, out, _, _ = whole([("message", ["a", "b"])])
    frames = [frame.raw for frame in FrameDecoder().feed(out)]
    number = next(number for number, raw in enumerate(frames) if lost in raw)
    with serving(b"".join(frames[:number] + frames[number + 1 :])), pytest.raises((RuntimeError, IndexError)):
        read(client)
