"""Optional libraries: which extra brings which, and an import error that says so."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["EXTRAS", "MissingExtraError", "load"]

EXTRAS = {
    "jsonschema": "validate",
    "jsonschema_rs": "validate",
    "referencing": "validate",
    "openai": "openai",
    "pydantic": "pydantic",
    "httpx": "cli",
    "uvicorn": "cli",
    "h11": "cli",
    "wsproto": "cli",
    "yaml": "validate",
    "hypothesis": "testing",
    "pytest": "testing",
}
"""Top-level module -> the extra of this package that installs it (`pyproject.toml` holds the versions)."""


class MissingExtraError(ImportError):
    """An optional library is not installed. `name` is the library, `extra` what to install for it."""

    def __init__(self, library: str, extra: str, needed_by: str) -> None:
        super().__init__(
            f"{needed_by} needs {library}, which is not installed: pip install 'respevents[{extra}]'",
            name=library,
        )
        self.extra = extra


def load(module: str, *, needed_by: str | None = None) -> ModuleType:
    """Import `module`, whose own import may need an optional library.

    `needed_by` is the name a message gives to what was asked for (default: the module).
    Raises `MissingExtraError` when a library of `EXTRAS` is what is missing; other import
    errors are left alone.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in EXTRAS:
            raise
        raise MissingExtraError(library, EXTRAS[library], needed_by or module) from error
