"""hypothesis strategies for events, items, whole streams, failures and chunkings.

Derived from the schema set, the lifecycle table and the failure catalogue: a new event, row or code is drawn without a
change here. Events and items are plain mappings, streams are bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from respevents._extras import load

if not TYPE_CHECKING:
    load("hypothesis", needed_by=__name__)

from hypothesis import strategies as st

from respevents import schemas
from respevents.testing import _bodies, _scenes
from respevents.testing._walker import walker
from respevents.wire import decode_json

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from respevents.failures import Failure

__all__ = [
    "chunkings",
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


def streams(*, ending: str | None = None, item: str | None = None) -> SearchStrategy[bytes]:
    """The bytes of whole legal streams, in any mix of items and parts: plain, overlapping, background, continued.

    `ending`: the type of the terminal event (`response.completed`, `response.incomplete`, `response.failed`); `item`:
    the type of the output items (`message`, `function_call`, ...); any by default. A continued stream starts in the
    middle, as `GET /responses/{id}?starting_after=N` does. Raises ValueError for what does not exist.
    """
    for name, value, known in (("ending", ending, _scenes.ENDINGS), ("item", item, _bodies.output_definitions())):
        if value is not None and value not in known:
            message = f"streams({name}=...): expected one of {', '.join(known)}, got {value!r}"
            raise ValueError(message)
    return _scenes.scene(ending=ending, item=item)


def frame_lists(*, ending: str | None = None, item: str | None = None) -> SearchStrategy[list[bytes]]:
    """The frames of `streams`, each with its blank line."""
    return streams(ending=ending, item=item).map(_scenes.frames)


def event_lists(*, ending: str | None = None, item: str | None = None) -> SearchStrategy[list[dict[str, Any]]]:
    """The events of `streams` as plain mappings."""
    return frame_lists(ending=ending, item=item).map(lambda frames: [decode_json(_data(frame)) for frame in frames])


def failures() -> SearchStrategy[Failure]:
    """Failures of every cause that is told to a client, with every code of the catalogue."""
    return _scenes.failure()


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
