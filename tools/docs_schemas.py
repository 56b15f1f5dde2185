"""The pages made from the schema sets: events, the objects in them, and what each set changed."""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from docs_text import HEAD, anchor, code, codes, fence, table
from respevents import FrameDecoder, encode_frame, schemas
from respevents._schema_example import example as schema_example
from respevents.lifecycle import TABLE
from respevents.testing.scenarios import SCENARIOS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_PREFIX = "#/$defs/"
_LONGEST = 8
"""Values of an enum that are named in a table; more are counted."""

Schema = dict[str, Any]


# ---- which sets have it


def _origin(version: str) -> str:
    return str(schemas.manifest(version)["origin"])


def _home(versions: Iterable[str]) -> str:
    """The set that something is shown from: the newest of OpenAI that has it, or else the newest of all."""
    return max(versions, key=lambda one: (_origin(one) == _origin(schemas.NEWEST), schemas.VERSIONS.index(one)))


def _when(having: Iterable[str], among: Iterable[str]) -> str:
    """Since and until which set, of those where it could be; "" for all of them."""
    has, said = set(having), []
    lines: dict[str, list[str]] = defaultdict(list)
    for version in schemas.VERSIONS:
        if version in set(among):
            lines[_origin(version)].append(version)
    for line in lines.values():
        there = [version for version in line if version in has]
        if not there:
            said.append("not in " + codes(line) if len(line) < 3 else f"not in {code(_origin(line[0]))}")
            continue
        first, last = line.index(there[0]), line.index(there[-1])
        if line[first : last + 1] != there:
            said.append(f"only in {codes(there)}")
            continue
        if first:
            said.append(f"since {code(there[0])}")
        if last < len(line) - 1:
            said.append(f"until {code(there[-1])}")
    return "; ".join(said)


@functools.cache
def _events() -> dict[str, dict[str, str]]:
    """Event type -> set -> definition, in the order of the newest set, then the older ones."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for version in reversed(schemas.VERSIONS):
        for event in schemas.manifest(version)["events"]:
            found[event["type"]][version] = event["definition"]
    return dict(found)


@functools.cache
def _definitions() -> dict[str, list[str]]:
    """Definition -> the sets that have it, in the order of the alphabet."""
    found: dict[str, list[str]] = defaultdict(list)
    for version in schemas.VERSIONS:
        for name in schemas.load(version)["$defs"]:
            found[name].append(version)
    return dict(sorted(found.items(), key=lambda pair: pair[0].lower()))


@functools.cache
def _event_names() -> set[str]:
    """Definitions that are events."""
    return {name for homes in _events().values() for name in homes.values()}


# ---- types


def kind(schema: Schema, page: str) -> str:
    """A schema in words, with links to the objects it names."""
    if "x-free-form" in schema:
        return "any JSON object" if schema.get("type") == "object" else "any JSON"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_PREFIX)
        home = "events" if name in _event_names() else "objects"
        return f"[{name}]({'' if home == page else home + '.md'}#{anchor(name)})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind(one, page) for one in schema["anyOf"]))
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    known = schema.get("enum") or schema.get("x-known")
    if known:
        named = " or ".join(code(json.dumps(one)) for one in known[:_LONGEST])
        more = f" or {len(known) - _LONGEST} more" if len(known) > _LONGEST else ""
        return named + more + ("" if "enum" in schema else " or another string")
    return _typed(schema, page)


def _typed(schema: Schema, page: str) -> str:
    if schema["type"] == "array":
        inner = kind(schema["items"], page)
        return f"array of ({inner})" if " or " in inner else f"array of {inner}"
    if schema["type"] == "object":
        if "additionalProperties" in schema:
            return f"object of {kind(schema['additionalProperties'], page)}"
        return "an object of another `type`"
    if "pattern" in schema:
        return f"string like {code(schema['pattern'])}"
    return str(schema["type"])


def _fields(homes: Mapping[str, str], page: str) -> str:
    """The table of the fields of a definition, whose name may differ from set to set."""
    holders: dict[str, list[str]] = defaultdict(list)
    for version in schemas.VERSIONS:
        if version in homes:
            for field in schemas.load(version)["$defs"][homes[version]].get("properties", {}):
                holders[field].append(version)
    home = _home(homes)
    order = list(schemas.load(home)["$defs"][homes[home]].get("properties", {}))
    rows = []
    for field in [*order, *(one for one in holders if one not in order)]:
        shown = _home(holders[field])
        strict, wire = (schemas.load(shown, profile)["$defs"][homes[shown]] for profile in ("strict", "wire"))
        required = "no"
        if field in strict["required"]:
            required = "yes" if field in wire["required"] else "to send"
        rows.append(
            (
                code(field),
                kind(strict["properties"][field], page),
                required,
                _when(holders[field], homes),
            )
        )
    return table(("field", "type", "required", "sets"), rows)


def _choices(homes: Mapping[str, str]) -> str:
    """What of an object is required in one of several ways."""
    home = _home(homes)
    variants = schemas.load(home)["$defs"][homes[home]].get("anyOf", ())
    if not variants:
        return ""
    return "Required besides: " + ", or ".join(codes(one["required"]) for one in variants) + ".\n\n"


# ---- examples


@functools.cache
def _told() -> dict[str, bytes]:
    """Event type -> the first frame of it in the scripted answers, the good ones first."""
    found: dict[str, bytes] = {}
    for group in ("streams that go well", "failures"):
        for scenario in SCENARIOS.values():
            if scenario.group == group:
                chunks = scenario.play({"model": "my-model", "input": "hi", "stream": True}, 1).chunks
                for frame in FrameDecoder().feed(b"".join(one for one in chunks if isinstance(one, bytes))):
                    if frame.event:
                        found.setdefault(frame.event, frame.raw)
    return found


def example(event: str) -> bytes:
    """A frame of this type: from the scripted server where it sends one, or else the one made from its schema."""
    homes = _events()[event]
    if event in _told() and _home(homes) == schemas.NEWEST:
        return _told()[event]
    home = _home(homes)
    return encode_frame(schema_example(event, home))


# ---- the pages


def _family(event: str) -> str:
    row = TABLE.get(event)
    if row is None:
        return "Events without a place in the lifecycle"
    if row.scope == "response":
        return "The response"
    if row.scope == "free":
        return "At any time"
    if row.scope == "audio":
        return "Audio"
    return "Items of any type" if not row.items else f"Items of type {' and '.join(row.items)}"


def _families() -> Iterator[tuple[str, list[str]]]:
    grouped: dict[str, list[str]] = defaultdict(list)
    for event in [*(one for one in TABLE if one in _events()), *(one for one in _events() if one not in TABLE)]:
        grouped[_family(event)].append(event)
    yield from sorted(grouped.items(), key=lambda pair: pair[0].startswith("Events without"))


def _sets_table() -> str:
    rows = []
    for version in reversed(schemas.VERSIONS):
        found = schemas.manifest(version)
        source = found["source"]
        rows.append(
            (
                code(version),
                len(found["events"]),
                len(schemas.load(version)["$defs"]),
                code(found["parent"]) if found["parent"] else "",
                f"{source['package']} {source['version']}",
                len(found["changes"]) or "",
            )
        )
    return table(("set", "events", "definitions", "parent", "cut from", "changes"), rows)


def events_page() -> str:
    """Every event of every set."""
    text = f"""{HEAD}# Events

Every event type of every schema set: {len(_events())} in {len(schemas.VERSIONS)}. Fields and types are those of the
newest set that has the event; *sets* says since or until when, where that is not always. *Required* says who must
have the key: `yes`, whoever sends and whoever was ever sent it; `to send`, those who send (the profile `strict`), while
a reader must do without (the profile `wire`). Classes of these names are in `respevents.events`.

{_sets_table()}
Which event may follow which: [the lifecycle](lifecycle.md). What changed from set to set: [changes](changes.md).
"""
    for family, events in _families():
        text += f"\n## {family}\n"
        for event in events:
            homes = _events()[event]
            when = _when(homes, schemas.VERSIONS)
            text += f"\n### {code(event)}\n\nClass {code(homes[_home(homes)])}"
            text += f"; {when}.\n\n" if when else ".\n\n"
            text += _choices(homes) + _fields(homes, "events")
            text += "\n" + fence(example(event).decode().rstrip("\n"))
    return text


def objects_page() -> str:
    """Every other definition."""
    names = [name for name in _definitions() if name not in _event_names()]
    text = f"""---
hide-toc: true
---
{HEAD}# Objects

What stands inside events: the response, items, parts, tools and the rest, {len(names)} definitions. Columns as in
[events](events.md). Classes of these names are in `respevents.items`.

"""
    text += "".join(f"- [{name}](#{anchor(name)})\n" for name in names)
    for name in names:
        homes = dict.fromkeys(_definitions()[name], name)
        when = _when(homes, schemas.VERSIONS)
        text += f"\n## {name}\n\n" + (f"{when[0].upper()}{when[1:]}.\n\n" if when else "") + _choices(homes)
        fields = _fields(homes, "objects")
        home = _home(homes)
        text += fields if fields.count("\n") > 2 else kind(schemas.load(home)["$defs"][name], "objects") + "\n"
    return text


_EFFECTS = {
    "tighten": "Tightened: what was valid may no longer be",
    "loosen": "Loosened: what was not valid may now be",
    "neutral": "Neutral",
}


def changes_page() -> str:
    """What each set changed against its parent."""
    text = f"""{HEAD}# Schema changes

What each set changed against its parent, as its manifest has it, newest first. The effect is that for who validates:
a *tightened* schema refuses what it took before. A released set never changes; its digests are in its manifest.

{_sets_table()}"""
    for version in reversed(schemas.VERSIONS):
        found = schemas.manifest(version)
        text += f"\n## {version}\n\n"
        if found["parent"] is None:
            text += "The first of its line: it has no parent.\n"
            continue
        text += f"Against {code(found['parent'])}.\n"
        for effect, title in _EFFECTS.items():
            chosen = [change for change in found["changes"] if change["effect"] == effect]
            if chosen:
                text += f"\n**{title}** ({len(chosen)})\n\n" + _change_table(chosen)
    return text


def _change_table(changes: list[dict[str, Any]]) -> str:
    rows = []
    for change in changes:
        place, _, rest = change["path"].partition(": ")
        profiles = change.get("profiles", ["strict", "wire"])
        rows.append((change["kind"], code(place), rest, "" if len(profiles) > 1 else profiles[0]))
    return table(("change", "where", "what", "only in"), rows)
