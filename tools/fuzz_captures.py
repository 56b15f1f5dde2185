"""Fuzz the capture readers with atheris, guided by coverage: no input may crash or hang them, or read otherwise when it
is cut into other chunks.

atheris is in no extra (it has no wheels for every Python this package supports): `pip install atheris`, then
`python tools/fuzz_captures.py --seconds 300`. Seeds are the recordings of the tests. What breaks is kept in the
working directory as libFuzzer does it (crash-*, timeout-*), and a file given as an argument is run alone.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

SECONDS_A_RUN: Final = 20
MOST_BYTES: Final = 8192


def instrumented(atheris: Any) -> tuple[Any, Any]:
    """The readers, with coverage counted in them alone."""
    names = ("captures", "_documents", "_dumps", "_lines", "_seams", "_sources")
    with atheris.instrument_imports(include=[f"respevents.{name}" for name in names]):
        captures = importlib.import_module("respevents.captures")
    return captures, importlib.import_module("respevents")


def outcome(captures: Any, package: Any, source: Any, kind: str | None) -> tuple[list[tuple[str, bytes]], bool]:
    """What was read, and whether the rest was refused."""
    limits = captures.Limits(line=4096, headers=1024, document=100_000, yaml=20_000, unpacked=1_000_000)
    read: list[tuple[str, bytes]] = []
    try:
        for capture in captures.read_captures(source, format=kind, limits=limits):
            body = b""
            for chunk in capture.chunks():
                body += chunk
            read.append((capture.format, body))
    except package.ProtocolError as error:
        return read, bool(str(error))
    return read, False


def target(captures: Any, package: Any, data: bytes) -> None:
    """The first byte chooses a format, the second the size of the chunks."""
    if len(data) < 2:
        return
    formats = [None, *captures.FORMATS]
    kind, size, body = formats[data[0] % len(formats)], 1 + data[1] % 61, data[2:]
    whole, refused = outcome(captures, package, body, kind)
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    other, also_refused = outcome(captures, package, pieces, kind)
    assert refused == also_refused, "refused in one cutting and not in the other"
    if not refused:
        assert whole == other, "what is read depends on the cutting"


def write_seeds(folder: Path) -> None:
    """Each recording of the tests, in plain and with a format named."""
    import recordings  # type: ignore[import-not-found,unused-ignore]

    body = recordings.stream()
    for number, (_, writer) in enumerate([*recordings.SSE.values(), *recordings.JSON_LINES.values()]):
        data = writer(body)
        (folder / f"{number:02}").write_bytes(b"\x00\x07" + data[:MOST_BYTES])
        (folder / f"{number:02}-short").write_bytes(b"\x00\x07" + data[:400] + data[-200:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=300, help="how long to fuzz (default: 300)")
    parser.add_argument("files", nargs="*", help="run these inputs alone")
    chosen = parser.parse_args()
    try:
        atheris = importlib.import_module("atheris")
    except ModuleNotFoundError:
        sys.exit("fuzz_captures needs atheris: pip install atheris")
    captures, package = instrumented(atheris)
    with tempfile.TemporaryDirectory() as folder:
        write_seeds(Path(folder))
        arguments = [sys.argv[0], f"-max_len={MOST_BYTES}", f"-timeout={SECONDS_A_RUN}", "-rss_limit_mb=1500"]
        arguments += chosen.files or [f"-max_total_time={chosen.seconds}", folder]
        atheris.Setup(arguments, lambda data: target(captures, package, bytes(data)))
        atheris.Fuzz()


if __name__ == "__main__":
    main()
