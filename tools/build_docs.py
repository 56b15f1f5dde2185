"""Write docs/generated/ and docs/clients.md from the data: schema sets, lifecycle table, catalogues, command, clients.

    python tools/build_docs.py [--check]

--check writes nothing and fails when a committed page differs, is missing, or is made by nothing any more. The site
is built from docs/ with Sphinx (`sphinx-build -W -n docs OUT`); `.ci/run` does both.
"""

from __future__ import annotations

import argparse
import sys
from html import escape
from pathlib import Path
from typing import Any

import msgspec

import docs_lifecycle
import docs_schemas
from docs_clients import clients_page
from docs_text import HEAD, code, codes, table
from respevents import cli
from respevents._cli_codes import catalogue
from respevents._extras import load
from respevents.failures import CATALOGUE, Cause, Failure, Policy
from respevents.findings import RULES
from respevents.testing.mutations import MUTATIONS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


# ---- failures


def failures_page() -> str:
    """Causes, codes and policies."""
    causes = [
        (
            code(cause),
            code(facts.code.value) if facts.code else "none, nothing is sent",
            facts.http_status,
            facts.ending,
            facts.generic or "the failure's message",
        )
        for cause, facts in CATALOGUE.items()
    ]
    rows = []
    for one in catalogue():
        since = f" (since {one['codex_since']})" if one["codex_since"] else ""
        rows.append(
            (
                code(one["code"]),
                code(one["error_type"]),
                one["retry"],
                f"{one['codex']}{since}",
                one["ai_sdk"],
                one["pydantic_ai"],
                one["litellm"],
                one["strands"],
                one["sdk_since"] or "not in it",
                one["evidence"],
            )
        )
    heads = (
        "code", "error.type", "asking again helps", "Codex", "AI SDK", "pydantic-ai", "LiteLLM", "strands",
        "SDK literal since", "evidence",
    )  # fmt: skip
    return f"""{HEAD}# Failure codes

What can go wrong (a *cause*), the `error.code` that says so, and what clients do on it. `respevents codes` prints the
second table, `respevents explain CODE` a row of it, `respevents classify TEXT` finds the cause of an engine's error.

## Causes

*Ending*: `cleanly`, the failure frames and a normal end of the body; `fault`, the same bytes, and the exception is
reported to the server too; `silent`, the client has gone and nothing is sent. HTTP is the status of an answer that is
not streamed. *Told* is what the client reads unless the policy exposes more.

{table(("cause", "code", "HTTP", "ending", "told"), causes)}
## Codes

*Codex*: `context_window`, one request, and the conversation is compacted; `stop`, one request; `wait`, 5 retries after
the delay in the message; `retry`, 5 retries, as on every code it does not know. *AI SDK* and *LiteLLM*: the HTTP status
they take it for. *pydantic-ai* and *strands*: the exception they raise. *SDK literal*: the first openai-python release
whose type has the code. *Evidence*: `run`, observed with the real client; `binary` and `source`, read there; `choice`,
a code of ours that no client knows.

{table(heads, rows)}
## Policies

Where a policy sends something else for a cause. A cell is the code of `response.failed`, then that of the `error` event
where it differs.

{_policies()}"""


def _policies() -> str:
    named = {name: value for name, value in vars(Policy).items() if isinstance(value, Policy)}
    rows: list[tuple[object, ...]] = []
    for cause in CATALOGUE:
        failure = Failure(cause=cause, message="m")
        if failure.ending != "silent":
            sent = [_sent(failure, policy) for policy in named.values()]
            if len(set(sent)) > 1:
                rows.append((code(cause), *sent))
    fields = []
    for field in msgspec.structs.fields(Policy):
        values = [getattr(policy, field.name) for policy in named.values()]
        if all(isinstance(value, str) for value in values):
            fields.append((code(field.name), *(code(value) for value in values)))
    heads = [code(f"Policy.{name}") for name in named]
    rejections = [codes(sorted(policy.stream_rejections)) for policy in named.values()]
    fields.append((code("stream_rejections"), *rejections))
    exposed = [_exposed(policy) for policy in named.values()]
    fields.append((code("expose"), *exposed))
    return f"{table(('setting', *heads), fields)}\n{table(('cause', *heads), rows)}"


def _sent(failure: Failure, policy: Policy) -> str:
    final = failure.code_for(policy)
    event = failure.error_event(policy)
    told = event.get("code") or event.get("error", {}).get("code")
    return code(final) if told == final else f"{code(final)}, {code(told)}"


def _exposed(policy: Policy) -> str:
    if isinstance(policy.expose, str):
        return code(policy.expose)
    by_value: dict[str, list[Cause]] = {}
    for cause, value in policy.expose.items():
        by_value.setdefault(value, []).append(cause)
    return "; ".join(f"{code(value)} for {codes(causes)}" for value, causes in by_value.items())


# ---- findings


def findings_page() -> str:
    """Every rule of the validator."""
    planted: dict[str, list[str]] = {}
    for mutation in MUTATIONS.values():
        planted.setdefault(mutation.rule, []).append(mutation.name)
    text = f"""{HEAD}# Findings

Every fault the validator names, {len(RULES)} rules by layer. `respevents explain RE701` prints one. An `error` breaks a
rule of the protocol or a client; a `warning` is allowed or unclear, but somebody will be surprised; `info` is worth
knowing. With `--client NAME` what breaks that client is an error. *Planted by* names the mutations of
`respevents.testing.mutations` that must trigger the rule.
"""
    layer = None
    for rule in RULES.values():
        if rule.layer != layer:
            layer = rule.layer
            text += f"\n## Layer {layer}\n"
        severities: list[str] = [rule.severity]
        severities += [f"{rule.strict} with `--strict`"] if rule.strict else []
        severities += [f"{rule.open_responses} in the dialect open-responses"] if rule.open_responses else []
        facts: dict[str, str] = {
            "Severity": "; ".join(severities),
            "Why": rule.why,
            "Breaks": rule.breaks,
            "Clients": ", ".join(rule.clients),
            "Fix": rule.fix,
            "Planted by": codes(planted.get(rule.id, planted.get(rule.name, ()))),
        }
        text += f"\n### {rule.id} {rule.name}\n\n"
        text += "".join(f"- *{name}:* {value}\n" for name, value in facts.items() if value)
    return text


# ---- the command

_COMMANDS = cli._COMMANDS  # noqa: SLF001 - it is the one list of the commands


def command_page() -> str:
    """The command's reference, from its parsers. Not argparse's help: that differs from Python to Python."""
    text = f"""{HEAD}# The command

`respevents COMMAND`; exit codes are 0 fine, 1 findings or differences, 2 unusable input or usage.

{table(("command", "what it does"), ((f"[{one.name}](#respevents-{one.name})", one.help) for one in _COMMANDS))}"""
    for command in _COMMANDS:
        parser = argparse.ArgumentParser(prog=f"respevents {command.name}", add_help=False)
        load(command.module).add_arguments(parser)
        text += f"\n## respevents {command.name}\n\n{command.help[0].upper()}{command.help[1:]}.\n"
        text += _arguments(parser)
    return text


def _arguments(parser: argparse.ArgumentParser, level: int = 3) -> str:
    rows, more = [], ""
    for action in parser._actions:  # noqa: SLF001 - argparse has no public way to ask
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            helps = {choice.dest: choice.help for choice in action._choices_actions}  # noqa: SLF001
            for name, inner in action.choices.items():
                inner_actions = _arguments(inner, level + 1)
                said = helps.get(name) or ""
                more += f"\n{'#' * level} {inner.prog}\n\n" + (f"{said[0].upper()}{said[1:]}.\n" if said else "")
                more += inner_actions
            continue
        if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:  # noqa: SLF001
            continue
        rows.append((_called(action), _described(action)))
    return ("\n" + table(("argument", "meaning"), rows) if rows else "") + more


def _called(action: argparse.Action) -> str:
    values = action.metavar or (None if action.choices else action.dest.upper())
    name = (
        " ".join(values)
        if isinstance(values, tuple)
        else values or "{" + ",".join(map(str, action.choices or ())) + "}"
    )
    takes = action.nargs != 0
    if not action.option_strings:
        name = {"*": f"[{name} ...]", "+": f"{name} [{name} ...]", "?": f"[{name}]"}.get(str(action.nargs), name)
        return code(name)
    if action.choices:
        name = action.metavar if isinstance(action.metavar, str) else "NAME"
    return ", ".join(code(f"{one} {name}" if takes else one) for one in action.option_strings)


def _described(action: argparse.Action) -> str:
    said = [escape((action.help or "") % {**vars(action), "prog": "respevents"}, quote=False)]
    if action.choices:
        said.append(f"one of {codes(action.choices)}")
    default: Any = action.default
    shown = default not in {None, False, argparse.SUPPRESS} if not isinstance(default, (list, dict)) else bool(default)
    if shown and "default" not in said[0] and action.nargs != 0:
        said.append(f"default {codes(default) if isinstance(default, list) else code(default)}")
    return "; ".join(one for one in said if one)


# ---- writing


def pages() -> dict[str, str]:
    """Path in docs/ -> text; all that stands in docs/generated/ is among them."""
    generated = {
        "events.md": docs_schemas.events_page(),
        "objects.md": docs_schemas.objects_page(),
        "changes.md": docs_schemas.changes_page(),
        "failures.md": failures_page(),
        "findings.md": findings_page(),
        "command.md": command_page(),
        **docs_lifecycle.files(),
    }
    return {"clients.md": clients_page(), **{f"generated/{name}": text for name, text in generated.items()}}


def main(arguments: list[str] | None = None) -> int:
    """Write or check; 0 when nothing differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    made = pages()
    there = {f"generated/{path.name}" for path in (DOCS / "generated").glob("*")}
    stale = sorted(there - set(made))
    now = {name: (DOCS / name).read_text("utf-8") if (DOCS / name).exists() else None for name in made}
    differing = [name for name in made if now[name] != made[name]]
    if options.check:
        for name in differing:
            print(f"docs/{name}: differs from what tools/build_docs.py makes; run it", file=sys.stderr)
        for name in stale:
            print(f"docs/{name}: tools/build_docs.py does not make it; run it", file=sys.stderr)
        return 1 if differing or stale else 0
    (DOCS / "generated").mkdir(parents=True, exist_ok=True)
    for name in differing:
        (DOCS / name).write_text(made[name], "utf-8")
    for name in stale:
        (DOCS / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
