"""The failure catalogue: what can go wrong, which code says so, and what named clients do on that code.

Data only. `failures`, the classifier, the `codes` command and the docs read it; nothing else may restate it.
Effects marked "run" were observed: each released client was run against a scripted server that answered
`response.created`, `response.in_progress` and a `response.failed` with the code (Codex CLI 0.171.0,
@ai-sdk/openai 4.0.118, pydantic-ai 2.68.0, LiteLLM 1.110.2, strands-agents 1.62.0).
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CATALOGUE", "Cause", "CauseFacts", "CodeFacts", "CodexEffect", "Ending", "FailureCode", "Retry"]

Ending = Literal["cleanly", "fault", "silent"]
"""`cleanly`: the failure frames, then a normal end of the body. `fault`: the same bytes, and the exception is the
server's own affair too: it is reported, and raised again where the policy says so. `silent`: nobody is left to
read; nothing is sent, and the hang-up is raised again."""

Retry = Literal["never", "later", "again"]
"""What asking again with the same request can do: nothing, help after a while, help at once."""

CodexEffect = Literal["context_window", "stop", "wait", "retry"]
"""What Codex CLI 0.171.0 does on the code in `response.failed`. `context_window`: one request, the conversation is
compacted before the next turn. `stop`: one request, the message is shown. `wait`: 5 retries, after the delay named
in the message. `retry`: 5 retries with its own backoff (6 requests in all); every code it does not know ends here."""


class CodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one value of `error.code`. Statuses are HTTP statuses; None where nothing was measured."""

    error_type: str
    """The `error.type` that fits the code. @ai-sdk/openai looks for words in "code type" and decides on retries by
    the status they stand for, so a type of another family would turn a rejection into a retry."""
    retry: Retry
    codex: CodexEffect = "retry"
    codex_since: str | None = None
    """The first release of those run with this effect, where it changed."""
    sdk_since: str | None = None
    """The first openai-python release whose `ResponseError.code` literal has the code; None: not in it (3.57.0)."""
    ai_sdk: int | None = None
    """The status @ai-sdk/openai takes it for; it asks again (3 requests in all) on 408, 409, 429 but not
    insufficient_quota, and 500 up."""
    pydantic_ai: str | None = None
    litellm: int | None = None
    strands: str | None = None
    evidence: Literal["run", "binary", "source", "choice"] = "run"
    """`run`: observed. `binary`, `source`: read there, not run. `choice`: a code of ours; no client knows it."""


def _image(ai_sdk: int | None = None, litellm: int | None = 400, **more: str) -> CodeFacts:
    measured = ai_sdk is not None
    return CodeFacts(
        error_type="invalid_request_error",
        retry="never",
        sdk_since="1.66.0",
        ai_sdk=ai_sdk,
        pydantic_ai="ModelAPIError" if measured else None,
        litellm=litellm,  # its table names every image code
        evidence="run" if measured else "source",
        **more,  # type: ignore[arg-type]
    )


def _audio(evidence: Literal["run", "binary"] = "binary", ai_sdk: int | None = None) -> CodeFacts:
    return CodeFacts(
        error_type="invalid_request_error",
        retry="never",
        codex="stop",
        ai_sdk=ai_sdk,
        evidence=evidence,
        pydantic_ai=None if ai_sdk is None else "ModelAPIError",
        litellm=None if ai_sdk is None else 500,
    )


def _spend(**more: str) -> CodeFacts:
    return CodeFacts(
        error_type="insufficient_quota",
        retry="never",
        codex="stop",
        ai_sdk=500,
        pydantic_ai="ModelQuotaExceededError",
        litellm=500,
        **more,  # type: ignore[arg-type]
    )


def _refused(
    error_type: str = "invalid_request_error",
    retry: Retry = "never",
    codex: CodexEffect = "stop",
    ai_sdk: int | None = 500,
    litellm: int = 500,
    pydantic_ai: str = "ModelAPIError",
    codex_since: str | None = None,
    sdk_since: str | None = None,
) -> CodeFacts:
    return CodeFacts(
        error_type=error_type,
        retry=retry,
        codex=codex,
        codex_since=codex_since,
        sdk_since=sdk_since,
        ai_sdk=ai_sdk,
        pydantic_ai=pydantic_ai,
        litellm=litellm,
    )


def _fault(retry: Retry = "again", ai_sdk: int = 500, litellm: int = 500, **more: str) -> CodeFacts:
    return CodeFacts(
        error_type="server_error",
        retry=retry,
        ai_sdk=ai_sdk,
        litellm=litellm,
        **{"pydantic_ai": "ModelAPIError", **more},  # type: ignore[arg-type]
    )


class FailureCode(str, Enum):
    """Every known value of `error.code`; a member is its string. The world is open: any other string may be sent.

    `facts` says what clients make of it.
    """

    facts: CodeFacts

    def __new__(cls, code: str, facts: CodeFacts) -> FailureCode:  # noqa: PYI034 - an enum with members has no subclass
        member = str.__new__(cls, code)
        member._value_ = code
        member.facts = facts
        return member

    def __str__(self) -> str:
        return str(self.value)

    # In the literal of the SDK.
    SERVER_ERROR = "server_error", _fault(pydantic_ai="ModelServerError", sdk_since="1.66.0")
    RATE_LIMIT_EXCEEDED = (
        "rate_limit_exceeded",
        CodeFacts(
            error_type="tokens",  # OpenAI's own type for it, in a captured failure
            retry="later",
            codex="wait",
            codex_since="0.160.0",
            sdk_since="1.66.0",
            ai_sdk=429,
            pydantic_ai="ModelRateLimitError",
            litellm=429,
            strands="ModelThrottledException",
        ),
    )
    INVALID_PROMPT = (
        "invalid_prompt",
        _refused(ai_sdk=400, litellm=400, codex_since="0.101.0", sdk_since="1.66.0"),
    )
    DATA_RESIDENCY_MISMATCH = (
        "data_residency_mismatch",
        CodeFacts(error_type="invalid_request_error", retry="never", sdk_since="2.48.0"),  # as for invalid_api_key
    )
    BIO_POLICY = "bio_policy", _refused(sdk_since="2.45.0")
    MISALIGNMENT_POLICY_VIOLATION = "misalignment_policy_violation", _refused(sdk_since="3.8.0")
    VECTOR_STORE_TIMEOUT = "vector_store_timeout", _fault(ai_sdk=504, litellm=504, sdk_since="1.66.0")
    INVALID_IMAGE = "invalid_image", _image(400)
    INVALID_IMAGE_FORMAT = "invalid_image_format", _image(400)
    INVALID_BASE64_IMAGE = "invalid_base64_image", _image()
    INVALID_IMAGE_URL = "invalid_image_url", _image()
    IMAGE_TOO_LARGE = "image_too_large", _image(500)
    IMAGE_TOO_SMALL = "image_too_small", _image()
    IMAGE_PARSE_ERROR = "image_parse_error", _image()
    IMAGE_CONTENT_POLICY_VIOLATION = "image_content_policy_violation", _image()
    INVALID_IMAGE_MODE = "invalid_image_mode", _image()
    IMAGE_FILE_TOO_LARGE = "image_file_too_large", _image()
    UNSUPPORTED_IMAGE_MEDIA_TYPE = "unsupported_image_media_type", _image()
    EMPTY_IMAGE_FILE = "empty_image_file", _image()
    FAILED_TO_DOWNLOAD_IMAGE = "failed_to_download_image", _image(500)
    IMAGE_FILE_NOT_FOUND = "image_file_not_found", _image()

    # Not in the literal, and acted on all the same.
    CONTEXT_LENGTH_EXCEEDED = (
        "context_length_exceeded",
        CodeFacts(
            error_type="invalid_request_error",
            retry="never",
            codex="context_window",
            ai_sdk=400,
            pydantic_ai="ModelContextWindowExceededError",
            litellm=400,
            strands="ContextWindowOverflowException",
        ),
    )
    INSUFFICIENT_QUOTA = (
        "insufficient_quota",
        CodeFacts(
            error_type="insufficient_quota",  # as in two captured failures
            retry="never",
            codex="stop",
            codex_since="0.80.0",
            ai_sdk=429,
            pydantic_ai="ModelQuotaExceededError",
            litellm=429,
        ),
    )
    CREDIT_BALANCE_EXHAUSTED = "credit_balance_exhausted", _spend()
    ORGANIZATION_SPEND_LIMIT_EXCEEDED = "organization_spend_limit_exceeded", _spend()
    PROJECT_SPEND_LIMIT_EXCEEDED = "project_spend_limit_exceeded", _spend()
    USAGE_NOT_INCLUDED = "usage_not_included", _refused(codex_since="0.80.0")
    BUDGET_REACHED = "budget_reached", _refused("insufficient_quota")
    SERVER_IS_OVERLOADED = (
        "server_is_overloaded",
        _refused(
            "service_unavailable_error",
            "later",
            ai_sdk=503,
            pydantic_ai="ModelOverloadedError",
            codex_since="0.101.0",
        ),
    )
    SLOW_DOWN = (
        "slow_down",
        _refused("service_unavailable_error", "later", codex="wait", codex_since="0.160.0"),
    )
    POLICY_CAPACITY_UNAVAILABLE = (
        "policy_capacity_unavailable",
        _refused("service_unavailable_error", "later"),
    )
    FLEX_UNAVAILABLE = "flex_unavailable", _refused("service_unavailable_error", "later", litellm=429)
    MODEL_NOT_FOUND = (
        "model_not_found",
        _refused(ai_sdk=404, litellm=400, pydantic_ai="ModelNotFoundError", codex_since="0.167.2"),
    )
    CONTENT_POLICY_VIOLATION = "content_policy_violation", _refused(litellm=400, codex_since="0.169.0")
    CYBER_POLICY = "cyber_policy", _refused(litellm=400, codex_since="0.130.0")
    INFERENCE_HOOK_DENIED = "inference_hook_denied", _refused()
    ACCESS_PROGRAM_NOT_ENABLED = "access_program_not_enabled", _refused()
    INVALID_ACCESS_PROGRAM = "invalid_access_program", _refused(ai_sdk=400)
    UNSUPPORTED_ACCESS_PROGRAM = "unsupported_access_program", _refused()
    INVALID_AUDIO = "invalid_audio", _audio("run", 400)
    INVALID_AUDIO_DATA = "invalid_audio_data", _audio()
    INVALID_AUDIO_FORMAT = "invalid_audio_format", _audio()
    MISSING_AUDIO_SAMPLE_RATE = "missing_audio_sample_rate", _audio()
    AUDIO_TOO_LARGE = "audio_too_large", _audio()
    AUDIO_TOO_SHORT = "audio_too_short", _audio()

    # Seen on the wire, and unknown to Codex: it retries them.
    INVALID_API_KEY = (
        "invalid_api_key",
        CodeFacts(error_type="authentication_error", retry="never"),  # Codex 0.171.0 alone was run
    )
    ORGANIZATION_USAGE_LIMIT_EXCEEDED = (
        "organization_usage_limit_exceeded",
        _refused("insufficient_quota", codex="retry", pydantic_ai="ModelQuotaExceededError"),
    )
    BILLING_HARD_LIMIT_REACHED = (
        "billing_hard_limit_reached",
        _refused("insufficient_quota", codex="retry", pydantic_ai="ModelQuotaExceededError"),
    )
    USAGE_LIMIT_REACHED = "usage_limit_reached", _refused("insufficient_quota", codex="retry")
    OVERLOADED_ERROR = (
        "overloaded_error",
        _refused(
            "service_unavailable_error",
            "later",
            codex="retry",
            ai_sdk=503,
            pydantic_ai="ModelOverloadedError",
        ),
    )
    INVALID_REQUEST_ERROR = "invalid_request_error", _refused(codex="retry", ai_sdk=400, litellm=400)
    STRING_ABOVE_MAX_LENGTH = "string_above_max_length", _refused(codex="retry")
    PREVIOUS_RESPONSE_NOT_FOUND = "previous_response_not_found", _refused(codex="retry", ai_sdk=404)
    UPSTREAM_TRUNCATED = "upstream_truncated", _fault()
    STREAM_FAILED = "stream_failed", _fault()
    INTERNAL_ERROR = "internal_error", _fault()
    TIMEOUT = "timeout", _fault(ai_sdk=504)
    ENGINE_ERROR = "engine_error", _fault(evidence="choice")
    UPSTREAM_ERROR = "upstream_error", _fault(evidence="choice")


class Cause(str, Enum):
    """Why a response failed. A member is its string; `CATALOGUE` says what follows from each."""

    CONTEXT_LENGTH_EXCEEDED = "context_length_exceeded"
    PROMPT_TOO_LONG_FOR_BATCH = "prompt_too_long_for_batch"
    MAX_TOKENS_TOO_LARGE = "max_tokens_too_large"
    INVALID_REQUEST = "invalid_request"
    INVALID_PROMPT = "invalid_prompt"
    GRAMMAR_ERROR = "grammar_error"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    INVALID_IMAGE = "invalid_image"
    INVALID_MULTIMODAL = "invalid_multimodal"
    CONTENT_POLICY = "content_policy"
    MODEL_NOT_FOUND = "model_not_found"
    AUTH = "auth"
    QUOTA = "quota"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    QUEUE_FULL = "queue_full"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    ENGINE_DEAD = "engine_dead"
    ENGINE_ERROR = "engine_error"
    UPSTREAM_TRUNCATED = "upstream_truncated"
    UPSTREAM_READ_ERROR = "upstream_read_error"
    CLIENT_DISCONNECT = "client_disconnect"
    CANCELLED = "cancelled"
    INTERNAL_ERROR = "internal_error"

    def __str__(self) -> str:
        return str(self.value)


class CauseFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What follows from a cause when neither the failure nor the policy says otherwise."""

    code: FailureCode | None
    """None: no frame is sent, so no code exists."""
    http_status: int
    """The status of an answer that is not streamed."""
    ending: Ending
    generic: str | None = None
    """What the client is told in place of the failure's message, where that may hold internals; None: the message."""


def _reject(code: FailureCode, http_status: int = 400) -> CauseFacts:
    return CauseFacts(code=code, http_status=http_status, ending="cleanly")


_SERVER = "The server had an error while processing the request."
_HUNG_UP = CauseFacts(code=None, http_status=499, ending="silent", generic="The request was cancelled.")
"""499 is nginx's status for a client that closed the request; nobody reads it."""


CATALOGUE: Mapping[Cause, CauseFacts] = MappingProxyType(
    {
        Cause.CONTEXT_LENGTH_EXCEEDED: _reject(FailureCode.CONTEXT_LENGTH_EXCEEDED),
        Cause.PROMPT_TOO_LONG_FOR_BATCH: _reject(FailureCode.INVALID_PROMPT),
        Cause.MAX_TOKENS_TOO_LARGE: _reject(FailureCode.INVALID_PROMPT),
        Cause.INVALID_REQUEST: _reject(FailureCode.INVALID_PROMPT),
        Cause.INVALID_PROMPT: _reject(FailureCode.INVALID_PROMPT),
        Cause.GRAMMAR_ERROR: _reject(FailureCode.INVALID_PROMPT),
        Cause.PAYLOAD_TOO_LARGE: _reject(FailureCode.INVALID_PROMPT, 413),
        Cause.INVALID_IMAGE: _reject(FailureCode.INVALID_IMAGE),
        Cause.INVALID_MULTIMODAL: _reject(FailureCode.INVALID_PROMPT),
        Cause.CONTENT_POLICY: _reject(FailureCode.CONTENT_POLICY_VIOLATION),
        Cause.MODEL_NOT_FOUND: _reject(FailureCode.MODEL_NOT_FOUND, 404),
        Cause.AUTH: _reject(FailureCode.INVALID_API_KEY, 401),
        Cause.QUOTA: _reject(FailureCode.INSUFFICIENT_QUOTA, 429),
        Cause.RATE_LIMITED: _reject(FailureCode.RATE_LIMIT_EXCEEDED, 429),
        Cause.OVERLOADED: _reject(FailureCode.SERVER_IS_OVERLOADED, 503),
        Cause.QUEUE_FULL: _reject(FailureCode.SERVER_IS_OVERLOADED, 503),
        Cause.TIMEOUT: CauseFacts(
            code=FailureCode.SERVER_ERROR,
            http_status=504,
            ending="fault",
            generic="The request timed out on the server.",
        ),
        Cause.OUT_OF_MEMORY: CauseFacts(
            code=FailureCode.SERVER_ERROR, http_status=500, ending="fault", generic=_SERVER
        ),
        Cause.ENGINE_DEAD: CauseFacts(code=FailureCode.SERVER_ERROR, http_status=500, ending="fault", generic=_SERVER),
        Cause.ENGINE_ERROR: CauseFacts(code=FailureCode.SERVER_ERROR, http_status=500, ending="fault", generic=_SERVER),
        Cause.UPSTREAM_TRUNCATED: _reject(FailureCode.UPSTREAM_TRUNCATED, 502),
        Cause.UPSTREAM_READ_ERROR: CauseFacts(
            code=FailureCode.STREAM_FAILED,
            http_status=502,
            ending="fault",
            generic="The server lost the stream it was relaying.",
        ),
        Cause.CLIENT_DISCONNECT: _HUNG_UP,
        Cause.CANCELLED: _HUNG_UP,
        Cause.INTERNAL_ERROR: CauseFacts(
            code=FailureCode.SERVER_ERROR, http_status=500, ending="fault", generic=_SERVER
        ),
    }
)
