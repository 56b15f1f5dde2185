"""The benchmarks run, and each can fail. Their bounds are judged by hand: `python benchmarks/bench_delta.py`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from conftest import ROOT

BENCHMARKS = sorted((ROOT / "benchmarks").glob("bench_*.py"))


def bench(path, *words):
    run = [sys.executable, str(path), "--quick", *words]
    return subprocess.run(run, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_a_benchmark_runs_to_its_end(path):
    run = bench(path, "--slack", "1000")  # no timed test: a busy machine is nobody's fault
    assert run.returncode == 0, run.stdout + run.stderr
    assert "ok  " in run.stdout


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda path: path.stem)
def test_a_missed_bound_ends_with_1(path):
    run = bench(path, "--slack", "0.001")
    assert run.returncode == 1, run.stdout + run.stderr
    assert "MISS" in run.stdout
