"""A delta event through all layers of the validator, over one decode of its line; the SDK and jsonschema beside it."""

from __future__ import annotations

import tracemalloc
from typing import Any

import jsonschema
import msgspec
from openai._models import construct_type
from openai.types.responses import ResponseStreamEvent

from _race import Verdict, median_ratio, options, race
from respevents import ResponseStream, StreamValidator, schemas

COUNT = 2_000


def body(count: int) -> list[bytes]:
    """The frames of a stream of so many deltas."""
    stream = ResponseStream(model="m", id="resp_1", created_at=1767225600)
    text = stream.message().text
    return [stream.start() + text("warm"), *(text(f"token {at} ") for at in range(count)), stream.complete()]


def main() -> None:
    chosen = options(__doc__)
    verdict = Verdict(chosen.slack)
    frames = body(COUNT)
    lines = [frame.split(b"data: ")[1].rstrip() for frame in frames[1:-1]]
    events = [msgspec.json.decode(line) for line in lines]
    whole = b"".join(frames[:-1])
    chunks = [whole[at : at + 2**16] for at in range(0, len(whole), 2**16)]
    union = jsonschema.Draft202012Validator(schemas.load(profile="wire"))

    def decode(number: int) -> None:
        for at in range(number):
            msgspec.json.decode(lines[at % COUNT])

    def ours(number: int) -> None:
        for _ in range(max(1, number // COUNT)):
            validator = StreamValidator()
            for chunk in chunks:
                validator.feed(chunk)

    def sdk(number: int) -> None:
        kind: Any = ResponseStreamEvent
        for at in range(number):
            construct_type(type_=kind, value=msgspec.json.decode(lines[at % COUNT]))

    def whole_union(number: int) -> None:
        for at in range(number):
            assert union.is_valid(events[at % COUNT])

    rounds = 2 if chosen.quick else 7
    took = race({"decode": decode, "ours": ours}, rounds=rounds, number=COUNT)
    verdict.at_most("a delta, all layers, over msgspec.json.decode", median_ratio(took["ours"], took["decode"]), 12)
    slow = race({"ours": ours, "sdk": sdk}, rounds=rounds, number=COUNT)
    verdict.at_least("the SDK's parse over it", median_ratio(slow["sdk"], slow["ours"]), 10)
    mine = race({"ours": ours}, rounds=1, number=COUNT)["ours"][0]
    theirs = race({"union": whole_union}, rounds=1, number=20)["union"][0]
    verdict.at_least("jsonschema on the whole union over it", theirs / mine, 100)

    size = 2 if chosen.quick else 100
    piece = b"".join(frames[1:-1])
    tracemalloc.start()
    validator = StreamValidator(ignore=["RE6"])
    validator.feed(frames[0])
    for _ in range(size * 2**20 // len(piece)):
        validator.feed(piece)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    verdict.at_most(f"MiB held at the most, {size} MB of deltas", peak, 16, unit=" ")
    verdict.exit()


if __name__ == "__main__":
    main()
