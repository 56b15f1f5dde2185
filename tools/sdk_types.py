"""Wheels of the openai SDK, for the tools. What is read out of them: `respevents._sdk_source`."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from respevents._sdk_source import Schema, SdkTypes, SourceError, any_of

__all__ = ["Schema", "SdkTypes", "SourceError", "any_of", "download_wheel", "fetch_wheel"]


def download_wheel(name: str, version: str) -> Path:
    """Path of a wheel fetched with pip."""
    folder = Path(tempfile.mkdtemp(prefix="respevents-wheel-"))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, "--dest", str(folder), f"{name}=={version}"], check=True)
    return next(folder.glob("*.whl"))


def fetch_wheel(name: str, version: str, sha256: str, given: Path | None = None) -> Path:
    """Path of the pinned wheel: `given`, or downloaded with pip. Raises SourceError when the digest differs."""
    if given is None:
        given = download_wheel(name, version)
    digest = hashlib.sha256(given.read_bytes()).hexdigest()
    if digest != sha256:
        message = (
            f"{given.name}: sha256 is {digest}, pinned is {sha256}; pin the new one on purpose or fetch the right file"
        )
        raise SourceError(message)
    return given
