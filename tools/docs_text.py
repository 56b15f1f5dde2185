"""Markdown for the generated pages: tables, code, and the anchors that headings get."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HEAD = "<!-- Made by tools/build_docs.py. Do not edit. -->\n\n"


def code(text: object) -> str:
    """Text in code type."""
    return f"`{text}`"


def codes(texts: Iterable[object]) -> str:
    """Several, with commas."""
    return ", ".join(map(code, texts))


def anchor(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def cell(text: object) -> str:
    """Text that may stand in a table."""
    return str(text).replace("|", "\\|").replace("\n", " ")


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; what says nothing is left empty. Columns that no row fills are left out."""
    filled = [["" if one in {None, ""} else cell(one) for one in row] for row in rows]
    kept = [at for at in range(len(heads)) if any(row[at] for row in filled)]
    lines = [[heads[at] for at in kept], ["---" for _ in kept], *([row[at] for at in kept] for row in filled)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def fence(text: str, language: str = "text") -> str:
    """A block of code."""
    return f"```{language}\n{text}\n```\n"
