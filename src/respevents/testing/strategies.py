"""hypothesis strategies for events, items, whole streams, captures of them, failures, engines' errors and chunkings.

Derived from the schema set, the lifecycle table, the failure catalogue and the rules of the classifier: a new event,
row, code or rule is drawn without a change here. Events and items are plain mappings, streams are bytes.
"""

from __future__ import annotations

import gzip
import importlib.util
from typing import TYPE_CHECKING, Any, NamedTuple

from respevents._extras import load

if not TYPE_CHECKING:
    load("hypothesis", needed_by=__name__)

from hypothesis import strategies as st

from respevents import schemas
from respevents._dialect import DONE_FRAME, checked_dialect
from respevents.testing import _bodies, _recordings, _scenes
from respevents.testing._engine_errors import ENGINES, EngineError, engine_error
from respevents.testing._walker import walker
from respevents.wire import decode_json

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from respevents._dialect import Dialect
    from respevents.failures import Failure

__all__ = [
    "EngineError",
    "Recorded",
    "captures",
    "chunkings",
    "engine_errors",
    "event_lists",
    "events",
    "failures",
    "frame_lists",
    "items",
    "requests",
    "streams",
]


def events(
    type: str | None = None,  # noqa: A002 - the wire's own word
    *,
    version: str = schemas.NEWEST,
    profile: schemas.Profile = "strict",
) -> SearchStrategy[dict[str, Any]]:
    """Events as plain mappings: of one `type`, or of every type of the set. ValueError for an unknown type."""
    known = {event["type"]: event["definition"] for event in schemas.manifest(version)["events"]}
    if type is None:
        return st.sampled_from(sorted(known)).flatmap(lambda kind: walker(version, profile).definition(known[kind]))
    if type not in known:
        message = f"{version} has no event {type!r}"
        raise ValueError(message)
    return walker(version, profile).definition(known[type])


def items(*, version: str = schemas.NEWEST, profile: schemas.Profile = "strict") -> SearchStrategy[dict[str, Any]]:
    """Output items as plain mappings, of every type of the set."""
    made = walker(version, profile)
    branches = made.bundle["$defs"]["Response"]["properties"]["output"]["items"]["anyOf"]
    return st.one_of([made.value(branch, 0) for branch in branches if "$ref" in branch])


def streams(
    *, ending: str | None = None, item: str | None = None, dialect: Dialect = "openai"
) -> SearchStrategy[bytes]:
    """The bytes of whole legal streams, in any mix of items and parts: plain, overlapping, background, continued.

    `ending`: the type of the terminal event (`response.completed`, `response.incomplete`, `response.failed`); `item`:
    the type of the output items (`message`, `function_call`, ...); any by default. A continued stream starts in the
    middle, as `GET /responses/{id}?starting_after=N` does. `dialect`: `open-responses` has events and items named
    `acme:thing` besides its own. Raises ValueError for what does not exist.
    """
    items = _bodies.kinds_of(checked_dialect(dialect))
    for name, value, known in (("ending", ending, _scenes.ENDINGS), ("item", item, items)):
        if value is not None and value not in known:
            message = f"streams({name}=...): expected one of {', '.join(known)}, got {value!r}"
            raise ValueError(message)
    return _scenes.scene(ending=ending, item=item, dialect=dialect)


def frame_lists(
    *, ending: str | None = None, item: str | None = None, dialect: Dialect = "openai"
) -> SearchStrategy[list[bytes]]:
    """The frames of `streams`, each with its blank line."""
    return streams(ending=ending, item=item, dialect=dialect).map(_scenes.frames)


def event_lists(
    *, ending: str | None = None, item: str | None = None, dialect: Dialect = "openai"
) -> SearchStrategy[list[dict[str, Any]]]:
    """The events of `streams` as plain mappings."""
    found = frame_lists(ending=ending, item=item, dialect=dialect)
    return found.map(lambda frames: [decode_json(_data(frame)) for frame in frames if frame != DONE_FRAME])


def failures() -> SearchStrategy[Failure]:
    """Failures of every cause that is told to a client, with every code of the catalogue."""
    return _scenes.failure()


def engine_errors(engine: str | None = None) -> SearchStrategy[EngineError]:
    """What `classify` is given: exceptions, texts, HTTP answers, events and finish reasons, with the cause to expect.

    Made from the rules of the classifier, and so proof that an integration hands an error on whole, not that the rules
    know every error. `engine`: the name of a rules file (`vllm`, `tensorrt_llm`, ...); any by default, `None` included
    for what needs no engine. Raises ValueError for one that has none.
    """
    if engine is not None and engine not in ENGINES:
        message = f"engine_errors(engine=...): expected one of {', '.join(ENGINES)}, got {engine!r}"
        raise ValueError(message)
    return engine_error(engine)


class Recorded(NamedTuple):
    """A capture file, and what `read_captures(data)` has to give for it.

    `name` says who wrote it ("curl -v, progress"), `format` is a key of `captures.FORMATS`, `framing` that of each
    `Capture`, `streams` their bytes: the event stream, or one event a line where the format keeps no framing.
    """

    name: str
    data: bytes
    format: str
    framing: str
    streams: tuple[bytes, ...]


def captures(format: str | None = None) -> SearchStrategy[Recorded]:  # noqa: A002 - the field's own name
    """Capture files in every format that `respevents.captures` reads, some packed with gzip, with one or two streams.

    Cassettes in YAML come where PyYAML is installed (extra `validate`). ValueError for an unknown `format`.
    """
    writers = {**_recordings.SSE, **_recordings.JSON_LINES}
    kinds = sorted({kind for kind, _ in writers.values()})
    if format is not None and format not in kinds:
        message = f"captures(format=...): expected one of {', '.join(kinds)}, got {format!r}"
        raise ValueError(message)
    yaml = importlib.util.find_spec("yaml") is not None
    names = [
        name
        for name, (kind, _) in writers.items()
        if (format is None or kind == format) and (yaml or not name.startswith("vcr yaml"))
    ]
    return _recorded(names)


@st.composite
def _recorded(draw: Any, names: list[str]) -> Recorded:
    name = draw(st.sampled_from(names))
    whole = name in _recordings.SSE
    kind, write = _recordings.SSE[name] if whole else _recordings.JSON_LINES[name]
    # Two of them are told apart where a stream begins, which one that is continued does not.
    bodies = draw(st.lists(streams(), min_size=1, max_size=2))
    if any(not body.startswith(b"event: response.created\n") for body in bodies[1:]):
        bodies = bodies[:1]
    data = write(b"".join(bodies))
    if draw(st.integers(0, 3)) == 3:
        data = gzip.compress(data, mtime=0)
    given = [body if whole else _recordings.lines(body) for body in bodies]
    return Recorded(name, data, kind, "sse" if whole else "json-lines", tuple(given))


def requests() -> SearchStrategy[dict[str, Any]]:
    """Bodies of requests as plain mappings: what a server echoes, with values that it may echo."""
    return _scenes.request()


@st.composite
def chunkings(draw: Any, data: bytes) -> list[bytes]:
    """`data` cut into pieces, as a network may: whole, byte by byte, or anywhere (inside characters too)."""
    how = draw(st.sampled_from(["whole", "bytes", "anywhere"]))
    if how == "whole" or len(data) < 2:
        return [data]
    if how == "bytes":
        return [data[at : at + 1] for at in range(len(data))]
    cuts = sorted(draw(st.sets(st.integers(1, len(data) - 1), max_size=12)))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def _data(frame: bytes) -> bytes:
    """The JSON of a frame of the builder's."""
    return frame[frame.index(b"\ndata: ") + 7 : -2]
