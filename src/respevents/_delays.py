"""How long to wait, in seconds: from `retry-after` headers and from texts that say it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["retry_after"]

_LONGEST: Final = 30 * 86_400.0
"""A longer delay is taken for something else (a date, a number of milliseconds)."""

_UNIT: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_UNITS: Final = "milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|h|days?|d"
_PART: Final = re.compile(rf"(\d{{1,9}}(?:\.\d{{1,9}})?) ?({_UNITS})(?![a-z])", re.IGNORECASE)
_SAID: Final = re.compile(
    r"(?:(?:try|retry)(?:ing)?(?: your request)?(?: again)? (?:in|after)|retry[- ]after:?"
    r"|wait(?: for)?(?: at least)?|resets? in) {0,2}(?:about |approximately )?"
    rf"((?:\d{{1,9}}(?:\.\d{{1,9}})? ?(?:{_UNITS})?,? ?(?:and )?){{1,4}})",
    re.IGNORECASE,
)


def retry_after(text: str, headers: Mapping[str, str]) -> float | None:
    """Seconds, or None where nobody says. `headers` have lower-case names; they are exact, so they come first."""
    for name, unit in (("retry-after-ms", 0.001), ("x-ms-retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if re.fullmatch(r"\d{1,12}(?:\.\d{1,9})?", value):
            return _within(float(value) * unit)
        if value and unit == 1.0:
            return _within(_until(value))
    found = _SAID.search(text)
    return _within(_seconds(found[1])) if found else None


def _seconds(text: str) -> float | None:
    parts = _PART.findall(text)
    if parts:
        return sum(float(number) * _UNIT[_short(unit.lower())] for number, unit in parts)
    plain = re.match(r"\d{1,9}(?:\.\d{1,9})?", text)
    return float(plain[0]) if plain else None


def _short(unit: str) -> str:
    return "ms" if unit.startswith(("ms", "milli")) else unit[0]


def _until(date: str) -> float | None:
    """Seconds until an HTTP date."""
    import time
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def _within(seconds: float | None) -> float | None:
    return round(seconds, 6) if seconds is not None and 0 <= seconds <= _LONGEST else None
