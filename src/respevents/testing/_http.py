"""HTTP and WebSocket over one asyncio connection, with every way to break off. h11 and wsproto know the protocols.

A framework would mend what a scripted server has to do wrong, so this stands on the sockets.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from respevents._extras import load

if not TYPE_CHECKING:
    load("h11", needed_by="the scripted server")
    load("wsproto", needed_by="the scripted server")

import h11
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Message,
    Ping,
    Request,
    TextMessage,
)
from wsproto.utilities import LocalProtocolError as WebSocketMisuse
from wsproto.utilities import RemoteProtocolError as WebSocketError

from respevents._errors import ProtocolError
from respevents.wire import FrameDecoder, decode_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from respevents.testing.scenarios import Script

__all__ = ["MAX_BODY", "Answer", "Connection", "Heard"]

MAX_BODY: Final = 64 * 1024 * 1024
"""Bytes of a request that are read; more is answered with 413."""

_MAX_MESSAGE: Final = MAX_BODY
_READ: Final = 65536


class Heard(NamedTuple):
    """A request as it came. `fields` is its JSON object, None where the body holds none."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    fields: dict[str, Any] | None
    websocket: bool = False


class Answer(NamedTuple):
    """An answer that is no script: whole, in JSON."""

    status: int
    value: Any
    headers: Mapping[str, str] = {}


class Gone(Exception):  # noqa: N818 - what happened
    """The client left."""


def decoded(headers: Mapping[str, str], body: bytes) -> dict[str, Any] | None:
    """The JSON object of a request body, its packing taken off where Python can."""
    packing = headers.get("content-encoding", "identity").lower()
    try:
        if packing == "gzip":
            body = gzip.decompress(body)
        elif packing == "deflate":
            body = zlib.decompress(body)
        value = json.loads(body)
    except (ValueError, OSError, EOFError, zlib.error, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class Connection:
    """One connection. `respond(heard)` gives what each request is answered with."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        respond: Callable[[Heard], Awaitable[Answer | Script]],
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._respond = respond
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=1024 * 1024)

    async def run(self) -> None:
        """Serve it until either side ends it."""
        try:
            while await self._exchange():
                self._http.start_next_cycle()
        except (OSError, Gone, h11.ProtocolError, WebSocketError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writer.close()

    # ---- HTTP

    async def _event(self) -> Any:
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(_READ))
                continue
            return event

    async def _exchange(self) -> bool:
        """One request and its answer; False when the connection ends with it."""
        try:
            request = await self._event()
        except h11.RemoteProtocolError as error:
            if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
                await self._whole(Answer(error.error_status_hint, {"error": {"message": str(error)}}))
            return False
        if not isinstance(request, h11.Request):
            return False
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in request.headers}
        method, target = request.method.decode("latin-1"), request.target.decode("latin-1")
        if headers.get("upgrade", "").lower() == "websocket":
            await self._websocket(request, Heard(method, target, headers, b"", None, websocket=True))
            return False
        if headers.get("expect", "").lower() == "100-continue":
            await self._send(h11.InformationalResponse(status_code=100, headers=[]))
        body = bytearray()
        while True:
            event = await self._event()
            if isinstance(event, h11.Data):
                body += event.data
                if len(body) > MAX_BODY:
                    await self._whole(Answer(413, {"error": {"message": f"The body is over {MAX_BODY} bytes."}}))
                    return False
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return False
        raw = bytes(body)
        answer = await self._respond(Heard(method, target, headers, raw, decoded(headers, raw)))
        if isinstance(answer, Answer):
            await self._whole(answer)
        elif not await self._play(answer):
            return False
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _whole(self, answer: Answer) -> None:
        raw = json.dumps(answer.value, ensure_ascii=False).encode("utf-8", "replace")
        headers = {"content-type": "application/json", **answer.headers, "content-length": str(len(raw))}
        await self._send(h11.Response(status_code=answer.status, headers=list(headers.items())))
        await self._send(h11.Data(data=raw))
        await self._send(h11.EndOfMessage())

    async def _play(self, script: Script) -> bool:
        """Send a script; False when the connection broke, as the script has it."""
        await self._send(h11.Response(status_code=script.status, headers=list(script.headers.items())))
        for chunk in script.chunks:
            if isinstance(chunk, bytes):
                if chunk:
                    await self._send(h11.Data(data=chunk))
                    await asyncio.sleep(0)  # each chunk is a write of its own
            else:
                await self._wait(chunk)
        if script.end == "clean":
            await self._send(h11.EndOfMessage())
            return True
        await self._break(script.end)
        return False

    async def _send(self, event: Any) -> None:
        data = self._http.send(event)
        if data:
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def _wait(self, seconds: float | None) -> None:
        """Say nothing for so long, or until the client leaves."""
        loop = asyncio.get_running_loop()
        until = None if seconds is None else loop.time() + seconds
        while True:
            try:
                data = await asyncio.wait_for(self._reader.read(_READ), None if until is None else until - loop.time())
            except asyncio.TimeoutError:
                return
            if not data:
                raise Gone
            self._http.receive_data(data)  # the next request, sent early

    async def _break(self, end: str) -> None:
        if end == "stall":
            await self._wait(None)
        elif end == "reset":
            # Without a linger the kernel would send what is buffered and a FIN.
            self._writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            await asyncio.sleep(0.05)  # what was sent is read before the reset drops it
            self._writer.transport.abort()

    # ---- WebSocket: one message is one event; a request is a message of type response.create

    async def _websocket(self, request: h11.Request, opened: Heard) -> None:
        answer = await self._respond(opened)
        if isinstance(answer, Answer):  # not here
            await self._whole(answer)
            return
        socket_ = WSConnection(ConnectionType.SERVER)
        socket_.initiate_upgrade_connection(list(request.headers), request.target)
        parts: list[str] = []
        size = 0
        while True:
            for event in socket_.events():
                if isinstance(event, Request):
                    await self._write(socket_.send(AcceptConnection()))
                elif isinstance(event, Ping):
                    await self._write(socket_.send(event.response()))
                elif isinstance(event, CloseConnection):
                    await self._write(socket_.send(event.response()))
                    return
                elif isinstance(event, TextMessage):
                    parts.append(event.data)
                    size += len(event.data)
                    if size > _MAX_MESSAGE:
                        await self._write(socket_.send(CloseConnection(code=1009)))
                        return
                    if event.message_finished:
                        text, parts, size = "".join(parts), [], 0
                        if not await self._message(socket_, opened, text):
                            return
                elif isinstance(event, BytesMessage):
                    await self._write(socket_.send(CloseConnection(code=1003)))
                    return
            data = await self._reader.read(_READ)
            if not data:
                return
            socket_.receive_data(data)

    async def _message(self, socket_: WSConnection, opened: Heard, text: str) -> bool:
        raw = text.encode("utf-8", "replace")
        fields = decoded({}, raw)
        if fields is None or fields.get("type") != "response.create":
            await self._said(socket_, {"type": "error", "status": 400, "error": _NO_CREATE})
            return True
        fields.pop("type")
        answer = await self._respond(opened._replace(method="POST", body=raw, fields={**fields, "stream": True}))
        if isinstance(answer, Answer):
            await self._said(socket_, {"type": "error", "status": answer.status, **answer.value})
            return True
        if answer.status != 200 or not answer.headers.get("content-type", "").startswith("text/event-stream"):
            whole = b"".join(chunk for chunk in answer.chunks if isinstance(chunk, bytes))
            try:
                value = decode_json(whole)
            except ProtocolError:
                value = {"error": {"message": whole.decode("utf-8", "replace")}}
            await self._said(socket_, {"type": "error", "status": answer.status, **value})
            return True
        decoder = FrameDecoder()
        for chunk in answer.chunks:
            if not isinstance(chunk, bytes):
                await asyncio.sleep(chunk)
                continue
            for frame in decoder.feed(chunk):
                await self._event_out(socket_, frame.data)
        for frame in decoder.close():
            await self._event_out(socket_, frame.data)
        if answer.end == "clean":
            return True
        await self._break(answer.end)
        return False

    async def _event_out(self, socket_: WSConnection, data: bytes) -> None:
        if data and data != b"[DONE]":
            await self._write(socket_.send(Message(data=data.decode("utf-8", "replace"))))

    async def _said(self, socket_: WSConnection, value: Any) -> None:
        try:
            await self._write(socket_.send(Message(data=json.dumps(value, ensure_ascii=False))))
        except WebSocketMisuse as error:
            raise Gone from error


_NO_CREATE: Final = {
    "type": "invalid_request_error",
    "code": "invalid_prompt",
    "message": "Expected a message of type response.create.",
    "param": "type",
}
