"""`respevents classify`: what an error text, or a file of them, stands for."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from respevents._errors import RemoteProtocolError, show
from respevents.classifier import engine_named, row
from respevents.wire import decode_json

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from respevents.failures import Failure

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("text", nargs="?", help="the error; '-' reads standard input")
    parser.add_argument("--engine", help="who said it (vllm, sglang, tensorrt-llm, azure openai, ...)")
    parser.add_argument("--exception", metavar="CLASS", help="its exception class, with or without module")
    parser.add_argument("--status", type=int, metavar="N", help="the HTTP status it came with")
    parser.add_argument(
        "--jsonl",
        metavar="FILE",
        help="rows with example_message or message, and optionally exception_class, http_status, engine, body; "
        "one JSON line out for each row ('-' reads standard input)",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> int:
    """Classify; 0, or 2 for unusable input."""
    if (arguments.text is None) == (arguments.jsonl is None):
        raise RemoteProtocolError("classify takes a text or --jsonl FILE", fix="Give one of them.")
    if arguments.engine is not None and engine_named(arguments.engine) is None:
        print(f"respevents: no rules for the engine {arguments.engine!r}; it is inferred", file=sys.stderr)
    if arguments.jsonl is not None:
        return _rows(arguments)
    text = sys.stdin.read() if arguments.text == "-" else arguments.text
    given = {"message": text, "exception_class": arguments.exception, "http_status": arguments.status}
    failure = row(given, engine=arguments.engine)
    if arguments.format == "json":
        print(json.dumps(_told(failure), ensure_ascii=False))
    else:
        for key, value in _told(failure).items():
            if value is not None:
                print(f"{key:<15} {value}")
    return 0


def _rows(arguments: argparse.Namespace) -> int:
    unusable = 0
    for number, line in enumerate(_lines(arguments.jsonl), 1):
        if not line.strip():
            continue
        try:
            given: Any = decode_json(line)
        except RemoteProtocolError as error:
            unusable += 1
            print(json.dumps({"line": number, "error": f"not JSON: {error}"}))
            continue
        wrong = _wrong(given)
        if wrong is not None:
            unusable += 1
            print(json.dumps({"line": number, "error": wrong}))
            continue
        message = given.get("message") or given.get("example_message")
        failure = row({**given, "message": message}, engine=given.get("engine") or arguments.engine)
        print(json.dumps(_told(failure), ensure_ascii=False))
    return 2 if unusable else 0


def _wrong(given: Any) -> str | None:
    if not isinstance(given, dict):
        return f"expected an object, got {show(given)}"
    for key, kinds in (("message", str), ("example_message", str), ("engine", str), ("exception_class", str)):
        if given.get(key) is not None and not isinstance(given[key], kinds):
            return f"{key}: expected a string, got {show(given[key])}"
    if not any(given.get(key) for key in ("message", "example_message", "body", "exception_class", "http_status")):
        return "the row has no message, example_message, body, exception_class or http_status"
    return None


def _lines(name: str) -> Iterator[bytes]:
    if name == "-":
        yield from sys.stdin.buffer
        return
    try:
        with Path(name).open("rb") as file:
            yield from file
    except OSError as error:
        raise RemoteProtocolError(
            f"{name} cannot be read: {error.strerror}", fix="Give a file of JSON lines."
        ) from error


def _told(failure: Failure) -> dict[str, Any]:
    return {
        "cause": failure.cause.value,
        "code": failure.code,
        "http_status": failure.http_status,
        "ending": failure.ending,
        "rule": failure.rule,
        "engine": failure.engine,
        "prompt_tokens": failure.prompt_tokens,
        "context_window": failure.context_window,
        "retry_after": failure.retry_after,
        "said": failure.said(),
    }
