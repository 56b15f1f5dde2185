"""All schema sets: each true to the streams of its time, strict inside wire, and each step told by its change list."""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from datetime import datetime, timezone

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT, shared_path
from respevents import ResponseStream, schemas
from respevents.testing import assert_valid_stream, strategies
from respevents.validate import validate_stream

PROFILES = ("strict", "wire")
OPENAI = [version for version in schemas.VERSIONS if version.startswith("openai-")]
CHILDREN = [version for version in schemas.VERSIONS if schemas.manifest(version)["parent"] is not None]
# Captured streams that wire does not take, and why. All are shortened by the test suites that keep them.
EXCEPTIONS = {
    "openai-2025-03": {
        "vercel-ai/packages__openai__src__responses__openai-responses-language-model.test.ts.13.sse": "no output_index",
        "vercel-ai/packages__openai__src__responses__openai-responses-language-model.test.ts.14.sse": "no output_index",
        "vercel-ai/packages__openai__src__responses__openai-responses-language-model.test.ts.15.sse": "no output_index",
    },
    "openai-2025-06": {
        "openai-codex/unit-test-error_when_error_event-find_string-ids-7291303419-5067023456.0.sse": "no model, output",
    },
    "openai-2025-09": {
        "vercel-ai/openai-phase.1.chunks.0.sse": "snapshots without tools and tool_choice",
        "dotnet-extensions/test__Libraries__Microsoft.Extensions.AI.OpenAI.Tests__OpenAIResponseClientTests.cs.5.sse": "tool_choice: null",
        "openai-codex/unit-test-context_window_error_is_fatal-find_string-ids-47815568361-54672704566.0.sse": "no model, output",
    },
}
# Streams captured in each era; fewer than 10 are shown by the handwritten frames below instead.
COUNTS = {"openai-2025-03": 23, "openai-2025-06": 9, "openai-2025-09": 154, "openai-2026-05": 210, "openai-2026-11": 0}
NEWEST_ANYWAY = 68  # no date, or one that a recorder removed
HANDWRITTEN = ["openai-2025-06", "openai-2026-11", "open-responses-2026-04"]


def validators(version, profile):
    bundle = schemas.load(version, profile)
    return {
        event["type"]: jsonschema_rs.validator_for({"$ref": f"#/$defs/{event['definition']}", "$defs": bundle["$defs"]})
        for event in schemas.manifest(version)["events"]
    }


def month(version):
    return datetime(int(version[-7:-3]), int(version[-2:]), 1, tzinfo=timezone.utc).timestamp()


def captured():
    """(file, events, set of the time or None) of every stream captured from OpenAI, whole or not."""
    corpus = shared_path("corpus")
    for line in (corpus / "index.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["captured_or_handwritten"] != "captured" or row["producer"] != "openai":
            continue
        lines = (corpus / row["file"]).read_bytes().replace(b"\r\n", b"\n").split(b"\n")
        data = [one[5:].strip() for one in lines if one.startswith(b"data:") and b"[DONE]" not in one]
        events = [json.loads(one) for one in data if one]
        dates = [event["response"].get("created_at") for event in events if isinstance(event.get("response"), dict)]
        created = next((date for date in dates if date), 0)
        yield row["file"], events, schemas.at(created) if created >= month(OPENAI[0]) else None


def recorded_files():
    """The files that hold a stream as a recorder kept it, not as the author of a test wrote it down."""
    rows = map(json.loads, (shared_path("corpus") / "index.jsonl").read_text("utf-8").splitlines())
    return {row["file"] for row in rows if row["fidelity"] in {"raw", "reframed", "reserialised"}}


# ---- eras -----------------------------------------------------------------------------------------------------------


def test_wire_takes_the_streams_of_its_era(capsys):
    """Every captured stream counts, shortened ones too; the exceptions are named, and nothing else is refused."""
    checks = {version: validators(version, "wire") for version in OPENAI}
    counts, refused = dict.fromkeys(OPENAI, 0), {version: set() for version in OPENAI}
    whole, kept = recorded_files(), dict.fromkeys(OPENAI, 0)
    undated = 0
    for name, events, version in captured():
        counts[version or schemas.NEWEST] += version is not None
        kept[version or schemas.NEWEST] += version is not None and name in whole
        undated += version is None
        valid = checks[version or schemas.NEWEST]
        if not all(event["type"] in valid and valid[event["type"]].is_valid(event) for event in events):
            refused[version or schemas.NEWEST].add(name)
    with capsys.disabled():
        for version, count in counts.items():
            said = f"{count} streams, {len(refused[version])} refused"
            cut = f"; {kept[version]} as recorded, {len(refused[version] & whole)} refused"
            sys.stdout.write(f"\n{version}: {said}{cut}")
        sys.stdout.write(f"\nwithout a date: {undated} streams")
    assert (counts, undated) == (COUNTS, NEWEST_ANYWAY)
    for version in OPENAI:
        expected = set(EXCEPTIONS.get(version, {}))
        assert refused[version] == expected
        # By share those count that a recorder kept; what a test author cut out of one is held by the list above alone.
        recorded = kept[version]
        assert recorded < 10 or len(refused[version] & whole) <= recorded / 100


def test_eras_with_few_streams_are_shown_by_hand():
    few = {version for version in OPENAI if COUNTS[version] < 10}
    others = {version for version in schemas.VERSIONS if version not in OPENAI}
    assert set(HANDWRITTEN) == few | others


def response(**changes):
    return {
        "id": "resp_1", "object": "response", "created_at": 1751328000, "status": "in_progress", "background": False,
        "completed_at": None, "error": None, "frequency_penalty": 0.0, "incomplete_details": None, "instructions": None,
        "max_output_tokens": None, "max_tool_calls": None, "model": "m", "output": [], "parallel_tool_calls": True,
        "presence_penalty": 0.0, "previous_response_id": None, "prompt_cache_key": None, "prompt_cache_retention": None,
        "reasoning": {"effort": None, "summary": None}, "safety_identifier": None, "service_tier": "default",
        "store": True, "temperature": 1.0, "text": {"format": {"type": "text"}, "verbosity": "medium"},
        "tool_choice": "auto", "tools": [], "top_logprobs": 0, "top_p": 1.0, "truncation": "disabled", "usage": None,
        "user": None, "metadata": {},
    } | changes  # fmt: skip


def usage(**details):
    return {
        "input_tokens": 3,
        "input_tokens_details": {"cached_tokens": 0} | details,
        "output_tokens": 2,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 5,
    }


AT = {"item_id": "msg_1", "output_index": 0}
TEXT = {"type": "output_text", "annotations": [], "logprobs": [], "text": "Hi"}
MESSAGE = {"id": "msg_1", "type": "message", "status": "completed", "content": [TEXT], "role": "assistant"}
REASONING = {"id": "rs_1", "type": "reasoning", "summary": []}
# What every set takes, in both profiles.
COMMON = [
    {"type": "response.created", "response": response()},
    {
        "type": "response.output_item.added",
        "item": MESSAGE | {"status": "in_progress", "content": []},
        "output_index": 0,
    },
    {"type": "response.content_part.added", **AT, "content_index": 0, "part": TEXT | {"text": ""}},
    {"type": "response.output_text.delta", **AT, "content_index": 0, "delta": "Hi", "logprobs": []},
    {"type": "response.output_text.done", **AT, "content_index": 0, "text": "Hi", "logprobs": []},
    {"type": "response.refusal.delta", **AT, "content_index": 0, "delta": "No"},
    {"type": "response.function_call_arguments.done", **AT, "arguments": "{}"},
    {"type": "response.output_item.done", "item": MESSAGE, "output_index": 0},
    {"type": "response.output_item.added", "item": REASONING, "output_index": 1},
    {"type": "error", "error": {"type": "server_error", "code": "x", "message": "m", "param": None}},
]
# What a set has that not all have; and what only its strict refuses.
OWN = {
    "openai-2025-06": [
        {"type": "response.reasoning.delta", **AT, "content_index": 0, "delta": {}},
        {"type": "response.mcp_call.arguments_delta", **AT, "delta": {}},
        {"type": "response.output_text_annotation.added", **AT, "annotation": {}, "annotation_index": 0, "content_index": 0},
        {"type": "response.output_text.annotation.added", **AT, "annotation": {}, "annotation_index": 0, "content_index": 0},
        {"type": "response.completed", "response": response(status="completed", usage=usage())},
        {"type": "error", "code": None, "message": "m", "param": None},
    ],
    "openai-2026-11": [
        {"type": "response.reasoning_text.delta", **AT, "content_index": 0, "delta": "x"},
        {"type": "response.mcp_call_arguments.delta", **AT, "delta": "{"},
        {"type": "response.compaction.compacting", **AT},
        {"type": "keepalive"},
        {"type": "response.completed", "response": response(status="completed", usage=usage(cache_write_tokens=0))},
        {"type": "error", "code": None, "message": "m", "param": None},
    ],
    "open-responses-2026-04": [
        {"type": "response.reasoning.delta", **AT, "content_index": 0, "delta": "x"},
        {"type": "response.reasoning.done", **AT, "content_index": 0, "text": "x"},
        {"type": "response.output_item.added", "item": {"type": "acme:search", "id": "a_1"}, "output_index": 1},
        {"type": "response.output_item.added", "item": None, "output_index": 1},
        {"type": "response.completed", "response": response(status="completed", usage=usage())},
    ],
}  # fmt: skip
# (event type, change, strict takes it, wire takes it)
FAULTS = {
    "openai-2025-06": [
        ("response.output_text.delta", {"sequence_number": None}, False, False),
        ("response.output_text.delta", {"logprobs": ...}, False, True),
        ("response.completed", {"response": response(status="queued")}, True, True),
        ("response.completed", {"response": response(status="done")}, False, False),
        ("error", {"message": ..., "error": ...}, False, False),
    ],
    "openai-2026-11": [
        ("response.completed", {"response": response(status="completed", usage=usage())}, False, True),
        ("response.completed", {"response": response(usage={"input_tokens": "3"})}, False, False),
        ("keepalive", {"sequence_number": "1"}, False, False),
        ("error", {"message": ..., "error": ...}, False, False),
    ],
    "open-responses-2026-04": [
        ("error", {"error": ..., "message": "m", "code": None, "param": None}, False, False),
        ("error", {"error": {"message": "m"}}, False, True),
        ("response.output_item.added", {"item": {"type": "web_search_call", "id": "ws_1"}}, False, True),
        ("response.output_item.added", {"item": {"id": "ws_1"}}, False, False),
        ("response.output_text.delta", {"logprobs": ...}, True, True),
        ("response.completed", {"response": response(instructions=[])}, False, False),
        ("response.completed", {"response": response(top_p=None)}, False, True),
    ],
}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("version", HANDWRITTEN)
def test_a_set_takes_the_frames_of_its_time_and_refuses_planted_faults(version, profile):
    valid = validators(version, profile)
    events = [{**event, "sequence_number": number} for number, event in enumerate(COMMON + OWN[version])]
    if version == "openai-2026-11":
        events[0]["response"] = response(moderation=None)
    for event in events:
        valid[event["type"]].validate(event)
        for key in event.keys() - {"item"} if event.get("item", 0) is None else event.keys():
            if event[key] == {}:  # free-form
                continue
            assert not valid[event["type"]].is_valid({**event, key: 1.5}), (event["type"], key)
    whole = {event["type"]: event for event in events}
    for kind, change, strict, wire in FAULTS[version]:
        broken = {key: value for key, value in (whole[kind] | change).items() if value is not ...}
        assert valid[kind].is_valid(broken) is (strict if profile == "strict" else wire), (kind, change)


def test_events_come_and_go_with_the_sets():
    types = {version: {event["type"] for event in schemas.manifest(version)["events"]} for version in schemas.VERSIONS}
    assert "sequence_number" not in json.dumps(schemas.load("openai-2025-03"))
    assert all("sequence_number" in json.dumps(schemas.load(version)) for version in schemas.VERSIONS[1:])
    assert "response.reasoning_text.delta" not in types["openai-2025-06"] | types["open-responses-2026-04"]
    assert "response.reasoning_text.delta" in types["openai-2025-09"]
    assert "response.custom_tool_call_input.delta" in types["openai-2025-09"] - types["openai-2025-06"]
    assert "response.reasoning.delta" not in types["openai-2025-09"]
    assert len(types["open-responses-2026-04"]) == 24
    tokens = {version: schemas.load(version)["$defs"]["ResponseUsageInputTokensDetails"] for version in OPENAI[2:]}
    assert [("cache_write_tokens" in one["required"]) for one in tokens.values()] == [False, True, True]


# ---- inside one set -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_strict_implies_wire(version):
    wire = validators(version, "wire")
    kinds = sorted(wire)

    @settings(max_examples=150)
    @given(st.data())
    def check(data):
        kind = data.draw(st.sampled_from(kinds))
        wire[kind].validate(data.draw(strategies.events(kind, version=version, profile="strict")))

    check()


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_strict_asks_for_at_least_what_wire_asks_for(version):
    strict, wire = (schemas.load(version, profile)["$defs"] for profile in PROFILES)
    assert set(strict) <= set(wire)
    for name, definition in strict.items():
        assert set(wire[name]["required"]) <= set(definition["required"]), name
        assert set(definition["properties"]) <= set(wire[name]["properties"]), name


@pytest.mark.parametrize("profile", PROFILES)
def test_an_extension_of_open_responses_is_an_event_of_the_bundle(profile):
    valid = jsonschema_rs.validator_for(schemas.load("open-responses-2026-04", profile))
    event = {"type": "acme:trace", "sequence_number": 1, "spans": []}
    assert valid.is_valid(event)
    assert not valid.is_valid(event | {"type": "acme"})
    assert not valid.is_valid(event | {"sequence_number": "1"})
    assert valid.is_valid({"type": "acme:trace"}) is (profile == "wire")


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_the_manifest_pins_the_overlays_it_was_made_from(version):
    overlay = schemas.manifest(version)["overlay"]
    for one in (overlay, *overlay.get("includes", [])):
        assert hashlib.sha256((ROOT / one["file"]).read_bytes()).hexdigest() == one["sha256"]
    assert all(edit["evidence"] for edit in overlay["edits"])


# ---- from set to set ------------------------------------------------------------------------------------------------


def test_versions_stand_by_date_and_the_newest_is_of_openai():
    manifests = [schemas.manifest(version) for version in schemas.VERSIONS]
    assert [one["date"] for one in manifests] == sorted(one["date"] for one in manifests)
    assert [f"{one['origin']}-{one['date']}" for one in manifests] == list(schemas.VERSIONS)
    assert all(one["origin"] == one["dialect"] for one in manifests)  # `schemas.at` reads the dialect off the name
    assert schemas.NEWEST == schemas.VERSIONS[-1]
    assert [one["parent"] for one in manifests] == [
        None,
        *schemas.VERSIONS[:2],
        "openai-2025-09",
        "openai-2025-09",
        "openai-2026-05",
    ]


@pytest.mark.parametrize("version", CHILDREN)
def test_the_change_list_is_the_difference_to_the_parent(version):
    manifest = schemas.manifest(version)
    for profile in PROFILES:
        told = {
            tuple(one[key] for key in ("kind", "path", "effect"))
            for one in manifest["changes"]
            if profile in one["profiles"]
        }
        before, after = (schemas.load(one, profile) for one in (manifest["parent"], version))
        assert told == set(map(tuple, schemas.diff(before, after)))
    assert {one["effect"] for one in manifest["changes"]} <= {"tighten", "loosen", "neutral"}


# ---- how they ship --------------------------------------------------------------------------------------------------


def test_all_sets_take_less_than_half_a_megabyte_of_the_wheel():
    files = list((ROOT / "schemas").rglob("*.json"))
    assert len(files) >= 3 * len(schemas.VERSIONS)
    assert sum(len(zlib.compress(one.read_bytes())) for one in files) < 500_000


# ---- the validator chooses ------------------------------------------------------------------------------------------


def test_the_set_of_a_date_is_the_last_that_had_begun():
    assert schemas.at() == schemas.NEWEST
    for version in OPENAI:
        assert schemas.at(month(version)) == version
        assert schemas.at(month(version) - 1) == (
            OPENAI[OPENAI.index(version) - 1] if version != OPENAI[0] else schemas.NEWEST
        )
    for odd in (0, -1, 1e18, float("inf"), 1767225600000):
        assert schemas.at(odd) == schemas.NEWEST
    assert schemas.at(month("openai-2025-03"), "open-responses") == "open-responses-2026-04"
    with pytest.raises(ValueError, match="no schema set of the dialect 'x'"):
        schemas.at(0, "x")


def stream(created_at, event=None):
    made = ResponseStream(model="m", id="resp_1", created_at=created_at)
    middle = b"" if event is None else made.send(event)
    return made.start() + middle + made.complete()


def test_a_capture_is_held_against_the_set_of_its_date_unless_one_is_given():
    for version in OPENAI:
        assert validate_stream(stream(int(month(version)))).schema == version
        assert validate_stream(stream(int(month(version))), schema="openai-2025-09").schema == "openai-2025-09"
    assert validate_stream(stream(0)).schema == schemas.NEWEST
    assert validate_stream(stream(0), dialect="open-responses").schema == "open-responses-2026-04"
    assert validate_stream(b"").schema == schemas.NEWEST


def test_the_set_of_the_date_decides():
    body = stream(int(month("openai-2025-06")))
    assert validate_stream(body).ok
    cut = body.replace(b'"parallel_tool_calls":true,', b"")
    assert [one.name for one in validate_stream(cut).findings if one.severity == "error"] == ["field-missing"] * 3
    old = stream(int(month("openai-2025-06"))).replace(b'"status":"completed"', b'"status":"expired"')
    assert "field-shape" in [one.name for one in validate_stream(old).findings]


def test_an_event_that_came_after_the_date_is_held_against_the_first_set_that_names_it():
    event = {"type": "response.compaction.compacting", "item_id": "cmp_1", "output_index": 0}
    made = ResponseStream(model="m", id="resp_1", created_at=int(month("openai-2025-09")))
    opening = made.start()
    frame = f"event: {event['type']}\ndata: {json.dumps(event | {'sequence_number': 2})}\n\n".encode()
    assert "unknown-event" not in [one.name for one in validate_stream(opening + frame, fragment=True).findings]
    given = validate_stream(opening + frame, fragment=True, schema="openai-2025-09")
    assert "unknown-event" in [one.name for one in given.findings]
    wrong = frame.replace(b'"output_index": 0', b'"output_index": "0"')
    assert "field-shape" in [one.name for one in validate_stream(opening + wrong, fragment=True).findings]


def test_what_a_later_set_accepts_is_no_fault_at_an_earlier_date():
    """The status `incomplete` of a web search came with SDK 3.9, between two sets."""
    item = {"id": "ws_1", "type": "web_search_call", "status": "incomplete", "action": {"type": "search", "query": "q"}}
    event = {"type": "response.output_item.done", "item": item, "output_index": 0, "sequence_number": 2}
    opening = ResponseStream(model="m", id="resp_1", created_at=int(month("openai-2026-05"))).start()
    body = opening + f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
    shape = [one.name for one in validate_stream(body, fragment=True).findings if one.name == "field-shape"]
    assert shape == []
    named = validate_stream(body, fragment=True, schema="openai-2026-05")
    assert [(one.name, one.path) for one in named.findings if one.name == "field-shape"] == [
        ("field-shape", "$.item.status")
    ]


def test_a_key_that_came_later_is_unknown_to_the_set_that_is_named_and_known_by_date():
    body = stream(int(month("openai-2025-09"))).replace(b'"model":"m",', b'"model":"m","completed_at":null,"odd":1,')

    def unknown(**options):
        found = validate_stream(body, **options).findings
        return {one.path for one in found if one.name == "unknown-field"}

    assert unknown() == unknown(schema=schemas.NEWEST) == {"$.response.odd"}
    assert unknown(schema="openai-2025-09") >= {"$.response.odd", "$.response.completed_at"}
    deep = {
        "id": "msg_1",
        "type": "message",
        "status": "in_progress",
        "content": [],
        "role": "assistant",
        "phase": None,
    }
    event = {"type": "response.output_item.added", "item": deep, "output_index": 0, "sequence_number": 2}
    frame = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
    found = validate_stream(frame, fragment=True, schema="openai-2025-09").findings
    assert [one.path for one in found if one.name == "unknown-field"] == ["$.item.phase"]
    headers = {"type": "error", "error": {"message": "m", "headers": {"a": "b"}, "more": 1}, "sequence_number": 2}
    frame = f"event: error\ndata: {json.dumps(headers)}\n\n".encode()
    found = validate_stream(frame, fragment=True, dialect="open-responses").findings
    assert [one.path for one in found if one.name == "unknown-field"] == ["$.error.more"]


def test_bytes_of_a_test_are_held_against_the_newest_set_and_a_capture_against_that_of_its_date(tmp_path):
    body = stream(int(month("openai-2025-09")))
    (tmp_path / "one.sse").write_bytes(body)
    assert assert_valid_stream(body).schema == assert_valid_stream([body]).schema == schemas.NEWEST
    assert assert_valid_stream(tmp_path / "one.sse").schema == "openai-2025-09"
    assert assert_valid_stream(body, schema="openai-2025-06").schema == "openai-2025-06"
