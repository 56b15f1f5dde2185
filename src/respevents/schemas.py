"""The schema sets: what an event is, by date and origin, as JSON Schema 2020-12.

A set has two profiles: `strict` (what to emit) and `wire` (what to accept), each one bundle with `$defs` per event
and object. A released set never changes; the digests in its manifest hold it.
"""

from __future__ import annotations

import functools
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from respevents._extras import load as load_extra
from respevents._schema_diff import Change, Effect, diff

if TYPE_CHECKING:
    from referencing.jsonschema import SchemaRegistry

__all__ = [
    "NEWEST",
    "VERSIONS",
    "Change",
    "Effect",
    "Profile",
    "at",
    "definition",
    "diff",
    "load",
    "manifest",
    "path",
    "registry",
    "source",
]

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
    """The file `name` (`strict.json`, `wire.json`, `source.json`, `manifest.json`) of a set.

    Raises ValueError for an unknown set, or file.
    """
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


def source(version: str = NEWEST) -> dict[str, Any]:
    """The structure of the SDK release that a set was cut from, before any overlay: a bundle as `load` gives."""
    structure: dict[str, Any] = _read(version, "source.json")
    return structure


def registry() -> SchemaRegistry:
    """A `referencing.Registry` with both profiles of every set, each under its `$id`, crawled: the convention of
    packages that ship JSON Schemas. A schema of yours may say `{"$ref": "urn:respevents:schema:SET:PROFILE"}`, with
    `#/$defs/NAME` behind it for one definition. Needs the extra `validate`.
    """
    load_extra("referencing.jsonschema", needed_by="respevents.schemas.registry()")
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    profiles: tuple[Profile, ...] = ("strict", "wire")
    bundles = [load(version, profile) for version in VERSIONS for profile in profiles]
    found: SchemaRegistry = Registry().with_resources(
        (bundle["$id"], DRAFT202012.create_resource(bundle)) for bundle in bundles
    )
    return found.crawl()


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
