"""The change list between two bundles: each kind of change, what it does to who validates, and what is no change."""

from __future__ import annotations

import copy
import json

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from respevents import schemas
from respevents._schema_diff import KINDS, worst
from respevents.schemas import Change, diff

TEXT, NULL, REF = {"type": "string"}, {"type": "null"}, "#/$defs/"


def thing(tag, **properties):
    return {"type": "object", "properties": {"type": {"const": tag}, **properties}, "required": ["type", *properties]}


OPEN = {"type": "object", "properties": {"type": {"type": "string", "not": {"enum": ["a"]}}}, "required": ["type"], "x-open": True}  # fmt: skip

BUNDLE = {
    "anyOf": [{"$ref": REF + "EventOne"}, {"$ref": REF + "EventTwo"}],
    "$defs": {
        "EventOne": {
            "type": "object",
            "properties": {
                "type": {"const": "one"},
                "count": {"type": "integer"},
                "rest": {"x-free-form": True},
                "state": {"type": "string", "enum": ["on", "off"]},
                "word": {"type": "string", "x-known": ["x", "y"]},
                "parts": {"type": "array", "items": {"anyOf": [{"$ref": REF + "A"}, {"$ref": REF + "B"}]}},
                "more": {"type": "array", "items": {"anyOf": [{"$ref": REF + "A"}, OPEN]}},
                "error": {"anyOf": [{"$ref": REF + "Error"}, NULL]},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
                "opt": TEXT,
                "slug": {"type": "string", "pattern": ":"},
            },
            "required": ["type", "count", "rest", "state", "word", "parts", "more", "error", "map", "slug"],
        },
        "EventTwo": thing("two"),
        "A": thing("a", text=TEXT),
        "B": thing("b"),
        "C": thing("c"),
        "D": thing("d", text=TEXT),
        "Error": {
            "type": "object",
            "properties": {"code": {"type": "string", "enum": ["x"]}, "message": TEXT},
            "required": ["code", "message"],
            "anyOf": [{"required": ["code"]}, {"required": ["message"]}],
        },
    },
}
VALUE = {
    "type": "one",
    "count": 1,
    "rest": None,
    "state": "off",
    "word": "z",
    "parts": [{"type": "a", "text": ""}, {"type": "b"}],
    "more": [{"type": "a", "text": ""}, {"type": "c", "any": 1}],
    "error": {"code": "x", "message": "m"},
    "map": {"k": 1},
    "slug": "a:b",
}


def edited(path, value):
    """The bundle with one place of its definitions set; None takes it away."""
    bundle = copy.deepcopy(BUNDLE)
    place = bundle["$defs"]
    *way, last = path.split("/")
    for key in way:
        place = place[int(key) if isinstance(place, list) else key]
    if value is None:
        place.remove(last) if isinstance(place, list) else place.pop(last)
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return bundle


def properties(name, **changes):
    """The bundle with keys of one definition set; None takes a key away."""
    bundle = copy.deepcopy(BUNDLE)
    bundle["$defs"][name]["properties"].update(changes)
    for key in [key for key, value in changes.items() if value is None]:
        del bundle["$defs"][name]["properties"][key]
    return bundle


def one(**changes):
    return properties("EventOne", **changes)


REQUIRED = BUNDLE["$defs"]["EventOne"]["required"]
ITEMS = BUNDLE["$defs"]["EventOne"]["properties"]["parts"]["items"]["anyOf"]

CASES = {
    "an event comes": ({**BUNDLE, "anyOf": [*BUNDLE["anyOf"], {"$ref": REF + "C"}]}, [("event added", "c", "loosen")]),
    "an event goes": ({**BUNDLE, "anyOf": BUNDLE["anyOf"][:1]}, [("event removed", "two", "tighten")]),
    "an optional field comes": (one(new=TEXT), [("field added", "EventOne.new", "neutral")]),
    "a required field comes": (
        {**one(new=TEXT), "$defs": {**one(new=TEXT)["$defs"], "EventOne": {**one(new=TEXT)["$defs"]["EventOne"], "required": [*REQUIRED, "new"]}}},
        [("field added", "EventOne.new", "tighten")],
    ),
    "an optional field goes": (one(opt=None), [("field removed", "EventOne.opt", "neutral")]),
    "a required field goes": (
        edited("Error", {**BUNDLE["$defs"]["Error"], "properties": {"code": {"type": "string", "enum": ["x"]}}, "required": ["code"]}),
        [("field removed", "Error.message", "loosen")],
    ),
    "a field becomes required": (edited("EventOne/required", [*REQUIRED, "opt"]), [("required", "EventOne.opt", "tighten")]),
    "a field becomes optional": (edited("EventOne/required/count", None), [("optional", "EventOne.count", "loosen")]),
    "null comes": (one(count={"anyOf": [{"type": "integer"}, NULL]}), [("nullable", "EventOne.count", "loosen")]),
    "null goes": (one(error={"$ref": REF + "Error"}), [("not nullable", "EventOne.error", "tighten")]),
    "a value comes": (one(state={"type": "string", "enum": ["on", "off", "idle"]}), [("value added", "EventOne.state=idle", "loosen")]),
    "a value goes": (one(state={"const": "on"}), [("value removed", "EventOne.state=off", "tighten")]),
    "a known value comes": (one(word={"type": "string", "x-known": ["x", "y", "z"]}), [("known value added", "EventOne.word=z", "neutral")]),
    "a known value goes": (one(word={"type": "string", "x-known": ["x"]}), [("known value removed", "EventOne.word=y", "neutral")]),
    "values are opened": (one(state={"type": "string", "x-known": ["on", "off"]}), [("values opened", "EventOne.state", "loosen")]),
    "values are closed": (one(word={"type": "string", "enum": ["x", "y"]}), [("values closed", "EventOne.word", "tighten")]),
    "a branch comes": (
        one(parts={"type": "array", "items": {"anyOf": [*ITEMS, {"$ref": REF + "C"}]}}),
        [("branch added", "EventOne.parts[]<c>", "loosen")],
    ),
    "a branch goes": (one(parts={"type": "array", "items": ITEMS[0]}), [("branch removed", "EventOne.parts[]<b>", "tighten")]),
    "a branch comes where any was taken": (
        one(more={"type": "array", "items": {"anyOf": [{"$ref": REF + "A"}, {"$ref": REF + "D"}, OPEN]}}),
        [("branch added", "EventOne.more[]<d>", "tighten")],
    ),
    "a branch of a type alone comes where any was taken": (
        one(more={"type": "array", "items": {"anyOf": [{"$ref": REF + "A"}, {"$ref": REF + "B"}, OPEN]}}),
        [("branch added", "EventOne.more[]<b>", "neutral")],
    ),
    "a branch takes one more type where any was taken": (
        properties("A", type={"type": "string", "enum": ["a", "d"]}),
        [("branch added", "EventOne.more[]<d>", "tighten"), ("value added", "A.type=d", "loosen")],
    ),
    "a union is opened": (
        one(parts={"type": "array", "items": {"anyOf": [*ITEMS, OPEN]}}),
        [("branches opened", "EventOne.parts[]", "loosen")],
    ),
    "a union is closed": (one(more={"type": "array", "items": ITEMS[0]}), [("branches closed", "EventOne.more[]", "tighten")]),
    "a type is another": (one(count=TEXT), [("type", "EventOne.count: integer -> string", "tighten")]),
    "a type is wider": (one(count={"type": "number"}), [("type", "EventOne.count: integer -> number", "loosen")]),
    "a type is narrower": (one(rest=TEXT), [("type", "EventOne.rest: anything -> string", "tighten")]),
    "anything goes": (one(error={"x-free-form": True}), [("type", "EventOne.error: object or null -> anything", "loosen")]),
    "one more type": (one(count={"anyOf": [{"type": "integer"}, TEXT]}), [("type", "EventOne.count: integer -> integer or string", "loosen")]),
    "values of a map": (one(map={"type": "object", "additionalProperties": TEXT}), [("type", "EventOne.map{}: integer -> string", "tighten")]),
    "a pattern comes": (one(opt={"type": "string", "pattern": "."}), [("pattern", "EventOne.opt", "tighten")]),
    "a pattern goes": (one(slug=TEXT), [("pattern", "EventOne.slug", "loosen")]),
    "keys are asked for no more": (
        edited("Error/anyOf", None), [("keys", "Error: one of code or message", "loosen")],
    ),
    "a failure code comes": (properties("Error", code={"type": "string", "enum": ["x", "y"]}), [("value added", "Error.code=y", "loosen")]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_change_is_told_once_with_its_place_and_effect(case):
    new, expected = CASES[case]
    assert diff(BUNDLE, new) == expected


@pytest.mark.parametrize("case", CASES)
def test_a_change_that_is_taken_back_has_the_opposite_effect(case):
    new, expected = CASES[case]
    opposite = {"tighten": "loosen", "loosen": "tighten", "neutral": "neutral"}
    kind = expected[0][0]
    back = worst(diff(new, BUNDLE))
    turned = worst([Change(kind, path, opposite[effect]) for kind, path, effect in expected])
    # A type that is another one refuses in both directions what the other took.
    assert back == ("tighten" if kind == "type" and "string" in expected[0][1] and "integer ->" in expected[0][1] and " or " not in expected[0][1] else turned)  # fmt: skip


@pytest.mark.parametrize("case", [case for case, (_, expected) in CASES.items() if expected[0][2] != "tighten"])
def test_what_passed_passes_still_where_nothing_tightened(case):
    new, _ = CASES[case]
    jsonschema_rs.validator_for(BUNDLE).validate(VALUE)
    jsonschema_rs.validator_for(new).validate(VALUE)


def test_every_kind_of_change_has_a_case():
    assert {change[0] for _, expected in CASES.values() for change in expected} == set(KINDS)


def renamed(bundle, names):
    text = json.dumps(bundle)
    for old, new in names.items():
        text = text.replace(f'"{old}"', f'"{new}"').replace(f'"{REF}{old}"', f'"{REF}{new}"')
    return json.loads(text)


def test_names_of_definitions_do_not_matter():
    """Choice: pydantic and the SDK rename classes; what is compared is what stands in the same place on the wire."""
    other = renamed(BUNDLE, {name: f"openai__types__{name}__2" for name in BUNDLE["$defs"]})
    assert diff(BUNDLE, other) == []
    other["$defs"]["openai__types__Error__2"]["required"].remove("message")
    assert diff(BUNDLE, other) == [("optional", "openai__types__Error__2.message", "loosen")]


@pytest.mark.parametrize("version", schemas.VERSIONS)
@pytest.mark.parametrize("profile", ["strict", "wire"])
def test_a_set_whose_definitions_are_all_renamed_is_the_same_set(version, profile):
    bundle = schemas.load(version, profile)
    assert diff(bundle, renamed(bundle, {name: f"X{name}" for name in bundle["$defs"]})) == []


@given(st.data())
def test_the_order_in_which_a_bundle_is_written_does_not_matter(data):
    def shuffled(value):
        if isinstance(value, dict):
            return {key: shuffled(value[key]) for key in data.draw(st.permutations(list(value)))}
        if isinstance(value, list):
            return [shuffled(one) if isinstance(one, dict) else one for one in data.draw(st.permutations(value))]
        return value

    assert diff(BUNDLE, shuffled(BUNDLE)) == []


def test_branches_of_one_type_meet_the_ones_that_are_like_them():
    branches = [thing("m", role=TEXT, content=TEXT), thing("m", id=TEXT, status=TEXT), thing("m", x=TEXT)]

    def bundle(order, extra):
        defs = {f"M{position}": copy.deepcopy(branches[at]) for position, at in enumerate(order)}
        for definition in defs.values():
            if "role" in definition["properties"]:
                definition["properties"].update(extra)
        event = thing("e", item={"anyOf": [{"$ref": REF + name} for name in defs]})
        return {"anyOf": [{"$ref": REF + "E"}], "$defs": {"E": event, **defs}}

    assert diff(bundle([0, 1, 2], {}), bundle([2, 0, 1], {})) == []
    assert diff(bundle([0, 1, 2], {}), bundle([2, 0, 1], {"new": TEXT})) == [("field added", "M1.new", "neutral")]


def test_an_event_is_not_taken_for_an_extension_that_has_the_same_keys():
    extension = {"type": "object", "properties": {"type": {"type": "string", "pattern": ":"}}, "required": ["type"]}
    other = {"anyOf": [BUNDLE["anyOf"][0], {"$ref": REF + "X"}], "$defs": {**BUNDLE["$defs"], "X": extension}}
    assert diff(BUNDLE, other) == [("event added", "X", "loosen"), ("event removed", "two", "tighten")]


def test_a_definition_that_holds_itself_ends():
    bundle = {"anyOf": [{"$ref": REF + "E"}], "$defs": {"E": thing("e", child={"anyOf": [{"$ref": REF + "E"}, NULL]})}}
    assert diff(bundle, renamed(bundle, {"E": "F"})) == []


def test_a_change_is_a_tuple_of_three_with_names():
    change = diff(BUNDLE, one(count=TEXT))[0]
    kind, path, effect = change
    assert (change.kind, change.path, change.effect) == (kind, path, effect) == tuple(change)
    assert isinstance(change, Change)


def test_the_worst_effect_decides():
    assert worst([]) is None
    assert worst([Change("type", "a", "neutral")]) == "neutral"
    assert worst([Change("type", "a", "neutral"), Change("type", "b", "loosen")]) == "loosen"
    assert worst([Change("type", "a", "loosen"), Change("type", "b", "tighten")]) == "tighten"


@pytest.mark.parametrize("version", [version for version in schemas.VERSIONS if schemas.manifest(version)["parent"]])
def test_the_change_list_of_a_manifest_is_what_diff_says(version):
    manifest = schemas.manifest(version)
    told = {(one["kind"], one["path"], one["effect"], profile) for one in manifest["changes"] for profile in one["profiles"]}  # fmt: skip
    found = {
        (*change, profile)
        for profile in ("strict", "wire")
        for change in diff(schemas.load(manifest["parent"], profile), schemas.load(version, profile))
    }
    assert told == found
