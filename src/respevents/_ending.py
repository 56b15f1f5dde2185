"""The guard without the waiting: what to send for an item of the source, for a fault, for the end. Sans-IO.

`guard` drives it for async and for plain sources. Nothing here raises once a failure is being told: what a client,
a request or an exception put into a text is made safe, and what cannot be written is left out.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from respevents._dialect import DONE_FRAME
from respevents._errors import LocalProtocolError, show
from respevents._snapshot import ending_events, response_snapshot
from respevents._watch import Watch
from respevents.failures import Cause, Failure, Policy, RequestRejected, policy_of, safe_text
from respevents.wire import encode_frame, to_wire

if TYPE_CHECKING:
    from typing import TypeAlias

    from respevents._dialect import Dialect

__all__ = ["Classify", "Guard", "OnFailure", "told_failure"]

Classify: TypeAlias = "Callable[[Exception], Failure]"
OnFailure: TypeAlias = "Callable[[Failure], object]"

_COROUTINE: Final = 0x80
"""`inspect.CO_COROUTINE`, without importing inspect."""

_IDENTITY: Final = ("id", "model", "created_at")
"""What a response is known by: kept as announced, unless it was announced as null."""


class Guard:
    """All of the guard but the waiting: what to send for an item, for a fault, for the end."""

    def __init__(
        self,
        model: str,
        response_id: str | None,
        created_at: int | None,
        request: Mapping[str, Any] | None,
        classify: Classify | Failure | None,
        policy: Policy | None,
        on_failure: OnFailure | None,
        dialect: Dialect | None = None,
    ) -> None:
        _expect("model", model, str, "the name of the model")
        if not model:
            raise ValueError("model: expected the name of the model, got an empty string")
        _expect("id", response_id, (str, type(None)), "a response id or None")
        _expect("created_at", created_at, (int, type(None)), "whole seconds since 1970, or None")
        _expect("request", request, (Mapping, type(None)), "the request as a mapping, or None")
        _expect("policy", policy, (Policy, type(None)), "a Policy or None")
        for name, function in (("classify", classify), ("on_failure", on_failure)):
            code = getattr(function, "__code__", None)
            if code is not None and code.co_flags & _COROUTINE:
                raise TypeError(f"{name}: expected a plain function, got a coroutine function. Start a task in it.")
        if not (classify is None or isinstance(classify, Failure) or callable(classify)):
            raise TypeError(
                f"classify: expected a function from exception to Failure, or a Failure, got {show(classify)}"
            )
        if not (on_failure is None or callable(on_failure)):
            raise TypeError(f"on_failure: expected a function that takes a Failure, got {show(on_failure)}")
        self._model = model
        self._id = response_id
        self._created_at = created_at
        self.request = request
        self._classify = classify
        self.policy = policy_of(policy, dialect)
        self._on_failure = on_failure or _log
        self.watch: Watch = Watch()
        self._early: Exception | None = None
        """Why the stream was ended before its source was done."""

    def _finished(self) -> bool:
        return self.watch.terminal is not None or self._early is not None

    def take(self, item: Any) -> bytes:
        """The bytes to forward for one item of the source. Raises what makes it unfit to send.

        In Open Responses `[DONE]` is the end: what came before it is whole by then, or is ended before it.
        """
        if self._early is not None:
            return b""
        if type(item) is bytes:
            chunk = item
        elif isinstance(item, str):
            chunk = item.encode()
        elif isinstance(item, (bytes, bytearray, memoryview)):
            chunk = bytes(cast("bytes", item))
        elif isinstance(item, (msgspec.Struct, Mapping)) or hasattr(item, "model_dump"):
            chunk = encode_frame(self._numbered(cast("Any", item)))
        else:
            raise TypeError(f"The source yielded {show(item)}: expected bytes, str or an event")
        if chunk:
            marked = self.watch.marked
            self.watch.feed(chunk)
            if self.watch.marked is not marked and not self._finished() and self.policy.dialect == "open-responses":
                return self._before_the_mark(chunk)
        return chunk

    def _before_the_mark(self, chunk: bytes) -> bytes:
        """The ending in front of a `[DONE]` that ends a chunk; where it does not, nothing can be put before it."""
        at = self.watch.frame_at
        if at < 0 or self.watch.held or chunk[at:].strip().count(b"\n"):
            return chunk
        error = _unended("[DONE]", self.watch.next_number)
        failure = Failure.from_exception(error)
        self.report(failure)
        frames = self.ending_frames(failure)
        self._early = error
        return b"".join([chunk[:at], *frames, chunk[at:]])

    def _numbered(self, event: Any) -> Any:
        number: object
        if isinstance(event, Mapping):
            number = cast("Mapping[str, Any]", event).get("sequence_number")
        else:
            number = getattr(event, "sequence_number", None)
        if number is not None and number is not msgspec.UNSET:
            return event  # pyright: ignore[reportUnknownVariableType]
        number = self.watch.next_number
        if isinstance(event, msgspec.Struct) and "sequence_number" in event.__struct_fields__:
            return msgspec.structs.replace(event, sequence_number=number)
        return {**to_wire(event), "sequence_number": number}

    def hang_up(self, error: BaseException | None) -> None:
        """Report that the client is gone. After the terminal event that is the normal end of a connection."""
        if self._finished():
            return
        if error is None:
            self.report(Failure(cause=Cause.CLIENT_DISCONNECT, message="The client closed the connection."))
        else:
            self.report(Failure.from_exception(error, Cause.CLIENT_DISCONNECT))

    def fault(self, error: Exception) -> tuple[list[bytes], bool]:
        """The chunks that end the stream after an exception, and whether the exception is raised again."""
        failure = self.classified(error)
        self.report(failure)
        ending = failure.ending_for(self.policy)
        if ending == "silent":
            return [], True
        return self._ending(failure), self._again(failure)

    def end(self) -> tuple[list[bytes], Exception | None]:
        """The chunks that end the stream when the source is done, and what is to be raised after them."""
        if self._finished():
            early = self._early
            return self.closing(), early if early and self._again(Failure.from_exception(early)) else None
        closing = self.watch.close()
        if self._finished():  # only the blank line was missing
            return [closing + self.mark()], None
        error = _unended("end of the stream", self.watch.next_number)
        failure = Failure.from_exception(error)
        self.report(failure)
        chunks = [closing] if closing else []
        return chunks + self._marked(self.ending_frames(failure)), error if self._again(failure) else None

    def _again(self, failure: Failure) -> bool:
        """Whether the policy wants the exception behind a failure raised again."""
        return failure.ending_for(self.policy) == "fault" and self.policy.reraise == "faults"

    def closing_failed(self, second: BaseException, first: BaseException | None) -> bool:
        """Whether what closing the source raised goes out: never over a first fault, unless it is a cancellation."""
        if not isinstance(second, Exception):
            return first is None or isinstance(first, Exception)
        if first is not None:
            _note(Failure.from_exception(second, details={"while": "closing the source"}))
            return False
        failure = self.classified(second)
        self.report(failure)
        return self._again(failure)

    def _ending(self, failure: Failure) -> list[bytes]:
        if self._finished():
            return self.closing()
        closing = self.watch.close()
        chunks = [closing] if closing else []
        return chunks + self._marked([] if self._finished() else self.ending_frames(failure))

    def mark(self) -> bytes:
        """`[DONE]`, where the dialect has it and it did not go out."""
        if self.policy.dialect != "open-responses" or self.watch.marked:
            return b""
        self.watch.marked = True
        return DONE_FRAME

    def closing(self) -> list[bytes]:
        """What a stream that has its terminal event still lacks, as the dialect has it."""
        if self.policy.dialect != "open-responses" or self.watch.marked:
            return []
        return [self.watch.close() + self.mark()]

    def _marked(self, frames: list[bytes]) -> list[bytes]:
        mark = self.mark()
        return [*frames, mark] if mark else frames

    def classified(self, error: Exception) -> Failure:
        """The failure an exception is, as the server classifies it."""
        failure: Failure | None = None
        details: dict[str, Any] = {}
        try:
            # By the type: an exception may override what `isinstance` asks it.
            answer: Any
            kind = type(error)
            if issubclass(kind, RequestRejected):
                answer = cast("RequestRejected", error).failure
            elif isinstance(self._classify, Failure):
                answer = self._classify
            else:
                answer = (self._classify or _default_classify())(error)
            if isinstance(answer, Failure):
                failure = answer
            else:
                details["classify"] = f"returned {show(answer)}"
        except Exception as second:  # noqa: BLE001 - a classifier's own fault must not hide the first
            details["classify"] = f"raised {show(second)}"
        if failure is None:
            return Failure.from_exception(error, details=details)
        if failure.exception is None:
            return msgspec.structs.replace(failure, exception=error)
        return failure

    def report(self, failure: Failure) -> None:
        """Tell the server of a failure. What its reporter raises is logged and changes nothing."""
        try:
            self._on_failure(failure)
        except Exception as second:  # noqa: BLE001 - the reporter's own fault must not hide the first
            _note(failure)
            _note(Failure.from_exception(second, details={"while": "reporting a failure"}))

    def ending_frames(self, failure: Failure) -> list[bytes]:
        """The frames that tell a failure, each by itself: after what was forwarded, or as a whole stream.

        Never raises: what cannot be written is left out: the items that were done, then what was announced.
        """
        if failure.ending_for(self.policy) == "silent":
            return []
        announced, items = self.watch.snapshot(), self.watch.items()
        for snapshot, output, request in (
            (announced, items, self.request),
            (announced, [], self.request),
            (_plain(announced), [], None),
        ):
            try:
                return self._frames(failure, snapshot, output, request)
            except Exception:  # noqa: BLE001, S112 - whatever a request or a snapshot holds; the failure is what counts
                continue
        return self._frames(failure, {}, [], None)

    def _frames(
        self,
        failure: Failure,
        announced: Mapping[str, Any],
        items: list[Any],
        request: Mapping[str, Any] | None,
    ) -> list[bytes]:
        known = {key: value for key, value in announced.items() if value is not None or key not in _IDENTITY}
        told = self.watch.error()
        events = ending_events(
            failure,
            self.policy,
            {**self.snapshot(request), **known},
            items if self.policy.failed_output == "done" else [],
            self.watch.next_number,
            started=self.watch.started,
            # A source that sent `error` itself left one event to send, and it has to say the same.
            told=self._repeated(told) if told else None,
        )
        return [encode_frame(event) for event in events]

    def snapshot(self, request: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The response as the server's own arguments describe it."""
        return response_snapshot(
            model=safe_text(self._model),
            id=None if self._id is None else safe_text(self._id),
            created_at=self._created_at,
            request=request,
        )

    def _repeated(self, error: Mapping[str, Any]) -> dict[str, Any]:
        code, message = error.get("code"), error.get("message")
        if not isinstance(code, str) or not code:
            code = told_failure(error).code_for(self.policy) or "server_error"
        text = message if isinstance(message, str) and message else self.watch.last_error() or ""
        return {"code": safe_text(code), "message": safe_text(text)}


def _unended(event: str, count: int) -> LocalProtocolError:
    return LocalProtocolError(
        "The source ended without a terminal event",
        event=event,
        state=f"{count} events forwarded",
        fix="End it with response.completed, response.incomplete or response.failed, or raise what went wrong.",
    )


def told_failure(error: Mapping[str, Any]) -> Failure:
    """The failure behind an `error` event that a source sent itself, whatever it holds."""
    from respevents.classifier import classify

    message = error.get("message")
    text = safe_text(message) if isinstance(message, str) else ""
    try:
        failure = classify({"type": "error", "error": dict(error)})
    except Exception:  # noqa: BLE001 - what a source wrote must not keep its failure from being told
        return Failure(cause=Cause.INTERNAL_ERROR, message=text)
    return failure


def _default_classify() -> Classify:
    """Imported with the first failure: the tables of rules are no part of a server's start."""
    from respevents.classifier import classify

    return classify


def _expect(name: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise TypeError(f"{name}: expected {expected}, got {show(value)}")


def _plain(announced: Mapping[str, Any]) -> dict[str, Any]:
    """Of an announced snapshot that cannot be written again, what a client knows the response by."""
    out: dict[str, Any] = {
        key: safe_text(announced[key]) for key in ("id", "model") if isinstance(announced.get(key), str)
    }
    if isinstance(announced.get("created_at"), int):
        out["created_at"] = announced["created_at"]
    return out


def _log(failure: Failure) -> None:
    """The reporter when there is none: a fault with its traceback, what the client caused as one line."""
    import logging
    import traceback

    logger = logging.getLogger("respevents")
    details = f" {show(failure.details)}" if failure.details else ""
    message = f"response failed, {failure.cause}: {safe_text(failure.message)}{details}"
    error = failure.exception
    if failure.ending != "fault":
        logger.info(message)
    elif error is None:
        logger.error(message)
    else:
        lines = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        if lines.isascii() or safe_text(lines, len(lines)) == lines:
            logger.error(message, exc_info=error)
        else:  # a handler that writes UTF-8 would lose the record over a lone surrogate
            logger.error("%s\n%s", message, safe_text(lines, len(lines)))


def _note(failure: Failure) -> None:
    """Log what cannot be reported otherwise. A filter or handler of the server's that raises changes nothing."""
    with contextlib.suppress(Exception):
        _log(failure)
