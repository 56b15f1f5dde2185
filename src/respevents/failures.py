"""What failed, and what is said about it: `Cause`, `FailureCode`, `Failure` and `Policy`.

A `Failure` is a value: a cause, the text that came with it, and what the catalogue makes of the cause (code, HTTP
status, ending). A `Policy` is the server's choice of how failures are told. Both are pure data; the bytes are made
by `wire`, the order of events by `stream`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast

import msgspec

from respevents._catalogue import CATALOGUE, Cause, CauseFacts, CodeFacts, Ending, FailureCode
from respevents._dialect import DIALECTS, ERROR_TYPES, Dialect, checked_dialect
from respevents._errors import show

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "CATALOGUE",
    "Cause",
    "CauseFacts",
    "CodeFacts",
    "Ending",
    "Failure",
    "FailureCode",
    "Policy",
    "RequestRejected",
    "error_envelope",
    "policy_of",
    "safe_text",
]

MAX_MESSAGE: Final = 8192
"""Characters of a failure's text that reach the client: a whole validation report, not a megabyte of echoed input."""

_LONGEST_DELAY: Final = 3.2e9

ErrorShape = Literal["both", "nested", "flat"]
Tail = Literal["error,failed", "failed,error", "failed"]
Reraise = Literal["never", "faults"]
Wording = Literal["engine", "widest"]
FailedOutput = Literal["done", "none"]
Exposure = Literal["nothing", "class", "message", "class_message"]
"""What of a fault the client is told: a general sentence, the bare class name of the exception, the failure's
message, or both as `ClassName: message`. Without an exception the last is the message, and `class` the sentence."""

_BY_CODE: Final[Mapping[str, FailureCode]] = {member.value: member for member in FailureCode}

_OF_THE_MODEL: Final = frozenset({Cause.ENGINE_ERROR})
"""Causes that Open Responses calls a `model_error`: "the model failed while processing an otherwise valid request"."""

_EXPOSURES: Final = ("nothing", "class", "message", "class_message")


def safe_text(text: object, limit: int = MAX_MESSAGE) -> str:
    """Any text as text that can be sent: a plain `str` without lone surrogates, of at most about `limit` characters.

    Two halves of a surrogate pair are joined, one that stands alone becomes U+FFFD. What is no `str` is put through
    `str()`; an object that refuses gives "". Never raises for an `Exception`.
    """
    try:
        # The type and the slot of `str`, not `isinstance` and `str(text)`: an object may override all it is asked.
        plain = str.__str__(cast("str", text) if issubclass(type(text), str) else str(text))
    except Exception:  # noqa: BLE001 - an exception's __str__ may raise anything; the failure still has to be told
        return ""
    size = len(plain)
    if size > limit:
        plain = f"{plain[:limit]}... ({size} characters)"
    try:
        plain.encode()
    except UnicodeEncodeError:
        return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return plain


def _class_name(error: BaseException) -> str:
    return safe_text(type.__dict__["__name__"].__get__(type(error)), 200)


def _one_of(owner: str, name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{owner}({name}=...): expected one of {', '.join(allowed)}, got {show(value)}")


def _typed(name: str, value: object, kinds: type | tuple[type, ...], expected: str) -> None:
    kind: type[Any] = type(value)  # and not isinstance: an exception may override what that asks
    if not issubclass(kind, kinds) or (kind is bool and kinds is not bool):
        raise TypeError(f"Failure({name}=...): expected {expected}, got {show(value)}")


def _absent(value: object) -> bool:
    return value is msgspec.UNSET


def _cause(owner: str, value: object) -> Cause:
    try:
        return Cause(value)
    except ValueError:
        fix = f"Use a member of Cause: {', '.join(Cause)}"
        raise ValueError(f"{owner}: expected a cause, got {show(value)}. {fix}") from None


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """One failure of one response. What is left out is filled in from the catalogue, by cause.

    `message` is the text as it came, for the server; `said` gives what the client is told. `exception` is the
    exception it stands for, `engine` and `rule` name what recognised it. `prompt_tokens` and `context_window` are
    token counts, `retry_after` a delay in seconds. `details` is the server's own: it is logged, never sent.

    Raises TypeError or ValueError, naming the field, for a value that no failure can have.
    """

    cause: Cause
    message: str
    code: str | None = None
    """`error.code` on the wire; any string. None only where nothing is sent (a hang-up)."""
    ending: Ending = msgspec.UNSET  # type: ignore[assignment] # __post_init__ fills it in
    http_status: int = msgspec.UNSET  # type: ignore[assignment] # as above
    error_type: str | None = None
    """`error.type` on the wire; None: the one that fits the code that is sent."""
    param: str | None = None
    """The request field at fault, such as `input[2].type`."""
    retry_after: float | None = None
    prompt_tokens: int | None = None
    context_window: int | None = None
    rule: str | None = None
    engine: str | None = None
    details: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    exception: BaseException | None = None

    def __post_init__(self) -> None:
        fill = msgspec.structs.force_setattr
        fill(self, "cause", _cause("Failure(cause=...)", self.cause))
        facts = CATALOGUE[self.cause]
        _typed("message", self.message, str, "a str")
        if self.code is None and facts.code is not None:
            fill(self, "code", facts.code)
        for name in ("code", "error_type", "param", "rule", "engine"):
            value = getattr(self, name)
            if value is not None:
                _typed(name, value, str, "a str")
                if not value and name in {"code", "error_type"}:
                    raise ValueError(f"Failure({name}=...): expected a name, got an empty string")
                # A plain str: an enum member would print as itself and not as its value.
                fill(self, name, safe_text(str.__str__(value.value) if isinstance(value, FailureCode) else value))
        if _absent(self.ending):
            fill(self, "ending", facts.ending)
        _one_of("Failure", "ending", self.ending, ("cleanly", "fault", "silent"))
        if _absent(self.http_status):
            fill(self, "http_status", facts.http_status)
        _typed("http_status", self.http_status, int, "an HTTP status")
        if not 400 <= self.http_status <= 599:
            raise ValueError(f"Failure(http_status=...): expected 400 to 599, got {self.http_status}")
        for name in ("prompt_tokens", "context_window"):
            value = getattr(self, name)
            if value is not None:
                _typed(name, value, int, "a number of tokens")
                if value < 0:
                    raise ValueError(f"Failure({name}=...): expected 0 or more tokens, got {value}")
        if self.retry_after is not None:
            _typed("retry_after", self.retry_after, (int, float), "a number of seconds")
            if not 0 <= self.retry_after <= _LONGEST_DELAY:  # false for NaN too
                raise ValueError(
                    "Failure(retry_after=...): expected a finite number of seconds, at most a hundred years, got "
                    f"{show(self.retry_after)}"
                )
        _typed("details", self.details, Mapping, "a mapping")
        fill(self, "details", dict(self.details))
        if self.exception is not None:
            _typed("exception", self.exception, BaseException, "an exception")

    @classmethod
    def from_exception(cls, error: BaseException, cause: Cause = Cause.INTERNAL_ERROR, **fields: Any) -> Self:
        """The failure an exception stands for; its text, made safe, is the message unless `fields` has one."""
        given: dict[str, Any] = {"message": safe_text(error), **fields}
        return cls(cause=cause, exception=error, **given)

    def code_for(self, policy: Policy | None = None) -> str | None:
        """`error.code` of the failed response under a policy; None where nothing is sent."""
        return (policy or Policy.default).codes.get(self.cause, self.code)

    def ending_for(self, policy: Policy | None = None) -> Ending:
        """The ending under a policy."""
        return (policy or Policy.default).endings.get(self.cause, self.ending)

    def type_for(self, policy: Policy | None = None) -> str:
        """`error.type` under a policy: the failure's own, or the one that fits the code. In Open Responses it is one
        of five, by the failure's status.
        """
        policy = policy or Policy.default
        chosen = policy.error_types.get(self.cause, self.error_type)
        if policy.dialect == "open-responses" and self.cause not in policy.error_types:
            return chosen if chosen in ERROR_TYPES else self._open_type()
        if chosen is not None:
            return chosen
        known = _BY_CODE.get(self.code_for(policy) or "")
        if known is not None:
            return known.facts.error_type
        return "invalid_request_error" if self.http_status < 500 else "server_error"

    def _open_type(self) -> str:
        if self.cause in _OF_THE_MODEL:
            return "model_error"
        named = {404: "not_found", 429: "too_many_requests"}
        return named.get(self.http_status, "invalid_request" if self.http_status < 500 else "server_error")

    def said(self, policy: Policy | None = None) -> str:
        """What the client is told. Text that may hold internals is told only as far as the policy exposes it."""
        policy = policy or Policy.default
        text = safe_text(self.message)
        generic = CATALOGUE[self.cause].generic
        # Our own exception says nothing by its name.
        named = None if issubclass(type(self.exception), RequestRejected) else self.exception
        if isinstance(policy.expose, Mapping):
            exposure = policy.expose.get(self.cause, "message" if generic is None else "nothing")
        else:
            exposure = "message" if generic is None else policy.expose
        if exposure in {"class", "class_message"} and named is not None:
            name = _class_name(named)
            text = f"{name}: {text}" if text and exposure == "class_message" else name
        elif exposure in {"nothing", "class"}:
            text = generic or ""
        # An empty text would leave the client with nothing to show.
        text = text or generic or f"The request failed: {self.code_for(policy)}."
        if policy.wording == "widest" and self.cause is Cause.CONTEXT_LENGTH_EXCEEDED:
            text = self._widest(text)
        if self.retry_after is not None and "try again in" not in text.lower():
            # Codex waits as long as the text says: (?i)try again in\s*(\d+(?:\.\d+)?)\s*(s|ms|seconds?)
            text = f"{text} Please try again in {_seconds(self.retry_after)}s."
        return text

    def _widest(self, text: str) -> str:
        """Add the two phrases clients search messages for: LangChain the first, pydantic-ai, strands and LiteLLM the
        second. No wording of any engine has both.
        """
        lower = text.lower()
        if "exceeds the context window" not in lower:
            text += " Your input exceeds the context window of this model."
        if "maximum context length" not in lower:
            if self.context_window is None:
                text += " It is over this model's maximum context length."
            else:
                text += f" This model's maximum context length is {self.context_window} tokens."
        return text

    def error_object(self, policy: Policy | None = None) -> dict[str, Any]:
        """`error` of the failed response: `code` and `message`, as OpenAI sends it."""
        return {"code": self.code_for(policy), "message": self.said(policy)}

    def error_event(self, policy: Policy | None = None, sequence_number: int = 0) -> dict[str, Any]:
        """The `error` event as a plain mapping, in the shape the policy asks for."""
        policy = policy or Policy.default
        message = self.said(policy)
        code = policy.event_codes.get(self.cause, self.code_for(policy))
        event: dict[str, Any] = {"type": "error"}
        shape = "nested" if policy.dialect == "open-responses" else policy.error_shape
        if shape != "nested":
            event |= {"code": code, "message": message, "param": self.param}
        if shape != "flat":
            event["error"] = {
                "type": self.type_for(policy),
                "code": code,
                "message": message,
                "param": self.param,
            }
        event["sequence_number"] = sequence_number
        return event


def _seconds(delay: float) -> str:
    """A delay as Codex reads it: digits and at most one point. Rounded up to milliseconds, so that nobody is early."""
    return f"{math.ceil(delay * 1000) / 1000:.3f}".rstrip("0").rstrip(".")


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """How a server tells failures. One frozen value, taken by everything that can end a stream.

    `Policy.default` is the ending that no client tested took for success: an `error` event in both shapes, then
    `response.failed`, then a clean end. `Policy.tensorrt_llm` and `Policy.gateway` reproduce two servers,
    `Policy.codex` keeps Codex from asking again where asking again cannot help. Change one with `replace`.

    Raises TypeError or ValueError, naming the field, for a value that does not exist.
    """

    error_shape: ErrorShape = "both"
    """The `error` event: flat (the documented keys), nested (what OpenAI's servers send), or both at once."""
    tail: Tail = "error,failed"
    """The last events, in order."""
    reraise: Reraise = "never"
    """`faults`: an exception whose ending is `fault` is raised again once the frames are out. The body is then cut,
    and Codex before 0.169 forgets the code and sends the request 6 times."""
    expose: Exposure | Mapping[Cause, Exposure] = "nothing"
    """What the client is told of a fault. One word holds for every cause whose message may hold internals, a mapping
    for the causes it names (and the rest stays unsaid). True and False stand for `message` and `nothing`."""
    wording: Wording = "engine"
    """`widest`: an over-length message also says what message-reading clients look for."""
    codes: Mapping[Cause, str] = msgspec.field(default_factory=dict[Cause, str])
    """The code of a cause, whatever the failure carries: `{Cause.OVERLOADED: "slow_down"}` has Codex try again."""
    event_codes: Mapping[Cause, str] = msgspec.field(default_factory=dict[Cause, str])
    """The code in the `error` event, where it differs from that of the failed response."""
    error_types: Mapping[Cause, str] = msgspec.field(default_factory=dict[Cause, str])
    """The `error.type` of a cause, whatever the failure carries."""
    endings: Mapping[Cause, Ending] = msgspec.field(default_factory=dict[Cause, Ending])
    """The ending of a cause, whatever the failure carries."""
    failed_output: FailedOutput = "done"
    """`output` of the failed response: the items that were done, or none."""
    stream_rejections: frozenset[Cause] = frozenset({Cause.CONTEXT_LENGTH_EXCEEDED})
    """Causes that answer a streamed request with HTTP 200 and the failure frames although nothing was sent yet;
    the others keep their HTTP status. Codex before 0.169 understands over-length only in the stream."""
    dialect: Dialect = "openai"
    """`open-responses`: the nested error alone, `response.failed` behind it and `[DONE]` at the end, and `error.type`
    is one of that specification. A flat shape, or `failed,error`, is refused with it."""

    default: ClassVar[Policy]
    tensorrt_llm: ClassVar[Policy]
    gateway: ClassVar[Policy]
    codex: ClassVar[Policy]

    def __post_init__(self) -> None:
        fill = msgspec.structs.force_setattr
        _one_of("Policy", "error_shape", self.error_shape, ("both", "nested", "flat"))
        _one_of("Policy", "tail", self.tail, ("error,failed", "failed,error", "failed"))
        _one_of("Policy", "reraise", self.reraise, ("never", "faults"))
        _one_of("Policy", "wording", self.wording, ("engine", "widest"))
        _one_of("Policy", "failed_output", self.failed_output, ("done", "none"))
        if isinstance(self.expose, Mapping):
            exposed = {_cause("Policy(expose=...)", cause): _exposure(value) for cause, value in self.expose.items()}
            fill(self, "expose", exposed)
        else:
            fill(self, "expose", _exposure(self.expose))
        _one_of("Policy", "dialect", self.dialect, DIALECTS)
        if self.dialect == "open-responses":
            # Open Responses, Errors: nested, and "followed by a `response.failed` event".
            _one_of("open-responses Policy", "error_shape", self.error_shape, ("both", "nested"))
            _one_of("open-responses Policy", "tail", self.tail, ("error,failed", "failed"))
        for name in ("codes", "event_codes", "error_types", "endings"):
            fill(self, name, _by_cause(name, getattr(self, name)))
        for cause, ending in self.endings.items():
            _one_of("Policy", f"endings[{cause}]", ending, ("cleanly", "fault", "silent"))
        rejections: object = self.stream_rejections
        if isinstance(rejections, str):
            raise TypeError(f"Policy(stream_rejections=...): expected a set of causes, got {show(rejections)}")
        causes = frozenset(_cause("Policy(stream_rejections=...)", cause) for cause in self.stream_rejections)
        fill(self, "stream_rejections", causes)

    def replace(self, **changes: Any) -> Policy:
        """The same policy but for `changes`."""
        return msgspec.structs.replace(self, **changes)


def policy_of(policy: Policy | None, dialect: Dialect | None = None) -> Policy:
    """The policy, in the dialect where one is given. Raises ValueError for one that the policy cannot be told in."""
    policy = policy or Policy.default
    return policy if dialect in {None, policy.dialect} else policy.replace(dialect=checked_dialect(dialect))


def _exposure(value: object) -> str:
    if isinstance(value, bool):
        return "message" if value else "nothing"
    _one_of("Policy", "expose", value, _EXPOSURES)
    return str(value)


def _by_cause(name: str, given: object) -> dict[Cause, str]:
    if not isinstance(given, Mapping):
        raise TypeError(f"Policy({name}=...): expected a mapping from cause to str, got {show(given)}")
    out: dict[Cause, str] = {}
    for cause, value in cast("Mapping[object, object]", given).items():
        key = _cause(f"Policy({name}=...)", cause)
        if not isinstance(value, str) or not value:
            raise TypeError(f"Policy({name}={{{key}: ...}}): expected a str, got {show(value)}")
        out[key] = str(value.value) if isinstance(value, FailureCode) else value
    return out


_TOLD = tuple(cause for cause, facts in CATALOGUE.items() if facts.ending != "silent")
_UPSTREAM = (Cause.UPSTREAM_TRUNCATED, Cause.UPSTREAM_READ_ERROR)
_OURS = (Cause.INTERNAL_ERROR, *_UPSTREAM)
_ENGINE = tuple(cause for cause in _TOLD if cause not in {*_OURS, Cause.CONTEXT_LENGTH_EXCEEDED})

Policy.default = Policy()

# TensorRT-LLM tells five causes apart, and only over-length by a code of its own in the failed response: every
# other frame is the `server_error` frame, with the cause as the code of the `error` event. An engine's text is shown
# under its class name; what this process or a peer says may name hosts, so their class name is all that is shown.
Policy.tensorrt_llm = Policy(
    error_shape="flat",
    reraise="faults",
    expose={
        **dict.fromkeys(_ENGINE, "class_message"),
        **dict.fromkeys(_OURS, "class"),
    },
    codes={cause: "server_error" for cause in _TOLD if cause is not Cause.CONTEXT_LENGTH_EXCEEDED},
    event_codes={
        **dict.fromkeys(_ENGINE, "engine_error"),
        **dict.fromkeys(_UPSTREAM, "upstream_error"),
        Cause.INTERNAL_ERROR: "internal_error",
    },
    endings={cause: "fault" for cause in _TOLD if cause is not Cause.CONTEXT_LENGTH_EXCEEDED},
    failed_output="none",
)

# tingly-box: `response.failed` first, then the error frame its older clients know, with its own type.
Policy.gateway = Policy(
    error_shape="nested",
    tail="failed,error",
    expose=dict.fromkeys(_UPSTREAM, "message"),
    error_types=dict.fromkeys(_UPSTREAM, "stream_error"),
)

# Codex sends a request 6 times on a code it does not know, and it knows no image code and no invalid_api_key.
Policy.codex = Policy(
    codes={
        Cause.INVALID_IMAGE: "invalid_prompt",
        Cause.INVALID_MULTIMODAL: "invalid_prompt",
        Cause.AUTH: "invalid_prompt",
    }
)


class RequestRejected(Exception):  # noqa: N818 - it is the name of what happened, and the failure says why
    """Raise it where a request is refused: the guard ends the stream with its failure, cause and code included."""

    failure: Failure

    def __init__(self, failure: Failure) -> None:
        if not isinstance(failure, Failure):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"RequestRejected(failure): expected a Failure, got {show(failure)}")
        self.failure = failure
        super().__init__(failure)

    def __str__(self) -> str:
        return f"{self.failure.cause}: {safe_text(self.failure.message)}"


def error_envelope(failure: Failure, policy: Policy | None = None) -> tuple[int, dict[str, Any]]:
    """The HTTP status and JSON body of a failure that is not streamed: OpenAI's `{"error": {...}}`.

    Codex from 0.169 understands over-length in this form, and only with status 400 and this nesting.
    """
    body = {
        "message": failure.said(policy),
        "type": failure.type_for(policy),
        "param": failure.param,
        "code": failure.code_for(policy),
    }
    return failure.http_status, {"error": body}
