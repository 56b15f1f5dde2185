"""The guard around a response stream: whatever the source does, the stream ends the way clients act on.

It forwards what the source yields and watches it. When the source raises, or stops without a terminal event, it adds
`error` and `response.failed`, numbered on, and lets the body end cleanly. A hang-up (any `BaseException` that is no
`Exception`: `CancelledError`, `GeneratorExit`, the cancellations of trio and anyio) adds nothing, is reported out of
band and raised again, so no event loop needs to be known here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Coroutine, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from respevents._ending import Guard
from respevents._errors import show
from respevents.failures import Failure

if TYPE_CHECKING:
    from respevents._dialect import Dialect
    from respevents._ending import Classify, OnFailure
    from respevents.classifier import HTTPAnswer
    from respevents.failures import Policy

__all__ = ["guard_stream", "guard_stream_sync", "rejected_frames", "rejected_stream"]

_EXITS: Final = (KeyboardInterrupt, SystemExit)


def guard_stream(
    source: AsyncIterable[Any] | Iterable[Any],
    *,
    model: str,
    id: str | None = None,  # noqa: A002 - the field's own name
    created_at: int | None = None,
    request: Mapping[str, Any] | None = None,
    classify: Classify | Failure | None = None,
    policy: Policy | None = None,
    dialect: Dialect | None = None,
    on_failure: OnFailure | None = None,
) -> AsyncGenerator[bytes, None]:
    """Forward a source as the bytes of a body that always ends with a terminal event.

    `source` yields bytes, str (whole frames or any cut of them) or events (objects, mappings, pydantic models); an
    event without `sequence_number` gets the next one. It is closed (`aclose` or `close`) on every path. A completed
    stream is forwarded byte for byte.

    When it raises, `classify` says what failed: a function from the exception to a `Failure`, or one `Failure` for all.
    Without it that is `classify`; a server that knows its engine says so, with
    `functools.partial(classify, engine="vllm")`. A `RequestRejected` is the failure it carries, a source that stops
    early an `internal_error`. What was announced (`id`, `model`, `created_at`, the whole snapshot) stays; the
    arguments stand in for what was not: `created_at` in seconds, `request` as for `ResponseStream`. `dialect` is the
    one that the source speaks: in Open Responses the body ends with one `[DONE]`, whether the source sends it or not,
    and what it sends after its own is dropped when there was no terminal event before it.

    `on_failure` is called with every `Failure`, hang-ups and those after the terminal event included, before the
    failure frames go out; `failure.exception` is the exception. What it raises is logged and changes nothing. Without
    it failures are logged: faults with their traceback, rejections and hang-ups as one line.

    The generator raises only what the policy asks for (`reraise`) and what is raised again always: hang-ups,
    `KeyboardInterrupt` and `SystemExit`. Raises TypeError or ValueError at once for a wrong argument.
    """
    guard = Guard(model, id, created_at, request, classify, policy, on_failure, dialect)
    if not isinstance(source, AsyncIterable):
        source = _Lifted(_iterable(source, "an async iterable (or a plain one)"))
    return _AsyncBody(guard, source)


def guard_stream_sync(
    source: Iterable[Any],
    *,
    model: str,
    id: str | None = None,  # noqa: A002 - the field's own name
    created_at: int | None = None,
    request: Mapping[str, Any] | None = None,
    classify: Classify | Failure | None = None,
    policy: Policy | None = None,
    dialect: Dialect | None = None,
    on_failure: OnFailure | None = None,
) -> Generator[bytes, None, None]:
    """`guard_stream` for plain generators."""
    guard = Guard(model, id, created_at, request, classify, policy, on_failure, dialect)
    return _Body(guard, _iterable(source, "an iterable"))


def rejected_stream(
    failure: Failure | BaseException | HTTPAnswer | Mapping[str, Any] | str,
    *,
    model: str,
    id: str | None = None,  # noqa: A002 - the field's own name
    created_at: int | None = None,
    request: Mapping[str, Any] | None = None,
    policy: Policy | None = None,
    dialect: Dialect | None = None,
) -> AsyncGenerator[bytes, None]:
    """The body of a streamed request that was refused before anything was generated, one frame at a time.

    `response.created`, `response.in_progress`, `error`, `response.failed`, numbered from 0; nothing for a hang-up.
    What is no `Failure` yet (an exception, a text, an answer of another server) is classified. Raises TypeError or
    ValueError at once for a wrong argument.
    """
    return _one_by_one(_rejected(failure, model, id, created_at, request, policy, dialect))


async def _one_by_one(frames: list[bytes]) -> AsyncGenerator[bytes, None]:
    for frame in frames:
        yield frame


def rejected_frames(
    failure: Failure | BaseException | HTTPAnswer | Mapping[str, Any] | str,
    *,
    model: str,
    id: str | None = None,  # noqa: A002 - the field's own name
    created_at: int | None = None,
    request: Mapping[str, Any] | None = None,
    policy: Policy | None = None,
    dialect: Dialect | None = None,
) -> bytes:
    """The bytes of `rejected_stream` in one piece."""
    return b"".join(_rejected(failure, model, id, created_at, request, policy, dialect))


def _rejected(
    failure: Failure | BaseException | HTTPAnswer | Mapping[str, Any] | str,
    model: str,
    response_id: str | None,
    created_at: int | None,
    request: Mapping[str, Any] | None,
    policy: Policy | None,
    dialect: Dialect | None,
) -> list[bytes]:
    if not isinstance(failure, Failure):
        if failure is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise TypeError("failure: expected a Failure, or what can be classified as one, got None")
        from respevents.classifier import classify

        failure = classify(failure)
    guard = Guard(model, response_id, created_at, request, None, policy, None, dialect)
    frames = guard.ending_frames(failure)
    return [*frames, guard.mark()] if frames and guard.policy.dialect == "open-responses" else frames


async def _drive(guard: Guard, source: AsyncIterable[Any]) -> AsyncGenerator[bytes, None]:
    first: BaseException | None = None
    held: list[Any] = [source]
    try:
        try:
            iterator = aiter(source)
            held.insert(0, iterator)
            async for item in iterator:
                chunk = guard.take(item)
                if chunk:
                    yield chunk
        except _EXITS as error:
            first = error
            raise
        except Exception as error:
            first = error
            chunks, again = guard.fault(error)
            for chunk in chunks:
                yield chunk
            if again:
                raise
        except BaseException as error:
            first = error
            guard.hang_up(error)
            raise
        else:
            chunks, early = guard.end()
            for chunk in chunks:
                yield chunk
            if early is not None:
                first = early
                raise early
    finally:
        for one in _distinct(held):
            try:
                await _closed(one)
            except BaseException as second:
                if guard.closing_failed(second, first):
                    raise
        del first  # its traceback holds this frame


async def _closed(source: object) -> None:
    close = getattr(source, "aclose", None) or getattr(source, "close", None)
    if close is not None:
        waiting = close()
        if hasattr(waiting, "__await__"):
            await waiting


def _drive_sync(guard: Guard, source: Iterable[Any]) -> Generator[bytes, None, None]:
    first: BaseException | None = None
    held: list[Any] = [source]
    try:
        try:
            iterator = iter(source)
            held.insert(0, iterator)
            for item in iterator:
                chunk = guard.take(item)
                if chunk:
                    yield chunk
        except _EXITS as error:
            first = error
            raise
        except Exception as error:
            first = error
            chunks, again = guard.fault(error)
            yield from chunks
            if again:
                raise
        except BaseException as error:
            first = error
            guard.hang_up(error)
            raise
        else:
            chunks, early = guard.end()
            yield from chunks
            if early is not None:
                first = early
                raise early
    finally:
        for one in _distinct(held):
            try:
                close = getattr(one, "close", None)
                if close is not None:
                    close()
            except BaseException as second:
                if guard.closing_failed(second, first):
                    raise
        del first


def _distinct(held: list[Any]) -> list[Any]:
    return held[:1] if held[0] is held[-1] else held


class _AsyncBody(AsyncGenerator[bytes, None]):
    """The driver as an async generator whose source is closed even when nothing was ever read from it.

    A generator that never started does not run on `aclose()`, and a client can be gone by then.
    """

    def __init__(self, guard: Guard, source: AsyncIterable[Any]) -> None:
        self._unread: AsyncIterable[Any] | None = source
        self._generator = _drive(guard, source)

    def __anext__(self) -> Coroutine[Any, Any, bytes]:
        self._unread = None
        return self._generator.__anext__()

    def asend(self, value: None) -> Coroutine[Any, Any, bytes]:
        self._unread = None
        return self._generator.asend(value)

    async def athrow(self, *error: Any) -> bytes:
        await self._close_unread()
        return await self._generator.athrow(*error)

    async def aclose(self) -> None:
        await self._close_unread()
        await self._generator.aclose()

    async def _close_unread(self) -> None:
        source, self._unread = self._unread, None
        if source is not None:
            await _closed(source)


class _Body(Generator[bytes, None, None]):
    """As `_AsyncBody`, for plain code."""

    def __init__(self, guard: Guard, source: Iterable[Any]) -> None:
        self._unread: Iterable[Any] | None = source
        self._generator = _drive_sync(guard, source)

    def __next__(self) -> bytes:
        self._unread = None
        return next(self._generator)

    def send(self, value: None) -> bytes:
        self._unread = None
        return self._generator.send(value)

    def throw(self, *error: Any) -> bytes:
        self._close_unread()
        return self._generator.throw(*error)

    def close(self) -> None:
        self._close_unread()
        self._generator.close()

    def _close_unread(self) -> None:
        source, self._unread = self._unread, None
        close = getattr(source, "close", None)
        if close is not None:
            close()


class _Lifted:
    """A plain iterable as an async one; closing it closes the iterable."""

    def __init__(self, source: Iterable[Any]) -> None:
        self._source = source

    async def __aiter__(self) -> AsyncGenerator[Any, None]:
        for item in self._source:
            yield item

    def close(self) -> None:
        close = getattr(self._source, "close", None)
        if close is not None:
            close()


def _iterable(source: Any, expected: str) -> Iterable[Any]:
    whole = isinstance(source, (str, bytes, bytearray, memoryview, Mapping))
    if isinstance(source, Iterable) and not whole:
        return source  # pyright: ignore[reportUnknownVariableType] - items of any kind are checked as they come
    fix = "Put a whole body into a list: [body]." if whole else "Call the generator function."
    raise TypeError(f"source: expected {expected} of bytes, str or events, got {show(source)}. {fix}")
