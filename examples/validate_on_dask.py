"""Validates a store of captures on a Dask cluster: the work of `validate_store.py`, findings out as Parquet.

    python validate_on_dask.py STORE OUT [--scheduler tcp://HOST:8786]

Without a scheduler it starts workers on this machine. The workers have to see STORE and OUT under the same paths and
need `respevents[validate]` and pyarrow. A partition whose worker dies is given to another one, and one whose file is
there is not done again, so a run that was broken off goes on where it stood. Needs `respevents[cluster]`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import validate_store
from distributed import Client, as_completed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("file", "stream", "rule", "severity", "path", "message")),
        *((name, pa.int64()) for name in ("events", "frame", "offset")),
    ]
)
_BATCH = 10_000
"""Rows that are held before they are written."""


def write_parquet(partition: validate_store.Partition, out: Path) -> str:
    """Validate one partition into its file; what a task of the cluster does."""
    target = out / f"{partition.name}.parquet"
    with validate_store.whole_or_none(target) as path, pq.ParquetWriter(path, SCHEMA) as file:
        batch: list[dict[str, Any]] = []
        for row in validate_store.rows(partition):
            batch.append(row)
            if len(batch) == _BATCH:
                file.write_table(pa.Table.from_pylist(batch, SCHEMA))
                batch = []
        file.write_table(pa.Table.from_pylist(batch, SCHEMA))
    return target.name


def read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches():
            yield from batch.to_pylist()


def run(store: Path, out: Path, client: Client, size: int) -> list[Path]:
    """Validate what is not done yet; the results of all. At most four partitions for each thread are on their way."""
    out.mkdir(parents=True, exist_ok=True)
    client.upload_file(validate_store.__file__)
    most = 4 * max(1, sum(client.nthreads().values()))
    results = []
    waiting = as_completed()
    for partition in validate_store.partitions(store, size):
        target = out / f"{partition.name}.parquet"
        results.append(target)
        if target.exists():
            continue
        if waiting.count() >= most:
            next(waiting).result()
        waiting.add(client.submit(write_parquet, partition, out, pure=False))
    for future in waiting:
        future.result()
    return results


def main() -> int:
    parser = validate_store.arguments()
    parser.description = __doc__
    parser.add_argument("--scheduler", help="address of a running cluster")
    options = parser.parse_args()
    if not options.store.is_dir():
        print(f"{options.store} is no folder", file=sys.stderr)
        return 2
    store, out = options.store.resolve(), options.out.resolve()
    local = {"n_workers": options.workers, "threads_per_worker": 1, "dashboard_address": None}
    with Client(options.scheduler) if options.scheduler else Client(**local) as client:
        results = run(store, out, client, options.files)
    return validate_store.report(results, read_parquet)


if __name__ == "__main__":
    sys.exit(main())
