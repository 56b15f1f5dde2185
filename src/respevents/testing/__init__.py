"""For test suites (extra `respevents[testing]`): `assert_valid_stream`, strategies and mutations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from respevents.validate import Report

__all__ = ["assert_valid_stream"]


def assert_valid_stream(source: Any, **options: Any) -> Report:
    """Fail with the whole report when `validate_stream(source, **options)` finds an error; give the report.

    Unless given, the schema set is the newest one of the dialect, whatever date the clock of a test gives.
    """
    __tracebackhide__ = True
    from respevents import schemas
    from respevents.validate import validate_stream

    options.setdefault("schema", schemas.at(None, options.get("dialect") or "openai"))
    report = validate_stream(source, **options)
    if not report.ok:
        raise AssertionError(f"not a valid stream\n{report}")
    return report
