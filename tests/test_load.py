"""`tools/load_middleware.py`: it runs, and it can fail."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

pytest.importorskip("uvicorn")

from conftest import ROOT
from relaying import BODY, FRAMES, Relayed

SCRIPT = ROOT / "tools" / "load_middleware.py"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it counts what a process holds under /proc")


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("load_middleware", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_small_load_with_faults_holds():
    run = subprocess.run(
        [sys.executable, SCRIPT, "--streams", "120"], capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "ok   0 of 240" in run.stdout


def test_what_must_not_happen_is_seen(script):
    good = Relayed(FRAMES[:5]).body
    assert script.faults_of(good, b"", "return") == []
    assert script.faults_of(BODY, BODY, "none") == []
    assert script.faults_of(BODY + b": x\n\n", BODY, "none") == ["a whole stream was altered"]
    (missing,) = script.faults_of(b"".join(FRAMES[:5]), b"", "return")
    assert missing.startswith("terminal events")
    assert len(script.faults_of(good + FRAMES[-1], b"", "cut")) == 2
    assert script.faults_of(good.replace(b'"sequence_number":3', b'"sequence_number":4'), b"", "cut") == [
        "the numbering has gaps"
    ]
    assert script.faults_of(good.replace(b"announced-model", b"10.0.0.7"), b"", "cut") == ["internals were told"]
