"""`respevents schema`: the schema sets at the prompt: what is in them, what changed, and files for other tools."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from respevents import schemas
from respevents._schema_export import dump, event_schema, openapi
from respevents._schema_show import describe, event_rows, lines

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

__all__ = ["add_arguments", "run"]

_EFFECTS: Final[tuple[schemas.Effect, ...]] = ("tighten", "loosen", "neutral")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    commands = parser.add_subparsers(metavar="ACTION", dest="action", required=True)

    def add(name: str, help_: str, *, one_set: bool = True, profile: bool = True, formats: bool = True) -> Any:
        sub = commands.add_parser(name, help=help_, description=help_)
        if one_set:
            sub.add_argument("--set", choices=schemas.VERSIONS, default=schemas.NEWEST, help="default: %(default)s")
        if profile:
            sub.add_argument(
                "--profile",
                choices=("strict", "wire"),
                default="strict",
                help="strict: what to emit (default); wire: what to accept",
            )
        if formats:
            sub.add_argument("--format", choices=("text", "json"), default="text")
        return sub

    add("list", "the sets of this release", one_set=False, profile=False)
    add("events", "the events of a set", profile=False)
    show = add("show", "one event, or an object under it: fields, since when, an example, who knows it")
    show.add_argument("name", metavar="EVENT", help="an event type, or the name of a definition")
    export = add("export", "a set as JSON Schema, or as OpenAPI", formats=False)
    export.add_argument("--event", metavar="TYPE", help="this event alone, with the definitions it leads to")
    export.add_argument("--openapi", action="store_true", help="an OpenAPI 3.2 document with the stream as a response")
    target = export.add_mutually_exclusive_group()
    target.add_argument("-o", "--output", type=Path, metavar="PATH", help="write it there instead of printing it")
    target.add_argument("--split", type=Path, metavar="FOLDER", help="write one self-contained file for each event")
    diff = add("diff", "what changed between two sets; 1 when something did", one_set=False)
    diff.add_argument("old", metavar="A", help="a set, or a file with a bundle")
    diff.add_argument("new", metavar="B", help="the same; effects are those of taking B for A")


def run(arguments: argparse.Namespace) -> int:
    """Do it; 2 for a name or a file that is not there."""
    actions = {"list": _list, "events": _events, "show": _show, "export": _export, "diff": _diff}
    try:
        return actions[arguments.action](arguments)
    except BrokenPipeError:
        raise  # `| head`: the command ends it
    except (ValueError, OSError) as error:
        print(f"respevents schema: {error}", file=sys.stderr)
        return 2


def _list(arguments: argparse.Namespace) -> int:
    rows: list[dict[str, Any]] = []
    for version in schemas.VERSIONS:
        manifest = schemas.manifest(version)
        counts = Counter(change["effect"] for change in manifest["changes"])
        rows.append(
            {
                "set": version,
                "dialect": manifest["dialect"],
                "cut from": f"{manifest['source']['package']} {manifest['source']['version']}",
                "events": len(manifest["events"]),
                "parent": manifest["parent"],
                **{effect: counts[effect] for effect in _EFFECTS},
            }
        )
    if arguments.format == "json":
        print(json.dumps(rows, indent=1))
    else:
        _table(rows)
    return 0


def _events(arguments: argparse.Namespace) -> int:
    rows = event_rows(arguments.set)
    if arguments.format == "json":
        print(json.dumps(rows, indent=1))
        return 0
    sdk = schemas.manifest(arguments.set)["source"]["version"]
    _table(
        [
            {
                "event": row["type"],
                "definition": row["definition"],
                "moves": row["scope"],
                "since": row["since"],
                "until": row["until"],
                f"openai {sdk}": "yes" if row["in_source"] else "no",
            }
            for row in rows
        ]
    )
    return 0


def _show(arguments: argparse.Namespace) -> int:
    found = describe(arguments.name, arguments.set, arguments.profile)
    print(json.dumps(found, indent=1) if arguments.format == "json" else "\n".join(lines(found)))
    return 0


def _export(arguments: argparse.Namespace) -> int:
    version, profile = arguments.set, arguments.profile
    if arguments.split is not None:
        kinds = [event["type"] for event in schemas.manifest(version)["events"]]
        kinds = [arguments.event] if arguments.event is not None else kinds
        made = {
            kind: openapi(version, profile, kind) if arguments.openapi else event_schema(kind, version, profile)
            for kind in kinds
        }
        arguments.split.mkdir(parents=True, exist_ok=True)
        for kind, schema in made.items():
            (arguments.split / f"{kind}.json").write_text(dump(schema), "utf-8")
        print(f"{len(made)} files in {arguments.split}", file=sys.stderr)
        return 0
    if arguments.openapi:
        schema = openapi(version, profile, arguments.event)
    elif arguments.event is not None:
        schema = event_schema(arguments.event, version, profile)
    else:
        schema = schemas.load(version, profile)
    if arguments.output is None:
        print(dump(schema), end="")
    else:
        arguments.output.write_text(dump(schema), "utf-8")
    return 0


def _bundle(name: str, profile: schemas.Profile) -> dict[str, Any]:
    """A set by its id, or a bundle from a file."""
    if name in schemas.VERSIONS or not Path(name).is_file():
        return schemas.load(name, profile)
    try:
        bundle = json.loads(Path(name).read_bytes())
    except ValueError as error:
        raise ValueError(f"{name}: not JSON: {error}") from None
    if not isinstance(bundle, dict) or "$defs" not in bundle or not {"anyOf", "$ref"} & bundle.keys():
        raise ValueError(f"{name}: not a bundle of schemas: expected `$defs`, and `anyOf` over the events")
    return bundle


def _diff(arguments: argparse.Namespace) -> int:
    changes = schemas.diff(_bundle(arguments.old, arguments.profile), _bundle(arguments.new, arguments.profile))
    if arguments.format == "json":
        print(json.dumps([change._asdict() for change in changes], indent=1))
    else:
        for change in sorted(changes, key=lambda one: _EFFECTS.index(one.effect)):
            print(f"{change.effect:<8} {change.kind:<19} {change.path}")
        counts = Counter(change.effect for change in changes)
        print(", ".join(f"{counts[effect]} {effect}" for effect in _EFFECTS) if changes else "no difference")
    return 1 if changes else 0


def _table(rows: Sequence[dict[str, Any]]) -> None:
    """Rows of the same keys, as columns; what is None shows as a dash."""
    cells: Iterable[list[str]] = [
        list(rows[0]),
        *(["-" if value is None else str(value) for value in row.values()] for row in rows),
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
