"""The strategies reach everything there is, and what they make holds."""

from __future__ import annotations

import functools

import jsonschema_rs
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from respevents import FailureCode, FrameDecoder, Lifecycle, ResponseStream, decode_json, encode_frame, schemas
from respevents.failures import Cause
from respevents.lifecycle import ITEMS, TABLE
from respevents.testing import strategies
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
        item = machine.items.get(event.get("output_index"))
        inside = TABLE[event["type"]].scope not in {"response", "free"}
        found.add((event["type"], (item.state if item is not None else "absent") if inside else machine.state))
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


def test_every_move_of_the_response_and_of_items_is_reached():
    wanted = {
        (row.type, state)
        for row in TABLE.values()
        if row.scope in {"response", "item"}
        for state in (*row.after, *row.stay)
        if row.whole is None  # a sum is the builder's: it comes from one of its states
    }
    # The builder never sends these, though a reader takes them.
    wanted -= {("response.queued", "continued"), ("response.mcp_call.in_progress", "arguments whole")}
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


def test_a_failing_stream_shrinks_to_a_few_frames():
    found = find(
        strategies.frame_lists(),
        lambda frames: any(b".delta" in frame for frame in frames),
        settings=settings(max_examples=1000, database=None, derandomize=True),
    )
    assert len(found) <= 12


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
    with pytest.raises(ValueError, match=r"has no event 'response\.none'"):
        strategies.events("response.none")
