"""Build the schema sets under schemas/ from a pinned openai wheel and a reviewed overlay.

    python tools/build_schemas.py [--check] [--wheel FILE-OR-FOLDER] [SET ...]

Without --wheel the pinned wheels are fetched with pip and their sha256 checked. --check writes nothing and fails when
a committed file differs from what would be written.

An overlay may include another one: `[include] overlay = "SET"`, and in `skip` the edits (`op path`) that do not hold
there. Edits about the whole bundle come last, whichever file they stand in.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tomllib

from respevents._canonical import ENDS
from respevents.schemas import diff
from sdk_types import Schema, SdkTypes, SourceError, any_of, fetch_wheel

ROOT = Path(__file__).resolve().parent.parent
OVERLAYS = ROOT / "tools" / "overlays"
SCHEMAS = ROOT / "schemas"
PROFILES = ("strict", "wire")
METASCHEMA = "https://json-schema.org/draft/2020-12/schema"
PREFIX = "#/$defs/"
WIDE = ("open-enums", "open-unions", "optional-everywhere", "required-as-in", "nullable-as-in")
"""Operations on the whole bundle."""


class MisfitError(SourceError):
    """An overlay edit that does not fit what the source has: its label, and why."""

    def __init__(self, edit: str, reason: str) -> None:
        self.edit, self.reason = edit, reason
        super().__init__(f"overlay edit {edit}: does not fit, {reason}")


class Bundle:
    """The definitions of one profile while the overlay is applied."""

    def __init__(self, defs: dict[str, Schema], events: list[str]) -> None:
        self.defs = copy.deepcopy(defs)
        self.events = list(events)
        self.extensions: list[str] = []

    def apply(self, edit: dict[str, Any]) -> None:
        """Apply one overlay edit; MisfitError when it does not fit what is there."""
        operation = "_" + edit["op"].replace("-", "_")
        for path in edit.get("paths", [edit.get("path", "")]):
            try:
                getattr(self, operation)(edit, *path.split("."))
            except (KeyError, ValueError) as error:
                reason = f"there is no {error.args[0]}" if isinstance(error, KeyError) else str(error)
                raise MisfitError(label(edit, path), reason) from error

    def _known(self, schema: Schema, own: str = "") -> Schema:
        for name in _references(schema):
            if name != own and name not in self.defs:
                raise KeyError(name)
        return copy.deepcopy(schema)

    def _replace(self, edit: dict[str, Any], name: str, key: str) -> None:
        properties = self.defs[name]["properties"]
        if properties[key] != edit["old"]:
            raise ValueError(f"it is {properties[key]}")
        properties[key] = self._known(edit["new"])

    def _add(self, edit: dict[str, Any], name: str, key: str) -> None:
        if key in self.defs[name]["properties"]:
            raise ValueError("it is there")
        self.defs[name]["properties"][key] = self._known(edit["new"])

    def _define(self, edit: dict[str, Any], _: str) -> None:
        name = edit["name"]
        if name in self.defs:
            raise ValueError("it is there")
        self.defs[name] = self._known(edit["schema"], name)
        if edit.get("event"):
            self.events.append(name)
        if edit.get("extension"):
            self.extensions.append(name)

    def _redefine(self, edit: dict[str, Any], _: str) -> None:
        name = edit["name"]
        if self.defs[name] == edit["schema"]:
            raise ValueError("it is so already")
        self.defs[name] = self._known(edit["schema"], name)

    def _keep_events(self, edit: dict[str, Any], _: str) -> None:
        for name in edit["events"]:
            if name not in self.events:
                raise KeyError(name)
        self.events = [name for name in self.events if name in edit["events"]]

    def _require(self, edit: dict[str, Any], name: str) -> None:
        for key in edit["keys"]:
            if key not in self.defs[name]["properties"]:
                raise KeyError(key)
            if key in self.defs[name]["required"]:
                raise ValueError(f"{key} is required")
            self.defs[name]["required"].append(key)

    def _optional(self, edit: dict[str, Any], name: str) -> None:
        for key in edit["keys"]:
            if key not in self.defs[name]["required"]:
                raise ValueError(f"{key} is not required")
            self.defs[name]["required"].remove(key)

    def _optional_everywhere(self, edit: dict[str, Any], _: str) -> None:
        for definition in self.defs.values():
            definition["required"] = [key for key in definition["required"] if key not in edit["keys"]]

    def _required_as_in(self, edit: dict[str, Any], _: str) -> None:
        other = _wire(edit["set"])
        for name, definition in self.defs.items():
            if name in other and name not in edit.get("except", ()):
                definition["required"] = [key for key in definition["required"] if key in other[name]["required"]]

    def _nullable_as_in(self, edit: dict[str, Any], _: str) -> None:
        other = _wire(edit["set"])
        for name in other.keys() & self.defs.keys():
            properties = self.defs[name]["properties"]
            for key in other[name]["properties"].keys() & properties.keys():
                if _takes_null(other[name]["properties"][key]) and not _takes_null(properties[key]):
                    properties[key] = any_of([properties[key], {"type": "null"}])

    def _one_of_keys(self, edit: dict[str, Any], name: str) -> None:
        self.defs[name]["anyOf"] = [{"required": [key]} for key in edit["keys"]]

    def _open(self, _: dict[str, Any], name: str, key: str) -> None:
        opened, count = _opened(self.defs[name]["properties"][key])
        if not count:
            raise ValueError(f"{key} has no enum")
        self.defs[name]["properties"][key] = opened

    def _open_enums(self, edit: dict[str, Any], _: str) -> None:
        for definition in self.defs.values():
            for key, schema in definition["properties"].items():
                if key not in edit["keep"]:
                    definition["properties"][key], _count = _opened(schema)

    def _open_unions(self, edit: dict[str, Any], __: str) -> None:
        least = edit.get("least", 2)
        for definition in self.defs.values():
            for key, schema in definition["properties"].items():
                definition["properties"][key] = self._with_open_branch(schema, least)

    def _with_open_branch(self, schema: Schema, least: int) -> Schema:
        if schema.get("type") == "array" and "items" in schema:
            items = schema["items"]
            if least == 1 and "$ref" in items:
                items = {"anyOf": [items]}
            return {**schema, "items": self._with_open_branch(items, least)}
        if "anyOf" not in schema:
            return schema
        branches = [self._with_open_branch(branch, least) for branch in schema["anyOf"]]
        known = [value for branch in branches if "$ref" in branch for value in self.types_of(branch["$ref"])]
        if len([branch for branch in branches if "$ref" in branch]) >= least and known:
            other = {
                "type": "object",
                "properties": {"type": {"type": "string", "not": {"enum": sorted(set(known))}}},
                "required": ["type"],
                "x-open": True,
            }
            branches.append(other)
        return any_of(branches)

    def types_of(self, reference: str) -> list[str]:
        """Values of `type` that the referenced definition allows."""
        schema = self.defs[reference.removeprefix(PREFIX)]["properties"].get("type", {})
        return [schema["const"]] if "const" in schema else schema.get("enum", [])

    def orders(self) -> dict[str, str]:
        """Which definition is ordered as a response or as an item; the rest are plain objects."""
        orders = {"Response": "response"}
        for key in ("output", "instructions"):
            for reference in _references(self.defs["Response"]["properties"][key]):
                orders[reference] = "item"
        return orders

    def finish(self, set_id: str, profile: str) -> Schema:
        """The bundle as one JSON Schema document, properties in wire order, unused definitions left out."""
        orders = self.orders()
        used: dict[str, None] = {}
        queue = [*self.events, *self.extensions]
        while queue:
            name = queue.pop(0)
            if name not in used:
                used[name] = None
                queue.extend(_references(self.defs[name]))
        defs: dict[str, Schema] = {}
        for name in sorted(used):
            source, order = self.defs[name], orders.get(name, "object")
            keys = wire_order(source["properties"], order)
            extra = {key: value for key, value in source.items() if key not in ("type", "properties", "required")}
            defs[name] = {
                "type": "object",
                **({} if order == "object" else {"x-order": order}),
                "properties": {key: source["properties"][key] for key in keys},
                "required": [key for key in keys if key in source["required"]],
                **extra,
            }
        return {
            "$schema": METASCHEMA,
            "$id": f"urn:respevents:schema:{set_id}:{profile}",
            "anyOf": [{"$ref": PREFIX + name} for name in (*self.events, *self.extensions)],
            "$defs": defs,
        }


def wire_order(keys: Any, order: str) -> list[str]:
    """Keys in the order they are written (WIRE.md, JSON 3)."""
    head, tail = ENDS[order]
    middle = sorted(key for key in keys if key not in head and key not in tail)
    return [*(key for key in head if key in keys), *middle, *(key for key in tail if key in keys)]


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for one in schema for name in _references(one)]
    if not isinstance(schema, dict):
        return []
    own = [schema["$ref"].removeprefix(PREFIX)] if "$ref" in schema else []
    return own + [name for value in schema.values() for name in _references(value)]


def _wire(set_id: str) -> dict[str, Schema]:
    defs: dict[str, Schema] = json.loads((SCHEMAS / set_id / "wire.json").read_bytes())["$defs"]
    return defs


def _takes_null(schema: Schema) -> bool:
    branches = schema.get("anyOf", [schema])
    return {"type": "null"} in branches or {"x-free-form": True} in branches


def _opened(schema: Schema) -> tuple[Schema, int]:
    """The schema with its string enums opened (known values kept in x-known), and how many there were."""
    if schema.get("type") == "string" and "enum" in schema:
        return {"type": "string", "x-known": schema["enum"]}, 1
    if "anyOf" in schema:
        opened = [_opened(branch) for branch in schema["anyOf"]]
        return {**schema, "anyOf": [one for one, _ in opened]}, sum(count for _, count in opened)
    if "items" in schema:
        items, count = _opened(schema["items"])
        return {**schema, "items": items}, count
    return schema, 0


def dump(value: Any) -> bytes:
    """The one form in which these files are written."""
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def dump_source(structure: Schema) -> bytes:
    """The form in which the structure of a source is written: small, and one definition a line."""
    lines = [f"{json.dumps(name)}:{json.dumps(one, separators=(',', ':'))}" for name, one in structure["$defs"].items()]
    events = json.dumps(structure["anyOf"], separators=(",", ":"))
    return ("{" + f'"anyOf":{events},\n"$defs":{{\n' + ",\n".join(lines) + "\n}}\n").encode()


def label(edit: dict[str, Any], path: str) -> str:
    """What an edit is called in `skip`."""
    return f"{edit['op']} {path or edit.get('name', '')}".strip()


def read_overlay(set_id: str) -> dict[str, Any]:
    """An overlay as it stands in its file."""
    overlay: dict[str, Any] = tomllib.loads((OVERLAYS / f"{set_id}.toml").read_text("utf-8"))
    return overlay


def edits_of(overlay: dict[str, Any]) -> list[dict[str, Any]]:
    """The edits of an overlay: those it includes, less what it skips, then its own; `from` names the overlay."""
    unions = overlay.get("unions", {})
    own = [{**_spelled_out(edit, unions), "from": overlay["set"]["id"]} for edit in overlay.get("edit", [])]
    if "include" not in overlay:
        return own
    unused = set(overlay["include"].get("skip", []))
    skip = frozenset(unused)
    included: list[dict[str, Any]] = []
    for edit in edits_of(read_overlay(overlay["include"]["overlay"])):
        paths = edit.get("paths", [edit.get("path", "")])
        kept = [path for path in paths if label(edit, path) not in skip]
        unused -= {label(edit, path) for path in paths}
        if kept == paths:
            included.append(edit)
        elif kept:
            included.append({**edit, "paths": kept})
    if unused:
        message = f"{overlay['set']['id']}: nothing to skip is called {', '.join(sorted(unused))}"
        raise SourceError(message)
    return included + own


def _spelled_out(value: Any, unions: dict[str, list[str]]) -> Any:
    """The value with each `{union = "NAME"}` as the union that the overlay's [unions] names."""
    if isinstance(value, list):
        return [_spelled_out(one, unions) for one in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"union"}:
        return {"anyOf": [{"$ref": PREFIX + name} for name in unions[value["union"]]]}
    spelled = {key: _spelled_out(one, unions) for key, one in value.items()}
    return any_of(spelled["anyOf"]) if set(spelled) == {"anyOf"} else spelled


def apply_all(types: SdkTypes, edits: list[dict[str, Any]], profile: str) -> Bundle:
    """The bundle of one profile with every edit that is for it."""
    bundle = Bundle(types.defs, types.events)
    for edit in sorted(edits, key=lambda one: one["op"] in WIDE):
        if profile in edit.get("profiles", PROFILES):
            bundle.apply(edit)
    return bundle


def parent_of(overlay: dict[str, Any]) -> str | None:
    """The set that the changes are told against: the one it names, or the one before it of the same origin."""
    own = overlay["set"]
    if "parent" in own:
        return str(own["parent"])
    others = [read_overlay(file.stem)["set"] for file in OVERLAYS.glob("*.toml")]
    earlier = [one for one in others if one["origin"] == own["origin"] and one["date"] < own["date"]]
    return max(earlier, key=lambda one: one["date"])["id"] if earlier else None


def changes(parent: str | None, files: dict[str, bytes]) -> list[dict[str, Any]]:
    """What changed against the parent, in which profile, and what that does to who validates."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for profile in PROFILES if parent is not None else ():
        before = json.loads((SCHEMAS / str(parent) / f"{profile}.json").read_bytes())
        for kind, path, effect in diff(before, json.loads(files[f"{profile}.json"])):
            found.setdefault((kind, path, effect), []).append(profile)
    return [
        {"kind": kind, "path": path, "effect": effect, "profiles": profiles}
        for (kind, path, effect), profiles in sorted(found.items())
    ]


def build(overlay_file: Path, wheel: Path | None) -> dict[str, bytes]:
    """File name to content for one set. The files of its parent are read from schemas/."""
    overlay = tomllib.loads(overlay_file.read_text("utf-8"))
    source, set_id = overlay["source"], overlay["set"]["id"]
    types = SdkTypes(fetch_wheel(source["package"], source["version"], source["sha256"], wheel))
    types.read()
    edits = edits_of(overlay)
    files: dict[str, bytes] = {"source.json": dump_source(types.structure())}
    events: dict[str, str] = {}
    for profile in PROFILES:
        bundle = apply_all(types, edits, profile)
        events = {bundle.types_of(PREFIX + name)[0]: name for name in bundle.events}
        files[f"{profile}.json"] = dump(bundle.finish(set_id, profile))
    plain = Bundle(types.defs, types.events)
    modelled = {plain.types_of(PREFIX + name)[0] for name in types.events}
    parent = parent_of(overlay)
    manifest = {
        **overlay["set"],
        "parent": parent,
        "profiles": {p: {"file": f"{p}.json", "sha256": _digest(files[f"{p}.json"])} for p in PROFILES},
        "source": {**source, "structure": {"file": "source.json", "sha256": _digest(files["source.json"])}},
        **({"specification": overlay["specification"]} if "specification" in overlay else {}),
        "events": [{"type": kind, "definition": name, "in_source": kind in modelled} for kind, name in events.items()],
        **({"extensions": bundle.extensions} if bundle.extensions else {}),
        "overlay": {
            **_pinned(set_id),
            **_included(overlay),
            "edits": [{"profiles": list(PROFILES), **_plain(edit, set_id)} for edit in edits],
        },
        "changes": changes(parent, files),
    }
    files["manifest.json"] = dump(manifest)
    return files


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _pinned(set_id: str) -> dict[str, str]:
    file = OVERLAYS / f"{set_id}.toml"
    return {
        "file": file.relative_to(ROOT).as_posix(),
        "sha256": _digest(file.read_bytes()),
    }


def _included(overlay: dict[str, Any]) -> dict[str, Any]:
    """The overlays behind `include`, nearest first, each with what was skipped of it."""
    chain: list[dict[str, Any]] = []
    while "include" in overlay:
        other = overlay["include"]["overlay"]
        chain.append({**_pinned(other), "skip": overlay["include"].get("skip", [])})
        overlay = read_overlay(other)
    return {"includes": chain} if chain else {}


def _plain(edit: dict[str, Any], set_id: str) -> dict[str, Any]:
    gone = {"old", "new", "schema"} | ({"from"} if edit["from"] == set_id else set())
    return {key: value for key, value in edit.items() if key not in gone}


def _prefetched(overlays: list[Path], given: Path | None) -> dict[str, Path]:
    """Set id to wheel; what has to be fetched is fetched at once."""

    def wheel(file: Path) -> Path:
        source = read_overlay(file.stem)["source"]
        one = given
        if given is not None and given.is_dir():
            one = next(given.glob(f"{source['package']}-{source['version']}-*.whl"))
        return fetch_wheel(source["package"], source["version"], source["sha256"], one)

    with ThreadPoolExecutor() as pool:
        return dict(zip([file.stem for file in overlays], pool.map(wheel, overlays), strict=True))


def main(arguments: list[str] | None = None) -> int:
    """Write or check the sets; 0 when nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("sets", nargs="*")
    options = parser.parse_args(arguments)
    # By date: the changes of a set are told against one that was written before it.
    overlays = sorted(OVERLAYS.glob("*.toml"), key=lambda file: read_overlay(file.stem)["set"]["date"])
    overlays = [file for file in overlays if not options.sets or file.stem in options.sets]
    wheels = _prefetched(overlays, options.wheel)
    differing: list[str] = []
    for overlay in overlays:
        folder = SCHEMAS / overlay.stem
        for name, content in build(overlay, wheels[overlay.stem]).items():
            target = folder / name
            if options.check:
                if not target.is_file() or target.read_bytes() != content:
                    differing.append(target.relative_to(ROOT).as_posix())
            else:
                folder.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
    for name in differing:
        print(
            f"{name}: differs from what tools/build_schemas.py makes; run it and review the change",
            file=sys.stderr,
        )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
