"""`respevents record`: a proxy that passes everything through and keeps each event stream that comes by.

Beside `0001.sse` (the body, byte for byte) stands `0001.json`: the request, status, headers, the pace (`[seconds since
the answer began, bytes]` for each piece, as far as the first 10,000), how the body ended and what the validator found.
Keys and cookies are left out of it. Nothing is repaired: what the server sends is recorded,
a cut body is cut for the client too.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
import uvicorn

from respevents._errors import RemoteProtocolError, show
from respevents._extras import MissingExtraError, load
from respevents.relay import Relay

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

__all__ = ["Recorder", "add_arguments", "run"]

_HOP: Final = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding "
    b"upgrade".split()
)
"""Headers of one connection (RFC 9110, 7.6.1)."""

_SECRET: Final = re.compile(r"(?i)auth|cookie|key|token|secret")
"""Names of headers whose values are not written down."""

_MAX_KEPT: Final = 4 * 1024 * 1024
"""Bytes of a request body that are kept for the record; all of it is passed on."""

_MAX_PACE: Final = 10_000
"""Pieces whose time is kept; those after them are replayed at once."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--upstream", required=True, metavar="URL", help="the server, such as http://127.0.0.1:8000")
    parser.add_argument("--listen", default="127.0.0.1:8400", metavar="[HOST:]PORT", help="default: 127.0.0.1:8400")
    parser.add_argument("--out", required=True, metavar="DIR", type=Path, help="where the streams are kept")
    parser.add_argument("--count", type=int, metavar="N", help="stop after N streams (default: at Ctrl-C)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the line for each stream")


def run(arguments: argparse.Namespace) -> int:
    """Serve until interrupted; 0, 1 when a stream had errors, 2 for unusable arguments."""
    host, port = _address(arguments.listen)
    url = _url(arguments.upstream)
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
        listener = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise RemoteProtocolError(f"record cannot start: {error}", fix="Name a free port and a folder.") from error
    recorder = Recorder(url, arguments.out, as_json=arguments.format == "json", count=arguments.count)
    config = uvicorn.Config(recorder, log_level="critical", lifespan="off", ws="none", server_header=False)
    recorder.server = uvicorn.Server(config)
    shown = f"[{host}]" if ":" in host else host
    print(f"recording http://{shown}:{listener.getsockname()[1]} -> {url} into {arguments.out}", file=sys.stderr)
    with listener:
        try:
            recorder.server.run(sockets=[listener])
        except KeyboardInterrupt:
            print(file=sys.stderr)
    return 1 if recorder.faulty else 0


class Recorder:
    """The proxy as an ASGI app. `faulty` counts the streams with errors."""

    def __init__(self, upstream: httpx.URL, out: Path, *, as_json: bool = False, count: int | None = None) -> None:
        self._upstream = upstream
        self._out = out
        self._json = as_json
        self._left = count
        self._client: httpx.AsyncClient | None = None
        numbers = [int(path.stem) for path in out.glob("[0-9]*.sse") if path.stem.isdigit()]
        self._next = max(numbers, default=0) + 1
        self._validator = _validators()
        self.faulty = 0
        self.server: uvicorn.Server | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass one request on, and its answer back."""
        if scope["type"] != "http":
            return
        if self._client is None:
            # No limit on how long an answer takes; a server that cannot be reached is told soon.
            self._client = httpx.AsyncClient(timeout=httpx.Timeout(None, connect=10), follow_redirects=False)
        kept = bytearray()
        headers = [pair for pair in _end_to_end(scope["headers"]) if pair[0] not in {b"host", b"accept-encoding"}]
        # What is recorded is read: no compression. The length stays, so that the body is framed as it came.
        headers.append((b"accept-encoding", b"identity"))
        target = self._upstream.copy_with(raw_path=self._upstream.raw_path.rstrip(b"/") + _target(scope))
        request = self._client.build_request(
            scope["method"], target, headers=headers, content=_body(receive, kept) if _has_body(scope) else None
        )
        try:
            answer = await self._client.send(request, stream=True)
        except httpx.HTTPError as error:
            text = json.dumps({"error": {"message": f"The upstream cannot be reached: {type(error).__name__}"}})
            head = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
            await send({"type": "http.response.start", "status": 502, "headers": head})
            await send({"type": "http.response.body", "body": text.encode()})
            return
        try:
            await self._answer(scope, answer, bytes(kept), receive, send)
        finally:
            await answer.aclose()

    async def _answer(
        self, scope: MutableMapping[str, Any], answer: httpx.Response, body: bytes, receive: Receive, send: Send
    ) -> None:
        headers = [(name.lower(), value) for name, value in _end_to_end(answer.headers.raw)]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
        stream: _Stream | None = None
        if answer.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/event-stream":
            stream = self._begin(scope, answer, body)
        leaving = asyncio.ensure_future(_left(receive))
        ended = "the client left"
        try:
            async for chunk in _until(answer.aiter_raw(), leaving):
                if stream is not None:
                    stream.take(chunk)
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            if not leaving.done():
                ended = "cleanly"
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except httpx.HTTPError as error:
            ended = f"cut by the server ({type(error).__name__})"
            raise  # the server below cuts the client's body as well
        finally:
            leaving.cancel()
            if stream is not None:
                self._end(stream, ended)

    def _begin(self, scope: MutableMapping[str, Any], answer: httpx.Response, body: bytes) -> _Stream:
        number, self._next = self._next, self._next + 1
        record = {
            "request": {
                "method": scope["method"],
                "path": _target(scope).decode("latin-1"),
                "headers": _told(scope["headers"]),
                "body": _json_or_text(body),
            },
            "status": answer.status_code,
            "headers": _told(answer.headers.raw),
        }
        return _Stream(self._out / f"{number:04d}.sse", record, self._validator and self._validator())

    def _end(self, stream: _Stream, ended: str) -> None:
        told = stream.end(ended)
        self.faulty += told["errors"] > 0 or ended.startswith("cut")
        if self._json:
            print(json.dumps(told, ensure_ascii=False), flush=True)
        else:
            found = ", ".join(f"{count} {rule}" for rule, count in told["rules"].items())
            print(
                f"{told['file']}  {told['status']}  {told['terminal'] or 'no terminal event'}  "
                f"{told['events']} events  {told['seconds']:.2f}s  ended {ended}  {found or 'no findings'}",
                flush=True,
            )
        if self._left is not None:
            self._left -= 1
            if self._left <= 0 and self.server is not None:
                self.server.should_exit = True


class _Stream:
    """One stream on its way to its file."""

    def __init__(self, path: Path, record: dict[str, Any], validator: Any) -> None:
        self._path = path
        self._record = record
        self._validator = validator
        self._file = path.open("xb")
        self._relay = Relay(on_failure=lambda _: None, on_notice=lambda _: None)
        self._began = time.perf_counter()
        self._pace: list[tuple[float, int]] = []

    def take(self, chunk: bytes) -> None:
        if len(self._pace) < _MAX_PACE:
            self._pace.append((round(time.perf_counter() - self._began, 4), len(chunk)))
        self._file.write(chunk)
        self._relay.feed(chunk)
        if self._validator is not None:
            self._validator.feed(chunk)

    def end(self, ended: str) -> dict[str, Any]:
        self._file.close()
        report = self._validator.close() if self._validator is not None else None
        findings = report.findings if report is not None else ()
        rules: dict[str, int] = {}
        for finding in findings:
            if finding.severity != "info":
                rules[finding.rule] = rules.get(finding.rule, 0) + 1
        told = {
            "file": self._path.name,
            "status": self._record["status"],
            "terminal": self._relay.terminal,
            "events": report.events if report is not None else (self._relay.last_sequence_number or -1) + 1,
            "seconds": round(time.perf_counter() - self._began, 3),
            "ended": ended,
            "errors": sum(finding.severity == "error" for finding in findings),
            "rules": rules,
        }
        whole = {
            **self._record,
            **told,
            "pace": self._pace,
            "findings": report.to_dict()["findings"] if report is not None else None,
        }
        text = json.dumps(whole, ensure_ascii=False, indent=1).encode("utf-8", "replace")
        self._path.with_suffix(".json").write_bytes(text)
        return told


def _validators() -> Any:
    """The class of the validator, or None where its libraries are not installed."""
    try:
        return load("respevents.validate", needed_by="findings beside the streams").StreamValidator
    except MissingExtraError as error:
        print(f"respevents: recording without validation: {error}", file=sys.stderr)
        return None


async def _until(chunks: AsyncIterator[bytes], leaving: asyncio.Future[None]) -> AsyncIterator[bytes]:
    """The chunks, until there are none or the client left."""
    while True:
        step = asyncio.ensure_future(_next(chunks))
        try:
            waiting: list[asyncio.Future[Any]] = [step, leaving]
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if not step.done():
                return
            chunk = step.result()
        finally:
            if not step.done():
                step.cancel()
        if chunk is None:
            return
        yield chunk


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    return await anext(chunks, None)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(receive: Receive, kept: bytearray) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise httpx.ReadError("The client left before its request was whole")
        part = message.get("body", b"")
        kept += part[: _MAX_KEPT - len(kept)]
        more = message.get("more_body", False)
        if part:
            yield part


def _has_body(scope: MutableMapping[str, Any]) -> bool:
    return any(name in {b"content-length", b"transfer-encoding"} for name, _ in scope["headers"])


def _target(scope: MutableMapping[str, Any]) -> bytes:
    raw: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope.get("query_string", b"")
    return raw + b"?" + query if query else raw


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    named = {
        word.strip().lower() for name, value in headers if name.lower() == b"connection" for word in value.split(b",")
    }
    return [(name, value) for name, value in headers if name.lower() not in _HOP | named]


def _told(headers: Iterable[tuple[bytes, bytes]]) -> list[list[str]]:
    pairs = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]
    return [[name, "(left out)" if _SECRET.search(name) else value] for name, value in pairs]


def _json_or_text(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode("utf-8", "replace")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise RemoteProtocolError("--listen needs a port", got=show(text), fix="Write 127.0.0.1:8400 or 8400.")
    return host.strip("[]") or "127.0.0.1", int(port)


def _url(text: str) -> httpx.URL:
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError) as error:
        raise RemoteProtocolError("--upstream is no URL", got=show(text)) from error
    if url.scheme not in {"http", "https"} or not url.host:
        raise RemoteProtocolError("--upstream needs http or https and a host", got=show(text))
    return url


logging.getLogger("httpx").setLevel(logging.WARNING)  # one line for each request would stand between ours
