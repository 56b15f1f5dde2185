"""The guard: whatever a source does, what goes out is its bytes and then the ending that clients act on."""

from __future__ import annotations

import asyncio
import itertools
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from guarding import (
    BODY,
    EVENTS,
    FRAMES,
    ITEM,
    OPEN,
    RESPONSE,
    AsyncSource,
    PlainSource,
    both,
    delta,
    event,
    run_async,
    run_by_hand,
    run_sync,
    tail_of,
)
from respevents import _ending
from respevents._watch import MAX_ITEMS, Watch
from respevents.events import decode_event
from respevents.failures import Cause, Failure, Policy, RequestRejected
from respevents.guard import guard_stream, guard_stream_sync, rejected_frames
from respevents.wire import FrameDecoder, encode_frame

# ---------------------------------------------------------------------------------------------- a stream that works


@both
def test_a_completed_stream_is_forwarded_byte_for_byte(run):
    done = run(FRAMES)
    assert done.chunks == FRAMES
    assert done.raised is None
    assert done.failures == []
    assert done.source.closed == 1


@given(cuts=st.lists(st.integers(0, len(BODY)), max_size=12))
@example(cuts=list(range(len(BODY))))
def test_a_completed_stream_in_any_chunks_passes_untouched(cuts):
    edges = [0, *sorted(cuts), len(BODY)]
    chunks = [BODY[start:end] for start, end in itertools.pairwise(edges)]
    done = run_sync(chunks)
    assert done.chunks == [chunk for chunk in chunks if chunk]
    assert done.failures == []


@both
@pytest.mark.parametrize("end", ["response.completed", "response.incomplete", "response.failed"])
def test_each_of_the_three_terminal_events_ends_the_watch(run, end):
    frames = [*OPEN, encode_frame(event(end, 6, response=RESPONSE))]
    done = run(frames, RuntimeError("reset after the end"))
    assert done.chunks == frames
    assert done.raised is None
    assert [failure.cause for failure in done.failures] == [Cause.INTERNAL_ERROR]


@both
def test_a_failure_after_the_terminal_event_is_raised_again_only_if_asked(run):
    error = RuntimeError("late")
    assert run(FRAMES, error, policy=Policy(reraise="faults")).raised is error
    assert run(FRAMES, error).raised is None


@both
@pytest.mark.parametrize(
    "form",
    [
        lambda one: one,
        decode_event,
        lambda one: encode_frame(one).decode(),
        lambda one: bytearray(encode_frame(one)),
        lambda one: memoryview(encode_frame(one)),
    ],
    ids=["mapping", "struct", "str", "bytearray", "memoryview"],
)
def test_a_source_may_yield_events_text_and_bytes(run, form):
    done = run([form(one) for one in EVENTS])
    assert done.body == BODY
    assert done.failures == []


@both
@pytest.mark.parametrize("form", [dict, decode_event], ids=["mapping", "struct"])
def test_an_event_without_a_number_gets_the_next_one(run, form):
    bare = [form({key: value for key, value in one.items() if key != "sequence_number"}) for one in EVENTS]
    assert run(bare).body == BODY
    mixed = [FRAMES[0], bare[1], encode_frame({**EVENTS[2], "sequence_number": 40}), bare[3], *FRAMES[-1:]]
    assert [one["sequence_number"] for _, one in run(mixed).events] == [0, 1, 40, 41, 6]


@pytest.mark.sdk
def test_a_source_may_yield_the_sdks_models():
    pytest.importorskip("openai")
    from openai.types.responses import ResponseTextDeltaEvent

    model = ResponseTextDeltaEvent.model_validate(delta(3, "x"))
    done = run_sync([*FRAMES[:3], model, FRAMES[-1]])
    assert done.events[3][1] == delta(3, "x")


@both
def test_any_iterable_is_a_source(run):
    assert run(source=FRAMES).body == BODY
    assert run(source=(frame for frame in FRAMES)).body == BODY
    assert run(source=iter([BODY])).body == BODY


def test_the_async_guard_needs_no_event_loop():
    """So it runs under trio as it does under asyncio."""
    assert run_by_hand(FRAMES).body == BODY
    assert run_by_hand(FRAMES[:2], ValueError()).body == run_sync(FRAMES[:2], ValueError()).body


@both
def test_a_number_an_event_brings_is_kept_zero_included(run):
    bare = {key: value for key, value in EVENTS[1].items() if key != "sequence_number"}
    done = run([FRAMES[0], {**bare, "sequence_number": 0}, {**bare, "sequence_number": None}, FRAMES[-1]])
    assert [one["sequence_number"] for _, one in done.events] == [0, 0, 1, 6]


@both
def test_what_follows_the_terminal_event_is_passed_and_not_mended(run):
    trailer = b": by"
    assert run([BODY, trailer], OSError("reset")).body == BODY + trailer
    assert run([BODY, trailer]).body == BODY + trailer


def test_an_iterator_of_its_own_is_closed_before_the_source():
    order = []

    class Body:
        def __iter__(self):
            try:
                yield from (*FRAMES[:2], 3, *FRAMES[2:])
            finally:
                order.append("iterator")

        async def __aiter__(self):
            try:
                for item in (*FRAMES[:2], 3, *FRAMES[2:]):
                    yield item
            finally:
                order.append("iterator")

        def close(self):
            order.append("source")

    class Plain:
        __iter__ = Body.__iter__
        close = Body.close

    body = Plain()
    held = []
    plain_iter = Plain.__iter__

    def keep(self):
        held.append(plain_iter(self))  # so that no garbage collection closes it first
        return held[-1]

    Plain.__iter__ = keep
    assert run_sync(source=body).events[-1][0] == "response.failed"
    assert order == ["iterator", "source"]
    order.clear()

    async def main():
        async for _ in guard_stream(Body(), model="m", on_failure=lambda failure: None):
            pass
        assert order == ["iterator", "source"]

    asyncio.run(main())


# ---------------------------------------------------------------------------------------------- a stream that fails


@both
@pytest.mark.parametrize("sent", range(len(OPEN) + 1))
def test_an_exception_at_any_point_ends_in_error_and_failed(run, sent):
    done = run(OPEN[:sent], ValueError("SECRET"))
    assert done.body.startswith(b"".join(OPEN[:sent]))
    model = "announced-model" if sent else "given-model"
    output = [ITEM] if sent == len(OPEN) else []
    _, failed = tail_of(done, model=model, output=output, number=sent or 2)
    assert failed["response"]["id"] == ("resp_announced" if sent else "resp_given")
    assert failed["response"]["created_at"] == (1767225600 if sent else 7)
    assert len(done.events) == (sent or 2) + 2
    assert b"SECRET" not in done.body
    assert done.raised is None
    assert done.source.closed == 1
    (failure,) = done.failures
    assert failure.cause is Cause.INTERNAL_ERROR
    assert failure.message == "SECRET"
    assert isinstance(failure.exception, ValueError)


@both
def test_a_stream_that_never_started_is_created_in_progress_error_failed_from_zero(run):
    done = run([], ValueError())
    assert [name for name, _ in done.events] == ["response.created", "response.in_progress", "error", "response.failed"]
    assert [one["sequence_number"] for _, one in done.events] == [0, 1, 2, 3]
    assert [one["response"]["status"] for name, one in done.events if name != "error"] == ["in_progress"] * 2 + [
        "failed"
    ]
    assert done.body == rejected_frames(done.failures[0], model="given-model", id="resp_given", created_at=7)


@both
@pytest.mark.parametrize(
    "first", [b": keep-alive\n\n", b'event: keepalive\ndata: {"type":"keepalive","sequence_number":0}\n\n']
)
def test_keep_alives_are_no_start(run, first):
    done = run([first], ValueError())
    names = [name for name, _ in done.events if name != "keepalive"]
    assert names == ["response.created", "response.in_progress", "error", "response.failed"]
    numbers = [one["sequence_number"] for _, one in done.events]
    assert numbers == list(range(len(numbers)))


@both
@pytest.mark.parametrize("sent", range(len(OPEN) + 1))
def test_an_end_without_a_terminal_event_is_an_internal_error(run, sent):
    done = run(OPEN[:sent])
    error, _ = tail_of(
        done,
        model="announced-model" if sent else "given-model",
        output=[ITEM] if sent == len(OPEN) else [],
        number=sent or 2,
    )
    assert error["code"] == "server_error"
    assert "terminal" not in error["message"]
    (failure,) = done.failures
    assert failure.cause is Cause.INTERNAL_ERROR
    assert "without a terminal event" in failure.message
    assert done.raised is None


@both
def test_an_early_end_is_raised_where_faults_are(run):
    done = run(OPEN, policy=Policy(reraise="faults"))
    tail_of(done, output=[ITEM], number=6)
    assert done.raised is done.failures[0].exception


@given(
    sent=st.integers(0, len(OPEN)),
    partly=st.integers(0, len(FRAMES[4])),
    size=st.integers(1, 700),
)
@example(sent=0, partly=1, size=1)
@example(sent=4, partly=len(FRAMES[4]) - 1, size=3)
def test_numbering_follows_what_was_forwarded_in_any_chunking_and_at_any_cut(sent, partly, size):
    whole = b"".join(OPEN[:sent])
    body = whole + (FRAMES[4][:partly] if sent == 4 else OPEN[sent][:partly] if sent < len(OPEN) else b"")
    done = run_sync([body[at : at + size] for at in range(0, len(body), size)], OSError("gone"))
    assert done.body.startswith(body)
    numbers = [one["sequence_number"] for _, one in done.events]
    assert numbers == list(range(len(numbers)))
    names = [name for name, _ in done.events]
    assert names[:2] == ["response.created", "response.in_progress"] or sent == 1
    assert names[0] == "response.created"
    assert names[-2:] == ["error", "response.failed"]


@both
@pytest.mark.parametrize(
    ("cut", "closing"),
    [
        (b'event: response.output_text.delta\ndata: {"ty', b"\n\n"),
        (b'data: {"ty\n', b"\n"),
        (b'data: {"ty\r\n', b"\n"),
        (b'data: {"ty\r', b"\n\n"),
        (b"data:", b"\n"),  # no data yet: the next frame adds its own
        (b"data", b"\n"),
        (b"event: response.output_te", b"\n"),
        (b"event: response.output_text.delta\n", b""),
        (b"eve", b"\n"),
        (b": keep-al", b"\n"),
        (b"dat", b"\n"),
        ('data: {"x":"é'.encode()[:-1], b"\x80\n\n"),
        ('data: {"x":"\u0800'.encode()[:-2], b"\xa0\x80\n\n"),
        ('data: {"x":"\u0800'.encode()[:-1], b"\x80\n\n"),
        ('data: {"x":"\U00010000'.encode()[:-3], b"\x90\x80\x80\n\n"),
        ('data: {"x":"\U0010ffff'.encode()[:-1], b"\x80\n\n"),
        ('data: {"x":"é'.encode(), b"\n\n"),
    ],
)
def test_a_half_sent_frame_is_closed_before_the_failure_frames(run, cut, closing):
    """A frame with data becomes an event of its own. One without is only ended: openai-python and others raise on an
    event without data, while a second `event:` line overrides the first."""
    done = run([*FRAMES[:2], cut], OSError("cut"))
    assert done.body.startswith(b"".join(FRAMES[:2]) + cut + closing + b"event: error\n")
    tail_of(done, number=2)
    done.body.decode()  # a reader that decodes before it splits lines gets as far as the failure


@both
def test_a_terminal_event_that_lacks_its_blank_line_is_completed_and_nothing_more(run):
    """Without it most clients never see the event."""
    for missing in (1, 2):
        cut = BODY[:-missing]
        for error in (None, OSError("reset")):
            done = run([cut], error)
            assert done.body == BODY
            assert len(done.failures) == (error is not None)


@both
@pytest.mark.parametrize("text", ["response.completed", "\nevent: response.completed\n", '"type":"response.completed"'])
def test_a_marker_quoted_in_a_text_is_no_event(run, text):
    done = run([*FRAMES[:3], encode_frame(delta(3, text))], ValueError())
    tail_of(done, number=4)


@both
def test_the_type_in_the_json_outranks_the_event_line(run):
    liar = b'event: response.completed\ndata: {"type":"response.output_text.delta","sequence_number":2}\n\n'
    tail_of(run([*FRAMES[:2], liar], ValueError()), number=3)
    honest = b'event: message\ndata: {"type":"response.completed","sequence_number":2}\n\n'
    assert run([*FRAMES[:2], honest], ValueError()).body.endswith(honest)


@both
def test_frames_without_event_lines_or_with_crlf_are_read_alike(run):
    frames = [b"data: " + frame.partition(b"data: ")[2].replace(b"\n", b"\r\n") for frame in OPEN]
    tail_of(run(frames, ValueError()), output=[ITEM], number=6)


@both
def test_frames_that_carry_no_numbers_are_counted(run):
    frames = [
        b"event: response.created\ndata: {}\n\n",
        b"event: response.in_progress\ndata: {}\n",
        b"\nevent: x\ndata: {}\n\n",
    ]
    done = run(frames, ValueError())
    assert [one["sequence_number"] for _, one in done.events[-2:]] == [3, 4]


@both
def test_numbers_that_jump_or_start_late_are_continued(run):
    frames = [
        encode_frame({**one, "sequence_number": number}) for one, number in zip(EVENTS, (10, 11, 600), strict=False)
    ]
    tail_of(run(frames, ValueError()), number=601)


@both
def test_numbers_that_go_back_are_continued_from_the_highest(run):
    frames = [encode_frame({**one, "sequence_number": number}) for one, number in zip(EVENTS, (0, 9, 4), strict=False)]
    tail_of(run(frames, ValueError()), number=10)


@both
def test_a_whole_frame_in_a_chunk_of_its_own_is_no_frame_when_one_was_half_sent(run):
    done = run([*FRAMES[:2], b'data: {"a', FRAMES[-1]], ValueError())
    assert done.chunks[3] == FRAMES[-1]
    tail_of(done, number=2)


@both
def test_an_item_nobody_can_write_is_left_out_and_the_snapshot_stays(run):
    odd = b'data: {"type":"response.output_item.done","sequence_number":2,"output_index":0,"item":{"id":"\\ud800"}}\n\n'
    announced = encode_frame(event("response.created", 0, response={**RESPONSE, "vendor": {"z": 1}}))
    done = run([announced, FRAMES[1].replace(b'"metadata":{}', b'"metadata":{"k":"v"}'), odd], ValueError())
    _, failed = tail_of(done, number=3)
    assert failed["response"]["metadata"] == {"k": "v"}


@both
def test_counts_announced_early_are_not_told_as_the_usage_of_a_failure(run):
    done = run(
        [encode_frame(event("response.created", 0, response={**RESPONSE, "usage": {"input_tokens": 3}}))], OSError()
    )
    tail_of(done, number=1)


@both
@pytest.mark.parametrize("delta_json", [b'"\\ud83d"', b"NaN", b'"\xff"', b"1e999", b'"a","delta":"b"'])
@pytest.mark.parametrize("number", [b"600", b"600.0"])
def test_an_event_that_is_no_strict_json_went_out_and_counts(run, delta_json, number):
    """Two deltas that each hold half of a surrogate pair are common; Python clients read them."""
    odd = b'data: {"delta":%b,"sequence_number":%b,"type":"response.output_text.delta"}\n\n' % (delta_json, number)
    done = run([*FRAMES[:2], odd], ValueError())
    assert [json.loads(frame.data)["sequence_number"] for frame in FrameDecoder().feed(done.body)[-2:]] == [601, 602]


@both
@pytest.mark.parametrize("number", [b"true", b"null", b'"7"', b"7.5", b"[]"])
def test_what_is_no_number_numbers_nothing_and_the_event_is_counted(run, number):
    odd = b'data: {"sequence_number":%b,"type":"response.output_text.delta"}\n\n' % number
    tail_of(run([*FRAMES[:2], odd], ValueError()), number=3)


@both
def test_what_is_no_event_is_not_counted(run):
    noise = [b"data: [DONE]\n\n", b"data: not json\n\n", b": c\n\n", b"data: [1]\n\n", b"id: 4\n\n", b"\n\n"]
    tail_of(run([*FRAMES[:2], *noise], ValueError()), number=2)


@both
@pytest.mark.parametrize(
    ("sent", "repeated"),
    [
        ({"code": "rate_limit_exceeded", "message": "slow", "param": None}, ("rate_limit_exceeded", "slow")),
        ({"error": {"type": "t", "code": "my_code", "message": "slow", "param": None}}, ("my_code", "slow")),
        ({"code": None, "message": "slow"}, ("server_error", "slow")),
        ({}, ("server_error", "")),
    ],
)
@pytest.mark.parametrize("error", [None, ValueError()])
def test_a_source_that_sent_error_itself_gets_the_failed_response_to_it(run, sent, repeated, error):
    """A second `error` may not follow, and both events say the same."""
    frames = [*FRAMES[:2], encode_frame(event("error", 2, **sent))]
    done = run(frames, error)
    assert done.chunks[:3] == frames
    ((name, failed),) = done.events[3:]
    assert (name, failed["sequence_number"]) == ("response.failed", 3)
    assert tuple(failed["response"]["error"].values()) == repeated


@both
def test_a_sparse_snapshot_is_made_whole_and_keeps_what_it_announced(run):
    """The snapshot of llama.cpp has three keys; a failed snapshot of two breaks 13 client modes."""
    sparse = {"id": "resp_sparse", "object": "response", "status": "in_progress", "timings": {"b": 1, "a": 2}}
    done = run([encode_frame(event("response.created", 0, response=sparse))], ValueError())
    _, failed = tail_of(done, model="given-model", number=1)
    assert failed["response"]["id"] == "resp_sparse"
    assert failed["response"]["timings"] == {"b": 1, "a": 2}
    assert {"id", "object", "created_at", "status", "model", "output", "error", "usage"} <= set(failed["response"])


@both
def test_an_announced_null_does_not_replace_what_is_known(run):
    done = run(
        [encode_frame(event("response.created", 0, response={**RESPONSE, "model": None, "id": None}))], ValueError()
    )
    _, failed = tail_of(done, model="given-model", number=1)
    assert failed["response"]["id"] == "resp_given"


@both
def test_a_snapshot_nobody_can_write_still_leaves_its_id(run):
    """A lone surrogate escape cannot be sent on, and the stream has to end all the same."""
    frame = b'data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_x","model":"m","instructions":"\\ud800"}}\n\n'
    done = run([frame], ValueError())
    _, failed = tail_of(done, model="m", number=1)
    assert failed["response"]["id"] == "resp_x"


def done_frames(*items):
    events = [event("response.output_item.done", 2 + at, output_index=at, item=item) for at, item in enumerate(items)]
    return [encode_frame(one) for one in events]


@both
def test_items_past_the_bound_are_left_out_of_the_failed_snapshot(run):
    big = {**ITEM, "id": "msg_2", "content": [{"type": "output_text", "text": "x" * (MAX_ITEMS - 100)}]}
    half = {**ITEM, "id": "msg_3", "content": [{"type": "output_text", "text": "x" * (MAX_ITEMS // 2)}]}
    tail_of(run([*FRAMES[:2], *done_frames(half, half, ITEM)], ValueError()), output=[half], number=5)
    done = run([*FRAMES[:2], *done_frames(ITEM, big, {**ITEM, "id": "msg_3"})], ValueError())
    tail_of(done, output=[ITEM], number=5)


@both
def test_a_frame_over_the_bound_of_the_decoder_ends_the_stream(run, monkeypatch):
    monkeypatch.setattr(_ending, "Watch", lambda: Watch(max_frame=len(max(FRAMES, key=len))))
    begun = b'data: {"type":"x","text":"' + b"y" * 100
    done = run([*FRAMES[:2], begun, b"y" * 10**6, FRAMES[-1]])
    assert done.chunks[2:4] == [begun, b"\n\n"]
    tail_of(done, number=2)
    assert "longer than" in done.failures[0].message
    for whole in (begun * 100, encode_frame(delta(2, "x" * 10**5))):
        assert run([*FRAMES[:2], whole]).chunks[2].startswith(b"event: error")


@both
@pytest.mark.parametrize("item", [3, object(), ["a list"], {"no": "type"}, {"type": "x", "y": float("nan")}, "\ud800"])
def test_what_cannot_be_sent_ends_the_stream_and_says_why_to_the_server(run, item):
    done = run([*FRAMES[:2], item, *FRAMES[2:]])
    tail_of(done, number=2)
    (failure,) = done.failures
    assert failure.message
    assert done.source.closed == 1


# ---------------------------------------------------------------------------------------------- classify


@both
def test_a_classifier_says_what_failed(run):
    seen = []

    def classify(error):
        seen.append(error)
        return Failure(cause=Cause.CONTEXT_LENGTH_EXCEEDED, message="too long")

    error = ValueError("raw")
    done = run(FRAMES[:2], error, classify=classify)
    event_, _ = tail_of(done, number=2)
    assert (event_["code"], event_["message"]) == ("context_length_exceeded", "too long")
    assert seen == [error]
    assert done.failures[0].exception is error


@both
def test_one_failure_may_stand_for_every_exception(run):
    done = run(FRAMES[:2], ValueError("x"), classify=Failure(cause=Cause.OVERLOADED, message="busy"))
    assert tail_of(done, number=2)[0]["code"] == "server_is_overloaded"
    early = run(FRAMES[:2], classify=Failure(cause=Cause.OVERLOADED, message="busy"))
    assert tail_of(early, number=2)[0]["code"] == "server_error"


@both
@pytest.mark.parametrize(
    "classify", [lambda error: 1 / 0, lambda error: None, lambda error: "context_length_exceeded", lambda: None]
)
def test_a_broken_classifier_leaves_an_internal_error_and_is_told_to_the_server(run, classify):
    done = run(FRAMES[:2], ValueError("the first fault"), classify=classify)
    assert tail_of(done, number=2)[0]["code"] == "server_error"
    (failure,) = done.failures
    assert failure.message == "the first fault"
    assert failure.details["classify"]


@both
def test_our_rejection_carries_its_failure_past_any_classifier(run):
    failure = Failure(cause=Cause.CONTEXT_LENGTH_EXCEEDED, message="too long")
    for classify in (None, lambda error: Failure(cause=Cause.TIMEOUT, message="")):
        done = run([], RequestRejected(failure), classify=classify, policy=Policy(reraise="faults"))
        assert tail_of(done, model="given-model", number=2)[0]["message"] == "too long"
        assert done.raised is None


@both
def test_an_exception_that_means_the_client_is_gone_adds_nothing_and_is_raised(run):
    error = ConnectionResetError()
    done = run(FRAMES[:2], error, classify=lambda error: Failure(cause=Cause.CLIENT_DISCONNECT, message="gone"))
    assert done.chunks == FRAMES[:2]
    assert done.raised is error
    assert [failure.cause for failure in done.failures] == [Cause.CLIENT_DISCONNECT]


@pytest.mark.parametrize(
    ("guarded", "source", "said"),
    [
        (
            guard_stream,
            b"data: 1",
            "source: expected an async iterable (or a plain one) of bytes, str or events, got b'data: 1'. Put a whole body into a list: [body].",
        ),
        (
            guard_stream_sync,
            7,
            "source: expected an iterable of bytes, str or events, got 7. Call the generator function.",
        ),
    ],
)
def test_what_is_no_source_is_told_how_to_become_one(guarded, source, said):
    with pytest.raises(TypeError) as caught:
        guarded(source, model="m")
    assert str(caught.value) == said


def test_a_body_may_be_driven_by_send():
    """From the protocol of generators: `send(None)` is `next`, and another value is refused before the first one."""
    source = PlainSource(FRAMES)
    body = guard_stream_sync(source, model="m")
    with pytest.raises(TypeError):
        body.send(b"x")
    assert body.send(None) == FRAMES[0]
    body.close()
    assert source.closed == 1

    async def main():
        source = AsyncSource(FRAMES)
        body = guard_stream(source, model="m")
        with pytest.raises(TypeError):
            await body.asend(b"x")
        assert await body.asend(None) == FRAMES[0]
        await body.aclose()
        assert source.closed == 1

    asyncio.run(main())


def test_sources_that_cannot_be_closed_are_none_the_worse():
    class Bare:
        def __iter__(self):
            return iter(FRAMES)

        def __aiter__(self):
            async def frames():
                for frame in FRAMES:
                    yield frame

            return frames()

    class Forward:
        """A plain iterable and nothing else, so that it is lifted."""

        def __iter__(self):
            return iter(FRAMES)

    for source in (Bare(), Forward()):
        run = run_async(source=source)
        assert (run.body, run.raised, run.failures) == (BODY, None, [])
    run = run_sync(source=Bare())
    assert (run.body, run.raised, run.failures) == (BODY, None, [])
