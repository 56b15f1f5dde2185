"""Classifying a text of 300 characters over one compiled alternation of the same patterns; 1 MB over 20 kB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from _race import Verdict, median_ratio, options, race
from respevents import classifier, classify

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = ("The worker could not go on with what it was given, and the log has no more to say about it. " * 4)[:300]
OVER = (
    f"{TEXT[:190]} This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."
)


def times(call: Callable[[str], object], text: str) -> Callable[[int], object]:
    def run(number: int) -> None:
        for _ in range(number):
            call(text)

    return run


def main() -> None:
    chosen = options(__doc__)
    verdict = Verdict(chosen.slack)
    rounds, number = (3, 30) if chosen.quick else (9, 300)
    search = classifier._book(None).wording.search  # noqa: SLF001 - the alternation is the yardstick
    for name, text in (("nothing known", TEXT), ("over-length", OVER)):
        took = race({"bare": times(search, text), "ours": times(classify, text)}, rounds=rounds, number=number)
        verdict.at_most(f"classify over one alternation, {name}", median_ratio(took["ours"], took["bare"]), 3)
    long = {"short": times(classify, TEXT * 67), "long": times(classify, TEXT * 3400)}
    took = race(long, rounds=3, number=max(1, number // 30))
    verdict.at_most("classify 1 MB over 20 kB", median_ratio(took["long"], took["short"]), 3)
    verdict.exit()


if __name__ == "__main__":
    main()
