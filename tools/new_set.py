"""Make a schema set from an openai wheel: its overlay, its files, and the change list to review.

    python tools/new_set.py openai-2026-12 --sdk 3.60.0 [--base SET] [--wheel FILE]

The overlay tools/overlays/<SET>.toml includes the one of --base (the newest set of that origin unless given) and
skips what no longer fits the wheel, each with its reason: those are the lines to review. Then the set is built, and
what changed against its parent is printed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import build_schemas
from build_schemas import OVERLAYS, PROFILES, SCHEMAS, WIDE, Bundle, MisfitError, build, edits_of, read_overlay
from sdk_types import SdkTypes, download_wheel

HEAD = """\
# What of the set `{base}` holds for openai {version}, and what is different there.

[set]
id = "{set_id}"
origin = "{origin}"
date = "{date}"
dialect = "{dialect}"
{parent}
[source]
package = "{package}"
version = "{version}"
sha256 = "{sha256}"
license = "{license}"

[include]
overlay = "{base}"
skip = [
{skip}]
"""


def misfits(types: SdkTypes, edits: list[dict[str, Any]]) -> dict[str, str]:
    """Label to reason of the edits that do not fit, in their order."""
    found: dict[str, str] = {}
    for profile in PROFILES:
        bundle = Bundle(types.defs, types.events)
        for edit in sorted(edits, key=lambda one: one["op"] in WIDE):
            if profile not in edit.get("profiles", PROFILES):
                continue
            for path in edit.get("paths", [edit.get("path", "")]):
                before = {name: json.dumps(one) for name, one in bundle.defs.items()}
                try:
                    bundle.apply({**edit, "paths": [path]})
                except MisfitError as error:
                    found.setdefault(error.edit, error.reason)
                    bundle.defs = {name: json.loads(one) for name, one in before.items()}
    return found


def overlay_text(set_id: str, base: str, version: str, wheel: Path) -> tuple[str, dict[str, str]]:
    """The overlay of a new set, and the edits it skips with their reasons."""
    types = SdkTypes(wheel)
    types.read()
    old = read_overlay(base)
    skipped = misfits(types, edits_of(old))
    origin, _, date = set_id.rpartition("-20")
    parent = _parent(origin, f"20{date}")
    lines = [f"    {json.dumps(name)}, # {reason[:80]}\n" for name, reason in skipped.items()]
    text = HEAD.format(
        set_id=set_id,
        base=base,
        origin=origin,
        date=f"20{date}",
        dialect=old["set"]["dialect"],
        parent=f'parent = "{parent}"\n' if parent is not None else "",
        package=old["source"]["package"],
        version=version,
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        license=old["source"]["license"],
        skip="".join(lines),
    )
    return text, skipped


def _parent(origin: str, date: str) -> str | None:
    return build_schemas.parent_of({"set": {"origin": origin, "date": date}})


def main(arguments: list[str] | None = None) -> int:
    """Write the overlay and the set; 0 when done, 2 when it cannot be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", help="<origin>-<year>-<month>")
    parser.add_argument("--sdk", required=True, help="version of the openai package")
    parser.add_argument("--base", help="the set whose overlay is included (default: the newest of the origin)")
    parser.add_argument("--wheel", type=Path, help="the wheel, instead of fetching it with pip")
    options = parser.parse_args(arguments)
    origin, _, date = options.set.rpartition("-20")
    base = options.base or _parent(origin, f"20{date}")
    target = OVERLAYS / f"{options.set}.toml"
    if not origin or not date or base is None:
        parser.error(f"{options.set}: a set is called <origin>-<year>-<month>, and follows one of that origin")
    if target.exists():
        parser.error(f"{target} exists: edit it, and run tools/build_schemas.py {options.set}")
    wheel = options.wheel or download_wheel("openai", options.sdk)
    text, skipped = overlay_text(options.set, base, options.sdk, wheel)
    target.write_text(text, "utf-8")
    files = build(target, wheel)
    folder = SCHEMAS / options.set
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    manifest = json.loads(files["manifest.json"])
    for change in manifest["changes"]:
        print(f"{change['effect']:8} {change['kind']:20} {change['path']} ({', '.join(change['profiles'])})")
    print(f"\n{len(manifest['changes'])} changes against {manifest['parent']}")
    print(f"{len(skipped)} edits of {base} do not fit, and are skipped in {target}:")
    for name, reason in skipped.items():
        print(f"  {name}: {reason[:200]}")
    print("Now review both, put the set into schemas.VERSIONS, and its digests into tests/test_schemas.py:")
    for profile in PROFILES:
        print(f'    ("{options.set}", "{profile}"): "{manifest["profiles"][profile]["sha256"]}",')
    return 0


if __name__ == "__main__":
    sys.exit(main())
