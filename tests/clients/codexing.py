"""One run of the real Codex CLI against a base URL, in a home and a folder of its own."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
model = "{model}"
model_provider = "scripted"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "{base_url}"
wire_api = "responses"
env_key = "DUMMY_KEY"
"""


def exec_codex(
    binary: str, folder: Path, base_url: str, *, model: str = "m", prompt: str = "say hi", timeout: float = 150
) -> subprocess.CompletedProcess[str]:
    """`codex exec --json` with the prompt on standard input. `folder` is new and empty. Raises TimeoutExpired."""
    home, work = folder / "home", folder / "work"
    home.mkdir(parents=True)
    work.mkdir()
    (home / "config.toml").write_text(CONFIG.format(model=model, base_url=base_url))
    env = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    env |= {"CODEX_HOME": str(home), "DUMMY_KEY": "none", "NO_COLOR": "1"}
    return subprocess.run(
        [binary, "exec", "--skip-git-repo-check", "--json", "-"],
        input=prompt, env=env, cwd=work, capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip
