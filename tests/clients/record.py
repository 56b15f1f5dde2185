"""Run every installed client and write `results.json`: `python tests/clients/record.py [CLIENT ...]`.

`tests/clients/test_clients.py` holds a later run against it, and `tools/build_docs.py` makes docs/clients.md of it.
"""

from __future__ import annotations

import json
import sys

from running import CHOSEN, CLIENTS, HERE, installed, outcome, run

from respevents.testing.server import ScriptedServer

RESULTS = HERE / "results.json"


def main(chosen: list[str]) -> int:
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for client in chosen or CLIENTS:
        if not installed(client):
            print(f"{client}: not installed", file=sys.stderr)
            continue
        with ScriptedServer() as server:
            ran = run(client, server, CHOSEN)
        found[client] = {
            "version": ran["version"],
            "outcomes": {name: outcome(name, ran["results"][name]) for name in CHOSEN},
        }
        print(f"{client} {ran['version']}: {len(CHOSEN)} scenarios", file=sys.stderr, flush=True)
        ordered = {name: found[name] for name in CLIENTS if name in found}
        RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
