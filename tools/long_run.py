"""The long run of the property tests: `python tools/long_run.py [--minutes 10] [--jobs 2]`.

Runs every test that hypothesis drives again and again, each round with another seed, until the time is up, and says
how many examples passed. A test's own `max_examples` holds in each round; what has none takes that of the profile
`long` (tests/conftest.py). Exits 1 at the first round with a failure, whose seed repeats it:

    HYPOTHESIS_PROFILE=long pytest -m hypothesis --hypothesis-seed=SEED
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time


def main(arguments: list[str] | None = None) -> int:
    """0 when no round failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--jobs", default="auto", help="processes, as pytest-xdist's -n takes them")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first round; the next ones follow")
    options = parser.parse_args(arguments)
    began, seed, examples = time.monotonic(), options.seed, 0
    environment = os.environ | {"HYPOTHESIS_PROFILE": "long"}
    while (spent := time.monotonic() - began) < 60 * options.minutes:
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "hypothesis",
            "-n",
            options.jobs,
            "-p",
            "no:cacheprovider",
        ]
        command += [f"--hypothesis-seed={seed}", "--hypothesis-show-statistics"]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if run.returncode:
            print(run.stdout[-20_000:], run.stderr[-2_000:], f"round with seed {seed} failed", sep="\n")
            return 1
        examples += sum(map(int, re.findall(r"(\d+) passing", run.stdout)))
        print(f"seed {seed}: {run.stdout.strip().splitlines()[-1]}; {examples} examples so far", flush=True)
        seed += 1
    print(f"{examples} examples in {spent / 60:.1f} minutes, no failure")
    return 0


if __name__ == "__main__":
    sys.exit(main())
