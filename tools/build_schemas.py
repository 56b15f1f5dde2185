"""Build the schema sets under schemas/ from a pinned openai wheel and a reviewed overlay.

    python tools/build_schemas.py [--check] [--wheel FILE] [SET ...]

Without --wheel the pinned wheel is fetched with pip and its sha256 checked. --check writes nothing and fails when
a committed file differs from what would be written.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import tomllib

from respevents._canonical import ENDS
from sdk_types import Schema, SdkTypes, SourceError, any_of, fetch_wheel

ROOT = Path(__file__).resolve().parent.parent
PROFILES = ("strict", "wire")
METASCHEMA = "https://json-schema.org/draft/2020-12/schema"
PREFIX = "#/$defs/"


class Bundle:
    """The definitions of one profile while the overlay is applied."""

    def __init__(self, defs: dict[str, Schema], events: list[str]) -> None:
        self.defs = copy.deepcopy(defs)
        self.events = list(events)

    def apply(self, edit: dict[str, Any]) -> None:
        """Apply one overlay edit; SourceError when it does not fit what is there."""
        operation = "_" + edit["op"].replace("-", "_")
        for path in edit.get("paths", [edit.get("path", "")]):
            try:
                getattr(self, operation)(edit, *path.split("."))
            except (KeyError, ValueError, AssertionError) as error:
                message = f"overlay edit {edit['op']} {path}: does not fit ({error!r})"
                raise SourceError(message) from error

    def _replace(self, edit: dict[str, Any], name: str, key: str) -> None:
        properties = self.defs[name]["properties"]
        if properties[key] != edit["old"]:
            raise ValueError(properties[key])
        properties[key] = edit["new"]

    def _add(self, edit: dict[str, Any], name: str, key: str) -> None:
        if key in self.defs[name]["properties"]:
            raise ValueError(key)
        self.defs[name]["properties"][key] = copy.deepcopy(edit["new"])

    def _define(self, edit: dict[str, Any], _: str) -> None:
        name = edit["name"]
        if name in self.defs:
            raise ValueError(name)
        self.defs[name] = copy.deepcopy(edit["schema"])
        if edit.get("event"):
            self.events.append(name)

    def _require(self, edit: dict[str, Any], name: str) -> None:
        for key in edit["keys"]:
            if key not in self.defs[name]["properties"] or key in self.defs[name]["required"]:
                raise ValueError(key)
            self.defs[name]["required"].append(key)

    def _optional(self, edit: dict[str, Any], name: str) -> None:
        for key in edit["keys"]:
            self.defs[name]["required"].remove(key)

    def _optional_everywhere(self, edit: dict[str, Any], _: str) -> None:
        for definition in self.defs.values():
            definition["required"] = [key for key in definition["required"] if key not in edit["keys"]]

    def _one_of_keys(self, edit: dict[str, Any], name: str) -> None:
        self.defs[name]["anyOf"] = [{"required": [key]} for key in edit["keys"]]

    def _open(self, _: dict[str, Any], name: str, key: str) -> None:
        opened, count = _opened(self.defs[name]["properties"][key])
        if not count:
            raise ValueError(key)
        self.defs[name]["properties"][key] = opened

    def _open_enums(self, edit: dict[str, Any], _: str) -> None:
        for definition in self.defs.values():
            for key, schema in definition["properties"].items():
                if key not in edit["keep"]:
                    definition["properties"][key], _count = _opened(schema)

    def _open_unions(self, _: dict[str, Any], __: str) -> None:
        for definition in self.defs.values():
            for key, schema in definition["properties"].items():
                definition["properties"][key] = self._with_open_branch(schema)

    def _with_open_branch(self, schema: Schema) -> Schema:
        if schema.get("type") == "array" and "items" in schema:
            return {**schema, "items": self._with_open_branch(schema["items"])}
        if "anyOf" not in schema:
            return schema
        branches = [self._with_open_branch(branch) for branch in schema["anyOf"]]
        known = [value for branch in branches if "$ref" in branch for value in self.types_of(branch["$ref"])]
        if len([branch for branch in branches if "$ref" in branch]) > 1 and known:
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
        queue = list(self.events)
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
            "anyOf": [{"$ref": PREFIX + name} for name in self.events],
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


def build(overlay_file: Path, wheel: Path | None) -> dict[str, bytes]:
    """File name to content for one set."""
    overlay = tomllib.loads(overlay_file.read_text("utf-8"))
    source, set_id = overlay["source"], overlay["set"]["id"]
    types = SdkTypes(fetch_wheel(source["package"], source["version"], source["sha256"], wheel))
    types.read()
    files: dict[str, bytes] = {}
    events: dict[str, str] = {}
    for profile in PROFILES:
        bundle = Bundle(types.defs, types.events)
        for edit in overlay["edit"]:
            if profile in edit.get("profiles", PROFILES):
                bundle.apply(edit)
        document = bundle.finish(set_id, profile)
        events = {bundle.types_of(PREFIX + name)[0]: name for name in bundle.events}
        files[f"{profile}.json"] = dump(document)
    modelled = set(types.events)
    manifest = {
        **overlay["set"],
        "parent": overlay["set"].get("parent"),
        "profiles": {
            p: {"file": f"{p}.json", "sha256": hashlib.sha256(files[f"{p}.json"]).hexdigest()} for p in PROFILES
        },
        "source": source,
        "events": [{"type": kind, "definition": name, "in_source": name in modelled} for kind, name in events.items()],
        "overlay": {
            "file": overlay_file.relative_to(ROOT).as_posix(),
            "sha256": hashlib.sha256(overlay_file.read_bytes()).hexdigest(),
            "edits": [{"profiles": list(PROFILES), **_plain(edit)} for edit in overlay["edit"]],
        },
        "changes": [],
    }
    files["manifest.json"] = dump(manifest)
    return files


def _plain(edit: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in edit.items() if key not in ("old", "new", "schema")}


def main(arguments: list[str] | None = None) -> int:
    """Write or check the sets; 0 when nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("sets", nargs="*")
    options = parser.parse_args(arguments)
    overlays = sorted((ROOT / "tools" / "overlays").glob("*.toml"))
    differing: list[str] = []
    for overlay in overlays:
        if options.sets and overlay.stem not in options.sets:
            continue
        folder = ROOT / "schemas" / overlay.stem
        for name, content in build(overlay, options.wheel).items():
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
