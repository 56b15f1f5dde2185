"""The builder: against OpenAI's captured streams, against the strict schema, and at its edges."""

from __future__ import annotations

import contextlib
import gc
import json
import random
import re
import tracemalloc
import weakref
from pathlib import Path
from typing import get_args

import jsonschema_rs
import pytest
from hypothesis import example, find, given
from hypothesis import strategies as st

from conftest import SHARED, shared_path
from respevents import (
    Cause,
    EncodeError,
    Failure,
    FrameDecoder,
    LocalProtocolError,
    Policy,
    ResponseStream,
    items,
    schemas,
)
from respevents._generated import tables
from respevents._hot import pieces
from respevents._snapshot import checked_usage, response_snapshot
from respevents._writer import Writer
from respevents.events import ResponseCreatedEvent, ResponseTextDeltaEvent, decode_event
from respevents.lifecycle import ITEMS, TABLE, Lifecycle
from respevents.testing._bodies import output_definitions
from respevents.testing._walker import walker
from respevents.wire import encode_frame

CORPUS = SHARED / "corpus"
NOW = 1767225600
USAGE = {
    "input_tokens": 3,
    "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 1},
    "output_tokens": 2,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 5,
}
FAILURE = Failure(cause=Cause.CONTEXT_LENGTH_EXCEEDED, message="too long")


def new(**given):
    return ResponseStream(**{"model": "m", "id": "resp_1", "created_at": NOW, "clock": lambda: NOW + 2.9, **given})


def events(out):
    decoder = FrameDecoder()
    frames = decoder.feed(out) + decoder.close()
    assert b"".join(frame.raw for frame in frames) == out
    assert all(frame.complete for frame in frames)
    found = [json.loads(frame.data) for frame in frames if frame.data]
    assert [frame.event for frame in frames if frame.data] == [event["type"] for event in found]
    return found


def kinds(out):
    return [event["type"].removeprefix("response.") for event in events(out)]


def check(out, *, first=0):
    """A whole stream of ours: numbered, legal, valid under the strict schema. Gives its events."""
    found = events(out)
    machine = Lifecycle(continued=first > 0)
    for number, event in enumerate(found, first):
        assert event["sequence_number"] == number
        assert machine.feed(event) is None
        assert not list(validator().iter_errors(event)), event
    assert machine.close() is None
    return found


_validators = []


def validator():
    if not _validators:
        _validators.append(jsonschema_rs.validator_for(schemas.load()))
    return _validators[0]


# ---- against OpenAI's bytes ---------------------------------------------------------------------------------------


def captures():
    """Whole captures of OpenAI whose bytes were kept, of the era whose bytes are ours, background mode aside."""
    index = CORPUS / "index.jsonl"
    if not index.exists():
        return []
    found = []
    for row in map(json.loads, index.read_text().splitlines()):
        if (
            row["producer"] == "openai"
            and row["captured_or_handwritten"] == "captured"
            and row["fidelity"] in {"raw", "reframed"}
        ):
            frames = [one for one in FrameDecoder().feed((CORPUS / row["file"]).read_bytes()) if one.data]
            head = json.loads(frames[0].data) if frames else {}
            response = head.get("response") or {}
            if (
                head.get("type") == "response.created"
                and (response.get("created_at") or 0) >= 1768262400  # 2026-01-13
                and not response.get("background")
                and "frequency_penalty" in response
            ):
                found.append((row["file"], row["fidelity"], frames))
    return found


class Recorded:
    """Gives back the padding of a capture where the builder asks for random characters."""

    def __init__(self):
        self.next = ""

    def choices(self, population, *, k):
        return list(self.next)


def rebuilt(frames):
    """A capture built once more through the steps; the frames of both, `response.*` snapshots decoded."""
    recorded = [json.loads(frame.data) for frame in frames]
    first, last = recorded[0]["response"], recorded[-1]["response"]
    padding = Recorded()
    padded = any("obfuscation" in event for event in recorded)
    stream = ResponseStream(
        model=first["model"],
        id=first["id"],
        created_at=first["created_at"],
        request=first,
        clock=lambda: last.get("completed_at") or 0,
        obfuscation=padding if padded else None,
    )
    out, handle = [stream.start()], None
    for event in recorded:
        kind = event["type"].removeprefix("response.")
        padding.next = event.get("obfuscation", "")
        if kind == "output_item.added":
            item = dict(event["item"])
            make = {
                "message": stream.message,
                "function_call": stream.function_call,
                "reasoning": stream.reasoning,
                "web_search_call": stream.web_search,
                "file_search_call": stream.file_search,
                "custom_tool_call": stream.custom_tool_call,
                "mcp_list_tools": stream.mcp_list_tools,
                "apply_patch_call": stream.apply_patch_call,
            }.get(item.pop("type"))
            if make is None:
                return None
            item.pop("status", None)
            handle = make(**item)
            out.append(handle.open())
        elif kind == "output_text.delta":
            out.append(handle.text(event["delta"], event["logprobs"] or None))
        elif kind == "output_text.annotation.added":
            out.append(handle.annotation(event["annotation"]))
        elif kind == "refusal.delta":
            out.append(handle.refusal(event["delta"]))
        elif kind == "reasoning_summary_text.delta":
            out.append(handle.summary_text(event["delta"]))
        elif kind == "reasoning_summary_part.done":
            out.append(handle.close_part())
        elif kind == "function_call_arguments.delta":
            out.append(handle.arguments(event["delta"]))
        elif kind == "custom_tool_call_input.delta":
            out.append(handle.input(event["delta"]))
        elif kind == "apply_patch_call_operation_diff.delta":
            out.append(handle.diff(event["delta"]))
        elif kind.endswith("_call.searching"):
            out.append(handle.searching())
        elif kind == "keepalive":
            out.append(stream.keepalive(event=True))
        elif kind == "output_item.done":
            status = event["item"].get("status")
            item = {
                key: value
                for key, value in event["item"].items()
                if key not in {"id", "type", "status", "content", "summary", "arguments", "input"}
            }
            out.append(handle.done(status=status if status == "incomplete" else None, **item))
    if recorded[-1]["type"] == "response.completed":
        out.append(stream.complete(usage=last["usage"]))
    else:
        out.append(stream.incomplete(last["incomplete_details"]["reason"], usage=last["usage"]))
    return FrameDecoder().feed(b"".join(out))


def rounded(value):
    """With numbers as OpenAI writes them in the logprobs of a whole item: 6 decimals."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return round(value, 6) if isinstance(value, float) else value


RE_ENCRYPTED = ("encrypted_content", "fingerprint")
"""Keys of items whose value OpenAI writes anew in the terminal snapshot."""


def snapshot(event):
    """What must be equal of a snapshot whose keys come from other places: values of 2026's newer keys are left out."""
    response = {key: value for key, value in event["response"].items() if key not in {"tool_usage", "moderation"}}
    response = rounded(response)
    if response["status"] == "completed" and response["service_tier"] == "auto":
        response["service_tier"] = "default"  # 3 of 434 captures keep the word
    response["output"] = [
        {key: value for key, value in item.items() if key not in RE_ENCRYPTED} for item in response["output"]
    ]
    usage = response["usage"]
    if usage is not None:
        details = {"cache_write_tokens": 0, **usage["input_tokens_details"]}
        response["usage"] = {**usage, "input_tokens_details": details}
    return response


def test_captured_streams_built_once_more_have_their_bytes():
    """Steps with a capture's texts, ids and padding give the capture's own frames."""
    shared_path("corpus", "index.jsonl")
    streams = equal = 0
    for file, fidelity, frames in captures():
        if "programmatic-tool-calling" in file:  # the calls of a program stay in_progress when they are done
            continue
        ours = rebuilt(frames)
        if ours is None:
            continue
        streams += 1
        assert len(ours) == len(frames), file
        for mine, theirs in zip(ours, frames, strict=True):
            event = json.loads(theirs.data)
            if "response" in event:
                built = json.loads(mine.data)
                assert snapshot(built) == snapshot(event), file
                if "moderation" in event["response"]:
                    assert set(event["response"]) - set(built["response"]) <= {"tool_usage"}, file
            elif fidelity == "raw":
                if event["type"] == "response.output_item.done" and b'"logprob":' in theirs.data:
                    assert rounded(json.loads(mine.data)) == event
                else:
                    assert mine.raw == theirs.raw, file
                equal += 1
            else:
                assert json.loads(mine.data) == event, file
    assert streams > 60
    assert equal > 2000


def test_captured_events_sent_as_they_are_give_the_captured_snapshot():
    """`send` learns items, parts and text from events it did not build."""
    shared_path("corpus", "index.jsonl")
    seen = set()
    for file, fidelity, frames in captures():
        stream = new()
        if "openai-phase.1" in file:  # trimmed by hand
            continue
        for frame in frames[:-1]:
            event = json.loads(frame.data)
            seen.add(event["type"])
            assert stream.send(event) == frame.raw or fidelity != "raw", file
        last = json.loads(frames[-1].data)
        built = json.loads(FrameDecoder().feed(stream.complete(usage=last["response"]["usage"]))[-1].data)
        assert built["sequence_number"] == last["sequence_number"], file
        assert built["response"]["id"] == last["response"]["id"]
        if "codex" not in file:  # the ChatGPT backend ends with an empty output
            assert snapshot(built)["output"] == snapshot(last)["output"], file
    assert len(seen) > 20


def test_the_snapshot_has_the_keys_that_openai_always_sends():
    facts = json.loads(shared_path("wire", "openai_wire_2026.json").read_text())["Response"]
    seen = facts["seen"]
    always = {key for key, one in facts["presence"].items() if one["in"] >= 0.99 * seen}
    ours = response_snapshot(model="m")
    assert always <= set(ours)
    assert set(ours) - always == {"moderation"}
    for key, value in ours.items():
        name = {type(None): "null"}.get(type(value), type(value).__name__)
        assert name in facts["presence"][key]["types"], key


# ---- every event type ---------------------------------------------------------------------------------------------


def everything():
    """Each kind of item once, through the steps alone; and the events that have no step."""
    stream = new(request={"background": True, "model": "m"}, id_factory=ids())
    out = [stream.start()]
    reasoning = stream.reasoning()
    out += [reasoning.summary_text("Hm"), reasoning.summary_text("m"), reasoning.close_part()]
    out += [reasoning.summary_text("so"), reasoning.text("deep"), reasoning.done(encrypted_content="x")]
    other = stream.reasoning(part_events="reasoning_part")
    out += [other.text("deep"), other.text("er")]
    message = stream.message(phase="final_answer")
    out += [message.text("Hel"), message.text("lo", logprobs=[LOGPROB]), message.annotation(CITATION)]
    out += [message.refusal("No"), message.refusal(".")]
    call = stream.function_call("f", call_id="call_1")
    out += [call.arguments('{"a"'), call.arguments(": 1}")]
    custom = stream.custom_tool_call("c", call_id="call_2")
    out += [custom.input("x"), custom.input("y")]
    web = stream.web_search(action={"type": "search", "query": "q"})
    out += [web.searching(), web.done(action={"type": "search", "query": "q", "queries": ["q"]})]
    files = stream.file_search()
    out += [files.searching(), files.done(queries=["q"])]
    code = stream.code_interpreter(container_id="cntr_1")
    out += [code.code("1+"), code.code("1"), code.interpreting(), code.done(outputs=[{"type": "logs", "logs": "2"}])]
    image = stream.image_generation()
    out += [image.generating(), image.partial_image("AAAA"), image.partial_image("BBBB", size="1024x1024")]
    out += [image.done(result="CCCC")]
    tools = stream.mcp_list_tools("server")
    out += [tools.done(tools=[{"annotations": None, "description": None, "input_schema": {}, "name": "t"}])]
    broken = stream.mcp_list_tools("other")
    out += [broken.failed("no answer")]
    out += [stream.item({"type": "mcp_approval_request", "arguments": "{}", "name": "t", "server_label": "server"})]
    mcp = stream.mcp_call("t", "server")
    out += [mcp.arguments("{"), mcp.arguments("}"), mcp.done(output="4")]
    failed = stream.mcp_call("t", "server")
    out += [failed.arguments("{}"), failed.failed({"type": "http_error", "code": 424, "message": "no"})]
    shell = stream.shell_call(call_id="call_3", timeout_ms=100)
    out += [shell.command("ls"), shell.command(" -l"), shell.close_part(), shell.command("pwd")]
    output = stream.shell_call_output("call_3")
    out += [output.output("a"), output.output("b", "warning"), output.exited(0), output.timed_out()]
    patch = stream.apply_patch_call({"type": "create_file", "path": "p"}, call_id="call_4")
    out += [patch.diff("+a"), patch.diff("\n")]
    deletion = stream.apply_patch_call({"type": "delete_file", "path": "p"}, call_id="call_5")
    out += [deletion.open()]
    compaction = stream.compaction("gAAA")
    out += [compaction.compacting(), compaction.done()]
    audio = stream.audio()
    out += [audio.sound("AAAA"), audio.transcript("hi"), audio.done(), stream.keepalive(event=True)]
    return stream, out


LOGPROB = {"token": "lo", "logprob": -0.5, "bytes": [108, 111], "top_logprobs": []}
CITATION = {"type": "url_citation", "url": "https://e.org", "title": "E", "start_index": 0, "end_index": 5}


def ids():
    counts = {}

    def make(prefix):
        counts[prefix] = counts.get(prefix, 0) + 1
        return f"{prefix}_{counts[prefix]}"

    return make


def test_every_event_type_can_be_built():
    stream, out = everything()
    found = check(b"".join(out) + stream.complete(usage=USAGE))
    built = {event["type"] for event in found}
    built |= {event["type"] for event in check(new().start() + new_incomplete())}
    built |= {event["type"] for event in check(new().fail(FAILURE))}
    # What OpenAI was reported to send after the end, and no server of ours has a reason to.
    stream.send({"type": "response.rate_limits.updated", "rate_limits": []})
    assert set(tables.EVENTS) - built == {"response.rate_limits.updated"}


def new_incomplete():
    stream = new()
    stream.start()
    return stream.incomplete("max_output_tokens")


def test_every_output_item_type_can_be_built_whole():
    stream = new(id_factory=ids())
    out = stream.start()
    for kind in ITEMS:
        whole = find(walker().value(output_definitions()[kind], 0), lambda item: True)
        whole |= {"note": "x"} | ({"call_id": f"call_{kind}"} if "call_id" in whole else {})
        del whole["id"]
        assert kinds(stream.item(whole)) == ["output_item.added", "output_item.done"]
    output = events(stream.complete())[-1]["response"]["output"]
    assert [item["type"] for item in output] == list(ITEMS)
    assert [item["id"] for item in output] == [f"{row.prefix}_1" for row in ITEMS.values()]
    assert kinds(out) == ["created", "in_progress"]


def test_the_terminal_output_is_what_was_said():
    stream, out = everything()
    found = events(b"".join(out) + stream.complete(usage=USAGE))
    done = [event["item"] for event in found if event["type"] == "response.output_item.done"]
    assert found[-1]["response"]["output"] == done
    by_type = {}
    for item in done:
        by_type.setdefault(item["type"], []).append(item)
    first, other = by_type["reasoning"]
    assert [part["text"] for part in first["summary"]] == ["Hmm", "so"]
    assert first["content"] == [{"type": "reasoning_text", "text": "deep"}]
    assert first["encrypted_content"] == "x"
    assert other["content"][0]["text"] == "deeper"
    (message,) = by_type["message"]
    assert message["content"] == [
        {"type": "output_text", "annotations": [CITATION], "logprobs": [LOGPROB], "text": "Hello"},
        {"type": "refusal", "refusal": "No."},
    ]
    assert message["phase"] == "final_answer"
    assert by_type["function_call"][0]["arguments"] == '{"a": 1}'
    assert by_type["custom_tool_call"][0]["input"] == "xy"
    assert by_type["code_interpreter_call"][0]["code"] == "1+1"
    assert by_type["mcp_call"][0]["output"] == "4"
    assert by_type["mcp_call"][1]["status"] == "failed"
    assert by_type["mcp_list_tools"][1]["error"] == "no answer"
    assert by_type["shell_call"][0]["action"]["commands"] == ["ls -l", "pwd"]
    assert by_type["shell_call_output"][0]["output"] == [
        {"outcome": {"type": "exit", "exit_code": 0}, "stderr": "warning", "stdout": "ab"},
        {"outcome": {"type": "timeout"}, "stderr": "", "stdout": ""},
    ]
    assert by_type["apply_patch_call"][0]["operation"] == {"type": "create_file", "diff": "+a\n", "path": "p"}
    assert by_type["apply_patch_call"][1]["operation"] == {"type": "delete_file", "path": "p"}
    assert {item.get("status", "completed") for item in done} == {"completed", "failed"}


def test_deltas_and_their_sum_agree():
    stream, out = everything()
    sums = {}
    for event in events(b"".join(out) + stream.complete()):
        row = TABLE[event["type"]]
        key = (event.get("output_index"), event.get(row.index or ""), row.done or event["type"])
        if row.done and isinstance(event["delta"], str):
            sums[key] = sums.get(key, "") + event["delta"]
        elif row.whole and row.part != "output":
            assert event[row.whole] == sums.pop(key, ""), event
    assert {kind for _, _, kind in sums} == {"response.audio.done", "response.audio.transcript.done"}


# ---- bytes of the quick path --------------------------------------------------------------------------------------

DELTAS = [
    row
    for row in TABLE.values()
    if row.type.endswith(".delta") and row.type != "response.shell_call_output_content.delta"
]


@pytest.mark.parametrize("kind", [row.type for row in DELTAS])
@given(delta=st.text(), item=st.text(min_size=1), number=st.integers(0, 10**15))
def test_pieces_of_a_frame_equal_the_frame(kind, delta, item, number):
    fields = tables.FIELDS[tables.EVENTS[kind]]
    values = {
        "item_id": item,
        "logprobs": [],
        "output_index": 3,
        "content_index": 1,
        "summary_index": 2,
        "command_index": 4,
    }
    event = {"type": kind, **{key: value for key, value in values.items() if key in fields}}
    cut = pieces(event)
    whole = encode_frame({**event, "delta": delta, "sequence_number": number})
    assert cut is not None
    before, between, after = cut
    assert before + json_bytes(delta) + between + str(number).encode() + after == whole


def json_bytes(text):
    return encode_frame({"type": "x", "a": text}).partition(b'"a":')[2].rpartition(b"}")[0]


def test_an_id_that_holds_the_marks_is_written_the_slow_way():
    assert pieces({"type": "response.output_text.delta", "item_id": "\x00delta\x00", "logprobs": []}) is None
    stream = new()
    stream.start()
    message = stream.message(id="\x00delta\x00")
    assert [events(message.text(one))[-1]["delta"] for one in "abc"] == ["a", "b", "c"]


@given(texts=st.lists(st.text(min_size=1), min_size=1, max_size=12))
def test_a_text_is_framed_the_same_on_both_paths(texts):
    """Asking for padding takes the slow path; without the padding its bytes are those of the quick one."""
    quick, slow = new(id_factory=ids()), new(id_factory=ids(), obfuscation=Recorded())
    for stream in (quick, slow):
        stream.start()
    one, two = quick.message(), slow.message()
    for text in texts:
        theirs = events(two.text(text))
        del theirs[-1]["obfuscation"]
        assert one.text(text) == b"".join(map(encode_frame, theirs))


# ---- surrogates ---------------------------------------------------------------------------------------------------

surrogates = st.text(
    st.one_of(
        st.sampled_from("a\n\u2028é😀"),
        st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF, categories=["Cs"]),
        st.sampled_from(["\ud83d", "\ude00"]),
    ),
    max_size=8,
)

SAYERS = {
    "text": (lambda stream: stream.message(), "text", "text"),
    "refusal": (lambda stream: stream.message(), "refusal", "refusal"),
    "summary": (lambda stream: stream.reasoning(), "summary_text", "text"),
    "reasoning": (lambda stream: stream.reasoning(), "text", "text"),
    "arguments": (lambda stream: stream.function_call("f"), "arguments", "arguments"),
    "input": (lambda stream: stream.custom_tool_call("c"), "input", "input"),
    "code": (lambda stream: stream.code_interpreter(), "code", "code"),
    "diff": (lambda stream: stream.apply_patch_call({"type": "create_file", "path": "p"}), "diff", "diff"),
    "command": (lambda stream: stream.shell_call(), "command", "command"),
    "mcp arguments": (lambda stream: stream.mcp_call("t", "s"), "arguments", "arguments"),
}


@pytest.mark.parametrize("name", SAYERS)
@given(texts=st.lists(surrogates, max_size=6))
@example(texts=["a\ud83d", "b", "\ude00"])
@example(texts=["a", "b", "\ud83d", "\ude00", "c"])
def test_pairs_cut_between_deltas_are_joined_and_single_halves_replaced(name, texts):
    make, step, whole = SAYERS[name]
    stream = new()
    out = stream.start()
    handle = make(stream)
    for text in texts:
        piece = getattr(handle, step)(text)
        assert bool(piece) <= bool(text)
        out += piece
    if not any(texts):
        out += handle.open()
    out += stream.complete()
    expected = "".join(texts).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    found = check(out)
    deltas = [event["delta"] for event in found if event["type"].endswith(".delta")]
    assert all(deltas)
    assert "".join(deltas) == expected
    sums = [
        event[whole] for event in found if whole in event and event["type"].endswith(".done") and "part" not in event
    ]
    assert sums == [expected] or (not any(texts) and sums in ([], [""]))


def test_what_shell_commands_write_is_joined_for_each_of_both():
    stream = new()
    stream.start()
    output = stream.shell_call_output("call_1")
    out = output.output("a\ud83d", "\ud83d") + output.output("\ude00") + output.output(stderr="b")
    out += output.output("\ud83d") + output.exited(1)
    found = events(out)
    assert [event["delta"] for event in found if "delta" in event] == [
        {"stdout": "a"},
        {"stdout": "😀"},
        {"stderr": "\ufffdb"},
        {"stdout": "\ufffd"},
    ]
    assert found[-1]["output"] == [
        {"outcome": {"type": "exit", "exit_code": 1}, "stderr": "\ufffdb", "stdout": "a😀\ufffd"}
    ]


def test_halves_that_are_held_at_the_end_are_sent():
    stream = started()
    audio = stream.audio()
    audio.transcript("a\ud83d")
    assert events(stream.complete())[0]["delta"] == "\ufffd"
    for before in ("a", ""):
        stream = started()
        output = stream.shell_call_output("call_1")
        output.output(before + "\ud83d")
        with pytest.raises(LocalProtocolError, match=r"exited\(code\)"):
            stream.complete()
        found = events(stream.incomplete("max_output_tokens"))
        assert found[0]["delta"] == {"stdout": "\ufffd"}
        assert found[1]["output"] == [{"outcome": {"type": "timeout"}, "stderr": "", "stdout": before + "\ufffd"}]


def test_a_held_half_is_not_overtaken_and_takes_its_logprobs_along():
    stream = new()
    stream.start()
    message = stream.message()
    message.text("a")
    message.text("b")  # the quick path is on
    assert message.text("\ud83d", logprobs=[LOGPROB]) == b""
    assert message.text("", logprobs=[LOGPROB]) == b""
    (event,) = events(message.text("c"))
    assert event["delta"] == "\ufffdc"
    assert event["logprobs"] == [LOGPROB, LOGPROB]
    assert message.text("\ud83d") == b""
    (event,) = events(message.text("\ude00"))
    assert event["delta"] == "😀"


def test_no_text_gives_no_bytes():
    stream = new()
    assert stream.message().text("") == b""
    stream.start()
    message = stream.message()
    assert message.text("") == b""
    message.text("a")
    assert message.text("") == b""
    assert stream.sequence_number == 5


# ---- the order of items -------------------------------------------------------------------------------------------


def test_a_new_item_closes_the_one_before():
    stream = new()
    stream.start()
    message = stream.message()
    message.text("a")
    call = stream.function_call("f")
    assert kinds(call.arguments("{}"))[:4] == [
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "output_item.added",
    ]
    with pytest.raises(LocalProtocolError, match=r"is done.*overlap=True"):
        message.text("b")


def test_items_may_overlap_when_asked():
    stream = new(overlap=True)
    out = stream.start()
    one, two = stream.function_call("f"), stream.function_call("g")
    for piece in ("{", '"a"', ": 1", "}"):
        out += one.arguments(piece) + two.arguments(piece)
    out += two.done()
    found = check(out + stream.complete())
    output = found[-1]["response"]["output"]
    assert [(item["name"], item["arguments"]) for item in output] == [("f", '{"a": 1}'), ("g", '{"a": 1}')]


def test_incomplete_closes_what_is_open_as_incomplete():
    """As 20 of 20 captured streams do."""
    for name, (make, step, _) in SAYERS.items():
        stream = new()
        out = stream.start() + stream.item({"type": "local_shell_call", "action": ACTION, "call_id": "call_0"})
        handle = make(stream)
        out += getattr(handle, step)("a")
        found = check(out + stream.incomplete("max_output_tokens", usage=USAGE))
        response = found[-1]["response"]
        assert response["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}
        assert response["usage"] == USAGE
        assert response["completed_at"] is None
        before, item = response["output"]
        assert before["status"] == "completed", name
        row = ITEMS[item["type"]]
        assert item.get("status") == row.cut, name


ACTION = {"type": "exec", "command": [], "env": {}}


def test_incomplete_skips_the_steps_that_did_not_happen():
    stream = new()
    out = stream.start() + stream.web_search(action={"type": "search", "query": "q"}).open()
    ending = stream.incomplete("max_output_tokens")
    assert kinds(ending) == ["output_item.done", "incomplete"]
    assert check(out + ending)[-1]["response"]["output"][0]["status"] == "incomplete"


def test_complete_goes_through_the_steps_that_are_left():
    stream = new()
    stream.start()
    stream.code_interpreter().code("1")
    assert kinds(stream.complete()) == [
        "code_interpreter_call_code.done",
        "code_interpreter_call.interpreting",
        "code_interpreter_call.completed",
        "output_item.done",
        "completed",
    ]


def test_an_item_can_be_cut_short_alone():
    stream = new()
    out = stream.start()
    search = stream.web_search(action={"type": "search", "query": "q"})
    out += search.searching() + search.done(status="failed")
    found = check(out + stream.complete())
    assert found[-1]["response"]["output"][0]["status"] == "failed"
    assert "response.web_search_call.completed" not in {event["type"] for event in found}


def test_an_exit_code_is_not_made_up():
    stream = new()
    out = stream.start()
    output = stream.shell_call_output("call_1")
    out += output.output("a")
    for step in (stream.complete, output.done, lambda: stream.message().text("x")):
        with pytest.raises(LocalProtocolError, match=r"exited\(code\)"):
            step()
    assert check(out + output.exited(3) + stream.complete())[-1]["response"]["status"] == "completed"


# ---- the response -------------------------------------------------------------------------------------------------


def test_a_background_response_is_queued_first():
    for stream, how in ((new(), {"queued": True}), (new(request={"background": True}), {})):
        out = stream.start(**how)
        assert [(event["type"], event["response"]["status"]) for event in events(out)] == [
            ("response.created", "queued"),
            ("response.queued", "queued"),
        ]
        assert stream.state == "queued"
        out += stream.message().text("a")
        assert kinds(out)[2:4] == ["in_progress", "output_item.added"]
        check(out + stream.complete())
    stream = new()
    assert kinds(stream.start(queued=True) + stream.in_progress()) == ["created", "queued", "in_progress"]
    assert kinds(new(request={"background": True}).start(queued=False)) == ["created", "in_progress"]


def test_a_stream_goes_on_from_a_number():
    done = {"id": "msg_0", "type": "message", "status": "completed", "content": [], "role": "assistant"}
    stream = new(starting_after=41, output=[done])
    assert stream.sequence_number == 42
    out = stream.message(id="msg_1").text("a") + stream.complete()
    found = check(out, first=42)
    assert found[0]["output_index"] == 1
    assert [item["id"] for item in found[-1]["response"]["output"]] == ["msg_0", "msg_1"]
    stream = new(starting_after=0)
    assert kinds(stream.in_progress() + stream.fail(FAILURE)) == ["in_progress", "error", "failed"]
    with pytest.raises(LocalProtocolError):
        new(starting_after=5).start()


def test_times_and_ids_come_from_the_callers_factories():
    stream = ResponseStream(model="m", id_factory=ids(), clock=lambda: 1767225600.9)
    out = stream.start() + stream.message().text("a") + stream.function_call("f").arguments("{}") + stream.complete()
    found = check(out)
    assert found[0]["response"]["id"] == stream.id == "resp_1"
    assert found[0]["response"]["created_at"] == stream.created_at == 1767225600
    assert found[-1]["response"]["completed_at"] == 1767225600
    assert [item["id"] for item in found[-1]["response"]["output"]] == ["msg_1", "fc_1"]
    assert found[-1]["response"]["output"][1]["call_id"] == "call_1"
    again = ResponseStream(model="m", id_factory=ids(), clock=lambda: 1767225600.9)
    assert out.startswith(again.start())


def test_ids_have_openais_form_by_default():
    one, two = ResponseStream(model="m"), ResponseStream(model="m")
    assert one.id != two.id
    assert one.id.startswith("resp_")
    assert len(one.id) == 55
    assert len(one.function_call("f").id) == 53
    assert len(one.new_id("call")) == 29


def test_the_request_is_echoed_with_openais_defaults():
    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "b": 1, "a": 2}}
    request = {
        "model": "other",
        "input": "hi",
        "stream": True,
        "instructions": "Be brief.",
        "temperature": 1,
        "max_output_tokens": 7,
        "tools": [tool, {"type": "web_search"}],
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"z": 1, "a": 2}}},
        "metadata": {"z": "1", "a": "2"},
        "conversation": "conv_1",
        "previous_response_id": None,
        "service_tier": "flex",
        "user": "u",
        "store": False,
    }
    out = new(request=request).start()
    response = check_start(out)
    assert response["model"] == "m"
    assert response["instructions"] == "Be brief."
    assert b'"temperature":1.0' in out
    assert response["max_output_tokens"] == 7
    assert response["tools"][0] == {"description": None, "strict": True, **tool}
    assert list(response["tools"][0]["parameters"]) == ["type", "b", "a"]
    assert response["reasoning"] == {"effort": "low", "summary": None}
    assert response["text"]["verbosity"] == "medium"
    assert response["text"]["format"]["strict"] is False
    assert list(response["metadata"]) == ["z", "a"]
    assert response["conversation"] == {"id": "conv_1"}
    assert response["service_tier"] == "flex"
    assert response["store"] is False
    assert response["tools"][1] == {"type": "web_search", "search_context_size": "medium", "user_location": None}
    assert not {"input", "stream"} & set(response)
    assert request["tools"] == [tool, {"type": "web_search"}]


def test_keys_to_an_mcp_server_are_not_echoed():
    tool = {"type": "mcp", "server_label": "s", "server_url": "https://e.org", "authorization": "secret"}
    out = new(request={"tools": [{**tool, "headers": {"x-key": "secret"}}]}).start()
    assert b"secret" not in out
    assert check_start(out)["tools"][0]["headers"] is None


def check_start(out):
    found = events(out)
    for event in found:
        assert not list(validator().iter_errors(event)), event
    return found[0]["response"]


def test_what_is_not_asked_for_has_openais_defaults():
    response = check_start(new().start())
    assert response["temperature"] == response["top_p"] == 1.0
    assert response["tool_choice"] == "auto"
    assert response["truncation"] == "disabled"
    assert response["text"] == {"format": {"type": "text"}, "verbosity": "medium"}
    assert response["reasoning"] == {"effort": None, "summary": None}
    assert response["service_tier"] == "auto"
    assert response["usage"] is None
    assert response["metadata"] == {}
    stream = new()
    stream.start()
    assert events(stream.complete())[-1]["response"]["service_tier"] == "default"


def test_two_streams_share_no_defaults():
    one, two = response_snapshot(model="m"), response_snapshot(model="m")
    for key, value in one.items():
        if isinstance(value, (dict, list)):
            assert value is not two[key], key
    assert one["text"]["format"] is not two["text"]["format"]


def test_usage_has_every_count_or_none():
    assert checked_usage(None) is None
    assert checked_usage(USAGE) == USAGE
    from openai.types.responses import ResponseUsage

    assert checked_usage(ResponseUsage.model_validate(USAGE)) == USAGE
    without = {**USAGE, "input_tokens_details": {"cached_tokens": 1}}
    assert checked_usage(without) == USAGE
    assert without["input_tokens_details"] == {"cached_tokens": 1}
    assert checked_usage({**USAGE, "total_tokens": 5.0}) == USAGE
    for path, value in [
        (("input_tokens",), None),
        (("output_tokens",), "2"),
        (("total_tokens",), 1.5),
        (("total_tokens",), True),
        (("total_tokens",), -1),
        (("input_tokens_details",), {"cached_tokens": None}),
        (("output_tokens_details",), None),
        (("input_tokens_details",), {"cached_tokens": 0, "cache_write_tokens": "0"}),
    ]:
        with pytest.raises(LocalProtocolError, match=rf"\$\.usage\.{path[0]}"):
            checked_usage({**USAGE, path[0]: value})
    assert checked_usage({"input_tokens": 3, "output_tokens": 2}) == {
        "input_tokens": 3,
        "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": 0},
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 5,
    }
    stream = new()
    stream.start()
    stream.message().text("a")
    with pytest.raises(LocalProtocolError):
        stream.complete(usage={"input_tokens": 3})
    assert stream.sequence_number == 5, "nothing was closed"
    for wrong in (3, "x", [], float("nan")):
        with pytest.raises(LocalProtocolError, match=r"\$\.usage"):
            checked_usage(wrong)


def test_a_keepalive_takes_no_number_unless_it_is_an_event():
    stream = new()
    assert stream.keepalive() == b": keep-alive\n\n"
    stream.start()
    assert stream.keepalive() == b": keep-alive\n\n"
    assert events(stream.keepalive(event=True)) == [{"type": "keepalive", "sequence_number": 2}]
    stream.complete()
    assert stream.keepalive() == stream.keepalive(event=True) == b""
    with pytest.raises(LocalProtocolError, match="idle"):
        new().keepalive(event=True)


def test_padding_is_off_unless_seeded():
    def build(**given):
        stream = new(id_factory=ids(), **given)
        out = stream.start()
        message, call = stream.message(), None
        for text in ("Hello", " world, how are you today?", "é"):
            out += message.text(text)
        out += message.refusal("no")
        call = stream.function_call("f")
        return check(out + call.arguments("{}") + call.arguments(" ") + stream.complete())

    assert not any("obfuscation" in event for event in build())
    padded = build(obfuscation=random.Random(7))
    assert padded == build(obfuscation=random.Random(7))
    assert padded != build(obfuscation=random.Random(8))
    deltas = [event for event in padded if event["type"].endswith(".delta")]
    assert {"obfuscation" in event for event in deltas if event["type"] != "response.refusal.delta"} == {True}
    assert all(
        (len(event["delta"]) + len(event["obfuscation"])) % 16 == 0 for event in deltas if "obfuscation" in event
    )


# ---- failing ------------------------------------------------------------------------------------------------------


def states():
    """A stream in each state, and what it sent."""
    idle = new()
    yield "idle", idle, b""
    for name, how in (("in_progress", {}), ("queued", {"queued": True})):
        stream = new()
        yield name, stream, stream.start(**how)
    stream = new()
    yield (
        "created",
        stream,
        stream.send({"type": "response.created", "response": response_snapshot(model="m", id="resp_1")}),
    )
    for name, (make, step, _) in SAYERS.items():
        stream = new()
        out = stream.start() + stream.item({"type": "local_shell_call", "action": ACTION, "call_id": "call_0"})
        yield f"in {name}", stream, out + getattr(make(stream), step)("a\ud83d")
    stream = new()
    out = stream.start()
    yield "error", stream, out + stream.send({"type": "error", "code": "x", "message": "y", "param": None})


def test_a_stream_fails_from_every_state():
    for name, stream, out in states():
        number = stream.sequence_number
        ending = stream.fail(FAILURE)
        found = check(out + ending)
        tail = {"idle": 4, "error": 1}.get(name, 2)
        assert len(events(ending)) == tail, name
        assert events(ending)[0]["sequence_number"] == number
        response = found[-1]["response"]
        assert response["error"] == {"code": "context_length_exceeded", "message": "too long"}
        assert response["status"] == "failed"
        assert response["usage"] is response["completed_at"] is None
        assert (response["id"], response["model"], response["created_at"]) == (
            found[0]["response"]["id"],
            "m",
            found[0]["response"]["created_at"],
        )
        assert [item["type"] for item in response["output"]] == (["local_shell_call"] if name.startswith("in ") else [])
        assert stream.sequence_number == len(found)
        assert stream.fail(FAILURE) == b""
        with pytest.raises(LocalProtocolError, match="failed"):
            stream.message().text("more")
        with pytest.raises(LocalProtocolError, match="failed"):
            stream.complete()


def test_an_open_text_says_nothing_more_after_a_failure():
    stream = started()
    message = stream.message()
    message.text("a")
    message.text("b")
    stream.fail(FAILURE)
    with pytest.raises(LocalProtocolError, match="after the terminal event"):
        message.text("c")
    stream = started()
    call = stream.function_call("f")
    call.arguments("a")
    call.arguments("b")
    stream.send({"type": "error", "code": "x", "message": "y", "param": None})
    with pytest.raises(LocalProtocolError, match=r"response\.failed"):
        call.arguments("c")


def test_a_call_that_is_added_whole_keeps_its_arguments():
    stream = started()
    call = stream.function_call("f", arguments="{}")
    assert events(call.open())[-1]["item"]["arguments"] == "{}"
    done, item = events(call.done())
    assert done["arguments"] == item["item"]["arguments"] == "{}"


def test_a_failure_after_the_end_adds_nothing():
    stream = new()
    stream.start()
    stream.complete()
    number = stream.sequence_number
    assert stream.fail(FAILURE) == b""
    assert stream.sequence_number == number


def test_the_policy_says_how_a_failure_is_told():
    tails = {
        "error,failed": ["error", "response.failed"],
        "failed,error": ["response.failed", "error"],
        "failed": ["response.failed"],
    }
    for tail, expected in tails.items():
        stream = new(policy=Policy(tail=tail))
        assert [event["type"] for event in events(stream.start() + stream.fail(FAILURE))][2:] == expected
    for shape, keys in {
        "both": {"code", "message", "param", "error"},
        "flat": {"code", "message", "param"},
        "nested": {"error"},
    }.items():
        stream = new(policy=Policy(error_shape=shape))
        error = events(stream.fail(FAILURE))[2]
        assert set(error) - {"type", "sequence_number"} == keys
    stream = new(policy=Policy(failed_output="none"))
    stream.start()
    stream.item({"type": "local_shell_call", "action": ACTION, "call_id": "call_0"})
    assert events(stream.fail(FAILURE))[-1]["response"]["output"] == []


def test_a_failure_that_is_told_to_nobody_sends_nothing():
    silent = Policy(endings={Cause.OVERLOADED: "silent"})
    for cause, policy in ((Cause.CLIENT_DISCONNECT, None), (Cause.CANCELLED, None), (Cause.OVERLOADED, silent)):
        stream = new(policy=policy)
        stream.start()
        assert stream.fail(Failure(cause=cause, message="")) == b""
        assert stream.sequence_number == 2


@pytest.mark.parametrize(
    "request_",
    [
        {"metadata": {"a": float("nan")}},
        {"metadata": {"a": "\ud800"}},
        {"instructions": "\udfff", "tools": [{"type": "function", "name": b"x"}]},
        {"user": "\ud83d"},
        {"tools": [object()]},
    ],
)
def test_a_request_that_cannot_be_written_does_not_keep_a_failure_from_being_told(request_):
    stream = new(request=request_)
    with pytest.raises(EncodeError, match=r"\$\.response\.\w+"):
        stream.start()
    found = check(stream.fail(Failure(cause=Cause.INTERNAL_ERROR, message="\ud800" + "x" * 10**6)))
    assert [event["type"] for event in found] == [
        "response.created",
        "response.in_progress",
        "error",
        "response.failed",
    ]
    assert found[-1]["response"]["id"] == "resp_1"


def test_an_event_that_the_dialect_does_not_have_is_refused_where_it_is_sent():
    """At OpenAI a type without a row is free: an event newer than the schema set may be sent."""
    event = {"type": "response.of_tomorrow"}
    with pytest.raises(LocalProtocolError, match=r"response\.of_tomorrow"):
        started(dialect="open-responses").send(event)
    assert events(started().send(event))[0]["type"] == "response.of_tomorrow"


def test_what_can_be_written_of_a_request_is_told_with_its_failure():
    stream = new(id=None, id_factory=ids(), request={"metadata": {"a": float("nan")}, "temperature": 0.5})
    for event in check(stream.fail(FAILURE)):
        if "response" in event:
            response = event["response"]
            assert (response["id"], response["model"], response["created_at"]) == ("resp_1", "m", NOW)
            assert (response["temperature"], response["metadata"]) == (0.5, {})


class Spent(dict):
    """A request that can be read once."""

    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        self.left = None

    def get(self, key, default=None):
        if self.left is None:
            self.left = set(self)
        if key in self and key not in self.left:
            raise ValueError(key)
        self.left.discard(key)
        return super().get(key, default)


def test_a_request_that_can_be_read_no_more_does_not_keep_a_failure_from_being_told():
    stream = new(request=Spent(metadata={"a": float("nan")}, temperature=0.5))
    found = check(stream.fail(FAILURE))
    assert found[-1]["response"]["temperature"] == 1.0
    assert found[-1]["response"]["id"] == "resp_1"


def test_an_item_too_deep_for_the_snapshot_does_not_keep_a_failure_from_being_told():
    """What an event holds two levels down is three levels down in the snapshot of the response."""
    stream = new(id_factory=ids())
    out = stream.start()
    nested, depth = None, 0
    with contextlib.suppress(EncodeError):
        while depth < 400:
            out += stream.item({"type": "acme:x", "of": nested})
            nested, depth = [nested], depth + 1
    assert 100 < depth < 400
    found = events(out + stream.fail(FAILURE))
    assert (found[-1]["type"], found[-1]["response"]["output"]) == ("response.failed", [])
    assert stream.state == "failed"


def test_a_failure_after_an_error_that_was_sent_is_told_as_the_policy_has_it():
    stream = new(policy=Policy(codes={Cause.OVERLOADED: "slow_down"}))
    stream.start()
    stream.send({"type": "error", "code": "x", "message": "y", "param": None})
    (failed,) = events(stream.fail(Failure(cause=Cause.OVERLOADED, message="busy")))
    assert failed["response"]["error"] == {"code": "slow_down", "message": "busy"}


@pytest.mark.parametrize(("dialect", "given"), [("openai", {}), ("open-responses", {"status": "completed"})])
def test_an_item_of_ones_own_gets_an_id_and_where_the_dialect_asks_for_one_a_status(dialect, given):
    stream = new(dialect=dialect, id_factory=ids())
    stream.start()
    added, done = events(stream.item("acme:search"))
    assert added["item"] == done["item"] == {"id": "item_1", "type": "acme:search", **given}


# ---- events as they are -------------------------------------------------------------------------------------------


def test_any_form_of_an_event_can_be_sent():
    from openai.types.responses import ResponseTextDeltaEvent as SdkEvent

    plain = {
        "type": "response.output_text.delta",
        "content_index": 0,
        "delta": "b",
        "item_id": "msg_1",
        "logprobs": [],
        "output_index": 0,
    }
    forms = [
        plain,
        decode_event(plain),
        ResponseTextDeltaEvent(content_index=0, delta="b", item_id="msg_1", logprobs=[], output_index=0),
        SdkEvent.model_validate({**plain, "sequence_number": 5}),
        SdkEvent.model_construct(**plain),
    ]
    made = set()
    for form in forms:
        stream = new(id_factory=ids())
        out = stream.start() + stream.message().text("a")
        made.add(stream.send(form))
        found = check(out + b"".join(made) + stream.complete())
        assert found[-1]["response"]["output"][0]["content"][0]["text"] == "ab"
    assert len(made) == 1


def test_steps_and_sent_events_mix():
    stream = new(id_factory=ids())
    out = stream.start()
    message = stream.message()
    out += message.text("a")
    out += stream.send({"type": "response.new_thing", "x": 1})
    out += message.text("b")
    out += stream.send(
        {
            "type": "response.output_text.done",
            "item_id": "msg_1",
            "output_index": 0,
            "content_index": 0,
            "text": "ab",
            "logprobs": [],
        }
    )
    ending = stream.complete()
    assert kinds(ending) == ["content_part.done", "output_item.done", "completed"]
    machine = Lifecycle()
    assert [machine.feed(event) for event in events(out + ending)].count(None) == len(events(out + ending))


def test_what_a_sent_created_announces_is_kept():
    announced = response_snapshot(model="other", id="resp_9", created_at=5, request={"temperature": 0.5})
    announced["made_up"] = [1]
    stream = new()
    out = stream.send(ResponseCreatedEvent(response={**announced, "status": "queued"}))
    assert (stream.id, stream.model, stream.created_at) == ("resp_9", "other", 5)
    response = events(out + stream.fail(FAILURE))[-1]["response"]
    assert response["made_up"] == [1]
    assert response["temperature"] == 0.5
    assert response["id"] == "resp_9"


GOOD = {
    "type": "response.output_text.delta",
    "content_index": 0,
    "delta": "x",
    "item_id": "msg_1",
    "logprobs": [],
    "output_index": 0,
}
SNAPSHOT = response_snapshot(model="m", id="resp_1", created_at=NOW)

WRONG = {
    "a number of its own": (
        {**GOOD, "sequence_number": 9},
        r"\$\.sequence_number.*expected 5.*got 9.*Leave sequence_number out",
    ),
    "null for a number": ({**GOOD, "sequence_number": None}, r"\$\.sequence_number"),
    "another item's id": ({**GOOD, "item_id": "msg_2"}, r"\$\.item_id.*expected msg_1.*got 'msg_2'"),
    "an unknown item": ({**GOOD, "output_index": 7}, r"\$\.output_index.*output_item\.added first.*got 7"),
    "an index that is no integer": ({**GOOD, "content_index": "0"}, r"\$\.content_index.*an integer from 0.*got '0'"),
    "a part that is not open": ({**GOOD, "content_index": 1}, r"content_index 1 is absent"),
    "a snapshot without id": (
        {"type": "response.completed", "response": {"status": "completed"}},
        r"not done|\$\.response\.id",
    ),
    "a second created": ({"type": "response.created", "response": SNAPSHOT}, r"response\.created.*state in_progress"),
    "no type": ({"a": 1}, r"\$\.type"),
    "a type that is no text": ({"type": 3}, r"\$\.type"),
    "an empty type": ({"type": ""}, r"\$\.type"),
    "an item without a type": (
        {"type": "response.output_item.added", "output_index": 1, "item": {}},
        r"\$\.item\.type",
    ),
    "an item without an id": (
        {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message"}},
        r"\$\.item\.id",
    ),
    "an item with the id of another": (
        {"type": "response.output_item.added", "output_index": 1, "item": {"type": "message", "id": "msg_1"}},
        r"\$\.item\.id.*output item 0",
    ),
    "an item that is none": ({"type": "response.output_item.added", "output_index": 1, "item": 5}, r"\$\.item"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_sent_event_that_contradicts_the_stream_is_refused_and_changes_nothing(name):
    event, message = WRONG[name]
    stream = new(id_factory=ids())
    out = stream.start() + stream.message().text("a")
    with pytest.raises(LocalProtocolError, match=message):
        stream.send(event)
    check(out + stream.complete())


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ({"type": "response.completed", "response": {"status": "completed"}}, r"\$\.response\.id"),
        ({"type": "response.completed"}, r"\$\.response \(event"),
        ({"type": "response.completed", "response": {**SNAPSHOT, "id": "resp_2"}}, r"\$\.response\.id.*resp_1.*resp_2"),
        ({"type": "response.completed", "response": SNAPSHOT}, r"\$\.response\.status.*completed.*in_progress"),
    ],
)
def test_a_sent_terminal_event_must_fit(event, message):
    stream = new()
    stream.start()
    with pytest.raises(LocalProtocolError, match=message):
        stream.send(event)
    stream.send({"type": "response.completed", "response": {**SNAPSHOT, "status": "completed"}})
    assert stream.state == "completed"


def test_what_json_cannot_carry_is_refused_with_its_path_and_changes_nothing():
    stream = new(id_factory=ids())
    out = stream.start()
    message = stream.message()
    out += message.text("a")
    with pytest.raises(EncodeError, match=r"\$\.delta"):
        stream.send({**GOOD, "delta": "\ud800"})
    with pytest.raises(EncodeError, match=r"\$\.annotation\.url"):
        message.annotation({"type": "url_citation", "url": b"x"})
    with pytest.raises(EncodeError, match=r"\$\.logprobs\[0\]\.token"):
        message.text("b", logprobs=[{"token": "\ud800"}])
    with pytest.raises(EncodeError, match=r"\$\.item\.name"):
        stream.function_call("\ud800").arguments("{}")
    with pytest.raises(EncodeError, match=r"\$\.item\.phase"):
        message.done(phase=b"x")
    out += message.text("b")
    check(out + stream.complete())


# ---- illegal steps ------------------------------------------------------------------------------------------------

ILLEGAL = {
    "text before start": (lambda stream: stream.message().text("a"), r"state idle.*response\.created"),
    "complete before start": (lambda stream: stream.complete(), r"state idle.*response\.created"),
    "incomplete before start": (lambda stream: stream.incomplete("x"), r"state idle"),
    "in_progress before start": (lambda stream: stream.in_progress(), r"state idle"),
    "start twice": (lambda stream: (stream.start(), stream.start()), r"response\.created, state in_progress"),
    "in_progress twice": (lambda stream: (stream.start(), stream.in_progress()), "state in_progress"),
    "complete twice": (
        lambda stream: (stream.start(), stream.complete(), stream.complete()),
        r"response\.completed, state completed.*after the terminal event",
    ),
    "text after the end": (
        lambda stream: (stream.start(), stream.complete(), stream.message().text("a")),
        r"state completed.*after the terminal event",
    ),
    "sound before start": (lambda stream: stream.audio().sound("AA"), "state idle"),
    "a step that is over": (
        lambda stream: (stream.start(), (s := stream.code_interpreter()).interpreting(), s.code("x")),
        r"code_interpreter_call\.completed",
    ),
    "searching again": (
        lambda stream: (stream.start(), (s := stream.web_search()).searching(), s.searching()),
        r"output item 0 \(web_search_call\): searching.*web_search_call\.completed",
    ),
    "done twice": (lambda stream: (stream.start(), (m := stream.message()).done(), m.done()), r"is done"),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_an_illegal_step_names_event_state_and_remedy(name):
    step, message = ILLEGAL[name]
    with pytest.raises(LocalProtocolError, match=message) as caught:
        step(new())
    assert caught.value.event
    assert caught.value.state
    assert caught.value.fix


WRONG_ARGUMENTS = {
    "model": (lambda: ResponseStream(model=3), r"\$\.model"),
    "no model": (lambda: ResponseStream(model=""), r"\$\.model"),
    "model with half a pair": (lambda: ResponseStream(model="\ud800"), r"\$\.model"),
    "id": (lambda: new(id=5), r"\$\.id"),
    "created_at": (lambda: new(created_at="now"), r"\$\.created_at"),
    "created_at true": (lambda: new(created_at=True), r"\$\.created_at"),
    "request": (lambda: new(request=[1]), r"\$\.request"),
    "request.temperature": (lambda: new(request={"temperature": "hot"}), r"\$\.request\.temperature.*a number.*'hot'"),
    "request.tools": (lambda: new(request={"tools": {}}), r"\$\.request\.tools"),
    "request.store": (lambda: new(request={"store": "yes"}), r"\$\.request\.store"),
    "request.max_output_tokens": (lambda: new(request={"max_output_tokens": True}), r"\$\.request\.max_output_tokens"),
    "policy": (lambda: new(policy="default"), r"\$\.policy"),
    "starting_after": (lambda: new(starting_after="3"), r"\$\.starting_after"),
    "output": (lambda: new(starting_after=3, output=[{}]), r"\$\.output"),
    "id_factory": (lambda: new(id=None, id_factory=lambda prefix: None), r"\$\.id"),
    "clock": (lambda: new(clock=5), r"\$\.clock"),
    "text": (lambda: started().message().text(b"x"), r"\$\.text.*a str.*Decode bytes"),
    "text none": (lambda: started().message().text(None), r"\$\.text"),
    "text later": (lambda: (m := started().message(), m.text("a"), m.text("b"), m.text(5)), r"\$\.text"),
    "arguments": (lambda: started().function_call("f").arguments({"a": 1}), r"\$\.arguments"),
    "arguments later": (
        lambda: (c := started().function_call("f"), c.arguments("a"), c.arguments(1)),
        r"\$\.arguments",
    ),
    "name": (lambda: started().function_call(None), r"\$\.name"),
    "call_id": (lambda: started().function_call("f", call_id=3), r"\$\.call_id"),
    "reason": (lambda: started().incomplete(None), r"\$\.reason"),
    "reason with half a pair": (lambda: started().incomplete("\ud800"), r"\$\.reason"),
    "failure": (lambda: started().fail(ValueError("x")), r"\$\.failure"),
    "item": (lambda: started().item({"id": "x"}), r"\$\.item\.type"),
    "item none": (lambda: started().item(None), r"\$\.item\.type"),
    "operation": (lambda: started().apply_patch_call("x"), r"\$\.operation"),
    "part_events": (lambda: started().reasoning(part_events="x"), r"\$\.part_events"),
    "mcp error": (lambda: started().mcp_call("t", "s").failed("no"), r"\$\.error"),
    "the same id": (lambda: (s := started(), s.message(id="a").open(), s.message(id="a").open()), r"\$\.item\.id"),
    "the same call": (
        lambda: (s := started(), [s.function_call("f", call_id="call_1").open() for _ in "ab"]),
        r"\$\.item\.call_id",
    ),
    "another id when done": (lambda: started().message(id="a").done(id="b"), r"\$\.item\.id"),
    "sound": (lambda: started().audio().sound(b"x"), r"\$\.data"),
    "output text": (lambda: started().shell_call_output("call_1").output(3), r"\$\.stdout"),
}


def started(**given):
    stream = new(**given)
    stream.start()
    return stream


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
def test_an_argument_of_the_wrong_kind_is_named(name):
    step, message = WRONG_ARGUMENTS[name]
    with pytest.raises(LocalProtocolError, match=message) as caught:
        step()
    assert caught.value.expected
    assert caught.value.got


def test_a_refused_step_sends_nothing_and_counts_nothing():
    stream = started()
    out = new().start()
    message = stream.message()
    out += message.text("a")
    for wrong in (5, None, b"x"):
        with pytest.raises(LocalProtocolError):
            message.text(wrong)
        with pytest.raises(LocalProtocolError):
            stream.start()
    out += message.text("b") + stream.complete()
    assert check(out)[-1]["response"]["output"][0]["content"][0]["text"] == "ab"


# ---- time and memory ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", ["token ", "é", "\u4e00\u4e8c"])
def test_an_open_text_costs_little_more_than_its_characters(piece):
    """DESIGN: 4 bytes an ASCII character and 1 MiB before the closing call, for 100,000 deltas."""
    count = 100_000
    gc.collect()
    tracemalloc.start()
    try:
        stream = new()
        stream.start()
        text = stream.message().text
        for number in range(count):
            text(piece + str(number % 10))  # a string of its own, as an engine makes it
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    bound = 4 * count * (len(piece) + 1) + 2**20
    assert held < bound
    assert peak < bound
    whole = "".join(piece + str(number) for number in range(10)) * (count // 10)
    assert events(stream.complete())[-1]["response"]["output"][0]["content"][0]["text"] == whole


def test_arguments_and_summaries_are_kept_as_tightly():
    for make, step, how in (
        (lambda s: s.function_call("f"), "arguments", {}),
        (lambda s: s.reasoning(), "summary_text", {}),
        (lambda s: s.message(), "text", {"obfuscation": random.Random(1)}),
    ):
        tracemalloc.start()
        try:
            stream = new(**how)
            stream.start()
            say = getattr(make(stream), step)
            count = 30_000 if not how else 20_000
            for number in range(count):
                say(f"token {number}")
            held = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert held < 2 * count * len(f"token {count}") + 2**18


def test_a_delta_costs_the_same_late_in_the_stream():
    """Counted in calls of Python functions, not in seconds: each delta is one or two."""
    import sys

    def calls(deltas):
        stream = new()
        stream.start()
        text = stream.message().text
        text("a")
        number = 0

        def count(frame, event, argument):
            nonlocal number
            number += event == "call"

        sys.setprofile(count)
        try:
            for _ in range(deltas):
                text("token ")
        finally:
            sys.setprofile(None)
        return number

    assert calls(20_000) / 20_000 <= calls(2_000) / 2_000 * 1.01
    assert calls(2_000) < 2_000 * 2.2


def test_a_stream_that_is_dropped_goes_at_once():
    """No reference cycle keeps the text until the collector comes by."""
    gc.collect()
    gc.disable()
    try:
        stream = new()
        stream.start()
        message = stream.message()
        message.text("a")
        message.text("b")
        call = stream.function_call("f")
        call.arguments("{")
        call.arguments("}")
        stream.complete()
        gone = weakref.ref(message)
        del message, call, stream
        assert gone() is None
        assert not [one for one in gc.get_objects() if type(one) in {Writer, ResponseStream}]
    finally:
        gc.enable()


def test_the_sdk_types_and_ours_name_the_same_item_types():
    sdk = pytest.importorskip("openai.types.responses")
    union = get_args(get_args(sdk.ResponseOutputItem)[0])
    names = {get_args(model.model_fields["type"].annotation)[0] for model in union}
    assert names == set(ITEMS)


def test_an_item_of_a_type_nobody_knows_is_named_and_an_extension_or_what_is_newer_is_not():
    stream = ResponseStream(model="m")
    stream.start()
    with pytest.raises(LocalProtocolError, match=r"\$\.item\.type.*function_call.*got 'functon_call'.*UnknownItem"):
        stream.item({"type": "functon_call", "call_id": "c", "name": "n", "arguments": "{}"})
    assert b'"type":"acme:search"' in stream.item({"type": "acme:search", "id": "as_1"})
    assert b'"type":"of_tomorrow"' in stream.item(items.UnknownItem(type="of_tomorrow", id="ot_1"))
    assert stream.complete().count(b"of_tomorrow") == 1


def test_an_item_without_a_status_goes_through_its_steps_when_the_response_is_cut():
    stream = new()
    stream.start()
    stream.mcp_list_tools("s").open()
    types = [event["type"] for event in events(stream.incomplete("max_output_tokens"))]
    assert types == ["response.mcp_list_tools.completed", "response.output_item.done", "response.incomplete"]


def test_deltas_that_came_are_summed_up_whatever_the_item_is():
    stream = new()
    stream.start()
    operation = {"type": "delete_file", "path": "p"}
    item = {"id": "apc_1", "type": "apply_patch_call", "status": "in_progress", "call_id": "c", "operation": operation}
    stream.send({"type": "response.output_item.added", "output_index": 0, "item": item})
    kind = "response.apply_patch_call_operation_diff.delta"
    stream.send({"type": kind, "output_index": 0, "item_id": "apc_1", "delta": "+x"})
    done = events(stream.complete())[0]
    assert (done["type"], done["diff"]) == ("response.apply_patch_call_operation_diff.done", "+x")


# ---- what is refused loses nothing --------------------------------------------------------------------------------


def boom(*arguments):
    raise RuntimeError("boom")


REFUSED = {
    "logprobs that are none": lambda stream: stream.message().text("a", logprobs=5),
    "logprobs of another shape": lambda stream: stream.message().text("a", logprobs=[{"token": "a"}]),
    "an annotation that is none": lambda stream: stream.message().annotation(5),
    "an annotation without a shape": lambda stream: stream.message().annotation({"type": "url_citation"}),
    "a role nobody has": lambda stream: stream.message(role="banana").text("x"),
    "a message made something else": lambda stream: stream.message(type="reasoning").text("x"),
    "a status nobody has": lambda stream: stream.function_call("f").done(status="banana"),
    "half an action": lambda stream: stream.web_search().done(action=5),
    "a reason nobody has": lambda stream: stream.incomplete("banana"),
    "an exit code that is text": lambda stream: stream.shell_call_output("call_1").exited("0"),
    "a timeout that is text": lambda stream: stream.shell_call(timeout_ms="x").command("ls"),
    "an operation without a path": lambda stream: stream.apply_patch_call({"type": "create_file"}).diff("x"),
    "an item that was added as another": lambda stream: stream.item(
        {"type": "message", "role": "assistant", "content": []}, added={"type": "reasoning"}
    ),
    "an annotation event without one": lambda stream: stream.send(
        {"type": "response.content_part.added", "output_index": 9, "item_id": "m", "content_index": 0, "part": {}}
    ),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_a_step_that_is_refused_says_where_and_loses_no_frame(refused):
    stream = new(id_factory=ids())
    out = stream.start()
    out += stream.message().text("before")
    with pytest.raises((LocalProtocolError, EncodeError)) as caught:
        refused(stream)
    assert "$." in str(caught.value) or "may not come here" in str(caught.value), caught.value
    out += stream.fail(FAILURE)
    check(out)  # numbered from 0 without a gap, legal, strict


def test_frames_made_before_a_callers_clock_raises_go_out_before_the_next():
    stream = new(clock=boom, created_at=NOW)
    out = stream.start() + stream.message().text("x")
    with pytest.raises(RuntimeError, match="boom"):
        stream.complete()
    check(out + stream.fail(FAILURE))


def test_frames_that_count_are_owed_even_to_the_quick_path():
    stream = new(obfuscation=None)
    out = stream.start()
    first = stream.message()
    out += first.text("a") + first.text("b")
    with pytest.raises(LocalProtocolError):
        first.annotation(5)
    check(out + first.text("c") + stream.complete())


def test_what_happens_to_the_request_afterwards_does_not_change_the_response():
    request = {"metadata": {"a": "1"}, "tools": [{"type": "function", "name": "f", "parameters": {"x": [1]}}]}
    stream = new(request=request)
    out = stream.start()
    request["metadata"]["a"] = "2"
    request["tools"][0]["parameters"]["x"].append(2)
    found = events(out + stream.complete())
    assert found[0]["response"]["tools"] == found[-1]["response"]["tools"]
    assert found[-1]["response"]["metadata"] == {"a": "1"}


def test_an_item_that_a_continued_stream_only_finishes_is_in_its_output():
    stream = new(starting_after=5)
    item = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": []}
    stream.send({"type": "response.output_item.done", "output_index": 0, "item": item})
    assert events(stream.complete())[-1]["response"]["output"] == [item]
    with pytest.raises(LocalProtocolError, match=r"starting_after.*got -5"):
        new(starting_after=-5)


def test_true_is_no_sequence_number():
    with pytest.raises(LocalProtocolError, match=r"\$\.sequence_number"):
        new().send({"type": "response.created", "response": SNAPSHOT, "sequence_number": False})


# ---- what the caller gives, and what is said where it is wrong ------------------------------------------------------

STEPS = {
    "message": {},
    "reasoning": {},
    "function_call": {"name": "f", "call_id": "call_x"},
    "custom_tool_call": {"name": "f", "call_id": "call_x"},
    "web_search": {},
    "file_search": {},
    "code_interpreter": {"container_id": "cntr_x"},
    "image_generation": {},
    "mcp_list_tools": {"server_label": "s"},
    "mcp_call": {"name": "f", "server_label": "s"},
    "shell_call": {"call_id": "call_x"},
    "shell_call_output": {"call_id": "call_x"},
    "apply_patch_call": {"operation": {"type": "delete_file", "path": "p"}, "call_id": "call_x"},
    "compaction": {"encrypted_content": "x"},
}


@pytest.mark.parametrize("name", STEPS)
def test_an_item_has_the_ids_the_caller_gave_it_and_others_from_the_factory(name):
    given = STEPS[name]
    item = getattr(new(id_factory=ids()), name)(id="mine", **given)
    assert item.id == item._fields["id"] == "mine"
    assert {key: item._fields[key] for key in given if key in {"call_id", "container_id"}} == {
        key: value for key, value in given.items() if key in {"call_id", "container_id"}
    }
    made = getattr(new(id_factory=ids()), name)(**given)
    assert made.id == f"{ITEMS[made._fields['type']].prefix}_1"


@pytest.mark.parametrize("name", STEPS)
def test_an_item_starts_with_keys_of_its_schema_alone(name):
    """A key misspelt would pass as an extension, and leave a required one out."""
    fields = getattr(new(), name)(**STEPS[name])._fields
    (shape,) = tables.FIELDS["ResponseOutputItemAddedEvent"]["item"][2][fields["type"]][1].split("|")
    assert set(fields) <= set(tables.FIELDS[shape])
    if "action" in fields and name == "shell_call":
        assert list(fields["action"]) == ["commands", "max_output_length", "timeout_ms"]


def test_all_that_overlaps_is_closed_and_nothing_of_it_is_lost():
    stream = new(overlap=True, id_factory=ids())
    out = stream.start()
    for text in ("a", "b", "c"):
        out += stream.message().text(text)
    found = check(out + stream.complete())
    closed = [event["output_index"] for event in found if event["type"] == "response.output_item.done"]
    assert closed == [0, 1, 2]


def test_ids_that_are_left_out_come_from_the_factory():
    stream = new(id_factory=ids())
    assert stream.code_interpreter()._fields["container_id"] == "cntr_1"
    assert stream.shell_call()._fields["call_id"] == "call_1"
    started = new()
    started.start()
    (added, done) = events(started.item({"type": "message", "id": "mine", "role": "assistant", "content": []}))
    assert added["item"]["id"] == done["item"]["id"] == "mine"


def test_an_id_that_the_caller_gave_is_not_asked_of_the_factory():
    stream = new(id_factory=boom)
    stream.start()
    (added, _) = events(stream.item({"type": "message", "id": "mine", "role": "assistant", "content": []}))
    assert added["item"]["id"] == "mine"


REFUSED = {
    "a model that is none": lambda: new(model=1),
    "an empty model": lambda: new(model=""),
    "a model with half a character": lambda: new(model="\ud800"),
    "an id with half a character": lambda: new(id="\ud800"),
    "an id that is none": lambda: new(id=1),
    "a time that is none": lambda: new(created_at="now"),
    "a policy that is none": lambda: new(policy="codex"),
    "a number below 0": lambda: new(starting_after=-1),
    "a number that is none": lambda: new(starting_after="1"),
    "a factory that is none": lambda: new(id_factory=1),
    "a clock that is none": lambda: new(clock=1),
    "a factory that gives a number": lambda: new(id_factory=lambda _: 7).message(),
    "a factory that gives nothing": lambda: new(id_factory=lambda _: "").message(),
    "a reason that is none": lambda: new().incomplete(1),
    "a reason with half a character": lambda: new().incomplete("\ud800"),
    "a failure that is none": lambda: new().fail("broken"),
    "an event without a type": lambda: new().send({"delta": "x"}),
    "an event with a number for a type": lambda: new().send({"type": 1}),
    "an event with another number": lambda: new().send({"type": "keepalive", "sequence_number": 5}),
    "an id of an item that is none": lambda: new().message(id=1),
    "a call id that is none": lambda: new().shell_call(call_id=1),
    "part events that are none": lambda: new().reasoning(part_events="x"),
    "a function without a name": lambda: new().function_call(None),
    "a tool without a name": lambda: new().custom_tool_call(None),
    "a tool list without a server": lambda: new().mcp_list_tools(None),
    "a call without a tool": lambda: new().mcp_call(None, "s"),
    "a call without a server": lambda: new().mcp_call("f", None),
    "a patch without an operation": lambda: new().apply_patch_call(None),
    "an item that is none": lambda: new().item([1]),
    "an item without a type": lambda: new().item({"id": "x"}),
    "an item with a number for a type": lambda: new().item({"type": 5}),
    "an item of no known type": lambda: new().item({"type": "new_call"}),
}
REFUSALS = Path(__file__).with_name("refusals.json")


def refusal(name):
    with pytest.raises(LocalProtocolError) as caught:
        REFUSED[name]()
    # The id that a message suggests is random.
    error = caught.value
    return {key: getattr(error, key) for key in error._fields if key != "fix"} | {"fix": without_id(error.fix)}


def without_id(text):
    return text and re.sub(r"(msg_)\w+", r"\1...", text)


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_refused_argument_is_told_changes_by_decision_only(name):
    """Choice: as for the violations of the lifecycle; `python tests/test_stream.py` writes the file anew."""
    assert refusal(name) == json.loads(REFUSALS.read_text(encoding="utf-8"))[name]


if __name__ == "__main__":
    REFUSALS.write_text(json.dumps({name: refusal(name) for name in REFUSED}, indent=1) + "\n", encoding="utf-8")
