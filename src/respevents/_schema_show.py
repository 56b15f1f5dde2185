"""What is known of one event, or of one object under it: gathered from the sets, the table and the catalogues."""

from __future__ import annotations

import functools
import shutil
import textwrap
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from respevents import schemas
from respevents._errors import show as show_value
from respevents._schema_example import example
from respevents._sdk_source import SourceError, read_sdk
from respevents.failures import FailureCode
from respevents.findings import BY_NAME
from respevents.lifecycle import TABLE
from respevents.wire import encode_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from respevents._table import Row
    from respevents.schemas import Profile

__all__ = ["Span", "describe", "event_rows", "lines", "span", "type_words"]

_PREFIX: Final = "#/$defs/"
_FEW: Final = 4
"""Values or branches of a union that a line of text names; JSON output has them all."""

_FAILURE_EVENTS: Final = ("error", "response.failed")


class Span(NamedTuple):
    """The sets of one dialect that have something: the first, and the last where newer ones have it no more."""

    since: str
    until: str | None


def _line(version: str) -> list[str]:
    """The sets of the dialect of a set, oldest first."""
    dialect = schemas.manifest(version)["dialect"]
    return [one for one in schemas.VERSIONS if schemas.manifest(one)["dialect"] == dialect]


def span(version: str, has: Callable[[str], bool]) -> Span | None:
    """From which set of the dialect to which something is there; gaps between are not told. None: in no set."""
    sets = _line(version)
    having = [one for one in sets if has(one)]
    if not having:
        return None
    return Span(having[0], None if having[-1] == sets[-1] else having[-1])


@functools.cache
def _events(version: str) -> dict[str, Mapping[str, Any]]:
    """Event type -> its entry in the manifest."""
    return {event["type"]: event for event in schemas.manifest(version)["events"]}


def event_rows(version: str) -> list[dict[str, Any]]:
    """The event table of a set: type, definition, whether the SDK it was cut from models it, since, until, scope."""
    rows: list[dict[str, Any]] = []
    for kind, event in _events(version).items():
        when = span(version, lambda one, kind=kind: kind in _events(one))  # type: ignore[misc]
        row = TABLE.get(kind)
        rows.append(
            {
                **event,
                "since": when.since if when is not None else version,
                "until": when.until if when is not None else None,
                "scope": row.scope if row is not None else None,
            }
        )
    return rows


def _definition(version: str, profile: Profile, kind: str | None, name: str) -> Mapping[str, Any]:
    """The definition of an event type, by whatever name that set has for it, or of an object by its name."""
    if kind is not None:
        event = _events(version).get(kind)
        name = event["definition"] if event is not None else ""
    found: Mapping[str, Any] = schemas.load(version, profile)["$defs"].get(name, {"properties": {}, "required": []})
    return found


def describe(name: str, version: str = schemas.NEWEST, profile: Profile = "strict") -> dict[str, Any]:
    """All that `respevents schema show` says of an event type or a definition, as JSON. ValueError when unknown."""
    events = _events(version)
    kind = name if name in events else None
    kind = kind or next((one for one, event in events.items() if event["definition"] == name), None)
    own = events[kind]["definition"] if kind is not None else name
    if own not in schemas.load(version, profile)["$defs"]:
        others = [
            one for one in schemas.VERSIONS if name in _events(one) or name in schemas.load(one, profile)["$defs"]
        ]
        where = f"--set {others[-1]} has it" if others else "`respevents schema events` lists the events"
        raise ValueError(f"{version} has no event and no object {name!r}; {where}")
    when = span(version, lambda one: bool(_definition(one, profile, kind, own)["properties"]))
    found: dict[str, Any] = {
        "event": kind,
        "definition": own,
        "set": version,
        "profile": profile,
        "since": when.since if when is not None else version,
        "until": when.until if when is not None else None,
        "class": _class(own, kind) if version == schemas.NEWEST else None,
        "fields": _fields(kind, own, version, profile),
        "evidence": _evidence(own, version),
    }
    if kind is None:
        found["in"] = _holders(own, version, profile)
        return found
    made = example(kind, version, profile)
    return {
        **found,
        "lifecycle": _lifecycle(TABLE.get(kind)),
        "example": made,
        "frame": encode_frame(made).decode(),
        "accepted": _accepted(kind, version),
    }


def _class(definition: str, kind: str | None) -> str:
    return f"respevents.{'items' if kind is None else 'events'}.{definition}"


def _fields(kind: str | None, name: str, version: str, profile: Profile) -> list[dict[str, Any]]:
    here = _definition(version, profile, kind, name)
    required = {one: _definition(version, one, kind, name)["required"] for one in ("strict", "wire")}
    fields: list[dict[str, Any]] = []
    for key, schema in here["properties"].items():
        when = span(version, lambda one, key=key: key in _definition(one, profile, kind, name)["properties"])  # type: ignore[misc]
        fields.append(
            {
                "name": key,
                "type": type_words(schema),
                "required": {one: key in keys for one, keys in required.items()},
                "since": when.since if when is not None else version,
                "until": when.until if when is not None else None,
                "schema": schema,
            }
        )
    return fields


def type_words(schema: Mapping[str, Any]) -> str:
    """A schema in words: `string`, `"a" | "b"`, `array of X`, `X | null`; of long unions the first few."""
    if "$ref" in schema:
        return str(schema["$ref"].removeprefix(_PREFIX))
    if "anyOf" in schema:
        null = {"type": "null"}
        words = [type_words(branch) for branch in schema["anyOf"] if branch != null]
        return _some(words) + (" | null" if null in schema["anyOf"] else "")
    if "const" in schema:
        return show_value(schema["const"])
    if "enum" in schema:
        return _some([show_value(value) for value in schema["enum"]])
    if "x-known" in schema:
        return f"string, known: {_some([show_value(value) for value in schema['x-known']])}"
    if schema.get("type") == "array":
        inner = type_words(schema.get("items", {}))
        return f"array of ({inner})" if " | " in inner else f"array of {inner}"
    if "x-open" in schema:
        return "object of another type"
    if "additionalProperties" in schema:
        return f"map of {type_words(schema['additionalProperties'])}"
    if "x-free-form" in schema:
        return "object, yours" if schema.get("type") == "object" else "any JSON"
    return str(schema.get("type", "any JSON"))


def _some(words: list[str]) -> str:
    if len(words) <= _FEW + 1:
        return " | ".join(words)
    return " | ".join(words[:_FEW]) + f" | ... ({len(words)} in all)"


def _evidence(definition: str, version: str) -> list[dict[str, str]]:
    """Where the set says more than the SDK, and what was seen that says so: the edits of its overlay."""
    return [
        {"path": path, "evidence": edit["evidence"]}
        for edit in schemas.manifest(version)["overlay"]["edits"]
        for path in edit.get("paths", [edit.get("path", edit.get("name", ""))])
        if path.partition(".")[0] == definition and edit["op"] in {"add", "define", "redefine", "replace"}
    ]


def _holders(name: str, version: str, profile: Profile) -> list[str]:
    reference = {"$ref": _PREFIX + name}

    def within(schema: Any) -> bool:
        if isinstance(schema, dict):
            return schema == reference or any(within(value) for value in schema.values())
        return isinstance(schema, list) and any(within(value) for value in schema)

    return [
        f"{owner}.{key}"
        for owner, definition in schemas.load(version, profile)["$defs"].items()
        for key, schema in definition["properties"].items()
        if within(schema)
    ]


def _lifecycle(row: Row | None) -> dict[str, Any] | None:
    if row is None:
        return None
    return {
        "scope": row.scope,
        "items": list(row.items),
        "after": [*row.after, *row.stay],
        "to": row.to or None,
        "sums_up": row.whole,
        "summed_up_by": row.done,
    }


def _accepted(kind: str, version: str) -> dict[str, Any]:
    """Who knows the event: the SDK releases that sets were cut from, the installed SDK, and what clients do else."""
    releases = {
        schemas.manifest(one)["source"]["version"]: any(
            event["type"] == kind and event["in_source"] for event in schemas.manifest(one)["events"]
        )
        for one in _line(version)
    }
    found: dict[str, Any] = {"openai-python": releases, "installed": _installed(kind), "otherwise": None, "codes": None}
    if not all(releases.values()):
        rule = BY_NAME["unknown-event"]
        found["otherwise"] = {"rule": rule.id, "breaks": rule.breaks}
    if kind in _FAILURE_EVENTS:
        facts = [code.facts for code in FailureCode]
        found["codes"] = {
            "catalogued": len(facts),
            "in_sdk": sum(one.sdk_since is not None for one in facts),
            "codex": dict(Counter(one.codex for one in facts)),
        }
    return found


def _installed(kind: str) -> dict[str, Any] | None:
    """Whether the installed SDK has the event, read from its source; None where there is none."""
    try:
        types = read_sdk()
    except SourceError:
        return None
    has = any(types.defs[name]["properties"].get("type", {}).get("const") == kind for name in types.events)
    return {"version": types.version(), "has": has}


# ---- as text ---------------------------------------------------------------------------------------------------------


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """The description as a person reads it."""
    width = max(60, min(shutil.get_terminal_size().columns, 140))
    yield f"{found['event'] or found['definition']}   ({found['set']}, {found['profile']})"
    facts = {
        "since": _since(found),
        "class": found["class"],
        "in": ", ".join(found["in"]) if found.get("in") else None,
        "comes": _comes(found.get("lifecycle")),
    }
    for label, text in facts.items():
        if text:
            yield from _labelled(label, text, width)
    yield ""
    yield from _field_lines(found, width)
    if found["evidence"]:
        yield "\nSeen on the wire, beyond the SDK"
        for one in found["evidence"]:
            yield from _labelled(one["path"].partition(".")[2] or one["path"], one["evidence"], width, indent="  ")
    if found["event"] is not None:
        yield "\nAccepted by"
        for text in _acceptance(found["accepted"]):
            yield from textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    ")
        yield "\nExample (required fields alone; the values mean nothing)"
        yield found["frame"].rstrip("\n")


def _since(found: Mapping[str, Any]) -> str:
    first = _line(found["set"])[0]
    since = f"{found['since']}, the first set" if found["since"] == first else found["since"]
    return f"{since}, until {found['until']}" if found["until"] else since


def _comes(row: Mapping[str, Any] | None) -> str | None:
    if row is None:
        return None
    of = f" ({', '.join(row['items'])})" if row["items"] else ""
    states = f", in state {' or '.join(row['after'])}" if row["after"] else ""
    end = f", leads to {row['to']}" if row["to"] else ""
    whole = f"; {row['summed_up_by']} sums its deltas up" if row["summed_up_by"] else ""
    return f"{row['scope']}{of}{states}{end}{whole}"


def _field_lines(found: Mapping[str, Any], width: int) -> Iterator[str]:
    fields = found["fields"]
    longest = max((len(one["name"]) for one in fields), default=5)
    yield f"{'field':<{longest}}  required  type"
    for one in fields:
        required = "yes" if one["required"]["wire"] else "to emit" if one["required"]["strict"] else "no"
        notes = []
        if one["since"] != found["since"]:
            notes.append(f"since {one['since']}")
        if one["until"] is not None and one["until"] != found["until"]:
            notes.append(f"until {one['until']}")
        text = one["type"] + (f"  ({', '.join(notes)})" if notes else "")
        start = f"{one['name']:<{longest}}  {required:<8}  "
        yield from textwrap.wrap(text, width, initial_indent=start, subsequent_indent=" " * len(start))


def _acceptance(accepted: Mapping[str, Any]) -> Iterator[str]:
    releases = accepted["openai-python"]
    for label, has in (("has a class for it", True), ("has none", False)):
        versions = [version for version, known in releases.items() if known is has]
        if versions:
            yield f"openai-python {', '.join(versions)}: {label}"
    if accepted["installed"] is not None:
        installed = "has a class for it" if accepted["installed"]["has"] else "has none"
        yield f"openai-python {accepted['installed']['version']}, installed here: {installed}"
    if accepted["otherwise"] is not None:
        yield f"who does not know it: {accepted['otherwise']['breaks']} ({accepted['otherwise']['rule']})"
    if accepted["codes"] is not None:
        codes = accepted["codes"]
        effects = ", ".join(f"{effect} on {count}" for effect, count in codes["codex"].items())
        yield f"error.code is any string; of {codes['catalogued']} known ones the SDK's literal has {codes['in_sdk']}"
        yield f"Codex by error.code: {effects} (each: `respevents codes`)"


def _labelled(label: str, text: str, width: int, indent: str = "") -> Iterator[str]:
    start = f"{indent}{label:<8} "
    yield from textwrap.wrap(text, width, initial_indent=start, subsequent_indent=" " * len(start))
