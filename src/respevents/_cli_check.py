"""`respevents check`: live conformance of a running server that has `/v1/responses`.

The over-long prompt starts at 8,192 words (at what the server names as `max_model_len` in its list of models, where it
does) and grows by four up to 4 MiB; a size that is answered is left at the first delta. `--prompt-tokens N` sends
one prompt of N words and no other. `--captures DIR` keeps the answers as `curl -i` prints them: `.sse` for streams,
`.http` for the rest, `.part` for a stream that the probe itself left.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from respevents._cli_validate import _xml
from respevents._conformance import PROBES, check
from respevents._conformance_bench import Options
from respevents._conformance_link import Link, base_of
from respevents._errors import RemoteProtocolError, show
from respevents.findings import CLIENTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from respevents._conformance import Result

__all__ = ["add_arguments", "run"]

_COLOURS = {"pass": "32", "fail": "31;1", "skip": "33", "error": "31", "warning": "33"}
_SHOWN = 3
"""Findings of one rule that the table shows; the reports have all."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description = "Check a running server: what it is asked, what is wrong with its answers, whom that breaks."
    parser.epilog = (
        "Exit codes: 0 everything passes or is skipped, 1 findings, 2 nothing to check (no server, no way in, no such "
        "model). Requests go to URL and nowhere else."
    )
    parser.add_argument("url", nargs="?", metavar="URL", help="with or without /v1 or /v1/responses")
    parser.add_argument("--model", metavar="M", help="the model to ask for")
    parser.add_argument("--key-env", metavar="VAR", help="the environment variable with the key (default: no key)")
    parser.add_argument("--list", action="store_true", help="name the probes, and stop")
    parser.add_argument("--only", action="append", default=[], metavar="PROBE", help="this probe (may be repeated)")
    parser.add_argument("--client", choices=CLIENTS, help="what breaks this client is an error")
    parser.add_argument("--timeout", type=_seconds, default=60.0, metavar="S", help="seconds for an answer (60)")
    parser.add_argument(
        "--prompt-tokens", type=_count, metavar="N", help="words of the over-long prompt (default: it grows to 4 MiB)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write a JUnit report")
    parser.add_argument("--captures", type=Path, metavar="DIR", help="keep the answers, for `validate` and `read`")


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 86400:
        raise argparse.ArgumentTypeError(f"{text} is no time to wait")
    return value


def _count(text: str) -> int:
    value = int(text)
    if not 0 < value <= 10_000_000:
        raise argparse.ArgumentTypeError(f"{text} is no number of words from 1 to 10,000,000")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Check; 0 pass or skip, 1 findings, 2 nothing to check."""
    if arguments.list:
        _list(as_json=arguments.format == "json")
        return 0
    options = _options(arguments)
    results: list[Result] = []
    told: dict[str, str] = {}
    text = arguments.format == "text"
    try:
        if text:
            print(f"{options.link.address}, model {options.model}")
        for result in check(options, arguments.only or None):
            results.append(result)
            if text:
                _print(result, told)
    finally:
        options.link.close()
    failed = sum(result.verdict == "fail" for result in results)
    if text:
        counts = {one: sum(result.verdict == one for result in results) for one in ("pass", "fail", "skip")}
        print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    else:
        print(json.dumps(_report(options, results), indent=1))
    if arguments.junit is not None:
        try:
            arguments.junit.write_text(_junit(options, results), encoding="utf-8", errors="replace")
        except OSError as error:
            raise _unwritable(arguments.junit, error) from error
    return 1 if failed else 0


def _options(arguments: argparse.Namespace) -> Options:
    """What was asked for, or a RemoteProtocolError that says what is missing."""
    if arguments.url is None or not arguments.model:
        raise RemoteProtocolError("check needs a URL and --model", fix="check http://127.0.0.1:8000 --model M")
    known = {probe.name for probe in PROBES}
    for name in arguments.only:
        if name not in known:
            raise RemoteProtocolError("--only: no such probe", got=show(name), fix="See `respevents check --list`.")
    base = base_of(arguments.url)
    key = None
    if arguments.key_env is not None:
        key = os.environ.get(arguments.key_env, "").strip()
        if not key:
            raise RemoteProtocolError(f"--key-env: the variable {show(arguments.key_env)} is not set, or empty")
    if arguments.captures is not None:
        try:
            arguments.captures.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(arguments.captures, error) from error
    return Options(
        Link(base, key=key, timeout=arguments.timeout),
        arguments.model,
        arguments.client,
        arguments.prompt_tokens,
        arguments.captures,
    )


def _unwritable(path: Path, error: OSError) -> RemoteProtocolError:
    return RemoteProtocolError(f"{path} cannot be written: {error.strerror or error}")


def _list(*, as_json: bool) -> None:
    if as_json:
        print(json.dumps([{"name": probe.name, "help": probe.help} for probe in PROBES], indent=1))
        return
    width = max(len(probe.name) for probe in PROBES)
    for probe in PROBES:
        print(f"{probe.name.ljust(width)}  {probe.help}")


def _print(result: Result, told: dict[str, str]) -> None:
    """A line of the table and its findings. `told` maps the rules already told in full to their probe."""
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def paint(text: str, kind: str) -> str:
        return f"\x1b[{_COLOURS[kind]}m{text}\x1b[0m" if colour else text

    width = max(len(probe.name) for probe in PROBES)
    said = f"  {result.said}" if result.said else ""
    line = f"{paint(result.verdict, result.verdict)}  {result.name.ljust(width)} {result.seconds:6.2f} s{said}"
    print(_plain(line) if not colour else line, flush=True)
    groups: dict[str, list[Any]] = {}
    for found in result.found:
        if found.finding.severity != "info":
            groups.setdefault(found.finding.rule, []).append(found)
    again: dict[str, list[str]] = {}
    for rule, several in sorted(groups.items(), key=lambda pair: (pair[1][0].finding.severity, pair[0])):
        first = several[0].finding
        if rule in told and not any(one.of_server for one in several):
            again.setdefault(told[rule], []).append(rule)
            continue
        new = told.setdefault(rule, result.name) == result.name
        print(f"      {paint(first.severity, first.severity)} {rule} {first.name}")
        for one in several[:_SHOWN]:
            print(f"        {_plain(_line(one))}")
        if len(several) > _SHOWN:
            print(f"        and {len(several) - _SHOWN} more")
        if new:
            print(f"        breaks: {first.breaks}\n        fix: {first.fix}")
    for probe, rules in again.items():
        print(f"      {', '.join(rules)}: as under {probe}")


def _line(found: Any) -> str:
    finding = found.finding
    where = f"{found.answer}, " if found.answer else ""
    if found.of_server:
        return f"{where.removesuffix(', ')}{': ' if where else ''}{finding.message}"
    event = f" {finding.event}" if finding.event else ""
    path = f" {finding.path}" if finding.path != "$" else ""
    return f"{where}frame {finding.frame}{event}{path}: {finding.message}"


def _plain(text: str) -> str:
    """Text of a server, fit for a terminal: no control characters."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def _report(options: Options, results: Iterable[Result]) -> dict[str, Any]:
    from respevents import __version__

    rows = [
        {
            "probe": result.name,
            "verdict": result.verdict,
            "seconds": round(result.seconds, 3),
            "said": result.said,
            "captures": list(result.captures),
            "findings": [{"answer": found.answer, **_told(found)} for found in result.found],
        }
        for result in results
    ]
    return {
        "url": options.link.address,
        "model": options.model,
        "version": __version__,
        "ok": all(row["verdict"] != "fail" for row in rows),
        "probes": rows,
    }


def _told(found: Any) -> dict[str, Any]:
    whole: dict[str, Any] = msgspec.to_builtins(found.finding)
    if found.of_server:  # no place in a stream
        for key in ("frame", "offset", "path", "event"):
            del whole[key]
    return whole


def _junit(options: Options, results: list[Result]) -> str:
    from xml.sax.saxutils import escape, quoteattr

    counts = {verdict: sum(result.verdict == verdict for result in results) for verdict in ("fail", "skip")}
    suite = quoteattr(_xml(f"respevents check {options.link.address}"))
    numbers = f'tests="{len(results)}" failures="{counts["fail"]}" skipped="{counts["skip"]}"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f"<testsuite name={suite} {numbers}>"]
    for result in results:
        lines.append(f'  <testcase classname="respevents.check" name="{result.name}" time="{result.seconds:.3f}">')
        errors = [found for found in result.found if found.finding.severity == "error"]
        others = [found for found in result.found if found.finding.severity != "error"]
        if errors:
            first = errors[0].finding
            text = "\n".join(f"{found.finding.rule} {found.finding.name}: {_line(found)}" for found in errors)
            message = quoteattr(_xml(f"{first.rule} {first.name}: {first.message}"))
            lines.append(f"    <failure message={message}>{escape(_xml(text))}</failure>")
        elif result.verdict == "skip":
            lines.append(f"    <skipped message={quoteattr(_xml(result.said))}/>")
        if others:
            text = "\n".join(f"{found.finding.rule} {found.finding.name}: {_line(found)}" for found in others)
            lines.append(f"    <system-out>{escape(_xml(text))}</system-out>")
        lines.append("  </testcase>")
    return "\n".join([*lines, "</testsuite>", ""])
