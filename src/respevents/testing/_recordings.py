"""A stream in every form a capture has: what curl, the recorders and logs write around the same bytes."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Final

from respevents._extras import load
from respevents.wire import FrameDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Writer = tuple[str, "Callable[[bytes], bytes]"]


def events(body: bytes) -> list[bytes]:
    """The JSON of each frame."""
    decoder = FrameDecoder()
    return [frame.data for frame in [*decoder.feed(body), *decoder.close()] if frame.data]


def lines(body: bytes) -> bytes:
    """JSON lines, as the readers give them."""
    return b"".join(data + b"\n" for data in events(body))


HEADERS = b"content-type: text/event-stream; charset=utf-8\r\nX-Request-Id: req_1\r\n"


def curl_i(body: bytes, *, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n" + HEADERS + more + b"\r\n" + body


def curl_v(body: bytes, *, included: bool = False, progress: bool = False) -> bytes:
    """What `curl -N -v URL > FILE 2>&1` leaves, with the headers twice where `-i` was given too."""
    out = b"  % Total    % Received % Xferd  Average Speed   Time    Time     Time  Current\n" if progress else b""
    out += b"*   Trying 127.0.0.1:8000...\n* Connected to localhost (127.0.0.1) port 8000 (#0)\n"
    out += b"> POST /v1/responses HTTP/1.1\r\n> Host: localhost:8000\r\n> Content-Type: application/json\r\n> \r\n"
    out += b"} [30 bytes data]\n* upload completely sent off: 30 bytes\n"
    for line in [b"HTTP/1.1 200 OK\r\n", *HEADERS.splitlines(keepends=True), b"\r\n"]:
        out += b"< " + line + (line if included else b"")
    out += b"{ [1369 bytes data]\n"
    half = body.index(b"\n\n", len(body) // 2) + 2
    return (
        out
        + body[:half]
        + b"* a note between two frames\n"
        + body[half:]
        + b"* Connection #0 to host localhost left intact\n"
    )


def chunked(body: bytes, size: int = 37) -> bytes:
    out = b"".join(
        b"%x\r\n%s\r\n" % (len(body[at : at + size]), body[at : at + size]) for at in range(0, len(body), size)
    )
    return out + b"0\r\n\r\n"


def enveloped(body: bytes, *, text: bool) -> bytes:
    out = []
    for data in events(body):
        value = json.loads(data)
        out.append(json.dumps({"event": value["type"], "data": data.decode() if text else value}))
    return ("\n".join(out) + "\n").encode()


def har(body: bytes, *, packed: bool = False) -> bytes:
    content = {"mimeType": "text/event-stream; charset=utf-8", "size": len(body)}
    if packed:
        content |= {"text": base64.b64encode(body).decode(), "encoding": "base64"}
    else:
        content["text"] = body.decode()
    page = {
        "request": {"method": "GET", "url": "https://example.org/", "headers": []},
        "response": {"status": 200, "headers": [], "content": {"mimeType": "text/html", "text": "<html>"}},
    }
    ask = {
        "request": {
            "method": "POST",
            "url": "https://api.openai.com/v1/responses",
            "headers": [{"name": "Content-Type", "value": "application/json"}],
        },
        "response": {
            "status": 200,
            "headers": [{"name": "X-Request-Id", "value": "req_1"}],
            "content": content,
        },
    }
    return json.dumps({"log": {"version": "1.2", "entries": [page, ask]}}, indent=2).encode()


def har_websocket(body: bytes) -> bytes:
    messages = [{"type": "send", "time": 1.0, "opcode": 1, "data": '{"type":"response.create"}'}]
    messages += [{"type": "receive", "time": 1.5, "opcode": 1, "data": data.decode()} for data in events(body)]
    entry = {
        "request": {"method": "GET", "url": "wss://api.openai.com/v1/responses"},
        "response": {"status": 101, "headers": [], "content": {}},
        "_webSocketMessages": messages,
    }
    return json.dumps({"log": {"entries": [entry]}}).encode()


def _vcr(body: object, headers: dict[str, list[str]] | None = None) -> dict[str, object]:
    return {
        "request": {"method": "POST", "uri": "https://api.openai.com/v1/responses", "body": "{}", "headers": {}},
        "response": {
            "status": {"code": 200, "message": "OK"},
            "headers": {"Content-Type": ["text/event-stream"], "X-Request-Id": ["req_1"], **(headers or {})},
            "body": body,
        },
    }


def vcr_json(body: bytes, *, form: str = "string") -> bytes:
    value = {"string": body.decode()} if form == "string" else {"base64_string": base64.b64encode(body).decode()}
    key = "interactions" if form == "string" else "http_interactions"
    return json.dumps({"version": 1, key: [_vcr(value)]}, indent=1).encode()


def vcr_yaml(body: bytes, *, form: str) -> bytes:
    """A cassette as vcrpy (`text`, `binary`, `gzip`), LangChain (`lists`) or httpmock (`when`) writes it."""
    yaml = load("yaml", needed_by="a cassette in YAML")
    if form == "text":
        document: object = {"interactions": [_vcr({"string": body.decode()})], "version": 1}
    elif form == "binary":
        document = {"interactions": [_vcr({"string": body})], "version": 1}
    elif form == "gzip":
        packed = _vcr({"string": gzip.compress(body)}, {"Content-Encoding": ["gzip"]})
        document = {"interactions": [packed], "version": 1}
    elif form == "lists":
        one = _vcr({"string": gzip.compress(body)}, {"content-encoding": ["gzip"]})
        document = {"requests": [one["request"]], "responses": [one["response"]]}
    else:
        document = {
            "when": {"path": "/v1/responses", "method": "POST", "header": [{"name": "accept", "value": "*/*"}]},
            "then": {"status": 200, "header": [{"name": "x-request-id", "value": "req_1"}], "body": body.decode()},
        }
    # PyYAML would write U+0085 as it is, and read it as the end of a line.
    plain = "\x85".encode() not in body
    text: str = yaml.safe_dump(document, allow_unicode=plain, sort_keys=form == "text")
    return text.encode()


def ruby_yaml(body: bytes) -> bytes:
    text = base64.b64encode(body).decode()
    return (
        "---\nhttp_interactions:\n- request:\n    method: post\n    uri: https://api.openai.com/v1/responses\n"
        "    body:\n      encoding: UTF-8\n      string: '{}'\n    headers: {}\n"
        "  response:\n    status:\n      code: 200\n      message: OK\n"
        "    headers:\n      X-Request-Id:\n      - req_1\n      Content-Type:\n      - text/event-stream\n"
        f"    body:\n      encoding: ASCII-8BIT\n      string: !binary |-\n        {text}\n"
        "  recorded_at: Fri, 14 Mar 2025 15:09:43 GMT\nrecorded_with: VCR 6.1.0\n"
    ).encode()


def azure_test_proxy(body: bytes) -> bytes:
    entry = {
        "RequestUri": "https://api.openai.com/v1/responses",
        "RequestMethod": "POST",
        "RequestHeaders": {},
        "StatusCode": 200,
        "ResponseHeaders": {"Content-Type": "text/event-stream", "X-Request-ID": "req_1"},
        "ResponseBody": body.decode().splitlines(keepends=True),
    }
    return json.dumps({"Entries": [entry], "Variables": {}}, indent=2).encode()


def nock(body: bytes, *, packed: bool) -> bytes:
    one = {
        "scope": "https://api.openai.com:443",
        "method": "POST",
        "path": "/v1/responses",
        "status": 200,
        "response": [gzip.compress(body).hex()] if packed else body.decode(),
        "rawHeaders": ["Content-Type", "text/event-stream", "X-Request-Id", "req_1"]
        + (["Content-Encoding", "gzip"] if packed else []),
    }
    return json.dumps([one], indent=4).encode()


def parsed_chunks(body: bytes) -> bytes:
    """A recorder that keeps the blocks of an event stream without their blank lines."""
    blocks = body.decode().removesuffix("\n\n").split("\n\n")
    entry = {
        "request": {
            "method": "POST",
            "url": "https://api.openai.com/v1/responses",
            "body": {"kind": "json", "value": {}},
        },
        "response": {
            "body": {"kind": "sse", "chunks": blocks},
            "headers": {"content-type": "text/event-stream", "x-request-id": "req_1"},
            "status": 200,
        },
    }
    return json.dumps({"entries": [entry], "version": 1}).encode()


def prefixed(body: bytes) -> bytes:
    return b'> {"type":"response.create"}\n' + b"".join(b"< " + data + b"\n" for data in events(body))


def messages(body: bytes) -> bytes:
    out = [{"direction": "send", "data": '{"type":"response.create"}'}]
    out += [{"direction": "receive", "data": data.decode()} for data in events(body)]
    return b"".join(json.dumps(one).encode() + b"\n" for one in out)


def array(body: bytes) -> bytes:
    return b"[\n  " + b",\n  ".join(events(body)) + b"\n]\n"


def pretty(body: bytes) -> bytes:
    """`jq .` over the events."""
    return b"".join(
        json.dumps(json.loads(data), indent=2, ensure_ascii=False).encode() + b"\n" for data in events(body)
    )


SSE: Final[Mapping[str, Writer]] = {
    "sse": ("sse", lambda body: body),
    "curl -i": ("curl", curl_i),
    "curl -i after a prompt": ("curl", lambda body: b"$ curl -i localhost:8000/v1/responses -d @a\n" + curl_i(body)),
    "curl -i after a redirect": (
        "curl",
        lambda body: b"HTTP/1.1 100 Continue\r\n\r\nHTTP/2 307 \r\nlocation: /v1/responses\r\n\r\n" + curl_i(body),
    ),
    "curl -i, LF": ("curl", lambda body: curl_i(b"").replace(b"\r\n", b"\n") + body),
    "curl -i of a packed body": ("curl", lambda body: curl_i(gzip.compress(body), more=b"content-encoding: gzip\r\n")),
    "curl -v": ("curl", curl_v),
    "curl -v, progress": ("curl", lambda body: curl_v(body, progress=True)),
    "curl -v -i": ("curl", lambda body: curl_v(body, included=True)),
    "chunked": ("chunked", chunked),
    "curl -i --raw": ("chunked", lambda body: curl_i(chunked(body), more=b"transfer-encoding: chunked\r\n")),
    "a packed body in chunks": (
        "chunked",
        lambda body: curl_i(chunked(gzip.compress(body)), more=b"content-encoding: gzip\r\n"),
    ),
    "envelopes of text": ("jsonl", lambda body: enveloped(body, text=True)),
    "har": ("har", har),
    "har, base64": ("har", lambda body: har(body, packed=True)),
    "vcr json": ("vcr", vcr_json),
    "vcr json, base64": ("vcr", lambda body: vcr_json(body, form="base64")),
    "vcr yaml": ("vcr", lambda body: vcr_yaml(body, form="text")),
    "vcr yaml, binary": ("vcr", lambda body: vcr_yaml(body, form="binary")),
    "vcr yaml, gzip": ("vcr", lambda body: vcr_yaml(body, form="gzip")),
    "vcr yaml, lists": ("vcr", lambda body: vcr_yaml(body, form="lists")),
    "vcr yaml, httpmock": ("vcr", lambda body: vcr_yaml(body, form="when")),
    "vcr yaml of Ruby": ("vcr", ruby_yaml),
    "test proxy": ("vcr", azure_test_proxy),
    "nock": ("vcr", lambda body: nock(body, packed=False)),
    "nock, packed": ("vcr", lambda body: nock(body, packed=True)),
    "parsed chunks": ("vcr", parsed_chunks),
}
"""Name -> the format that has to be detected, and the writer. The reader gives the body back, byte for byte."""

JSON_LINES: Final[Mapping[str, Writer]] = {
    "json lines": ("jsonl", lines),
    "json lines, CRLF": ("jsonl", lambda body: lines(body).replace(b"\n", b"\r\n")),
    "websocket, prefixed": ("websocket", prefixed),
    "websocket, envelopes": ("websocket", messages),
    "har of a websocket": ("har", har_websocket),
    "json array": ("json", array),
}
"""As `SSE`, for what has no framing: the reader gives the events, one a line."""
