"""What a request holds that a pinned model would lose, and usage counters an upstream left out.

A model of input items that is older than a client drops what it does not know: openai-go decodes a whole union to
nothing, pydantic models without `extra` drop keys. Such a request is answered best by naming the item.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, cast

from respevents._errors import json_path, show
from respevents._extras import load
from respevents._snapshot import USAGE_DETAILS
from respevents.failures import Cause, Failure, safe_text

__all__ = ["check_input_items", "repair_usage"]

_ABSENT: Final = object()


def check_input_items(
    items: object,
    known: Collection[str] | None = None,
    sdk_model: Any = None,
    *,
    keys: bool = False,
) -> Failure | None:
    """The failure that names the first input item that would be lost, by index and type; None when all are kept.

    `items` is the `input` of a request: a str (nothing to lose) or a list of items. An item is lost when its type is
    not in `known` (default: the types of the newest schema set), or, with `sdk_model`, when that type (a pydantic
    model, a union of them, a TypedDict: the installed SDK's `ResponseInputItemParam` for example) does not parse it or
    gives it back as something else. With `keys` a key or value that does not come back is a loss too, and named.

    The failure is an `invalid_request` with `param` (`input[2].type`) and `details` (`index`, `type`, `path`, JSON
    path of what is lost); hand it to `error_envelope` or `rejected_frames`. Needs pydantic for `sdk_model`.
    """
    if isinstance(items, str) or items is None:
        return None
    if isinstance(items, (bytes, Mapping)) or not isinstance(items, Sequence):
        return _lost((), "input", None, f"expected a string or a list of items, got {show(items)}")
    types = None if sdk_model is not None and known is None else frozenset(_known() if known is None else known)
    adapter: Any = None
    if sdk_model is not None:
        adapter = load("pydantic", needed_by="check_input_items(sdk_model=...)").TypeAdapter(sdk_model)
    for index, item in enumerate(items):
        if not isinstance(item, Mapping):
            return _lost((index,), f"input[{index}]", None, f"expected an object, got {show(item)}")
        kind = item_type(item)
        if types is not None and kind not in types:
            return _lost((index,), f"input[{index}].type", kind, "this type is not known here")
        if adapter is not None and (found := _parsed(adapter, item, keys)) is not None:
            path, why = found
            return _lost((index, *path), _param((index, *path)), kind, why)
    return None


def item_type(item: Mapping[str, Any]) -> str | None:
    """The type of an input item. It may be left out of a message and of a reference; what it is then shows."""
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    if kind is not None:
        return None
    if "role" in item:
        return "message"
    return "item_reference" if "id" in item and len(item) <= 2 else None


@lru_cache(maxsize=1)
def _known() -> frozenset[str]:
    from typing import Literal, get_args, get_origin, get_type_hints

    from respevents import items

    found: set[str] = set()
    for cls in get_args(items.ResponseInputItem):
        hint = get_type_hints(cls).get("type")
        for one in (hint, *get_args(hint)):
            if get_origin(one) is Literal:
                found.update(value for value in get_args(one) if isinstance(value, str))
    return frozenset(found)


def _parsed(adapter: Any, item: Mapping[str, Any], keys: bool) -> tuple[tuple[str | int, ...], str] | None:
    """Where and why a model loses an item; None when it keeps it."""
    try:
        dumped: Any = adapter.dump_python(
            adapter.validate_python(dict(item)), mode="json", by_alias=True, exclude_unset=True, warnings=False
        )
    except Exception as error:  # noqa: BLE001 - a foreign model's validators may raise anything
        return ("type",), f"the model does not parse it ({type(error).__name__})"
    if not isinstance(dumped, Mapping) or not dumped:
        return ("type",), "the model gives back nothing"
    if item.get("type", _ABSENT) != dumped.get("type", _ABSENT) and item.get("type") is not None:
        return ("type",), f"the model gives it back as {show(dumped.get('type'))}"
    path = next(_losses(item, dumped, ()), None) if keys else None
    return None if path is None else (path, "the model drops or changes it")


def _losses(given: Any, back: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """The paths of what is not in `back`. Null and absent are one; so are 1 and 1.0."""
    if isinstance(given, Mapping):
        if not isinstance(back, Mapping):
            yield path
            return
        for key, value in given.items():
            if value is not None:
                yield from _losses(value, back.get(key), (*path, str(key)))
    elif isinstance(given, (list, tuple)):
        if not isinstance(back, (list, tuple)) or len(back) != len(given):
            yield path
            return
        for at, value in enumerate(cast("Sequence[Any]", given)):
            yield from _losses(value, back[at], (*path, at))
    elif given != back:
        yield path


def _param(path: tuple[str | int, ...]) -> str:
    return "input" + json_path(path)[1:]


def _lost(path: tuple[str | int, ...], param: str, kind: str | None, why: str) -> Failure:
    what = "input" if not path else f"input[{path[0]}]"
    named = "" if kind is None else f" of type {show(kind)}"
    where = f" at {param}" if param not in {what, f"{what}.type"} else ""
    fix = "Leave it out, or send the request to a server that knows it." if path else "Send a string or a list."
    return Failure(
        cause=Cause.INVALID_REQUEST,
        message=safe_text(f"{what}{named} would be lost{where}: {why}. {fix}"),
        param=safe_text(param, 200),
        details={"index": path[0] if path else None, "type": kind, "path": json_path(("input", *path))},
    )


def repair_usage(usage: Any) -> Any:
    """A usage object with the counters that clients require: what is missing or null is 0, a missing total the sum.

    What is no mapping, null above all, stays what it is, and no given count changes. Gives a new dict; the sum stands
    only where both of its parts are integers.
    """
    if not isinstance(usage, Mapping):
        return usage
    out: dict[str, Any] = dict(usage)
    for key, counts in USAGE_DETAILS.items():
        details = out.get(key)
        if details is None:
            details = {}
        if isinstance(details, Mapping):
            given = {name: value for name, value in details.items() if value is not None or name not in counts}
            out[key] = {**details, **{name: given.get(name, 0) for name in counts}}
    for key in ("input_tokens", "output_tokens"):
        if out.get(key) is None:
            out[key] = 0
    if out.get("total_tokens") is None:
        parts = (out["input_tokens"], out["output_tokens"])
        if all(type(part) is int for part in parts):
            out["total_tokens"] = sum(parts)
    return out
