"""The guard: whatever a source does, what goes out is its bytes and then the ending that clients act on."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import json
import logging

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from respevents import _ending, schemas
from respevents._watch import MAX_ITEMS, Watch
from respevents.events import decode_event
from respevents.failures import CATALOGUE, Cause, Failure, Policy, RequestRejected
from respevents.guard import guard_stream, guard_stream_sync, rejected_frames, rejected_stream
from respevents.wire import FrameDecoder, encode_frame

RESPONSE = {
    "id": "resp_announced",
    "object": "response",
    "created_at": 1767225600,
    "status": "in_progress",
    "error": None,
    "model": "announced-model",
    "output": [],
    "usage": None,
    "metadata": {},
}
ITEM = {
    "id": "msg_1",
    "type": "message",
    "status": "completed",
    "content": [{"type": "output_text", "annotations": [], "logprobs": [], "text": "Hi \u2028 response.completed"}],
    "role": "assistant",
}


def event(kind, number, **fields):
    return {"type": kind, "sequence_number": number, **fields}


def delta(number, text):
    return event(
        "response.output_text.delta", number, item_id="msg_1", output_index=0, content_index=0, delta=text, logprobs=[]
    )


EVENTS = [
    event("response.created", 0, response=RESPONSE),
    event("response.in_progress", 1, response=RESPONSE),
    event("response.output_item.added", 2, output_index=0, item={**ITEM, "status": "in_progress", "content": []}),
    delta(3, 'quoted "response.completed"'),
    delta(4, '\n\nevent: response.completed\ndata: {"type":"response.completed"}\n\n'),
    event("response.output_item.done", 5, output_index=0, item=ITEM),
    event("response.completed", 6, response={**RESPONSE, "status": "completed", "output": [ITEM]}),
]
FRAMES = [encode_frame(one) for one in EVENTS]
BODY = b"".join(FRAMES)
OPEN = FRAMES[:-1]  # everything but the terminal event


class Source:
    """A source that yields, then raises; it counts how often it was closed."""

    def __init__(self, items=(), error=None, close_error=None):
        self.items, self.error, self.close_error = list(items), error, close_error
        self.closed = 0

    def _next(self):
        if self.items:
            return self.items.pop(0)
        if self.error is not None:
            raise self.error
        return None

    def _close(self):
        self.closed += 1
        if self.close_error is not None:
            raise self.close_error


class PlainSource(Source):
    def __iter__(self):
        return self

    def __next__(self):
        item = self._next()
        if item is None:
            raise StopIteration
        return item

    def close(self):
        self._close()


class AsyncSource(Source):
    def __aiter__(self):
        return self

    async def __anext__(self):
        await asyncio.sleep(0)
        item = self._next()
        if item is None:
            raise StopAsyncIteration
        return item

    async def aclose(self):
        await asyncio.sleep(0)
        self._close()


class Run:
    """What came out of one guarded stream."""

    def __init__(self):
        self.chunks, self.raised, self.failures, self.source = [], None, [], None

    @property
    def body(self):
        return b"".join(self.chunks)

    @property
    def events(self):
        return events_of(self.body)


def events_of(body):
    """(event line, JSON) of every frame, as a reader sees them; a frame cut mid-JSON is left out, as Codex does."""
    decoder = FrameDecoder()
    out = []
    for frame in decoder.feed(body) + decoder.close():
        assert frame.complete
        with contextlib.suppress(ValueError):
            if frame.data:
                out.append((frame.event, json.loads(frame.data)))
    return out


def run_sync(items=(), error=None, *, source=None, **options):
    run = Run()
    run.source = PlainSource(items, error) if source is None else source
    options.setdefault("on_failure", run.failures.append)
    try:
        run.chunks.extend(
            guard_stream_sync(run.source, **{"model": "given-model", "id": "resp_given", "created_at": 7, **options})
        )
    except BaseException as raised:
        run.raised = raised
    return run


def run_async(items=(), error=None, *, source=None, **options):
    run = Run()
    run.source = AsyncSource(items, error) if source is None else source
    options.setdefault("on_failure", run.failures.append)

    async def main():
        stream = guard_stream(run.source, **{"model": "given-model", "id": "resp_given", "created_at": 7, **options})
        try:
            async for chunk in stream:
                run.chunks.append(chunk)
        except BaseException as raised:
            run.raised = raised

    asyncio.run(main())
    return run


def run_by_hand(items=(), error=None, **options):
    """The async guard without any event loop: whatever it awaits is resumed at once."""
    run = Run()
    run.source = AsyncSource(items, error)
    stream = guard_stream(run.source, **{"model": "given-model", "on_failure": run.failures.append, **options})
    try:
        while True:
            step = stream.__anext__()
            try:
                while True:
                    step.send(None)
            except StopIteration as done:
                run.chunks.append(done.value)
    except StopAsyncIteration:
        pass
    except BaseException as raised:
        run.raised = raised
    return run


both = pytest.mark.parametrize("run", [run_sync, run_async], ids=["sync", "async"])


def tail_of(run, *, model="announced-model", output=(), number):
    """Check the ending of a run and give its error and failed events."""
    (_, error), (_, failed) = run.events[-2:]
    assert [name for name, _ in run.events[-2:]] == ["error", "response.failed"]
    assert [error["sequence_number"], failed["sequence_number"]] == [number, number + 1]
    response = failed["response"]
    assert response["status"] == "failed"
    assert response["usage"] is None
    assert response["model"] == model
    assert response["output"] == list(output)
    assert response["error"]["code"] == error["code"] == error["error"]["code"]
    assert response["error"]["message"] == error["message"] == error["error"]["message"]
    return error, failed


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
        (b"data:", b"\n\n"),
        (b"data", b"\n\n"),
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
@pytest.mark.parametrize("delta_json", [b'"\\ud83d"', b"NaN", b'"\xff"', b"1e999", b'"a","delta":"b"'])
@pytest.mark.parametrize("number", [b"600", b"600.0"])
def test_an_event_that_is_no_strict_json_went_out_and_counts(run, delta_json, number):
    """Two deltas that each hold half of a surrogate pair are common; Python clients read them."""
    odd = b'data: {"delta":%b,"sequence_number":%b,"type":"response.output_text.delta"}\n\n' % (delta_json, number)
    done = run([*FRAMES[:2], odd], ValueError())
    assert [json.loads(frame.data)["sequence_number"] for frame in FrameDecoder().feed(done.body)[-2:]] == [601, 602]


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


@both
def test_items_past_the_bound_are_left_out_of_the_failed_snapshot(run):
    big = {**ITEM, "id": "msg_2", "content": [{"type": "output_text", "text": "x" * (MAX_ITEMS - 100)}]}
    items = [ITEM, big, {**ITEM, "id": "msg_3"}]
    frames = [
        encode_frame(event("response.output_item.done", 2 + at, output_index=at, item=item))
        for at, item in enumerate(items)
    ]
    done = run([*FRAMES[:2], *frames], ValueError())
    tail_of(done, output=[ITEM], number=5)


@both
def test_a_frame_over_the_bound_of_the_decoder_ends_the_stream(run, monkeypatch):
    monkeypatch.setattr(_ending, "Watch", lambda: Watch(max_frame=len(max(FRAMES, key=len))))
    begun = b'data: {"type":"x","text":"' + b"y" * 100
    done = run([*FRAMES[:2], begun, b"y" * 10**6, FRAMES[-1]])
    assert done.chunks[2:4] == [begun, b"\n\n"]
    tail_of(done, number=2)
    assert "longer than" in done.failures[0].message
    untouched = run([*FRAMES[:2], begun * 100])
    assert untouched.chunks[2].startswith(b"event: error")


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


# ---------------------------------------------------------------------------------------------- hang-up


class Cancelled(BaseException):
    """As trio's: no Exception, and no relative of asyncio's."""


@both
@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit(), Cancelled()], ids=repr)
@pytest.mark.parametrize("sent", [0, 3])
def test_a_hang_up_adds_nothing_is_reported_and_raised_again(run, error, sent):
    done = run(FRAMES[:sent], error)
    assert done.chunks == FRAMES[:sent]
    assert done.raised is error
    assert [failure.cause for failure in done.failures] == [Cause.CLIENT_DISCONNECT]
    assert done.failures[0].exception is error
    assert done.source.closed == 1


@pytest.mark.parametrize("run", [run_sync, run_by_hand], ids=["sync", "async"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_the_end_of_the_process_adds_nothing_and_is_no_failure(run, error):
    done = run(FRAMES[:3], error)
    assert done.chunks == FRAMES[:3]
    assert done.raised is error
    assert done.failures == []
    assert done.source.closed == 1


def test_a_reader_that_stops_closes_the_source():
    source, failures = PlainSource(FRAMES), []
    stream = guard_stream_sync(source, model="m", on_failure=failures.append)
    assert next(stream) == FRAMES[0]
    stream.close()
    assert source.closed == 1
    assert [failure.cause for failure in failures] == [Cause.CLIENT_DISCONNECT]

    async def main():
        source, failures = AsyncSource(FRAMES), []
        stream = guard_stream(source, model="m", on_failure=failures.append)
        assert await stream.__anext__() == FRAMES[0]
        await stream.aclose()
        assert source.closed == 1
        assert [failure.cause for failure in failures] == [Cause.CLIENT_DISCONNECT]

    asyncio.run(main())


def test_a_reader_that_stops_after_the_terminal_event_did_not_hang_up():
    """Codex closes the connection at `response.completed`."""
    source, failures = PlainSource([BODY]), []
    stream = guard_stream_sync(source, model="m", on_failure=failures.append)
    next(stream)
    stream.close()
    assert failures == []
    assert source.closed == 1


def test_a_reader_that_stops_amid_the_failure_frames_is_no_second_failure():
    source, failures = PlainSource([], ValueError("first")), []
    stream = guard_stream_sync(source, model="m", on_failure=failures.append)
    next(stream)
    stream.close()
    assert [failure.message for failure in failures] == ["first"]
    assert source.closed == 1


def test_a_stream_nobody_read_closes_its_source_too():
    source = PlainSource(FRAMES)
    guard_stream_sync(source, model="m").close()
    assert source.closed == 1
    source = PlainSource(FRAMES)
    with pytest.raises(Cancelled):
        guard_stream_sync(source, model="m").throw(Cancelled())
    assert source.closed == 1

    async def main():
        source = AsyncSource(FRAMES)
        await guard_stream(source, model="m").aclose()
        assert source.closed == 1
        source = AsyncSource(FRAMES)
        with pytest.raises(Cancelled):
            await guard_stream(source, model="m").athrow(Cancelled())
        assert source.closed == 1
        source = PlainSource(FRAMES)
        await guard_stream(source, model="m").aclose()
        assert source.closed == 1

    asyncio.run(main())


def test_a_cancelled_task_adds_nothing_and_stays_cancelled():
    async def main():
        failures, chunks = [], []

        async def source():
            yield FRAMES[0]
            await asyncio.sleep(60)

        async def read():
            stream = guard_stream(source(), model="m", on_failure=failures.append)
            chunks.append(await anext(stream))
            await anext(stream)

        task = asyncio.create_task(read())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert chunks == FRAMES[:1]
        assert [failure.cause for failure in failures] == [Cause.CLIENT_DISCONNECT]

    asyncio.run(main())


def test_an_async_generator_left_open_is_finished_by_the_loop():
    closed = []

    async def source():
        try:
            for frame in FRAMES:
                yield frame
        finally:
            closed.append(True)

    async def main():
        async for _ in guard_stream(source(), model="m", on_failure=lambda failure: None):
            break
        gc.collect()

    asyncio.run(main())
    assert closed == [True]


# ---------------------------------------------------------------------------------------------- second faults


@both
def test_a_reporter_that_fails_never_replaces_the_first_fault(run, caplog):
    def broken(failure):
        raise KeyError("the reporter's own")

    done = run(FRAMES[:2], ValueError("the first"), on_failure=broken)
    tail_of(done, number=2)
    assert done.raised is None
    assert "the first" in caplog.text
    assert "the reporter's own" in caplog.text
    hung_up = Cancelled()
    assert run(FRAMES[:2], hung_up, on_failure=broken).raised is hung_up


@both
def test_a_log_that_fails_never_replaces_the_first_fault(run):
    def refuse(record):
        raise OSError("the log's own")

    logger = logging.getLogger("respevents")
    logger.addFilter(refuse)
    try:
        for on_failure in (None, lambda failure: 1 / 0):
            done = run(FRAMES[:2], ValueError("the first"), on_failure=on_failure)
            tail_of(done, number=2)
            assert done.raised is None
        make = PlainSource if run is run_sync else AsyncSource
        first = Cancelled()
        assert run(source=make(FRAMES, first, close_error=OSError())).raised is first
    finally:
        logger.removeFilter(refuse)


@both
def test_a_close_that_fails_never_hides_the_first_fault(run, caplog):
    make = PlainSource if run is run_sync else AsyncSource
    for first in (ValueError("the first"), Cancelled()):
        source = make(FRAMES[:2], first, close_error=OSError("the close"))
        done = run(source=source, policy=Policy(reraise="faults"))
        assert done.raised is first
        assert source.closed == 1
        assert "the close" in caplog.text


@both
def test_a_close_that_fails_after_a_whole_stream_is_reported_and_adds_nothing(run):
    make = PlainSource if run is run_sync else AsyncSource
    error = OSError("the close")
    done = run(source=make(FRAMES, close_error=error))
    assert done.chunks == FRAMES
    assert done.raised is None
    assert [failure.exception for failure in done.failures] == [error]
    assert run(source=make(FRAMES, close_error=error), policy=Policy(reraise="faults")).raised is error


@both
def test_a_cancellation_while_closing_goes_out_over_a_fault_and_not_over_a_hang_up(run):
    make = PlainSource if run is run_sync else AsyncSource
    second = Cancelled("second")
    assert run(source=make(FRAMES, ValueError(), close_error=second)).raised is second
    assert run(source=make(FRAMES, close_error=second)).raised is second
    first = GeneratorExit()
    assert run(source=make(FRAMES, first, close_error=second)).raised is first


@both
def test_an_iterator_that_cannot_even_start_is_a_fault(run):
    class Broken:
        closed = 0

        def __iter__(self):
            raise OSError("no connection")

        def close(self):
            self.closed += 1

    source = Broken()
    done = run(source=source)
    assert done.events[-1][0] == "response.failed"
    assert source.closed == 1


class Mute(Exception):
    def __str__(self):
        raise ValueError("no text")

    __repr__ = __str__


@both
@pytest.mark.parametrize(
    "error",
    [ValueError("\ud800"), ValueError("\0"), ValueError("x" * 10**6), ValueError(), Mute()],
    ids=["surrogate", "nul", "megabyte", "no text", "refuses"],
)
@pytest.mark.parametrize("expose", ["nothing", "class_message"])
def test_the_failure_path_never_raises_whatever_the_exception_says(run, error, expose):
    done = run(FRAMES[:2], error, policy=Policy(expose=expose))
    tail_of(done, number=2)
    assert len(done.body) < len(b"".join(FRAMES[:2])) + 60_000
    logged = run(FRAMES[:2], error, on_failure=None)
    tail_of(logged, number=2)


@pytest.mark.parametrize(
    "request_",
    [
        {"model": "m", "temperature": float("nan")},
        {"metadata": {"a": b"bytes"}},
        {"instructions": "\ud800"},
        {"tools": object()},
    ],
)
def test_a_request_that_cannot_be_echoed_does_not_stop_the_failure(request_):
    failure = Failure(cause=Cause.CONTEXT_LENGTH_EXCEEDED, message="m")
    events = events_of(rejected_frames(failure, model="m\ud800", id="resp_\udfff", created_at=1, request=request_))
    assert [name for name, _ in events] == ["response.created", "response.in_progress", "error", "response.failed"]
    assert events[0][1]["response"]["model"] == "m\ufffd"


# ---------------------------------------------------------------------------------------------- reports


def test_without_a_reporter_faults_are_logged_with_their_traceback(caplog):
    caplog.set_level(logging.INFO, logger="respevents")
    run_sync(FRAMES[:2], ValueError("boom"), on_failure=None)
    (record,) = caplog.records
    assert (record.levelname, record.exc_info[0]) == ("ERROR", ValueError)
    assert "internal_error: boom" in record.message


def test_without_a_reporter_rejections_and_hang_ups_are_one_line(caplog):
    caplog.set_level(logging.INFO, logger="respevents")
    run_sync([], RequestRejected(Failure(cause=Cause.QUOTA, message="broke")), on_failure=None)
    run_sync([], Cancelled(), on_failure=None)
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
    assert not any(record.exc_info for record in caplog.records)


@both
def test_every_failure_is_reported_once_before_its_frames_go_out(run):
    order = []
    done = run(
        FRAMES[:2],
        RequestRejected(Failure(cause=Cause.QUOTA, message="m")),
        on_failure=lambda failure: order.append(failure),
    )
    assert len(order) == 1
    assert done.failures == []


# ---------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model.*empty"),
        ({"id": 3}, "id: expected a response id"),
        ({"created_at": 1.5}, "created_at: expected whole seconds"),
        ({"created_at": True}, "created_at"),
        ({"request": "x"}, "request: expected the request as a mapping"),
        ({"policy": "codex"}, "policy: expected a Policy"),
    ],
)
def test_a_wrong_argument_is_refused_by_name_before_anything_is_sent(fields, words):
    failure = Failure(cause=Cause.AUTH, message="m")
    arguments = {"model": "m", **fields}
    for call in (
        lambda: guard_stream([], **arguments),
        lambda: guard_stream_sync([], **arguments),
        lambda: rejected_stream(failure, **arguments),
        lambda: rejected_frames(failure, **arguments),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            call()


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"classify": "internal_error"}, "classify.*function"), ({"on_failure": "log"}, "on_failure.*function")],
)
def test_a_wrong_function_is_refused_by_name(fields, words):
    with pytest.raises(TypeError, match=words):
        guard_stream_sync([], model="m", **fields)


async def later(_):
    pass


@pytest.mark.parametrize("name", ["classify", "on_failure"])
def test_a_coroutine_function_is_refused_because_nobody_would_await_it(name):
    with pytest.raises(TypeError, match=f"{name}: expected a plain function"):
        guard_stream([], model="m", **{name: later})


@pytest.mark.parametrize("source", [None, 3, "event: x", b"event: x", {"type": "x"}, list])
def test_a_source_that_is_no_iterable_of_chunks_is_refused_at_once(source):
    for guard in (guard_stream, guard_stream_sync):
        with pytest.raises(TypeError, match="source: expected"):
            guard(source, model="m")


def test_a_rejection_needs_a_failure():
    with pytest.raises(TypeError, match="failure: expected a Failure"):
        rejected_frames(ValueError("x"), model="m")


# ---------------------------------------------------------------------------------------------- the frames


def rejected(cause, policy=None, **fields):
    failure = Failure(cause=cause, message=f"message of {cause}", **fields)
    return failure, rejected_frames(failure, model="m", id="resp_1", created_at=1767225600, policy=policy)


SHAPES = {shape: Policy(error_shape=shape) for shape in ("both", "nested", "flat")}


@pytest.mark.parametrize("policy", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("cause", [cause for cause, facts in CATALOGUE.items() if facts.ending != "silent"])
def test_for_every_cause_the_bytes_are_the_server_errors_with_code_message_and_type_changed(cause, policy):
    base, expected = rejected(Cause.INTERNAL_ERROR, policy)
    failure, frames = rejected(cause, policy)
    expected = expected.replace(
        f'"type":"{base.type_for(policy)}"'.encode(), f'"type":"{failure.type_for(policy)}"'.encode()
    )
    expected = expected.replace(
        f'"code":"{base.code_for(policy)}"'.encode(), f'"code":"{failure.code_for(policy)}"'.encode()
    )
    expected = expected.replace(json.dumps(base.said(policy)).encode(), json.dumps(failure.said(policy)).encode())
    assert frames == expected


def test_a_code_outside_the_sdk_literal_changes_that_one_string():
    _, known = rejected(Cause.INVALID_REQUEST, code="invalid_prompt")
    _, unknown = rejected(Cause.INVALID_REQUEST, code="nobody_knows_this")
    assert unknown == known.replace(b'"invalid_prompt"', b'"nobody_knows_this"')


@pytest.mark.parametrize("cause", [Cause.CLIENT_DISCONNECT, Cause.CANCELLED])
def test_nothing_is_sent_for_a_hang_up(cause):
    assert rejected(cause)[1] == b""


@pytest.mark.parametrize(
    ("tail", "names"),
    [
        ("error,failed", ["error", "response.failed"]),
        ("failed,error", ["response.failed", "error"]),
        ("failed", ["response.failed"]),
    ],
)
def test_the_tail_is_in_the_order_of_the_policy_and_numbered_in_it(tail, names):
    _, frames = rejected(Cause.QUOTA, Policy(tail=tail))
    events = events_of(frames)
    assert [name for name, _ in events][2:] == names
    assert [one["sequence_number"] for _, one in events] == list(range(2 + len(names)))


def test_the_rejected_stream_is_the_rejected_frames_one_by_one():
    failure = Failure(cause=Cause.CONTEXT_LENGTH_EXCEEDED, message="m")

    async def main():
        return [chunk async for chunk in rejected_stream(failure, model="m", id="resp_1", created_at=1)]

    chunks = asyncio.run(main())
    assert [chunk.partition(b"\n")[0] for chunk in chunks] == [
        b"event: response.created",
        b"event: response.in_progress",
        b"event: error",
        b"event: response.failed",
    ]
    assert b"".join(chunks) == rejected_frames(failure, model="m", id="resp_1", created_at=1)


def test_ids_and_times_are_made_where_none_are_given():
    failure = Failure(cause=Cause.AUTH, message="m")
    one, two = (events_of(rejected_frames(failure, model="m")) for _ in range(2))
    assert one[0][1]["response"]["id"].startswith("resp_")
    assert one[0][1]["response"]["id"] != two[0][1]["response"]["id"]
    assert isinstance(one[0][1]["response"]["created_at"], int)
    assert {event_["response"]["id"] for name, event_ in one if name != "error"} == {one[0][1]["response"]["id"]}


@pytest.mark.parametrize("policy", [Policy.default, Policy.codex, Policy.tensorrt_llm, Policy.gateway])
@pytest.mark.parametrize(
    "request_", [None, {"model": "m", "temperature": 1, "tools": [{"type": "function", "name": "f"}]}]
)
def test_the_frames_of_a_rejection_are_what_the_strict_schema_asks_for(policy, request_):
    jsonschema_rs = pytest.importorskip("jsonschema_rs")
    for cause in (Cause.CONTEXT_LENGTH_EXCEEDED, Cause.RATE_LIMITED, Cause.ENGINE_ERROR):
        failure = Failure(cause=cause, message="m", code="nobody_knows_this")
        for name, one in events_of(rejected_frames(failure, model="m", policy=policy, request=request_)):
            validator = jsonschema_rs.Draft202012Validator(schemas.definition(name))
            assert [error.message for error in validator.iter_errors(one)] == [], name


@pytest.mark.sdk
@pytest.mark.parametrize("policy", [Policy.default, Policy.codex, Policy.tensorrt_llm])
def test_the_sdk_reads_every_frame_of_a_rejection(policy):
    pytest.importorskip("openai")
    from openai._models import construct_type
    from openai.types.responses import ResponseStreamEvent

    failure = Failure(cause=Cause.CONTEXT_LENGTH_EXCEEDED, message="m")
    for name, event_ in events_of(rejected_frames(failure, model="m", policy=policy)):
        assert construct_type(value=event_, type_=ResponseStreamEvent).type == name
