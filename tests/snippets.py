"""Runs what a Markdown page shows: Python and console blocks, as they stand there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple


class Block(NamedTuple):
    """One fenced block: what is between the fences, and the number of the line of the first."""

    language: str
    text: str
    line: int


def blocks(markdown: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    found = re.finditer(r"^```([^\n]*)\n(.*?)^```$", markdown, re.DOTALL | re.MULTILINE)
    return [Block(one[1], one[2], markdown.count("\n", 0, one.start()) + 1) for one in found]


def run_python(block: Block, names: dict[str, Any], page: str = "snippet") -> None:
    """Run it with the names of the blocks before it. Tracebacks name the page and the line in it."""
    exec(compile("\n" * block.line + block.text, page, "exec"), names)


def run_console(block: Block, folder: Path) -> list[str]:
    """Run each `$ command` of the block in `folder`; what comes out and is not what stands below it, as sentences.

    `...` in the page stands for any text in a line, and a line of it alone for any lines.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "COLUMNS": "120", "NO_COLOR": "1"}
    wrong = []
    for command, shown in re.findall(r"^\$ ([^\n]*)\n(.*?)(?=^\$ |\Z)", block.text, re.DOTALL | re.MULTILINE):
        ran = subprocess.run(
            command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        lines = ("(?:.*\n)*" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + "\n"
                 for line in shown.splitlines())  # fmt: skip
        pattern = "".join(lines)
        if ran.returncode not in {0, 1} or not re.fullmatch(pattern, ran.stdout):
            wrong.append(f"$ {command}\nexit code {ran.returncode}\n{ran.stdout}{ran.stderr}")
    return wrong
