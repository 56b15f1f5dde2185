"""The validator: true to the captured streams, to the traps of JSON, to dialects and clients, and never lost."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET

import jsonschema
import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import shared_path
from respevents import (
    Cause,
    Failure,
    ResponseStream,
    StreamValidator,
    encode_frame,
    schemas,
    validate_file,
    validate_stream,
)
from respevents.findings import BY_NAME, CLIENTS, LIFECYCLE, RULES
from respevents.testing import assert_valid_stream, strategies

NEW = {"model": "m", "id": "resp_1", "created_at": 1767225600}
USAGE = {"input_tokens": 1, "output_tokens": 2}


def good():
    stream = ResponseStream(**NEW)
    body = stream.start()
    message = stream.message(id="msg_1")
    body += message.text("Hel") + message.text("lo")
    call = stream.function_call("f", id="fc_1", call_id="call_1")
    body += call.arguments('{"a"') + call.arguments(":1}")
    return body + stream.complete(USAGE)


def failing():
    stream = ResponseStream(**NEW)
    return stream.start() + stream.fail(
        Failure(cause=Cause.CONTEXT_LENGTH_EXCEEDED, message="too long: 9 tokens, 8 fit")
    )


def names(report, *severities):
    return [one.name for one in report.findings if not severities or one.severity in severities]


def frame(event):
    return encode_frame(event)


# ---- true streams -------------------------------------------------------------------------------------------------


def index():
    with shared_path("corpus", "index.jsonl").open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_streams_captured_from_openai_have_no_errors():
    faulty, count = {}, 0
    for row in index():
        whole = row["fidelity"] in {"raw", "reframed", "reserialised"}
        if row["producer"] == "openai" and row["captured_or_handwritten"] == "captured" and whole:
            count += 1
            report = validate_stream(shared_path("corpus", row["file"]).read_bytes())
            if not report.ok:
                faulty[row["file"]] = names(report, "error")
    assert count > 400
    assert len(faulty) <= count * 0.01, faulty
    # What is left are fixtures that were shortened by hand.
    assert all(file.startswith("vercel-ai/") for file in faulty), faulty


PRODUCERS = {
    "github-copilot": {"response-id-changed", "item-id-mismatch", "item-id-changed"},
    "lmstudio": set(),
    "azure": {"item-unfinished"},
    "openrouter": set(),
    "deepseek": set(),
    "bedrock": set(),
}
"""Producer -> the errors that are documented of it."""


@pytest.mark.parametrize("producer", PRODUCERS)
def test_other_producers_have_their_documented_faults_and_no_others(producer):
    found = set()
    for row in index():
        if (
            row["producer"] == producer
            and row["captured_or_handwritten"] == "captured"
            and row["fidelity"] != "excerpt"
        ):
            found |= set(names(validate_stream(shared_path("corpus", row["file"]).read_bytes()), "error"))
    assert found <= PRODUCERS[producer]


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("huggingface-responses.js-0.1.0-drop.sse", "usage-zero"),
        ("huggingface-responses.js-0.1.0-midfail.sse", "item-open"),
        ("litellm-1.108.7-chatbridge-reason.sse", "index-missing"),
    ],
)
def test_servers_run_here_have_the_faults_they_were_seen_with(file, expected):
    if expected == "item-open":
        expected = "field-missing"
    assert expected in names(validate_stream(shared_path("corpus", "local-runs", file).read_bytes()))


@settings(max_examples=25)
@given(st.data())
def test_the_chunking_does_not_matter(data):
    body = good().replace(b'"text":"Hello"', b'"text":"Hallo"', 1) + b": x\n\n"
    whole = validate_stream(body)
    assert validate_stream(data.draw(strategies.chunkings(body))) == whole
    assert "text-mismatch" in names(whole)


def test_good_streams_of_ours():
    for body in (good(), failing()):
        assert validate_stream(body, profile="strict", strict=True).findings == ()
        for client in CLIENTS:
            assert validate_stream(body, client=client).ok
    assert assert_valid_stream(good()).events == 15


# ---- single faults ------------------------------------------------------------------------------------------------


def test_an_empty_stream_is_an_error_and_an_empty_fragment_is_none():
    report = validate_stream(b"")
    assert (report.ok, names(report), report.findings[0].frame) == (False, ["empty-stream"], 0)
    assert validate_stream(b"", fragment=True).ok
    assert names(validate_stream(b": ping\n\n")) == ["empty-stream"]
    assert "no-event-stream" in names(validate_stream(b"<html>\n<body>502</body>\n"))


def test_a_stream_that_just_ends():
    cut = good().rpartition(b"event: response.completed")[0]
    report = validate_stream(cut)
    assert names(report) == ["unterminated"]
    assert report.findings[0].frame == report.frames
    assert report.findings[0].offset == len(cut)


TRAPS = {
    b'"zz":NaN,': "not-a-number",
    b'"zz":-Infinity,': "not-a-number",
    b'"zz":1e400,': "number-out-of-range",
    b'"zz":1,"zz":1,': "duplicate-key",
    b'"zz":"\\ud800",': "lone-surrogate",
    b'"zz":"\xc3",': "invalid-utf-8",
    b'"zz":' + b"[" * 5000 + b"]" * 5000 + b",": "too-deep",
    b'"zz":tru,': "not-json",
}


@pytest.mark.parametrize(("text", "name"), TRAPS.items(), ids=TRAPS.values())
def test_a_trap_of_json_is_named_and_checking_goes_on(text, name):
    body = good().replace(b"data: {", b"data: {" + text, 1).replace(b'"text":"Hello"', b'"text":"Hallo"', 1)
    found = names(validate_stream(body))
    assert found[0] == name
    assert "text-mismatch" in found


def test_a_float_is_named_wherever_an_integer_belongs():
    body = (
        good()
        .replace(b'"input_tokens":1', b'"input_tokens":1.0')
        .replace(b'"content_index":0', b'"content_index":0.0', 1)
    )
    report = validate_stream(body.replace(b'"created_at":1767225600', b'"created_at":1767225600.0', 1))
    assert names(report) == ["float-for-integer"] * 3
    assert [one.path for one in report.findings] == [
        "$.response.created_at", "$.content_index", "$.response.usage.input_tokens",
    ]  # fmt: skip


def test_a_missing_field_and_a_wrong_one_have_their_paths():
    body = (
        good()
        .replace(b'"tools":[]', b'"tools":5', 1)
        .replace(b',"logprobs":[],"output_index":0,"sequence_number":4', b',"output_index":"0","sequence_number":4', 1)
    )
    found = {(one.name, one.path) for one in validate_stream(body).findings}
    assert ("field-shape", "$.response.tools") in found
    assert ("field-shape", "$.output_index") in found


def test_both_shapes_of_an_error_are_fine_and_a_bare_one_is_not():
    opening = ResponseStream(**NEW).start()
    flat = {"type": "error", "code": "server_error", "message": "m", "param": None, "sequence_number": 2}
    nested = {"type": "error", "error": {"type": "x", "code": "server_error", "message": "m"}, "sequence_number": 2}
    for event in (flat, nested):
        found = validate_stream(opening + frame(event))
        assert names(found, "error") == ["unterminated", "error-alone"]
    bare = validate_stream(opening + b'data: {"error":{"message":"m"}}\n\n')
    assert {"type-missing", "unterminated"} <= set(names(bare, "error"))


def test_a_continued_stream_and_a_fragment():
    rest = b"".join(part + b"\n\n" for part in good().split(b"\n\n")[5:-1])
    assert validate_stream(rest).ok
    assert validate_stream(b"".join(part + b"\n\n" for part in good().split(b"\n\n")[3:9]), fragment=True).ok


def test_a_log_of_one_event_a_line_has_no_framing(tmp_path):
    lines = b"".join(part.split(b"data: ")[1] + b"\n" for part in good().split(b"\n\n")[:-1])
    report = validate_stream(lines, framing="json-lines")
    assert (report.findings, report.events) == ((), 15)
    assert report.findings == ()
    file = tmp_path / "log.jsonl"
    file.write_bytes(lines)
    assert validate_stream(file).framing == "json-lines"
    (tmp_path / "two.sse.gz").write_bytes(gzip.compress(good() + failing().replace(b"resp_1", b"resp_2")))
    assert [report.ok for report in validate_file(tmp_path / "two.sse.gz")] == [True, True]
    with pytest.raises(ValueError, match="2 streams"):
        validate_stream(tmp_path / "two.sse.gz")


def test_copilots_ids_are_reported_once():
    events = [json.loads(part.split(b"data: ")[1]) for part in good().split(b"\n\n")[:-1]]
    for at, event in enumerate(events):
        for box in (event, event.get("item") or {}, event.get("response") or {}):
            for key in ("id", "item_id"):
                if key in box:
                    box[key] = f"{at}-{key}"
    report = validate_stream(b"".join(map(frame, events)))
    assert sorted(names(report, "error")) == ["item-id-changed", "item-id-mismatch", "response-id-changed"]


ODD = [
    ("response.output_item.added", lambda event: event["item"].update(type={})),
    ("response.output_item.added", lambda event: event["item"].update(status=[])),
    ("response.output_item.done", lambda event: event["item"].update(status=[])),
    ("response.output_text.delta", lambda event: event.update(content_index=[])),
    ("response.output_text.done", lambda event: event.update(content_index={})),
    ("response.content_part.done", lambda event: event["part"].update(type={})),
    ("response.content_part.done", lambda event: event["part"].update(type="refusal", refusal="Hello")),
    ("response.output_item.done", lambda event: event["item"].update(role="user")),
    ("response.completed", lambda event: event["response"].update(status=[])),
    ("response.completed", lambda event: event["response"].update(output={})),
    ("response.completed", lambda event: event["response"].update(usage=[])),
]


@pytest.mark.parametrize(("kind", "change"), ODD)
def test_a_value_of_an_odd_type_is_an_error_and_never_a_crash(kind, change):
    events = [json.loads(part.split(b"data: ")[1]) for part in good().split(b"\n\n")[:-1]]
    at = next(at for at, event in enumerate(events) if event["type"] == kind)
    change(events[at])
    report = validate_stream(b"".join(map(frame, events)))
    assert not report.ok
    assert next(one.frame for one in report.findings if one.severity == "error") == at


def test_a_code_that_is_a_list_is_an_error():
    report = validate_stream(failing().replace(b'"error":{"code":"context_length_exceeded"', b'"error":{"code":[]'))
    assert not report.ok


def test_long_texts_are_compared_to_their_end():
    stream = ResponseStream(**NEW)
    body = stream.start()
    message = stream.message(id="msg_1")
    for _ in range(24):
        body += message.text("x" * 50_000)
    body += stream.complete(USAGE)
    assert validate_stream(body).ok
    head, _, tail = body.rpartition(b"event: response.content_part.done")
    wrong = head + b"event: response.content_part.done" + tail.replace(b'xx"', b'xy"', 1)
    assert "part-mismatch" in names(validate_stream(wrong), "error")


def test_what_a_command_wrote_is_compared():
    output = ResponseStream(**NEW)
    body = output.start()
    handle = output.shell_call_output("call_1")
    body += handle.output("one") + handle.output("", "two") + handle.exited(0) + output.complete(USAGE)
    assert validate_stream(body).ok
    assert "text-mismatch" in names(
        validate_stream(body.replace(b'"stdout":"one"}],', b'"stdout":"on"}],', 1)), "error"
    )


def test_many_findings_and_many_keys_are_bounded():
    report = validate_stream(b'data: {"type":"keepalive","sequence_number":0}\n\n' * 12_000)
    assert len(report.findings) == 10_000
    assert report.more > 0
    keys = b",".join(b'"k%d":1' % at for at in range(20_000))
    began = time.perf_counter()
    assert "duplicate-key" in names(validate_stream(b'data: {"type":"x",%s,"k0":2}\n\n' % keys))
    validate_stream(b"y" * 8_000_000, framing="json-lines")
    assert time.perf_counter() - began < 15


# ---- dialects, clients, selection ----------------------------------------------------------------------------------


def test_open_responses_wants_done_and_openai_has_none():
    assert names(validate_stream(good() + b"data: [DONE]\n\n")) == ["done-marker"]
    assert names(validate_stream(good(), dialect="open-responses"), "error") == ["done-marker-missing"]
    assert validate_stream(good() + b"data: [DONE]\n\n", dialect="open-responses").findings == ()
    told = good().replace(b"response.output_text.delta", b"response.reasoning.delta") + b"data: [DONE]\n\n"
    assert validate_stream(told).dialect == "open-responses"


def test_what_breaks_a_client_is_an_error_for_it():
    body = b"\xef\xbb\xbf" + good()
    assert validate_stream(body).ok
    assert not validate_stream(body, client="codex").ok
    assert validate_stream(body, client="openai-go").ok


def test_select_ignore_strict_and_wrong_options():
    body = (
        good()
        .replace(b'"zebra":1', b"")
        .replace(b"data: {", b'data: {"zebra":1,', 1)
        .replace(b"event: response.created\n", b"", 1)
    )
    assert names(validate_stream(body), "warning", "error") == []
    assert names(validate_stream(body)) == ["event-line-missing", "unknown-field"]
    assert names(validate_stream(body, strict=True)) == ["event-line-missing", "unknown-field"]
    assert names(validate_stream(body, strict=True, select=["RE3"])) == ["unknown-field"]
    assert names(validate_stream(body, strict=True, ignore=["unknown-field", "RE1"])) == []
    for wrong in (
        {"select": ["RE999"]},
        {"client": "x"},
        {"dialect": "x"},
        {"schema": "x"},
        {"profile": "x"},
        {"framing": "x"},
    ):
        with pytest.raises(ValueError, match=r"expected one of|no rule"):
            StreamValidator(**wrong)


def test_the_catalogue_is_whole():
    assert all(rule.why and rule.breaks and rule.fix for rule in RULES.values())
    assert len({rule.name for rule in RULES.values()}) == len(RULES) == len(BY_NAME)
    assert all(set(rule.clients) <= set(CLIENTS) for rule in RULES.values())
    source = shared_source("lifecycle.py")
    import re

    slugs = set(re.findall(r'_fault\(\s*"([a-z-]+)"', source)) | {"unterminated", "index-missing"}
    assert slugs == set(LIFECYCLE)


def shared_source(name):
    from pathlib import Path

    import respevents

    return (Path(respevents.__file__).parent / name).read_text()


# ---- the two schema libraries, hostile input ------------------------------------------------------------------------


@settings(max_examples=150)
@given(strategies.events(profile="wire"), st.data())
def test_jsonschema_and_jsonschema_rs_agree(event, data):
    if data.draw(st.booleans()):
        key = data.draw(st.sampled_from(sorted(event)))
        event = {**event, key: data.draw(st.sampled_from([None, 5, "x", [], {}, 1.5]))}
    kind = event["type"] if isinstance(event["type"], str) else "error"
    known = {one["type"] for one in schemas.manifest()["events"]}
    if kind in known:
        schema = schemas.definition(kind, profile="wire")
        assert jsonschema_rs.validator_for(schema).is_valid(event) == jsonschema.Draft202012Validator(schema).is_valid(
            event
        )


def test_jsonschema_and_jsonschema_rs_agree_on_captured_events():
    known = {one["type"] for one in schemas.manifest()["events"]}
    checks, count = {}, 0
    for row in index()[::9]:
        for part in shared_path("corpus", row["file"]).read_bytes().split(b"data: ")[1:12]:
            try:
                event = json.loads(part.split(b"\n")[0])
            except ValueError:
                continue
            kind = event.get("type") if isinstance(event, dict) else None
            if kind not in known:
                continue
            if kind not in checks:
                schema = schemas.definition(kind, profile="wire")
                checks[kind] = (jsonschema_rs.validator_for(schema), jsonschema.Draft202012Validator(schema))
            fast, slow = checks[kind]
            assert fast.is_valid(event) == slow.is_valid(event)
            count += 1
    assert count > 300


@settings(max_examples=150)
@given(
    st.one_of(
        st.binary(max_size=300),
        st.lists(
            st.sampled_from(
                [
                    b"event: ",
                    b"data: ",
                    b"\n",
                    b"\n\n",
                    b"\r",
                    b"{",
                    b"}",
                    b'"type":',
                    b'"error"',
                    b"[DONE]",
                    b"\xff",
                    b"1e999",
                    good()[:700],
                ]
            )
        ).map(b"".join),
    )
)
def test_anything_is_validated(body):
    for framing in ("sse", "json-lines"):
        report = validate_stream(body, framing=framing)
        assert str(report)
        json.dumps(report.to_dict())


@pytest.mark.parametrize(
    "body",
    [
        b"data: " + b"[" * 1_000_000,
        b"x" * 3_000_000,
        b"data: " + b"9" * 1_000_000 + b"\n\n",
        b"\n" * 1_000_000,
        b'data: {"type":"' + b"a" * 2_000_000 + b'"}\n\n',
    ],
)
def test_hostile_bodies_end_soon(body):
    began = time.perf_counter()
    assert not validate_stream(body).ok
    assert time.perf_counter() - began < 20


def test_a_frame_over_the_bound_is_a_finding():
    report = validate_stream(b"data: " + b"x" * 5000, max_frame=1000)
    assert names(report)[0] == "no-event-stream"


def test_the_order_of_findings_does_not_hang_on_the_seed_of_hashes(tmp_path):
    stream = ResponseStream(**NEW)
    message = stream.message()
    body = stream.start() + message.text("Hello") + message.refusal("no") + message.text("Hello") + stream.complete()
    head, mark, item = body.partition(b"event: response.output_item.done")
    broken = tmp_path / "broken.sse"
    broken.write_bytes(head + mark + item.replace(b'"Hello"', b'"Hallo"').replace(b'"no"', b'"yes"'))
    told = {
        subprocess.run(
            [sys.executable, "-m", "respevents.cli", "validate", str(broken)],
            env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=False,
        ).stdout
        for seed in "0123"
    }  # fmt: skip
    assert len(told) == 1
    assert told.pop().count(b"the item has") > 1


# ---- as a command ---------------------------------------------------------------------------------------------------


def command(*words, given=None):
    run = subprocess.run(
        [sys.executable, "-m", "respevents.cli", *words], input=given, capture_output=True, check=False
    )
    return run.returncode, run.stdout.decode(), run.stderr.decode()


@pytest.fixture
def files(tmp_path):
    (tmp_path / "good.sse").write_bytes(good())
    (tmp_path / "bad.sse").write_bytes(good().replace(b'"text":"Hello"', b'"text":"Ha\xe2\x80\xa8lo"', 1))
    return tmp_path


def test_the_command_and_its_exit_codes(files):
    assert command("validate", str(files / "good.sse"))[0] == 0
    code, out, _ = command("validate", str(files))
    assert code == 1
    assert "RE701 text-mismatch" in out
    assert "fix:" in out
    assert command("validate", str(files / "none.sse"))[0] == 2
    assert command("validate", str(files / "good.sse"), "--select", "RE999")[0] == 2
    assert command("validate", "-", given=good())[0] == 0
    assert command("validate", str(files), "--jobs", "2", "--ignore", "RE7")[0] == 0


def test_what_is_no_stream_is_passed_over_in_a_folder_and_refused_by_name(files):
    """`respevents check --captures` keeps refusals beside streams, `record` a note beside each."""
    (files / "bad.sse").unlink()
    (files / "good.json").write_text("{}")
    refused = files / "refused.txt"
    refused.write_bytes(b'HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n\r\n{"error": {}}')
    code, out, said = command("validate", str(files))
    assert (code, out.count("\n")) == (0, 1)
    assert "HTTP 400 application/json is no event stream" in said
    assert "good.json" not in said
    assert command("validate", str(refused))[0] == 2
    (files / "good.sse").unlink()
    (files / "good.json").unlink()
    assert command("validate", str(files))[0] == 2, "nothing was validated"


def test_the_formats(files):
    code, out, _ = command("validate", str(files), "--format", "json")
    reports = json.loads(out)
    assert code == 1
    assert [report["ok"] for report in reports] == [False, True]
    sarif = json.loads(command("validate", str(files), "--format", "sarif")[1])
    assert sarif["runs"][0]["results"][0]["ruleId"] == "RE701"
    assert {rule["id"] for rule in sarif["runs"][0]["tool"]["driver"]["rules"]} == set(RULES)
    suite = ET.fromstring(command("validate", str(files), "--format", "junit")[1])
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")


def test_explain():
    assert "sum of its deltas" in command("explain", "RE701")[1]
    assert json.loads(command("explain", "text-mismatch", "--format", "json")[1])["id"] == "RE701"
    assert "context_window" in command("explain", "context_length_exceeded")[1]
    assert len(command("explain")[1].splitlines()) == len(RULES)
    assert command("explain", "nonsense")[0] == 2


def test_show_has_the_findings(files):
    out = command("show", str(files / "bad.sse"))[1]
    assert "RE701" in out


def test_assert_valid_stream_says_it_all():
    with pytest.raises(AssertionError, match=r"(?s)not a valid stream.*RE901 unterminated.*End every stream"):
        assert_valid_stream(ResponseStream(**NEW).start())


def test_a_fault_does_not_bring_up_what_only_a_later_set_takes():
    """A tool call without `action` is of a later set than the date says; `tools` is missing in all of them."""
    call = {"id": "", "type": "computer_call", "status": "in_progress", "call_id": "", "pending_safety_checks": []}
    request = {"model": "m", "instructions": [call]}
    stream = ResponseStream(model="m", id="resp_1", created_at=1767225600, request=request)
    body = stream.start() + stream.complete({"input_tokens": 1, "output_tokens": 2})
    assert validate_stream(body).ok
    first, rest = body.split(b"\n\n", 1)
    report = validate_stream(first.replace(b'"tools":[],', b"") + b"\n\n" + rest)
    assert [one.name for one in report.findings if one.severity == "error"] == ["field-missing"]
