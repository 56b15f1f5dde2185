"""`import respevents` in fresh interpreters, against `import msgspec`, its one dependency."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

from _race import Verdict, options

STATEMENTS = {
    "import msgspec": "import msgspec",
    "import respevents": "import respevents",
    "... and ResponseStream, guard_stream, encode_frame": (
        "from respevents import ResponseStream, guard_stream, encode_frame"
    ),
    "... and schemas": "import respevents; from respevents import schemas",
}
FORBIDDEN = {"openai", "pydantic", "jsonschema", "jsonschema_rs", "asyncio"}


def _run(statement: str) -> tuple[float, set[str], list[str]]:
    """Milliseconds the import takes inside a new interpreter, the modules it loaded, the schema files it opened."""
    code = (
        "import sys, time; opened = []\n"
        "sys.addaudithook(lambda name, given: opened.append(str(given[0])) if name == 'open' else None)\n"
        "began = time.perf_counter()\n"
        f"{statement}\n"
        "spent = time.perf_counter() - began\n"
        "read = [one for one in opened if one.endswith('.json')]\n"
        "import json; print(json.dumps([spent * 1000, sorted(sys.modules), read]))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    spent, modules, read = json.loads(run.stdout)
    return spent, set(modules), read


def main() -> None:
    chosen = options(__doc__)
    times: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    loaded: set[str] = set()
    read: set[str] = set()
    for _ in range(3 if chosen.quick else 15):
        for name, statement in STATEMENTS.items():
            spent, modules, files = _run(statement)
            times[name].append(spent)
            loaded |= modules & FORBIDDEN
            read |= set(files)
    best = {name: statistics.median(spent) for name, spent in times.items()}
    for name, spent in best.items():
        print(f"     {name:<66} {spent:8.2f}ms")
    verdict = Verdict(chosen.slack)
    bound = round(1.5 * best["import msgspec"] + 30, 1)
    verdict.at_most("import respevents", best["import respevents"], bound, unit="ms")
    verdict.at_most("modules loaded that must not be: " + ", ".join(sorted(loaded)), len(loaded), 0, unit=" ")
    # However many sets there are, an import reads none of them.
    verdict.at_most("schema files read: " + ", ".join(sorted(read)), len(read), 0, unit=" ")
    verdict.exit()


if __name__ == "__main__":
    main()
