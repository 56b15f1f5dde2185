"""The strategies reach everything there is, and what they make holds."""

from __future__ import annotations

import functools

import jsonschema_rs
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from respevents import (
    FailureCode,
    FinishReason,
    FrameDecoder,
    HTTPAnswer,
    Lifecycle,
    ResponseStream,
    classify,
    decode_json,
    encode_frame,
    read_captures,
    schemas,
)
from respevents._generated.rules import RULES
from respevents.captures import FORMATS
from respevents.failures import Cause
from respevents.lifecycle import ITEMS, TABLE
from respevents.testing import _recordings, strategies
from respevents.testing._bodies import output_definitions
from respevents.testing._scenes import ENDINGS

STRICT = jsonschema_rs.validator_for(schemas.load())
SEARCH = settings(max_examples=5000, phases=[Phase.generate], database=None, derandomize=True)


@settings(max_examples=100)
@given(strategies.event_lists())
def test_a_stream_is_legal_strict_numbered_and_canonical(events):
    machine = Lifecycle(continued=events[0]["type"] != "response.created")
    first = events[0]["sequence_number"]
    for number, event in enumerate(events, first):
        assert machine.feed(event) is None
        assert event["sequence_number"] == number
        assert STRICT.is_valid(event), event
    assert machine.close() is None


@settings(max_examples=50)
@given(st.data())
def test_frames_events_and_bytes_are_the_same_stream(data):
    frames = data.draw(strategies.frame_lists())
    chunks = data.draw(strategies.chunkings(b"".join(frames)))
    assert b"".join(chunks) == b"".join(frames)
    decoder = FrameDecoder()
    read = [frame for chunk in chunks for frame in decoder.feed(chunk)] + decoder.close()
    assert [frame.raw for frame in read] == frames
    assert [encode_frame(decode_json(frame.data)) for frame in read] == frames


def types(events):
    return {event["type"] for event in events}


def moves(events):
    """(event type, the state it came in) of each event."""
    machine, found = Lifecycle(continued=events[0]["type"] != "response.created"), set()
    for event in events:
        row, place = TABLE[event["type"]], machine
        if row.scope in {"item", "part"}:
            place = machine.items.get(event["output_index"])
        if row.scope == "part":
            place = place and place.parts.get((row.index, event[row.index]))
        if row.scope == "audio":
            place = machine.audio.get(row.part)
        found.add((event["type"], place.state if place is not None else "absent"))
        machine.feed(event)
    return found


@functools.cache
def reached():
    """What some streams of each item type hold: event types, item types, moves, endings."""
    seen = {"types": set(), "items": set(), "moves": set(), "endings": set()}

    def look(events):
        seen["types"] |= types(events)
        seen["moves"] |= moves(events)
        seen["items"] |= {event["item"]["type"] for event in events if event["type"] == "response.output_item.added"}
        seen["endings"] |= types(events) & set(ENDINGS)

    for kind in output_definitions():
        examples = 60 if any(kind in row.items for row in TABLE.values()) else 10
        few = settings(max_examples=examples, derandomize=True, database=None, phases=[Phase.generate])
        few(given(strategies.event_lists(item=kind))(look))()
    return seen


def test_every_event_type_of_the_set_is_reached():
    for kind in {event["type"] for event in schemas.manifest()["events"]} - reached()["types"]:
        (item, *_) = TABLE[kind].items or (None,)
        events = find(
            strategies.event_lists(item=item), lambda events, kind=kind: kind in types(events), settings=SEARCH
        )
        assert kind in types(events)


def test_every_output_item_and_ending_is_reached():
    assert set(output_definitions()) - reached()["items"] == set()
    assert set(output_definitions()) <= set(ITEMS)
    assert reached()["endings"] == set(ENDINGS)


def test_every_row_of_the_table_is_reached_from_each_of_its_states():
    wanted = {
        (row.type, state)
        for row in TABLE.values()
        if row.scope in {"response", "item", "part", "audio"}
        for state in (*row.after, *row.stay)
    }
    # A reader takes these; the builder sums up what had a delta before it closes, so a walk seldom or never has them.
    seldom = {
        ("response.queued", "continued"), ("response.mcp_call.in_progress", "arguments whole"),
        ("response.content_part.done", "open"), ("response.reasoning_text.done", "absent"),
        ("response.shell_call_output_content.done", "absent"),
    }  # fmt: skip
    wanted -= seldom
    for kind, state in sorted(wanted - reached()["moves"]):
        (item, *_) = TABLE[kind].items or (None,)
        assert find(
            strategies.event_lists(item=item), lambda events, move=(kind, state): move in moves(events), settings=SEARCH
        )


@pytest.mark.parametrize("code", sorted(code.value for code in FailureCode))
def test_every_code_is_drawn(code):
    assert find(strategies.failures(), lambda failure: failure.code == code, settings=SEARCH).code == code


def test_every_cause_that_is_told_is_drawn():
    told = {cause for cause in Cause if cause not in {Cause.CANCELLED, Cause.CLIENT_DISCONNECT}}
    for cause in told:
        assert find(strategies.failures(), lambda failure, cause=cause: failure.cause is cause, settings=SEARCH)


SHRINKS = {
    "a delta": (lambda event: event["type"].endswith(".delta"), 6),
    "a failure": (lambda event: event["type"] == "response.failed", 5),
    "a second item": (lambda event: event.get("output_index") == 1, 8),
    "an incomplete response": (lambda event: event["type"] == "response.incomplete", 5),
    "a tool's arguments": (lambda event: event["type"] == "response.function_call_arguments.delta", 9),
}


@pytest.mark.parametrize(("wrong", "most"), SHRINKS.values(), ids=SHRINKS)
def test_a_failing_stream_shrinks_to_a_few_frames(wrong, most):
    found = find(
        strategies.event_lists(),
        lambda events: any(map(wrong, events)),
        settings=settings(max_examples=1000, database=None, derandomize=True),
    )
    assert len(found) <= most, types(found)


# ---- errors of engines ------------------------------------------------------------------------------------------------


@given(strategies.engine_errors())
def test_an_error_of_an_engine_is_what_it_says(made):
    failure = classify(made.error, engine=made.engine)
    assert failure.cause is made.cause
    assert made.rule is None or failure.rule == made.rule


def drawn(strategy, examples):
    """What a fixed number of examples gives: the same on every run."""
    seen = []
    settings(max_examples=examples, derandomize=True, database=None, phases=[Phase.generate])(
        given(strategy)(lambda one: seen.append(one))
    )()
    return seen


@pytest.mark.parametrize("engine", sorted({rule.engine for rule in RULES}))
def test_every_rule_of_an_engine_is_reached(engine):
    rules = {rule.id for rule in RULES if rule.engine == engine}
    seen = {made.rule for made in drawn(strategies.engine_errors(engine), 60 * len(rules))}
    assert seen == rules


def test_every_kind_of_error_and_no_engine_are_reached():
    seen = drawn(strategies.engine_errors(), 500)
    assert {made.engine for made in seen} == {rule.engine for rule in RULES} | {None}
    kinds = {type(made.error) for made in seen}
    assert {str, dict, HTTPAnswer, FinishReason, type(None)} <= kinds
    assert any(issubclass(kind, Exception) for kind in kinds)


# ---- captures ---------------------------------------------------------------------------------------------------------


@given(strategies.captures())
def test_a_capture_holds_what_it_says(recorded):
    assert [(one.format, one.framing, b"".join(one.chunks())) for one in read_captures(recorded.data)] == [
        (recorded.format, recorded.framing, stream) for stream in recorded.streams
    ]


def test_every_format_writer_packing_and_number_of_streams_is_reached():
    seen = drawn(strategies.captures(), 200)
    for name in {*_recordings.SSE, *_recordings.JSON_LINES} - {one.name for one in seen}:
        assert find(strategies.captures(), lambda one, name=name: one.name == name, settings=SEARCH)
    assert {one.data.startswith(b"\x1f\x8b") for one in seen} == {True, False}
    assert {len(one.streams) for one in seen} == {1, 2}


@pytest.mark.parametrize("kind", FORMATS)
def test_a_format_can_be_asked_for(kind):
    assert {one.format for one in drawn(strategies.captures(kind), 20)} == {kind}


# ---- the rest ---------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(strategies.requests())
def test_a_request_can_be_echoed(request):
    body = ResponseStream(model=request["model"], request=request).start()
    for frame in FrameDecoder().feed(body):
        assert STRICT.is_valid(decode_json(frame.data))


def test_what_does_not_exist_is_named():
    with pytest.raises(ValueError, match=r"item=.*message.*got 'mesage'"):
        strategies.streams(item="mesage")
    with pytest.raises(ValueError, match=r"ending=.*response\.failed.*got 'failed'"):
        strategies.frame_lists(ending="failed")
    with pytest.raises(ValueError, match=r"engine=.*vllm.*got 'vlm'"):
        strategies.engine_errors("vlm")
    with pytest.raises(ValueError, match=r"format=.*har.*got 'pcap'"):
        strategies.captures("pcap")
    with pytest.raises(ValueError, match=r"has no event 'response\.none'"):
        strategies.events("response.none")
