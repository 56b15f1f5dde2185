"""The real clients against the scripted server, and what is recorded of them against the models of readers.

The clients themselves are opt-in: `tests/clients/setup.sh`, then `pytest -m clients`. What was recorded is held here in
every run.
"""

from __future__ import annotations

import functools

import pytest
from outcomes import CHOSEN, GAPS, gap, recorded, results, right, taken
from running import CLIENTS, installed, run

from respevents.readers import READERS, read
from respevents.testing.scenarios import SCENARIOS

RECORDED = results()
MODELLED = [client for client in CLIENTS if client in READERS]
ENDS = {"clean": "clean", "cut": "aborted", "reset": "reset", "stall": "open"}


# ---- the record


def test_every_client_is_recorded_on_every_scenario_that_is_run():
    assert list(RECORDED) == list(CLIENTS)
    for client, one in RECORDED.items():
        assert one["version"], client
        assert list(one["outcomes"]) == CHOSEN, client


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_gets_wrong_is_a_known_gap(client):
    outcomes = RECORDED[client]["outcomes"]
    wrong = {name for name, words in outcomes.items() if not right(name, words)}
    known = {name for name in CHOSEN if gap(client, name)}
    assert {name: outcomes[name] for name in wrong ^ known} == {}


def test_every_gap_is_one_of_a_client_that_is_run():
    for row in GAPS:
        assert any(gap(client, name) == row[2] for client in CLIENTS for name in CHOSEN), row


# ---- the models


def model_words(client, name):
    """What the model does with the scenario, in the words of `outcome`."""
    script = SCENARIOS[name].play({}, 1)
    body = [chunk for chunk in script.chunks if isinstance(chunk, bytes)]
    reading = functools.partial(read, body, client, status=script.status, headers=script.headers)
    found = reading(end=ENDS[script.end])
    if script.end == "stall" and found.kind != reading(end="clean").kind:
        return "waits"  # what comes after it is the client's timeout
    requests = f", {found.requests} requests" if found.requests > 1 else ""
    if found.raises is None and (found.final or "").startswith("raises "):
        return f"told: {found.final.removeprefix('raises ')}{requests}"
    if found.kind == "context_window_full":
        return f"context window full{requests}"
    if found.kind in {"retry", "stop"}:
        if client == "codex":
            return f"told: turn failed{requests}"
        return f"told: {found.code or found.raises or '?'}{requests}"
    if found.kind == "incomplete":
        return f"incomplete{requests}"
    return taken(name, found.text, calls=bool(found.tool_calls)) + ("" if found.tool_calls else requests)


NO_TOOL = "a model counts the calls of functions and of custom tools, not those of the built-in ones"
DIFFERENCES = {
    (client, "apply-patch"): NO_TOOL for client in ("openai-python", "openai-python.stream", "openai-node", "ai-sdk")
}
"""(client, scenario) -> why the model says something else than was recorded."""


@pytest.mark.parametrize(
    ("client", "name"),
    [
        pytest.param(
            client,
            name,
            marks=[pytest.mark.xfail(strict=True, reason=DIFFERENCES[client, name])]
            if (client, name) in DIFFERENCES
            else [],
        )
        for client in MODELLED
        for name in CHOSEN
    ],
)
def test_a_model_reads_a_scenario_as_the_real_client_did(client, name):
    assert model_words(client, name) == RECORDED[client]["outcomes"][name]


# ---- the clients


@functools.cache
def ran(client):
    """As in the record: a client is run once, over all scenarios."""
    pytest.importorskip("h11")
    from respevents.testing.server import ScriptedServer

    if not installed(client):
        pytest.skip(f"{client} is not installed: run tests/clients/setup.sh")
    with ScriptedServer() as server:
        return recorded(run(client, server, CHOSEN))


@pytest.mark.clients
@pytest.mark.parametrize(
    ("client", "name"),
    [
        pytest.param(client, name, marks=[pytest.mark.xfail(strict=True, reason=reason)] if reason else [])
        for client in CLIENTS
        for name in CHOSEN
        for reason in [gap(client, name)]
    ],
)
def test_a_user_gets_what_was_sent_or_is_told_that_it_broke(client, name):
    words = ran(client)["outcomes"][name]
    assert right(name, words), words


@pytest.mark.clients
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_of_the_recorded_version_does_what_is_recorded(client):
    version, outcomes = ran(client).values()
    if version != RECORDED[client]["version"]:
        pytest.skip(f"{client} {version}; recorded is {RECORDED[client]['version']}: run tests/clients/record.py")
    was = RECORDED[client]["outcomes"]
    assert {name: words for name, words in outcomes.items() if words != was[name]} == {}
