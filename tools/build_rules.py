"""Compile src/respevents/rules/*.toml into src/respevents/_generated/ (Python 3.10 has no TOML reader): the rules into
rules.py, their examples, which only the test kit reads, into rule_examples.py.

    python tools/build_rules.py [--check]

--check writes nothing and fails when the committed file differs. A rule that is not whole is named and refused: ids
are unique, causes exist, patterns compile without nested repetition, and every pattern has an example.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import tomllib

from respevents.classifier import readable
from respevents.failures import Cause

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "src" / "respevents" / "rules"
GENERATED = ROOT / "src" / "respevents" / "_generated"
KEYS = {
    "id", "cause", "pattern", "classes", "codes", "status", "decisive", "weak", "own", "versions", "source", "examples",
    "not",
}  # fmt: skip
HEAD = '''"""The rules of the classifier, compiled by tools/build_rules.py from src/respevents/rules/. Do not edit."""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """One rule: a wording, or codes, class names or statuses, and the cause they stand for."""

    id: str
    engine: str
    cause: str
    pattern: str = ""
    classes: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    status: tuple[int, ...] = ()
    decisive: bool = False
    weak: bool = False
    own: bool = False


'''


def engines() -> list[dict[str, Any]]:
    """Every rules file, `generic` last: what is particular comes before what is common."""
    files = sorted(RULES.glob("*.toml"), key=lambda file: (file.stem == "generic", file.stem))
    return [tomllib.loads(file.read_text("utf-8")) for file in files]


def faults(rule: dict[str, Any], seen: set[str]) -> list[str]:
    """What is wrong with one rule, as sentences."""
    found = [f"unknown key {key}" for key in rule if key not in KEYS]
    found += [f"needs {key}" for key in ("id", "cause", "source") if not rule.get(key)]
    if rule["id"] in seen:
        found.append("the id is taken")
    if rule["cause"] not in set(Cause):
        found.append(f"no such cause: {rule['cause']}")
    if not any(rule.get(key) for key in ("pattern", "codes", "status")):
        found.append("needs a pattern, codes or status")
    pattern = rule.get("pattern")
    if pattern:
        try:
            re.compile(readable(pattern))
        except re.error as error:
            found.append(f"the pattern does not compile: {error}")
        if re.search(r"[*+}]\)[*+]|[*+}]\)\{\d+,\}", re.sub(r"\\.", "x", pattern)):
            found.append("the pattern repeats a repetition without bound: its time would not be linear")
        if not rule.get("examples"):
            found.append("needs an example")
    return found


def compile_rules() -> str:
    """The module's text. Raises SystemExit naming every fault."""
    lines, names, modules, faulty = [], {}, {}, []
    seen: set[str] = set()
    for engine in engines():
        name = engine["engine"]
        names.update(dict.fromkeys([name, *engine.get("names", [])], name))
        modules.update(dict.fromkeys(engine.get("modules", []), name))
        for rule in engine["rule"]:
            faulty += [f"{rule['id']}: {fault}" for fault in faults(rule, seen)]
            seen.add(rule["id"])
            given = [f"id={rule['id']!r}", f"engine={name!r}", f"cause={rule['cause']!r}"]
            given += [f"pattern={rule['pattern']!r}"] if rule.get("pattern") else []
            given += [f"{key}={tuple(rule[key])!r}" for key in ("classes", "codes", "status") if rule.get(key)]
            given += [f"{key}=True" for key in ("decisive", "weak", "own") if rule.get(key)]
            lines.append(f"    Rule({', '.join(given)}),")
    if faulty:
        raise SystemExit("\n".join(faulty))
    return (
        HEAD
        + "RULES: tuple[Rule, ...] = (\n" + "\n".join(lines) + "\n)\n\n"
        + "NAMES: tuple[tuple[str, str], ...] = (\n"
        + "".join(f"    {pair!r},\n" for pair in sorted(names.items()))
        + ")\n"
        + '"""What an engine goes by, and its rules file."""\n\n'
        + "MODULES: dict[str, str] = {\n"
        + "".join(f"    {key!r}: {value!r},\n" for key, value in sorted(modules.items()))
        + "}\n" + '"""Package of an exception class -> engine."""\n'
    )  # fmt: skip


def compile_examples() -> str:
    """The text of the module of examples."""
    lines = [
        f"    {rule['id']!r}: (\n" + "".join(f"        {one!r},\n" for one in rule["examples"]) + "    ),\n"
        for engine in engines()
        for rule in engine["rule"]
        if rule.get("examples")
    ]
    return (
        '"""The examples of the rules, compiled by tools/build_rules.py from src/respevents/rules/. Do not edit."""\n\n'
        "from __future__ import annotations\n\n"
        "EXAMPLES: dict[str, tuple[str, ...]] = {\n" + "".join(lines) + "}\n"
        '"""Id of a rule -> texts that its wording is for."""\n'
    )


def main(arguments: list[str] | None = None) -> int:
    """Write or check; 0 when nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    differs = 0
    for name, text in (("rules.py", compile_rules()), ("rule_examples.py", compile_examples())):
        target = GENERATED / name
        if not options.check:
            target.write_text(text, "utf-8")
        elif not target.is_file() or target.read_text("utf-8") != text:
            print(f"{target.relative_to(ROOT)}: differs from what tools/build_rules.py makes; run it", file=sys.stderr)
            differs = 1
    return differs


if __name__ == "__main__":
    sys.exit(main())
