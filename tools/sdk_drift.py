"""Run `respevents check-sdk` over many releases of the openai SDK, and print what each has against the sets.

    python tools/sdk_drift.py [--wheels FOLDER] [--set SET] [VERSION ...]

Wheels that are not in --wheels are fetched with pip, one by one, into it. A line for each release: its events, what
it has against the set, and against the release before it in the list. Fails when a release that a set was cut from
is not found to be the same as that set. Not part of CI: it fetches some 40 wheels.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from respevents import schemas
from respevents._cli_check_sdk import compare
from respevents._sdk_source import read_sdk

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSIONS = [
    "1.66.0", "1.66.5", "1.69.0", "1.76.0", "1.80.0", "1.81.0", "1.84.0", "1.88.0", "1.94.0",
    "1.95.0", "1.97.0", "1.97.1", "1.99.0", "1.99.2", "1.102.0", "1.107.0", "1.109.1", "2.0.0",
    "2.3.0", "2.8.0", "2.16.0", "2.24.0", "2.32.0", "2.38.0", "2.45.0", "2.48.0", "2.54.0",
    "3.0.0", "3.1.0", "3.2.0", "3.5.0", "3.8.0", "3.9.0", "3.15.0", "3.20.0", "3.26.0",
    "3.33.0", "3.39.0", "3.45.0", "3.51.0", "3.55.1", "3.56.0", "3.57.0",
]  # fmt: skip
"""Each release in which meaning changed, and some between."""


def wheel_of(version: str, folder: Path) -> Path:
    """The wheel of a release, fetched when it is not in the folder."""
    found = next(folder.glob(f"openai-{version}-*.whl"), None)
    if found is None:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--dest", str(folder), f"openai=={version}"], check=True)
        found = next(folder.glob(f"openai-{version}-*.whl"))
    return found


def counted(changes: Iterable[Any]) -> str:
    counts = Counter(changes)
    return " ".join(f"{counts[effect]:>4}" for effect in ("tighten", "loosen", "neutral"))


def main() -> int:
    """Print the table; 1 when a set differs from the release that it was cut from."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--set", choices=schemas.VERSIONS, default=schemas.NEWEST)
    parser.add_argument("versions", nargs="*", default=VERSIONS)
    options = parser.parse_args()
    folder = options.wheels or Path(tempfile.mkdtemp(prefix="respevents-wheels-"))
    cut = {schemas.manifest(one)["source"]["version"]: one for one in schemas.VERSIONS}
    print(f"{'':10} {'':6} {'against ' + options.set:>20}   {'against the one before':>22}")
    print(f"{'openai':10} events {'tighten loosen neutral':>20}   {'tighten loosen neutral':>22}  seconds")
    before: dict[str, Any] | None = None
    wrong: list[str] = []
    for version in options.versions:
        wheel = wheel_of(version, folder)
        start = time.perf_counter()
        types = read_sdk(wheel)
        found = compare(types, options.set)
        seconds = time.perf_counter() - start
        structure = types.structure()
        steps = [one.effect for one in schemas.diff(before, structure)] if before is not None else []
        before = structure
        note = ""
        if version in cut:
            own = compare(types, cut[version])["changes"]
            note = f"  {cut[version]}: {'the same' if not own else f'{len(own)} DIFFERENCES'}"
            wrong += [version] if own else []
        counts = counted(one["effect"] for one in found["changes"])
        print(f"{version:10} {len(types.events):>6} {counts:>20}   {counted(steps):>22}  {seconds:7.2f}{note}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
