"""`respevents read`: what a named client does with a captured answer, and why."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from respevents.readers import READERS, End, answers_of, open_reader, read

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from respevents.readers import Outcome

__all__ = ["add_arguments", "run"]

_ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("file", metavar="FILE", help="a capture in any known form; '-' is standard input")
    parser.add_argument("--as", dest="client", choices=(*READERS, _ALL), default=_ALL, help="default: all of them")
    parser.add_argument("--version", help="the client's version, where its behaviour changed (with one --as)")
    parser.add_argument("--status", type=int, help="HTTP status; FILE is then the body of the answer as it is")
    parser.add_argument("--end", choices=get_args(End), default="clean", help="how the body ends")
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> int:
    """Read; 0 where every client asked about takes each answer for whole, 1 where one does not, 2 unusable input."""
    clients = list(READERS) if arguments.client == _ALL else [arguments.client]
    if arguments.version is not None and arguments.client == _ALL:
        print("respevents: --version needs one client: name it with --as", file=sys.stderr)
        return 2
    try:
        if arguments.version is not None:
            open_reader(arguments.client).open(version=arguments.version)
        answers = list(_answers(arguments))
    except (ValueError, OSError) as error:
        print(f"respevents: {error}", file=sys.stderr)
        return 2
    found: list[tuple[str, list[Outcome]]] = []
    for name, body, status, headers in answers:
        outcomes = [
            read(body, client, version=arguments.version, status=status, headers=headers, end=arguments.end)
            for client in clients
        ]
        found.append((name, outcomes))
    if arguments.format == "json":
        rows = [{"name": name, **msgspec.to_builtins(one)} for name, outcomes in found for one in outcomes]
        print(json.dumps(rows, indent=1))
    else:
        for name, outcomes in found:
            print(_safe(name))
            if len(outcomes) == 1:
                _explain(outcomes[0])
            else:
                _table(outcomes)
    return 0 if all(one.kind == "completed" for _, outcomes in found for one in outcomes) else 1


def _answers(arguments: argparse.Namespace) -> Iterator[tuple[str, bytes, int, Mapping[str, str]]]:
    """Name, body, status and headers of every answer in the file."""
    from pathlib import Path

    if arguments.status is not None:
        name = arguments.file
        yield name, sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes(), arguments.status, {}
        return
    for kept in answers_of(arguments.file):
        yield kept.name, b"".join(kept.body), kept.status or 200, kept.headers


def _explain(outcome: Outcome) -> None:
    facts: dict[str, Any] = {
        "client": f"{outcome.client} {outcome.version}",
        "outcome": outcome.kind,
        "text": outcome.text,
        "calls": ", ".join(call.name for call in outcome.tool_calls),
        "code": outcome.code,
        "message": outcome.message,
        "raises": outcome.raises,
        "status": outcome.status,
        "final": outcome.final,
        "requests": outcome.requests,
        "retry after": outcome.retry_after,
        "surfaces": ", ".join(outcome.events),
    }
    for name, value in facts.items():
        if value not in {None, ""}:
            print(f"  {name:<12}{_safe(_short(str(value), 400))}")
    for sentence in outcome.why:
        print(f"  because     {_safe(sentence)}")


def _table(outcomes: list[Outcome]) -> None:
    table = [["client", "outcome", "requests", "raises", "code", "text"]]
    table += [
        [
            f"{one.client} {one.version}",
            one.kind,
            str(one.requests),
            one.raises or "-",
            one.code or "-",
            _short(one.text.replace("\n", " "), 40) or "-",
        ]
        for one in outcomes
    ]
    widths = [max(len(line[at]) for line in table) for at in range(len(table[0]))]
    for line in table:
        cells = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print(_safe(f"  {cells.rstrip()}"))


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."


def _safe(text: str) -> str:
    """Text of a stranger for a terminal: half a surrogate pair or a control character is written out."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
