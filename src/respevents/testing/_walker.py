"""hypothesis strategies from the schema bundles: a walker over the JSON Schema subset that the sets use.

(hypothesis-jsonschema does not work with current releases of hypothesis.)
"""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import strategies as st

from respevents import schemas

_PREFIX = "#/$defs/"
_BIG = 2**53
_PRINTABLE = st.characters(codec="ascii", exclude_categories=["Cc"])
# Surrogates cannot be encoded; every other code point can be sent.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_SCALAR = st.none() | st.booleans() | st.integers(-_BIG, _BIG) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
FREE = st.recursive(
    _SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3), max_leaves=6
)
# How deep optional parts are filled; below, only what is required is.
_DEPTH = 4


class Walker:
    """Strategies for the definitions of one bundle. Values are plain mappings."""

    def __init__(self, version: str, profile: schemas.Profile) -> None:
        self.bundle = schemas.load(version, profile)
        self._made: dict[tuple[int, int], st.SearchStrategy[Any]] = {}

    def least(self, schema: dict[str, Any]) -> Any:
        """The simplest value of a schema, made anew: what is required and no more, empty wherever it may be.

        A strategy that may also give this shrinks a value in one stroke, however many draws it is made of.
        """
        if "x-free-form" in schema:
            return {} if schema.get("type") == "object" else None
        if "$ref" in schema:
            return self.least(self.bundle["$defs"][schema["$ref"].removeprefix(_PREFIX)])
        if "anyOf" in schema and "properties" not in schema:
            branches = schema["anyOf"]
            return self.least(next((one for one in branches if "$ref" not in one), branches[0]))
        if "const" in schema:
            return schema["const"]
        for key in ("enum", "x-known"):
            if key in schema:
                return schema[key][0]
        if "properties" not in schema or "required" not in schema:
            empty = {"array": [], "object": {}, "string": "", "integer": 0, "number": 0.0, "boolean": False}
            return {"type": ""} if "properties" in schema else empty.get(schema["type"])
        required = {*schema["required"], *schema.get("anyOf", [{"required": []}])[0]["required"]}
        return {key: self.least(one) for key, one in schema["properties"].items() if key in required}

    def definition(self, name: str) -> st.SearchStrategy[dict[str, Any]]:
        """Instances of `$defs/<name>`."""
        return self._definition(name, 0)

    @functools.cache  # noqa: B019 - walkers live as long as the process (see `walker`)
    def _definition(self, name: str, depth: int) -> st.SearchStrategy[dict[str, Any]]:
        return st.deferred(lambda: self._object(self.bundle["$defs"][name], depth))

    def _object(self, schema: dict[str, Any], depth: int) -> st.SearchStrategy[dict[str, Any]]:
        required = set(schema["required"])
        variants = [required | set(one["required"]) for one in schema.get("anyOf", [{"required": []}])]
        return st.one_of([self._with_keys(schema["properties"], keys, depth) for keys in variants])

    def _with_keys(self, properties: dict[str, Any], keys: set[str], depth: int) -> st.SearchStrategy[dict[str, Any]]:
        given = {key: self.value(properties[key], depth + 1) for key in properties if key in keys}
        if depth >= _DEPTH:
            return st.fixed_dictionaries(given)
        rest = {key: self.value(one, depth + 1) for key, one in properties.items() if key not in keys}
        return st.fixed_dictionaries(given, optional=rest)

    def value(self, schema: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
        """Values of any schema of the bundle. Made once: a stream asks for the same ones at each of its steps."""
        known = id(schema), min(depth, _DEPTH + 1)
        if known not in self._made:
            self._made[known] = self._value(schema, depth)
        return self._made[known]

    def _value(self, schema: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
        if "x-free-form" in schema:
            return st.dictionaries(TEXT, FREE, max_size=3) if schema.get("type") == "object" else FREE
        if "$ref" in schema:
            return self._definition(schema["$ref"].removeprefix(_PREFIX), depth)
        if "anyOf" in schema:
            branches = schema["anyOf"]
            if depth > _DEPTH:
                # The simplest branch ends the recursion: filters may hold filters without end.
                branches = [one for one in branches if "$ref" not in one] or branches[:1]
            return st.one_of([self.value(one, depth) for one in branches])
        if "const" in schema:
            return st.just(schema["const"])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        if "x-known" in schema:
            return st.sampled_from(schema["x-known"]) | TEXT
        return self._typed(schema, depth)

    def _typed(self, schema: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
        kind = schema["type"]
        if "pattern" in schema:
            return st.from_regex(schema["pattern"], fullmatch=True, alphabet=_PRINTABLE)
        if kind == "array":
            return st.just([]) if depth > _DEPTH else st.lists(self.value(schema["items"], depth), max_size=2)
        if kind == "object" and "additionalProperties" in schema:
            return st.dictionaries(TEXT, self.value(schema["additionalProperties"], depth), max_size=2)
        if kind == "object":
            known = schema["properties"]["type"]["not"]["enum"]
            return st.fixed_dictionaries({"type": TEXT.filter(lambda text: text not in known)})
        scalars: dict[str, st.SearchStrategy[Any]] = {
            "string": TEXT,
            "integer": st.integers(0, _BIG),
            "number": st.floats(allow_nan=False, allow_infinity=False),
            "boolean": st.booleans(),
            "null": st.none(),
        }
        return scalars[kind]


@functools.cache
def walker(version: str = schemas.NEWEST, profile: schemas.Profile = "strict") -> Walker:
    """The walker of a bundle, made once."""
    return Walker(version, profile)
