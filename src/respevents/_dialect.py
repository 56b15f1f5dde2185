"""The dialects of the stream, and what Open Responses has otherwise than OpenAI. Data and predicates only.

Read in openresponses/openresponses: `src/pages/specification.mdx` and `schema/*.tsp` of version 2026-04-24. What each
event and item of the dialect is called stands in `_grammar`, what it asks of a stream in `_open_responses`.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from respevents._errors import show

__all__ = ["DIALECTS", "DONE", "DONE_FRAME", "ERROR_TYPES", "Dialect", "checked_dialect", "is_extension"]

Dialect = Literal["openai", "open-responses"]
DIALECTS: Final[tuple[Dialect, ...]] = get_args(Dialect)

DONE: Final = b"[DONE]"
DONE_FRAME: Final = b"data: [DONE]\n\n"
""""The terminal event MUST be the literal string `[DONE]`" (Streaming HTTP Responses). It is no event of the schema:
it has no type and no number."""

ERROR_TYPES: Final = ("server_error", "invalid_request", "not_found", "model_error", "too_many_requests")
"""`error.type` (Error Types). OpenAI's are others: `invalid_request_error` stands in an example there all the same."""


def is_extension(name: str) -> bool:
    """Whether an event or item type has the form `slug:type` of an implementor's own."""
    slug, colon, rest = name.partition(":")
    return bool(slug and colon and rest) and not any(character.isspace() for character in name)


def checked_dialect(value: object) -> Dialect:
    """The dialect. Raises ValueError for what is none."""
    for dialect in DIALECTS:
        if value == dialect:
            return dialect
    raise ValueError(f"dialect: expected one of {', '.join(DIALECTS)}, got {show(value)}")
