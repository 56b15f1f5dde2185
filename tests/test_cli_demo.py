"""The `respevents` command and its demo, over real sockets on loopback."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys

import pytest

pytest.importorskip("uvicorn")

from respevents import FrameDecoder, cli

ANSI = re.compile(r"\x1b\[")


@pytest.fixture(scope="module")
def port():
    from respevents._demo import app, serving

    with serving(app(pause=0)) as port:
        yield port


def post(port, body, path="/v1/responses"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, raw, {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.getheader("content-type"), answer.read()
    finally:
        connection.close()


def events_of(raw):
    decoder = FrameDecoder()
    return [json.loads(frame.data) for frame in [*decoder.feed(raw), *decoder.close()]]


def command(*words, **more):
    run = [sys.executable, "-m", "respevents.cli", *words]
    return subprocess.run(run, capture_output=True, text=True, timeout=60, check=False, **more)


def test_the_demo_prints_a_normal_and_a_failing_timeline(capsys):
    assert cli.main(["demo"]) == 0
    out = capsys.readouterr().out
    assert not ANSI.search(out), "no colour where nobody sees it"
    first, second = out.split("A prompt that is too long")
    for kind in ("response.created", "response.reasoning_summary_text.delta", "response.output_text.delta"):
        assert kind in first
    assert "response.function_call_arguments.done" in first
    assert "response.completed" in first
    kinds = re.findall(r"ms +(\d+) +(\S+)", second)
    assert kinds == [
        ("0", "response.created"),
        ("1", "response.in_progress"),
        ("2", "error"),
        ("3", "response.failed"),
    ]
    assert "context_length_exceeded" in second
    assert "5000" in second, "the message says how long the prompt is"


def test_a_good_request_streams_reasoning_text_and_the_offered_tool(port):
    from respevents._demo import _TOOL

    status, kind, raw = post(port, {"model": "demo", "input": "hi", "stream": True, "tools": [_TOOL]})
    assert (status, kind) == (200, "text/event-stream; charset=utf-8")
    events = events_of(raw)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    last = events[-1]
    assert last["type"] == "response.completed"
    assert [item["type"] for item in last["response"]["output"]] == ["reasoning", "message", "function_call"]
    assert last["response"]["output"][2]["arguments"] == '{"city":"Bern"}'


def test_a_tool_that_was_not_offered_or_is_answered_is_not_called(port):
    from respevents._demo import _TOOL

    answered = [
        {"role": "user", "content": "hi"},
        {"type": "function_call_output", "call_id": "c", "output": "sun"},
    ]
    for request in ({"input": "hi"}, {"input": answered, "tools": [_TOOL]}):
        events = events_of(post(port, {"model": "demo", "stream": True, **request}, "/responses")[2])
        kinds = [item["type"] for item in events[-1]["response"]["output"]]
        assert kinds == ["reasoning", "message"]


@pytest.mark.parametrize(
    "request_",
    [
        {"model": "demo-over-length", "input": "hi"},
        {"model": "demo", "input": "word " * 4097},
        {
            "model": "demo",
            "input": [{"role": "user", "content": [{"type": "input_text", "text": "word " * 4097}]}],
        },
    ],
)
def test_an_over_long_prompt_ends_in_the_four_frames(port, request_):
    events = events_of(post(port, {**request_, "stream": True})[2])
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "error",
        "response.failed",
    ]
    assert events[2]["code"] == events[3]["response"]["error"]["code"] == "context_length_exceeded"
    assert events[3]["response"]["model"] == request_["model"]


def test_a_prompt_of_just_the_window_is_answered(port):
    events = events_of(post(port, {"input": "word " * 4096, "stream": True})[2])
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"]["usage"]["input_tokens"] == 4096


def test_an_engine_that_dies_in_the_middle_ends_as_server_error_and_says_nothing_internal(port, capfd):
    raw = post(port, {"model": "demo-server-error", "input": "hi", "stream": True})[2]
    events = events_of(raw)
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    assert events[-1]["response"]["error"]["code"] == "server_error"
    assert b"worker process" not in raw
    assert "the worker process is gone" in capfd.readouterr().err, "the operator sees the reason"


def test_without_stream_the_answer_is_the_snapshot_or_an_error_envelope(port):
    status, kind, raw = post(port, {"model": "demo", "input": "hi"})
    assert (status, kind) == (200, "application/json")
    assert json.loads(raw)["output"][1]["content"][0]["text"] == "Hello! This is a scripted engine."
    status, _, raw = post(port, {"model": "demo-over-length", "input": "hi"})
    assert status == 400
    assert json.loads(raw)["error"]["code"] == "context_length_exceeded"
    status, _, raw = post(port, {"model": "demo-server-error", "input": "hi"})
    assert status == 500
    assert b"worker process" not in raw


@pytest.mark.parametrize(("body", "path", "status"), [
    (b"{nonsense", "/v1/responses", 400),
    (b"[1]", "/v1/responses", 400),
    (b"\xff", "/v1/responses", 400),
    (b"{}", "/elsewhere", 404),
    (b" " * (16 * 1024 * 1024 + 1), "/v1/responses", 413),
])  # fmt: skip
def test_a_request_that_is_none_is_answered_with_an_error_envelope(port, body, path, status):
    answer, kind, raw = post(port, body, path)
    assert (answer, kind) == (status, "application/json")
    assert set(json.loads(raw)["error"]) >= {"message", "type", "code", "param"}


def test_serve_keeps_serving_and_ctrl_c_is_a_clean_end():
    import signal
    import time

    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    run = subprocess.Popen(
        [sys.executable, "-m", "respevents.cli", "demo", "--serve", "--port", str(port)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert f"http://127.0.0.1:{port}/v1/responses" in run.stdout.readline()
        for _ in range(2):
            assert events_of(post(port, {"input": "hi", "stream": True})[2])[-1]["type"] == "response.completed"
        time.sleep(0.1)
        run.send_signal(signal.SIGINT)
        _, err = run.communicate(timeout=20)
        assert (run.returncode, err) == (0, "")
    finally:
        run.kill()
        run.communicate()


def test_a_taken_port_is_unusable_input():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        run = command("demo", "--serve", "--port", str(taken.getsockname()[1]))
    assert run.returncode == 2
    assert "Try another --port" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("words", [[], ["nonsense"], ["demo", "--nonsense"], ["demo", "--port", "x"]])
def test_wrong_usage_ends_with_2(words, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    assert end.value.code == 2
    assert "usage: respevents" in capsys.readouterr().err


def test_version_and_help_end_with_0(capsys):
    import respevents

    for words in (["--version"], ["--help"], ["demo", "--help"]):
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        assert end.value.code == 0
    out = capsys.readouterr().out
    assert respevents.__version__ in out
    assert "--serve" in out


def test_without_the_cli_extra_the_command_says_what_to_install():
    code = "import sys; sys.modules['uvicorn'] = None\nfrom respevents import cli\nsys.exit(cli.main(['demo']))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "pip install 'respevents[cli]'" in run.stderr
    assert "Traceback" not in run.stderr


def test_help_starts_fast_because_no_command_is_imported():
    code = (
        "import sys; from respevents import cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print('uvicorn' in sys.modules, 'asyncio' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.endswith("False False\n")
