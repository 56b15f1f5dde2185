"""The requests of `respevents check`, and the answers as they came.

Nothing goes anywhere but to the URL that was given: redirects are answers and not followed, the environment's proxies,
certificates and .netrc are not read, cookies are not kept. The key stands in one header of the request; where an
answer repeats it, asterisks take its place before anything else sees the answer: as many, so that a text still is the
sum of its deltas.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import httpx

from respevents._errors import RemoteProtocolError, show
from respevents.classifier import HTTPAnswer, classify

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from respevents.failures import Failure

__all__ = ["Answer", "End", "Link", "base_of"]

MAX_BODY: Final = 8 * 1024 * 1024
"""Bytes of an answer that are read."""

_PIECE: Final = re.compile(rb'"delta": ?"((?:[^"\\]|\\.)*)"')
"""The text of a delta, as it is escaped: a key may come in pieces."""

_SHORTEST_KEY: Final = 6
"""Characters. Keys below are the placeholders of servers that want none ("-", "none"): looked for in an answer, they
would be found everywhere."""

_VERSION: Final = re.compile(r"/v\d\w*\Z")

End = Literal["whole", "cut", "late", "left", "large", "none"]
"""How an answer ended: with its last chunk; cut off; not in time; we hung up; beyond `MAX_BODY`; there was none."""


class Answer(NamedTuple):
    """One answer. `status` is 0 where none came; `why` is what the transport said of a bad end."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    end: End
    why: str
    seconds: float

    @property
    def kind(self) -> str:
        """The media type, without its parameters."""
        return self.header("content-type").partition(";")[0].strip().lower()

    @property
    def streams(self) -> bool:
        """The body is an event stream, by its type or by its first line."""
        return self.kind == "text/event-stream" or re.match(rb"\s*(?:event|data|:)", self.body) is not None

    def header(self, name: str) -> str:
        """The first header of a name, or ''."""
        return next((value for key, value in self.headers if key == name), "")

    def json(self) -> Any:
        """The body as JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def failure(self) -> Failure:
        """What an HTTP error means."""
        return classify(HTTPAnswer(self.status, dict(self.headers), self.body))

    def dump(self) -> bytes:
        """The answer as `curl -i` prints it."""
        head = [f"HTTP/1.1 {self.status}", *(f"{name}: {value}" for name, value in self.headers)]
        return "\r\n".join([*head, "", ""]).encode("latin-1", "replace") + self.body


def base_of(text: str) -> httpx.URL:
    """The address that `/responses` is added to. Raises RemoteProtocolError for what is no address of a server."""
    try:
        url = httpx.URL(text.strip())
    except (httpx.InvalidURL, ValueError) as error:
        raise RemoteProtocolError("The URL cannot be read", got=show(text)) from error
    if url.userinfo:
        raise RemoteProtocolError("The URL holds a user or a password", fix="Name the key's variable: --key-env VAR.")
    if (url.port or 0) > 65535:
        raise RemoteProtocolError("The URL has no port of TCP", got=show(url.port))
    if url.scheme not in {"http", "https"} or not url.host:
        fix = f"Write http://{text}." if "://" not in text else None
        raise RemoteProtocolError("The URL needs http or https and a host", got=show(text), fix=fix)
    path = url.path.rstrip("/")
    if path.endswith("/responses"):
        path = path.removesuffix("/responses")
    elif not _VERSION.search(path):
        path += "/v1"
    return url.copy_with(path=path, fragment=None)


class _Watch:
    """Closes the connection of one request when the time for the whole answer is over: a server may send just enough
    to keep every single read going.
    """

    def __init__(self, seconds: float) -> None:
        self.fired = False
        self._streams: list[Any] = []
        self._timer = threading.Timer(seconds, self._close)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Of the transport: keeps what it connected."""
        if event in {"connection.connect_tcp.complete", "connection.start_tls.complete"}:
            self._streams.append(info["return_value"])

    def _close(self) -> None:
        self.fired = True
        for stream in self._streams:
            with contextlib.suppress(OSError):
                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


class Link:
    """The server under check. `timeout` is seconds for a whole answer; `key` goes into `Authorization: Bearer`.

    `address` names it in messages, without a query (which may hold a secret). Raises RemoteProtocolError for a key that
    no header can carry.
    """

    def __init__(self, base: httpx.URL, *, key: str | None = None, timeout: float = 60.0) -> None:
        from respevents import __version__

        headers = {"accept-encoding": "identity", "user-agent": f"respevents/{__version__}"}
        self._secrets: tuple[bytes, ...] = ()
        if key is not None:
            if re.fullmatch(r"[!-~]+", key) is None:  # and the message of the transport would repeat it
                raise RemoteProtocolError("No header can carry the characters of the key", fix="Look at the variable.")
            headers["authorization"] = f"Bearer {key}"
            if len(key) >= _SHORTEST_KEY:
                self._secrets = (key.encode(), json.dumps(key)[1:-1].encode())
        self._base = base
        self._timeout = timeout
        # A connection for each request, so that one which is not over in time can be closed under it.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.Client(
            trust_env=False, follow_redirects=False, timeout=timeout, headers=headers, limits=limits
        )
        self.answered = False
        """Some answer came, be it an error."""

    @property
    def address(self) -> str:
        return str(self.at("/responses").copy_with(query=None))

    def at(self, path: str) -> httpx.URL:
        return self._base.copy_with(path=self._base.path.rstrip("/") + path)

    def close(self) -> None:
        self._client.close()

    def ask(
        self, body: Mapping[str, Any] | None, *, path: str = "/responses", leave: Callable[[bytes], bool] | None = None
    ) -> Answer:
        """Send one request (GET without a body) and read the answer: to its end, or until `leave` is true of the newest
        piece with the 64 bytes before it. Raises RemoteProtocolError as long as there is no server at all.
        """
        began = time.monotonic()
        status, kept = 0, bytearray()
        headers: tuple[tuple[str, str], ...] = ()
        end: End = "whole"
        why = ""
        accept = "text/event-stream" if body is not None and body.get("stream") else "application/json"
        watch = _Watch(self._timeout)
        try:
            with (
                watch,
                self._client.stream(
                    "GET" if body is None else "POST",
                    self.at(path),
                    json=body,
                    headers={"accept": accept},
                    extensions={"trace": watch.trace},
                ) as answer,
            ):
                self.answered = True
                status = answer.status_code
                headers = tuple(self._told(name, value) for name, value in answer.headers.multi_items())
                for chunk in answer.iter_bytes():
                    kept += chunk
                    if leave is not None and leave(bytes(kept[-len(chunk) - 64 :])):
                        end = "left"
                    elif len(kept) > MAX_BODY:
                        end, why = "large", f"more than {MAX_BODY} bytes"
                    if end != "whole" or watch.fired:
                        break
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            if not self.answered:
                raise RemoteProtocolError(
                    f"Nothing answers at {self.address}", got=self.clean(str(error)), fix="Name a server that runs."
                ) from None
            return Answer(0, (), b"", "none", self.clean(f"no connection: {error}"), time.monotonic() - began)
        except httpx.TimeoutException:
            watch.fired = True  # of a single read: the transport was first to see it
        except (httpx.TransportError, httpx.DecodingError) as error:
            end, why = "cut" if status else "none", str(error) or type(error).__name__
        finally:
            self._client.cookies.clear()
        if watch.fired and end not in {"left", "large"}:  # however the transport saw that its connection was closed
            end, why = "late" if status else "none", f"not over after {self._timeout:g} s"
        return Answer(status, headers, self._without(bytes(kept)), end, self.clean(why), time.monotonic() - began)

    def clean(self, text: str) -> str:
        """A text without the key."""
        return self._without(text.encode("utf-8", "replace")).decode() if self._secrets else text

    def _without(self, body: bytes) -> bytes:
        for secret in self._secrets:
            body = body.replace(secret, b"*" * len(secret))
            spans = [found.span(1) for found in _PIECE.finditer(body)]
            joined = b"".join(body[start:stop] for start, stop in spans)
            if secret in joined:
                masked = memoryview(joined.replace(secret, b"*" * len(secret)))
                whole, at = bytearray(body), 0
                for start, stop in spans:
                    whole[start:stop] = masked[at : at + stop - start]
                    at += stop - start
                body = bytes(whole)
        return body

    def _told(self, name: str, value: str) -> tuple[str, str]:
        name = name.lower()
        if any(secret.decode().lower() in name for secret in self._secrets):
            return "left-out", "(left out)"
        return name, "(left out)" if "cookie" in name.lower() else self.clean(value)
