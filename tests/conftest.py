"""What every test may use: the shared data beside the checkout, and how hard hypothesis searches."""

from __future__ import annotations

import os
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent
"""The checkout."""

SHARED = ROOT.parent / "shared"
"""Captured streams and measured facts. They stand beside the checkout and are read, never copied."""


def shared_path(*parts: str) -> Path:
    """The path of something under `shared`; skips the test (or, at import, the module) when it is not there."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"no {'/'.join(('shared', *parts))} beside the checkout", allow_module_level=True)
    return path


hypothesis.settings.register_profile(
    "ci",  # the same examples on every run: what CI says does not depend on luck
    derandomize=True,
    max_examples=60,
    deadline=None,
    print_blob=True,
    database=None,
)
hypothesis.settings.register_profile("dev", max_examples=60, deadline=None)
hypothesis.settings.register_profile("long", max_examples=500, deadline=None)  # tools/long_run.py repeats it
_profile = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if "CI" in os.environ else "dev")
hypothesis.settings.load_profile(_profile)
