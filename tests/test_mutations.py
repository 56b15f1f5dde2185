"""Every rule has a mutation that it must catch, at the right frame, in every stream that the mutation fits."""

from __future__ import annotations

import functools

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from respevents import ResponseStream
from respevents._dialect import DIALECTS
from respevents._grammar import GRAMMARS
from respevents.findings import RULES
from respevents.testing import strategies
from respevents.testing._scenes import frames as frames_of
from respevents.testing.mutations import MUTATIONS
from respevents.validate import validate_stream

NOT_MUTATED = {
    "RE305": "an unknown item type is no fault of the stream",
    "RE406": "the walk of the strategies makes no event of another type",
    "RE407": "part-order and deltas-missing reach the same state from another side",
    "RE410": "a second part is an index-order fault first",
    "RE411": "a part of another kind is a part-order fault first",
    "RE415": "audio belongs to no item",
    "RE418": "steps are mutated through the lifecycle tests",
    "RE419": "audio belongs to no item",
    "RE711": "a recorder's doing, not a server's",
}


def dialect_of(mutation):
    return mutation.options.get("dialect", "openai")


@functools.cache
def examples(dialect):
    """Some streams, of each ending and of messages and calls."""
    made = []

    def keep(frames):
        made.append(frames)

    few = settings(max_examples=25, derandomize=True, database=None, phases=[Phase.generate])
    for ending in ("response.completed", "response.incomplete", "response.failed"):
        for item in ("message", "function_call", None):
            few(given(strategies.frame_lists(ending=ending, item=item, dialect=dialect))(keep))()
    stream = ResponseStream(model="m", id="resp_1", created_at=1767225600, dialect=dialect)
    body = stream.start() + stream.reasoning().text("hm")
    for name in ("f", "g"):
        call = stream.function_call(name)
        body += call.arguments('{"a"') + call.arguments(":1}")
    made.append(frames_of(body + stream.complete({"input_tokens": 1, "output_tokens": 2})))
    return made


def test_every_rule_has_a_mutation_or_a_reason():
    mutated = {mutation.rule for mutation in MUTATIONS.values()}
    live = {rule.id for rule in RULES.values() if rule.layer == "server"}  # no stream shows them: test_cli_check.py
    assert set(RULES) - mutated - set(NOT_MUTATED) - live == set()
    assert not mutated & set(NOT_MUTATED)


def caught(mutation, frames):
    found = mutation.apply(frames)
    if found is None:
        return None
    report = validate_stream(found.body, **mutation.options)
    mine = [one for one in report.findings if one.rule == mutation.rule]
    assert mine, (mutation.name, [str(one)[:140] for one in report.findings])
    assert mine[0].frame == found.frame, (mutation.name, mine[0].frame, found.frame)
    before = {one.rule for one in validate_stream(b"".join(frames), **mutation.options).findings}
    # Whatever a mutation puts in may be unknown to the schema besides.
    others = {one.rule for one in report.findings} - {mutation.rule, "RE304"} - mutation.also - before
    assert not others, (mutation.name, [str(one)[:160] for one in report.findings if one.rule in others])
    return found


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_caught_by_its_rule_at_its_frame(name):
    applied = sum(caught(MUTATIONS[name], frames) is not None for frames in examples(dialect_of(MUTATIONS[name])))
    assert applied, "it fits no stream at all"


@settings(max_examples=60)
@given(st.data(), st.sampled_from(sorted(MUTATIONS)))
def test_mutations_of_any_stream_are_caught(data, name):
    mutation = MUTATIONS[name]
    caught(mutation, data.draw(strategies.frame_lists(dialect=dialect_of(mutation))))


@settings(max_examples=60)
@given(st.data(), st.sampled_from(DIALECTS))
def test_a_legal_stream_has_no_error(data, dialect):
    body = data.draw(strategies.streams(dialect=dialect))
    report = validate_stream(body, dialect=dialect, schema=GRAMMARS[dialect].version)
    assert report.ok, str(report)
