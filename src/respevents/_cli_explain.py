"""`respevents explain`: a finding (`RE701`, `text-mismatch`) or a failure code (`context_length_exceeded`)."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from respevents._cli_codes import catalogue
from respevents.findings import BY_NAME, RULES

if TYPE_CHECKING:
    import argparse

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("name", nargs="?", help="a rule by id or name, or a failure code; all rules without it")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> int:
    """Print it; 2 when there is no such thing."""
    if arguments.name is None:
        rows: list[dict[str, Any]] = [msgspec.structs.asdict(rule) for rule in RULES.values()]
        if arguments.format == "json":
            print(json.dumps(rows, indent=1))
        else:
            for row in rows:
                print(f"{row['id']}  {row['severity']:<8} {row['name']:<26} {row['why']}")
        return 0
    rule = RULES.get(arguments.name.upper()) or BY_NAME.get(arguments.name)
    if rule is not None:
        found: dict[str, Any] = msgspec.structs.asdict(rule)
    else:
        found = next((row for row in catalogue() if row["code"] == arguments.name), {})
    if not found:
        print(f"respevents: no rule and no failure code {arguments.name!r}; `respevents explain` lists the rules, "
              "`respevents codes` the codes", file=sys.stderr)  # fmt: skip
        return 2
    if arguments.format == "json":
        print(json.dumps(found, indent=1))
        return 0
    for key, value in found.items():
        if value not in (None, (), [], ""):
            said = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
            print(f"{key.replace('_', ' '):<15} {said}")
    return 0
