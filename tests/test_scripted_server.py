"""The scripted server over real sockets: every scenario by URL and by model, every way to break off, WebSocket."""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

pytest.importorskip("h11")
pytest.importorskip("wsproto")

from respevents import FailureCode, LocalProtocolError, decode_event, validate_stream
from respevents.cli import main
from respevents.failures import CATALOGUE
from respevents.testing.mutations import MUTATIONS
from respevents.testing.scenarios import SCENARIOS, Scenario, Script, replay, scenario
from respevents.testing.server import ScriptedServer
from respevents.wire import FrameDecoder


@pytest.fixture(scope="module")
def server():
    with ScriptedServer() as running:
        yield running


def body_of(name, request=None):
    return b"".join(chunk for chunk in scenario(name).play(request or {}, 1).chunks if isinstance(chunk, bytes))


def post(url, request, timeout=10):
    data = json.dumps(request).encode()
    sent = urllib.request.Request(f"{url}/responses", data, {"content-type": "application/json"})
    return urllib.request.urlopen(sent, timeout=timeout)


def refused(url, request=None, path="/responses"):
    """The status and body of an answer that is an error."""
    sent = urllib.request.Request(url + path, json.dumps(request or {"stream": True}).encode())
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(sent, timeout=10)
    with caught.value:
        return caught.value.code, json.load(caught.value)


def streamed(url, **request):
    with post(url, {"model": "m", "input": "hi", "stream": True, **request}) as answer:
        return answer.read()


# ---- the scenarios


def test_there_is_a_scenario_for_each_code_cause_and_mutation():
    assert {f"fail-{code.value}" for code in FailureCode} <= set(SCENARIOS)
    assert {f"http-{cause.value}" for cause, facts in CATALOGUE.items() if facts.code} <= set(SCENARIOS)
    assert {f"fault-{name}" for name in MUTATIONS} <= set(SCENARIOS)


@pytest.mark.parametrize("name", [one.name for one in SCENARIOS.values() if one.group.startswith("streams")])
def test_a_stream_that_goes_well_is_valid_to_the_last_finding(name):
    findings = validate_stream(body_of(name)).findings
    known = {"RE108", "RE304", "RE406"} if name in {"done-marker", "unknown-event"} else set()
    assert [one for one in findings if one.severity != "info" and one.rule not in known] == []


@pytest.mark.parametrize("code", [code.value for code in FailureCode])
@pytest.mark.parametrize("place", ["", "-after-text"])
def test_a_failure_is_valid_and_carries_its_code(code, place):
    body = body_of(f"fail-{code}{place}")
    assert validate_stream(body).ok, str(validate_stream(body))
    events = [decode_event(frame.data) for frame in FrameDecoder().feed(body)]
    assert events[-1].response.error.code == code
    assert any(event.type == "response.output_text.delta" for event in events) is bool(place)


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_fault_is_found_by_its_rule(name):
    mutation = MUTATIONS[name]
    found = validate_stream(body_of(f"fault-{name}"), **mutation.options).findings
    assert mutation.rule in {one.rule for one in found}


def test_a_script_is_the_same_every_time_and_another_for_the_next_request():
    assert body_of("text") == body_of("text")
    other = b"".join(scenario("text").play({}, 2).chunks)
    assert other != body_of("text")


def test_a_tool_call_takes_the_function_of_the_request_and_answers_its_output():
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 3}, "s": {"enum": ["a"]}},
        "required": ["n", "s"],
    }
    request = {"tools": [{"type": "function", "name": "add", "parameters": schema}]}
    last = decode_event(FrameDecoder().feed(body_of("tool-call", request))[-1].data)
    (call,) = last.response.output
    assert (call.name, json.loads(call.arguments)) == ("add", {"n": 3, "s": "a"})
    answered = {**request, "input": [{"type": "function_call_output", "call_id": "c", "output": "1"}]}
    assert b"function_call" not in body_of("tool-call", answered).replace(b"function_call_output", b"")


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("tool-call", "function_call_output"),
        ("tool-calls", "function_call_output"),
        ("custom-tool", "custom_tool_call_output"),
        ("apply-patch", "apply_patch_call_output"),
        ("fault-no-deltas", "function_call_output"),
    ],
)
def test_a_client_that_answers_a_call_is_given_a_message(name, output):
    """Or it would be asked to carry out the same call without end."""
    answered = body_of(name, {"input": [{"type": output, "call_id": "c", "output": "1"}]})
    assert answered != body_of(name)
    assert answered == body_of("text")


@pytest.mark.parametrize("wrong", [b'"temperature": NaN', b'"tools": ' + b"[" * 900 + b"]" * 900])
def test_a_request_that_cannot_be_repeated_is_refused(server, wrong):
    sent = urllib.request.Request(f"{server.url}/v1/responses", b'{"model": "text", "stream": true, ' + wrong + b"}")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(sent, timeout=10)
    with caught.value:
        assert (caught.value.code, json.load(caught.value)["error"]["code"]) == (400, "invalid_prompt")


def test_structured_output_fits_the_schema_of_the_request():
    jsonschema = pytest.importorskip("jsonschema")
    schema = {
        "type": "object",
        "$defs": {"leaf": {"type": "object", "properties": {"x": {"type": ["number", "null"]}}, "required": ["x"]}},
        "properties": {
            "leaf": {"$ref": "#/$defs/leaf"}, "list": {"type": "array", "items": {"$ref": "#/$defs/leaf"}, "minItems": 2},
            "one": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "flag": {"type": "boolean"},
        },
        "required": ["leaf", "list", "one", "flag"], "additionalProperties": False,
    }  # fmt: skip
    request = {"text": {"format": {"type": "json_schema", "name": "x", "schema": schema}}}
    last = decode_event(FrameDecoder().feed(body_of("structured", request))[-1].data)
    jsonschema.validate(json.loads(last.response.output[0].content[0].text), schema)


@pytest.mark.parametrize(
    "spec", ["nope", "text@speed=1", "text@gap=x", "text@gap=-1", "text@chunk=nan", "", "text@pace=x"]
)
def test_an_unknown_name_or_setting_is_told(spec):
    with pytest.raises(LocalProtocolError) as caught:
        scenario(spec)
    assert (
        "respevents serve --list" in str(caught.value)
        or "gap" in str(caught.value)
        or "takes a number" in str(caught.value)
    )


def test_settings_change_the_pace_and_not_the_bytes():
    script = scenario("text@gap=0.5,chunk=7").play({}, 1)
    chunks = list(script.chunks)
    assert b"".join(chunk for chunk in chunks if isinstance(chunk, bytes)) == body_of("text")
    assert all(len(chunk) <= 7 for chunk in chunks if isinstance(chunk, bytes))
    assert chunks[1::2] == [0.5] * (len(chunks) // 2)


# ---- over HTTP


def test_a_scenario_is_chosen_by_url_by_model_and_by_default(server):
    before = len(server.requests)
    by_url = streamed(server.base_url("over-length"))
    by_model = streamed(server.base_url(), model="over-length")
    with_prefix = streamed(server.base_url(), model="openai/over-length")
    default = streamed(server.base_url(), model="gpt-5")
    for body in (by_url, by_model, with_prefix):
        assert b'"code":"context_length_exceeded"' in body
    assert b'"delta":"Hel"' in default
    assert [seen.scenario for seen in server.requests[before:]] == ["over-length"] * 3 + ["text"]


def test_a_sequence_answers_one_request_after_another_and_each_base_url_counts_anew(server):
    for _ in range(2):
        url = server.base_url("fail-rate_limit_exceeded+text")
        bodies = [streamed(url) for _ in range(3)]
        assert [b"response.completed" in body for body in bodies] == [False, True, True]
        assert len(server.requests_of(url)) == 3


def test_every_scenario_is_served_with_the_bytes_of_its_script(server):
    """All but those that stall, which are tested apart; a body that breaks has the bytes before the break."""
    for name, one in SCENARIOS.items():
        script = one.play({}, 1)
        if script.end == "stall" or name == "long-text":
            continue
        url = server.base_url(name)
        got = b""
        try:
            with post(url, {"model": "m", "input": "hi", "stream": True}) as answer:
                assert answer.status == script.status == 200, name
                while piece := answer.read1(65536):
                    got += piece
        except urllib.error.HTTPError as error:
            with error:
                assert error.code == script.status, name
                got = error.read()
        except http.client.IncompleteRead as error:
            got += error.partial
            assert script.end != "clean", name
        except ConnectionResetError:
            assert script.end == "reset", name
            continue
        want = b"".join(chunk for chunk in one.play({"model": "m"}, 1).chunks if isinstance(chunk, bytes))
        assert plain(got) == plain(want), name


def plain(body):
    """Without what depends on the request: its number, its input and model."""
    return re.sub(rb"[0-9a-f]{32}|17672\d{5}", b"", body).replace(b'"model":"scripted"', b'"model":"m"')


@pytest.mark.parametrize("name", ["stall", "stall-at-once", "stall-after-failed", "stall-after-completed"])
def test_a_stalled_body_says_nothing_more_until_the_client_leaves(server, name):
    got = b""
    with post(server.base_url(name), {"stream": True}, timeout=0.4) as answer, pytest.raises(TimeoutError):
        while piece := answer.read1(65536):
            got += piece
    assert got == b"" if name == "stall-at-once" else got.startswith(b"event: response.created")


def test_a_reset_is_a_reset(server):
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=5) as raw:
        request = b'{"stream":true}'
        raw.sendall(
            b"POST /s/reset/x/v1/responses HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
            % (len(request), request)
        )
        with pytest.raises(ConnectionResetError):
            while raw.recv(65536):
                pass


def test_a_connection_is_used_again_after_a_clean_end(server):
    connection = http.client.HTTPConnection("127.0.0.1", int(server.url.rpartition(":")[2]), timeout=5)
    for _ in range(3):
        connection.request("POST", "/v1/responses", '{"stream": true}')
        sock = connection.sock
        assert b"response.completed" in connection.getresponse().read()
        assert connection.sock is sock
    connection.close()


def test_requests_are_seen_with_body_and_headers(server):
    url = server.base_url("text")
    streamed(url, metadata={"a": "b"})
    (seen,) = server.requests_of(url)
    assert seen.body["metadata"] == {"a": "b"}
    assert seen.headers["content-type"] == "application/json"
    assert not seen.websocket


def test_a_request_without_stream_gets_the_snapshot_or_the_error(server):
    with post(server.base_url("text"), {"model": "m", "input": "hi"}) as answer:
        response = json.load(answer)
    assert (response["status"], response["output"][0]["content"][0]["text"]) == ("completed", "Hello from the script.")
    status, body = refused(server.base_url("over-length"), {"model": "m", "input": "hi"})
    assert (status, body["error"]["code"]) == (400, "context_length_exceeded")


def test_what_a_request_holds_wrong_is_told_and_the_server_goes_on(server):
    for data in (
        b"",
        b"[1]",
        b"{",
        b'{"model": 5}',
        b'{"stream": true, "metadata": "\\ud800"}',
        b'{"stream": true, "tools": 5}',
    ):
        sent = urllib.request.Request(f"{server.base_url('text')}/responses", data)
        try:
            with urllib.request.urlopen(sent, timeout=5) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            error.close()
    for raw in (b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"GET /\r\n" * 4, b""):
        with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=5) as connection:
            connection.sendall(raw)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(65536)
    for path in ("/", "/v1", "/s", "/s/nope/v1/responses", "/v1/responses/none", "/s/text/x/v1/other"):
        assert refused(server.url, path=path)[0] == 404
    assert b"response.completed" in streamed(server.base_url("text"))


def test_answers_of_ones_own_are_added_and_taken_away(server):
    server.add("mine", body_of("text"))
    server.add("paced", [body_of("text")[:20], 0.01, body_of("text")[20:]])
    server.add("status", Script([b"{}"], status=418, headers={"content-type": "application/json"}))
    server.add("again", Scenario("x", "", "", lambda request, number: Script([str(number).encode()])))
    assert streamed(server.base_url("mine")) == streamed(server.base_url("paced")) == body_of("text")
    assert refused(server.base_url("status"))[0] == 418
    assert streamed(server.base_url("again")).isdigit()
    server.forget("mine", "paced", "status", "again")
    with pytest.raises(LocalProtocolError):
        server.base_url("mine")
    with pytest.raises(LocalProtocolError):
        server.add("a+b", b"")
    with pytest.raises(LocalProtocolError):
        server.forget("mine")


def test_a_port_that_is_taken_is_an_error_and_a_server_starts_again_after_its_stop(server):
    with pytest.raises(OSError, match="in use"):
        ScriptedServer(port=int(server.url.rpartition(":")[2])).start()
    one = ScriptedServer()
    for _ in range(2):
        with one:
            assert b"response.completed" in streamed(one.base_url("text"))
    one.stop()


def test_a_stop_breaks_what_is_open():
    with ScriptedServer() as one:
        answer = post(one.base_url("stall"), {"stream": True})
        began = time.perf_counter()
    assert time.perf_counter() - began < 2
    with answer, pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
        answer.read()


# ---- the openai SDK as the other side


@pytest.fixture
def sdk(server):
    openai = pytest.importorskip("openai")
    return lambda spec=None: openai.OpenAI(base_url=server.base_url(spec), api_key="-", max_retries=0)


def test_the_sdk_lists_models_and_reads_a_stored_response_again(sdk):
    client = sdk()
    assert {"text", "over-length"} <= {model.id for model in client.models.list()}
    events = list(client.responses.create(model="text", input="hi", stream=True))
    name = events[0].response.id
    assert client.responses.retrieve(name).output_text == "Hello from the script."
    rest = client.responses.retrieve(name, stream=True, starting_after=5)
    assert [event.sequence_number for event in rest] == [event.sequence_number for event in events[6:]]
    client.responses.delete(name)
    import openai

    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(name)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_sdk_speaks_websocket_with_it(server, sdk):
    pytest.importorskip("websockets")
    client = sdk()
    if not hasattr(client.responses, "connect"):
        pytest.skip("this openai SDK has no WebSocket")
    with client.responses.connect() as connection:
        for model, last in (
            ("text", "response.completed"),
            ("over-length", "response.failed"),
            ("http-auth", "error"),
            ("text", "response.completed"),
        ):
            connection.response.create(model=model, input="hi")
            kinds = []
            for event in connection:
                kinds.append(event.type)
                if event.type == last and (last != "error" or model.startswith("http")):
                    break
            assert kinds[-1] == last
    assert [seen.websocket for seen in server.requests[-4:]] == [True] * 4


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_websocket_breaks_where_the_script_does(server):
    websockets = pytest.importorskip("websockets.sync.client")
    from websockets.exceptions import ConnectionClosedError

    url = server.url.replace("http", "ws") + "/v1/responses"
    with websockets.connect(url) as connection:
        connection.send(json.dumps({"type": "response.create", "model": "cut"}))
        with pytest.raises(ConnectionClosedError):
            for _ in range(100):
                assert json.loads(connection.recv(timeout=5))["type"].startswith("response.")
    with websockets.connect(url) as connection:
        for wrong in ("{", "[]", '{"type": "other"}'):
            connection.send(wrong)
            assert json.loads(connection.recv(timeout=5))["status"] == 400


# ---- replay


def test_a_capture_is_replayed_byte_for_byte_and_with_its_pace(tmp_path, server):
    body = body_of("text")
    (tmp_path / "0001.sse").write_bytes(body)
    pace = [[0.0, 100], [0.05, 200], [0.3, len(body) - 300]]
    (tmp_path / "0001.json").write_text(json.dumps({"pace": pace, "ended": "cleanly"}))
    (one,) = replay(tmp_path / "0001.sse")
    assert one.name == "replay-0001"
    server.add(one.name, one)
    began = time.perf_counter()
    assert streamed(server.base_url(one.name)) == body
    assert time.perf_counter() - began >= 0.3
    fast = list(scenario("replay-0001@pace=fast", server.scenarios).play({}, 1).chunks)
    assert all(isinstance(chunk, bytes) for chunk in fast)
    half = list(scenario("replay-0001@pace=0.5", server.scenarios).play({}, 1).chunks)
    assert sum(chunk for chunk in half if not isinstance(chunk, bytes)) == pytest.approx(0.15)
    server.forget(one.name)


def test_a_replay_keeps_status_headers_and_a_cut_and_takes_json_lines(tmp_path):
    head = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Request-Id: 7\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    (tmp_path / "a.txt").write_bytes(head + body_of("text"))
    (one,) = replay(tmp_path / "a.txt")
    script = one.play({}, 1)
    assert script.headers["x-request-id"] == "7"
    assert "transfer-encoding" not in script.headers
    (tmp_path / "b.sse").write_bytes(body_of("no-terminal"))
    (tmp_path / "b.json").write_text('{"ended": "cut by the server (ReadError)", "pace": "nonsense"}')
    assert replay(tmp_path / "b.sse")[0].play({}, 1).end == "cut"
    lines = b"\n".join(frame.data for frame in FrameDecoder().feed(body_of("text")))
    (tmp_path / "c.jsonl").write_bytes(lines)
    assert b"".join(replay(tmp_path / "c.jsonl")[0].play({}, 1).chunks) == body_of("text")


def test_a_replay_of_json_lines_keeps_a_line_that_is_broken(tmp_path):
    (tmp_path / "d.jsonl").write_bytes(b'{"type":"response.created"}\n{"type":"a", broken\n\n{"type":5}\n')
    (one,) = replay(tmp_path / "d.jsonl")
    want = b'event: response.created\ndata: {"type":"response.created"}\n\ndata: {"type":"a", broken\n\ndata: {"type":5}\n\n'
    assert b"".join(one.play({}, 1).chunks) == want


# ---- the command


def test_serve_lists_and_dumps(capsys, monkeypatch):
    assert main(["serve", "--list"]) == 0
    listed = capsys.readouterr().out
    assert all(f"  {name} " in listed for name in SCENARIOS)
    assert main(["serve", "--list", "--format", "json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == list(SCENARIOS)
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", out)
    assert main(["serve", "--dump", "text@chunk=3"]) == 0
    assert out.buffer.getvalue() == body_of("text")


@pytest.mark.parametrize(
    "wrong", [["--dump", "nope"], ["--default", "nope"], ["--gap", "-1"], ["--replay", "/none"], ["--port", "99999"]]
)
def test_serve_says_what_cannot_be_served(wrong, capsys):
    assert main(["serve", *wrong]) == 2
    assert capsys.readouterr().err.startswith("respevents: ")


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_serve_runs_until_interrupted_and_logs_each_request():
    command = [sys.executable, "-m", "respevents.cli", "serve", "--port", "0", "--format", "json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://\S+?/v1", process.stderr.readline())[0]
        assert b"response.failed" in streamed(url, model="over-length")
        assert json.loads(process.stdout.readline())["scenario"] == "over-length"
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=10)
        process.stdout.close()
        process.stderr.close()
    assert code == 0
