"""`respevents check-sdk`: the events of an openai SDK against those of the release that a schema set was cut from."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from respevents import schemas
from respevents._schema_diff import worst
from respevents._sdk_source import SourceError, read_sdk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from respevents._sdk_source import SdkTypes
    from respevents.schemas import Change

__all__ = ["EXIT_CODES", "add_arguments", "compare", "run"]

EXIT_CODES: Final[Mapping[str | None, int]] = {None: 0, "neutral": 0, "loosen": 1, "tighten": 2}
"""Exit code by the strongest effect. Not as elsewhere: 2 is a tightened SDK, and what could not be compared at all."""

_DESCRIPTION = """\
Compare the events that the installed openai SDK declares with those of the SDK release a schema set was cut from.
Both are read from source: neither openai nor pydantic is imported, so their versions do not matter."""

_EPILOG = """\
Effects, for who reads streams with the SDK's types:
  tighten  something that fitted no longer does (a field is required now, a value or an event is gone)
  loosen   something fits that did not (an event, a value, a code, a branch is new)
  neutral  neither (an optional field came or went: unknown keys always fit)

Exit codes, other than those of the other commands:
  0  no difference, or neutral ones alone
  1  loosened: servers may send something new
  2  tightened: what servers send may no longer fit; also when there is nothing to compare, said on stderr"""

_HEADINGS: Final = {
    "events": "Events",
    "fields": "Fields",
    "values": "Values",
    "codes": "Failure codes",
    "types": "Types",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--set", choices=schemas.VERSIONS, default=schemas.NEWEST, help="default: %(default)s")
    parser.add_argument(
        "--sdk",
        type=Path,
        metavar="PATH",
        help="a wheel, or a folder that holds `openai/`, instead of the installed SDK",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")


def compare(types: SdkTypes, set_id: str = schemas.NEWEST) -> dict[str, Any]:
    """What `--format json` prints: both sides, the strongest effect, and each change with what it is about."""
    source = schemas.source(set_id)
    changes = schemas.diff(source, types.structure())
    codes = _codes(types.structure())
    known = _Known(set_id)
    origin = schemas.manifest(set_id)["source"]
    return {
        "sdk": {"package": "openai", "version": types.version()},
        "set": set_id,
        "source": {"package": origin["package"], "version": origin["version"]},
        "effect": worst(changes),
        "changes": [
            {
                "about": _about(change, codes),
                "kind": change.kind,
                "path": change.path,
                "effect": change.effect,
                "in_set": known.has(change),
            }
            for change in changes
        ],
    }


def _codes(structure: Mapping[str, Any]) -> str:
    """The path of the failure codes: `code` of what the response of `response.failed` holds as `error`."""
    defs: Mapping[str, Any] = structure["$defs"]
    events = [_name(branch["$ref"]) for branch in structure["anyOf"]]
    place = next((one for one in events if _constant(defs[one]) == "response.failed"), None)
    for key in ("response", "error"):
        schema = defs[place]["properties"].get(key, {}) if place is not None else {}
        places = [_name(branch["$ref"]) for branch in schema.get("anyOf", [schema]) if "$ref" in branch]
        place = places[0] if places else None
    return f"{place}.code"


def _constant(definition: Mapping[str, Any]) -> Any:
    return definition["properties"].get("type", {}).get("const")


def _name(reference: str) -> str:
    return reference.rpartition("/")[2]


def _about(change: Change, codes: str) -> str:
    if change.kind.startswith("event "):
        return "events"
    if "value" in change.kind:
        return "codes" if change.path.partition("=")[0] == codes else "values"
    return "fields" if change.kind in {"field added", "field removed", "required", "optional"} else "types"


class _Known:
    """What the set has beyond its source: events, fields and values seen on the wire before the SDK had them."""

    def __init__(self, set_id: str) -> None:
        self._defs = schemas.load(set_id, "wire")["$defs"]
        self._events = {event["type"] for event in schemas.manifest(set_id)["events"]}

    def has(self, change: Change) -> bool:
        """Whether something that was added is in the set already."""
        if change.kind == "event added":
            return change.path in self._events
        name, _, key = change.path.partition("=")[0].partition(".")
        properties = self._defs.get(name, {}).get("properties", {})
        if change.kind == "field added":
            return key in properties
        if change.kind == "value added":
            value, schema = change.path.partition("=")[2], properties.get(key, {})
            branches = schema.get("anyOf", [schema])
            return any(value in branch.get(word, ()) for branch in branches for word in ("enum", "x-known"))
        return False


def run(arguments: argparse.Namespace) -> int:
    """Print the differences; the exit code says the strongest effect."""
    try:
        found = compare(read_sdk(arguments.sdk), arguments.set)
    except SourceError as error:
        print(f"respevents check-sdk: {error}", file=sys.stderr)
        return 2
    if arguments.format == "json":
        print(json.dumps(found, indent=1))
    else:
        print("\n".join(_lines(found)))
    return EXIT_CODES[found["effect"]]


def _lines(found: Mapping[str, Any]) -> Iterable[str]:
    source, order = found["source"], tuple(EXIT_CODES)
    counts = Counter(change["effect"] for change in found["changes"])
    said = ", ".join(f"{counts[effect]} {effect}" for effect in reversed(order) if effect in counts)
    yield (
        f"openai {found['sdk']['version']} against {found['set']}"
        f" (cut from {source['package']} {source['version']}): {said or 'the same'}"
    )
    for about, heading in _HEADINGS.items():
        changes = [change for change in found["changes"] if change["about"] == about]
        if changes:
            yield f"\n{heading}"
        for change in sorted(changes, key=lambda one: -order.index(one["effect"])):
            note = "  (the set has it)" if change["in_set"] else ""
            yield f"  {change['effect']:<8} {change['kind']:<14} {change['path']}{note}"
