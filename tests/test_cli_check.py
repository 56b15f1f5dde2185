"""`respevents check` against servers on loopback: a good one, the demo, those after vLLM and SGLang, planted faults."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import socket
import threading
import time
import xml.etree.ElementTree as ET

import pytest

pytest.importorskip("httpx")
pytest.importorskip("uvicorn")
pytest.importorskip("jsonschema_rs")

from checked_app import MODEL, WINDOW, GoodServer
from respevents._conformance import PROBES
from respevents._conformance_bench import tell
from respevents._conformance_link import base_of
from respevents._demo import app, serving
from respevents._errors import ProtocolError
from respevents.cli import main
from respevents.findings import RULES
from respevents.validate import validate_file

KEY = "sk-planted-secret-1"
NAMES = [probe.name for probe in PROBES]


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL, "uvicorn.error")


class Outcome:
    def __init__(self, code, text, errors, report):
        self.code, self.text, self.errors, self.report = code, text, errors, report
        rows = report["probes"] if report else []
        self.verdicts = {row["probe"]: row["verdict"] for row in rows}
        self.said = {row["probe"]: row["said"] for row in rows}
        self.rules = {row["probe"]: {one["rule"] for one in row["findings"]} for row in rows}
        self.messages = {row["probe"]: [one["message"] for one in row["findings"]] for row in rows}
        self.wrong = {
            row["probe"]: {one["rule"] for one in row["findings"] if one["severity"] == "error"}
            for row in rows
            if row["verdict"] == "fail"
        }


@pytest.fixture
def check(capsys):
    def run(port, *words, model=MODEL, text=False, path=""):
        form = () if text else ("--format", "json")
        url = f"http://127.0.0.1:{port}{path}"
        code = main(["check", url, "--model", model, "--timeout", "20", *form, *words])
        told = capsys.readouterr()
        return Outcome(code, told.out, told.err, None if text or not told.out else json.loads(told.out))

    return run


STAGE = {}


@pytest.fixture(scope="module", autouse=True)
def _stage():
    """One uvicorn for all tests: starting it is what takes time."""

    async def staged(scope, receive, send):
        await STAGE["server"](scope, receive, send)

    with serving(staged) as STAGE["port"]:
        yield


def served(check, server, *words, **more):
    STAGE["server"] = server
    return check(STAGE["port"], *words, **more)


def test_a_good_server_passes_every_probe_without_a_finding(check):
    server = GoodServer()
    with serving(server) as port:
        outcome = check(port)
    assert outcome.code == 0
    assert outcome.verdicts == dict.fromkeys(NAMES, "pass")
    assert {name: rules for name, rules in outcome.rules.items() if rules} == {}
    assert server.gone, "the disconnect probe hung up"
    long = [len(body["input"].split()) for _, _, body in server.requests if body and len(str(body["input"])) > 5000]
    assert long == [WINDOW + WINDOW // 8 + 64] * 2, "what the list of models says is where the prompt starts"


PLANTED = [  # probe, planted fault, the rules that must speak
    ("models", "models-form", set()),
    ("text", "refuses-text", {"RE003"}),
    ("text", "never-streams", {"RE004"}),
    ("text", "wrong-type", {"RE004"}),
    ("text", "wrong-text", {"RE701"}),
    ("text", "cut", {"RE002", "RE901"}),
    ("text-not-streamed", "whole-list", {"RE005"}),
    ("text-not-streamed", "whole-lacks-id", {"RE301"}),
    ("tool-call", "no-call", {"RE016"}),
    ("tool-call", "bad-arguments", {"RE017"}),
    ("tool-result", "no-history", {"RE007"}),
    ("structured-output", "no-schema", {"RE017"}),
    ("max-output-tokens", "no-limit", {"RE018"}),
    ("max-output-tokens", "wrong-reason", {"RE018"}),
    ("over-long", "over-long-413", {"RE013"}),
    ("over-long", "over-long-500", {"RE013"}),
    ("over-long", "over-long-number", {"RE013"}),
    ("over-long", "over-long-server-error", {"RE013"}),
    ("over-long", "over-long-cut", {"RE013", "RE901"}),
    ("over-long", "over-long-shortened", {"RE015"}),
    ("over-long-not-streamed", "over-long-413", {"RE013"}),
    ("over-long-not-streamed", "over-long-number", {"RE013"}),
    ("over-long-not-streamed", "over-long-status-failed", {"RE013"}),
    ("over-long-not-streamed", "over-long-shortened", {"RE015"}),
    ("invalid-request", "invalid-500", {"RE009"}),
    ("invalid-request", "invalid-in-stream", {"RE009"}),
    ("invalid-request-not-streamed", "invalid-500", {"RE009"}),
    ("unknown-model", "unknown-model-500", {"RE009"}),
    ("disconnect", "dies-of-a-hang-up", {"RE003", "RE021"}),
    ("two-at-once", "one-id", {"RE020"}),
    ("two-at-once", "swapped-text", {"RE020"}),
    ("two-at-once", "swapped-metadata", {"RE020"}),
]


def faulty(check, probe, fault, *words):
    # The list of models would be asked first only to fail in its own way.
    return served(check, GoodServer(fault), "--only", probe, "--prompt-tokens", "2500", *words)


@pytest.mark.parametrize(("probe", "fault", "rules"), [row for row in PLANTED if row[2]])
def test_a_planted_fault_fails_its_probe(check, probe, fault, rules):
    outcome = faulty(check, probe, fault)
    assert outcome.code == 1
    assert rules <= outcome.wrong[probe]


@pytest.mark.parametrize(
    ("probe", "fault", "rule"),
    [
        ("models", "models-form", "RE022"),
        ("text-not-streamed", "whole-lacks-usage", "RE019"),
        ("over-long", "over-long-400", "RE014"),
        ("over-long", "over-long-number", "RE008"),
        ("invalid-request", "invalid-accepted", "RE010"),
        ("invalid-request-not-streamed", "invalid-accepted", "RE010"),
        ("unknown-model", "any-model", "RE011"),
        ("unknown-model", "unknown-model-vague", "RE012"),
    ],
)
def test_what_breaks_nobody_is_told_and_fails_nothing(check, probe, fault, rule):
    outcome = faulty(check, probe, fault)
    assert rule in outcome.rules[probe]
    assert (rule == "RE008") == (outcome.code == 1)


def test_every_probe_and_every_rule_of_a_server_is_seen():
    """A check that cannot fail is a defect."""
    assert {probe for probe, _, _ in PLANTED} == set(NAMES)
    seen = set().union(*(rules for _, _, rules in PLANTED)) | {
        "RE008",
        "RE010",
        "RE011",
        "RE012",
        "RE014",
        "RE019",
        "RE022",
    }
    elsewhere = {"RE001", "RE006"}  # the tests of a server that is lost, and of redirects
    assert {rule.id for rule in RULES.values() if rule.layer == "server"} - seen == elsewhere


def test_what_codex_would_do_is_said_of_an_over_long_prompt(check):
    said = {
        fault: " ".join(faulty(check, "over-long", fault).messages["over-long"])
        for fault in ("over-long-413", "over-long-500", "over-long-number", "over-long-server-error")
    }
    assert "6 times" in said["over-long-413"]
    assert "30 times" in said["over-long-500"]
    assert "stops and does not compact" in said["over-long-number"]
    assert "6 times" in said["over-long-server-error"]


@pytest.mark.parametrize(
    ("probe", "fault"),
    [("models", "no-models"), ("tool-call", "tools-unsupported"), ("structured-output", "structured-501"),
     ("over-long", "over-long-accepted"), ("over-long-not-streamed", "over-long-accepted")],
)  # fmt: skip
def test_what_the_server_says_it_cannot_do_is_skipped(check, probe, fault):
    outcome = faulty(check, probe, fault)
    assert (outcome.code, outcome.verdicts) == (0, {probe: "skip"})
    assert outcome.said[probe]


@pytest.mark.parametrize(
    ("status", "message", "verdict"),
    [
        (400, '"required" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', "skip"),
        (422, "tools: Extra inputs are not permitted", "skip"),
        (400, "Unknown parameter: 'tools'.", "skip"),
        (501, "later", "skip"),
        (400, "The name of a tool has at most 4 characters.", "fail"),
        (429, "Tools are not available right now, rate limit reached", "fail"),
        (500, "tools are not supported", "fail"),
    ],
)
def test_a_refusal_is_a_skip_only_where_it_says_not_supported(check, status, message, verdict):
    class Says(GoodServer):
        async def respond(self, headers, body, send):
            if "tools" in body:
                error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
                await send.whole(status, {"error": error})
            else:
                await super().respond(headers, body, send)

    outcome = served(check, Says(), "--only", "text", "--only", "tool-call")
    assert outcome.verdicts == {"text": "pass", "tool-call": verdict}


def test_a_name_of_a_client_makes_an_error_of_what_breaks_it(check):
    class Marked(GoodServer):
        def chunks(self, body, text, tokens):
            first, *rest = super().chunks(body, text, tokens)
            return [b"\xef\xbb\xbf" + first, *rest]  # Codex loses the first event by it

    class Numbered(GoodServer):
        async def respond(self, headers, body, send):
            error = {"message": "The model nope does not exist", "type": "NotFoundError", "param": "model", "code": 404}
            await send.whole(404, {"error": error})

    words = ("--only", "unknown-model")
    assert served(check, Numbered(), *words).code == 0
    assert served(check, Numbered(), *words, "--client", "codex").wrong == {"unknown-model": {"RE008"}}
    words = ("--only", "text")
    assert served(check, Marked(), *words).code == 0
    assert served(check, Marked(), *words, "--client", "codex").wrong == {"text": {"RE109"}}


def test_the_over_long_prompt_grows_until_it_is_refused(check):
    server = GoodServer("no-models")
    import checked_app

    with serving(server) as port:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(checked_app, "WINDOW", 9000)
            outcome = check(port, "--only", "over-long", "--only", "over-long-not-streamed")
    assert outcome.code == 0
    assert [len(body["input"].split()) for _, _, body in server.requests] == [8192, 32768, 32768]


def test_a_stalled_answer_is_left_after_the_timeout(check):
    outcome = served(check, GoodServer("stall"), "--only", "text", "--timeout", "0.4")
    assert {"RE002", "RE901"} <= outcome.wrong["text"]


# ---- the demo, and servers as they are


def test_the_demo_answers_what_a_scripted_engine_can(check):
    outcome = served(check, app(0.001), model="demo")
    assert outcome.wrong == {"structured-output": {"RE017"}, "max-output-tokens": {"RE018"}}


@pytest.mark.sdk
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_guarded_server_has_fewer_findings_than_the_bare_one(check, engine):
    pytest.importorskip("fastapi")
    engine_apps = pytest.importorskip("engine_apps")
    from respevents.asgi import ResponsesGuardMiddleware

    made = {"vllm": engine_apps.vllm_app, "sglang": engine_apps.sglang_app}[engine]()
    quiet = {"on_failure": lambda failure: None, "on_notice": lambda notice: None}
    guarded = ResponsesGuardMiddleware(made, engine=engine, repairs=["failure_code"], **quiet)
    words = ("--prompt-tokens", "600")
    bare, mended = served(check, made, *words, model="tiny"), served(check, guarded, *words, model="tiny")
    assert bare.code == 1
    assert "RE013" in bare.wrong["over-long"]
    assert mended.verdicts["over-long"] == "pass"
    assert set(mended.wrong) < set(bare.wrong)


# ---- the address, the key, and nobody else


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("http://h", "http://h/v1"),
        ("http://h/", "http://h/v1"),
        ("http://h/v1/", "http://h/v1"),
        ("http://h/v1/responses", "http://h/v1"),
        ("http://h/responses", "http://h"),
        ("https://h:8/api/v3", "https://h:8/api/v3"),
        ("http://h/openai?api-version=1", "http://h/openai/v1?api-version=1"),
    ],
)
def test_a_url_is_taken_with_or_without_its_end(given, base):
    assert str(base_of(given)).rstrip("/") == base


@pytest.mark.parametrize(
    "given", ["localhost:8000", "ftp://h", "http://", "http://user:password@h", "http://h:99999", ""]
)
def test_what_is_no_address_is_refused_without_repeating_a_password(given):
    with pytest.raises(ProtocolError) as caught:
        base_of(given)
    assert "password@" not in str(caught.value)


@pytest.mark.parametrize("path", ["/v1", "/v1/responses"])
def test_all_requests_go_below_the_url(check, path):
    server = GoodServer()
    assert served(check, server, "--only", "models", "--only", "text", path=path).code == 0
    assert [path for path, _, _ in server.requests] == ["/v1/models", "/v1/responses"]


class Elsewhere:
    """A listener that must never hear anything."""

    def __enter__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        return self

    def __exit__(self, *_):
        self.socket.close()

    def untouched(self):
        self.socket.settimeout(0.05)
        with pytest.raises(TimeoutError):
            self.socket.accept()
        return True


def test_no_other_address_is_contacted_whatever_the_environment_says(check, monkeypatch):
    asked = []
    real = socket.socket.connect

    def connect(self, address):
        asked.append(address)
        return real(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    with Elsewhere() as other, serving(GoodServer()) as port:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, other.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert check(port).code == 0
        assert other.untouched()
    assert set(asked) == {("127.0.0.1", port)}


def test_a_redirect_is_not_followed(check, monkeypatch):
    monkeypatch.setenv("PLANTED", KEY)
    with Elsewhere() as other:
        server = GoodServer(location=f"{other.url}/v1/responses")
        outcome = served(check, server, "--key-env", "PLANTED")
        assert outcome.code == 2
        assert "redirects" in outcome.errors
        server = GoodServer("models-too", location=f"{other.url}/v1/responses")
        outcome = served(check, server, "--only", "unknown-model")
        assert outcome.code == 2
        assert other.untouched()


def test_a_redirect_after_good_answers_is_a_finding(check):
    class Moving(GoodServer):
        async def answer(self, path, headers, body, send):
            if len(self.requests) > 1:
                self.location = "http://127.0.0.1:9/"
            await super().answer(path, headers, body, send)

    outcome = served(check, Moving(), "--only", "text", "--only", "tool-call")
    assert outcome.verdicts == {"text": "pass", "tool-call": "fail"}
    assert outcome.wrong["tool-call"] == {"RE006"}


def test_a_server_that_is_lost_between_two_probes_is_a_finding(check):
    class Mortal(GoodServer):
        async def answer(self, path, headers, body, send):
            if len(self.requests) > 1:
                await send.sleep(5)
            await super().answer(path, headers, body, send)

    outcome = served(check, Mortal(), "--only", "text", "--only", "tool-call", "--timeout", "0.5")
    assert outcome.wrong == {"tool-call": {"RE001"}}


def test_the_key_goes_to_the_server_and_nowhere_else(check, monkeypatch, tmp_path):
    monkeypatch.setenv("PLANTED", KEY)
    server = GoodServer("key", "echo-key", "no-call")
    words = ("--key-env", "PLANTED", "--captures", str(tmp_path / "kept"), "--junit", str(tmp_path / "report.xml"))
    with serving(server) as port:
        outcome = check(port, *words)
        shown = check(port, *words, text=True)
    assert {headers.get("authorization") for _, headers, _ in server.requests} == {f"Bearer {KEY}"}
    assert outcome.code == shown.code == 1
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"You sent" in kept
    assert b"You sent Bearer " + b"*" * len(KEY) in kept
    assert not any("RE7" in rule for rules in outcome.rules.values() for rule in rules), (
        "a text is the sum of its deltas"
    )
    assert b"planted-cookie" not in kept
    for text in (outcome.text, outcome.errors, shown.text, shown.errors, kept.decode()):
        assert "planted-secret" not in text
    said = [event.get("delta", "") for path in tmp_path.rglob("*.sse") for event in tell(path.read_bytes()).events]
    assert "You sent" in "".join(said)
    assert "planted" not in "".join(said), "nor in pieces"


@pytest.mark.parametrize("value", [None, "", "with space", "line\nbreak", "ümlaut"])
def test_a_key_that_cannot_be_sent_is_refused_and_not_repeated(check, monkeypatch, value):
    if value is None:
        monkeypatch.delenv("PLANTED", raising=False)
    else:
        monkeypatch.setenv("PLANTED", value)
    outcome = check(9, "--key-env", "PLANTED")
    assert outcome.code == 2
    assert not value or value.strip() not in outcome.errors


# ---- nothing to check


def test_nothing_to_check_is_exit_code_2(check, capsys):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert "Nothing answers" in check(port).errors
    wrong_model = served(check, GoodServer(), model="other")
    assert (wrong_model.code, f"It lists: {MODEL!r}" in wrong_model.errors) == (2, True)
    assert served(check, GoodServer("key")).code == 2
    wrong_path = served(check, GoodServer(), path="/other/v1")
    assert (wrong_path.code, "There is no" in wrong_path.errors) == (2, True)
    assert main(["check", "http://127.0.0.1:9"]) == 2
    assert main(["check", "http://127.0.0.1:9", "--model", "m", "--only", "nothing"]) == 2


# ---- what is written


def test_the_probes_are_listed(capsys):
    assert main(["check", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == NAMES


def test_the_table_names_rule_place_harm_and_fix(check):
    shown = served(check, GoodServer("wrong-text"), "--only", "text", text=True)
    assert shown.code == 1
    assert "fail  text" in shown.text
    assert "error RE701 text-mismatch" in shown.text
    assert "text.sse, frame " in shown.text
    assert "fix: " in shown.text
    assert "0 pass, 1 fail, 0 skip" in shown.text


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"])
def test_a_server_that_drips_is_given_up_when_its_time_is_over(check, head):
    """Each single read is in time; the answer is not."""

    def drip(connection):
        with connection, contextlib.suppress(OSError):
            connection.recv(65536)
            connection.sendall(head)
            for byte in itertools.cycle(b": a\n" if head else b"HTTP/1.1 100 Continue\r\n\r\n"):
                connection.sendall(bytes([byte]))
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=drip, args=(listening.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        began = time.monotonic()
        outcome = check(listening.getsockname()[1], "--only", "text", "--timeout", "1")
        listening.shutdown(socket.SHUT_RDWR)
    assert outcome.code == 1
    assert outcome.rules["text"] & {"RE001", "RE002"}
    assert "not over after 1 s" in str(outcome.messages["text"])
    assert time.monotonic() - began < 15


def test_a_key_that_comes_back_as_the_name_of_a_header_is_left_out(check, tmp_path, monkeypatch):
    monkeypatch.setenv("KEY_OF_TEST", KEY)

    async def echo(scope, receive, send):
        name = dict(scope["headers"])[b"authorization"].partition(b" ")[2].lower()
        await send({"type": "http.response.start", "status": 500, "headers": [(name, b"1")]})
        await send({"type": "http.response.body", "body": b"{}"})

    served(check, echo, "--only", "text", "--key-env", "KEY_OF_TEST", "--captures", str(tmp_path / "kept"))
    kept = b"".join(path.read_bytes() for path in (tmp_path / "kept").iterdir())
    assert b"left-out" in kept
    assert KEY.encode() not in kept


def test_harm_and_fix_of_a_rule_are_told_once(check):
    """A server that is wrong in one way is wrong in it under most probes."""
    shown = served(check, GoodServer("wrong-text"), "--only", "text", "--only", "two-at-once", text=True)
    assert "0 pass, 2 fail, 0 skip" in shown.text
    assert shown.text.count("RE701 text-mismatch") == 1
    assert shown.text.count("fix: ") == 1
    assert "RE701: as under text" in shown.text


def test_a_control_character_of_a_server_does_not_reach_the_terminal(check):
    class Rude(GoodServer):
        def failed(self, body, cause, message):
            return super().failed(body, Cause.INVALID_IMAGE, "\x1b[2J not supported")

    from respevents import Cause

    shown = served(check, Rude("no-history"), "--only", "tool-result", text=True)
    assert "\x1b" not in shown.text


def test_captures_are_read_by_validate(check, tmp_path):
    folder = tmp_path / "kept"
    outcome = served(check, GoodServer("over-long-400", "no-call"), "--captures", str(folder))
    names = {name for row in outcome.report["probes"] for name in row["captures"]}
    assert {path.name for path in folder.iterdir()} == names
    assert {"text.sse", "text-not-streamed.http", "over-long.http", "disconnect.part", "two-at-once-2.sse"} <= names
    reports = [report for path in sorted(folder.glob("*.sse")) for report in validate_file(path)]
    assert len(reports) == len(list(folder.glob("*.sse")))
    assert all(report.ok and report.events for report in reports)
    assert (folder / "over-long.http").read_bytes().startswith(b"HTTP/1.1 400\r\n")


def test_the_junit_report_holds_failures_and_skips(check, tmp_path):
    file = tmp_path / "report.xml"
    served(check, GoodServer("no-models", "wrong-text"), "--only", "models", "--only", "text", "--junit", str(file))
    suite = ET.parse(file).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "1")
    failure = suite.find("testcase[@name='text']/failure")
    assert "RE701" in failure.text
    assert suite.find("testcase[@name='models']/skipped") is not None


def test_a_report_that_cannot_be_written_is_exit_code_2(check, tmp_path):
    (tmp_path / "file").write_text("")
    assert served(check, GoodServer(), "--only", "text", "--captures", str(tmp_path / "file" / "x")).code == 2
    assert served(check, GoodServer(), "--only", "models", "--junit", str(tmp_path / "no" / "x.xml")).code == 2


# ---- whatever a server sends


class Odd(GoodServer):
    """Puts `value` in every field of every JSON object that it sends, but for the types of the events."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def spoilt(self, body):
        if isinstance(body, dict):
            return {key: one if key in {"type", "response"} else self.value for key, one in body.items()}
        return body

    async def __call__(self, scope, receive, send):
        async def spoiling(message):
            raw = message.get("body", b"")
            lines = raw.split(b"\n")
            for at, line in enumerate(lines):
                start = line.find(b"{")
                if start in {0, 6}:
                    whole = json.loads(line[start:])
                    for key in ("response", "error", "item"):
                        if key in whole:
                            whole[key] = self.spoilt(whole[key])
                    if "type" not in whole:
                        whole = {**self.spoilt(whole), **({"error": whole["error"]} if "error" in whole else {})}
                    lines[at] = line[:start] + json.dumps(whole).encode()
            await send({**message, "body": b"\n".join(lines)} if raw else message)

        await super().__call__(scope, receive, spoiling)


@pytest.mark.parametrize(
    "value", [None, 5, -1.5, "x", [], [5], [{"id": 5}], {}, {"code": []}, "\ud800", [[]]], ids=repr
)
def test_odd_values_never_crash_it(check, value, tmp_path):
    outcome = served(check, Odd(value), "--junit", str(tmp_path / "report.xml"))
    assert outcome.code == 1
    assert outcome.wrong["text"]
    ET.parse(tmp_path / "report.xml")


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"5", b"\xff\xfe", b"{", b"data: 5\n\n", b"event: x\ndata: []\n\n"]
)
@pytest.mark.parametrize("kind", [b"application/json", b"text/event-stream"])
def test_an_odd_body_never_crashes_it(check, body, kind):
    class Strange(GoodServer):
        async def answer(self, path, headers, given, send):
            await send.stream([body], kind=kind)

    outcome = served(check, Strange())
    assert outcome.code == 1
    assert outcome.verdicts["text"] == "fail"
