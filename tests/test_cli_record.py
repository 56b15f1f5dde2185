"""`respevents record`, as a process between a real client and a scripted upstream on loopback."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys

import pytest

pytest.importorskip("httpx")
pytest.importorskip("uvicorn")

from relaying import BODY, FRAMES, OPEN
from respevents.captures import read_captures
from respevents.cli import main
from test_servers import post
from upstream import Upstream, chunked, plain


class Recording:
    def __init__(self, process, port, out):
        self.process, self.port, self.out = process, port, out
        self.lines, self.code = [], None

    def finish(self):
        self.process.send_signal(signal.SIGINT)
        stdout, self.stderr = self.process.communicate(timeout=20)
        self.lines, self.code = stdout.splitlines(), self.process.returncode


@contextlib.contextmanager
def recording(upstream, out, *words):
    command = [
        sys.executable,
        "-m",
        "respevents.cli",
        "record",
        "--upstream",
        upstream,
        "--listen",
        "127.0.0.1:0",
        "--out",
        str(out),
    ]
    env = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    process = subprocess.Popen([*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    try:
        first = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+) ->", first)
        assert found, first + process.stderr.read()
        made = Recording(process, int(found[1]), out)
        yield made
        if made.code is None:
            made.finish()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def test_a_stream_passes_untouched_and_is_kept_with_its_headers_and_its_request(tmp_path):
    with Upstream(chunked(*FRAMES)) as upstream, recording(upstream.url + "/base/", tmp_path) as made:
        status, headers, body = post(made.port, "hi", path="/v1/responses?a=1%20b")
        assert (status, body) == (200, BODY)
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        post(made.port, "again", path="/v1/responses")
    sent = upstream.requests[0]
    assert sent.startswith(b"POST /base/v1/responses?a=1%20b HTTP/1.1\r\n")
    assert b"accept-encoding: identity" in sent.lower()
    assert json.loads(sent.partition(b"\r\n\r\n")[2])["input"] == "hi"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0001.json", "0001.sse", "0002.json", "0002.sse"]
    assert (tmp_path / "0001.sse").read_bytes() == BODY
    kept = json.loads((tmp_path / "0001.json").read_text())
    assert kept["request"]["body"]["input"] == "hi"
    assert kept["request"]["path"] == "/v1/responses?a=1%20b"
    assert (kept["status"], kept["terminal"], kept["ended"]) == (200, "response.completed", "cleanly")
    assert ["content-type", "text/event-stream; charset=utf-8"] in kept["headers"]
    assert made.code == 0
    assert len(made.lines) == 2
    assert re.match(r"0001\.sse  200  response\.completed  10 events  \d+\.\d\ds  ended cleanly  ", made.lines[0])
    assert b"".join(next(iter(read_captures(tmp_path / "0001.sse"))).chunks()) == BODY


@pytest.mark.parametrize("reset", [False, True])
def test_a_cut_stream_is_cut_for_the_client_too_and_what_came_is_kept(tmp_path, reset):
    answer = chunked(*OPEN, FRAMES[-1][:50], end=False)
    with Upstream(answer, reset=reset) as upstream, recording(upstream.url, tmp_path, "--format", "json") as made:
        with pytest.raises((http.client.IncompleteRead, ConnectionError)):
            post(made.port, "hi")
    told = json.loads(made.lines[0])
    assert told["ended"].startswith("cut by the server")
    assert told["terminal"] is None
    assert made.code == 1
    assert (tmp_path / "0001.sse").read_bytes() == b"".join(OPEN) + FRAMES[-1][:50]


def test_what_is_no_stream_passes_and_is_not_kept(tmp_path):
    with Upstream(plain(429, b'{"error":{}}')) as upstream, recording(upstream.url, tmp_path) as made:
        assert post(made.port, "hi")[0::2] == (429, b'{"error":{}}')
    assert list(tmp_path.iterdir()) == [] and made.lines == [] and made.code == 0


def test_keys_and_cookies_are_not_written_down(tmp_path):
    answer = chunked(*FRAMES).replace(b"\r\ntransfer", b"\r\nset-cookie: s=hush\r\ntransfer")
    with Upstream(answer) as upstream, recording(upstream.url, tmp_path) as made:
        link = http.client.HTTPConnection("127.0.0.1", made.port, timeout=20)
        link.request("POST", "/v1/responses", b'{"stream":true}', {"Authorization": "Bearer hush", "X-Api-Key": "hush"})
        assert link.getresponse().read() == BODY
        link.close()
    assert b"Bearer hush" in upstream.requests[0]
    assert "hush" not in (tmp_path / "0001.json").read_text()


def test_findings_are_told_beside_the_stream_and_end_with_1(tmp_path):
    with Upstream(chunked(*OPEN)) as upstream, recording(upstream.url, tmp_path, "--count", "1") as made:
        post(made.port, "hi")
        made.process.wait(timeout=20)
        made.finish()
    assert "1 RE901" in made.lines[0] and "no terminal event" in made.lines[0]
    assert made.code == 1
    assert json.loads((tmp_path / "0001.json").read_text())["findings"]


def test_an_upstream_that_is_not_there_is_502(tmp_path):
    with Upstream(b"") as gone:
        pass
    with recording(gone.url, tmp_path) as made:
        status, _, body = post(made.port, "hi")
    assert status == 502 and b"cannot be reached" in body
    assert made.code == 0


@pytest.mark.parametrize(
    "words",
    [
        ["--upstream", "ftp://x"],
        ["--upstream", "http://"],
        ["--upstream", "http://127.0.0.1:1", "--listen", "x"],
        ["--upstream", "http://127.0.0.1:1", "--listen", "127.0.0.1:99999"],
    ],
)
def test_what_cannot_be_used_is_told_with_2(words, tmp_path, capsys):
    assert main(["record", "--out", str(tmp_path), *words]) == 2
    assert capsys.readouterr().err.startswith("respevents: ")
