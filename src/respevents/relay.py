"""`Relay`: the bytes of an upstream's stream on their way to a client, and the ending the upstream left out. Sans-IO.

What is fed comes back, the same bytes in the same chunks, while the relay watches how the stream stands. A stream
that has a terminal event gets nothing more from it. One that stops without, or breaks, is ended as `Policy` says;
repairs of what an upstream sends wrong are named, off unless asked for, and reported.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from respevents._dialect import DONE
from respevents._ending import Guard, told_failure
from respevents._errors import LocalProtocolError, RemoteProtocolError, show
from respevents._watch import ENDS, MAX_ITEMS, Watch
from respevents.failures import CATALOGUE, Cause, Failure, Policy, safe_text
from respevents.wire import DEFAULT_MAX_FRAME, Frame

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import TypeAlias

    from respevents._dialect import Dialect
    from respevents._ending import Classify, OnFailure
    from respevents._repairs import Repairer

__all__ = ["REPAIRS", "Notice", "Relay"]

REPAIRS: Final[Mapping[str, str]] = {
    "failure_code": "a general code of an upstream's failure becomes the one its text stands for",
    "sequence_number": "an event without a number gets the next one",
    "usage": "counters missing in a usage object are 0, a missing total is the sum",
    "fields": "missing canonical fields are filled in; none that is given changes",
    "truncated_completion": "a response.completed that the stream before it belies becomes response.failed",
    "single_terminal": "a second terminal event is left out",
}
"""What can be repaired, and how."""

MAX_NOTICES: Final = 100
"""Notices a relay keeps. There is one for each kind of thing noticed, so this is a bound and not a limit met."""


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something about a stream that its operator should know; the stream went on.

    `kind` is the name of a repair that was applied, or `second_terminal`, `items_dropped` or `unwatched`. Each kind is
    told once for a stream, with the `event` it was first seen at; `Relay.counts` has how often.
    """

    kind: str
    message: str
    event: str | None = None


OnNotice: TypeAlias = "Callable[[Notice], object]"


class _RelayWatch(Watch):
    """A watch that tells the relay what a guard has no use for."""

    __slots__ = ("_max_items", "_notice", "done", "lost")

    def __init__(self, max_frame: int, max_items: int, notice: Callable[[str, str, str | None], None]) -> None:
        super().__init__(max_frame)
        self._max_items = self._room = max_items
        self._notice = notice
        self.done = False  # `[DONE]` came before any terminal event
        self.lost = False  # items were dropped for their size

    def _unreadable(self, data: bytes) -> None:
        super()._unreadable(data)
        if data.strip() == DONE and self.terminal is None:
            self.done = True

    def _keep(self, kind: str, data: bytes) -> None:
        if self.terminal is not None and kind in ENDS:
            self._notice("second_terminal", f"The upstream sent {kind} after {self.terminal}", kind)
        if kind == "response.output_item.done" and not self.lost and len(data) > self._room:
            self.lost = True
            self._items.clear()
            limit = f"The items that are done take more than {self._max_items} bytes: a failed snapshot has none"
            self._notice("items_dropped", limit, kind)
        super()._keep(kind, data)


class Relay:
    """The state of one stream that is forwarded from an upstream to a client.

    `model`, `id`, `created_at` (whole seconds) and `request` stand in for what the upstream did not announce; give
    `model` as the client asked for it. `classify` says what an exception given to `fail` is (default: `classify`;
    what does not blame the request is `upstream_read_error`). `on_failure` gets each `Failure`, `on_notice` each
    `Notice`; without them they are logged. `repairs` are names of `REPAIRS`: with any, a frame is held until it is
    whole, and never otherwise. `dialect` as for `ResponseStream`: in Open Responses the stream also gets the `[DONE]`
    that is missing behind its terminal event.

    Kept in memory: one open frame of at most `max_frame` bytes, the last announced snapshot, and the items that are
    done, together at most `max_items` bytes; beyond that the failed snapshot has none.

    Not thread-safe; one relay for each stream. Raises TypeError or ValueError for a wrong argument.
    """

    def __init__(
        self,
        *,
        model: str = "unknown",
        id: str | None = None,  # noqa: A002 - the field's own name
        created_at: int | None = None,
        request: Mapping[str, Any] | None = None,
        classify: Classify | Failure | None = None,
        policy: Policy | None = None,
        dialect: Dialect | None = None,
        on_failure: OnFailure | None = None,
        on_notice: OnNotice | None = None,
        repairs: Collection[str] = (),
        engine: str | None = None,
        max_frame: int = DEFAULT_MAX_FRAME,
        max_items: int = MAX_ITEMS,
    ) -> None:
        if classify is None:
            classify = _Upstream(engine)
        self._guard = Guard(model, id, created_at, request, classify, policy, on_failure, dialect)
        self._on_notice = on_notice or _log_notice
        self._watch = self._guard.watch = _RelayWatch(max_frame, max_items, self._noticed)
        self._repairer: Repairer | None = None
        names = checked_repairs(repairs)
        if names:
            from respevents._repairs import Repairer

            self._repairer = Repairer(names, self._guard, self._noticed, engine, max_frame)
        self._closed = False  # by close() or fail()
        self._ended = False  # by what was fed
        self._stopped = False  # either, or nothing is watched any more
        self.failure: Failure | None = None
        """What the stream was ended with; None while it runs and after an upstream's own terminal event."""
        self.reraise = False
        """After `fail`: whether the policy wants the exception raised again once the bytes are out."""
        self.truncated_frame = False
        """After the end: whether the upstream's last frame was cut, and closed here."""
        self.notices: list[Notice] = []
        self.counts: dict[str, int] = {}
        """How often each kind of notice came up."""

    # ---- how the stream stands ------------------------------------------------------------------------------------

    @property
    def terminal(self) -> str | None:
        """The type of the terminal event the upstream sent; None before it."""
        return self._watch.terminal

    @property
    def ended(self) -> bool:
        """Whether the client has a whole stream: nothing the upstream may still send is needed."""
        return self._ended or self._closed or self._watch.terminal is not None

    @property
    def cut_off(self) -> bool:
        """Whether the relay ended the stream while the upstream went on: the rest of what it sends is dropped."""
        return self._ended

    @property
    def started(self) -> bool:
        """Whether any event but a keepalive went out."""
        return self._watch.started

    @property
    def last_sequence_number(self) -> int | None:
        """The highest number that went out (of events without numbers: their count less one); None before any."""
        return self._watch.next_number - 1 if self._watch.next_number else None

    @property
    def open_frame(self) -> bool:
        """Whether a frame went out in part."""
        return self._watch.held > 0

    @property
    def snapshot(self) -> dict[str, Any]:
        """The response as last announced; {} when none was."""
        return self._watch.snapshot()

    @property
    def response_id(self) -> str | None:
        """The announced id."""
        return _text(self.snapshot.get("id"))

    @property
    def model(self) -> str | None:
        """The announced model."""
        return _text(self.snapshot.get("model"))

    @property
    def created_at(self) -> int | float | None:
        """The announced time, in seconds."""
        value = self.snapshot.get("created_at")
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    @property
    def items_done(self) -> list[Any]:
        """The items that were done, in stream order; [] when they were too large to keep."""
        return self._watch.items()

    # ---- what goes out --------------------------------------------------------------------------------------------

    def feed(self, chunk: bytes | bytearray | memoryview) -> bytes:
        """The bytes to forward for bytes that came from the upstream: the same, unless a repair or an end changes it.

        A frame over `max_frame` ends the stream, and so does `[DONE]` before any terminal event (clients read no
        further): the ending goes out before it. What the upstream sends after such an end is dropped: see `ended`.
        Raises LocalProtocolError after `close()` or `fail()`.
        """
        if self._stopped:
            return self._late(chunk)
        if not isinstance(chunk, bytes):
            chunk = _bytes(chunk)
        watch = self._watch
        try:
            if self._repairer is not None:
                chunk = self._repairer.feed(chunk)
            watch.feed(chunk)
        except RemoteProtocolError as error:
            return self._over(error, chunk)
        if watch.done:
            return self._done(chunk)
        return chunk

    def close(self) -> bytes:
        """The upstream's body ended: the bytes that are still missing, b"" where none are. Closing twice gives none."""
        if self._closed or self._ended:
            self._closed = True
            return b""
        self._closed = self._stopped = True
        rest = self._held_back()
        if self._watch.terminal is not None:
            return rest + b"".join(self._guard.closing())
        closing, whole = self._cut()
        if whole:  # only the blank line was missing
            return rest + closing + self._guard.mark()
        return rest + closing + self._tell(self._missing()) + self._guard.mark()

    def fail(self, error: BaseException | Failure) -> bytes:
        """Reading from the upstream failed: the bytes that end the stream.

        b"" after a terminal event, and for a hang-up of the client (any `BaseException` that is no `Exception`), which
        is only reported. `reraise` says whether the error is to be raised again. After an end it is reported, no more.
        """
        late = self._closed or self._ended
        self._closed = self._stopped = True
        if isinstance(error, BaseException) and not isinstance(error, Exception):
            self.reraise = True
            if not isinstance(error, (KeyboardInterrupt, SystemExit)) and not late:
                self._guard.hang_up(error)
            return b""
        failure = self._guard.classified(error) if isinstance(error, Exception) else _failure(error)
        rest = b"" if late else self._held_back()
        if late or self._watch.terminal is not None:
            self._guard.report(failure)
            self.reraise = self._again(failure)
            return rest if late else rest + b"".join(self._guard.closing())
        closing, whole = self._cut()
        if whole:
            self._guard.report(failure)
            return rest + closing + self._guard.mark()
        ending = self._tell(failure)
        return rest + closing + ending + (self._guard.mark() if ending else b"")

    def hang_up(self, error: BaseException | None = None) -> None:
        """The client is gone: nothing goes out any more. Reported, unless the stream had its end."""
        late = self._closed or self._ended
        self._closed = self._stopped = True
        if not late:
            self._guard.hang_up(error)

    # ---- the ends -------------------------------------------------------------------------------------------------

    def _held_back(self) -> bytes:
        """What a repair held of a frame that never became whole."""
        if self._repairer is None:
            return b""
        rest = self._repairer.close()
        try:
            self._watch.feed(rest)
        except RemoteProtocolError:  # the repairer holds no more than the watch takes
            return b""
        return rest

    def _cut(self) -> tuple[bytes, bool]:
        """The bytes that close a half-sent frame, and whether that made it the terminal event."""
        held = self._watch.held > 0
        closing = self._watch.close()
        whole = self._watch.terminal is not None
        self.truncated_frame = held and not whole
        return closing, whole

    def _tell(self, failure: Failure) -> bytes:
        raw = self._watch.last_error()
        if raw is not None:  # what the client was sent already, and all there is to go by
            text = f"{failure.message} The upstream's last event was {raw}".strip()
            failure = msgspec.structs.replace(failure, message=safe_text(text))
        self.failure = failure
        self._guard.report(failure)
        self.reraise = self._again(failure)
        return b"".join(self._guard.ending_frames(failure))

    def _again(self, failure: Failure) -> bool:
        ending = failure.ending_for(self._guard.policy)
        return ending == "silent" or (ending == "fault" and self._guard.policy.reraise == "faults")

    def _missing(self) -> Failure:
        """What is wrong with a stream that stopped: what the upstream said itself, or that it stopped."""
        told = self._watch.error()
        if told:
            failure = told_failure(told)
            if failure.ending_for(self._guard.policy) != "silent":
                return failure
        where = f"after {self._watch.next_number} events" if self._watch.started else "before any event"
        cut = ", in the middle of a frame" if self.truncated_frame else ""
        text = f"The upstream ended the stream {where}{cut}, without a terminal event."
        return Failure(cause=Cause.UPSTREAM_TRUNCATED, message=text)

    def _done(self, chunk: bytes) -> bytes:
        """`[DONE]` without a terminal event. The ending goes before it if none of it went out and nothing follows."""
        watch = self._watch
        watch.done = False
        at = watch.frame_at
        if watch.terminal is not None or at < 0 or watch.held or chunk[at:].strip().count(b"\n"):
            return chunk
        self._ended = self._stopped = True
        return chunk[:at] + self._tell(self._missing()) + chunk[at:]

    def _over(self, error: RemoteProtocolError, chunk: bytes) -> bytes:
        """A frame that is too large: the frames before it go out, it does not, and the stream is ended."""
        watch = self._watch
        frames: tuple[Frame, ...] = error.frames
        good = b"".join(frame.raw for frame in frames)
        if frames:
            good = good[max(0, watch.fed - frames[0].offset) :]
            for frame in frames:
                watch.note(frame)
        if watch.terminal is not None:
            self._stopped = True
            self._noticed("unwatched", f"After {watch.terminal}: {error.what}; what follows passes unread", None)
            return chunk
        self._ended = self._stopped = True
        failure = Failure.from_exception(error, Cause.UPSTREAM_READ_ERROR)
        return good + watch.close() + self._tell(failure) + self._guard.mark()

    def _late(self, chunk: Any) -> bytes:
        if self._closed:
            raise LocalProtocolError(
                "The relay is closed", event="feed", state="closed", fix="Use a new Relay for each stream."
            )
        return b"" if self._ended else _bytes(chunk)

    def _noticed(self, kind: str, message: str, event: str | None) -> None:
        count = self.counts[kind] = self.counts.get(kind, 0) + 1
        if count > 1 or len(self.notices) >= MAX_NOTICES:
            return
        notice = Notice(kind=kind, message=message, event=event)
        self.notices.append(notice)
        try:
            self._on_notice(notice)
        except Exception:
            logging.getLogger("respevents").exception("on_notice failed for: %s", message)


class _Upstream:
    """What an exception is that came up while an upstream was read."""

    def __init__(self, engine: str | None) -> None:
        self._engine = engine

    def __call__(self, error: Exception) -> Failure:
        from respevents.classifier import classify

        failure = classify(error, engine=self._engine)
        if CATALOGUE[failure.cause].ending == "cleanly" and failure.cause is not Cause.UPSTREAM_TRUNCATED:
            return failure
        return Failure.from_exception(error, Cause.UPSTREAM_READ_ERROR)


def checked_repairs(names: Collection[str]) -> frozenset[str]:
    """The repairs asked for; `all` is every one. Raises TypeError or ValueError for what is no repair."""
    if isinstance(names, (str, bytes)):
        raise TypeError(f"repairs: expected a collection of names, got {show(names)}. Write [{names!r}].")
    chosen = frozenset(names)
    if "all" in chosen:
        return frozenset(REPAIRS)
    unknown = sorted(chosen - set(REPAIRS))
    if unknown:
        raise ValueError(f"repairs: expected names of {', '.join(REPAIRS)} or all, got {', '.join(map(show, unknown))}")
    return chosen


def _log_notice(notice: Notice) -> None:
    logging.getLogger("respevents").warning("%s: %s", notice.kind, notice.message)


def _bytes(chunk: Any) -> bytes:
    if isinstance(chunk, (bytes, bytearray, memoryview)):
        return bytes(chunk)
    raise TypeError(f"feed: expected bytes, got {show(chunk)}. Read the body as bytes: text readers change it.")


def _failure(error: object) -> Failure:
    if isinstance(error, Failure):
        return error
    raise TypeError(f"fail: expected an exception or a Failure, got {show(error)}")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
