"""The schema sets: valid, frozen, in wire order, and true to what servers send."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timezone

import jsonschema
import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import ROOT, shared_path
from respevents import schemas
from respevents._canonical import ENDS
from respevents.testing import strategies

PROFILES = ("strict", "wire")
# Released sets never change: a new digest here is a new set, not an edit.
RELEASED = {
    ("openai-2025-03", "strict"): "dffcf5dc20835445847ffdbe0e974628739c6ee76b2e1e220b3b7d18f898a284",
    ("openai-2025-03", "wire"): "7ff311e0340a2c2ce41aa98a1ec8677dd0ce747415a401f200900b64a473cbf7",
    ("openai-2025-06", "strict"): "c2b84adb8958c0c1ff47c966bd5fa1cb20df11c6de116c9bb1f4873782cb68e8",
    ("openai-2025-06", "wire"): "4ec9ef9dbe73467cd2ba67ed8254ae46bf67d4a292ff27b357dd20c1afb0ef29",
    ("openai-2025-09", "strict"): "45a4f5c83046ccfe0bc17a1ad35d3364b0124964c3621092832f6a31d9bf5e85",
    ("openai-2025-09", "wire"): "4774d2358ed84af693a9a88e2c47e7e4d62eafd0d3523774f10748b36afe9f1c",
    ("open-responses-2026-04", "strict"): "c24eeef0b88f41969c30138fd3634d697b5268b9580d8c6bc3a374884459013e",
    ("open-responses-2026-04", "wire"): "48bb4840750cbb8fac8315258fed40509f26abc70ef93bd1d9e986615900dc69",
    ("openai-2026-05", "strict"): "8ca7a1323b2cbc6762d57be1ce807281d14d313bab69bc5c560970d2a36f7c6b",
    ("openai-2026-05", "wire"): "7e161651d04ea48123b2a05a2ec6bce0d4a547a545cb78543974ec75e6a4728e",
    ("openai-2026-11", "strict"): "63cc4aac6fb75fbee02160837794613f136c36a714181945197562dcafc0fac6",
    ("openai-2026-11", "wire"): "073f4380596c51efc5d50517b6a670c7d866093b84fa8ed07ec6fa3d74b446a2",
}
EVENT_TYPES = sorted(event["type"] for event in schemas.manifest()["events"])
RECENT = datetime(2026, 1, 13, tzinfo=timezone.utc).timestamp()


def validators(profile):
    bundle = schemas.load(profile=profile)
    return {
        event["type"]: jsonschema_rs.validator_for({"$ref": f"#/$defs/{event['definition']}", "$defs": bundle["$defs"]})
        for event in schemas.manifest()["events"]
    }


def captured(producer="openai", fidelities=("raw", "reframed", "reserialised")):
    """(file, events) of whole captured streams."""
    corpus = shared_path("corpus")
    for line in (corpus / "index.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        if row["captured_or_handwritten"] != "captured" or row["producer"] != producer:
            continue
        if row["fidelity"] in fidelities:
            data = [
                one.removeprefix(b"data:").strip()
                for one in (corpus / row["file"]).read_bytes().replace(b"\r\n", b"\n").split(b"\n")
                if one.startswith(b"data:") and b"[DONE]" not in one
            ]
            yield row["file"], [json.loads(one) for one in data if one]


@pytest.mark.parametrize("version", schemas.VERSIONS)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_bundle_is_valid_against_the_metaschema(version, profile):
    jsonschema.Draft202012Validator.check_schema(schemas.load(version, profile))


@pytest.mark.parametrize("version", schemas.VERSIONS)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_released_set_is_never_edited(version, profile):
    content = schemas.path(version, f"{profile}.json").read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    assert schemas.manifest(version)["profiles"][profile]["sha256"] == digest
    assert RELEASED[version, profile] == digest


def test_every_set_in_the_folder_is_registered_and_pinned():
    folders = {one.name for one in (ROOT / "schemas").iterdir() if one.is_dir()}
    assert folders == set(schemas.VERSIONS) == {version for version, _ in RELEASED}


def test_the_set_has_every_event_of_the_source_and_the_observed_ones():
    events = schemas.manifest()["events"]
    assert sum(event["in_source"] for event in events) == 59
    assert {event["type"] for event in events if not event["in_source"]} == {
        "keepalive",
        "response.apply_patch_call_operation_diff.delta",
        "response.apply_patch_call_operation_diff.done",
        "response.reasoning_part.added",
        "response.reasoning_part.done",
        "response.rate_limits.updated",
    }


def test_every_overlay_edit_names_its_evidence():
    edits = schemas.manifest()["overlay"]["edits"]
    assert len(edits) > 50
    assert all(len(edit["evidence"]) > 10 for edit in edits)


@pytest.mark.parametrize("profile", PROFILES)
def test_no_prose_of_the_source_is_carried_over(profile):
    text = json.dumps(schemas.load(profile=profile))
    assert '"description":' not in text.replace('"description": {', "")
    assert '"title":' not in text.replace('"title": {', "")


@pytest.mark.parametrize("profile", PROFILES)
def test_definition_names_are_stable_words_without_numbers_or_module_paths(profile):
    for name in schemas.load(profile=profile)["$defs"]:
        assert name.isidentifier()
        assert "__" not in name
        assert not name[-1].isdigit()


@pytest.mark.parametrize("profile", PROFILES)
def test_properties_stand_in_wire_order(profile):
    for name, definition in schemas.load(profile=profile)["$defs"].items():
        keys = list(definition["properties"])
        order = definition.get("x-order", "object")
        head, tail = ([key for key in part if key in keys] for part in ENDS[order])
        middle = keys[len(head) : len(keys) - len(tail)]
        assert keys == [*head, *middle, *tail], name
        assert middle == sorted(middle), name


def test_strict_asks_for_at_least_what_wire_asks_for():
    strict, wire = schemas.load(profile="strict")["$defs"], schemas.load(profile="wire")["$defs"]
    assert set(strict) <= set(wire)
    for name, definition in strict.items():
        assert set(wire[name]["required"]) <= set(definition["required"]), name
        assert set(definition["properties"]) <= set(wire[name]["properties"]), name


def test_strict_requires_what_every_raw_capture_since_2026_carries():
    facts = json.loads(shared_path("wire", "openai_wire_2026.json").read_bytes())
    defs = schemas.load(profile="strict")["$defs"]
    names = {f"event:{event['type']}": event["definition"] for event in schemas.manifest()["events"]}
    names |= {"Response": "Response", "Response.usage": "ResponseUsage", "Response.reasoning": "Reasoning"}
    checked = 0
    for shape, name in names.items():
        fact = facts.get(shape)
        if fact is None:
            continue
        always = {key for key, count in fact["presence"].items() if count["in"] == fact["seen"]}
        # Padding is on by OpenAI's choice of transport, not part of what an event is.
        assert always - {"obfuscation"} <= set(defs[name]["required"]), shape
        checked += 1
    assert checked > 30


STRICT, WIRE = validators("strict"), validators("wire")


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_what_strict_accepts_wire_accepts(event_type):
    @settings(max_examples=25)
    @given(strategies.events(event_type))
    def check(event):
        STRICT[event_type].validate(event)
        WIRE[event_type].validate(event)

    check()


@settings(max_examples=150)
@given(st.data())
def test_what_strict_accepts_with_a_key_changed_wire_accepts_too(data):
    event = data.draw(strategies.events(data.draw(st.sampled_from(EVENT_TYPES))))
    place = event
    while True:
        key = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    if data.draw(st.booleans()):
        place[key] = data.draw(st.sampled_from([None, 1, 1.5, "x", "completed", [], {}, True]))
    else:
        del place[key]
    kind = event.get("type")
    if isinstance(kind, str) and kind in STRICT and STRICT[kind].is_valid(event):
        WIRE[kind].validate(event)


def test_wire_accepts_the_whole_captured_streams_of_openai():
    total, refused = 0, []
    for name, events in captured():
        total += 1
        for event in events:
            validator = WIRE.get(event.get("type"))
            if validator is None or not validator.is_valid(event):
                refused.append((name, event.get("type")))
                break
    assert total > 400
    # Shortened fixtures of one test suite are the exceptions.
    assert len(refused) <= total // 100, refused


def test_wire_refuses_planted_faults():
    event = {
        "type": "response.output_text.delta",
        "content_index": 0,
        "delta": "x",
        "item_id": "msg_1",
        "logprobs": [],
        "output_index": 0,
        "sequence_number": 4,
    }
    validator = WIRE["response.output_text.delta"]
    validator.validate(event)
    for change in ({"delta": None}, {"output_index": "0"}, {"logprobs": {}}, {"item_id": 1}):
        assert not validator.is_valid(event | change)
    del event["delta"]
    assert not validator.is_valid(event)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_error_event_takes_its_three_shapes_and_no_empty_one(profile):
    validator = validators(profile)["error"]
    nested = {"type": "server_error", "code": "server_error", "message": "m", "param": None}
    flat = {"type": "error", "code": "server_error", "message": "m", "param": None, "sequence_number": 2}
    for event in (
        flat,
        {"type": "error", "error": nested, "sequence_number": 2},
        {**flat, "error": nested},
    ):
        validator.validate(event)
    assert not validator.is_valid({"type": "error", "sequence_number": 2})


def test_any_failure_code_is_valid_in_both_profiles():
    for profile in PROFILES:
        code = schemas.load(profile=profile)["$defs"]["ResponseError"]["properties"]["code"]
        assert code["type"] == "string"
        assert "context_length_exceeded" not in code["x-known"]


def test_diff_of_a_set_with_itself_is_empty_and_names_what_changed_otherwise():
    strict, wire = schemas.load(profile="strict"), schemas.load(profile="wire")
    assert schemas.diff(strict, strict) == []
    changes = schemas.diff(wire, strict)
    assert ("required", "ResponseTextDeltaEvent.sequence_number", "tighten") in changes
    assert ("field removed", "ResponseFunctionCallArgumentsDoneEvent.name", "neutral") in changes
    assert ("optional", "ResponseTextDeltaEvent.sequence_number", "loosen") in schemas.diff(strict, wire)


def test_an_unknown_set_profile_or_event_is_named_in_the_error():
    with pytest.raises(ValueError, match="unknown schema set 'openai-1999'"):
        schemas.load("openai-1999")
    with pytest.raises(ValueError, match="unknown profile"):
        schemas.load(profile="loose")
    with pytest.raises(ValueError, match="no event 'nope'"):
        schemas.definition("nope")


def test_a_definition_stands_alone():
    schema = schemas.definition("response.output_text.delta")
    assert not jsonschema_rs.validator_for(schema).is_valid({"type": "response.output_text.delta"})
