"""From a set to the next: what its wire refuses of what the wire before it took is what its change list calls tighter."""

from __future__ import annotations

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from respevents import schemas
from respevents._schema_example import _Maker, example
from respevents.testing import strategies

CHILDREN = [version for version in schemas.VERSIONS if schemas.manifest(version)["parent"] is not None]
PREFIX = "#/$defs/"


def definitions(version):
    return {event["type"]: event["definition"] for event in schemas.manifest(version)["events"]}


def validators(version):
    bundle = schemas.load(version, "wire")
    return {
        kind: jsonschema_rs.validator_for({"$ref": PREFIX + name, "$defs": bundle["$defs"]})
        for kind, name in definitions(version).items()
    }


def tightened(version):
    """Place to path of what the change list calls tighter in wire; a branch of several types has a place for each."""
    found = {}
    for one in schemas.manifest(version)["changes"]:
        if one["effect"] == "tighten" and "wire" in one["profiles"]:
            place, opening, label = one["path"].partition(": ")[0].partition("<")
            found |= {
                place + opening + tag: one["path"] for tag in (label, *(f"{tag}>" for tag in label[:-1].split("|")))
            }
    return found


# ---- why a set refuses an event -------------------------------------------------------------------------------------


class Refusals:
    """Why a bundle refuses a value: for each reason the places down to it, called as change lists call them
    (`Definition.key`, `[]` and `{}` for what is in it, `<type>` for a branch), and the value there.
    """

    def __init__(self, bundle):
        self.defs = bundle["$defs"]

    def of(self, schema, value, chain):
        if "$ref" in schema:
            return self.of_object(schema["$ref"].removeprefix(PREFIX), value, chain)
        if "anyOf" in schema:
            return self.of_union(schema["anyOf"], value, chain)
        if schema.get("type") == "array":
            if not isinstance(value, list):
                return [(chain, value)]
            inside = (*chain, f"{chain[-1]}[]")
            return [one for item in value for one in self.of(schema["items"], item, inside)]
        if schema.get("type") == "object" and "additionalProperties" in schema:
            if not isinstance(value, dict):
                return [(chain, value)]
            inside = (*chain, chain[-1] + "{}")
            return [one for item in value.values() for one in self.of(schema["additionalProperties"], item, inside)]
        return [] if jsonschema_rs.is_valid(schema, value) else [(chain, value)]

    def of_object(self, name, value, chain=()):
        if not isinstance(value, dict):
            return [(chain, value)]
        definition = self.defs[name]
        found = [((*chain, f"{name}.{key}"), ...) for key in definition["required"] if key not in value]
        wanted = [set(one["required"]) <= set(value) for one in definition.get("anyOf", [])]
        if wanted and not any(wanted):
            found.append(((*chain, name), value))
        for key in value.keys() & definition["properties"].keys():
            found += self.of(definition["properties"][key], value[key], (*chain, f"{name}.{key}"))
        return found

    def of_union(self, branches, value, chain):
        answers = [
            self.of(branch, value, (*chain, f"{chain[-1]}<{self.label(branch, value)}>") if "$ref" in branch else chain)
            for branch in branches
        ]
        if not all(answers):
            return []
        meant = [found for branch, found in zip(branches, answers, strict=True) if self.is_meant(branch, value)]
        # The branch that fits best: the fewest reasons, the deepest down. Of several alike, the reasons of each.
        best = min(map(self.misfit, meant), default=None)
        return [one for found in meant if self.misfit(found) == best for one in found] or [(chain, value)]

    @staticmethod
    def misfit(found):
        return len(found), -max(len(chain) for chain, _ in found)

    def is_meant(self, branch, value):
        if isinstance(value, list):
            return branch.get("type") == "array"
        if not isinstance(value, dict) or "$ref" not in branch:
            return False
        definition = self.defs[branch["$ref"].removeprefix(PREFIX)]
        if "type" in value:
            return jsonschema_rs.is_valid(self.type_of(branch), value["type"])
        return "type" not in definition["required"]

    def label(self, branch, value):
        kind = self.type_of(branch)
        if not {"const", "enum"} & kind.keys():
            return branch["$ref"].removeprefix(PREFIX)
        return value["type"] if self.is_meant(branch, value) and "type" in value else ""

    def type_of(self, branch):
        return self.defs[branch["$ref"].removeprefix(PREFIX)]["properties"].get("type", {})


def telling(chain, value, tighter):
    """The changes that tell a reason: of the place itself, of a branch that came in above it, or of a place above it
    that took anything.
    """
    place = chain[-1]
    names = {place, f"{place}={value}"}
    if isinstance(value, dict):  # of a type that no branch has: the branch that went, or one that says what types are
        names |= {f"{place}<{value.get('type')}>", f"{place}<object>"}
    return {
        path
        for at, path in tighter.items()
        if at in names or (at in chain and (at.endswith(">") or ": anything -> " in path))
    }


def reasons(version, event):
    """The reasons for which the wire of a set refuses an event; the event type alone where it has no such event."""
    kind, names = event["type"], definitions(version)
    if kind not in names:
        return [((kind,), event)]
    return Refusals(schemas.load(version, "wire")).of_object(names[kind], event)


def untold(version, event, tighter):
    return [chain for chain, value in reasons(version, event) if not telling(chain, value, tighter)]


# ---- every place of a set -------------------------------------------------------------------------------------------


class Places:
    """Events of a set that between them hold, at every place, each kind of value that may stand there.

    `objects` are those to try where any object may stand, or one of any type.
    """

    def __init__(self, version, objects):
        self.version, self.objects = version, objects
        self.defs = schemas.load(version, "wire")["$defs"]
        self.maker = _Maker(self.defs, "")

    def events(self):
        seen, waiting = set(), []
        for kind, name in definitions(self.version).items():
            yield example(kind, self.version, "wire")
            waiting.append((name, lambda value: value))
        while waiting:
            name, wrap = waiting.pop(0)
            properties = self.defs[name]["properties"]
            least = self.maker.value({"$ref": PREFIX + name}, "")
            yield wrap(least)
            for one in self.defs[name].get("anyOf", ()):
                keys = {*self.defs[name]["required"], *one["required"]}
                yield wrap({key: self.maker.value(properties[key], key) for key in keys})
            for key, schema in properties.items():
                for value in self.values(schema, key):
                    yield wrap({**least, key: value})
                for inner, put in self.within(schema):
                    if (name, key, inner) not in seen:
                        seen.add((name, key, inner))
                        waiting.append((inner, self.nested(wrap, least, key, put)))

    @staticmethod
    def nested(wrap, least, key, put):
        return lambda value: wrap({**least, key: put(value)})

    def values(self, schema, key):
        """A value of each kind that a place takes, the least of its kind."""
        if "x-open" in schema:  # the types that a branch names are tried as that branch
            named = schema["properties"]["type"]["not"]["enum"]
            yield from (one for one in self.objects if one.get("type") not in named)
        elif "x-free-form" in schema:
            yield from self.objects
        elif "anyOf" in schema and "properties" not in schema:
            for branch in schema["anyOf"]:
                yield from self.values(branch, key)
        elif "enum" in schema:
            yield from schema["enum"]
        elif schema.get("type") == "array":
            yield from ([one] for one in self.values(schema["items"], key))
            yield []
        elif isinstance(schema.get("additionalProperties"), dict):
            yield from ({"key": one} for one in self.values(schema["additionalProperties"], key))
            yield {}
        elif schema.get("type") == "number":
            yield from (1.5, 2)
        elif "$ref" in schema or "type" in schema or "const" in schema:
            yield self.maker.value(schema, key)
            if schema.get("type") == "string" and "pattern" not in schema:
                yield "odd"
        else:
            yield from (None, True, 1, 1.5, "x", [])
            yield from self.objects

    def within(self, schema):
        """(definition, what puts an object of it into the place) of all that a place leads to."""
        if "$ref" in schema:
            yield schema["$ref"].removeprefix(PREFIX), lambda value: value
        elif "anyOf" in schema and "properties" not in schema:
            for branch in schema["anyOf"]:
                yield from self.within(branch)
        elif schema.get("type") == "array":
            for name, put in self.within(schema["items"]):
                yield name, lambda value, put=put: [put(value)]
        elif isinstance(schema.get("additionalProperties"), dict):
            for name, put in self.within(schema["additionalProperties"]):
                yield name, lambda value, put=put: {"key": put(value)}


def objects_of(version):
    """An object of each `type` that something of a set has: bare, and with each key it may have holding an odd value."""
    yield from ({}, {"type": "odd"})
    for one in schemas.load(version, "wire")["$defs"].values():
        kind = one["properties"].get("type", {})
        for tag in kind.get("enum", [kind["const"]] if "const" in kind else ["slug:type"] if "pattern" in kind else []):
            yield {"type": tag}
            yield {**{key: [1.5] for key in one["properties"]}, "type": tag}


def refused(version):
    """(event, reasons) of the events of the places that the parent's wire takes and the one of `version` does not."""
    parent = schemas.manifest(version)["parent"]
    before, after = validators(parent), validators(version)
    taken = 0
    for event in Places(parent, list(objects_of(version))).events():
        if before[event["type"]].is_valid(event):
            taken += 1
            if event["type"] not in after or not after[event["type"]].is_valid(event):
                yield event, reasons(version, event)
    assert taken > 3000


@pytest.mark.parametrize("version", CHILDREN)
def test_what_a_wire_refuses_of_the_one_before_is_told_and_all_that_is_told_is_so(version):
    """Both ways: no event is refused without a word, and each `tighten` of the list is shown by an event.

    The second is also what gives the first its worth: a tightening that the list left out would be met.
    """
    tighter = tightened(version)
    shown = set()
    for event, found in refused(version):
        assert found, event
        for chain, value in found:
            telling_it = telling(chain, value, tighter)
            assert telling_it, (chain, value)
            shown |= telling_it
    assert shown == set(tighter.values())


def earlier_events(version):
    parent = schemas.manifest(version)["parent"]
    kinds = st.sampled_from(sorted(definitions(parent)))
    return kinds.flatmap(lambda kind: strategies.events(kind, version=parent, profile="wire"))


@pytest.mark.parametrize("version", CHILDREN)
def test_whatever_the_wire_before_took_is_taken_unless_the_changes_say_tighten(version):
    """The same by chance, for what no list of places thinks of; and the reasons are found as the library decides."""
    tighter, valid = tightened(version), validators(version)

    @settings(max_examples=150)
    @given(earlier_events(version))
    def check(event):
        found = reasons(version, event)
        assert all(telling(chain, value, tighter) for chain, value in found)
        if event["type"] in valid:
            assert valid[event["type"]].is_valid(event) is (found == [])

    check()


def shown_without(version, path):
    """What is refused and not told once one change is taken out of the list."""
    tighter = {at: one for at, one in tightened(version).items() if one != path}
    return [chain for _, found in refused(version) for chain, value in found if not telling(chain, value, tighter)]


def test_a_tightening_that_a_list_leaves_out_is_met():
    for version, path in (
        ("openai-2025-06", "ComputerTool.display_width: number -> integer"),
        ("openai-2025-09", "response.reasoning.delta"),
        ("openai-2026-05", "ComputerUsePreviewTool.display_width"),
        ("openai-2026-05", "FileSearchTool.filters<in|nin>"),
        ("openai-2026-11", "ResponseOutputItemMcpCall.error<http_error>"),
    ):
        assert path in tightened(version).values()
        assert shown_without(version, path), path
