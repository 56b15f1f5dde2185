"""Scenarios: answers of a scripted server, good and broken, by name.

`SCENARIOS` holds them; `scenario(name)` finds one. A name may carry settings, `text@gap=0.2,chunk=7`, and several names
joined with `+` answer one request after another, the last one for good: `fail-rate_limit_exceeded+text`. What a server
can send wrong is read from where it stands: a failure scenario for each code of `FailureCode`, an HTTP answer for each
cause, an ending for each shape and tail of `Policy`, a fault for each mutation.
"""

from __future__ import annotations

import difflib
import functools
import json
import math
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from respevents._compare import frames_of
from respevents._errors import LocalProtocolError, ProtocolError, show
from respevents.failures import (
    CATALOGUE,
    Cause,
    Failure,
    FailureCode,
    Policy,
    error_envelope,
)
from respevents.failures import ErrorShape as _ErrorShape
from respevents.failures import Tail as _Tail
from respevents.stream import ResponseStream
from respevents.testing._stories import STORIES, USAGE, WORDS, answers_a_call
from respevents.testing.mutations import MUTATIONS
from respevents.wire import FrameDecoder, decode_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from respevents._dialect import Dialect
    from respevents.captures import Capture
    from respevents.testing._stories import Story
    from respevents.testing.mutations import Mutation

    Play = Callable[[Mapping[str, Any], int], "Script"]

__all__ = ["SCENARIOS", "Scenario", "Script", "replay", "scenario"]

End = Literal["clean", "cut", "reset", "stall"]

SSE: Final = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
JSON: Final = {"content-type": "application/json"}


class Script(NamedTuple):
    """One answer. `chunks` are what is sent, each as one chunk; a number among them is a pause in seconds.

    `end`: `clean`, `cut` (the body breaks off), `reset` (so does the connection, with RST), `stall` (nothing more comes
    until the client leaves). `failure` is what a request without `stream` is answered with.
    """

    chunks: Iterable[bytes | float]
    end: End = "clean"
    status: int = 200
    headers: Mapping[str, str] = SSE
    failure: Failure | None = None


class Scenario(NamedTuple):
    """`play(request, number)` gives the script for the request with this number, counted from 1."""

    name: str
    help: str
    group: str
    play: Play


SCENARIOS: Final[dict[str, Scenario]] = {}
"""Name -> scenario."""


def _add(group: str, name: str, text: str, play: Play) -> None:
    assert name not in SCENARIOS, name
    SCENARIOS[name] = Scenario(name, text, group, play)


# ---- how a stream is made: ids and times come from the number of the request, so that a script is the same every time

_CREATED: Final = 1767225600


def _stream(request: Mapping[str, Any], number: int, policy: Policy | None = None) -> ResponseStream:
    ids = iter(range(1, 1_000_000))
    model = request.get("model")
    return ResponseStream(
        model=model if isinstance(model, str) and model else "scripted",
        request=request,
        policy=policy,
        created_at=_CREATED + number,
        clock=lambda: _CREATED + number + 1,
        id_factory=lambda prefix: f"{prefix}_{number:08x}{next(ids):024x}",
    )


def _told(story: Story, request: Mapping[str, Any], number: int, policy: Policy | None = None) -> Iterator[bytes]:
    stream = _stream(request, number, policy)
    yield from story(stream, request)
    if stream.state in {"created", "queued", "in_progress"}:
        yield stream.complete(USAGE)


def _good(story: Story, policy: Policy | None = None) -> Play:
    return lambda request, number: Script(_told(story, request, number, policy))


for _name, _one in STORIES.items():
    _add("streams that go well", _name, (_one.__doc__ or "").strip(), _good(_one))
_add(
    "streams that go well",
    "done-marker",
    "The message of `text`, and `data: [DONE]` after the terminal event.",
    lambda request, number: Script([*_told(STORIES["text"], request, number), b"data: [DONE]\n\n"]),
)


# ---- failures

_EXPOSED: Final = Policy(expose="message")
"""The text of each failure is seen by the client: it is ours."""

_CAUSES: Final = {facts.code: cause for cause, facts in reversed(list(CATALOGUE.items())) if facts.code is not None}


def _failure(cause: Cause, code: str | None = None) -> Failure:
    if cause is Cause.CONTEXT_LENGTH_EXCEEDED:
        return Failure(
            cause=cause,
            message="Your input exceeds the context window of this model: 9001 tokens, the window has 8192.",
            prompt_tokens=9001,
            context_window=8192,
            param="input",
        )
    words = (code or cause.value).replace("_", " ")
    delay = 1.5 if cause is Cause.RATE_LIMITED else None
    return Failure(cause=cause, code=code, message=f"The script says: {words}.", retry_after=delay)


def _opening(stream: ResponseStream, *, text: bool) -> list[bytes]:
    chunks = [stream.start()]
    if text:
        message = stream.message()
        chunks += [message.text(word) for word in WORDS[:3]]
    return chunks


def _failing(failure: Failure, *, after_text: bool = False, policy: Policy = _EXPOSED, end: End = "clean") -> Play:
    def play(request: Mapping[str, Any], number: int) -> Script:
        stream = _stream(request, number, policy)
        return Script([*_opening(stream, text=after_text), stream.fail(failure)], end, failure=failure)

    return play


_TOO_LONG: Final = _failure(Cause.CONTEXT_LENGTH_EXCEEDED)
_add("failures", "over-length", "An over-long prompt: four frames, and a clean end.", _failing(_TOO_LONG))
_add(
    "failures",
    "rate-limit-delay",
    "The rate limit, with `try again in 1.5s` in the message.",
    _failing(_failure(Cause.RATE_LIMITED)),
)
for _code in FailureCode:
    _reason = _failure(_CAUSES.get(_code.value, Cause.INTERNAL_ERROR), _code.value)
    _add("failures", f"fail-{_code.value}", f"`{_code.value}` before any output.", _failing(_reason))
    _add(
        "failures",
        f"fail-{_code.value}-after-text",
        f"`{_code.value}` in the middle of a message.",
        _failing(_reason, after_text=True),
    )


def _envelope(failure: Failure, headers: Mapping[str, str] | None = None) -> Play:
    status, body = error_envelope(failure, _EXPOSED)
    raw = json.dumps(body).encode()
    return lambda _request, _number: Script([raw], status=status, headers={**JSON, **(headers or {})}, failure=failure)


for _cause, _facts in CATALOGUE.items():
    if _facts.code is not None:
        _reason = _failure(_cause)
        _add(
            "HTTP errors",
            f"http-{_cause.value}",
            f"HTTP {_reason.http_status} with `{_reason.code}` instead of a stream.",
            _envelope(_reason),
        )
_add(
    "HTTP errors",
    "http-retry-after",
    "HTTP 429 with `Retry-After: 1`.",
    _envelope(_failure(Cause.RATE_LIMITED), {"retry-after": "1"}),
)


# ---- endings of one failure: each shape of the error event, each tail

for _tail in typing.get_args(_Tail):
    for _shape in typing.get_args(_ErrorShape) if "error" in _tail else ("both",):
        _policy = Policy(error_shape=_shape, tail=_tail)
        _words = [f"{_shape}-error" if word == "error" else word for word in _tail.split(",")]
        _add(
            "endings",
            "ending-" + "-".join(_words),
            f"An over-long prompt that ends in {' and '.join(_words).replace('-', ' ')}.",
            _failing(_TOO_LONG, policy=_policy),
        )


def _frames(chunks: Iterable[bytes | float]) -> list[bytes]:
    decoder = FrameDecoder()
    body = b"".join(chunk for chunk in chunks if isinstance(chunk, bytes))
    return [frame.raw for frame in (*decoder.feed(body), *decoder.close())]


def _cut(play: Play, end: End, keep: int | None = None) -> Play:
    """The same with its first `keep` frames (counted from the end where negative) and another end."""

    def played(request: Mapping[str, Any], number: int) -> Script:
        script = play(request, number)
        return script._replace(chunks=_frames(script.chunks)[:keep], end=end)

    return played


for _shape in typing.get_args(_ErrorShape):
    _add(
        "endings",
        f"ending-{_shape}-error-only",
        f"An over-long prompt that ends in a {_shape} error event, without response.failed.",
        _cut(_failing(_TOO_LONG, policy=Policy(error_shape=_shape)), "clean", -1),
    )


# ---- bodies that break off

_STORY: Final = SCENARIOS["text"].play
_HALF: Final = 7
"""Frames of `text` that bring some of its words and not all."""


for _end, _what in (("cut", "breaks off"), ("reset", "is reset"), ("stall", "says nothing more")):
    _kind = typing.cast("End", _end)
    _add("bodies that break", _end, f"A body that {_what} in the middle of a message.", _cut(_STORY, _kind, _HALF))
    _add("bodies that break", f"{_end}-at-once", f"A body that {_what} before its first frame.", _cut(_STORY, _kind, 0))
    _add(
        "bodies that break",
        f"{_end}-after-failed",
        f"An over-long prompt whose body {_what} after response.failed.",
        _cut(_failing(_TOO_LONG), _kind),
    )
    _add(
        "bodies that break",
        f"{_end}-after-completed",
        f"A message whose body {_what} after response.completed.",
        _cut(_STORY, _kind),
    )
_add("bodies that break", "no-terminal", "Half a message, and a clean end.", _cut(_STORY, "clean", _HALF))
_add(
    "bodies that break",
    "no-terminal-after-item",
    "A whole message without response.completed, and a clean end.",
    _cut(_STORY, "clean", -1),
)
_add("bodies that break", "empty", "HTTP 200 and no frame.", lambda _request, _number: Script([]))
_add(
    "bodies that break",
    "json-instead",
    "HTTP 200 with an error envelope instead of a stream.",
    lambda request, number: _envelope(_TOO_LONG)(request, number)._replace(status=200),
)


def _half_frame(request: Mapping[str, Any], number: int) -> Script:
    frames = _frames(_STORY(request, number).chunks)
    return Script([*frames[:_HALF], frames[_HALF][:40]], "cut")


_add("bodies that break", "cut-in-a-frame", "A body that breaks off in the middle of a frame.", _half_frame)


# ---- every fault that the validator knows

_BASES: Final = ("text", "tool-call", "tool-calls", "over-length", "incomplete-max-output-tokens")
"""What is broken: the first of these, then of all streams, that a mutation fits."""


def _sound(dialect: Dialect | None) -> Iterator[Play]:
    """The streams to break, in a dialect."""
    for name in dict.fromkeys((*_BASES, *STORIES)):
        if dialect is None:
            yield SCENARIOS[name].play
        elif name in STORIES:
            yield _good(STORIES[name], _EXPOSED.replace(dialect=dialect))
        else:
            yield _failing(_TOO_LONG, after_text=True, policy=_EXPOSED.replace(dialect=dialect))


def _broken(mutation: Mutation, request: Mapping[str, Any], number: int) -> Script:
    dialect = mutation.options.get("dialect")
    for play in _sound(dialect):
        script = play(request, number)
        try:
            frames = _frames(script.chunks)
        except LocalProtocolError:
            if dialect is None:
                raise
            continue  # a story of what this dialect does not have
        found = mutation.apply(frames)
        if found is not None:
            return script._replace(chunks=found.frames)
    if answers_a_call(request):
        return _STORY(request, number)  # the broken call is behind us
    raise LocalProtocolError(f"no stream here has what the fault {mutation.name} breaks")


for _mutation in MUTATIONS.values():
    _add(
        "faults",
        f"fault-{_mutation.name}",
        f"A stream with the fault {_mutation.rule} ({_mutation.name.replace('-', ' ')}).",
        functools.partial(_broken, _mutation),
    )


# ---- finding one

_SETTINGS: Final = ("gap", "chunk", "pace")


def scenario(spec: str, known: Mapping[str, Scenario] = SCENARIOS, *, gap: float = 0.0) -> Scenario:
    """The scenario of a name, with its settings: `NAME[@gap=SECONDS][,chunk=BYTES][,pace=FACTOR|recorded|fast]`.

    `gap` waits between two chunks, `chunk` cuts the body into pieces of so many bytes, `pace` is for what was recorded:
    its own pace, a factor of it, or none. Raises LocalProtocolError for a name or a setting that does not exist.
    """
    name, _, settings = spec.partition("@")
    found = known.get(name)
    if found is None:
        near = difflib.get_close_matches(name, known, n=4, cutoff=0.5)
        raise LocalProtocolError(
            "No such scenario",
            got=show(name),
            fix="See respevents serve --list." + (f" Close to it: {', '.join(near)}." if near else ""),
        )
    values: dict[str, str] = {}
    for setting in filter(None, settings.split(",")):
        key, _, value = setting.partition("=")
        values[key] = value
    wrong = [key for key in values if key not in _SETTINGS]
    if wrong:
        raise LocalProtocolError(f"{name} has no setting {show(wrong[0])}", fix=f"Use {', '.join(_SETTINGS)}.")
    gap = _positive("gap", values["gap"]) if "gap" in values else gap
    size = int(_positive("chunk", values["chunk"])) if "chunk" in values else 0
    factor = {"recorded": 1.0, "fast": 0.0}.get(values.get("pace", "recorded"))
    if factor is None:
        factor = _positive("pace", values["pace"])
    if not gap and not size and factor == 1:
        return found

    def play(request: Mapping[str, Any], number: int) -> Script:
        script = found.play(request, number)
        return script._replace(chunks=_paced(script.chunks, gap, size, factor))

    return found._replace(play=play)


def _positive(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if 0 <= value < math.inf:
        return value
    raise LocalProtocolError(f"{name} takes a number", got=show(text))


def _paced(chunks: Iterable[bytes | float], gap: float, size: int, factor: float) -> Iterator[bytes | float]:
    first = True
    for chunk in chunks:
        if not isinstance(chunk, bytes):
            if chunk * factor > 0:
                yield chunk * factor
            continue
        for at in range(0, len(chunk), size or max(len(chunk), 1)):
            if gap and not first:
                yield gap
            first = False
            yield chunk[at : at + size] if size else chunk


# ---- replay of what was captured


def replay(path: Path | str) -> list[Scenario]:
    """A scenario for each stream in a capture, named `replay-<file>` and, from the second on, `replay-<file>-2`.

    Status, headers and bytes are the capture's. The pace is what `respevents record` kept beside it, if it did, and
    how the body ended too. Raises what `read_captures` raises.
    """
    from respevents.captures import read_captures

    path = Path(path)
    beside = _beside(path)
    made: list[Scenario] = []
    for number, capture in enumerate(read_captures(path), start=1):
        body = b"".join(_as_sse(capture) if capture.framing == "json-lines" else capture.chunks())
        name = f"replay-{path.name.partition('.')[0]}" + (f"-{number}" if number > 1 else "")
        script = Script(
            _pieces(body, beside.get("pace") if number == 1 else None),
            "cut" if str(beside.get("ended", "")).startswith("cut") else "clean",
            status=capture.status or 200,
            headers={**SSE, **_kept(capture.headers)},
        )
        text = f"What {path.name} holds: {len(body)} bytes."
        made.append(Scenario(name, text, "replays", lambda _request, _number, script=script: script))  # type: ignore[misc]
    return made


def _beside(path: Path) -> dict[str, Any]:
    """What `respevents record` wrote beside a stream."""
    if path.suffix != ".sse":
        return {}
    try:
        found = json.loads(path.with_suffix(".json").read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    """What is sent again: not what belonged to the connection or to the packing."""
    gone = {"content-length", "transfer-encoding", "connection", "keep-alive", "content-encoding", "set-cookie", "date"}
    return {name: value for name, value in headers.items() if name not in gone and value.isascii()}


def _as_sse(capture: Capture) -> Iterator[bytes]:
    """JSON lines as the frames they were; a line without a type goes out without an event name."""
    for frame in frames_of(capture):
        line = frame.data.strip()
        if not line:
            continue
        try:
            event = decode_json(line)
        except ProtocolError:
            event = None
        kind = event.get("type") if isinstance(event, dict) else None
        name = b"event: %s\n" % kind.encode() if isinstance(kind, str) and kind.isprintable() else b""
        yield name + b"data: %s\n\n" % line


def _pieces(body: bytes, pace: Any) -> list[bytes | float]:
    chunks: list[bytes | float] = []
    at, before = 0, 0.0
    for entry in pace if isinstance(pace, list) else []:
        if not (isinstance(entry, list) and len(entry) == 2 and all(isinstance(one, (int, float)) for one in entry)):
            break
        seconds, size = entry
        chunks += [max(seconds - before, 0.0), body[at : at + int(size)]]
        at, before = at + int(size), seconds
    rest = body[at:]
    return [*chunks, *(_frames([rest]) if rest else [])]
