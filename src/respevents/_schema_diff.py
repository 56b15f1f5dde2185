"""What changed between two bundles of schemas, told by structure.

Two definitions are compared where they stand in the same place on the wire, whatever they are called: events meet by
their `type`, properties by their key, branches of a union by the `type` they carry. A pair is compared once, and its
changes stand under the name that the newer bundle gives the definition:

    ResponseUsage.input_tokens_details   a field          Response.output[]<compaction>       a branch of a union
    ResponseError.code=bio_policy        a value          Response.created_at: number -> integer   a type
    response.queued                      an event
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["KINDS", "Change", "Effect", "diff", "worst"]

Effect = Literal["tighten", "loosen", "neutral"]
"""For who validates with the newer bundle: something that passed is refused, something that was refused passes, or
neither. An optional field that comes or goes is neutral: unknown keys always pass."""

KINDS: Final = (
    "event added",
    "event removed",
    "field added",
    "field removed",
    "required",
    "optional",
    "nullable",
    "not nullable",
    "value added",
    "value removed",
    "known value added",
    "known value removed",
    "values opened",
    "values closed",
    "branch added",
    "branch removed",
    "branches opened",
    "branches closed",
    "type",
    "pattern",
    "keys",
)
"""Every kind of change. A *known* value is one of an open string (`x-known`); an open union takes an object of a type
that no branch names (`x-open`); *keys* are those of which an object needs at least one."""

_PREFIX: Final = "#/$defs/"
_SCALARS: Final = ("boolean", "integer", "number")
_LIKE: Final = 0.3
"""Share of common keys from which two objects without a `type` are taken for the same one."""


class Change(NamedTuple):
    """One change: what kind it is (`KINDS`), where, and what it does to who validates."""

    kind: str
    path: str
    effect: Effect


def worst(changes: Sequence[Change]) -> Effect | None:
    """The strongest effect of a list: tighten before loosen before neutral; None when nothing changed."""
    effects = {change.effect for change in changes}
    order: tuple[Effect, ...] = ("tighten", "loosen", "neutral")
    return next((effect for effect in order if effect in effects), None)


def diff(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Structural changes between two bundles (`anyOf` over the events, `$defs`), sorted."""
    return _Comparison(old, new).run()


@dataclass
class _Object:
    """One object that a place may hold."""

    name: str
    schema: Mapping[str, Any]

    @property
    def tags(self) -> tuple[str, ...]:
        """The values of its `type`."""
        kind = self.schema["properties"].get("type", {})
        return (kind["const"],) if "const" in kind else tuple(kind.get("enum", ()))

    @property
    def label(self) -> str:
        return "|".join(self.tags) or self.name


@dataclass
class _Place:
    """What one place may hold, sorted by kind of value."""

    anything: bool = False
    null: bool = False
    scalars: set[str] = field(default_factory=set)
    text: bool = False
    values: list[str] = field(default_factory=list)
    closed: bool = True
    """Of text: only `values` are allowed."""
    pattern: str | None = None
    objects: list[_Object] = field(default_factory=list)
    open_branch: bool = False
    free_object: bool = False
    maps: list[Any] = field(default_factory=list)
    arrays: list[Any] = field(default_factory=list)

    def kinds(self) -> list[str]:
        """What it may hold, in words; null is told apart, as it comes and goes with any type."""
        if self.anything:
            return ["anything"]
        held = [("string", self.text), ("array", bool(self.arrays)), ("object", self.holds_objects)]
        return [*sorted(self.scalars), *(kind for kind, there in held if there)]

    @property
    def holds_objects(self) -> bool:
        return bool(self.objects or self.maps or self.free_object or self.open_branch)


def _place(schema: Mapping[str, Any], defs: Mapping[str, Any], where: str) -> _Place:
    place = _Place()
    for branch in _branches(schema):
        kind = branch.get("type")
        if "$ref" in branch:
            name = branch["$ref"].removeprefix(_PREFIX)
            place.objects.append(_Object(name, defs[name]))
        elif "const" in branch or "enum" in branch:
            place.text = True
            place.values += branch.get("enum", [branch.get("const")])
        elif kind == "string":
            place.text, place.closed = True, False
            place.values += branch.get("x-known", [])
            place.pattern = branch.get("pattern")
        elif kind == "null":
            place.null = True
        elif kind == "array":
            place.arrays.append(branch.get("items", {"x-free-form": True}))
        elif kind == "object" and "x-open" in branch:
            place.open_branch = True
        elif kind == "object" and "properties" in branch:
            place.objects.append(_Object(where, branch))
        elif kind == "object" and "additionalProperties" in branch:
            place.maps.append(branch["additionalProperties"])
        elif kind == "object":
            place.free_object = True
        elif kind in _SCALARS:
            place.scalars.add(kind)
        else:
            place.anything = True
    return place


def _branches(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "anyOf" in schema and "properties" not in schema:
        for branch in schema["anyOf"]:
            yield from _branches(branch)
    else:
        yield schema


def _union(schemas: list[Any]) -> dict[str, Any]:
    return {"anyOf": schemas}


class _Comparison:
    def __init__(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        self.old, self.new = old, new
        self.changes: set[Change] = set()
        self.seen: set[tuple[str, str]] = set()
        self.waiting: list[tuple[_Object, _Object]] = []

    def run(self) -> list[Change]:
        events = [_place(_root(one), one["$defs"], "").objects for one in (self.old, self.new)]
        pairs, gone, come = _matched(*events)
        for one in gone:
            self._add("event removed", one.label, "tighten")
        for one in come:
            self._add("event added", one.label, "loosen")
        for pair in pairs:
            self._meet(*pair)
        while self.waiting:
            self._objects(*self.waiting.pop(0))
        return sorted(self.changes)

    def _add(self, kind: str, path: str, effect: Effect) -> None:
        self.changes.add(Change(kind, path, effect))

    def _meet(self, old: _Object, new: _Object) -> None:
        if (old.name, new.name) not in self.seen:
            self.seen.add((old.name, new.name))
            self.waiting.append((old, new))

    def _objects(self, old: _Object, new: _Object) -> None:
        was, now = old.schema["properties"], new.schema["properties"]
        for key in sorted({*was, *now}):
            path = f"{new.name}.{key}"
            needed, needs = key in old.schema["required"], key in new.schema["required"]
            if key not in now:
                self._add("field removed", path, "loosen" if needed else "neutral")
            elif key not in was:
                self._add("field added", path, "tighten" if needs else "neutral")
            else:
                if needs and not needed:
                    self._add("required", path, "tighten")
                elif needed and not needs:
                    self._add("optional", path, "loosen")
                self._places(path, was[key], now[key])
        before, after = _one_of_keys(old.schema), _one_of_keys(new.schema)
        if before != after:
            effect: Effect = "loosen" if not after else "tighten"
            self._add("keys", f"{new.name}: one of {' or '.join(after or before)}", effect)

    def _places(self, path: str, old_schema: Mapping[str, Any], new_schema: Mapping[str, Any]) -> None:
        if old_schema == new_schema and "$ref" not in str(old_schema):
            return
        old = _place(old_schema, self.old["$defs"], path)
        new = _place(new_schema, self.new["$defs"], path)
        if old.anything and new.anything:
            return
        self._types(path, old, new)
        if old.anything or new.anything:
            return
        if old.null != new.null:
            self._add(*(("nullable", path, "loosen") if new.null else ("not nullable", path, "tighten")))
        if old.text and new.text:
            self._text(path, old, new)
        if old.arrays and new.arrays:
            self._places(f"{path}[]", _union(old.arrays), _union(new.arrays))
        if old.holds_objects and new.holds_objects and not (old.free_object and new.free_object):
            self._unions(path, old, new)

    def _types(self, path: str, old: _Place, new: _Place) -> None:
        was, now = old.kinds(), new.kinds()
        if was == now:
            return
        if old.anything or new.anything:  # null was among what it may hold
            was, now = was + ["null"] * old.null, now + ["null"] * new.null
        lost = [kind for kind in was if kind not in now and not (kind == "integer" and "number" in now)]
        effect: Effect = "tighten" if lost and "anything" not in now else "loosen"
        self._add("type", f"{path}: {' or '.join(was) or 'null'} -> {' or '.join(now) or 'null'}", effect)

    def _text(self, path: str, old: _Place, new: _Place) -> None:
        if old.closed and not new.closed:
            self._add("values opened", path, "loosen")
        elif new.closed and not old.closed:
            self._add("values closed", path, "tighten")
        if old.pattern != new.pattern:
            self._add("pattern", path, "tighten" if new.pattern is not None else "loosen")
        known = "" if old.closed and new.closed else "known "
        # Values of a string that is closed now and was open, or the other way round, are told by that.
        if old.closed == new.closed or (old.values and new.values):
            for value in new.values:
                if value not in old.values:
                    self._add(f"{known}value added", f"{path}={value}", "neutral" if known else "loosen")
            for value in old.values:
                if value not in new.values:
                    self._add(f"{known}value removed", f"{path}={value}", "neutral" if known else "tighten")

    def _unions(self, path: str, old: _Place, new: _Place) -> None:
        if old.open_branch != new.open_branch:
            self._add(
                *(("branches opened", path, "loosen") if new.open_branch else ("branches closed", path, "tighten"))
            )
        pairs, gone, come = _matched(old.objects, new.objects)
        for before, after in pairs:
            self._meet(before, after)
            # Of a type that no branch named the open union took any object; now this branch says what it holds.
            named = [tag for one in old.objects for tag in one.tags]
            added = [tag for tag in after.tags if tag not in named]
            if old.open_branch and before.tags and added and _asks(after):
                self._add("branch added", f"{path}<{'|'.join(added)}>", "tighten")
        # An open union took an object of that type as it was, so naming the type asks more of it, and less when it
        # is forgotten; unless another branch of the same type is there.
        for one in gone:
            effect = _of_branch(one, old, new, free="loosen", named="tighten")
            self._add("branch removed", f"{path}<{one.label}>", effect)
        for one in come:
            effect = _of_branch(one, new, old, free="tighten", named="loosen")
            self._add("branch added", f"{path}<{one.label}>", effect)
        if old.maps and new.maps:
            self._places(f"{path}{{}}", _union(old.maps), _union(new.maps))
        for label, was, now in (
            ("map", bool(old.maps), bool(new.maps)),
            ("object", old.free_object, new.free_object),
        ):
            if was and not now:
                self._add("branch removed", f"{path}<{label}>", "tighten")
            elif now and not was:
                self._add("branch added", f"{path}<{label}>", "loosen")


def _root(bundle: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: bundle[key] for key in ("anyOf", "$ref") if key in bundle}


def _one_of_keys(schema: Mapping[str, Any]) -> list[str]:
    return sorted(" and ".join(sorted(one["required"])) for one in schema.get("anyOf", ()))


def _shares_tag(one: _Object, others: list[_Object]) -> bool:
    return any(set(one.tags) & set(other.tags) for other in others)


def _of_branch(one: _Object, its: _Place, other: _Place, *, free: Effect, named: Effect) -> Effect:
    """The effect of a branch of one union that the other has not: `free` where that takes any object of its type."""
    if not other.free_object and (not other.open_branch or _shares_tag(one, other.objects)):
        return named
    return "neutral" if its.open_branch and not _asks(one) else free


def _asks(one: _Object) -> bool:
    """Whether an object of its type can be refused: it has more keys than the `type`, which every object may have."""
    return not one.schema["properties"].keys() <= {"type"}


def _matched(
    old: list[_Object], new: list[_Object]
) -> tuple[list[tuple[_Object, _Object]], list[_Object], list[_Object]]:
    """Objects of two unions that are the same ones, and those that are in one of them only.

    The best pairs first: those that share a `type`, then by the keys they have in common; the name decides last.
    """
    scored: list[tuple[float, int, int]] = []
    for at, one in enumerate(old):
        for position, other in enumerate(new):
            likeness = _likeness(one, other, alone=len(old) == len(new) == 1)
            if likeness is not None:
                scored.append((-likeness, at, position))
    pairs: dict[int, int] = {}
    for _, at, position in sorted(scored):
        if at not in pairs and position not in pairs.values():
            pairs[at] = position
    taken = set(pairs.values())
    return (
        [(old[at], new[position]) for at, position in sorted(pairs.items())],
        [one for at, one in enumerate(old) if at not in pairs],
        [one for position, one in enumerate(new) if position not in taken],
    )


def _likeness(one: _Object, other: _Object, *, alone: bool) -> float | None:
    tags = set(one.tags), set(other.tags)
    if tags[0] and tags[1] and not tags[0] & tags[1]:
        return None
    keys = set(one.schema["properties"]), set(other.schema["properties"])
    common = len(keys[0] & keys[1]) / max(len(keys[0] | keys[1]), 1)
    same_tag, same_name = bool(tags[0] & tags[1]), one.name == other.name
    # One with a `type` is not one without because they have keys in common: an extension is no event.
    if not (same_tag or same_name or alone or (common >= _LIKE and not tags[0] and not tags[1])):
        return None
    return 4 * same_tag + 2 * common + (one.schema == other.schema) + same_name / 2
