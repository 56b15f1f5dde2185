"""`respevents serve`: the scripted server. A scenario is chosen by URL (`/s/NAME/v1`) or by the model's name."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from respevents._errors import LocalProtocolError, RemoteProtocolError
from respevents.testing.scenarios import SCENARIOS, Scenario, replay, scenario

if TYPE_CHECKING:
    import argparse

    from respevents.testing.server import Seen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--list", action="store_true", help="name every scenario, and stop")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of --list and of the log")
    parser.add_argument("--dump", metavar="NAME", help="print what a scenario sends, and stop")
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1")
    parser.add_argument("--port", type=int, default=8401, help="default: 8401; 0 takes a free one")
    parser.add_argument(
        "--default", default="text", metavar="NAME", help="the scenario for models that name none (text)"
    )
    parser.add_argument("--gap", type=float, default=0.0, metavar="SECONDS", help="wait between two chunks")
    parser.add_argument(
        "--replay", action="append", default=[], metavar="FILE", type=Path, help="serve a capture, as replay-<file>"
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted; 2 for what cannot be served."""
    replays = [one for path in arguments.replay for one in replay(path)]
    known = {**SCENARIOS, **{one.name: one for one in replays}}
    if arguments.list:
        _list(known, as_json=arguments.format == "json")
        return 0
    if arguments.dump is not None:
        for chunk in scenario(arguments.dump, known).play({}, 1).chunks:
            if isinstance(chunk, bytes):
                sys.stdout.buffer.write(chunk)
        sys.stdout.buffer.flush()
        return 0
    if arguments.gap < 0:
        raise LocalProtocolError("--gap takes seconds", got=str(arguments.gap))
    from respevents.testing.server import ScriptedServer

    as_json = arguments.format == "json"
    server = ScriptedServer(
        host=arguments.host, port=arguments.port, gap=arguments.gap, on_request=lambda seen: _log(seen, as_json=as_json)
    )
    for one in replays:
        server.add(one.name, one)
    server.use(arguments.default)
    try:
        server.start()
    except (OSError, OverflowError) as error:
        raise RemoteProtocolError(f"serve cannot start: {error}", fix="Name a free port.") from error
    try:
        print(
            f"Serving {server.base_url()}/responses, and {server.url}/s/NAME/v1/responses. Stop with Ctrl-C.\n"
            f"{len(known)} scenarios by model name or URL: respevents serve --list. "
            f"A model of another name gets `{arguments.default}`.",
            file=sys.stderr,
            flush=True,
        )
        threading.Event().wait()
    except KeyboardInterrupt:
        print(file=sys.stderr)
    finally:
        server.stop()
    return 0


def _list(known: dict[str, Scenario], *, as_json: bool) -> None:
    if as_json:
        rows = [{"name": one.name, "group": one.group, "help": one.help} for one in known.values()]
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    width = max(map(len, known))
    group = ""
    for one in known.values():  # they stand together by group
        if one.group != group:
            print(f"\n{one.group}" if group else one.group)
            group = one.group
        print(f"  {one.name.ljust(width)}  {one.help}")
    print("\nNAME@gap=0.2,chunk=7 sets the pace, NAME+NAME answers one request after another.")


def _log(seen: Seen, *, as_json: bool) -> None:
    if as_json:
        body = seen.body or {}
        told = {
            "method": seen.method,
            "path": seen.path,
            "scenario": seen.scenario,
            "run": seen.run,
            "websocket": seen.websocket,
            "model": body.get("model"),
            "stream": body.get("stream"),
        }
        print(json.dumps(told, ensure_ascii=False), flush=True)
    else:
        print(f"{seen.method} {seen.path}  {seen.scenario or '-'}", flush=True)
