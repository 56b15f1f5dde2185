"""`check_input_items` and `repair_usage`."""

from __future__ import annotations

import copy
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from respevents import items as classes
from respevents.inputs import _known, check_input_items, repair_usage

MESSAGE = {"role": "user", "content": "hi"}
pydantic = pytest.importorskip("pydantic")


class Text(pydantic.BaseModel):
    type: Literal["message"] | None = None
    role: str
    content: str | list[dict[str, Any]]


class Call(pydantic.BaseModel):
    type: Literal["function_call"]
    call_id: str


PINNED = Text | Call


@pytest.mark.parametrize("items", [None, "", "hi", [], [MESSAGE], [{"id": "msg_1"}], [{"id": "x", "type": None}]])
def test_what_is_known_is_kept(items):
    assert check_input_items(items) is None


def test_every_input_type_of_the_schema_set_is_known_and_every_output_item_may_be_sent_back():
    assert {"message", "reasoning", "function_call", "function_call_output", "item_reference", "compaction"} <= _known()
    for kind in _known():
        assert check_input_items([{"type": kind}]) is None
    assert len(_known()) > 25
    assert classes.ResponseInputItem


@pytest.mark.parametrize(
    ("items", "param"),
    [
        ([MESSAGE, {"type": "zork"}], "input[1].type"),
        ([{"type": 7}], "input[0].type"),
        ([{}], "input[0].type"),
        ([MESSAGE, "text"], "input[1]"),
        ({"role": "user"}, "input"),
        (7, "input"),
        (b"x", "input"),
        ([{"type": "\ud800"}], "input[0].type"),
    ],
)
def test_what_is_lost_is_named(items, param):
    failure = check_input_items(items)
    assert failure.param == param
    assert failure.http_status == 400 and failure.code == "invalid_prompt"
    failure.message.encode()


def test_a_pinned_pydantic_union_says_itself_what_it_loses():
    assert check_input_items([MESSAGE, {"type": "function_call", "call_id": "c"}], sdk_model=PINNED) is None
    failure = check_input_items([MESSAGE, {"type": "reasoning", "summary": []}], sdk_model=PINNED)
    assert (failure.param, failure.details["type"]) == ("input[1].type", "reasoning")
    extra = [{**MESSAGE, "phase": "final", "none": None}]
    assert check_input_items(extra, sdk_model=PINNED) is None
    failure = check_input_items(extra, sdk_model=PINNED, keys=True)
    assert failure.details["path"] == "$.input[0].phase"
    nested = [{"role": "user", "content": [{"type": "input_text", "text": 1.0}, {"a": {"b": [1]}}]}]
    assert check_input_items(nested, sdk_model=PINNED, keys=True) is None
    both = check_input_items([{"type": "function_call", "call_id": "c"}], known={"message"}, sdk_model=PINNED)
    assert both.param == "input[0].type"


def test_an_item_is_checked_and_never_changed():
    items = [{**MESSAGE, "content": [{"type": "input_text", "text": "x"}]}]
    before = copy.deepcopy(items)
    check_input_items(items, sdk_model=PINNED, keys=True)
    assert items == before


def test_the_installed_openai_sdk_can_be_the_pinned_model():
    responses = pytest.importorskip("openai.types.responses")
    model = responses.ResponseInputItemParam
    good = [
        MESSAGE,
        {"type": "function_call_output", "call_id": "c", "output": "x"},
        {"type": "reasoning", "id": "r", "summary": []},
    ]
    assert check_input_items(good, sdk_model=model, keys=True) is None
    failure = check_input_items([*good, {"type": "hologram_call", "id": "h"}], sdk_model=model)
    assert failure.details["index"] == 3
    failure = check_input_items(
        [{"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}", "mood": "x"}],
        sdk_model=model,
        keys=True,
    )
    assert failure.param == "input[0].mood"


counts = st.integers(0, 10**6)


@given(st.dictionaries(st.sampled_from(["input_tokens", "output_tokens", "total_tokens", "zz"]), counts))
def test_a_repaired_usage_has_every_counter_and_every_given_value(usage):
    before = copy.deepcopy(usage)
    repaired = repair_usage(usage)
    assert usage == before
    assert usage.items() <= repaired.items()
    assert repaired["input_tokens_details"] == {"cached_tokens": 0, "cache_write_tokens": 0}
    assert repaired["output_tokens_details"] == {"reasoning_tokens": 0}
    assert repaired["total_tokens"] == usage.get(
        "total_tokens", usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
    )
    assert repair_usage(repaired) == repaired


def test_null_counters_are_missing_ones_and_odd_ones_stay():
    given_ = {
        "input_tokens": None,
        "output_tokens": "7",
        "input_tokens_details": None,
        "output_tokens_details": {"reasoning_tokens": None, "x": 1},
    }
    assert repair_usage(given_) == {
        "input_tokens": 0, "output_tokens": "7",
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0, "x": 1},
    }  # fmt: skip
    assert repair_usage({"input_tokens_details": []})["input_tokens_details"] == []
