"""Timing that survives a noisy machine: contenders take turns, and only ratios of one run are judged."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Verdict", "median_ratio", "options", "race"]


def options(description: str | None) -> argparse.Namespace:
    """Read the two switches every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for a smoke test")
    parser.add_argument("--slack", type=float, default=1.0, help="loosen every bound by this factor (default: 1)")
    return parser.parse_args()


def race(contenders: Mapping[str, Callable[[int], object]], *, rounds: int, number: int) -> dict[str, list[float]]:
    """Seconds per call, one figure for each round.

    A contender is called with `number` and does its work that often. Each round runs every contender once, so
    a slow spell of the machine hits all of them.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for contender in contenders.values():
        contender(max(1, number // 10))  # caches, branch predictors and allocator pools are warm for all
    for _ in range(rounds):
        for name, contender in contenders.items():
            began = time.perf_counter()
            contender(number)
            times[name].append((time.perf_counter() - began) / number)
    return times


def median_ratio(above: list[float], below: list[float]) -> float:
    """The median over the rounds of one contender's time divided by the other's."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


class Verdict:
    """Prints each figure beside its bound and remembers whether one was missed."""

    def __init__(self, slack: float) -> None:
        self._slack = slack
        self._missed = False

    def at_most(self, what: str, value: float, bound: float, unit: str = "x") -> None:
        self._say(what, value, value <= bound * self._slack, f"at most {bound:g}{unit}", unit)

    def at_least(self, what: str, value: float, bound: float, unit: str = "x") -> None:
        self._say(what, value, value >= bound / self._slack, f"at least {bound:g}{unit}", unit)

    def _say(self, what: str, value: float, held: bool, bound: str, unit: str) -> None:
        slack = "" if self._slack == 1 else f", slack {self._slack:g}"
        print(f"{'ok  ' if held else 'MISS'} {what:<66} {value:8.2f}{unit}  ({bound}{slack})")
        self._missed |= not held

    def exit(self) -> None:
        """End the process: 1 when a bound was missed."""
        sys.exit(1 if self._missed else 0)
