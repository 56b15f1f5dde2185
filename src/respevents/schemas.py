"""The schema sets: what an event is, by date and origin, as JSON Schema 2020-12.

A set has two profiles: `strict` (what to emit) and `wire` (what to accept), each one bundle with `$defs` per event
and object. A released set never changes; the digests in its manifest hold it.
"""

from __future__ import annotations

import functools
import json
import time
from pathlib import Path
from typing import Any, Final, Literal

__all__ = ["NEWEST", "VERSIONS", "Change", "Profile", "at", "definition", "diff", "load", "manifest", "path"]

Profile = Literal["strict", "wire"]

VERSIONS: Final = (
    "openai-2025-03",
    "openai-2025-06",
    "openai-2025-09",
    "open-responses-2026-04",
    "openai-2026-05",
    "openai-2026-11",
)
"""Every set of this release, `<origin>-<date>`, by date, oldest first. Compare by position here, never as strings."""

NEWEST: Final = VERSIONS[-1]
"""The newest set of OpenAI: the classes, the builder and the strategies are made from it."""

# Installed, the sets lie inside the package; in a checkout, at its top.
_FOLDERS = (Path(__file__).parent / "_schemas", Path(__file__).parents[2] / "schemas")


def path(version: str, name: str) -> Path:
    """The file `name` (`strict.json`, `wire.json`, `manifest.json`) of a set. Raises ValueError for an unknown set."""
    if version not in VERSIONS:
        message = f"unknown schema set {version!r}; this release has {', '.join(VERSIONS)}"
        raise ValueError(message)
    for folder in _FOLDERS:
        if (folder / version / name).is_file():
            return folder / version / name
    message = f"schema set {version} has no file {name}"
    raise ValueError(message)


@functools.cache
def _read(version: str, name: str) -> Any:
    return json.loads(path(version, name).read_bytes())


def load(version: str = NEWEST, profile: Profile = "strict") -> dict[str, Any]:
    """The bundle of a set: `anyOf` over the events, `$defs` by name. Shared between callers: do not change it."""
    if profile not in {"strict", "wire"}:
        message = f"unknown profile {profile!r}; a set has 'strict' and 'wire'"
        raise ValueError(message)
    bundle: dict[str, Any] = _read(version, f"{profile}.json")
    return bundle


def manifest(version: str = NEWEST) -> dict[str, Any]:
    """The manifest of a set: source, digests, event list, overlay with its evidence, changes against its parent."""
    found: dict[str, Any] = _read(version, "manifest.json")
    return found


def at(created_at: float | None = None, dialect: str = "openai") -> str:
    """The set of a dialect that was in force at a time (Unix seconds): the last one whose month had begun.

    The newest one without a time, and for a time before the first (0 where a recorder removed it, milliseconds).
    """
    sets = [version for version in VERSIONS if version.startswith(f"{dialect}-20")]
    if not sets:
        raise ValueError(f"no schema set of the dialect {dialect!r}")
    try:
        year, month = time.gmtime(created_at)[:2] if created_at is not None else (9999, 12)
    except (OverflowError, ValueError, OSError):
        return sets[-1]
    begun = [version for version in sets if version[-7:] <= f"{year:04}-{month:02}"]
    return begun[-1] if begun else sets[-1]


def definition(event_type: str, version: str = NEWEST, profile: Profile = "strict") -> dict[str, Any]:
    """A self-standing schema for one event type (it carries the bundle's `$defs`). Raises ValueError when unknown."""
    bundle = load(version, profile)
    for event in manifest(version)["events"]:
        if event["type"] == event_type:
            return {
                "$schema": bundle["$schema"],
                "$ref": f"#/$defs/{event['definition']}",
                "$defs": bundle["$defs"],
            }
    message = f"{version} has no event {event_type!r}"
    raise ValueError(message)


class Change(tuple[str, str, str]):
    """(kind, path, effect): `kind` names what changed, `effect` is tighten, loosen or neutral for who validates."""

    __slots__ = ()


def diff(old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    """Structural changes between two bundles, by definition and property."""
    before, after = old["$defs"], new["$defs"]
    changes = [Change(("definition removed", name, "tighten")) for name in before if name not in after]
    changes += [Change(("definition added", name, "loosen")) for name in after if name not in before]
    for name in before:
        if name in after:
            changes += _definition_changes(name, before[name], after[name])
    return sorted(changes)


def _definition_changes(name: str, old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    changes: list[Change] = []
    was, now = old["properties"], new["properties"]
    for key in sorted({*was, *now}):
        place = f"{name}.{key}"
        required = key in old["required"], key in new["required"]
        if key not in now:
            changes.append(Change(("property removed", place, "loosen")))
        elif key not in was:
            changes.append(Change(("property added", place, "tighten" if required[1] else "neutral")))
        else:
            if required[0] != required[1]:
                changes.append(Change(("required", place, "tighten") if required[1] else ("optional", place, "loosen")))
            changes += _value_changes(place, was[key], now[key])
    return changes


def _value_changes(place: str, old: dict[str, Any], new: dict[str, Any]) -> list[Change]:
    gone = [branch for branch in _branches(old) if branch not in _branches(new)]
    come = [branch for branch in _branches(new) if branch not in _branches(old)]
    if not gone and not come:
        return []
    text = f"{place}: {json.dumps(gone)} -> {json.dumps(come)}"
    return [Change(("type", text, "loosen" if not gone else "tighten"))]


def _branches(schema: dict[str, Any]) -> list[Any]:
    """The values a schema allows, one by one, so that an enum that grew reads as loosened."""
    if "anyOf" in schema:
        return [one for branch in schema["anyOf"] for one in _branches(branch)]
    if "enum" in schema:
        return [{"const": value} for value in schema["enum"]]
    if schema.get("type") == "array" and "items" in schema:
        return [{"items": branch} for branch in _branches(schema["items"])]
    return [schema]
