"""The pytest plugin: fixtures `responses_server` and `assert_stream`, and captures as tests.

    pytest --responses-captures DIR

turns every stream in every file under DIR into a test that fails with the timeline and the findings. It loads by
itself where respevents is installed and imports nothing of it until a fixture or the option is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from typing import TypeGuard

    from respevents.testing.server import ScriptedServer
    from respevents.validate import Report

MARKER = "responses_capture"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("respevents", "event streams of /v1/responses")
    group.addoption(
        "--responses-captures",
        action="append",
        default=[],
        metavar="DIR",
        help="make a test of each captured stream under DIR (or in a file)",
    )
    group.addoption(
        "--responses-client",
        action="append",
        default=[],
        metavar="NAME",
        help="for captures: findings that break this client are errors",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", f"{MARKER}: a captured stream, made by --responses-captures")
    clients = config.getoption("--responses-client")
    if clients:
        from respevents.findings import CLIENTS

        unknown = [name for name in clients if name not in CLIENTS]
        if unknown:
            raise pytest.UsageError(f"--responses-client: no such client: {unknown[0]} (use {', '.join(CLIENTS)})")
    given = _given(config)
    missing = [name for name in given if not Path(name).exists()]
    if missing:
        raise pytest.UsageError(f"--responses-captures: no such folder or file: {', '.join(missing)}")
    if given and not hasattr(config, "workerinput"):
        # A path that is no test file is collected only when it is asked for.
        config.args.extend(str(Path(name).resolve()) for name in given)


def _given(config: pytest.Config) -> list[str]:
    found: list[str] = config.getoption("--responses-captures") or []
    return found


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take the files of the captures' folders."""
    roots = [Path(name).resolve() for name in _given(parent.config)]
    if not any(root == file_path or root in file_path.parents for root in roots):
        return None
    if file_path.suffix in {".py", ".pyc"} or file_path.name.startswith("."):
        return None
    return CaptureFile.from_parent(parent, path=file_path)


class CaptureFile(pytest.File):
    """A file of captures."""

    def collect(self) -> Iterable[pytest.Item]:
        """A test for each stream in it."""
        from respevents._capture import is_note
        from respevents.captures import CaptureError, NoStreamError, read_captures

        if is_note(self.path):
            return
        try:
            count = sum(1 for _ in read_captures(self.path))
        except NoStreamError as error:
            yield CaptureItem.from_parent(self, name="no-stream", number=0, skip=str(error))
            return
        except CaptureError as error:
            yield CaptureItem.from_parent(self, name="unreadable", number=0, error=str(error))
            return
        for number in range(1, count + 1):
            yield CaptureItem.from_parent(self, name=f"stream-{number}", number=number)


class NotValidError(Exception):
    """A captured stream with an error."""


class CaptureItem(pytest.Item):
    """One captured stream."""

    def __init__(self, *, number: int, error: str | None = None, skip: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.number = number
        self.error = error
        self.add_marker(MARKER)
        if skip:
            self.add_marker(pytest.mark.skip(reason=skip))

    def runtest(self) -> None:
        """Validate it."""
        from respevents.captures import read_captures

        if self.error is not None:
            raise NotValidError(self.error)
        for number, capture in enumerate(read_captures(self.path), start=1):
            if number == self.number:
                body = b"".join(capture.chunks())
                for client in self.config.getoption("--responses-client") or [None]:
                    _check(body, framing=capture.framing, client=client)
                return

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The findings, and no traceback of ours."""
        if isinstance(excinfo.value, NotValidError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where it stands. A line there must be: pytest cannot report a skip without one."""
        return self.path, 0, self.name


def _check(body: bytes, **options: Any) -> None:
    from respevents.testing import assert_valid_stream

    try:
        assert_valid_stream(body, **options)
    except AssertionError as error:
        raise NotValidError(str(error)) from None


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Two streams that should be equal: the events that differ."""
    if op != "==" or not (_starts_as_stream(left) and _starts_as_stream(right)):
        return None
    from respevents.testing._telling import compared

    return ["two event streams differ", *compared(left, right)]


def _starts_as_stream(value: object) -> TypeGuard[bytes]:
    return isinstance(value, bytes) and value.startswith((b"event:", b"data:", b": "))


@pytest.fixture
def assert_stream() -> Any:
    """`assert_stream(source, **options) -> Report`: see `respevents.testing.assert_valid_stream`."""
    from respevents.testing import assert_valid_stream

    def check(source: Any, **options: Any) -> Report:
        __tracebackhide__ = True
        return assert_valid_stream(source, **options)

    return check


@pytest.fixture(scope="session")
def _responses_server() -> Iterator[ScriptedServer]:
    from respevents.testing.server import ScriptedServer

    with ScriptedServer() as server:
        yield server


@pytest.fixture
def responses_server(_responses_server: ScriptedServer) -> Generator[ScriptedServer, None, None]:
    """The scripted server (`respevents.testing.server.ScriptedServer`) on loopback, over real HTTP.

    One server serves the whole session; a test sees its own requests and scenarios.
    """
    server = _responses_server
    server.requests.clear()
    kept = set(server.scenarios)
    yield server
    server.forget(*(set(server.scenarios) - kept))
