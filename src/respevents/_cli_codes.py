"""`respevents codes`: the failure catalogue, as a table or JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from respevents.failures import CATALOGUE, FailureCode

if TYPE_CHECKING:
    import argparse

__all__ = ["add_arguments", "catalogue", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--format", choices=("text", "json"), default="text")


def catalogue() -> list[dict[str, Any]]:
    """One row for each code: the causes that carry it, and what is known of it (`CodeFacts`)."""
    causes: dict[str, list[str]] = {}
    for cause, facts in CATALOGUE.items():
        if facts.code is not None:
            causes.setdefault(facts.code, []).append(cause.value)
    return [
        {"code": code.value, "causes": causes.get(code.value, []), **msgspec.structs.asdict(code.facts)}
        for code in FailureCode
    ]


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    rows = catalogue()
    if arguments.format == "json":
        print(json.dumps(rows, indent=1))
        return 0
    columns = {
        "code": "code",
        "causes": "causes",
        "error_type": "error.type",
        "sdk_since": "in the SDK literal since",
        "codex": "Codex",
        "ai_sdk": "AI SDK takes it for",
        "pydantic_ai": "pydantic-ai raises",
        "litellm": "LiteLLM answers",
    }
    table = [list(columns.values())]
    for one in rows:
        cells = {**one, "causes": ", ".join(one["causes"]), "sdk_since": one["sdk_since"] or "not in it"}
        if one["codex_since"]:
            cells["codex"] = f"{one['codex']} (since {one['codex_since']})"
        table.append(["-" if cells[key] in {None, ""} else str(cells[key]) for key in columns])
    widths = [max(len(line[at]) for line in table) for at in range(len(columns))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return 0
