"""Whole streams of 1,000, 10,000 and 100,000 deltas: time stays linear, memory near the size of the text."""

from __future__ import annotations

import gc
import statistics
import time
import tracemalloc

from _race import Verdict, options
from respevents import ResponseStream

PIECE = "token {:04d} "
"""Formatted anew for each delta: an engine's tokens are strings of their own, and a builder that kept them shows."""
LENGTH = len(PIECE.format(0))
SIZES = (1_000, 10_000, 100_000)


def _build(deltas: int) -> float:
    """Seconds for a stream, from its first frame to the terminal event."""
    began = time.perf_counter()
    stream = ResponseStream(model="m", id="resp_1", created_at=1767225600)
    stream.start()
    text = stream.message().text
    for at in range(deltas):
        text(PIECE.format(at))
    stream.complete()
    return time.perf_counter() - began


def _memory(deltas: int) -> int:
    """Bytes the open stream holds after `deltas`, and at the most while they came."""
    gc.collect()
    tracemalloc.start()
    try:
        stream = ResponseStream(model="m", id="resp_1", created_at=1767225600)
        stream.start()
        text = stream.message().text
        for _ in range(deltas):
            text(PIECE)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def main() -> None:
    chosen = options(__doc__)
    verdict = Verdict(chosen.slack)
    rounds = 3 if chosen.quick else 7
    per_delta: dict[int, list[float]] = {size: [] for size in SIZES}
    _build(1_000)
    for _ in range(rounds):
        for size in SIZES:
            # The same number of deltas for each size, so that each figure is as exact as the others.
            repeats = 1 if chosen.quick else SIZES[-1] // size
            per_delta[size].append(sum(_build(size) for _ in range(repeats)) / repeats / size)
    for size in SIZES:
        print(f"     {f'{size:,} deltas, each':<66} {statistics.median(per_delta[size]) * 1e6:8.2f}us")
    base = min(per_delta[SIZES[0]])
    for size in SIZES[1:]:
        verdict.at_most(f"a delta of {size:,} over a delta of {SIZES[0]:,}", min(per_delta[size]) / base, 1.5)
    for size in SIZES:
        characters = size * LENGTH
        verdict.at_most(
            f"bytes held per character, {size:,} deltas, less 1 MiB",
            max(0, _memory(size) - 2**20) / characters,
            4,
            unit=" ",
        )
    verdict.exit()


if __name__ == "__main__":
    main()
