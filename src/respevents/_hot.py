"""Frames of deltas from pieces made once: only the text and the number change from one delta to the next.

The pieces are cut out of a frame that `wire.encode_frame` wrote, so the bytes are its bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from respevents.wire import encode_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from respevents._output import Text
    from respevents._writer import Writer
    from respevents.lifecycle import ItemState, PartState

__all__ = ["pieces", "quick"]

_COALESCE: Final = 1024

# What no id holds: both are looked for in the encoded frame and must be there once.
_TEXT: Final = "\x00delta\x00"
_NUMBER: Final = 8_008_135_000_000_000_007


def pieces(event: dict[str, Any]) -> tuple[bytes, bytes, bytes] | None:
    """The frame of a delta event before its text, between text and number, and after it; None if it cannot be cut."""
    frame = encode_frame({**event, "delta": _TEXT, "sequence_number": _NUMBER})
    text, number = msgspec.json.encode(_TEXT), b"%d" % _NUMBER
    if frame.count(text) != 1 or frame.count(number) != 1:
        return None
    before, _, rest = frame.partition(text)
    between, _, after = rest.partition(number)
    return (before, between, after) if after else None


def quick(
    writer: Writer,
    holder: ItemState | PartState,
    text: Text,
    event: dict[str, Any],
    slow: Callable[[Any], bytes],
) -> Callable[[Any], bytes] | None:
    """A function from one delta's text to its frame, right as long as nothing but such deltas happens.

    Anything else (another state, no text, half a surrogate pair) goes to `slow`. `holder` is what the delta belongs
    to, in the state it has now.
    """
    cut = pieces(event)
    if cut is None:
        return None
    before, between, after = cut
    machine = writer.machine
    running, state = machine.state, holder.state
    encode = msgspec.json.Encoder().encode
    keep, coalesce = text.pieces.append, text.coalesce
    join = b"".join
    limit = writer.number + _COALESCE

    def write(delta: Any) -> bytes:
        nonlocal limit
        if delta.__class__ is str and delta and holder.state == state and machine.state == running:
            number = writer.number
            try:
                frame = join((before, encode(delta), between, encode(number), after))
            except UnicodeEncodeError:
                return slow(delta)
            writer.number = number + 1
            keep(delta)
            if number >= limit:
                limit = number + _COALESCE
                coalesce()
            return frame
        return slow(delta)

    return write
