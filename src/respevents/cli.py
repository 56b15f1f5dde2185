"""The `respevents` command: one sub-command for each module that has something to run.

Exit codes: 0 fine, 1 findings or differences, 2 unusable input or wrong usage (argparse's own code too).
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from respevents._errors import ProtocolError
from respevents._extras import MissingExtraError, load

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["EXIT_FINDINGS", "EXIT_FINE", "EXIT_UNUSABLE", "main"]

EXIT_FINE = 0
EXIT_FINDINGS = 1
EXIT_UNUSABLE = 2


class _Command(NamedTuple):
    name: str
    module: str
    """Has `add_arguments(parser)` and `run(arguments) -> exit code`; imported only when called."""
    help: str


_COMMANDS = (
    _Command(
        "check-sdk", "respevents._cli_check_sdk", "compare the events of the installed openai SDK with a schema set"
    ),
    _Command("check", "respevents._cli_check", "check a running server: text, tools, endings, over-long prompts"),
    _Command("classify", "respevents._cli_classify", "say what an engine's error is: cause, code, rule"),
    _Command("codes", "respevents._cli_codes", "list the failure codes, and what clients do on them"),
    _Command("demo", "respevents._demo", "show a good stream and a failing one, served and read over HTTP"),
    _Command("diff", "respevents._diff", "compare two captures, event by event"),
    _Command("explain", "respevents._cli_explain", "say what a finding or a failure code means, and how to mend it"),
    _Command("fmt", "respevents._fmt", "write a capture in canonical bytes, or list what is not"),
    _Command("read", "respevents._cli_read", "say what named clients do with a captured answer, and why"),
    _Command("record", "respevents._cli_record", "pass requests through to a server and keep its event streams"),
    _Command("schema", "respevents._cli_schema", "list, show, export and compare the schema sets"),
    _Command("serve", "respevents._cli_serve", "serve scripted answers, good and broken, to try a client against"),
    _Command("show", "respevents.show", "show a capture as a timeline, in the terminal or as a page"),
    _Command("validate", "respevents._cli_validate", "check captured streams: what is wrong, and whom it breaks"),
)


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    from respevents import __version__

    parser = argparse.ArgumentParser(
        prog="respevents",
        description="Event streams of /v1/responses.",
        epilog="Exit codes: 0 1 2, as grep's.",
    )
    parser.add_argument("--version", action="version", version=f"respevents {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in _COMMANDS:
        sub = commands.add_parser(command.name, help=command.help, description=command.help)
        if command.name == chosen:  # the others are listed, not imported: the command starts fast
            module = load(command.module, needed_by=f"respevents {command.name}")
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line (default: `sys.argv`) and give the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    chosen = next((word for word in words if not word.startswith("-")), None)
    try:
        parsed = _parser(chosen).parse_args(words)
        code: int = parsed.run(parsed)
        sys.stdout.flush()
    except (MissingExtraError, ProtocolError) as error:
        print(f"respevents: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    except BrokenPipeError:  # `respevents ... | head`: whoever read has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FINE
    return code


if __name__ == "__main__":
    sys.exit(main())
