"""The pytest plugin, run by a pytest of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("h11")
pytest.importorskip("wsproto")

from respevents.testing.scenarios import SCENARIOS

pytest_plugins = ["pytester"]


def body_of(name):
    return b"".join(SCENARIOS[name].play({}, 1).chunks)


@pytest.fixture
def run(pytester, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    return lambda *words: pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:xdist", *words)


def test_the_plugin_is_there_and_imports_nothing_until_it_is_used(pytester, run):
    pytester.makepyfile(
        """
        import sys

        def test_light(pytestconfig):
            assert pytestconfig.pluginmanager.has_plugin("respevents")
            heavy = [name for name in sys.modules if name.startswith(("respevents.", "msgspec", "h11", "wsproto"))]
            assert sorted(heavy) == ["respevents.testing", "respevents.testing.plugin"]
        """
    )
    run().assert_outcomes(passed=1)


def test_the_server_serves_synchronous_and_asynchronous_tests_and_each_sees_its_own_requests(pytester, run):
    pytester.makepyfile(
        """
        import asyncio, json, urllib.request

        def read(url):
            return urllib.request.urlopen(urllib.request.Request(url + "/responses", b'{"stream": true}')).read()

        def test_sync(responses_server, assert_stream):
            responses_server.add("mine", read(responses_server.base_url("text")))
            assert assert_stream(read(responses_server.base_url("mine"))).events == 14
            assert len(responses_server.requests) == 2

        def test_async(responses_server):
            async def go():
                host, _, port = responses_server.url.removeprefix("http://").partition(":")
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(b"POST /s/over-length/v1/responses HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n"
                             b'Content-Length: 16\\r\\n\\r\\n{"stream": true}')
                got = await reader.read()
                writer.close()
                return got

            assert b"response.failed" in asyncio.run(go())
            assert [one.scenario for one in responses_server.requests] == ["over-length"]
            assert "mine" not in responses_server.scenarios
        """
    )
    run().assert_outcomes(passed=2)


def test_a_stream_that_is_wrong_fails_with_its_timeline_and_the_finding_under_its_frame(pytester, run):
    (pytester.path / "bad.sse").write_bytes(body_of("fault-another-text"))
    pytester.makepyfile(
        """
        from pathlib import Path

        def test_bytes(assert_stream):
            assert_stream(Path("bad.sse").read_bytes())

        def test_path(assert_stream):
            assert_stream("bad.sse")

        def test_chunks(assert_stream):
            assert_stream(iter([Path("bad.sse").read_bytes()[:100], Path("bad.sse").read_bytes()[100:]]))
        """
    )
    result = run()
    result.assert_outcomes(failed=3)
    for test in ("test_bytes", "test_path", "test_chunks"):
        result.stdout.fnmatch_lines(
            [f"*{test}*", "*output_text.delta x6*", "*^ RE701 error: *", "*response.completed*"]
        )
    result.stdout.no_fnmatch_line("*testing/__init__.py*")


def test_two_streams_that_differ_are_compared_event_by_event(pytester, run):
    (pytester.path / "a.sse").write_bytes(body_of("text"))
    (pytester.path / "b.sse").write_bytes(body_of("fault-another-text"))
    (pytester.path / "c.sse").write_bytes(body_of("text").replace(b"\n", b"\r\n"))
    pytester.makepyfile(
        """
        from pathlib import Path

        def test_value():
            assert Path("a.sse").read_bytes() == Path("b.sse").read_bytes()

        def test_framing():
            assert Path("a.sse").read_bytes() == Path("c.sse").read_bytes()

        def test_other_bytes():
            assert b"event" == b"data"
        """
    )
    result = run()
    result.assert_outcomes(failed=3)
    result.stdout.fnmatch_lines(["*frame 10 (response.output_text.done): value at $.text: *script.'*script.~'*"])
    result.stdout.fnmatch_lines(["*what differs is framing*"])


def test_captures_become_tests(pytester, run):
    folder = pytester.path / "captures"
    (folder / "sub").mkdir(parents=True)
    (folder / "good.sse").write_bytes(body_of("text"))
    (folder / "good.json").write_text('{"written": "by respevents record"}')
    (folder / "sub" / "bad.sse").write_bytes(body_of("fault-another-text"))
    (folder / "sub" / "two.sse").write_bytes(body_of("text") + body_of("tool-call"))
    (folder / "sub" / "unreadable.bin").write_bytes(b"\x00\x01\x02")
    pytester.makepyfile("def test_of_the_suite(): pass")
    result = run("--responses-captures", "captures", "-v")
    result.assert_outcomes(passed=4, failed=2)
    result.stdout.fnmatch_lines(["*bad.sse*stream-1*FAILED*", "*two.sse*stream-2*PASSED*"])
    result.stdout.fnmatch_lines(["*^ RE701 error*"])
    run("--responses-captures", "captures", "-m", "responses_capture").assert_outcomes(passed=3, failed=2, deselected=1)
    run("--responses-captures", "captures/good.sse", "test_captures_become_tests.py").assert_outcomes(passed=2)
    run().assert_outcomes(passed=1)


def test_captures_are_held_against_a_named_client(pytester, run):
    (pytester.path / "one.sse").write_bytes(body_of("fault-lone-cr"))
    words = ("--responses-captures", "one.sse")
    run(*words).assert_outcomes(passed=1)
    run(*words, "--responses-client", "codex").assert_outcomes(failed=1)
    result = run(*words, "--responses-client", "netscape")
    assert result.ret != 0
    result.stderr.fnmatch_lines(["*--responses-client: *codex*"])


def test_a_folder_of_captures_that_is_not_there_is_an_error(run):
    result = run("--responses-captures", "nowhere")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--responses-captures: no such folder or file: nowhere*"])


def test_an_answer_that_is_no_stream_is_skipped_with_a_reason(pytester, run):
    kept = pytester.mkdir("kept")
    (kept / "one.sse").write_bytes(body_of("text"))
    (kept / "refused.txt").write_bytes(
        b'HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n\r\n{"error": {}}'
    )
    result = run("--responses-captures", "kept", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*HTTP 400 application/json is no event stream*"])


def test_captures_are_tests_in_parallel_too(pytester):
    pytest.importorskip("xdist")
    (pytester.path / "one.sse").write_bytes(body_of("text"))
    (pytester.path / "two.sse").write_bytes(body_of("fault-another-text"))
    words = [sys.executable, "-m", "pytest", "-n", "2", "-p", "no:cacheprovider", "--responses-captures", "."]
    done = subprocess.run(words, cwd=pytester.path, capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
