"""One text delta, frame bytes out: the builder against the openai SDK's models and against bare msgspec."""

from __future__ import annotations

import statistics
from typing import Literal

import msgspec
from openai.types.responses import ResponseTextDeltaEvent as SdkEvent

from _race import Verdict, median_ratio, options, race
from respevents import ResponseStream, encode_frame
from respevents.events import ResponseTextDeltaEvent

PIECES = ("Hello", " world", ", this", " is", " a", " delta", ".", "\n", " naïve", ' "quoted"')
ITEM = "msg_0123456789abcdef0123456789abcdef0123456789abcdef"


class BareDelta(msgspec.Struct, frozen=True, kw_only=True):
    """The least a typed event can be: the same fields in wire order, nothing else."""

    type: Literal["response.output_text.delta"] = "response.output_text.delta"
    content_index: int
    delta: str
    item_id: str
    logprobs: list[object]
    output_index: int
    sequence_number: int


def builder(number: int) -> int:
    """What a server calls: one method, given the text."""
    stream = ResponseStream(model="m", id="resp_1", created_at=1767225600)
    stream.start()
    text = stream.message(id=ITEM).text
    text("warm")
    size = 0
    for count in range(number):
        size += len(text(PIECES[count % 10]))
    return size


def bare_struct(number: int) -> int:
    """A Struct made and encoded, and the two lines of the frame around it."""
    encode = msgspec.json.Encoder().encode
    size = 0
    for count in range(number):
        event = BareDelta(
            content_index=0, delta=PIECES[count % 10], item_id=ITEM, logprobs=[], output_index=0, sequence_number=count
        )
        size += len(b"event: response.output_text.delta\ndata: " + encode(event) + b"\n\n")
    return size


def typed_event(number: int) -> int:
    """Our class and our serializer, for events made by hand."""
    size = 0
    for count in range(number):
        event = ResponseTextDeltaEvent(
            content_index=0, delta=PIECES[count % 10], item_id=ITEM, logprobs=(), output_index=0, sequence_number=count
        )
        size += len(encode_frame(event))
    return size


def sdk_model(number: int) -> int:
    """What servers do today: the SDK's model, its JSON, an f-string."""
    size = 0
    for count in range(number):
        event = SdkEvent(
            type="response.output_text.delta",
            content_index=0,
            delta=PIECES[count % 10],
            item_id=ITEM,
            logprobs=[],
            output_index=0,
            sequence_number=count,
        )
        size += len(f"event: {event.type}\ndata: {event.model_dump_json()}\n\n")
    return size


def main() -> None:
    chosen = options(__doc__)
    contenders = {
        "builder": builder,
        "bare Struct": bare_struct,
        "typed event, encode_frame": typed_event,
        "openai SDK model": sdk_model,
    }
    times = race(contenders, rounds=5 if chosen.quick else 15, number=2_000 if chosen.quick else 10_000)
    for name, rounds in times.items():
        print(f"     {name:<66} {statistics.median(rounds) * 1e6:8.2f}us")
    verdict = Verdict(chosen.slack)
    verdict.at_least("SDK path over builder", median_ratio(times["openai SDK model"], times["builder"]), 8)
    verdict.at_most("builder over bare Struct", median_ratio(times["builder"], times["bare Struct"]), 1.3)
    verdict.exit()


if __name__ == "__main__":
    main()
