"""Our classes as pydantic types: fields of models, FastAPI bodies and response models.

Every event and object class works as it is (`respevents._objects.Object` hands pydantic over to this module), so
`class Turn(BaseModel): last: ResponseCompletedEvent` needs no import from here. `AnyEvent` is the field that takes
every event, unknown types among them. (FastAPI takes a class that is no pydantic model for a query parameter: a body
is declared as one, `event: Annotated[AnyEvent, Body()]`.)

The structure comes from the schema set: what is read must be valid under the profile `wire`, and JSON Schemas are
of `wire` for what is read and of `strict` for what is written. What is written is `to_wire`, the values of the bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from respevents._extras import load

if not TYPE_CHECKING:
    load("pydantic", needed_by=__name__)

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from respevents import schemas
from respevents._generated.tables import EVENTS
from respevents._objects import Event, Object
from respevents._reading import from_mapping
from respevents.events import decode_event
from respevents.wire import to_wire

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic import GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

    from respevents._generated.events import ResponseStreamEvent

__all__ = ["AnyEvent", "core_schema_of", "json_schema_of"]

_UNKNOWN: dict[str, dict[str, Any]] = {
    "UnknownEvent": {
        "type": "object",
        "properties": {"type": {"type": "string", "not": {"enum": sorted(EVENTS)}}},
        "required": ["type"],
    },
    "UnknownItem": {"type": "object", "properties": {"type": {"type": "string"}}, "required": []},
    "UnknownObject": {"type": "object", "properties": {"type": {"type": "string"}}, "required": []},
}
"""The classes for what no schema names; the type of an unknown event is none that the set knows."""


def core_schema_of(cls: type[Object]) -> CoreSchema:
    """How pydantic reads and writes `cls`: an instance, or a mapping valid under `wire`, becomes an instance."""
    return _readable(cls, _structure("wire", cls.__name__), functools.partial(from_mapping, cls.__name__))


def json_schema_of(cls: type[Object], handler: GetJsonSchemaHandler) -> JsonSchemaValue:
    """The JSON Schema of `cls`: of `strict` where the model is written, of `wire` where it is read."""
    return _documented(handler, cls.__name__)


if TYPE_CHECKING:
    AnyEvent = ResponseStreamEvent
else:

    class AnyEvent:
        """Every event of the stream, told apart by `type`; one that no schema names becomes `UnknownEvent`."""

        @classmethod
        def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> CoreSchema:
            return _readable(Event, _structure("wire", *EVENTS.values(), "UnknownEvent"), decode_event)

        @classmethod
        def __get_pydantic_json_schema__(cls, _schema: object, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
            return _documented(handler, *EVENTS.values(), "UnknownEvent")


def _documented(handler: GetJsonSchemaHandler, *names: str) -> JsonSchemaValue:
    """The JSON Schema of what is written (`strict`) or read (`wire`)."""
    return handler(_structure("strict" if handler.mode == "serialization" else "wire", *names, tagged=False))


def _readable(
    cls: type[Object], structure: core_schema.DefinitionsSchema, build: Callable[[Any], Object]
) -> CoreSchema:
    """`structure` checks a mapping, `build` makes the object from it; an instance is taken as it is.

    The object is built from the mapping that came and not from what the check made of it, so that keys keep
    their order. What is written is the mapping of `to_wire`.
    """

    def read(value: Any, check: core_schema.ValidatorFunctionWrapHandler) -> Object:
        if isinstance(value, cls):
            return value
        check(value)
        return build(value)

    write = core_schema.plain_serializer_function_ser_schema(to_wire)
    checked = core_schema.no_info_wrap_validator_function(read, structure["schema"], serialization=write)
    return core_schema.definitions_schema(checked, structure["definitions"])


def _structure(profile: schemas.Profile, *names: str, tagged: bool = True) -> core_schema.DefinitionsSchema:
    """What the set says of the named definitions (one, or a union).

    `tagged` picks a union's member by its `type`, as reading should; JSON Schema has `anyOf`, since an object
    without `type` may fit two members.
    """
    made = _Translator(profile, tagged=tagged)
    branches = [{"$ref": _PREFIX + name} for name in names]
    schema = made.of({"anyOf": branches}) if len(branches) > 1 else made.whole(*names)
    return core_schema.definitions_schema(schema, made.definitions())


_PREFIX = "#/$defs/"


class _Translator:
    """The JSON Schemas of a profile as pydantic's core schemas, as far as the wanted ones reach.

    Knows the keywords that the schema sets use and no others; a keyword that comes new is a `KeyError` here, which
    the tests see for every class.
    """

    def __init__(self, profile: schemas.Profile, *, tagged: bool) -> None:
        self._profile = profile
        self._tagged = tagged
        self._defs: Mapping[str, dict[str, Any]] = {**schemas.load(profile=profile)["$defs"], **_UNKNOWN}
        self._made: dict[str, CoreSchema | None] = {}

    def definitions(self) -> list[CoreSchema]:
        return [made for made in self._made.values() if made is not None]

    def whole(self, name: str) -> CoreSchema:
        """A definition in place: pydantic writes an empty JSON Schema for a reference to one that holds itself."""
        return self._object(self._defs[name], None)

    def of(self, schema: Mapping[str, Any]) -> CoreSchema:
        if "$ref" in schema:
            return self._reference(schema["$ref"].removeprefix(_PREFIX))
        if "properties" in schema:
            return self._object(schema, None)
        if "anyOf" in schema:
            return self._union(schema["anyOf"])
        if "const" in schema:
            return core_schema.literal_schema([schema["const"]])
        if "enum" in schema:
            return core_schema.literal_schema(schema["enum"])
        if "type" not in schema:
            return core_schema.any_schema()
        return self._typed(schema)

    def _typed(self, schema: Mapping[str, Any]) -> CoreSchema:
        kind = schema["type"]
        if kind == "string":
            return _string(schema["not"]["enum"] if "not" in schema else ())
        if kind == "array":
            return core_schema.list_schema(self.of(schema["items"]), strict=True)
        if kind == "object":
            values = self.of(schema["additionalProperties"]) if "additionalProperties" in schema else None
            return core_schema.dict_schema(core_schema.str_schema(strict=True), values)
        return _SCALARS[kind]()

    def _reference(self, name: str) -> CoreSchema:
        # pydantic names the definition by what stands before the colon; the two forms of it must not be mixed up.
        ref = f"respevents.{self._profile}.{name}:{int(self._tagged)}"
        if name not in self._made:
            self._made[name] = None  # a definition may hold itself
            self._made[name] = self._object(self._defs[name], ref)
        return core_schema.definition_reference_schema(ref)

    def _object(self, schema: Mapping[str, Any], ref: str | None) -> CoreSchema:
        required = set(schema["required"])
        fields = {
            key: core_schema.typed_dict_field(self.of(one), required=key in required)
            for key, one in schema["properties"].items()
        }
        one_of = [branch["required"] for branch in schema.get("anyOf", ())]
        made = core_schema.typed_dict_schema(fields, extra_behavior="allow", ref=None if one_of else ref)
        if not one_of:
            return made
        check = functools.partial(_has_one_of, one_of)
        also = {"pydantic_js_updates": {"anyOf": schema["anyOf"]}}
        return core_schema.no_info_after_validator_function(check, made, ref=ref, metadata=also)

    def _union(self, branches: Sequence[Mapping[str, Any]]) -> CoreSchema:
        """Objects are told apart by `type`, so that an error speaks of the one that was meant."""
        objects = [branch for branch in branches if "$ref" in branch or "properties" in branch]
        choices = [self.of(branch) for branch in branches if branch not in objects]
        if len(objects) > 1 and self._tagged:
            by_type: dict[str, list[CoreSchema]] = {}
            for branch in objects:
                for tag in self._types_of(branch):
                    by_type.setdefault(tag, []).append(self.of(branch))
            tagged = {tag: _first_of(found) for tag, found in by_type.items()}
            choices.append(core_schema.tagged_union_schema(tagged, _tag_among(frozenset(tagged))))
        else:
            choices += map(self.of, objects)
        return _first_of(choices)

    def _types_of(self, schema: Mapping[str, Any]) -> list[str]:
        """The values `type` may have in an object; `_OTHER` where it may be absent, null or open."""
        schema = self._defs[schema["$ref"].removeprefix(_PREFIX)] if "$ref" in schema else schema
        found: list[str] = [] if "type" in schema["required"] else [_OTHER]
        for one in schema["properties"]["type"].get("anyOf", [schema["properties"]["type"]]):
            found += [one["const"]] if "const" in one else one.get("enum", [_OTHER])
        return list(dict.fromkeys(found))


_OTHER = ""
"""The tag of an object whose `type` names none of the choices."""


def _tag_among(known: frozenset[str]) -> Callable[[Any], str | None]:
    other = _OTHER if _OTHER in known else None

    def object_type(value: Any) -> str | None:  # pydantic's messages quote its name
        tag = value.get("type") if isinstance(value, Mapping) else None
        return tag if isinstance(tag, str) and tag in known else other

    return object_type


def _first_of(choices: list[CoreSchema]) -> CoreSchema:
    if len(choices) == 1:
        return choices[0]
    return core_schema.union_schema([*choices], mode="left_to_right")


def _string(but: Sequence[str]) -> CoreSchema:
    text = core_schema.str_schema(strict=True)
    if not but:
        return text

    def check(value: str) -> str:
        if value in but:
            raise PydanticCustomError("known_type", "a known type, whose object has another form", {})
        return value

    # Read by pydantic's JSON Schema generator; the keyword has no core schema of its own.
    also = {"pydantic_js_updates": {"not": {"enum": list(but)}}}
    return core_schema.no_info_after_validator_function(check, text, metadata=also)


def _integer() -> CoreSchema:
    """JSON has one kind of number: `11.0` is the integer 11 (and is written so)."""

    def whole(value: Any) -> Any:
        return int(value) if type(value) is float and value.is_integer() else value

    return core_schema.no_info_before_validator_function(whole, core_schema.int_schema(strict=True))


_SCALARS: dict[str, Callable[[], CoreSchema]] = {
    "integer": _integer,
    "number": functools.partial(core_schema.float_schema, strict=True, allow_inf_nan=False),
    "boolean": functools.partial(core_schema.bool_schema, strict=True),
    "null": core_schema.none_schema,
}


def _has_one_of(groups: list[list[str]], value: dict[str, Any]) -> dict[str, Any]:
    if not any(all(key in value for key in group) for group in groups):
        wanted = " or ".join(", ".join(group) for group in groups)
        raise PydanticCustomError("missing_one_of", "one of these must be given: {wanted}", {"wanted": wanted})
    return value
