"""The events that @ai-sdk/openai 4.0.118 accepts: what of each must be there, and of which type.

An event of a known type that does not fit becomes a `TypeValidationError`; one of another type is passed over. Source:
`openaiResponsesChunkSchema` in its `responses/openai-responses-api`. Keys that are not named may hold anything.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    Check = Callable[[Any], bool]

__all__ = ["fits"]

_ABSENT: Final[Any] = object()
"""A key that did not come (JavaScript's undefined)."""


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _any(_value: Any) -> bool:
    return True


def _maybe(check: Check) -> Check:
    """Null or absent will do."""
    return lambda value: value is None or value is _ABSENT or check(value)


def _null(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _optional(check: Check) -> Check:
    return lambda value: value is _ABSENT or check(value)


def _one(*words: str) -> Check:
    return lambda value: isinstance(value, str) and value in words


def _either(*checks: Check) -> Check:
    return lambda value: any(check(value) for check in checks)


def _list(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(check(one) for one in value)


def _map(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(check(one) for one in value.values())


def _object(**keys: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(check(value.get(key, _ABSENT)) for key, check in keys.items())


def _tagged(**kinds: Check) -> Check:
    def check(value: Any) -> bool:
        kind = value.get("type") if isinstance(value, dict) else None
        return isinstance(kind, str) and kind in kinds and kinds[kind](value)

    return check


_ERROR: Final = _either(
    _text,
    _object(type=_optional(_text), code=_optional(_either(_number, _text)), message=_optional(_text)),
)
_STATUS: Final = _one("in_progress", "completed", "incomplete")
_OUTPUTS: Final = _null(_list(_tagged(logs=_object(logs=_text), image=_object(url=_text))))
_CALLER: Final = _maybe(_tagged(direct=_any, program=_object(caller_id=_text)))

_USAGE: Final = _object(
    input_tokens=_number,
    output_tokens=_number,
    total_tokens=_optional(_number),
    input_tokens_details=_maybe(
        _object(
            cached_tokens=_maybe(_number),
            cache_write_tokens=_maybe(_number),
            cache_write_tokens_details=_maybe(_object(ttl_30m_tokens=_maybe(_number), ttl_12h_tokens=_maybe(_number))),
            orchestration_input_tokens=_maybe(_number),
            orchestration_input_cached_tokens=_maybe(_number),
        )
    ),
    output_tokens_details=_maybe(
        _object(reasoning_tokens=_maybe(_number), orchestration_output_tokens=_maybe(_number))
    ),
)
_ENDED: Final = {
    "prompt_cache_diagnostics": _maybe(
        _object(
            type=_text,
            reason=_maybe(_text),
            cache_missed_tokens=_maybe(_number),
            comparison_reusable_tokens=_maybe(_number),
        )
    ),
    "incomplete_details": _maybe(_object(reason=_text)),
    "usage": _maybe(_USAGE),
    "reasoning": _maybe(_object(context=_maybe(_text))),
    "service_tier": _maybe(_text),
}
_STARTED: Final = _object(
    response=_object(id=_text, created_at=_number, model=_text, service_tier=_maybe(_text)),
)
_FINISHED: Final = _object(response=_object(**_ENDED))

_POINT: Final = {"x": _number, "y": _number, "keys": _maybe(_list(_text))}
_ACTION: Final = _tagged(
    click=_object(button=_one("left", "right", "wheel", "back", "forward"), **_POINT),
    double_click=_object(**_POINT),
    drag=_object(path=_list(_object(x=_number, y=_number)), keys=_maybe(_list(_text))),
    keypress=_object(keys=_list(_text)),
    move=_object(**_POINT),
    screenshot=_any,
    scroll=_object(scroll_x=_number, scroll_y=_number, **_POINT),
    type=_object(text=_text),
    wait=_any,
)
_PATCH: Final = _object(
    id=_text,
    call_id=_text,
    status=_one("in_progress", "completed"),
    operation=_tagged(
        create_file=_object(path=_text, diff=_text),
        delete_file=_object(path=_text),
        update_file=_object(path=_text, diff=_text),
    ),
)
_SEARCH: Final = {"id": _text, "execution": _one("server", "client"), "call_id": _null(_text), "status": _STATUS}
_ID: Final = _object(id=_text)
_FUNCTION: Final = {
    "id": _text,
    "call_id": _text,
    "name": _text,
    "arguments": _text,
    "async": _maybe(_flag),
    "namespace": _maybe(_text),
    "caller": _CALLER,
}
_CUSTOM: Final = {"id": _text, "call_id": _text, "name": _text, "input": _text, "async": _maybe(_flag)}
_CODE: Final = {"id": _text, "container_id": _text, "code": _null(_text), "outputs": _OUTPUTS}

_BOTH: Final[dict[str, Check]] = {
    "message": _object(id=_text, phase=_maybe(_one("commentary", "final_answer"))),
    "reasoning": _object(id=_text, encrypted_content=_maybe(_text)),
    "program": _object(id=_text, call_id=_text, code=_text, fingerprint=_text),
    "program_output": _object(id=_text, call_id=_text, result=_text, status=_one("completed", "incomplete")),
    "computer_call": _object(
        id=_text,
        call_id=_maybe(_text),
        status=_STATUS,
        action=_maybe(_ACTION),
        actions=_maybe(_list(_ACTION)),
        pending_safety_checks=_maybe(_list(_object(id=_text, code=_maybe(_text), message=_maybe(_text)))),
    ),
    "local_shell_call": _object(
        id=_text,
        call_id=_text,
        action=_tagged(
            exec=_object(
                command=_list(_text),
                timeout_ms=_optional(_number),
                user=_optional(_text),
                working_directory=_optional(_text),
                env=_optional(_map(_text)),
            )
        ),
    ),
    "apply_patch_call": _PATCH,
    "shell_call": _object(
        id=_text,
        call_id=_text,
        status=_STATUS,
        action=_object(commands=_list(_text), timeout_ms=_maybe(_number), max_output_length=_maybe(_number)),
    ),
    "shell_call_output": _object(
        id=_text,
        call_id=_text,
        status=_STATUS,
        max_output_length=_maybe(_number),
        output=_list(
            _object(stdout=_text, stderr=_text, outcome=_tagged(timeout=_any, exit=_object(exit_code=_number)))
        ),
    ),
    "tool_search_call": _object(**_SEARCH),
    "tool_search_output": _object(tools=_list(_map(_any)), **_SEARCH),
}
"""Items that are read alike when they are added and when they are done."""

_ADDED: Final = _tagged(
    **_BOTH,
    function_call=_object(**_FUNCTION),
    web_search_call=_object(id=_text, status=_text),
    file_search_call=_ID,
    image_generation_call=_ID,
    code_interpreter_call=_object(status=_text, **_CODE),
    mcp_call=_object(id=_text, status=_text, approval_request_id=_maybe(_text)),
    mcp_list_tools=_ID,
    mcp_approval_request=_ID,
    custom_tool_call=_object(**_CUSTOM),
    compaction=_object(id=_text, encrypted_content=_maybe(_text)),
)
_DONE_KINDS: Final[dict[str, Check]] = {
    **_BOTH,
    "function_call": _object(status=_STATUS, **_FUNCTION),
    "custom_tool_call": _object(status=_one("completed"), **_CUSTOM),
    "code_interpreter_call": _object(**_CODE),
    "image_generation_call": _object(id=_text, result=_text),
    "web_search_call": _object(
        id=_text,
        status=_text,
        action=_maybe(
            _tagged(
                search=_object(
                    query=_maybe(_text),
                    queries=_maybe(_list(_text)),
                    sources=_maybe(_list(_tagged(url=_object(url=_text), api=_object(name=_text)))),
                ),
                open_page=_object(url=_maybe(_text)),
                find_in_page=_object(url=_maybe(_text), pattern=_maybe(_text)),
            )
        ),
    ),
    "file_search_call": _object(
        id=_text,
        queries=_list(_text),
        results=_maybe(
            _list(
                _object(
                    attributes=_map(_either(_text, _number, _flag)),
                    file_id=_text,
                    filename=_text,
                    score=_number,
                    text=_text,
                )
            )
        ),
    ),
    "mcp_call": _object(
        id=_text,
        status=_text,
        arguments=_text,
        name=_text,
        server_label=_text,
        output=_maybe(_text),
        error=_maybe(_ERROR),
        approval_request_id=_maybe(_text),
    ),
    "mcp_list_tools": _object(
        id=_text,
        server_label=_text,
        tools=_list(
            _object(name=_text, description=_optional(_text), input_schema=_any, annotations=_optional(_map(_any)))
        ),
        error=_optional(_ERROR),
    ),
    "mcp_approval_request": _object(
        id=_text, server_label=_text, name=_text, arguments=_text, approval_request_id=_optional(_text)
    ),
    "compaction": _object(id=_text, encrypted_content=_text),
}
_DONE: Final = _tagged(**_DONE_KINDS)

_LOGPROB: Final = {"token": _text, "logprob": _number}
_PIECE: Final = {"item_id": _text, "output_index": _number}
_LOOSE: Final = {"item_id": _text, "output_index": _maybe(_number)}
_SUMMARY: Final = {**_LOOSE, "summary_index": _number}
_SPAN: Final = {"start_index": _number, "end_index": _number}
_FILE: Final = {"file_id": _text, "filename": _text}

_EVENTS: Final[dict[str, Check]] = {
    "error": _either(
        _object(
            sequence_number=_number,
            error=_object(type=_text, code=_maybe(_text), message=_text, param=_maybe(_text)),
        ),
        _object(sequence_number=_number, code=_maybe(_text), message=_text, param=_maybe(_text)),
    ),
    "response.created": _STARTED,
    "response.in_progress": _STARTED,
    "response.completed": _FINISHED,
    "response.incomplete": _FINISHED,
    "response.failed": _object(
        sequence_number=_number,
        response=_object(error=_maybe(_object(code=_maybe(_text), message=_text)), **_ENDED),
    ),
    "response.output_item.added": _object(output_index=_number, item=_ADDED),
    "response.output_item.done": _object(output_index=_number, item=_DONE),
    "response.output_text.delta": _object(
        delta=_text, logprobs=_maybe(_list(_object(top_logprobs=_list(_object(**_LOGPROB)), **_LOGPROB))), **_LOOSE
    ),
    "response.refusal.delta": _object(content_index=_maybe(_number), delta=_text, **_LOOSE),
    "response.refusal.done": _object(content_index=_maybe(_number), refusal=_text, **_LOOSE),
    "response.function_call_arguments.delta": _object(delta=_text, **_PIECE),
    "response.function_call_arguments.done": _object(arguments=_text, **_PIECE),
    "response.custom_tool_call_input.delta": _object(delta=_text, **_PIECE),
    "response.image_generation_call.partial_image": _object(partial_image_b64=_text, **_PIECE),
    "response.code_interpreter_call_code.delta": _object(delta=_text, **_PIECE),
    "response.code_interpreter_call_code.done": _object(code=_text, **_PIECE),
    "response.output_text.annotation.added": _object(
        annotation=_tagged(
            url_citation=_object(url=_text, title=_text, **_SPAN),
            file_citation=_object(index=_number, **_FILE),
            container_file_citation=_object(container_id=_text, **_FILE, **_SPAN),
            file_path=_object(file_id=_text, index=_number),
        )
    ),
    "response.reasoning_summary_part.added": _object(**_SUMMARY),
    "response.reasoning_summary_part.done": _object(**_SUMMARY),
    "response.reasoning_summary_text.delta": _object(delta=_text, **_SUMMARY),
    "response.apply_patch_call_operation_diff.delta": _object(delta=_text, obfuscation=_maybe(_text), **_PIECE),
    "response.apply_patch_call_operation_diff.done": _object(diff=_text, **_PIECE),
}
_OF_ITEMS: Final = frozenset({"response.output_item.added", "response.output_item.done"})


def fits(event: Any) -> bool | None:
    """True for an event that is acted on, None for one of a type that is passed over, False for one that is refused."""
    kind = event.get("type") if isinstance(event, dict) else None
    if not isinstance(kind, str):
        return False
    check = _EVENTS.get(kind)
    if check is None:
        return None
    if check(event):
        return True
    if kind in _OF_ITEMS:
        item = event.get("item")
        item_type = item.get("type") if isinstance(item, dict) else None
        if isinstance(item_type, str) and item_type not in _DONE_KINDS:
            return None
    return False
