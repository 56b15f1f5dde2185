"""Validates a large store of captures on one machine: a folder tree, in any capture formats, with several processes.

    python validate_store.py STORE OUT [--workers 4]

The store is cut into partitions of some hundred files. Each becomes one file of JSON lines in OUT, written under
another name and renamed when it is whole, so a run that was broken off goes on where it stood. Nothing is held in
memory but the stream that is read. Prints how often each rule spoke. Exits 0, 1 where a stream has an error, 2 where
a file could not be read. Needs `respevents[validate]`; `validate_on_dask.py` does the same on a cluster.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import hashlib
import json
import os
import sys
import uuid
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from respevents import ProtocolError, validate_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Row = dict[str, Any]

UNREADABLE = "unreadable"


class Partition(NamedTuple):
    """Some files of one folder. `name` changes when one of them does, so its old results no longer count."""

    name: str
    files: tuple[str, ...]


def partitions(store: Path, size: int) -> Iterator[Partition]:
    """The store in pieces of at most `size` files, folder by folder; always the same ones for the same files."""
    for folder, folders, names in os.walk(store):
        folders.sort()
        files = iter(sorted(name for name in names if not name.startswith(".")))
        while piece := tuple(str(Path(folder, name)) for name in islice(files, size)):
            stats = [(path, (stat := Path(path).stat()).st_size, stat.st_mtime_ns) for path in piece]
            digest = hashlib.sha256(json.dumps(stats).encode()).hexdigest()[:16]
            slug = Path(folder).relative_to(store).as_posix().replace("/", "_")
            yield Partition(f"{slug[-80:]}-{digest}", piece)


def rows(partition: Partition) -> Iterator[Row]:
    """A row for each finding, one without a rule for a stream that has none, one for a file that cannot be read."""
    for path in partition.files:
        try:
            for report in validate_file(path):
                about = {"file": path, "stream": report.name, "events": report.events}
                for one in report.findings:
                    told = {
                        key: getattr(one, key) for key in ("rule", "severity", "frame", "offset", "path", "message")
                    }
                    yield about | told
                if not report.findings:
                    yield about
        except (ProtocolError, OSError) as error:
            yield {"file": path, "rule": UNREADABLE, "severity": "error", "message": str(error)}


@contextlib.contextmanager
def whole_or_none(target: Path) -> Iterator[Path]:
    """A path to write to, which becomes `target` when the block is through: readers never see half a file."""
    path = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        yield path
        path.replace(target)
    finally:
        path.unlink(missing_ok=True)


def write_json_lines(partition: Partition, out: Path) -> Path:
    """Validate one partition into its file."""
    target = out / f"{partition.name}.jsonl"
    with whole_or_none(target) as path, path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows(partition))
    return target


def read_json_lines(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def summary(found: Iterable[Mapping[str, Any]]) -> tuple[Counter[str], int]:
    """How often each rule spoke, and the exit code."""
    counts: Counter[str] = Counter()
    code = 0
    for row in found:
        rule = row.get("rule")
        counts[f"{rule} {row['severity']}" if rule else "streams without a finding"] += 1
        if row.get("severity") == "error":
            code = max(code, 2 if rule == UNREADABLE else 1)
    return counts, code


def run(store: Path, out: Path, workers: int, size: int) -> list[Path]:
    """Validate what is not done yet; the results of all. At most two partitions for each worker are on their way."""
    out.mkdir(parents=True, exist_ok=True)
    results = []
    with concurrent.futures.ProcessPoolExecutor(workers) as pool:
        waiting: set[concurrent.futures.Future[Path]] = set()
        for partition in partitions(store, size):
            target = out / f"{partition.name}.jsonl"
            results.append(target)
            if target.exists():
                continue
            if len(waiting) >= 2 * workers:
                done, waiting = concurrent.futures.wait(waiting, return_when="FIRST_COMPLETED")
                for future in done:
                    future.result()
            waiting.add(pool.submit(write_json_lines, partition, out))
        for future in waiting:
            future.result()
    return results


def report(results: list[Path], read: Callable[[Path], Iterable[Mapping[str, Any]]]) -> int:
    """Print the summary of results; the exit code."""
    counts, code = summary(row for path in results for row in read(path))
    print(f"{len(results)} partitions")
    for name, count in counts.most_common():
        print(f"{count:9} {name}")
    return code


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path, help="folder of captures")
    parser.add_argument("out", type=Path, help="folder of results; kept and gone on from")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--files", type=int, default=200, help="files in a partition, at most")
    return parser


def main() -> int:
    options = arguments().parse_args()
    if not options.store.is_dir():
        print(f"{options.store} is no folder", file=sys.stderr)
        return 2
    return report(run(options.store, options.out, options.workers, options.files), read_json_lines)


if __name__ == "__main__":
    sys.exit(main())
