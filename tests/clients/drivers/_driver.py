"""What the Python drivers share: cases come as JSON lines on standard input, results go out as JSON lines."""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

LIMIT = 40
"""Seconds a client may take for one case."""


class TooSlowError(BaseException):
    """Not an Exception: no client catches it."""


def told(error: BaseException) -> dict[str, Any]:
    """An exception as data. `code` is what the client makes of the failure's code, wherever it keeps it."""
    code = getattr(error, "code", None)
    body = getattr(error, "body", None)
    if code is None and isinstance(body, dict):
        code = body.get("code")
    return {
        "class": type(error).__name__,
        "code": code if isinstance(code, (str, int)) else None,
        "message": str(error)[:300],
    }


def serve(version: str, case: Any) -> None:
    """Run `case(base_url, result)` for each line; what it raises is part of the result."""
    print(json.dumps({"version": version}), flush=True)

    def late(*_: object) -> None:
        raise TooSlowError

    signal.signal(signal.SIGALRM, late)
    for line in sys.stdin:
        given = json.loads(line)
        result: dict[str, Any] = {"text": "", "terminal": None, "calls": [], "error": None}
        try:
            signal.alarm(LIMIT)
            case(given["base_url"], result)
        except TooSlowError:
            result["error"] = {"class": "waits", "code": None, "message": f"nothing happened for {LIMIT} s"}
        except BaseException as error:
            result["error"] = told(error)
        finally:
            signal.alarm(0)
        print(json.dumps({"name": given["name"], **result}), flush=True)
