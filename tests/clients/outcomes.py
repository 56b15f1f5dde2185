"""What the real clients made of the scripted answers, in a few words; which of it is right, and which is a known gap.

`results.json` holds the words of each client, `record.py` writes it.
"""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from respevents import FailureCode, FrameDecoder
from respevents._errors import ProtocolError
from respevents.testing.scenarios import SCENARIOS
from respevents.wire import decode_json

RESULTS = Path(__file__).parent / "results.json"


def results() -> dict[str, Any]:
    """`{client: {"version": ..., "outcomes": {scenario: words}}}`."""
    found: dict[str, Any] = json.loads(RESULTS.read_text())
    return found


CODES = (
    "server_error", "context_length_exceeded", "rate_limit_exceeded", "insufficient_quota", "invalid_prompt",
    "server_is_overloaded", "slow_down", "model_not_found", "content_policy_violation", "invalid_api_key",
    "upstream_truncated", "stream_failed", "invalid_image", "usage_not_included",
)  # fmt: skip
"""The codes that a server of today sends; every code of the catalogue answers as one of these does."""

FAULTS = (
    "no-event-line", "crlf", "lone-cr", "a-mark", "no-last-blank-line", "two-data-lines", "an-id-line", "cut-json",
    "not-a-number", "half-a-pair", "invalid-utf-8", "an-unknown-event", "no-type", "no-created", "no-item-added",
    "an-item-left-open", "no-part-added", "no-deltas", "no-usage", "no-number", "an-event-after-the-end",
    "another-text", "a-null-error", "no-failed-after-an-error", "a-number-for-a-code", "a-float-index",
)  # fmt: skip
"""The faults that some client minds."""

assert {*CODES} <= {code.value for code in FailureCode}

CHOSEN = [
    one.name
    for one in SCENARIOS.values()
    if one.group in {"streams that go well", "endings"}
    or (one.group == "bodies that break" and one.name not in {"stall", "stall-at-once"})
    or one.name in {"over-length", "rate-limit-delay", "http-retry-after"}
    or one.name in {f"fail-{code}" for code in CODES}
    or one.name in {f"fail-{code}-after-text" for code in CODES[:4]}
    or one.name in {f"http-{cause}" for cause in ("context_length_exceeded", "rate_limited", "quota", "auth", "internal_error", "overloaded")}
    or one.name in {f"fault-{fault}" for fault in FAULTS}
]  # fmt: skip
"""What is run. Left out: bodies that hang for good, which every client waits for."""


# ---- in a few words

CUT_SHORT = {"incomplete", "length", "content-filter", "content_filter", "interrupted"}
"""How a client may say that it got only a part: the API's word, those of pydantic-ai and the AI SDK's."""


def wanted(name: str) -> str:
    """The text of the whole answer, as the script's own bytes have it; empty where there is none."""
    chunks = SCENARIOS[name].play({}, 1).chunks
    decoder = FrameDecoder()
    text = ""
    for frame in decoder.feed(b"".join(chunk for chunk in chunks if isinstance(chunk, bytes))):
        try:
            event = decode_json(frame.data)
        except ProtocolError:
            continue
        if isinstance(event, dict) and event.get("type") in {"response.output_text.done", "response.refusal.done"}:
            text += str(event.get("text") or event.get("refusal"))
    return text


def outcome(name: str, result: dict[str, Any]) -> str:
    """One of: completed, tool call, incomplete, told (CODE or class), context window full, success (...), waits."""
    error = result["error"]
    requests = f", {result['requests']} requests" if result["requests"] > 1 and not result["calls"] else ""
    if error is not None and error["class"] == "waits":
        return "waits"
    if error is not None:
        if "ran out of room in the model's context window" in error["message"]:
            return f"context window full{requests}"
        if error["message"].startswith("Incomplete response returned"):
            return f"incomplete{requests}"
        return f"told: {error['code'] or error['class']}{requests}"
    if result["terminal"] == "response.failed" or result.get("error_event"):
        return f"told: {result.get('code') or result.get('error_event')}{requests}"
    if result["terminal"] == "response.incomplete" or result.get("final") in CUT_SHORT:
        return f"incomplete{requests}"
    return taken(name, result["text"], calls=bool(result["calls"])) + ("" if result["calls"] else requests)


def taken(name: str, text: str, *, calls: bool) -> str:
    """The words for an answer that was taken for whole: is it what was sent?"""
    whole = wanted(name)
    if calls and not (whole and whole == text):
        return "tool call"
    if whole == text and (whole or SCENARIOS[name].group == "streams that go well"):
        return "completed"
    return "success: another text" if text else "success: no text"


def recorded(ran: dict[str, Any]) -> dict[str, Any]:
    """What `run` gave, as it stands in `results.json`."""
    return {
        "version": ran["version"],
        "outcomes": {name: outcome(name, ran["results"][name]) for name in CHOSEN},
    }


# ---- what is right


def right(name: str, words: str) -> bool:
    """Whether the user of the client gets what was sent, or is told that it broke."""
    kind = words.partition(":")[0].partition(",")[0]
    if kind in {"success", "waits"}:
        return False
    told = kind in {"told", "context window full"}
    if name in _FAILING or name.startswith(("fail-", "http-", "ending-")) or name.endswith("-after-failed"):
        return told
    if name.startswith("incomplete-"):
        return told or kind == "incomplete"
    if name == "refusal" and (told or kind == "incomplete"):
        return True
    if name.endswith("-after-completed"):
        return told or kind == "completed"
    if SCENARIOS[name].group == "streams that go well":
        return kind == ("tool call" if name in _CALLING else "completed")
    if SCENARIOS[name].group == "bodies that break":
        return told or kind == "incomplete"
    return True  # a fault that changes no text: read past it, or say so


_CALLING = {"tool-call", "tool-calls", "custom-tool", "apply-patch"}
_FAILING = {"over-length", "rate-limit-delay", "fault-no-failed-after-an-error", "fault-a-number-for-a-code"}

GAPS = (
    ("*", "fault-another-text", "The deltas or the finished item are believed, and nothing is compared with the rest."),
    ("codex", "fault-an-item-left-open", "Text is shown when its item is done, and is lost when it never is."),
    ("codex", "refusal", "The text of a refusal is not shown."),
    ("langchain-openai", "refusal", "A refusal stands in `additional_kwargs`, not in the content."),
    ("codex|langchain-openai", "apply-patch", "The item is passed over."),
    ("[!c]*", "stall-after-completed", "It reads on after the terminal event: the server has to end the body."),
    ("litellm", "stall-after-failed", "It reads on after the terminal event: the server has to end the body."),
    (
        "openai-python|openai-python 2.48|openai-node*|langchain-openai|pydantic-ai|litellm",
        "no-terminal*",
        "The end of the body is taken for the end of the answer.",
    ),
    (
        "openai-python|openai-python 2.48|openai-node",
        "empty|json-instead",
        "A body without events is an answer without events, whatever its content type.",
    ),
    (
        "openai-python*|openai-node|openai-agents|langchain-openai|pydantic-ai",
        "fault-no-type",
        "An event without a type is passed over, and its text with it.",
    ),
    ("openai-node.stream", "apply-patch|unknown-event", "The helper raises on an event that it does not know."),
    ("openai-agents", "custom-tool|shell|apply-patch", "The agent of this run has no such tool."),
    (
        "openai-agents|pydantic-ai",
        "image|custom-tool|apply-patch",
        "The agent wants text or a call that it knows, and asks again in vain.",
    ),
)
"""(clients, scenarios, why): what is known to go wrong, by patterns of names; the first that fits gives the reason."""


def gap(client: str, name: str) -> str | None:
    """Why this client is known to get this scenario wrong, if it is."""
    return next((why for clients, names, why in GAPS if _fits(client, clients) and _fits(name, names)), None)


def _fits(name: str, patterns: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns.split("|"))
