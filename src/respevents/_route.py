"""`wrap_route`: the error envelope of one route as a failure stream, for servers whose handlers map errors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from respevents.classifier import HTTPAnswer
from respevents.classifier import classify as _classify
from respevents.failures import Failure, Policy, policy_of
from respevents.relay import Relay

if TYPE_CHECKING:
    from respevents._dialect import Dialect
    from respevents._ending import OnFailure

__all__ = ["wrap_route"]

_KEPT: Final = object()


class _Settings(NamedTuple):
    policy: Policy
    classify: Callable[[Any], Failure]
    on_failure: OnFailure | None
    respond: Callable[[bytes], Any]


def wrap_route(
    handler: Callable[..., Any],
    *,
    policy: Policy | None = None,
    dialect: Dialect | None = None,
    classify: Callable[[Any], Failure] | None = None,
    engine: str | None = None,
    on_failure: OnFailure | None = None,
    respond: Callable[[bytes], Any] | None = None,
) -> Callable[..., Any]:
    """A route handler whose rejection of a streamed request is the failure stream, when the policy streams its cause.

    The handler runs first, with whatever it or an override of it makes of an error (TensorRT-LLM's
    `_handle_exception(self, exception)`): only the envelope it returns (an object with `status_code` or `status` and
    `body`, or an error as a mapping) or raises (an exception with `status_code` and `detail`; any other as itself) is
    looked at. An envelope for another cause, for a request without `stream: true`, or for none at all stays what it is.

    The request is the first argument with `stream` and `model`, as attributes or keys, or a Starlette request with
    that JSON; the failed snapshot names its model. `respond` makes the framework's response from the body (default:
    Starlette's); `dialect` is that of `ResponseStream`. The signature stays, for frameworks that read it; plain and
    async handlers both work.
    """
    settings = _Settings(
        policy_of(policy, dialect),
        classify or functools.partial(_classify, engine=engine),
        on_failure,
        respond or _starlette,
    )
    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None)):  # noqa: B004

        @functools.wraps(handler)
        async def route(*args: Any, **kwargs: Any) -> Any:
            values = [*args, *kwargs.values()]
            try:
                answer = await handler(*args, **kwargs)
            except Exception as error:
                stream = _converted(settings, error, _request(values) or await _read(values))
                if stream is _KEPT:
                    raise
                return stream
            envelope = _envelope(answer)
            if envelope is None:
                return answer
            stream = _converted(settings, envelope, _request(values) or await _read(values))
            return answer if stream is _KEPT else stream

        return route

    @functools.wraps(handler)
    def plain(*args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        try:
            answer = handler(*args, **kwargs)
        except Exception as error:
            stream = _converted(settings, error, _request(values))
            if stream is _KEPT:
                raise
            return stream
        envelope = _envelope(answer)
        stream = _KEPT if envelope is None else _converted(settings, envelope, _request(values))
        return answer if stream is _KEPT else stream

    return plain


def _converted(settings: _Settings, error: Exception | HTTPAnswer, request: Mapping[str, Any] | None) -> Any:
    """The response with the failure stream, or `_KEPT`."""
    if request is None:
        return _KEPT
    status = getattr(error, "status_code", None)
    told: Any = error
    if isinstance(error, Exception) and isinstance(status, int):
        told = HTTPAnswer(status, getattr(error, "headers", None) or {}, {"detail": getattr(error, "detail", "")})
    failure = settings.classify(told)
    if failure.cause not in settings.policy.stream_rejections or failure.ending_for(settings.policy) == "silent":
        return _KEPT
    model = request.get("model")
    relay = Relay(
        model=model if isinstance(model, str) and model else "unknown",
        request=request,
        policy=settings.policy,
        on_failure=settings.on_failure,
    )
    return settings.respond(relay.fail(failure))


def _envelope(answer: Any) -> HTTPAnswer | None:
    """What a handler returned, when it is an HTTP error."""
    if isinstance(answer, Mapping):
        if answer.get("object") != "error" and not answer.get("error"):
            return None
        code = answer.get("code")
        return HTTPAnswer(code if isinstance(code, int) and 400 <= code <= 599 else 400, {}, answer)
    status = getattr(answer, "status_code", None)
    if not isinstance(status, int):
        status = getattr(answer, "status", None)
    body = getattr(answer, "body", None)
    if not isinstance(status, int) or status < 400 or not isinstance(body, (bytes, bytearray, memoryview, str)):
        return None
    headers = {str(name).lower(): str(value) for name, value in dict(getattr(answer, "headers", None) or {}).items()}
    return HTTPAnswer(status, headers, body if isinstance(body, str) else bytes(body))


def _request(values: list[Any]) -> Mapping[str, Any] | None:
    """The fields of a streamed request among the arguments of a handler."""
    for value in values:
        if isinstance(value, Mapping):
            if value.get("stream") is True:
                return value
        elif getattr(value, "stream", None) is True:
            dump = getattr(value, "model_dump", None)
            fields: Any = dump(mode="json", by_alias=True, exclude_unset=True) if callable(dump) else vars(value)
            return {**dict(fields), "model": getattr(value, "model", None)}
    return None


async def _read(values: list[Any]) -> Mapping[str, Any] | None:
    """The JSON of a Starlette request among the arguments; it keeps the body that the handler read."""
    for value in values:
        if isinstance(getattr(value, "scope", None), Mapping) and callable(getattr(value, "json", None)):
            try:
                body = await value.json()
            except Exception:  # noqa: BLE001 - no JSON, or a body that is gone: then it is not known to be a stream
                return None
            return body if isinstance(body, Mapping) and body.get("stream") is True else None
    return None


def _starlette(body: bytes) -> Any:
    """A response of the framework that the handlers of TensorRT-LLM, vLLM and SGLang are written for."""
    response = import_module("starlette.responses").Response
    return response(body, media_type="text/event-stream", headers={"cache-control": "no-cache"})
