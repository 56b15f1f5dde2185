"""What a type checker says of code that uses the package, in mypy and pyright both."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from conftest import ROOT

TYPING = ROOT / "tests" / "typing"
EXPECTED = {
    number
    for number, line in enumerate((TYPING / "usage_errors.py").read_text().splitlines(), 1)
    if line.endswith("# E")
}


def mypy_errors(path, _scratch):
    run = [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.10", str(path)]
    done = subprocess.run(run, capture_output=True, text=True, cwd=ROOT, check=False)
    assert "Success" in done.stdout or "Found" in done.stdout, done.stdout + done.stderr
    found = re.findall(rf"{re.escape(path.name)}:(\d+): error: (.*)", done.stdout)
    return {int(line): text for line, text in found}


def pyright_errors(path, scratch):
    """In a folder with settings of its own: the project's settings leave out the file that must not pass."""
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.10", "extraPaths": [str(ROOT / "src")]}
    (scratch / "pyrightconfig.json").write_text(json.dumps(settings))
    (scratch / path.name).write_text(path.read_text())
    run = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    env = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    done = subprocess.run(run, capture_output=True, text=True, cwd=scratch, env=env, check=False)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] == 1
    errors = [one for one in found["generalDiagnostics"] if one["severity"] == "error"]
    return {one["range"]["start"]["line"] + 1: one["message"] for one in errors}


@pytest.fixture(params=["mypy", "pyright"])
def checker(request):
    pytest.importorskip(request.param)
    return mypy_errors if request.param == "mypy" else pyright_errors


def test_code_that_uses_the_package_right_is_accepted(checker, tmp_path):
    assert checker(TYPING / "usage.py", tmp_path) == {}


def test_wrong_use_is_an_error_on_its_line_and_nowhere_else(checker, tmp_path):
    assert EXPECTED
    assert set(checker(TYPING / "usage_errors.py", tmp_path)) == EXPECTED
