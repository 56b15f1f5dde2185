"""The examples, run: gateways in front of a real upstream that is killed in the middle of a frame, servers, a test suite,
and the validation of a store, whose workers are killed too."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import recordings
from conftest import ROOT
from relaying import BODY, FOUR, FRAMES, judged, names
from respevents import FrameDecoder, decode_json, validate_stream
from respevents._demo import serving
from respevents.testing.mutations import MUTATIONS
from test_servers import post
from upstream import Upstream, chunked, plain

CUT = chunked(*FRAMES[:5], FRAMES[5][:60], end=False)
OVER = json.dumps(
    {
        "error": {
            "message": "This model's maximum context length is 512 tokens. However, your messages resulted in 600 tokens.",
            "code": 400,
        }
    }
)


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(params=["httpx", "aiohttp"])
def gateway(request, monkeypatch):
    """Gives a function that asks the gateway in front of an upstream, and returns what its client reads."""
    pytest.importorskip(request.param)

    def ask(upstream):
        monkeypatch.setenv("UPSTREAM", upstream.url)
        module = load(f"gateway_{request.param}")
        if request.param == "httpx":
            with serving(module.app) as port:
                return post(port, "hi", model="asked-for")[2]
        with aiohttp_serving(module.app()) as port:
            return post(port, "hi", model="asked-for")[2]

    return ask


class aiohttp_serving:
    def __init__(self, app):
        self.app = app
        self.loop = asyncio.new_event_loop()
        self.started = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        self.loop.run_until_complete(self._start())
        self.started.set()
        self.loop.run_forever()
        self.loop.run_until_complete(self.runner.cleanup())
        self.loop.close()

    async def _start(self):
        from aiohttp import web

        self.runner = web.AppRunner(self.app, access_log=None)
        await self.runner.setup()
        self.site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await self.site.start()
        self.port = self.site._server.sockets[0].getsockname()[1]

    def __enter__(self):
        self.thread.start()
        assert self.started.wait(10)
        return self.port

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_an_upstream_that_is_killed_in_a_frame_becomes_a_stream_that_ends(gateway, reset):
    with Upstream(CUT, reset=reset) as upstream:
        body = gateway(upstream)
    assert body.startswith(b"".join(FRAMES[:5]))
    events = judged(body, torn=True)
    assert names(body)[-2:] == ["response.failed", "error"]  # the order of the gateway policy
    failed = events[-2]["response"]
    assert failed["id"] == "resp_announced"
    assert failed["error"]["code"] == "stream_failed"


def test_an_upstream_that_ends_early_is_truncated_and_a_whole_one_is_untouched(gateway):
    with Upstream(chunked(*FRAMES[:5])) as upstream:
        assert judged(gateway(upstream))[-2]["response"]["error"]["code"] == "upstream_truncated"
    with Upstream(chunked(*FRAMES)) as upstream:
        assert gateway(upstream) == BODY
        assert json.loads(upstream.requests[0].partition(b"\r\n\r\n")[2])["model"] == "asked-for"


def test_an_upstream_that_refuses_becomes_a_failed_stream(gateway):
    with Upstream(plain(400, OVER.encode())) as upstream:
        body = gateway(upstream)
    assert sorted(names(body)) == sorted(FOUR)
    failed = next(event for event in judged(body) if event["type"] == "response.failed")["response"]
    assert failed["error"]["code"] == "context_length_exceeded"
    assert failed["model"] == "asked-for"


# ---- servers ----------------------------------------------------------------------------------------------------------


def ended(body):
    """The terminal response, of a stream without an error."""
    report = validate_stream(body)
    assert report.ok, str(report)
    events = [decode_json(frame.data) for frame in FrameDecoder().feed(body)]
    return next(event["response"] for event in events if event["type"] in ("response.completed", "response.failed"))


def test_a_server_in_forty_lines_answers_refuses_and_survives():
    assert len((ROOT / "examples" / "server_starlette.py").read_text().splitlines()) <= 40
    with serving(load("server_starlette").app) as port:
        done = ended(post(port, "hi there", input="hi there", model="m")[2])
        assert done["output"][0]["content"][0]["text"] == "hi there "
        refused = ended(post(port, "", input="word " * 9, model="m")[2])
        assert refused["error"]["code"] == "context_length_exceeded"


def test_a_server_is_guarded_by_the_middleware_alone():
    with serving(load("server_middleware").app) as port:
        assert ended(post(port, "", input="a b", model="m")[2])["status"] == "completed"
        died = post(port, "", input="a crash", model="m")[2]
        assert ended(died)["status"] == "failed"
        assert b"CUDA" not in died
        refused = ended(post(port, "", input="word " * 50, model="m")[2])
        assert refused["error"]["code"] == "context_length_exceeded"


def test_the_test_suite_of_a_server_passes():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "examples/testing_a_server"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


# ---- a store ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A tree of captures: every format, good ones, faulty ones, and one that is no capture."""
    root = tmp_path_factory.mktemp("store")
    frames = [frame.raw for frame in FrameDecoder().feed(recordings.stream("word|" * 200))]
    broken = [
        b"".join(MUTATIONS[name].apply(frames).frames) for name in ("no-ending", "a-number-skipped", "another-text")
    ]
    for number in range(24):
        folder = root / f"day-{number % 6}" / f"host-{number}"
        folder.mkdir(parents=True)
        for at, (name, (_, write)) in enumerate(sorted({**recordings.SSE, **recordings.JSON_LINES}.items())[::3]):
            (folder / f"{name.replace(' ', '-').replace(',', '')}.bin").write_bytes(write(b"".join(frames)))
            (folder / f"{at}.sse").write_bytes(broken[at % len(broken)])
    (root / "day-0" / "notes.txt").write_text("no capture")
    return root


def told(module, folder, read):
    paths = sorted(folder.glob(f"*.{'parquet' if 'parquet' in read else 'jsonl'}"))
    found = [
        {key: value for key, value in row.items() if value is not None}
        for path in paths
        for row in getattr(module, read)(path)
    ]
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))


@pytest.fixture(scope="module")
def expected(store, tmp_path_factory):
    """The rows, as one process finds them."""
    module = load("validate_store")
    rows = [row for partition in module.partitions(store, 200) for row in module.rows(partition)]
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))


def example(name, *arguments):
    return [sys.executable, "-W", "error", str(ROOT / "examples" / f"{name}.py"), *map(str, arguments)]


def test_a_store_is_validated_by_several_processes_and_gone_on_with(store, expected, tmp_path):
    command = example("validate_store", store, tmp_path, "--workers", 3)
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 2, run.stderr  # one file is no capture
    assert "25 partitions" in run.stdout
    assert f"{sum(row.get('rule') == 'RE901' for row in expected)} RE901 error" in run.stdout
    module = load("validate_store")
    assert told(module, tmp_path, "read_json_lines") == expected
    written = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    lost = min(written)
    lost.unlink()
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.stdout == run.stdout
    redone = {path for path in tmp_path.iterdir() if path.stat().st_mtime_ns != written[path]}
    assert redone == {lost}


def test_a_partition_that_changed_is_done_again_and_its_old_results_do_not_count(tmp_path):
    (tmp_path / "store").mkdir()
    capture = tmp_path / "store" / "a.sse"
    module = load("validate_store")
    capture.write_bytes(recordings.stream())
    (first,) = module.run(tmp_path / "store", tmp_path / "out", 1, 200)
    capture.write_bytes(b"data: no\n\n")
    (second,) = module.run(tmp_path / "store", tmp_path / "out", 1, 200)
    assert first != second
    assert "RE201" in {row["rule"] for row in module.read_json_lines(second)}


def test_half_a_result_is_never_seen(tmp_path):
    module = load("validate_store")
    with pytest.raises(RuntimeError), module.whole_or_none(tmp_path / "a.jsonl") as path:
        path.write_text("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_finds_the_same_though_a_worker_is_killed_and_then_all_of_it(store, expected, tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    psutil = pytest.importorskip("psutil")
    command = example("validate_on_dask", store, tmp_path, "--workers", 3)

    def results():
        return {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.parquet")}

    def wait_for(count, run):
        deadline = time.monotonic() + 60
        while len(results()) < count and run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(results()) >= count

    def workers(run):
        return [
            one for one in psutil.Process(run.pid).children(recursive=True) if "spawn_main" in " ".join(one.cmdline())
        ]

    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    wait_for(2, run)
    assert len(workers(run)) >= 3
    workers(run)[0].kill()
    wait_for(8, run)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    done = results()
    assert 8 <= len(done) < 25
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 2, again.stderr
    assert "25 partitions" in again.stdout
    assert {path: results()[path] for path in done} == done  # none of them was done again
    monkeypatch.syspath_prepend(ROOT / "examples")
    assert told(load("validate_on_dask"), tmp_path, "read_parquet") == expected
