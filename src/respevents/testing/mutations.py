"""Labelled faults: each takes a valid stream and breaks it so that one rule of the validator must say so.

`MUTATIONS` holds them by name. `apply(frames)` gives the broken frames and the place where the fault first shows (the
first frame that is wrong, or the number of frames for the end of the stream), or None where the stream has nothing of
the kind. A mutation always changes what the stream means: where it would not, it does not apply.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from respevents._dialect import DONE, DONE_FRAME
from respevents.findings import BY_NAME
from respevents.wire import decode_json, encode_frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

__all__ = ["MUTATIONS", "Mutated", "Mutation"]

Frames = list[bytes]
Events = list[dict[str, Any]]
_TERMINAL: Final = {"response.completed", "response.incomplete", "response.failed"}
_DELTAS: Final = ".delta"


_LOST: Final = (
    "sequence-gap", "sequence-start", "sequence-missing", "not-started", "response-order", "item-not-added",
    "part-order", "unterminated", "deltas-missing", "text-mismatch", "arguments-mismatch", "part-mismatch",
    "item-mismatch", "item-unfinished", "item-order", "audio-order", "field-missing", "field-shape",
)  # fmt: skip
"""What follows from an event that no reader can place: its text is missing from then on."""


class Mutated(NamedTuple):
    """The broken stream, and where the fault first shows."""

    frames: Frames
    frame: int

    @property
    def body(self) -> bytes:
        """The bytes of the whole stream."""
        return b"".join(self.frames)


class Mutation(NamedTuple):
    """One labelled fault. `options` are what the validator needs to see it, `also` rules that may speak too."""

    name: str
    rule: str
    apply: Callable[[Frames], Mutated | None]
    options: Mapping[str, Any]
    also: frozenset[str]


MUTATIONS: Final[dict[str, Mutation]] = {}
"""Name -> mutation."""


def _mutation(
    rule: str, also: Iterable[str] = (), **options: Any
) -> Callable[[Callable[[Frames], Mutated | None]], Callable[[Frames], Mutated | None]]:
    def add(function: Callable[[Frames], Mutated | None]) -> Callable[[Frames], Mutated | None]:
        def apply(frames: Frames) -> Mutated | None:
            found = function(list(frames))
            return None if found is None or found.frames == frames else found

        name = function.__name__.strip("_").replace("_", "-")
        speaking = frozenset(BY_NAME[one].id for one in also)
        MUTATIONS[name] = Mutation(name, BY_NAME[rule].id, apply, options, speaking)
        return function

    return add


def _events(frames: Frames) -> list[dict[str, Any] | None]:
    """The event of each frame; None for a comment and for `[DONE]`."""
    found: list[dict[str, Any] | None] = []
    for frame in frames:
        at = frame.find(b"data: ")
        data = frame[at + 6 :].rstrip(b"\n")
        found.append(None if at < 0 or data == DONE else decode_json(data))
    return found


def _always(_event: dict[str, Any]) -> bool:
    return True


def _first(frames: Frames, fits: Callable[[dict[str, Any]], bool]) -> int | None:
    return next((at for at, event in enumerate(_events(frames)) if event is not None and fits(event)), None)


def _edit(
    frames: Frames, fits: Callable[[dict[str, Any]], bool], change: Callable[[dict[str, Any]], None]
) -> Mutated | None:
    """Change the first event that fits."""
    at = _first(frames, fits)
    if at is None:
        return None
    event = _events(frames)[at]
    assert event is not None
    change(event)
    frames[at] = encode_frame(event)
    return Mutated(frames, at)


def _renumbered(frames: Frames, start: int = 0) -> Frames:
    """The same events with numbers that rise by 1 from `start`."""
    number, out = start, []
    for frame, event in zip(frames, _events(frames), strict=True):
        if event is None:
            out.append(frame)
            continue
        out.append(encode_frame({**event, "sequence_number": number}))
        number += 1
    return out


def _number(frames: Frames) -> int:
    first = next(event for event in _events(frames) if event is not None)
    number: int = first["sequence_number"]
    return number


def _insert(frames: Frames, at: int, event: dict[str, Any]) -> Mutated:
    start = _number(frames)
    frames.insert(at, encode_frame({**event, "sequence_number": 0}))
    return Mutated(_renumbered(frames, start), at)


def _drop(frames: Frames, at: int, shows: int) -> Mutated:
    start = _number(frames)
    del frames[at]
    return Mutated(_renumbered(frames, start), shows)


def _raw(frames: Frames, at: int | None, change: Callable[[bytes], bytes]) -> Mutated | None:
    if at is None:
        return None
    frames[at] = change(frames[at])
    return Mutated(frames, at)


def _is(*kinds: str) -> Callable[[dict[str, Any]], bool]:
    return lambda event: event["type"] in kinds


def _with_text(event: dict[str, Any]) -> bool:
    return event["type"].endswith(_DELTAS) and isinstance(event.get("delta"), str) and event["delta"] != ""


def _whole(frames: Frames) -> bool:
    """It starts with response.created: not the rest of a stream that was continued."""
    return _first(frames, _is("response.created")) is not None


# ---- framing


@_mutation("empty-stream")
def nothing(_frames: Frames) -> Mutated | None:
    return Mutated([], 0)


@_mutation("event-line-missing")
def no_event_line(frames: Frames) -> Mutated | None:
    return _raw(frames, _first(frames, _always), lambda raw: raw[raw.index(b"data: ") :])


@_mutation("event-line-mismatch")
def another_event_line(frames: Frames) -> Mutated | None:
    return _raw(frames, _first(frames, _always), lambda raw: raw.replace(b"event: ", b"event: x.", 1))


@_mutation("data-before-event")
def data_first(frames: Frames) -> Mutated | None:
    def swap(raw: bytes) -> bytes:
        name, data = raw.rstrip(b"\n").split(b"\n", 1)
        return data + b"\n" + name + b"\n\n"

    return _raw(frames, _first(frames, _always), swap)


@_mutation("done-marker")
def a_done_marker(frames: Frames) -> Mutated | None:
    return Mutated([*frames, b"data: [DONE]\n\n"], len(frames))


@_mutation("done-marker-missing", dialect="open-responses")
def no_done_marker(frames: Frames) -> Mutated | None:
    kept = [frame for frame in frames if frame != DONE_FRAME]
    return Mutated(kept, len(kept))


@_mutation("after-done-marker", also=["done-marker"])
def an_early_done_marker(frames: Frames) -> Mutated | None:
    last = max(at for at, event in enumerate(_events(frames)) if event is not None)
    return Mutated([*frames[:last], b"data: [DONE]\n\n", *frames[last:]], last + 1)


@_mutation("line-ends")
def crlf(frames: Frames) -> Mutated | None:
    return _raw(frames, _first(frames, _always), lambda raw: raw.replace(b"\n", b"\r\n"))


@_mutation("bare-cr")
def lone_cr(frames: Frames) -> Mutated | None:
    return _raw(frames, _first(frames, _always), lambda raw: raw.replace(b"\n", b"\r"))


@_mutation("byte-order-mark")
def a_mark(frames: Frames) -> Mutated | None:
    return Mutated([b"\xef\xbb\xbf" + frames[0], *frames[1:]], 0)


@_mutation("blank-line-missing")
def no_last_blank_line(frames: Frames) -> Mutated | None:
    if _events(frames)[-1] is None:
        return None
    return Mutated([*frames[:-1], frames[-1][:-1]], len(frames) - 1)


@_mutation("several-data-lines")
def two_data_lines(frames: Frames) -> Mutated | None:
    return _raw(frames, _first(frames, _always), lambda raw: raw.replace(b"data: {", b"data: {\ndata: ", 1))


@_mutation("no-event-stream")
def a_stray_line(frames: Frames) -> Mutated | None:
    return _raw(frames, _first(frames, _always), lambda raw: b"<html>\n" + raw)


@_mutation("event-without-data")
def an_event_without_data(frames: Frames) -> Mutated | None:
    return Mutated([frames[0], b"event: response.in_progress\n\n", *frames[1:]], 1)


@_mutation("id-or-retry-line")
def an_id_line(frames: Frames) -> Mutated | None:
    return _raw(frames, _first(frames, _always), lambda raw: raw.replace(b"data: ", b"id: 1\ndata: ", 1))


# ---- JSON


def _extra(frames: Frames, text: bytes) -> Mutated | None:
    """A key in front of the others of the first event."""
    return _raw(frames, _first(frames, _always), lambda raw: raw.replace(b"data: {", b"data: {" + text + b",", 1))


@_mutation("not-json", also=_LOST)
def cut_json(frames: Frames) -> Mutated | None:
    at = _first(frames, _with_text)
    return _raw(frames, at, lambda raw: raw[:-12] + b"\n\n")


@_mutation("not-an-object")
def an_array(frames: Frames) -> Mutated | None:
    return Mutated([frames[0], b"event: x\ndata: []\n\n", *frames[1:]], 1)


@_mutation("duplicate-key")
def a_key_twice(frames: Frames) -> Mutated | None:
    return _extra(frames, b'"zz":1,"zz":2')


@_mutation("not-a-number")
def not_a_number(frames: Frames) -> Mutated | None:
    return _extra(frames, b'"zz":NaN')


@_mutation("lone-surrogate")
def half_a_pair(frames: Frames) -> Mutated | None:
    return _extra(frames, b'"zz":"\\ud83d"')


@_mutation("invalid-utf-8")
def invalid_utf_8(frames: Frames) -> Mutated | None:
    return _extra(frames, b'"zz":"\xff"')


@_mutation("too-deep", also=_LOST)
def too_deep(frames: Frames) -> Mutated | None:
    at = _first(frames, _with_text)
    deep = b'"zz":' + b"[" * 2000 + b"]" * 2000 + b","
    return _raw(frames, at, lambda raw: raw.replace(b"data: {", b"data: {" + deep, 1))


@_mutation("float-for-integer")
def a_float_index(frames: Frames) -> Mutated | None:
    at = _first(frames, lambda event: type(event.get("content_index")) is int)
    if at is None:
        return None
    event = _events(frames)[at]
    assert event is not None
    old = b'"content_index":%d' % event["content_index"]
    return _raw(frames, at, lambda raw: raw.replace(old, old + b".0", 1))


@_mutation("number-out-of-range")
def too_large(frames: Frames) -> Mutated | None:
    return _extra(frames, b'"zz":1e999')


# ---- schema


@_mutation("field-missing")
def no_tools(frames: Frames) -> Mutated | None:
    return _edit(frames, _is("response.created"), lambda event: event["response"].pop("tools"))


@_mutation("field-shape")
def tools_as_text(frames: Frames) -> Mutated | None:
    return _edit(frames, _is("response.created"), lambda event: event["response"].update(tools="x"))


@_mutation("unknown-event")
def an_unknown_event(frames: Frames) -> Mutated | None:
    at = _first(frames, _is("response.in_progress"))
    return None if at is None else _insert(frames, at + 1, {"type": "response.of_tomorrow"})


@_mutation("unknown-field", strict=True, also=["unknown-event"])
def an_unknown_field(frames: Frames) -> Mutated | None:
    return _edit(frames, _always, lambda event: event.update(zebra=1))


@_mutation("type-missing", also=_LOST)
def no_type(frames: Frames) -> Mutated | None:
    at = _first(frames, _with_text)
    return _raw(frames, at, lambda raw: raw.replace(b'"type":', b'"typ":', 1))


@_mutation("extension-name", dialect="open-responses")
def an_event_without_a_slug(frames: Frames) -> Mutated | None:
    at = _first(frames, _is("response.in_progress"))
    return None if at is None else _insert(frames, at + 1, {"type": "response.of_tomorrow"})


@_mutation("item-status-missing", dialect="open-responses", also=["field-missing"])
def an_item_without_a_status(frames: Frames) -> Mutated | None:
    return _edit(frames, _is("response.output_item.added"), lambda event: event["item"].pop("status"))


# ---- lifecycle


@_mutation("content-part-missing", dialect="open-responses")
def reasoning_without_a_part(frames: Frames) -> Mutated | None:
    at = _first(frames, lambda one: "part" in one and one["part"]["type"] == "reasoning_text")
    event = None if at is None else _events(frames)[at]
    if at is None or event is None or event["type"] != "response.content_part.added":
        return None

    def here(one: dict[str, Any]) -> bool:
        return all(one.get(key) == event[key] for key in ("output_index", "content_index"))

    kept = [
        frame
        for frame, one in zip(frames, _events(frames), strict=True)
        if one is None or "part" not in one or not here(one)
    ]
    shows = _first(kept, lambda one: one["type"].startswith("response.reasoning.") and here(one))
    return None if shows is None else Mutated(_renumbered(kept, _number(frames)), shows)


@_mutation("not-started")
def no_created(frames: Frames) -> Mutated | None:
    at = _first(frames, _is("response.created"))
    if at is None:
        return None
    del frames[at]
    if not any(event is not None for event in _events(frames)):
        return None
    return Mutated(_renumbered(frames, 0), next(i for i, event in enumerate(_events(frames)) if event is not None))


@_mutation("response-order", also=["response-changed"])
def in_progress_twice(frames: Frames) -> Mutated | None:
    at = _first(frames, _is("response.in_progress"))
    event = None if at is None else _events(frames)[at]
    return None if at is None or event is None else _insert(frames, at + 1, event)


@_mutation(
    "item-not-added",
    also=[
        "output-incomplete",
        "index-order",
        "item-done",
        "item-open",
        "deltas-missing",
        "part-order",
        "output-mismatch",
    ],
)
def no_item_added(frames: Frames) -> Mutated | None:
    at = _first(frames, _is("response.output_item.added"))
    if at is None or not _whole(frames):
        return None
    event = _events(frames)[at]
    assert event is not None
    index = event["output_index"]
    shows = next(
        (i for i, one in enumerate(_events(frames)) if i > at and one is not None and one.get("output_index") == index),
        None,
    )
    return None if shows is None else _drop(frames, at, shows - 1)


@_mutation("item-added-twice", also=["item-id-repeated", "call-id-repeated"])
def an_item_added_twice(frames: Frames) -> Mutated | None:
    at = _first(frames, _is("response.output_item.added"))
    event = None if at is None else _events(frames)[at]
    return None if at is None or event is None else _insert(frames, at + 1, event)


@_mutation("item-done")
def an_item_done_twice(frames: Frames) -> Mutated | None:
    at = _first(frames, _is("response.output_item.done"))
    event = None if at is None else _events(frames)[at]
    return None if at is None or event is None or not _whole(frames) else _insert(frames, at + 1, event)


@_mutation("item-open", also=["output-incomplete", "output-mismatch"])
def an_item_left_open(frames: Frames) -> Mutated | None:
    found = [
        at
        for at, event in enumerate(_events(frames))
        if event is not None and event["type"] == "response.output_item.done"
    ]
    ended = _first(frames, _is("response.completed", "response.incomplete"))
    if not found or ended is None or not _whole(frames):
        return None
    return _drop(frames, found[-1], ended - 1)


@_mutation(
    "part-order",
    also=["item-unfinished", "item-mismatch", "index-order", "text-mismatch", "part-open", "field-missing"],
)
def no_part_added(frames: Frames) -> Mutated | None:
    at = _first(frames, _is("response.content_part.added"))
    if at is None:
        return None
    event = _events(frames)[at]
    assert event is not None
    where = (event["output_index"], event["content_index"])
    if event["part"]["type"] == "reasoning_text":
        return None  # its first delta may open it
    shows = next(
        (
            i
            for i, one in enumerate(_events(frames))
            if i > at and one is not None and (one.get("output_index"), one.get("content_index")) == where
        ),
        None,
    )
    return None if shows is None else _drop(frames, at, shows - 1)


@_mutation(
    "index-order",
    also=["item-not-added", "output-incomplete", "output-mismatch", "item-open", "output-empty", "item-id-changed"],
)
def a_gap_in_the_output(frames: Frames) -> Mutated | None:
    events = _events(frames)
    at = _first(frames, _is("response.output_item.added"))
    if at is None or not _whole(frames):
        return None
    first = events[at]
    assert first is not None
    index = first["output_index"]
    for i, event in enumerate(events):
        if event is not None and event.get("output_index") == index:
            frames[i] = encode_frame({**event, "output_index": index + 1000})
    return Mutated(frames, at)


@_mutation("index-missing", also=_LOST)
def no_output_index(frames: Frames) -> Mutated | None:
    return _edit(
        frames, lambda event: _with_text(event) and "output_index" in event, lambda event: event.pop("output_index")
    )


@_mutation("after-terminal")
def an_event_after_the_end(frames: Frames) -> Mutated | None:
    at = _first(frames, _is(*_TERMINAL))
    if at is None or at != len(frames) - 1:
        return None
    return _insert(frames, at + 1, {"type": "keepalive"})


@_mutation("second-terminal")
def two_endings(frames: Frames) -> Mutated | None:
    at = _first(frames, _is(*_TERMINAL))
    event = None if at is None else _events(frames)[at]
    return None if at is None or event is None else _insert(frames, at + 1, event)


@_mutation("after-error")
def an_event_after_an_error(frames: Frames) -> Mutated | None:
    at = _first(frames, _is("error"))
    failed = _first(frames, _is("response.failed"))
    if at is None or failed is None or at > failed:
        return None
    return _insert(frames, at + 1, {"type": "keepalive"})


# ---- ids


@_mutation("response-id-changed")
def another_response_id(frames: Frames) -> Mutated | None:
    if not _whole(frames):
        return None
    return _edit(frames, _is(*_TERMINAL), lambda event: event["response"].update(id="resp_other"))


@_mutation("item-id-mismatch")
def another_item_id(frames: Frames) -> Mutated | None:
    if not _whole(frames):
        return None
    return _edit(frames, lambda event: "item_id" in event, lambda event: event.update(item_id="other_1"))


@_mutation("item-id-changed")
def an_item_renamed(frames: Frames) -> Mutated | None:
    if not _whole(frames):
        return None
    return _edit(frames, _is("response.output_item.done"), lambda event: event["item"].update(id="other_1"))


@_mutation("item-id-repeated", also=["item-id-changed", "item-id-mismatch"])
def two_items_of_one_id(frames: Frames) -> Mutated | None:
    added = [
        (at, event)
        for at, event in enumerate(_events(frames))
        if event and event["type"] == "response.output_item.added"
    ]
    if len(added) < 2:
        return None
    at, event = added[1]
    event["item"]["id"] = added[0][1]["item"]["id"]
    frames[at] = encode_frame(event)
    return Mutated(frames, at)


@_mutation("id-missing", also=["response-id-changed", "field-shape", "field-missing"])
def no_response_id(frames: Frames) -> Mutated | None:
    return _edit(frames, _is("response.created"), lambda event: event["response"].update(id=""))


@_mutation("call-id-changed", also=["output-mismatch"])
def another_call_id(frames: Frames) -> Mutated | None:
    def fits(event: dict[str, Any]) -> bool:
        return event["type"] == "response.output_item.done" and event["item"]["type"] in {
            "function_call",
            "custom_tool_call",
        }

    if not _whole(frames):
        return None
    return _edit(frames, fits, lambda event: event["item"].update(call_id="call_other"))


@_mutation("call-id-repeated", also=["call-id-changed"])
def two_calls_of_one_id(frames: Frames) -> Mutated | None:
    calls = [
        (at, event)
        for at, event in enumerate(_events(frames))
        if event
        and event["type"] == "response.output_item.added"
        and event["item"]["type"] in {"function_call", "custom_tool_call"}
    ]
    if len(calls) < 2:
        return None
    at, event = calls[1]
    event["item"]["call_id"] = calls[0][1]["item"]["call_id"]
    frames[at] = encode_frame(event)
    return Mutated(frames, at)


@_mutation("response-changed")
def another_model(frames: Frames) -> Mutated | None:
    if not _whole(frames):
        return None
    return _edit(frames, _is(*_TERMINAL), lambda event: event["response"].update(model="another"))


@_mutation("id-form", also=["response-id-changed"])
def an_id_of_chat(frames: Frames) -> Mutated | None:
    return _edit(frames, _is("response.created"), lambda event: event["response"].update(id="chatcmpl-1"))


@_mutation("time-unit", also=["response-changed"])
def milliseconds(frames: Frames) -> Mutated | None:
    def change(event: dict[str, Any]) -> None:
        event["response"]["created_at"] *= 1000

    return _edit(frames, _is("response.created"), change)


# ---- sequence


@_mutation("sequence-missing", also=["field-missing", "field-shape"])
def no_number(frames: Frames) -> Mutated | None:
    if not _whole(frames):
        return None
    return _edit(frames, _with_text, lambda event: event.pop("sequence_number"))


@_mutation("sequence-gap")
def a_number_skipped(frames: Frames) -> Mutated | None:
    numbers = [at for at, event in enumerate(_events(frames)) if event is not None]
    if len(numbers) < 2:
        return None
    at = numbers[1]
    start = _number(frames)
    return Mutated([*frames[:at], *_renumbered(frames[at:], start + 2)], at)


@_mutation("sequence-repeated")
def a_number_twice(frames: Frames) -> Mutated | None:
    numbers = [at for at, event in enumerate(_events(frames)) if event is not None]
    if len(numbers) < 2:
        return None
    at = numbers[1]
    return Mutated([*frames[:at], *_renumbered(frames[at:], _number(frames))], at)


@_mutation("sequence-start")
def numbers_from_one(frames: Frames) -> Mutated | None:
    if not _whole(frames):
        return None
    return Mutated(_renumbered(frames, 1), next(i for i, event in enumerate(_events(frames)) if event is not None))


# ---- accumulation


def _say(event: dict[str, Any], key: str) -> None:
    event[key] = event[key] + "~"


@_mutation("text-mismatch", also=["part-mismatch", "item-mismatch"])
def another_text(frames: Frames) -> Mutated | None:
    at = _first(frames, lambda event: event["type"] == "response.output_text.done" and event["text"] != "")
    if at is None or not _streamed(frames, at):
        return None
    return _edit(
        frames,
        lambda event: event["type"] == "response.output_text.done" and event["text"] != "",
        lambda event: _say(event, "text"),
    )


def _streamed(frames: Frames, at: int) -> bool:
    """The text that an event sums up came in deltas."""
    events = _events(frames)
    done = events[at]
    assert done is not None
    base = done["type"].rpartition(".")[0]
    keys = ("output_index", "content_index", "summary_index")
    return any(
        one is not None and one["type"] == base + ".delta" and all(one.get(key) == done.get(key) for key in keys)
        for one in events[:at]
    )


@_mutation("arguments-mismatch", also=["item-mismatch", "arguments-not-json"])
def other_arguments(frames: Frames) -> Mutated | None:
    kind = "response.function_call_arguments.done"
    at = _first(frames, _is(kind))
    if at is None or not _streamed(frames, at):
        return None
    return _edit(frames, _is(kind), lambda event: _say(event, "arguments"))


@_mutation("part-mismatch")
def another_part(frames: Frames) -> Mutated | None:
    def fits(event: dict[str, Any]) -> bool:
        return event["type"] == "response.content_part.done" and bool(event["part"]["type"] == "output_text")

    return _edit(frames, fits, lambda event: _say(event["part"], "text")) if _whole(frames) else None


@_mutation("item-mismatch", also=["output-mismatch"])
def another_item(frames: Frames) -> Mutated | None:
    def fits(event: dict[str, Any]) -> bool:
        if event["type"] != "response.output_item.done":
            return False
        item = event["item"]
        return bool(item["type"] == "function_call" and item["arguments"])

    at = _first(frames, fits)
    events = _events(frames)
    if at is None or not _whole(frames):
        return None
    done = events[at] or {}
    index = done.get("output_index")
    if not any(one and one.get("output_index") == index and "arguments" in one["type"] for one in events[:at]):
        return None  # nothing of it was streamed
    return _edit(frames, fits, lambda event: _say(event["item"], "arguments"))


def _final(frames: Frames, change: Callable[[list[Any]], None]) -> Mutated | None:
    def fits(event: dict[str, Any]) -> bool:
        return event["type"] in {"response.completed", "response.incomplete"} and bool(event["response"]["output"])

    return _edit(frames, fits, lambda event: change(event["response"]["output"])) if _whole(frames) else None


@_mutation("output-mismatch")
def another_output(frames: Frames) -> Mutated | None:
    return _final(frames, lambda output: output[0].update(zebra="x"))


@_mutation("output-empty")
def no_output(frames: Frames) -> Mutated | None:
    return _final(frames, lambda output: output.clear())


@_mutation("output-incomplete")
def an_item_more(frames: Frames) -> Mutated | None:
    return _final(frames, lambda output: output.append(json.loads(json.dumps(output[0]))))


@_mutation("deltas-missing")
def no_deltas(frames: Frames) -> Mutated | None:
    kind = "response.function_call_arguments.done"
    at = _first(frames, lambda event: event["type"] == kind and event["arguments"] != "")
    if at is None:
        return None
    events = _events(frames)
    index = (events[at] or {}).get("output_index")
    start = _number(frames)
    kept = [
        frame
        for frame, event in zip(frames, events, strict=True)
        if not (event and event["type"] == "response.function_call_arguments.delta" and event["output_index"] == index)
    ]
    if len(kept) == len(frames):
        return None
    return Mutated(_renumbered(kept, start), at - (len(frames) - len(kept)))


@_mutation("arguments-not-json", also=["arguments-mismatch", "item-mismatch"])
def half_arguments(frames: Frames) -> Mutated | None:
    kind = "response.function_call_arguments"
    at = _first(frames, lambda event: event["type"] == f"{kind}.done" and event["arguments"] != "")
    if at is None:
        return None
    event = _events(frames)[at]
    assert event is not None
    try:
        json.loads(event["arguments"])
    except ValueError:
        return None  # they were none before
    event["arguments"] = '{"a":'
    frames[at] = encode_frame(event)
    return Mutated(frames, at)


@_mutation("replacement-characters", also=["text-mismatch", "part-mismatch", "item-mismatch", "arguments-mismatch"])
def cut_characters(frames: Frames) -> Mutated | None:
    at = _first(frames, lambda event: _with_text(event) and "output_index" in event)
    event = None if at is None else _events(frames)[at]
    if at is None or event is None:
        return None
    broken = _insert(frames, at + 1, {**event, "delta": "\ufffd"})
    return Mutated(_insert(broken.frames, at + 2, {**event, "delta": "\ufffd"}).frames, at + 2)


@_mutation("delta-empty")
def an_empty_delta(frames: Frames) -> Mutated | None:
    at = _first(frames, lambda event: _with_text(event) and "output_index" in event)
    event = None if at is None else _events(frames)[at]
    if any(one is not None and one.get("delta") == "" for one in _events(frames)):
        return None  # one is reported, and it has one
    return None if at is None or event is None else _insert(frames, at + 1, {**event, "delta": ""})


@_mutation("item-status", also=["output-mismatch", "field-shape"])
def still_running(frames: Frames) -> Mutated | None:
    def fits(event: dict[str, Any]) -> bool:
        return event["type"] == "response.output_item.done" and bool(event["item"].get("status") == "completed")

    return _edit(frames, fits, lambda event: event["item"].update(status="in_progress"))


# ---- usage


def _usage(frames: Frames, change: Callable[[dict[str, Any]], None]) -> Mutated | None:
    def fits(event: dict[str, Any]) -> bool:
        return event["type"] == "response.completed" and isinstance(event["response"].get("usage"), dict)

    return _edit(frames, fits, lambda event: change(event["response"]["usage"]))


@_mutation("usage-missing")
def no_usage(frames: Frames) -> Mutated | None:
    def fits(event: dict[str, Any]) -> bool:
        return event["type"] == "response.completed" and isinstance(event["response"].get("usage"), dict)

    return _edit(frames, fits, lambda event: event["response"].update(usage=None))


@_mutation("usage-total")
def a_wrong_total(frames: Frames) -> Mutated | None:
    return _usage(frames, lambda usage: usage.update(total_tokens=usage["total_tokens"] + 1))


@_mutation("usage-details", also=["field-shape", "field-missing"])
def null_details(frames: Frames) -> Mutated | None:
    return _usage(frames, lambda usage: usage["output_tokens_details"].update(reasoning_tokens=None))


@_mutation("usage-names", also=["field-missing", "field-shape"])
def names_of_chat(frames: Frames) -> Mutated | None:
    return _usage(
        frames,
        lambda usage: usage.update(
            prompt_tokens=usage.pop("input_tokens"), completion_tokens=usage.pop("output_tokens")
        ),
    )


@_mutation("usage-early")
def zeros_at_the_start(frames: Frames) -> Mutated | None:
    usage = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return _edit(frames, _is("response.created"), lambda event: event["response"].update(usage={**usage, **details}))


@_mutation("usage-zero", also=["usage-total"])
def nothing_counted(frames: Frames) -> Mutated | None:
    if _first(frames, lambda event: _with_text(event) and "output_index" in event) is None:
        return None
    return _usage(frames, lambda usage: usage.update(output_tokens=0))


# ---- ending


@_mutation("unterminated", also=["error-alone"])
def no_ending(frames: Frames) -> Mutated | None:
    at = _first(frames, _is(*_TERMINAL))
    if at is None or any(event and event["type"] == "error" for event in _events(frames)[at + 1 :]):
        return None
    del frames[at:]
    return Mutated(frames, len(frames)) if frames else None


@_mutation("error-alone", also=["unterminated"])
def no_failed_after_an_error(frames: Frames) -> Mutated | None:
    at, failed = _first(frames, _is("error")), _first(frames, _is("response.failed"))
    if at is None or failed is None or at > failed:
        return None
    del frames[failed:]
    return Mutated(frames, len(frames))


@_mutation("failed-without-error")
def no_reason(frames: Frames) -> Mutated | None:
    return _edit(frames, _is("response.failed"), lambda event: event["response"].update(error=None))


@_mutation("status-mismatch")
def another_status(frames: Frames) -> Mutated | None:
    return _edit(
        frames,
        _is("response.completed", "response.failed"),
        lambda event: event["response"].update(status="incomplete"),
    )


@_mutation("incomplete-without-reason", also=["field-shape", "field-missing"])
def no_details(frames: Frames) -> Mutated | None:
    return _edit(frames, _is("response.incomplete"), lambda event: event["response"].update(incomplete_details=None))


@_mutation("unfinished-completed", also=["output-mismatch", "field-shape"])
def an_unfinished_item(frames: Frames) -> Mutated | None:
    def fits(event: dict[str, Any]) -> bool:
        return event["type"] == "response.completed" and any(
            item.get("status") == "completed" for item in event["response"]["output"]
        )

    def change(event: dict[str, Any]) -> None:
        item = next(one for one in event["response"]["output"] if one.get("status") == "completed")
        item["status"] = "incomplete"

    return _edit(frames, fits, change)


@_mutation("code-unknown", also=["code-contradicts-text"])
def a_code_of_its_own(frames: Frames) -> Mutated | None:
    return _edit(frames, _is("response.failed"), lambda event: event["response"]["error"].update(code="zebra"))


@_mutation("code-form", also=["field-shape", "failed-without-error"])
def a_number_for_a_code(frames: Frames) -> Mutated | None:
    return _edit(frames, _is("response.failed"), lambda event: event["response"]["error"].update(code=400))


@_mutation("code-contradicts-text", also=["code-unknown"])
def an_over_length_text(frames: Frames) -> Mutated | None:
    text = "Your input exceeds the context window of this model."
    return _edit(
        frames,
        _is("response.failed"),
        lambda event: event["response"].update(error={"code": "server_error", "message": text}),
    )


@_mutation("error-not-nested", dialect="open-responses", also=["field-missing"])
def an_error_not_nested(frames: Frames) -> Mutated | None:
    def change(event: dict[str, Any]) -> None:
        event |= {**event.pop("error"), "type": "error"}

    return _edit(frames, _is("error"), change)


@_mutation("error-type", dialect="open-responses")
def a_type_of_openai(frames: Frames) -> Mutated | None:
    return _edit(frames, _is("error"), lambda event: event["error"].update(type="invalid_request_error"))


@_mutation("error-after-terminal", dialect="open-responses")
def an_error_after_the_end(frames: Frames) -> Mutated | None:
    at = _first(frames, _is("response.failed"))
    error = _first(frames, _is("error"))
    event = None if error is None else _events(frames)[error]
    return None if at is None or event is None else _insert(frames, at + 1, event)


@_mutation("incomplete-item-not-last", dialect="open-responses", also=["unfinished-completed"])
def an_incomplete_item_in_the_middle(frames: Frames) -> Mutated | None:
    events = [(at, event) for at, event in enumerate(_events(frames)) if event is not None]
    done = [(at, event) for at, event in events if event["type"] == "response.output_item.done"]
    added = [(at, event) for at, event in events if event["type"] == "response.output_item.added"]
    if not done or any(event["item"]["status"] == "incomplete" for _, event in done):
        return None
    first, event = done[0]
    later = [at for at, one in added if one["output_index"] > event["output_index"]]
    if not later:
        return None
    identity = event["item"]["id"]
    for at, one in events:
        final = one["response"]["output"] if one["type"] in _TERMINAL else [one["item"]] if at == first else []
        for item in final:
            if item["id"] == identity:
                item["status"] = "incomplete"
        frames[at] = encode_frame(one)
    return Mutated(frames, max(min(later), first))


@_mutation("error-shape")
def a_flat_error(frames: Frames) -> Mutated | None:
    return _edit(
        frames,
        lambda event: event["type"] == "error" and "error" in event and "message" in event,
        lambda event: event.pop("error"),
    )


@_mutation("error-message-missing", also=["error-shape"])
def an_error_without_words(frames: Frames) -> Mutated | None:
    def change(event: dict[str, Any]) -> None:
        for told in (event, event.get("error")):
            if isinstance(told, dict) and "message" in told:
                told["message"] = ""

    return _edit(frames, _is("error"), change)


@_mutation("error-key-in-event")
def a_null_error(frames: Frames) -> Mutated | None:
    return _edit(frames, _with_text, lambda event: event.update(error=None))


@_mutation("internals-exposed", also=["code-unknown"])
def a_traceback(frames: Frames) -> Mutated | None:
    text = 'Traceback (most recent call last):\n  File "/srv/app.py", line 1'
    return _edit(
        frames,
        _is("response.failed"),
        lambda event: event["response"].update(error={"code": "server_error", "message": text}),
    )


@_mutation("completed-empty", also=["usage-zero"])
def an_empty_answer(frames: Frames) -> Mutated | None:
    """Nothing but the start and the end."""
    if not _whole(frames) or _first(frames, _is("response.completed")) is None:
        return None
    if _first(frames, _is("response.output_item.added")) is None:
        return None
    kept = []
    for event in _events(frames):
        if event is not None and event["type"] in {"response.created", "response.in_progress", "response.completed"}:
            if event["type"] == "response.completed":
                event["response"]["output"] = []
            kept.append(encode_frame(event))
    return Mutated(_renumbered(kept), len(kept) - 1)


@_mutation("completed-with-error")
def completed_with_an_error(frames: Frames) -> Mutated | None:
    error = {"code": "server_error", "message": "x"}
    return _edit(frames, _is("response.completed"), lambda event: event["response"].update(error=error))
