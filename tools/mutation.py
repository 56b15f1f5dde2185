"""Mutation testing with mutmut 3: which changes of the code does no test notice?

    pip install mutmut
    python tools/mutation.py wire lifecycle stream guard      # groups below; all of them by default
    python tools/mutation.py --report                         # the figures of the last runs
    python tools/mutation.py --show wire                      # its survivors as diffs

Each group runs in a copy of the project under `.mutation/`, with the tests that concern it. The copy matters twice:
mutmut skips decorated functions, so `@step` and `@property` are written out as calls below the class body's end; and
captured streams are not beside it, so tests that read them skip. Survivors and their reasons: `tools/mutation.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".mutation"


class Group(NamedTuple):
    """Modules that are mutated together, and the tests that concern them."""

    modules: str
    tests: str


_WIRE = "test_wire_encode test_sse test_json_traps"
_STREAM = "test_stream"
_GUARD = "test_guard test_guard_faults test_rejections test_dialect"
GROUPS = {
    "wire": Group("wire", _WIRE),
    "lifecycle": Group("lifecycle", "test_lifecycle"),
    "stream": Group("stream", _STREAM),
    "guard": Group("guard", _GUARD),
    "below-wire": Group("_sse _direct", _WIRE),
    "below-stream": Group("_writer _output", _STREAM),
    "below-guard": Group("_ending _watch", _GUARD),
}

SLOW = (
    "linear or megabytes or every_output_item_type_can_be_built_whole or kept_as_tightly or costs_little_more"
    " or within_seconds or thread"
)
"""Tests that measure time or memory, or build much: they say nothing about a mutant that the others do not."""

STATUS = (
    dict.fromkeys((1, 3), "killed")
    | dict.fromkeys((36, 24, -24, 152, 255), "timeout")
    | {0: "survived", 33: "no tests"}
)
"""mutmut's exit codes; None was not run, and what stands here not broke the run of the tests."""


def undecorated(text: str) -> str:
    """The module with `@step` and `@property` of methods written as calls after the class, for mutmut to see them."""
    out: list[str] = []
    calls: list[str] = []
    owner = ""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line and not line[0].isspace() and not line.startswith((")", "#")):
            out += calls
            calls = []
            owner = match.group(1) if (match := re.match(r"class (\w+)", line)) else ""
        if owner and (match := re.fullmatch(r"    @(step|property)", line)):
            found = re.match(r"    def (\w+)\(", lines[number + 1])
            assert found is not None, lines[number + 1]
            calls.append(f"{owner}.{found.group(1)} = {match.group(1)}({owner}.{found.group(1)})")
            continue
        out.append(line)
    return "\n".join([*out, *calls, ""])


def prepare(name: str) -> Path:
    group, target = GROUPS[name], WORK / name
    shutil.rmtree(target, ignore_errors=True)
    for part in ("src", "tests", "schemas"):
        shutil.copytree(ROOT / part, target / part, ignore=shutil.ignore_patterns("__pycache__"))
    for module in group.modules.split():
        path = target / "src" / "respevents" / f"{module}.py"
        path.write_text(undecorated(path.read_text(encoding="utf-8")), encoding="utf-8")
    config = {
        "source_paths": ["src"],
        "only_mutate": [f"src/respevents/{module}.py" for module in group.modules.split()],
        "also_copy": ["schemas"],
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-k", f"not ({SLOW})"],
        "pytest_add_cli_args_test_selection": [f"tests/{test}.py" for test in group.tests.split()],
        "process_isolation": "forkserver",  # a process that ran the tests once has warm caches, which hide mutants
        "timeout_multiplier": 3,
        "timeout_constant": 2,
        "track_dependencies": False,
        "use_git_change_detection": False,
    }
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    lines = "".join(f"{key} = {json.dumps(value)}\n" for key, value in config.items())
    (target / "pyproject.toml").write_text(f"{project}\n[tool.mutmut]\n{lines}", encoding="utf-8")
    return target


def run(name: str, workers: int) -> int:
    target = prepare(name)
    environment = os.environ | {"CI": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", str(workers)]
    return subprocess.run(command, cwd=target, env=environment, check=False).returncode


def results(name: str) -> dict[str, dict[str, str]]:
    """By module, from mutant to status."""
    out: dict[str, dict[str, str]] = {}
    for module in GROUPS[name].modules.split():
        meta = WORK / name / "mutants" / "src" / "respevents" / f"{module}.py.meta"
        if meta.exists():
            codes = json.loads(meta.read_text(encoding="utf-8"))["exit_code_by_key"]
            out[module] = {
                key: "not run" if code is None else STATUS.get(code, f"exit {code}") for key, code in codes.items()
            }
    return out


def report() -> None:
    print("module        mutants  killed  timeout  survived  no tests  not run")
    for name in GROUPS:
        for module, found in results(name).items():
            counts = [
                list(found.values()).count(one) for one in ("killed", "timeout", "survived", "no tests", "not run")
            ]
            print(
                f"{module:12} {len(found):8}"
                + "".join(f"{n:{w}}" for n, w in zip(counts, (8, 9, 10, 10, 9), strict=True))
            )


def show(name: str) -> None:
    for found in results(name).values():
        for key, status in found.items():
            if status != "killed":
                command = [str(Path(sys.executable).with_name("mutmut")), "show", key]
                said = subprocess.run(command, cwd=WORK / name, check=True, capture_output=True, text=True)
                print(f"{status}: {said.stdout}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"any of {', '.join(GROUPS)}; all by default")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--report", action="store_true", help="only print the figures of the last runs")
    parser.add_argument("--show", action="store_true", help="only print what was not killed in the last runs")
    arguments = parser.parse_args()
    names = arguments.groups or list(GROUPS)
    if unknown := set(names) - set(GROUPS):
        parser.error(f"no such group: {', '.join(sorted(unknown))}")
    failed = 0
    for name in names:
        if arguments.show:
            show(name)
        elif not arguments.report:
            failed |= run(name, arguments.workers)
    if not arguments.show:
        report()
    return failed


if __name__ == "__main__":
    sys.exit(main())
