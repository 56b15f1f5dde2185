"""hypothesis strategies for events, derived from the schema set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from respevents import schemas
from respevents.testing._walker import walker

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["events", "items"]


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
