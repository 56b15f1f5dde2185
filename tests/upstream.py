"""A scripted upstream on loopback: it answers with bytes as told and then ends, is cut or stalls."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading


def chunked(*parts, end=True):
    """An HTTP answer with an event stream in chunks of its own; without `end` the last chunk never comes."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return head + body + (b"0\r\n\r\n" if end else b"")


def plain(status, body, kind=b"application/json"):
    return b"HTTP/1.1 %d X\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (status, kind, len(body), body)


class Upstream:
    """Serves one answer to every request. `reset`: the connection is killed with RST after it."""

    def __init__(self, answer, *, reset=False):
        self.answer, self.reset = answer, reset
        self.requests = []
        self._stopping = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopping = True
        with contextlib.suppress(OSError):  # wakes the accept
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        self._listener.close()
        self._thread.join(timeout=5)

    def _serve(self):
        while not self._stopping:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            with link:
                link.settimeout(10)
                with contextlib.suppress(OSError):
                    request = self._read(link)
                    if not request:
                        continue
                    self.requests.append(request)
                    link.sendall(self.answer)
                    if self.reset:
                        threading.Event().wait(0.1)  # or the RST overtakes the data
                        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    @staticmethod
    def _read(link):
        data = b""
        while b"\r\n\r\n" not in data:
            part = link.recv(65536)
            if not part:
                return b""
            data += part
        head, _, body = data.partition(b"\r\n\r\n")
        lower = head.lower()
        if b"transfer-encoding: chunked" in lower:
            while not body.endswith(b"0\r\n\r\n"):
                body += link.recv(65536)
        elif b"content-length:" in lower:
            length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
            while len(body) < length:
                body += link.recv(65536)
        return head + b"\r\n\r\n" + body
