"""`respevents validate`: captures in any format, every fault named."""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from respevents import schemas
from respevents._capture import is_note
from respevents._dialect import DIALECTS
from respevents._errors import ProtocolError
from respevents.findings import CLIENTS, RULES
from respevents.validate import StreamValidator

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from respevents.validate import Report

__all__ = ["add_arguments", "run"]

_COLOURS = {"error": "31", "warning": "33", "info": "36"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="captures, or folders of them; '-' is standard input")
    parser.add_argument("--schema", choices=schemas.VERSIONS, help="default: the one of the response's date")
    parser.add_argument("--profile", choices=("wire", "strict"), default="wire")
    parser.add_argument("--dialect", choices=DIALECTS, help="default: told by the stream")
    parser.add_argument("--client", choices=CLIENTS, help="what breaks this client is an error")
    parser.add_argument("--strict", action="store_true", help="unknown events, items and keys are errors")
    parser.add_argument("--fragment", action="store_true", help="a piece of a stream: no start and no end needed")
    parser.add_argument("--select", default="", metavar="RULES", help="only these (RE701,usage-total or RE7)")
    parser.add_argument("--ignore", default="", metavar="RULES", help="not these")
    parser.add_argument("--format", choices=("text", "json", "sarif", "junit"), default="text")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="files side by side")
    parser.add_argument("-q", "--quiet", action="store_true", help="no streams without findings, no progress")


def run(arguments: argparse.Namespace) -> int:
    """Validate; 0 no errors, 1 errors, 2 a file that cannot be read."""
    options: dict[str, Any] = {
        "schema": arguments.schema,
        "profile": arguments.profile,
        "dialect": arguments.dialect,
        "client": arguments.client,
        "strict": arguments.strict,
        "fragment": arguments.fragment,
        "select": tuple(one.strip() for one in arguments.select.split(",") if one.strip()),
        "ignore": tuple(one.strip() for one in arguments.ignore.split(",") if one.strip()),
    }
    try:
        StreamValidator(**options)
    except ValueError as error:
        print(f"respevents: {error}", file=sys.stderr)
        return 2
    files = list(_files(arguments.files))
    if not files:
        print("respevents: no files to validate", file=sys.stderr)
        return 2
    if arguments.jobs < 1:
        print(f"respevents: --jobs: expected 1 or more, got {arguments.jobs}", file=sys.stderr)
        return 2
    reports: list[Report] = []
    unreadable = 0
    for name, (found, message, no_stream) in _all(files, options, arguments):
        reports += found
        if message is not None:
            # An answer that is no stream is passed over in a folder, and refused where the file itself is named.
            unreadable += not no_stream or name in arguments.files
            print(f"respevents: {message}", file=sys.stderr)
        if arguments.format == "text":
            for report in found:
                if report.findings or not arguments.quiet:
                    _text(report)
    if arguments.format == "json":
        print(json.dumps([report.to_dict() for report in reports], indent=1, ensure_ascii=False))
    elif arguments.format == "sarif":
        print(json.dumps(_sarif(reports), indent=1, ensure_ascii=False))
    elif arguments.format == "junit":
        print(_junit(reports))
    if unreadable or not reports:
        return 2
    return 0 if all(report.ok for report in reports) else 1


def _files(names: list[str]) -> Iterator[str]:
    for name in names:
        path = Path(name)
        if name != "-" and path.is_dir():
            yield from sorted(
                str(one)
                for one in path.rglob("*")
                if one.is_file() and not one.name.startswith(".") and not is_note(one)
            )
        else:
            yield name


def _all(files: list[str], options: dict[str, Any], arguments: argparse.Namespace) -> Iterator[tuple[str, _Judged]]:
    bar = _Bar(files, quiet=arguments.quiet)
    if arguments.jobs > 1 and len(files) > 1:
        with ProcessPoolExecutor(arguments.jobs) as pool:
            for name, answer in zip(files, pool.map(_one, files, [options] * len(files)), strict=True):
                bar.file(name)
                yield name, answer
    else:
        for name in files:
            yield name, _one(name, options, bar)
            bar.file(name)
    bar.end()


def _one(name: str, options: dict[str, Any], bar: _Bar | None = None) -> _Judged:
    from respevents.captures import NoStreamError, read_captures

    reports: list[Report] = []
    try:
        for capture in read_captures(name):
            validator = StreamValidator(framing=capture.framing, name=capture.name, **options)
            for chunk in capture.chunks():
                validator.feed(chunk)
                if bar is not None:
                    bar.bytes(len(chunk))
            reports.append(validator.close())
    except (ProtocolError, OSError) as error:
        said = str(error) if isinstance(error, ProtocolError) else f"{name}: {error.strerror or error}"
        return reports, said, isinstance(error, NoStreamError)
    if not reports:
        report = StreamValidator(name=name, **options).close()
        reports.append(report)
    return reports, None, False


_Judged: TypeAlias = "tuple[list[Report], str | None, bool]"
"""Of a file: reports, what could not be read, and whether that is an answer without a stream."""


class _Bar:
    """How far it is: on standard error, on a terminal, and only where it takes a while."""

    def __init__(self, files: list[str], *, quiet: bool) -> None:
        self.shown = not quiet and sys.stderr.isatty()
        self.total = sum(os.path.getsize(name) for name in files if os.path.isfile(name)) if self.shown else 0  # noqa: PTH113, PTH202
        self.done = 0
        self.began = self.last = time.monotonic()

    def bytes(self, count: int) -> None:
        self.done += count
        now = time.monotonic()
        if self.shown and self.total and now - self.began > 1 and now - self.last > 0.2:
            self.last = now
            share = min(1.0, self.done / self.total)
            print(f"\r[{'#' * int(30 * share):<30}] {share:4.0%}", end="", file=sys.stderr, flush=True)

    def file(self, _name: str) -> None:
        self.bytes(0)

    def end(self) -> None:
        if self.shown and self.last != self.began:
            print("\r" + " " * 40 + "\r", end="", file=sys.stderr, flush=True)


def _text(report: Report) -> None:
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def paint(text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if colour else text

    counts = {level: sum(one.severity == level for one in report.findings) for level in _COLOURS}
    said = ", ".join(paint(f"{count} {level}", _COLOURS[level]) for level, count in counts.items() if count)
    verdict = paint("ok", "32") if report.ok else paint("FAULTY", "31;1")
    form = f"{report.framing}, {report.dialect}, {report.schema} {report.profile}"
    print(f"{verdict} {report.name}: {report.events} events ({form}){': ' + said if said else ''}")
    groups: dict[str, list[Any]] = {}
    for finding in report.findings:
        groups.setdefault(finding.rule, []).append(finding)
    for rule, found in sorted(groups.items(), key=lambda pair: (list(_COLOURS).index(pair[1][0].severity), pair[0])):
        first = found[0]
        print(f"  {paint(first.severity, _COLOURS[first.severity])} {rule} {first.name}")
        for one in found[:10]:
            event = f" {one.event}" if one.event else ""
            path = f" {one.path}" if one.path != "$" else ""
            print(f"    frame {one.frame}, byte {one.offset}{event}{path}: {one.message}")
        if len(found) > 10:
            print(f"    and {len(found) - 10} more")
        print(f"    breaks: {first.breaks}\n    fix: {first.fix}")


def _sarif(reports: list[Report]) -> dict[str, Any]:
    from respevents import __version__

    levels = {"error": "error", "warning": "warning", "info": "note", "off": "none"}
    rules = [
        {
            "id": rule.id,
            "name": rule.name,
            "shortDescription": {"text": rule.why},
            "fullDescription": {"text": rule.breaks},
            "help": {"text": rule.fix},
            "defaultConfiguration": {"level": levels[rule.severity]},
        }
        for rule in RULES.values()
    ]
    results = [
        {
            "ruleId": one.rule,
            "level": levels[one.severity],
            "message": {"text": f"{one.message} ({one.path}). {one.fix}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": report.name},
                        "region": {"byteOffset": one.offset, "byteLength": 0},
                    },
                    "logicalLocations": [{"name": f"frame {one.frame}", "fullyQualifiedName": one.path}],
                }
            ],
        }
        for report in reports
        for one in report.findings
    ]
    driver = {"name": "respevents", "version": __version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _junit(reports: list[Report]) -> str:
    from xml.sax.saxutils import escape, quoteattr

    failed = sum(not report.ok for report in reports)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append(f'<testsuite name="respevents" tests="{len(reports)}" failures="{failed}">')
    for report in reports:
        lines.append(f"  <testcase classname={quoteattr(report.dialect)} name={quoteattr(_xml(report.name))}>")
        errors = [one for one in report.findings if one.severity == "error"]
        if errors:
            text = _xml("\n".join(map(str, errors)))
            lines.append(f"    <failure message={quoteattr(_xml(errors[0].message))}>{escape(text)}</failure>")
        others = [one for one in report.findings if one.severity != "error"]
        if others:
            lines.append("    <system-out>" + escape(_xml("\n".join(map(str, others)))) + "</system-out>")
        lines.append("  </testcase>")
    return "\n".join([*lines, "</testsuite>"])


def _xml(text: str) -> str:
    """Text that XML 1.0 can hold."""
    return "".join(char if char in "\t\n\r" or " " <= char < "\ufffe" or char > "\uffff" else "\ufffd" for char in text)
