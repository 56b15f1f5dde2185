"""`respevents schema`: what it prints of the sets, and the files it makes for other tools."""

from __future__ import annotations

import json
import subprocess
import sys

import jsonschema
import jsonschema_rs
import pytest
import referencing

from respevents import decode_event, encode_frame, schemas
from respevents._schema_example import example
from respevents._schema_export import event_schema, openapi, reachable
from respevents._schema_show import describe, lines
from respevents.cli import main

PROFILES = ("strict", "wire")
NEWEST_EVENTS = [event["type"] for event in schemas.manifest()["events"]]


def printed(capsys, *words):
    code = main(["schema", *map(str, words)])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def as_json(capsys, *words):
    return json.loads(printed(capsys, *words))


def validator(schema):
    return jsonschema_rs.validator_for(schema)


def references(value):
    if isinstance(value, dict):
        yield from (one for key, one in value.items() if key == "$ref" and isinstance(one, str))
        for one in value.values():
            yield from references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)


# ---- list, events


def test_list_has_every_set_with_what_it_was_cut_from(capsys):
    rows = as_json(capsys, "list", "--format", "json")
    assert [row["set"] for row in rows] == list(schemas.VERSIONS)
    newest = rows[-1]
    assert newest["cut from"] == f"openai {schemas.manifest()['source']['version']}"
    text = printed(capsys, "list").splitlines()
    assert len(text) == 1 + len(rows)


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_events_has_every_event_of_a_set_with_since_and_until(capsys, version):
    rows = as_json(capsys, "events", "--set", version, "--format", "json")
    assert [row["type"] for row in rows] == [event["type"] for event in schemas.manifest(version)["events"]]
    dialect = schemas.manifest(version)["dialect"]
    line = [one for one in schemas.VERSIONS if schemas.manifest(one)["dialect"] == dialect]
    for row in rows:
        having = [one for one in line if row["type"] in {event["type"] for event in schemas.manifest(one)["events"]}]
        assert row["since"] == having[0]
        assert row["until"] == (None if having[-1] == line[-1] else having[-1])
    assert len(printed(capsys, "events", "--set", version).splitlines()) == 1 + len(rows)


def test_an_event_that_was_renamed_ends_in_the_set_before(capsys):
    rows = {row["type"]: row for row in as_json(capsys, "events", "--set", "openai-2025-03", "--format", "json")}
    assert rows["response.code_interpreter_call.code.delta"]["until"] == "openai-2025-03"
    rows = {row["type"]: row for row in as_json(capsys, "events", "--format", "json")}
    assert rows["response.code_interpreter_call_code.delta"]["since"] == "openai-2025-06"


# ---- examples


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_the_example_of_an_event_is_valid_and_always_the_same(version, profile):
    bundle = schemas.load(version, profile)
    whole = validator(bundle)
    for event in schemas.manifest(version)["events"]:
        made = example(event["type"], version, profile)
        assert made["type"] == event["type"]
        whole.validate(made)
        assert made == example(event["type"], version, profile)


@pytest.mark.parametrize("event_type", NEWEST_EVENTS)
def test_the_example_is_one_frame_in_canonical_bytes(event_type):
    frame = encode_frame(example(event_type))
    name, data, *rest = frame.decode().split("\n")
    assert (name, rest) == (f"event: {event_type}", ["", ""])
    assert encode_frame(decode_event(data.removeprefix("data: ").encode())) == frame


def test_the_example_of_an_ending_says_how_it_ended():
    assert example("response.failed")["response"]["error"]["code"] == "server_error"
    assert example("response.incomplete")["response"]["incomplete_details"] == {"reason": "max_output_tokens"}
    assert example("response.completed")["response"]["usage"]["total_tokens"] == 0
    for end in ("failed", "incomplete", "completed", "queued"):
        assert example(f"response.{end}")["response"]["status"] == end
    assert example("response.function_call_arguments.delta")["item_id"] == "fc_1"


# ---- show


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_show_tells_every_field_of_every_event(version, monkeypatch):
    monkeypatch.setattr("respevents._schema_show._installed", lambda kind: None)
    for event in schemas.manifest(version)["events"]:
        found = describe(event["type"], version)
        definition = schemas.load(version)["$defs"][event["definition"]]
        assert [field["name"] for field in found["fields"]] == list(definition["properties"])
        assert [field["name"] for field in found["fields"] if field["required"]["strict"]] == definition["required"]
        text = "\n".join(lines(found))
        assert text.startswith(f"{event['type']}   ({version}, strict)\n")
        assert found["frame"].rstrip("\n") in text


def test_show_reads_as_meant(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("respevents._schema_show._installed", lambda kind: None)
    assert printed(capsys, "show", "keepalive", "--set", "openai-2026-11") == (
        "keepalive   (openai-2026-11, strict)\n"
        "since    openai-2026-05\n"
        "class    respevents.events.ResponseKeepaliveEvent\n"
        "comes    free, in state created or queued or in_progress or continued\n"
        "\n"
        "field            required  type\n"
        "type             yes       'keepalive'\n"
        "sequence_number  to emit   integer\n"
        "\n"
        "Seen on the wire, beyond the SDK\n"
        "  ResponseKeepaliveEvent captured from OpenAI 2026-05-06; it takes a sequence number\n"
        "\n"
        "Accepted by\n"
        "  openai-python 1.66.5, 1.94.0, 2.0.0, 2.45.0, 3.57.0: has none\n"
        "  who does not know it: Clients skip it. (RE303)\n"
        "\n"
        "Example (required fields alone; the values mean nothing)\n"
        "event: keepalive\n"
        'data: {"type":"keepalive","sequence_number":0}\n'
    )


def test_show_says_since_when_a_field_is_there(capsys):
    fields = as_json(capsys, "show", "response.output_text.delta", "--format", "json")["fields"]
    since = {field["name"]: field["since"] for field in fields}
    assert since["delta"] == "openai-2025-03"
    assert since["sequence_number"] == "openai-2025-06"
    fields = as_json(capsys, "show", "response.function_call_arguments.done", "--set", "openai-2025-09", "--format", "json")["fields"]  # fmt: skip
    assert {field["name"]: field["until"] for field in fields}["name"] == "openai-2026-05"


def test_show_names_the_codes_where_an_event_carries_one(capsys):
    found = as_json(capsys, "show", "response.failed", "--format", "json")
    codes = found["accepted"]["codes"]
    assert sum(codes["codex"].values()) == codes["catalogued"] > codes["in_sdk"]
    assert "`respevents codes`" in printed(capsys, "show", "response.failed")
    assert as_json(capsys, "show", "response.created", "--format", "json")["accepted"]["codes"] is None


def test_show_takes_a_definition_too_and_says_where_it_stands(capsys):
    found = as_json(capsys, "show", "ResponseUsage", "--format", "json")
    assert (found["event"], found["in"]) == (None, ["Response.usage"])
    assert "Response.usage" in printed(capsys, "show", "ResponseUsage")
    assert (
        as_json(capsys, "show", "ResponseTextDeltaEvent", "--format", "json")["event"] == "response.output_text.delta"
    )


def test_show_reads_the_installed_sdk_where_there_is_one(capsys):
    installed = as_json(capsys, "show", "response.output_text.delta", "--format", "json")["accepted"]["installed"]
    assert installed["has"] is True
    installed = as_json(capsys, "show", "keepalive", "--format", "json")["accepted"]["installed"]
    assert installed["has"] is False


# ---- export


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_export_gives_the_very_file_of_the_set(capsys, version, profile):
    text = printed(capsys, "export", "--set", version, "--profile", profile)
    assert text == schemas.path(version, f"{profile}.json").read_text("utf-8")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_a_file_for_each_event_stands_alone_and_has_nothing_to_spare(tmp_path, version, profile):
    assert main(["schema", "export", "--set", version, "--profile", profile, "--split", str(tmp_path / "out")]) == 0
    files = {file.stem: json.loads(file.read_text("utf-8")) for file in (tmp_path / "out").iterdir()}
    assert set(files) == {event["type"] for event in schemas.manifest(version)["events"]}
    ids = set()
    for event_type, schema in files.items():
        jsonschema_rs.meta.validate(schema)
        assert {one.removeprefix("#/$defs/") for one in references(schema)} == set(schema["$defs"])
        check = validator(schema)
        made = example(event_type, version, profile)
        check.validate(made)
        assert not check.is_valid({**made, "type": "another"})
        assert not check.is_valid({key: value for key, value in made.items() if key != "type"})
        ids.add(schema["$id"])
    assert len(ids) == len(files)


def test_one_event_is_small_where_it_leads_nowhere(capsys):
    schema = as_json(capsys, "export", "--event", "response.output_text.delta")
    assert set(schema["$defs"]) == {
        "ResponseTextDeltaEvent",
        "ResponseTextDeltaEventLogprob",
        "ResponseTextDeltaEventLogprobTopLogprob",
    }


def test_reachable_ends_where_definitions_hold_themselves():
    defs = {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}, "C": {}}
    assert set(reachable(defs, "B")) == {"A", "B"}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_every_reference_of_the_openapi_document_leads_to_something(version, profile):
    document = openapi(version, profile)
    mapping = document["components"]["schemas"]["ResponseStreamEvent"]["discriminator"]["mapping"]
    for reference in [*references(document), *mapping.values()]:
        place = document
        for key in reference.removeprefix("#/").split("/"):
            place = place[key]
    used = {reference.rpartition("/")[2] for reference in references(document)}
    assert set(document["components"]["schemas"]) - used <= {"ResponseStreamEvent"}


def frame_schema(document):
    """The schema of a frame as a document of its own, for a JSON Schema validator."""
    return {**document, "$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/components/schemas/ServerSentEvent"}  # fmt: skip


@pytest.mark.parametrize("version", schemas.VERSIONS)
def test_the_openapi_document_describes_the_frames_of_every_event(version):
    """OAS 3.2.0: a frame is an object of `event` and `data`, and `data` is text with JSON in it."""
    document = openapi(version)
    content = document["components"]["responses"]["ResponseStream"]["content"]["text/event-stream"]
    assert content == {"itemSchema": {"$ref": "#/components/schemas/ServerSentEvent"}}
    assert document["openapi"] == "3.2.0"
    check = validator(frame_schema(document))
    by_name = {
        branch["properties"]["event"].get("const"): branch["properties"]["data"]
        for branch in document["components"]["schemas"]["ServerSentEvent"]["anyOf"]
        if "event" in branch["properties"]
    }
    for event in schemas.manifest(version)["events"]:
        made = example(event["type"], version)
        check.validate({"event": event["type"], "data": json.dumps(made)})
        data = by_name[event["type"]]
        assert data["contentMediaType"] == "application/json"
        validator({**document, **data["contentSchema"]}).validate(made)
    for wrong in ({"event": "nope", "data": "{}"}, {"data": "{}"}, {"event": "response.created"}, {"event": "response.created", "data": {}}):  # fmt: skip
        assert not check.is_valid(wrong)


def test_the_marker_of_a_dialect_is_a_frame_of_its_own():
    def takes(version, profile):
        return validator(frame_schema(openapi(version, profile))).is_valid({"data": "[DONE]"})

    assert not takes("openai-2026-11", "strict")
    assert takes("open-responses-2026-04", "strict")
    assert takes("openai-2026-11", "wire")


def test_the_wire_document_takes_frames_without_a_name_and_with_an_id():
    check = validator(frame_schema(openapi(profile="wire")))
    assert check.is_valid({"data": "{}", "id": "7", "retry": 10})
    assert not check.is_valid({"data": "{}", "retry": -1})


def test_an_extension_is_what_the_discriminator_falls_back_to():
    union = openapi("open-responses-2026-04")["components"]["schemas"]["ResponseStreamEvent"]
    assert union["discriminator"]["defaultMapping"] == "#/components/schemas/ExtensionEvent"
    assert "defaultMapping" not in openapi()["components"]["schemas"]["ResponseStreamEvent"]["discriminator"]


def test_openapi_of_one_event_and_written_to_a_file(capsys, tmp_path):
    target = tmp_path / "one.json"
    assert main(["schema", "export", "--openapi", "--event", "error", "-o", str(target)]) == 0
    document = json.loads(target.read_text("utf-8"))
    assert set(document["components"]["schemas"]) == {
        "ServerSentEvent",
        "ResponseStreamEvent",
        "ResponseErrorEvent",
        "ResponseErrorEventError",
    }
    assert capsys.readouterr().out == ""
    assert document == openapi(event_type="error")


# ---- diff


def test_diff_prints_the_change_list_of_the_manifest(capsys):
    newest = schemas.manifest()
    assert main(["schema", "diff", newest["parent"], newest["id"], "--format", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    listed = [
        {key: change[key] for key in ("kind", "path", "effect")}
        for change in newest["changes"]
        if "strict" in change["profiles"]
    ]
    assert sorted(told, key=str) == sorted(listed, key=str)


def test_diff_of_the_same_is_0_and_files_are_taken_too(capsys, tmp_path):
    assert main(["schema", "diff", schemas.NEWEST, schemas.NEWEST]) == 0
    assert capsys.readouterr().out == "no difference\n"
    mine = tmp_path / "mine.json"
    bundle = json.loads(json.dumps(schemas.load()))
    bundle["$defs"]["ResponseError"]["required"].remove("message")
    mine.write_text(json.dumps(bundle))
    assert main(["schema", "diff", schemas.NEWEST, str(mine)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "loosen   optional            ResponseError.message",
        "0 tighten, 1 loosen, 0 neutral",
    ]


# ---- what cannot be


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "nope"], "`respevents schema events` lists the events"),
        (["show", "response.code_interpreter_call.code.delta"], "--set openai-2025-03 has it"),
        (["export", "--event", "nope"], "has no event 'nope'"),
        (["export", "--openapi", "--event", "nope"], "has no event 'nope'"),
        (["export", "--split", "{file}/x"], "{file}"),
        (["export", "-o", "{file}/x"], "{file}"),
        (["diff", "nope", schemas.NEWEST], "unknown schema set 'nope'"),
        (["diff", "{file}", schemas.NEWEST], "not JSON"),
        (["diff", schemas.NEWEST, "{json}"], "not a bundle of schemas"),
    ],
)
def test_what_cannot_be_done_is_said_with_code_2(capsys, tmp_path, words, said):
    names = {"file": tmp_path / "file", "json": tmp_path / "json"}
    names["file"].write_text("no JSON")
    names["json"].write_text("[]")
    assert main(["schema", *(word.format(**names) for word in words)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("respevents schema: ")
    assert said.format(**names) in captured.err


# ---- the registry


def test_the_registry_has_both_profiles_of_every_set():
    registry = schemas.registry()
    assert isinstance(registry, referencing.Registry)
    for version in schemas.VERSIONS:
        for profile in PROFILES:
            bundle = schemas.load(version, profile)
            assert registry[bundle["$id"]].contents is bundle


def test_a_schema_of_yours_may_refer_to_a_definition_of_a_set():
    mine = {"type": "array", "items": {"$ref": f"urn:respevents:schema:{schemas.NEWEST}:wire#/$defs/ResponseUsage"}}
    check = jsonschema.Draft202012Validator(mine, registry=schemas.registry())
    usage = example("response.completed")["response"]["usage"]
    assert check.is_valid([usage])
    assert not check.is_valid([{**usage, "total_tokens": "1"}])
    whole = {"$ref": f"urn:respevents:schema:{schemas.NEWEST}:strict"}
    assert jsonschema.Draft202012Validator(whole, registry=schemas.registry()).is_valid(example("error"))


def test_without_the_library_the_registry_names_the_extra_and_the_command_needs_none():
    code = (
        "import sys\n"
        "for name in ('jsonschema', 'jsonschema_rs', 'referencing', 'openai', 'pydantic'): sys.modules[name] = None\n"
        "from respevents import schemas\nfrom respevents.cli import main\n"
        "try: schemas.registry()\nexcept ImportError as error: print(error)\n"
        "print([main(['schema', *words.split()]) for words in ('list', 'show error', 'export --openapi --event error')])\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    assert (
        lines[0]
        == "respevents.schemas.registry() needs referencing, which is not installed: pip install 'respevents[validate]'"
    )
    assert lines[-1] == "[0, 0, 0]"


def test_event_schema_is_what_export_prints(capsys):
    assert as_json(capsys, "export", "--event", "error") == event_schema("error")


def test_a_reader_that_has_read_enough_is_no_error():
    command = [sys.executable, "-m", "respevents.cli", "schema", "export"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.read(1) == b"{"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
