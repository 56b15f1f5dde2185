"""The guard and its surroundings: hang-ups, faults on top of faults, what is reported."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from guarding import BODY, FRAMES, AsyncSource, PlainSource, both, events_of, run_by_hand, run_sync, tail_of
from respevents.failures import Cause, Failure, Policy, RequestRejected
from respevents.guard import guard_stream, guard_stream_sync, rejected_frames

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


def test_a_lone_surrogate_does_not_cost_the_server_its_log(caplog, tmp_path):
    """A handler that writes UTF-8 drops a record it cannot encode."""
    handler = logging.FileHandler(tmp_path / "log", encoding="utf-8")
    logging.getLogger("respevents").addHandler(handler)
    try:
        run_sync(FRAMES[:2], ValueError("bad \ud800"), on_failure=None)
    finally:
        logging.getLogger("respevents").removeHandler(handler)
        handler.close()
    assert "ValueError: bad \ufffd" in (tmp_path / "log").read_text(encoding="utf-8")
    assert "Traceback" in caplog.text
    caplog.text.encode()


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


class _Broken(type):
    @property
    def __name__(cls):
        raise RuntimeError("no name")


class NoName(Exception, metaclass=_Broken):
    pass


class NoClass(Exception):
    @property
    def __class__(self):
        raise RuntimeError("no class")


class NoAttributes(Exception):
    def __getattribute__(self, name):
        raise RuntimeError("no attributes")


class Empty(RequestRejected):
    def __init__(self):
        pass


@pytest.mark.parametrize("kind", [NoName, NoClass, NoAttributes, Empty], ids=["name", "class", "attributes", "failure"])
@pytest.mark.parametrize(
    "policy", [Policy.default, Policy(expose="class"), Policy(expose="class_message"), Policy.codex]
)
def test_an_exception_that_answers_nothing_is_told_all_the_same(kind, policy):
    def source():
        raise kind()
        yield b""

    body = b"".join(guard_stream_sync(source(), model="m", policy=policy, on_failure=lambda failure: None))
    assert body.count(b'"type":"response.failed"') == 1


@pytest.mark.parametrize("run", [run_sync, run_by_hand], ids=["sync", "async"])
@pytest.mark.parametrize("first", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_a_fault_while_closing_does_not_stand_in_for_the_end_of_the_process(run, first):
    if run is run_sync:
        done = run(
            source=PlainSource(FRAMES[:2], first, close_error=OSError("the close")), policy=Policy(reraise="faults")
        )
        assert (done.raised, done.failures) == (first, [])
        return
    source = AsyncSource(FRAMES[:2], first, close_error=OSError("the close"))
    failures = []

    async def main():
        async for _ in guard_stream(source, model="m", on_failure=failures.append, policy=Policy(reraise="faults")):
            pass

    step = main()
    with pytest.raises(type(first)) as caught:
        while True:
            step.send(None)
    assert (caught.value, failures) == (first, [])


@both
def test_a_fault_while_closing_does_not_stand_in_for_an_early_end(run):
    make = PlainSource if run is run_sync else AsyncSource
    done = run(source=make(FRAMES[:2], close_error=OSError("the close")), policy=Policy(reraise="faults"))
    assert not isinstance(done.raised, OSError)
    assert done.raised is done.failures[0].exception
    assert len(done.failures) == 1
