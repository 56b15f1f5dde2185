"""Run every installed client, write `results.json` and docs/clients.md: `python tests/clients/record.py [--again] [CLIENT ...]`.

What each driver said is kept in the folder of the clients; `--again` says it anew without running them.
`tests/clients/test_clients.py` holds a later run against it. Needs the `dev` extra, and `setup.sh` once.
"""

from __future__ import annotations

import json
import subprocess
import sys

from outcomes import CHOSEN, RESULTS, recorded, results
from running import CLIENTS, FOLDER, HERE, installed, run

from respevents.testing.server import ScriptedServer


def main(chosen: list[str]) -> int:
    again = "--again" in chosen
    chosen = [name for name in chosen if name != "--again"]
    found = results()
    for client in chosen or CLIENTS:
        if not installed(client):
            print(f"{client}: not installed", file=sys.stderr)
            continue
        kept = FOLDER / f"{client.replace(' ', '-')}.json"
        if again and kept.exists():
            ran = json.loads(kept.read_text())
        else:
            with ScriptedServer() as server:
                ran = run(client, server, CHOSEN)
            kept.write_text(json.dumps(ran, indent=1))
        found[client] = recorded(ran)
        print(f"{client} {ran['version']}: {len(CHOSEN)} scenarios", file=sys.stderr, flush=True)
        ordered = {name: found[name] for name in CLIENTS if name in found}
        RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")
    subprocess.run([sys.executable, str(HERE.parent.parent / "tools" / "build_docs.py")], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
