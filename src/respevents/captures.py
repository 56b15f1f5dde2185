"""Readers of captured streams: what `curl`, a recorder, a log or a test suite kept, as the bytes the server sent.

`read_captures` looks at the first bytes, says what the file is (`Capture.format`), and gives its streams one after
another. It never holds a file: event streams, dumps, JSON lines, WebSocket logs and gzip of them pass through in
pieces, whatever their size. A HAR file, a cassette or a JSON array is one document and is read whole, up to
`Limits.document` bytes (256 MiB; YAML 64 MiB): a parser keeps all of it, at several times its size, and recorders
write whole documents, so one beyond that is refused, not read slowly.

What the readers take off is what the recorder put on: header lines, chunk sizes, the notes of `curl -v`, envelopes,
base64, gzip. The bytes of the stream itself are never changed; whether they are right is the validator's question.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from respevents._capture import Capture, Framing
from respevents._documents import DOCUMENT_KEYS, exchanges, read_document
from respevents._dumps import CHUNK_SIZE, FIELD, STATUS_LINE, Dump, dechunk, whole
from respevents._lines import MESSAGE, PIECE, flavour_of_line, frame_of, json_lines, payload, together
from respevents._seams import split as split_streams
from respevents._sources import CaptureError, Limits, NoStreamError, Origin, Source, open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["FORMATS", "Capture", "CaptureError", "Framing", "Limits", "NoStreamError", "detect", "read_captures"]

FORMATS: Final = {
    "sse": "an event stream as it was sent",
    "curl": "the output of `curl -i`, or of `curl -N -v` with its notes",
    "chunked": "a body with the sizes of its chunks (`curl --raw`, a packet dump), with or without header lines",
    "jsonl": "JSON lines: one event a line, or one `{event, data}` a line",
    "websocket": "a WebSocket log: one message a line, alone, in an envelope, or after `<` and `>`",
    "json": "a JSON array of events, or events one after another over several lines",
    "har": "an HTTP archive",
    "vcr": "a cassette in JSON or YAML: VCR, betamax, LangChain, nock, httpmock, the test proxy of Azure",
}
"""What `format=` takes, and what `Capture.format` says."""

_HEAD: Final = 64 * 1024
"""Bytes that are looked at before a format is named."""


def read_captures(
    source: Origin,
    *,
    format: str | None = None,  # noqa: A002 - the field's own name
    name: str | None = None,
    limits: Limits | None = None,
    split: bool = True,
    on_skip: Callable[[str], None] | None = None,
) -> Iterator[Capture]:
    """Every stream in a capture, in order.

    `source` is the bytes, a path (`-`: standard input), a binary file or an iterable of bytes; gzip is taken off.
    `format` is a key of `FORMATS` (default: detected), `name` what messages call the source. `split=False` keeps
    streams that follow one another in one body together. Exchanges of a recording that are no stream of
    `/v1/responses` are left out, and `on_skip` is called with a sentence for each.

    A capture has to be read before the next one is asked for: what is left of it is passed over.
    Raises `CaptureError` (for a file that cannot be opened too), ValueError for an unknown format.
    """
    if format is not None and format not in FORMATS:
        raise ValueError(f"unknown format {format!r}; there are {', '.join(FORMATS)}")
    bounds = limits or Limits()
    opened, close = open_source(source, name, bounds)
    try:
        for capture in _read(opened, format, bounds, on_skip or _silent):
            if split:
                yield from split_streams(capture)
            else:
                yield capture
                capture.skip()
    finally:
        close()


def _silent(_sentence: str) -> None:
    pass


def _read(source: Source, kind: str | None, limits: Limits, on_skip: Callable[[str], None]) -> Iterator[Capture]:
    _refuse_foreign(source)
    flavour: str | None = None
    if kind is None:
        flavour = detect(source.held, at_end=False)
        looked = len(source.held)
        while flavour is None and len(source.held) < _HEAD and source.more():
            if len(source.held) < 4096 or len(source.held) > 1.5 * looked:  # not anew for each byte of a long head
                looked = len(source.held)
                flavour = detect(source.held, at_end=False)
        if flavour is None:
            flavour = detect(source.held, at_end=True)
    else:
        flavour = _flavour_of(source, kind)
    if flavour is None:
        raise source.error(
            "this is no capture that is known here",
            got=source.held,
            fix=f"If it is one, say which with format=: {', '.join(FORMATS)}.",
        )
    if flavour == "sse":
        yield Capture(whole(source), name=source.name, format="sse", offset=source.offset)
    elif flavour in {"curl", "curl-v"}:
        yield from Dump(source, limits, verbose=flavour == "curl-v").captures(on_skip)
    elif flavour == "chunked":
        yield Capture(dechunk(source, limits), name=source.name, format="chunked")
    elif flavour in {"jsonl", "envelope", "websocket"}:
        yield json_lines(source, flavour, limits, on_skip)
    else:
        yield from _from_document(source, flavour, limits, on_skip)


# ---- what is it? --------------------------------------------------------------------------------------------------

_FOREIGN: Final = (
    (b"PK\x03\x04", "a zip archive", "Unpack it first."),
    (b"\x28\xb5\x2f\xfd", "packed with zstd", "Unpack it first: zstd -dc FILE | respevents ... -"),
    (b"BZh", "packed with bzip2", "Unpack it first: bzip2 -dc FILE | respevents ... -"),
    (b"\xfd7zXZ\x00", "packed with xz", "Unpack it first: xz -dc FILE | respevents ... -"),
    (b"\xff\xfe", "text in UTF-16", "PowerShell's > writes it: use curl's -o, or convert the file to UTF-8."),
    (b"\xfe\xff", "text in UTF-16", "Convert the file to UTF-8."),
    (b"\xd4\xc3\xb2\xa1", "a packet capture (pcap)", "Follow the TCP stream in Wireshark and save it as raw."),
    (b"\x0a\x0d\x0d\x0a", "a packet capture (pcapng)", "Follow the TCP stream in Wireshark and save it as raw."),
)


def _refuse_foreign(source: Source) -> None:
    head = source.peek(8)
    for magic, what, fix in _FOREIGN:
        if head.startswith(magic):
            raise source.error(f"this is {what}", fix=fix)


_NOTE = re.compile(rb"(?:\* |> [A-Z]+ \S+ HTTP/|< HTTP/|\{ \[|\} \[|Note: |  % Total|curl: \()")
_YAML = re.compile(
    rb"(?:%YAML|---[ \t]*(?:#.*)?\r?\n|-[ \t]+[A-Za-z_]+:|[\"']?[A-Za-z_]+[\"']?:[ \t]*(?:\r?\n|[^/\s]))"
)
_EXCHANGE_KEY = re.compile(
    rb"^(?:-[ \t]+)?[\"']?(?:interactions|http_interactions|requests|responses|when|entries)[\"']?:", re.MULTILINE
)


def detect(head: bytes, *, at_end: bool = True) -> str | None:
    """Name what starts with `head`: a key of `FORMATS`, or one of its flavours `curl-v`, `envelope`, `yaml`. None when
    nothing fits; with `at_end=False` (more may come) also while it cannot be told yet.
    """
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n") if head.strip() else b""
    if not text:
        return "sse" if at_end else None  # an empty stream, which the validator has words for
    line = text[: text.find(b"\n") + 1] or text
    whole = at_end or line.endswith(b"\n")
    if text[:1] in {b"{", b"["}:
        return _detect_json(text, at_end=at_end)
    if MESSAGE.match(text):
        return "websocket"
    if not whole and len(text) < 64:
        return None
    if STATUS_LINE.match(text):
        return "curl"
    if _NOTE.match(text):
        return "curl-v"
    if FIELD.match(text):
        return "sse"
    if CHUNK_SIZE.match(text):
        return "chunked"
    if not at_end and len(text) < 4096:
        return None
    if _YAML.match(text.lstrip(b"# \t\r\n") if text[:1] == b"#" else text):
        if _EXCHANGE_KEY.search(head):
            return "yaml"
        if not at_end and len(text) < _HEAD:
            return None
    # Something stands before it: a prompt, the progress of a download, a line of a log.
    found = re.search(
        rb"^(?:(?P<curl>HTTP/[0-9](?:\.[0-9])? [0-9]{3})|(?P<note>< HTTP/|\* (?:Connected|Host|  Trying))"
        rb"|(?P<sse>event:|data:))",
        text,
        re.MULTILINE,
    )
    if found is None:
        return None
    return {"curl": "curl", "note": "curl-v", "sse": "sse"}[str(found.lastgroup)]


_TOP_TOKEN = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)(?:"[ \t\r\n]*(:?)|\\?\Z)|[\[\]{}]|\n', re.DOTALL)
"""A string (the last one may be cut off), a bracket, a line end."""


def _top_keys(text: bytes) -> tuple[list[str], int, bool]:
    """Keys of the first object as far as it is there, where it ends (0: not yet), and whether a line ended in it."""
    keys: list[str] = []
    depth = 0
    broken = False
    for token in _TOP_TOKEN.finditer(text):
        first = token[0][:1]
        if first in b"[{":
            depth += 1
        elif first in b"]}":
            depth -= 1
            if depth == 0:
                return keys, token.end(), broken
        elif first == b"\n":
            broken = True
        elif depth == 1 and token[2]:
            keys.append(token[1].decode("utf-8", "replace"))
    return keys, 0, broken


_EVENT_LINE = re.compile(rb'\{[ \t]*"type"[ \t]*:[ \t]*"response\.')


def _detect_json(text: bytes, *, at_end: bool) -> str | None:
    """As `detect`, for what starts with a bracket. What is named does not depend on how much of it is there: keys
    decide in the order they stand in.
    """
    enough = at_end or len(text) >= _HEAD
    if text[:1] == b"[":
        inside = text[1:].lstrip()
        keys, closed, _ = _top_keys(inside)
        for key in keys:
            if key in {"scope", "request"}:
                return "vcr"
            if key == "type":
                break
        return "json" if closed or enough or "type" in keys else None
    if _EVENT_LINE.match(text):
        return "jsonl"
    keys, closed, broken = _top_keys(text)
    seen: set[str] = set()
    for key in keys:
        seen.add(key)
        if key == "type":
            break
        if key == "log":
            return "har"
        if key in DOCUMENT_KEYS or {"request", "response"} <= seen:
            return "vcr"
    if not closed and not enough:
        return None
    line = text[: text.find(b"\n")] if b"\n" in text else text
    if broken and line.rstrip().endswith((b"{", b"[", b",")):  # written over several lines
        return "json"
    if closed or not {"event", "data"} <= {*keys}:
        return flavour_of_line(text[:closed] if closed else line)
    return "envelope"  # its first line is longer than what is looked at


def _flavour_of(source: Source, kind: str) -> str:
    """The flavour of a format the caller named."""
    head = source.peek(_HEAD)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if kind == "curl":
        found = detect(head)
        return "curl-v" if found == "curl-v" else "curl"
    if kind == "jsonl":
        found = flavour_of_line(text[: text.find(b"\n")] if b"\n" in text else text)
        return "envelope" if found == "envelope" else "jsonl"
    if kind == "chunked":
        return "chunked" if CHUNK_SIZE.match(text) else "curl"
    if kind == "vcr":
        return "vcr" if text[:1] in {b"{", b"["} else "yaml"
    return kind


# ---- documents ------------------------------------------------------------------------------------------------------

_URL = re.compile(r"/responses(?:/[^/?#]*)?(?:[?#].*)?\Z")
_STREAM_OF_EVENTS = re.compile(rb'"type"[ ]*:[ ]*"(?:response\.[a-z_.]+|error|keepalive)"')


def _from_document(source: Source, flavour: str, limits: Limits, on_skip: Callable[[str], None]) -> Iterator[Capture]:
    if flavour == "json":
        yield from _events_of(source, limits)
        return
    documents = read_document(source, "yaml" if flavour == "yaml" else "json", limits)
    found = skipped = 0
    kind = "har" if flavour == "har" else "vcr"
    for exchange in exchanges(documents, source.name, limits):
        place = f"{source.name} {exchange.place}"
        body = exchange.body
        framing = _framing(body, exchange.headers)
        if exchange.messages:
            body = b"".join(b" ".join(one.splitlines()) + b"\n" for one in exchange.messages)
            framing = "json-lines"
        url = str((exchange.request or {}).get("url", ""))
        asked = _URL.search(url) is not None
        if framing is None or not (asked or _STREAM_OF_EVENTS.search(body[:_HEAD])):
            skipped += 1
            what = "no event stream" if framing is None else "no stream of /v1/responses"
            about = " ".join(str(one) for one in (exchange.status and f"HTTP {exchange.status}", url[:200]) if one)
            on_skip(f"{place}: {about or 'an exchange'} is {what}")
            continue
        found += 1
        yield Capture(
            _pieces(body),
            name=place,
            format=kind,
            framing=framing,
            status=exchange.status,
            headers=exchange.headers,
            request=exchange.request,
        )
    if not found:
        raise source.error(
            f"the recording holds no event stream of /v1/responses (exchanges in it: {skipped})",
            fix="Record a request with `stream: true`. Error answers are read by `respevents classify`.",
        )


def _framing(body: bytes, headers: Mapping[str, str]) -> Framing | None:
    head = body[:_HEAD].removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    kind = headers.get("content-type", "").lower()
    if "event-stream" in kind or re.match(rb"(?:event|data|id|retry):|:", head):
        return "sse"
    if head[:1] == b"{" and ("ndjson" in kind or "jsonl" in kind or _detect_json(head, at_end=True) == "jsonl"):
        return "json-lines" if _STREAM_OF_EVENTS.search(head) else None
    return None


def _pieces(body: bytes) -> Iterator[bytes]:
    for at in range(0, len(body), PIECE):
        yield body[at : at + PIECE]


def _events_of(source: Source, limits: Limits) -> Iterator[Capture]:
    """A JSON array of events, or events one after another. Their bytes are kept, line ends between tokens left out."""
    data = source.rest(limits.document, "A JSON document").removeprefix(b"\xef\xbb\xbf").strip()
    try:
        raws = msgspec.json.decode(data, type=list[msgspec.Raw])
        lines = [bytes(raw) for raw in raws]
    except (ValueError, RecursionError):
        lines = list(_json_texts(data, source))
    flat = [re.sub(rb"[\r\n]+[ \t]*", b"", line) for line in lines]  # none inside a string: JSON escapes them there
    flavour = flavour_of_line(flat[0]) if flat else "jsonl"
    if flavour == "envelope":
        yield Capture(together(frame_of(line) for line in flat), name=source.name, format="json", framing="sse")
        return
    payloads = (payload(line) for line in flat) if flavour == "websocket" else (line + b"\n" for line in flat)
    yield Capture(together(line for line in payloads if line), name=source.name, format="json", framing="json-lines")


_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def _json_texts(data: bytes, source: Source) -> Iterator[bytes]:
    """Cut JSON objects that follow one another apart, by their brackets."""
    inside = data[:1] == b"["
    depth = start = 0
    for token in _TOKEN.finditer(data, 1 if inside else 0):
        first = token[0][:1]
        if first in b"[{":
            if depth == 0:
                start = token.start()
            depth += 1
        elif first in b"]}":
            depth -= 1
            if depth == 0:
                yield data[start : token.end()]
            elif depth < 0:
                break
    if depth > 0:
        raise CaptureError(
            f"{source.name}: the JSON document is cut off: what opens here is not closed",
            offset=start,
            fix="A file that was cut off while it was written has to be recorded again.",
        )
