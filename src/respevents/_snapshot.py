"""The Response object as OpenAI's servers send it: every key that they always send, the request echoed in it.

Presence and defaults are measured on captures of 2026-01-13 and later. A key that is always there is there here, null
where it has no value; a key that depends on the request (`conversation`, `prompt`, `prompt_cache_options`) comes with
it. `moderation` is there because every capture since 2026-04-23 has it; `tool_usage` is not, because it counts what
OpenAI's own tools did.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from respevents._errors import EncodeError, LocalProtocolError, show
from respevents.wire import encode_json, to_wire

if TYPE_CHECKING:
    from respevents.failures import Failure, Policy

__all__ = [
    "ECHOED",
    "USAGE_DETAILS",
    "checked_usage",
    "ending_events",
    "random_id",
    "request_echo",
    "response_snapshot",
    "standing",
]


_VOLATILE: Final = ("status", "output", "usage", "error", "incomplete_details", "completed_at")
"""Keys of a Response that say how it stands; the others say what it is, and stay."""


class _Echo(NamedTuple):
    """One key of the request that stands in the response."""

    default: Any
    kinds: tuple[type, ...]
    expected: str
    always: bool = True


_NULL_TEXT: Final = _Echo(None, (str,), "a string or null")
_NULL_INT: Final = _Echo(None, (int,), "an integer or null")

_ECHOES: Final[Mapping[str, _Echo]] = {
    "background": _Echo(False, (bool,), "true or false"),
    "conversation": _Echo(None, (str, Mapping), "an id or an object with one", always=False),
    "frequency_penalty": _Echo(0.0, (int, float), "a number"),
    "instructions": _Echo(None, (str, list, tuple), "a string or a list of input items"),
    "max_output_tokens": _NULL_INT,
    "max_tool_calls": _NULL_INT,
    "metadata": _Echo({}, (Mapping,), "an object"),
    "parallel_tool_calls": _Echo(True, (bool,), "true or false"),
    "presence_penalty": _Echo(0.0, (int, float), "a number"),
    "previous_response_id": _NULL_TEXT,
    "prompt": _Echo(None, (Mapping,), "an object", always=False),
    "prompt_cache_key": _NULL_TEXT,
    "prompt_cache_options": _Echo(None, (Mapping,), "an object", always=False),
    "prompt_cache_retention": _NULL_TEXT,
    "reasoning": _Echo({"effort": None, "summary": None}, (Mapping,), "an object"),
    "safety_identifier": _NULL_TEXT,
    "service_tier": _Echo("auto", (str,), "a string"),
    "store": _Echo(True, (bool,), "true or false"),
    "temperature": _Echo(1.0, (int, float), "a number"),
    "text": _Echo({"format": {"type": "text"}, "verbosity": "medium"}, (Mapping,), "an object"),
    "tool_choice": _Echo("auto", (str, Mapping), "a string or an object"),
    "tools": _Echo([], (list, tuple), "a list of tools"),
    "top_logprobs": _Echo(0, (int,), "an integer"),
    "top_p": _Echo(1.0, (int, float), "a number"),
    "truncation": _Echo("disabled", (str,), "a string"),
    "user": _NULL_TEXT,
}

ECHOED: Final = frozenset(_ECHOES)
"""Keys of a Response that repeat the request."""

_WEB_SEARCH: Final = {"search_context_size": "medium", "user_location": None}

# What OpenAI fills in where a request leaves it out.
_TOOLS: Final[Mapping[str, dict[str, Any]]] = {
    "function": {"description": None, "parameters": None, "strict": True},
    "custom": {"description": None, "format": {"type": "text"}},
    "file_search": {
        "filters": None,
        "max_num_results": 20,
        "ranking_options": {"ranker": "auto", "score_threshold": 0.0},
    },
    "mcp": {
        "allowed_tools": None,
        "headers": None,
        "require_approval": "always",
        "server_description": None,
        "server_url": None,
    },
    "tool_search": {"description": None, "parameters": None},
    "web_search": _WEB_SEARCH,
    "web_search_2025_08_26": _WEB_SEARCH,
}
_JSON_SCHEMA: Final = {"description": None, "strict": False}


def random_id(prefix: str) -> str:
    """A random id of OpenAI's form: the prefix, an underscore, 50 hex digits (24 for the id of a call)."""
    return f"{prefix}_{os.urandom(12 if prefix == 'call' else 25).hex()}"


def response_snapshot(
    *,
    model: str,
    id: str | None = None,  # noqa: A002 - the field's own name
    created_at: int | None = None,
    status: str = "in_progress",
    request: Mapping[str, Any] | None = None,
    output: Sequence[Any] = (),
    usage: Mapping[str, Any] | None = None,
    error: Mapping[str, Any] | None = None,
    incomplete_details: Mapping[str, Any] | None = None,
    completed_at: int | None = None,
    strict: bool = False,
) -> dict[str, Any]:
    """A whole Response as a plain mapping, to stand under `response` in an event.

    `created_at` and `completed_at` are whole seconds since 1970; `id` and `created_at` default to a random id and now.
    A value of the request that is not of its kind or cannot be written is replaced by its default, so that a failure
    can always be told; `strict` raises LocalProtocolError naming the key instead.
    """
    base = {
        "id": random_id("resp") if id is None else id,
        "object": "response",
        "created_at": int(time.time()) if created_at is None else created_at,
        **request_echo(request, strict=strict),
        "model": model,
        "moderation": None,
    }
    return standing(
        base,
        status,
        list(output),
        usage=usage,
        error=error,
        incomplete_details=incomplete_details,
        completed_at=completed_at,
    )


def standing(base: dict[str, Any], status: str, output: list[Any], **extra: Any) -> dict[str, Any]:
    """A snapshot: what the response is, and how it stands. `extra`: `usage`, `error`, `incomplete_details`, ..."""
    response = {**base, **dict.fromkeys(_VOLATILE), "status": status, "output": output, **extra}
    if status in {"completed", "incomplete"} and response.get("service_tier") == "auto":
        response["service_tier"] = "default"  # the tier that served it: 431 of 434 captures that asked for none
    return response


def ending_events(
    failure: Failure,
    policy: Policy,
    base: dict[str, Any],
    output: list[Any],
    number: int,
    *,
    started: bool,
    told: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """The events that tell a failure, numbered from `number`; the opening ones too where nothing was sent.

    `base` is the response as announced. `told` is the error of an `error` event that went out already: then
    `response.failed` alone is missing, and says the same.
    """
    kinds = () if started else ("response.created", "response.in_progress")
    events: list[dict[str, Any]] = [{"type": kind, "response": standing(base, "in_progress", [])} for kind in kinds]
    response = standing(base, "failed", output, error=failure.error_object(policy) if told is None else told)
    failed = {"type": "response.failed", "response": response}
    if told is not None or policy.tail == "failed":
        events.append(failed)
    else:
        error = failure.error_event(policy)
        events += (error, failed) if policy.tail == "error,failed" else (failed, error)
    return [{**event, "sequence_number": number + at} for at, event in enumerate(events)]


def request_echo(request: Any, *, strict: bool = False) -> dict[str, Any]:
    """What a response repeats of its request, with OpenAI's defaults. Null in a request is the default."""
    given: Mapping[str, Any] = {}
    if isinstance(request, Mapping):
        given = request
    elif request is not None and strict:
        raise LocalProtocolError(
            "The request is not a mapping",
            path="$.request",
            expected="the body of the request as a mapping",
            got=show(request),
            fix="Pass the decoded JSON of the request, or leave it out.",
        )
    echo: dict[str, Any] = {}
    for key, rule in _ECHOES.items():
        value = given.get(key)
        if value is not None and _fits(key, value, rule, strict=strict):
            echo[key] = _filled(key, value)
        elif rule.always:
            echo[key] = _copy(rule.default)
    return echo


def _fits(key: str, value: Any, rule: _Echo, *, strict: bool) -> bool:
    right = isinstance(value, rule.kinds) or hasattr(value, "model_dump")
    if isinstance(value, bool) and bool not in rule.kinds:
        right = False
    if not strict:
        return right and _writable(key, value)
    if right:
        return True
    raise LocalProtocolError(
        f"The request's {key} is of the wrong kind",
        path=f"$.request.{key}",
        expected=rule.expected,
        got=show(value),
        fix="Check the request before streaming its response; leave the key out for OpenAI's default.",
    )


def _writable(key: str, value: Any) -> bool:
    try:
        encode_json({"object": "response", key: _filled(key, value)})
    except Exception:  # noqa: BLE001 - whatever a request holds, the failure has to be told
        return False
    return True


def _filled(key: str, value: Any) -> Any:
    """A value of the request with the keys that OpenAI adds to it."""
    if key == "conversation" and isinstance(value, str):
        return {"id": value}
    if key == "tools":
        return [_tool(tool) for tool in value]
    if key == "reasoning" and isinstance(value, Mapping):
        return {"effort": None, "summary": None, **value}
    if key == "text" and isinstance(value, Mapping):
        text: dict[str, Any] = {"format": {"type": "text"}, "verbosity": "medium"}
        text.update((name, one) for name, one in value.items() if one is not None)
        form = text["format"]
        if isinstance(form, Mapping) and form.get("type") == "json_schema":
            text["format"] = {**_JSON_SCHEMA, **form}
        return text
    return value


def _tool(tool: Any) -> Any:
    if not isinstance(tool, Mapping):
        return tool
    kind = tool.get("type")
    whole = {**_copy(_TOOLS.get(kind, {}) if isinstance(kind, str) else {}), **tool}
    if kind == "mcp":
        # They hold keys to somebody's server. A response is stored, logged and shown; OpenAI keeps them out of it.
        whole.pop("authorization", None)
        whole["headers"] = None
    return whole


def _copy(default: Any) -> Any:
    """Defaults are shared by all streams, the response belongs to one."""
    if isinstance(default, dict):
        return {key: _copy(value) for key, value in default.items()}
    return list(default) if isinstance(default, list) else default


# ---- usage --------------------------------------------------------------------------------------------------------

USAGE_DETAILS: Final = {
    "input_tokens_details": ("cached_tokens", "cache_write_tokens"),
    "output_tokens_details": ("reasoning_tokens",),
}


def checked_usage(usage: Any) -> dict[str, Any] | None:
    """`usage` as it stands in the response: None, or an object (mapping, Struct, model) with every count an integer.

    `input_tokens` and `output_tokens` must be given. What is absent beside them is what an engine without it counts:
    0 cached, cache-written and reasoning tokens, and the sum as the total (SDKs since 2.48 require every one of them).
    Null or anything that is no count raises LocalProtocolError naming the key.
    """
    if usage is None:
        return None
    try:
        # Under `usage` of a response the counters are integers, however they were given (11.0 is 11).
        found = to_wire({"object": "response", "usage": usage})["usage"]
    except EncodeError as error:
        raise _bad_usage((), "an object of token counts", show(usage)) from error
    if not isinstance(found, dict):
        raise _bad_usage((), "an object of token counts, or None", show(usage))
    for key, counts in USAGE_DETAILS.items():
        details = found.setdefault(key, {})
        if not isinstance(details, dict):
            raise _bad_usage((key,), "an object of token counts", show(details))
        for count in counts:
            _check_count((key, count), details.setdefault(count, 0))
    for key in ("input_tokens", "output_tokens"):
        _check_count((key,), found.get(key))
    _check_count(("total_tokens",), found.setdefault("total_tokens", found["input_tokens"] + found["output_tokens"]))
    return found


def _check_count(path: tuple[str, ...], value: Any) -> None:
    if type(value) is not int or value < 0:
        raise _bad_usage(path, "a number of tokens", show(value))


def _bad_usage(path: tuple[str, ...], expected: str, got: str) -> LocalProtocolError:
    return LocalProtocolError(
        "The usage is not whole",
        path=".".join(("$.usage", *path)),
        expected=expected,
        got=got,
        fix="Give input_tokens and output_tokens as integers, and what else was counted; or usage=None.",
    )
