"""A scripted server of `/v1/responses` on loopback: every scenario by URL and by model name, over SSE and WebSocket.

    with ScriptedServer() as server:
        client = OpenAI(base_url=server.base_url("over-length"), api_key="-")

It runs in a thread with a loop of its own, so synchronous and asynchronous tests use it alike.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import threading
from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from respevents._errors import EncodeError, LocalProtocolError, ProtocolError, show
from respevents.failures import Cause, Failure, error_envelope
from respevents.testing._http import Answer, Connection, Heard
from respevents.testing.scenarios import SCENARIOS, SSE, Scenario, Script, scenario
from respevents.wire import FrameDecoder, decode_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from typing_extensions import Self

__all__ = ["ScriptedServer", "Seen"]

MAX_STORED: Final = 64
"""Responses that can be asked for again; the oldest go first."""

MAX_SEEN: Final = 10_000
"""Requests that are remembered; the oldest go first."""


class Seen(NamedTuple):
    """A request that came in. `body` is its JSON object, None without one; `scenario` is what answered."""

    method: str
    path: str
    scenario: str | None
    run: str
    headers: Mapping[str, str]
    body: dict[str, Any] | None
    websocket: bool


class ScriptedServer:
    """The server. `port=0` takes a free one; `default` answers models that are no scenario; `gap` is seconds between
    chunks. `on_request` is called with each `Seen` as it comes, in the server's thread.

    Use it as a context manager, or `start()` and `stop()`. Raises OSError when the port cannot be had.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        default: str = "text",
        gap: float = 0.0,
        on_request: Callable[[Seen], None] | None = None,
    ) -> None:
        self._host, self._port, self._gap = host, port, gap
        self._scenarios: dict[str, Scenario] = dict(SCENARIOS)
        self._default = ""
        self._on_request = on_request
        self._counts: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._runs = itertools.count(1)
        self._numbers = itertools.count(1)
        self._stored: OrderedDict[str, list[bytes]] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._failed: BaseException | None = None
        self.requests: list[Seen] = []
        """What came in, oldest first."""
        self.use(default)

    # ---- what it serves

    def use(self, spec: str) -> None:
        """Answer models that are no scenario with this one. LocalProtocolError if unknown."""
        self.sequence(spec)
        self._default = spec

    @property
    def scenarios(self) -> Mapping[str, Scenario]:
        """Every scenario of this server, those that were added too."""
        return self._scenarios

    def add(self, name: str, answer: Scenario | Script | bytes | Iterable[bytes | float], text: str = "") -> str:
        """Add an answer of one's own and give its name.

        `answer`: a scenario, a script, the bytes of a body, or its chunks (a number among them is a pause in seconds).
        Raises LocalProtocolError for a name that a URL or a spec cannot carry.
        """
        if not name or any(sign in name for sign in "+@/?#, \t\n"):
            raise LocalProtocolError("A scenario needs a name without + @ / ? # , and spaces", got=show(name))
        if isinstance(answer, Scenario):
            self._scenarios[name] = answer._replace(name=name)
            return name
        if isinstance(answer, bytes):
            answer = Script([answer])
        elif not isinstance(answer, Script):
            answer = Script(list(answer))
        script = answer._replace(chunks=list(answer.chunks))
        self._scenarios[name] = Scenario(name, text, "your own", lambda _request, _number: script)
        return name

    def forget(self, *names: str) -> None:
        """Take scenarios away that were added. LocalProtocolError for one that is not there."""
        for name in names:
            if self._scenarios.pop(name, None) is None:
                raise LocalProtocolError("No such scenario", got=show(name))
            if name in SCENARIOS:
                self._scenarios[name] = SCENARIOS[name]

    def sequence(self, spec: str) -> list[Scenario]:
        """The scenarios of `a+b@gap=1`: one for each request, the last for the rest. LocalProtocolError if unknown."""
        return [scenario(part, self._scenarios, gap=self._gap) for part in spec.split("+")]

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    def base_url(self, spec: str | None = None) -> str:
        """What a client takes as its base URL, for one scenario or a sequence; each call counts its requests anew.

        Without `spec` the model's name chooses. Raises LocalProtocolError for a scenario that does not exist.
        """
        if spec is None:
            return f"{self.url}/v1"
        self.sequence(spec)
        return f"{self.url}/s/{spec}/{next(self._runs)}/v1"

    def requests_of(self, base_url: str) -> list[Seen]:
        """The requests for responses that came in on a URL of `base_url`."""
        parts = urlsplit(base_url).path.strip("/").split("/")
        run = parts[2] if len(parts) > 2 and parts[0] == "s" else ""
        return [
            one
            for one in self.requests
            if one.run == run and one.method == "POST" and one.path.rstrip("/").endswith("/responses")
        ]

    # ---- its life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listen; returns when it does."""
        if self._thread is not None:
            raise LocalProtocolError("The server runs already")
        ready = threading.Event()
        self._failed = None
        self._thread = threading.Thread(target=self._run, args=(ready,), name="respevents-scripted", daemon=True)
        self._thread.start()
        ready.wait()
        failed: BaseException | None = self._failed
        if failed is not None:
            self._thread.join()
            self._thread = None
            raise failed

    def stop(self) -> None:
        """Stop listening and break what is open."""
        if self._thread is None or self._loop is None or self._stopping is None:
            return
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._thread = None

    def _run(self, ready: threading.Event) -> None:
        try:
            asyncio.run(self._serve(ready))
        except BaseException as error:  # noqa: BLE001 - whoever waits for it raises it
            self._failed = error
        finally:
            ready.set()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        open_: set[asyncio.Task[None]] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            open_.add(task)
            try:
                await Connection(reader, writer, self._respond).run()
            except asyncio.CancelledError:
                writer.close()
            finally:
                open_.discard(task)

        server = await asyncio.start_server(connected, self._host, self._port)
        self._port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stopping.wait()
        server.close()
        tasks = list(open_)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---- what a request is answered with

    async def _respond(self, heard: Heard) -> Answer | Script:
        url = urlsplit(heard.target)
        parts = [unquote(part) for part in url.path.split("/") if part]
        spec: str | None = None
        run = ""
        if parts[:1] == ["s"] and len(parts) > 1:
            spec, rest = parts[1], parts[2:]
            if rest and rest[0] not in {"v1", "responses", "models"}:
                run, rest = rest[0], rest[1:]
            parts = rest
        if parts[:1] == ["v1"]:
            parts = parts[1:]
        return self._route(heard, parts, parse_qs(url.query), spec, run)

    def _route(
        self, heard: Heard, parts: list[str], query: Mapping[str, list[str]], spec: str | None, run: str
    ) -> Answer | Script:
        if parts == ["responses"] and (heard.method == "POST" or heard.websocket):
            if heard.websocket and heard.fields is None:
                self._see(heard, None, run)
                return Script([])
            return self._create(heard, spec, run)
        self._see(heard, None, run)
        if parts == ["models"] and heard.method == "GET":
            return Answer(200, {"object": "list", "data": [_model(name) for name in self._scenarios]})
        if parts[:1] == ["models"] and heard.method == "GET" and len(parts) > 1:
            return Answer(200, _model("/".join(parts[1:])))
        if parts == ["_scenarios"]:
            return Answer(200, {one.name: one.help for one in self._scenarios.values()})
        if parts == ["_requests"]:
            return Answer(200, [{**one._asdict(), "headers": dict(one.headers)} for one in self.requests])
        if parts[:1] == ["responses"] and len(parts) in {2, 3}:
            return self._stored_one(heard.method, parts[1:], query)
        return _refused(Cause.INVALID_REQUEST, f"No route {heard.method} {heard.target[:200]}", 404)

    def _see(self, heard: Heard, name: str | None, run: str) -> None:
        seen = Seen(heard.method, urlsplit(heard.target).path, name, run, heard.headers, heard.fields, heard.websocket)
        self.requests.append(seen)
        if len(self.requests) > MAX_SEEN:
            del self.requests[0]
        if self._on_request is not None:
            self._on_request(seen)

    def _create(self, heard: Heard, spec: str | None, run: str) -> Answer | Script:
        request = heard.fields or {}
        if spec is None:
            spec = self._by_model(request.get("model"))
        try:
            steps = self.sequence(spec)
        except LocalProtocolError as error:
            self._see(heard, None, run)
            return _refused(Cause.INVALID_REQUEST, str(error), 404)
        at = self._counts[spec, run]
        self._counts[spec, run] += 1
        chosen = steps[min(at, len(steps) - 1)]
        self._see(heard, chosen.name, run)
        try:
            script = chosen.play(request, next(self._numbers))
            if request.get("stream") is True:
                chunks = iter(script.chunks)
                first = list(itertools.islice(chunks, 1))  # made now: a request that cannot be repeated raises here
                return script._replace(chunks=self._kept(itertools.chain(first, chunks)))
            return _unstreamed(script)
        except (ProtocolError, EncodeError) as error:  # what the request holds cannot be repeated
            return _refused(Cause.INVALID_REQUEST, str(error))

    def _by_model(self, model: Any) -> str:
        """A model that names a scenario, with or without the prefix of a provider."""
        for name in (model, model.rpartition("/")[2]) if isinstance(model, str) else ():
            try:
                self.sequence(name)
            except LocalProtocolError:
                continue
            return name
        return self._default

    def _kept(self, chunks: Iterable[bytes | float]) -> Iterable[bytes | float]:
        """The chunks on their way out, kept for whoever asks for the response again."""
        body: list[bytes] = []
        for chunk in chunks:
            if isinstance(chunk, bytes):
                body.append(chunk)
            yield chunk
        frames = _decoded(body)
        for _, event in frames:
            response = event.get("response") if isinstance(event, dict) else None
            if isinstance(response, dict) and isinstance(response.get("id"), str):
                self._stored[response["id"]] = [raw for raw, _ in frames]
                if len(self._stored) > MAX_STORED:
                    self._stored.popitem(last=False)
                return

    def _stored_one(self, method: str, parts: list[str], query: Mapping[str, list[str]]) -> Answer | Script:
        name = parts[0]
        frames = self._stored.get(name)
        if frames is None:
            body = {"message": f"Response with id '{name[:200]}' not found.", "type": "invalid_request_error"}
            return Answer(404, {"error": {**body, "param": "id", "code": "previous_response_not_found"}})
        if method == "DELETE" and len(parts) == 1:
            del self._stored[name]
            return Answer(200, {"id": name, "object": "response", "deleted": True})
        if parts[1:] == ["cancel"] and method == "POST":
            return Answer(200, {**_last_response(frames), "status": "cancelled"})
        if method != "GET" or len(parts) > 1:
            return _refused(Cause.INVALID_REQUEST, f"No route {method} for a response", 404)
        if query.get("stream", [""])[0] != "true":
            return Answer(200, _last_response(frames))
        after = query.get("starting_after", ["-1"])[0]
        try:
            number = int(after)
        except ValueError:
            return _refused(Cause.INVALID_REQUEST, f"starting_after is no number: {after[:40]}")
        rest = [raw for raw, event in _decoded(frames) if isinstance(event, dict) and _number(event) > number]
        return Script(rest, headers=SSE)


def _decoded(chunks: Iterable[bytes]) -> list[tuple[bytes, Any]]:
    """Each frame with its event, None where it has none."""
    decoder = FrameDecoder()
    found: list[tuple[bytes, Any]] = []
    for frame in (*decoder.feed(b"".join(chunks)), *decoder.close()):
        try:
            found.append((frame.raw, decode_json(frame.data)))
        except ProtocolError:
            found.append((frame.raw, None))
    return found


def _number(event: Mapping[str, Any]) -> float:
    number = event.get("sequence_number")
    return number if isinstance(number, int) else math.inf


def _last_response(frames: Iterable[bytes]) -> dict[str, Any]:
    last: dict[str, Any] = {}
    for _, event in _decoded(frames):
        response = event.get("response") if isinstance(event, dict) else None
        if isinstance(response, dict):
            last = response
    return last


def _unstreamed(script: Script) -> Script:
    """The answer to a request without `stream`: the terminal snapshot, or the failure's HTTP answer."""
    if not script.headers.get("content-type", "").startswith("text/event-stream"):
        return script
    chunks = list(script.chunks)
    headers = {"content-type": "application/json"}
    if script.failure is not None and script.end == "clean":
        status, envelope = error_envelope(script.failure)
        return Script([json.dumps(envelope).encode()], status=status, headers=headers)
    raw = json.dumps(_last_response(chunk for chunk in chunks if isinstance(chunk, bytes)), ensure_ascii=False)
    body = raw.encode("utf-8", "replace")
    if script.end != "clean":
        body = body[: len(body) // 2]
    return Script([*(chunk for chunk in chunks if not isinstance(chunk, bytes)), body], script.end, headers=headers)


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "respevents"}


def _refused(cause: Cause, message: str, status: int | None = None) -> Answer:
    default, envelope = error_envelope(Failure(cause=cause, message=message))
    return Answer(status or default, envelope)
