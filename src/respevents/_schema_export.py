"""Schemas in the forms that other tools take: one bundle, one file for each event, an OpenAPI 3.2 fragment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from respevents import schemas
from respevents._dialect import DONE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from respevents.schemas import Profile

__all__ = ["dump", "event_schema", "openapi", "reachable"]

_PREFIX: Final = "#/$defs/"
_COMPONENTS: Final = "#/components/schemas/"
_UNION: Final = "ResponseStreamEvent"
_MARKED: Final = frozenset({"open-responses"})
"""Dialects whose streams end in the frame `data: [DONE]`."""


def dump(value: Any) -> str:
    """The form in which schema files are written."""
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].removeprefix(_PREFIX)
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)


def reachable(defs: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The definitions that the named ones lead to, themselves included, in the order of the bundle."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(defs[name])
    return {name: one for name, one in defs.items() if name in found}


def event_schema(event_type: str, version: str = schemas.NEWEST, profile: Profile = "strict") -> dict[str, Any]:
    """One event as a schema document of its own, with the definitions it leads to. Raises ValueError when unknown."""
    schema = schemas.definition(event_type, version, profile)
    return {
        "$schema": schema["$schema"],
        "$id": f"{schemas.load(version, profile)['$id']}:{event_type}",
        "$ref": schema["$ref"],
        "$defs": reachable(schema["$defs"], schema["$ref"].removeprefix(_PREFIX)),
    }


def openapi(
    version: str = schemas.NEWEST, profile: Profile = "strict", event_type: str | None = None
) -> dict[str, Any]:
    """An OpenAPI 3.2 document that describes the stream: to be read as it is, or its components merged into yours.

    `text/event-stream` is a sequential media type there (OAS 3.2.0, "Special Considerations for Server-Sent Events"):
    `itemSchema` describes each frame as an object of the fields `event`, `data`, `id` and `retry`. `data` is a
    string; that it holds JSON, and which, is said by `contentMediaType` and `contentSchema`. The parsed event is
    `ResponseStreamEvent`, for a WebSocket too. With an event type, of that event alone. ValueError when unknown.
    """
    bundle, manifest = schemas.load(version, profile), schemas.manifest(version)
    events = {event["type"]: event["definition"] for event in manifest["events"]}
    extensions = [] if event_type is not None else manifest.get("extensions", [])
    if event_type is not None:
        schemas.definition(event_type, version, profile)
        events = {event_type: events[event_type]}
    names = [*events.values(), *extensions]
    union: dict[str, Any] = {
        "anyOf": [{"$ref": _COMPONENTS + name} for name in names],
        "discriminator": {
            "propertyName": "type",
            "mapping": {kind: _COMPONENTS + name for kind, name in events.items()},
            **({"defaultMapping": _COMPONENTS + extensions[0]} if extensions else {}),
        },
    }
    marked = profile == "wire" or manifest["dialect"] in _MARKED
    components = {
        "responses": {
            "ResponseStream": {
                "description": "The events of one response, in order. The last one says how it ended.",
                "content": {
                    "text/event-stream": {"itemSchema": {"$ref": f"{_COMPONENTS}ServerSentEvent"}},
                },
            }
        },
        "schemas": {
            "ServerSentEvent": _frame(bundle["$defs"], names, profile, marked=marked),
            _UNION: union,
            **_moved(reachable(bundle["$defs"], *names)),
        },
    }
    return {
        "openapi": "3.2.0",
        "info": {
            "title": "The event stream of /v1/responses",
            "version": f"{version}:{profile}",
            "license": {"name": manifest["source"]["license"], "identifier": manifest["source"]["license"]},
        },
        "jsonSchemaDialect": bundle["$schema"],
        "paths": {
            "/v1/responses": {
                "post": {
                    "operationId": "createResponse",
                    "summary": "Create a response, streamed",
                    "responses": {"200": {"$ref": "#/components/responses/ResponseStream"}},
                }
            }
        },
        "components": components,
    }


def _frame(defs: Mapping[str, Any], names: list[str], profile: Profile, *, marked: bool) -> dict[str, Any]:
    """What one frame may be. To emit: the name of an event and its data. To accept: data with any name, or none."""
    if profile == "strict":
        branches = [
            {"properties": {"event": defs[name]["properties"]["type"], "data": _json(name)}, "required": ["event"]}
            for name in names
        ]
    else:
        branches = [{"properties": {"data": _json(_UNION)}}]
    if marked:
        branches.append({"properties": {"data": {"const": DONE.decode()}}})
    fields: dict[str, Any] = {"event": {"type": "string"}, "data": {"type": "string"}}
    if profile == "wire":  # OpenAI's servers write neither
        fields |= {"id": {"type": "string"}, "retry": {"type": "integer", "minimum": 0}}
    return {"type": "object", "properties": fields, "required": ["data"], "anyOf": branches}


def _json(name: str) -> dict[str, Any]:
    return {"contentMediaType": "application/json", "contentSchema": {"$ref": _COMPONENTS + name}}


def _moved(schema: Any) -> Any:
    """The schema with its references pointing into an OpenAPI document."""
    if isinstance(schema, dict):
        return {
            key: _COMPONENTS + value.removeprefix(_PREFIX) if key == "$ref" else _moved(value)
            for key, value in schema.items()
        }
    if isinstance(schema, list):
        return [_moved(value) for value in schema]
    return schema
