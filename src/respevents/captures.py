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
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, Final, Literal

import msgspec

from respevents._documents import DOCUMENT_KEYS, exchanges, read_document, text_bytes
from respevents._errors import LocalProtocolError, RemoteProtocolError, show
from respevents._sources import CaptureError, Limits, Origin, Source, open_source
from respevents._table import TERMINAL
from respevents.wire import FrameDecoder

__all__ = ["FORMATS", "Capture", "CaptureError", "Framing", "Limits", "detect", "read_captures"]

Framing = Literal["sse", "json-lines"]

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

_EVENT_TYPES: Final = ("response.", "error", "keepalive")
_ENDS: Final = frozenset(f"response.{state}" for state in TERMINAL)


class Capture:
    """One captured stream.

    `name` is the file (with the place in it, when it holds several), `format` a key of `FORMATS`, `framing` says
    whether `chunks()` gives an event stream or one JSON event a line. `status`, `headers` (lower-case keys) and
    `request` (`method`, `url`, `headers`) are what the capture kept, else None and empty. `offset` is the first byte
    of the stream: in the file (gzip taken off), or in the decoded body where it lies packed inside a document, an
    envelope or chunks. `format` is final; a reader of a live source sees the rest as it comes.
    """

    __slots__ = ("_chunks", "_taken", "format", "framing", "headers", "name", "offset", "request", "status")

    def __init__(
        self,
        chunks: Iterable[bytes],
        *,
        name: str = "<bytes>",
        format: str = "sse",  # noqa: A002 - the field's own name
        framing: Framing = "sse",
        status: int | None = None,
        headers: Mapping[str, str] | None = None,
        request: Mapping[str, Any] | None = None,
        offset: int = 0,
    ) -> None:
        self._chunks = chunks
        self._taken = False
        self.name = name
        self.format = format
        self.framing: Framing = framing
        self.status = status
        self.headers: Mapping[str, str] = headers or {}
        self.request = request
        self.offset = offset

    def __repr__(self) -> str:
        return f"Capture(name={self.name!r}, format={self.format!r}, framing={self.framing!r}, status={self.status!r})"

    def chunks(self) -> Iterator[bytes]:
        """The bytes of the stream, in pieces, once. Raises `CaptureError` where the file stops making sense."""
        if self._taken:
            raise LocalProtocolError(
                "A capture is read once",
                fix="It streams, so its bytes are not kept: call read_captures again.",
            )
        self._taken = True
        return iter(self._chunks)


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
                yield from _split(capture)
            else:
                yield capture
                _drain(capture)
    finally:
        close()


def _silent(_sentence: str) -> None:
    pass


def _drain(capture: Capture) -> None:
    """Pass over what was not read, so that the source stands behind it."""
    for _ in capture._chunks:  # noqa: SLF001
        pass


def _read(source: Source, kind: str | None, limits: Limits, on_skip: Callable[[str], None]) -> Iterator[Capture]:
    _refuse_foreign(source)
    flavour: str | None = None
    if kind is None:
        flavour = detect(source.held, at_end=False)
        while flavour is None and len(source.held) < _HEAD and source.more():
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
        yield Capture(_all(source), name=source.name, format="sse", offset=source.offset)
    elif flavour in {"curl", "curl-v"}:
        yield from _Dump(source, limits, verbose=flavour == "curl-v").captures(on_skip)
    elif flavour == "chunked":
        yield Capture(_dechunk(source, limits), name=source.name, format="chunked")
    elif flavour in {"jsonl", "envelope", "websocket"}:
        yield _json_lines(source, flavour, limits, on_skip)
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


_FIELD = re.compile(rb"(?:event|data|id|retry)(?::|[ \t]*\r?\n)|:")
_STATUS_LINE = re.compile(rb"HTTP/[0-9](?:\.[0-9])? [0-9]{3}(?:[ \r\n]|\Z)")
_NOTE = re.compile(rb"(?:\* |> [A-Z]+ \S+ HTTP/|< HTTP/|\{ \[|\} \[|Note: |  % Total|curl: \()")
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n(?=event:|data:|id:|retry:|:|\{|\r?\n|\x1f\x8b)")
_MESSAGE = re.compile(rb"[<>][ \t]*\{")
_YAML = re.compile(rb"(?:%YAML|---[ \t]*(?:#.*)?\r?\n|-[ \t]+[A-Za-z_]+:|[\"']?[A-Za-z_]+[\"']?:[ \t]*(?:\r?\n|[^/\s]))")
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
    if _MESSAGE.match(text):
        return "websocket"
    if not whole and len(text) < 64:
        return None
    if _STATUS_LINE.match(text):
        return "curl"
    if _NOTE.match(text):
        return "curl-v"
    if _FIELD.match(text):
        return "sse"
    if _CHUNK_SIZE.match(text):
        return "chunked"
    if not at_end and len(text) < 4096:
        return None
    if _YAML.match(text.lstrip(b"# \t\r\n") if text[:1] == b"#" else text) and _EXCHANGE_KEY.search(head):
        return "yaml"
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


_TOP_TOKEN = re.compile(rb'"((?:[^"\\]|\\.)*)"[ \t\r\n]*(:?)|[\[\]{}]|\n', re.DOTALL)


def _top_keys(text: bytes) -> tuple[list[str], bool, bool]:
    """Keys of the first object as far as it is there, whether it is closed, and whether a line ended inside it."""
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
                return keys, True, broken
        elif first == b"\n":
            broken = True
        elif depth == 1 and token[2]:
            keys.append(token[1].decode("utf-8", "replace"))
    return keys, False, broken


_PAYLOADS: Final = ("data", "payload", "message", "body", "msg", "text", "event")
_DIRECTIONS: Final = ("direction", "dir", "type", "kind", "from", "source", "opcode", "op")
_SENT: Final = frozenset({"send", "sent", "out", "outgoing", "outbound", "client", "tx", "request", ">", "up", "c2s"})
_RECEIVED: Final = frozenset(
    {"receive", "received", "recv", "in", "incoming", "inbound", "server", "rx", "response", "<", "down", "s2c"}
    | {"message", "text"}
)


def _detect_json(text: bytes, *, at_end: bool) -> str | None:
    if text[:1] == b"[":
        inside = text[1:].lstrip()
        if not inside and not at_end:
            return None
        keys, closed, _ = _top_keys(inside)
        if {"scope", "request"} & {*keys}:
            return "vcr"
        return "json" if closed or at_end or len(text) >= _HEAD else None
    keys, closed, broken = _top_keys(text)
    known = {*keys}
    if "log" in known:
        return "har"
    if "type" not in known and known & DOCUMENT_KEYS:
        return "vcr"
    if {"request", "response"} <= known and "type" not in known:
        return "vcr"
    if not closed and not at_end:
        # A long first line. Events name their type early or late; what has begun as an event is one.
        if "type" in known and not broken and re.match(rb'\{[ \t]*"type"[ \t]*:[ \t]*"response\.', text):
            return "jsonl"
        if len(text) < _HEAD:
            return None
    line = text[: text.find(b"\n")] if b"\n" in text else text
    if broken and line.rstrip().endswith((b"{", b"[", b",")):  # written over several lines
        return "json"
    return _flavour(line)


def _flavour(line: bytes) -> str:
    """What a line of JSON lines is: an event, `{event, data}`, or a message in an envelope."""
    if _MESSAGE.match(line):
        return "websocket"
    try:
        value = msgspec.json.decode(line)
    except (ValueError, RecursionError):
        return "jsonl"
    if not isinstance(value, dict):
        return "jsonl"
    if _is_event(value):
        return "jsonl"
    if "data" in value and "event" in value and _is_name(value["event"]):
        return "envelope"
    if any(_direction(value, key) is not None for key in _DIRECTIONS) and any(key in value for key in _PAYLOADS):
        return "websocket"
    if any(_carries_event(value.get(key)) for key in _PAYLOADS):
        return "websocket"
    return "jsonl"


def _is_event(value: Mapping[str, Any]) -> bool:
    kind = value.get("type")
    if not isinstance(kind, str):
        return False
    return kind.startswith("response.") or (kind in {"error", "keepalive"} and "data" not in value)


def _is_name(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _carries_event(value: Any) -> bool:
    if isinstance(value, str):
        if value.strip() == "[DONE]":
            return True
        try:
            value = msgspec.json.decode(text_bytes(value))
        except (ValueError, RecursionError):
            return False
    return isinstance(value, dict) and _is_event(value)


def _direction(value: Mapping[str, Any], key: str) -> bool | None:
    """True for a message that was sent to the server, False for one from it, None when `key` does not say."""
    word = value.get(key)
    if not isinstance(word, str):
        return None
    word = word.lower()
    return True if word in _SENT else False if word in _RECEIVED else None


def _flavour_of(source: Source, kind: str) -> str:
    """The flavour of a format the caller named."""
    head = source.peek(_HEAD)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if kind == "curl":
        found = detect(head)
        return "curl-v" if found == "curl-v" else "curl"
    if kind == "jsonl":
        found = _flavour(text[: text.find(b"\n")] if b"\n" in text else text)
        return "envelope" if found == "envelope" else "jsonl"
    if kind == "chunked":
        return "chunked" if _CHUNK_SIZE.match(text) else "curl"
    if kind == "vcr":
        return "vcr" if text[:1] in {b"{", b"["} else "yaml"
    return kind


# ---- bodies ---------------------------------------------------------------------------------------------------------


def _all(source: Source) -> Iterator[bytes]:
    while chunk := source.take():
        yield chunk


_SIZE_LINE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n\Z")


def _dechunk(source: Source, limits: Limits) -> Iterator[bytes]:
    """The body without its chunk sizes (RFC 9112, section 7.1), up to and with the trailer section."""
    while True:
        line = source.line(limits.headers, "A chunk size")
        if not line:
            raise source.error(
                "the chunked body ends without its last chunk (`0`)",
                fix="The connection was cut, or the dump: what came before is whole.",
            )
        match = _SIZE_LINE.match(line)
        if match is None:
            source.put_back(line)
            raise source.error(
                "a chunk size should stand here, in hex digits on a line of its own",
                got=line,
                fix="Dumps keep their sizes only when line ends are kept as well: save the bytes, not the text.",
            )
        left = int(match[1], 16)
        if not left:
            break
        while left:
            piece = source.take(left)
            if not piece:
                raise source.error(f"the chunked body is cut off, {left} bytes before the end of a chunk")
            left -= len(piece)
            yield piece
        end = source.peek(2)
        if end == b"\r\n" or end[:1] == b"\n":
            source.take(2 if end == b"\r\n" else 1)
        elif end:
            raise source.error(
                "a chunk is longer than its size says",
                got=source.held,
                fix="Dumps keep their sizes only when line ends are kept as well: save the bytes, not the text.",
            )
    while (line := source.line(limits.headers, "A trailer")).strip():
        pass


# ---- curl -----------------------------------------------------------------------------------------------------------

_NOTE_LINE = re.compile(rb"(?:\* |[{}] \[|curl: \(|[<>] |[<>]\r?\n|  % Total|  +Dload  Upload)")
# The meter of a download: 79 columns that begin with CR and end without a line end, so the body goes on behind them.
_METER = re.compile(
    rb"(?:\r?(?:[ 0-9]{3} [ 0-9.kMGTP]{5}  ){3}[ 0-9.kMGTP]{5}  [ 0-9.kMGTP]{5}(?: [-: 0-9d]{8}){3} [ 0-9.kMGTP]{5})+"
    rb"(?:\r?\n)?"
)
_METER_BEGUN = re.compile(rb"\r?[ 0-9]{3} |\r\Z")
_METER_WIDTH: Final = 79
# Behind the last line of a body that ended without one. A quote cannot be in it: the text of an event closes with one.
_LAST_NOTE = re.compile(
    rb'(?:\* (?:Connection #[0-9]+ to host |Closing connection|transfer closed |shutting down connection)[^\n"]*'
    rb'|curl: \([0-9]+\)[^\n"]*|\{ \[[0-9]+ bytes data\])\r?\n?\Z'
)
_BEGUN_NOTE = re.compile(rb'(?:\*(?: [^\n"]*)?|c(?:u(?:r(?:l(?::[^\n"]*)?)?)?)?|\{(?: [^\n"]*)?)\Z')
_NOTE_REACH: Final = 300
_STARTS: Final = frozenset({b"", b"e", b"d", b":", b"i", b"r"})
"""What the lines of an event stream begin with. A piece of which nothing else does is let through unread."""
_TAILS: Final = (b"* ", b"curl: (", b"{ [")


_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t\r\n]*\Z", re.DOTALL)
_NEXT_ANSWER = re.compile(rb"\nHTTP/[0-9](?:\.[0-9])? [0-9]{3}[ \r\n]")
_NEXT_AFTER_JSON = re.compile(rb"[\n}\]]HTTP/[0-9](?:\.[0-9])? [0-9]{3}[ \r\n]")
_BEGUN_ANSWER = re.compile(rb"H(?:T(?:T(?:P(?:/(?:[0-9](?:\.[0-9]?)?)?(?: [0-9]{0,3})?)?)?)?)?\Z")
_ANSWER_LENGTH: Final = 16
"""Bytes in which a status line shows itself."""


class _Answer(msgspec.Struct):
    status: int
    headers: dict[str, str]
    offset: int = 0


class _Dump:
    """The output of curl: header blocks and bodies, and with `-v` its notes among them.

    The notes start lines: `* ` information, `> ` and `< ` headers, `{ [` and `} [` sizes. In a body such lines are
    taken out. No field of an event stream starts like that, so no event can be lost with them.
    """

    def __init__(self, source: Source, limits: Limits, *, verbose: bool) -> None:
        self.source = source
        self.limits = limits
        self.verbose = verbose
        self.request: dict[str, Any] | None = None

    def captures(self, on_skip: Callable[[str], None]) -> Iterator[Capture]:
        source = self.source
        number = 0
        refused: list[str] = []
        while True:
            answer = self.head()
            if answer is None:
                break
            number += 1
            kind = answer.headers.get("content-type", "")
            name = source.name if number == 1 else f"{source.name} (answer {number})"
            stream = self.is_stream(answer)
            if not stream:
                sentence = f"{name}: HTTP {answer.status} {kind or 'without a content-type'} is no event stream"
                refused.append(sentence)
                on_skip(sentence)
                for _ in self.body(in_json=True):
                    pass
                continue
            chunked = self.is_chunked(answer)
            packed = self.is_packed()
            if packed and source.peek(2) != b"\x1f\x8b":
                encoding = answer.headers.get("content-encoding", "something that is not gzip")
                raise source.error(
                    f"the body is packed with {encoding}", fix="Only gzip is unpacked here: use curl --compressed."
                )
            framing: Framing = "json-lines" if source.peek(1) == b"{" and not chunked and not packed else "sse"
            body = _dechunk(source, self.limits) if chunked else self.body(in_json=False)
            if packed or chunked:  # what was packed is seen once the sizes are off
                body = _all(open_source(body, name, self.limits)[0])
            elif framing == "json-lines":
                body = _plain_lines(Source(body, name), self.limits)
            capture = Capture(
                body,
                name=name,
                format="chunked" if chunked else "curl",
                framing=framing,
                status=answer.status,
                headers=answer.headers,
                request=self.request,
                offset=source.offset,
            )
            yield capture
            _drain(capture)
        if number == len(refused):
            raise source.error(
                refused[0].removeprefix(f"{source.name}: ") if refused else "the dump holds no answer",
                fix="An error answer is no stream: `respevents classify` reads it."
                if refused
                else "Add -i (or -v) to curl, and keep its output in one file.",
            )

    def head(self) -> _Answer | None:
        """The next header block, with what comes before it; blocks without a body are passed over. None at the end."""
        answer: _Answer | None = None
        echoed = False  # -i and -v together: each header line comes twice
        source = self.source
        while True:
            line = source.line(self.limits.headers, "A header line")
            if not line:
                if answer is not None and self.verbose:
                    return answer
                if answer is not None:
                    raise source.error("the dump ends inside the header lines")
                return None
            text = line.rstrip(b"\r\n")
            if self.verbose and (noted := self.note(text)) is not None:
                if not noted.startswith(b"<"):
                    continue
                text = noted[1:].removeprefix(b" ")
                marked = True
            else:
                marked = False
            if _STATUS_LINE.match(text):
                status = int(text.split(b" ", 2)[1][:3])
                if answer is None or answer.status != status or not self.verbose:
                    answer = _Answer(status, {})
                else:
                    echoed = True
                continue
            if answer is None:
                if not marked and self.verbose and (_FIELD.match(text) or text[:1] == b"{"):
                    # A body without header lines: -v with its notes on another terminal.
                    source.put_back(line)
                    return _Answer(0, {})
                continue  # a prompt, the progress of a download
            if text:
                found = _HEADER.match(text)
                if found is not None and (marked or not self.verbose or found[1].lower() not in (b"data", b"event")):
                    key = found[1].decode("latin-1").lower()
                    value = found[2].decode("latin-1")
                    if key not in answer.headers:
                        answer.headers[key] = value
                    elif answer.headers[key] != value and not echoed:
                        answer.headers[key] += f", {value}"
                    continue
                if self.verbose and not marked:
                    source.put_back(line)
                    return answer
                source.put_back(line)
                raise source.error("a header line should stand here, or the blank line after them", got=text)
            if marked and (echoed or self.source.peek(2) == b"\r\n"):
                continue  # the blank line of -i follows
            if self.verbose:
                self.pass_notes()
            if marked and self.source.peek(5) == b"HTTP/":
                continue  # the header lines of -i follow in one piece
            if answer.status < 200 or self.another_follows():
                answer = None
                continue
            return answer

    def pass_notes(self) -> None:
        """Pass over the notes that stand before a body."""
        while re.match(rb"\* |[{}] \[", self.source.peek(3)):
            self.source.line(self.limits.headers, "A note of curl")

    def another_follows(self) -> bool:
        """The next line is a status line: this answer had no body (a redirect, a proxy's answer, a challenge)."""
        head = self.source.peek(_ANSWER_LENGTH)
        if _STATUS_LINE.match(head):
            return True
        return self.verbose and head.startswith(b"< HTTP/")

    def note(self, text: bytes) -> bytes | None:
        """The line, if it is one of curl's own; the request is noted from it."""
        if text.startswith(b"> "):
            asked = re.match(rb"> ([A-Z]+) (\S+) HTTP/", text)
            if asked:
                self.request = {"method": asked[1].decode(), "url": asked[2].decode("latin-1"), "headers": {}}
            elif self.request is not None and (found := _HEADER.match(text[2:])) is not None:
                self.request["headers"][found[1].decode("latin-1").lower()] = found[2].decode("latin-1")
            return text
        return text if _NOTE_LINE.match(text + b"\n") else None

    def is_stream(self, answer: _Answer) -> bool:
        kind = answer.headers.get("content-type", "").lower()
        if "event-stream" in kind:
            return True
        head = self.source.peek(64).lstrip(b" \t\r\n")
        if _FIELD.match(head):
            return True
        if "json" in kind and "jsonl" not in kind and "ndjson" not in kind:
            return False
        return bool(re.match(rb'\{"type"[ ]*:[ ]*"response\.', head)) or (
            not kind and answer.status in {0, 200} and _CHUNK_SIZE.match(head) is not None
        )

    def is_chunked(self, answer: _Answer) -> bool:
        """The sizes of chunks stand in the body: curl takes them off, unless told `--raw`; packet dumps do not."""
        head = self.source.peek(64)
        return _CHUNK_SIZE.match(head) is not None and (
            "chunked" in answer.headers.get("transfer-encoding", "chunked").lower()
        )

    def is_packed(self) -> bool:
        head = self.source.peek(2)
        return head == b"\x1f\x8b" or (head[:1] >= b"\x80" and head[:1] != b"\xef")

    def body(self, *, in_json: bool) -> Iterator[bytes]:
        """The bytes up to the next answer or the end."""
        pieces = self.until_next(_NEXT_AFTER_JSON if in_json else _NEXT_ANSWER)
        return self.without_notes(pieces) if self.verbose else pieces

    def until_next(self, marker: re.Pattern[bytes]) -> Iterator[bytes]:
        source = self.source
        last = b"\n"  # an answer may start at once
        while chunk := source.take():
            data = last + chunk
            found = marker.search(data)
            if found is not None:
                cut = found.start() + 1
                source.put_back(data[cut:])
                if cut > 1:
                    yield data[1:cut]
                return
            begun = _BEGUN_ANSWER.search(chunk, max(0, len(chunk) - _ANSWER_LENGTH))
            if begun is not None and source.more():  # it may go on in the next chunk
                source.put_back(chunk[begun.start() :])
                chunk = chunk[: begun.start()]
                if not chunk:
                    continue
            yield chunk
            last = chunk[-1:]

    def without_notes(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The body without the lines that are curl's own. A line is held only while it may be one of them."""
        held = b""
        inside = False  # the start of the line was let through: it is one of the body
        for piece in pieces:
            if inside and not held and piece[-1:] not in b"*c{\n" and not any(one in piece for one in _TAILS):
                _, *others = piece.split(b"\n")
                if {line[:1] for line in others} <= _STARTS:
                    yield piece
                    continue
            data = held + piece
            held = b""
            out: list[bytes] = []
            at = 0
            while at < len(data):
                if not inside and (meter := _METER.match(data, at)) is not None:
                    if meter.end() == len(data):  # its line end may follow
                        held = data[max(at, len(data) - _METER_WIDTH) :]
                        break
                    at = meter.end()
                    continue
                stop = data.find(b"\n", at)
                if stop >= 0:
                    line = data[at : stop + 1]
                    if inside or self.note(line.rstrip(b"\r\n")) is None:
                        out.append(_without_last_note(line))
                    inside = False
                    at = stop + 1
                    continue
                rest = data[at:]
                if not inside and (
                    len(rest) < 16
                    or _NOTE_LINE.match(rest)
                    or (len(rest) <= _METER_WIDTH + 2 and _METER_BEGUN.match(rest))
                ):
                    if len(rest) > self.limits.headers:
                        raise self.source.error(f"a note of curl is longer than {self.limits.headers} bytes")
                    held = rest
                    break
                begun = _BEGUN_NOTE.search(rest, max(0, len(rest) - _NOTE_REACH))
                cut = len(rest) if begun is None else begun.start()
                out.append(rest[:cut])
                held = rest[cut:]
                inside = True
                break
            if out:
                yield b"".join(out)
        if held and (inside or not (_METER.match(held) or self.note(held.rstrip(b"\r\n")))):
            yield _without_last_note(held)


def _without_last_note(line: bytes) -> bytes:
    found = _LAST_NOTE.search(line, max(0, len(line) - _NOTE_REACH)) if b" " in line[-_NOTE_REACH:] else None
    return line if found is None else line[: found.start()]


# ---- JSON lines and WebSocket logs --------------------------------------------------------------------------------


def _json_lines(source: Source, flavour: str, limits: Limits, on_skip: Callable[[str], None]) -> Capture:
    if source.peek(3).startswith(b"\xef\xbb\xbf"):
        source.take(3)
    if flavour == "jsonl":
        return Capture(
            _plain_lines(source, limits),
            name=source.name,
            format="jsonl",
            framing="json-lines",
            offset=source.offset,
        )
    if flavour == "envelope":
        return Capture(_enveloped(source, limits), name=source.name, format="jsonl", framing="sse")
    return Capture(
        _messages(source, limits, on_skip), name=source.name, format="websocket", framing="json-lines"
    )


def _lines(source: Source, limits: Limits) -> Iterator[bytes]:
    """The lines that are not blank, each with one LF at its end."""
    while line := source.line(limits.line, "A line"):
        text = line.strip(b" \t\r\n")
        if text:
            yield text + b"\n"


_TOGETHER: Final = 64 * 1024


def _joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces."""
    parts: list[bytes] = []
    size = 0
    for piece in pieces:
        parts.append(piece)
        size += len(piece)
        if size >= _TOGETHER:
            yield b"".join(parts)
            parts.clear()
            size = 0
    if parts:
        yield b"".join(parts)


def _plain_lines(source: Source, limits: Limits) -> Iterator[bytes]:
    return _joined(_lines(source, limits))


class _Envelope(msgspec.Struct):
    data: msgspec.Raw
    event: str | None = None


_read_envelope = msgspec.json.Decoder(_Envelope).decode


def _enveloped(source: Source, limits: Limits) -> Iterator[bytes]:
    """`{event, data}` a line, as the frames they were: the recorder took the framing apart, and kept its fields."""
    return _joined(_frame_of(line) for line in _lines(source, limits))


def _frame_of(line: bytes) -> bytes:
    try:
        envelope = _read_envelope(line)
    except (ValueError, RecursionError):
        return b"data: " + line + b"\n"  # no envelope: for the reader of the stream to report
    data = bytes(envelope.data)
    if data[:1] == b'"':
        try:
            data = text_bytes(msgspec.json.decode(data))
        except ValueError:
            pass
    elif data == b"null":
        data = b""
    head = b"" if not envelope.event else b"event: " + _one_line(envelope.event.encode("utf-8", "replace")) + b"\n"
    body = b"".join(b"data: " + part + b"\n" for part in re.split(rb"\r\n|\n|\r", data)) if data else b""
    return head + body + b"\n"


def _one_line(text: bytes) -> bytes:
    return text.replace(b"\r", b" ").replace(b"\n", b" ")


def _messages(source: Source, limits: Limits, on_skip: Callable[[str], None]) -> Iterator[bytes]:
    return _joined(_each_message(source, limits, on_skip))


def _each_message(source: Source, limits: Limits, on_skip: Callable[[str], None]) -> Iterator[bytes]:
    sent = other = 0
    for line in _lines(source, limits):
        if line[:1] == b">":
            sent += 1
            continue
        text = line[1:].lstrip() if line[:1] == b"<" else line
        payload = _payload(text)
        if payload is None:
            sent += 1
        elif not payload:
            other += 1
        else:
            yield payload
    if sent or other:
        on_skip(
            f"{source.name}: left out {sent} messages to the server and {other} that carry no text (pings, closing)"
        )


def _payload(line: bytes) -> bytes | None:
    """The message in a line, with LF; None for one that was sent to the server, `b""` for one without text."""
    try:
        value = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError):
        return line  # no envelope: for the reader of the stream to report
    plain = {key: _plain(raw) for key, raw in value.items() if key in _DIRECTIONS}
    if _is_event(plain):
        return line
    directions = [way for key in _DIRECTIONS if (way := _direction(plain, key)) is not None]
    if True in directions:
        return None
    for key in _PAYLOADS:
        raw = bytes(value[key]) if key in value else b""
        if raw[:1] == b"{":
            return raw + b"\n"
        if raw[:1] == b'"':
            text = text_bytes(msgspec.json.decode(raw)) if _valid_text(raw) else raw
            if text.lstrip()[:1] in {b"{", b"["}:
                return b" ".join(text.splitlines()) + b"\n"
    return b"" if directions else line


def _plain(raw: msgspec.Raw) -> Any:
    data = bytes(raw)
    return msgspec.json.decode(data) if data[:1] == b'"' and len(data) < 200 and _valid_text(data) else None


def _valid_text(raw: bytes) -> bool:
    try:
        msgspec.json.decode(raw)
    except ValueError:
        return False
    return True


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
        if exchange.messages:
            body, framing = b"".join(b" ".join(m.splitlines()) + b"\n" for m in exchange.messages), "json-lines"
        else:
            body, framing = exchange.body, _framing(exchange.body, exchange.headers)
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
            framing="json-lines" if framing == "json-lines" else "sse",
            status=exchange.status,
            headers=exchange.headers,
            request=exchange.request,
        )
    if not found:
        raise source.error(
            f"the recording holds no event stream of /v1/responses (exchanges in it: {skipped})",
            fix="Record a request with `stream: true`. Error answers are read by `respevents classify`.",
        )


def _framing(body: bytes, headers: Mapping[str, str]) -> str | None:
    head = body[:_HEAD].removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    kind = headers.get("content-type", "").lower()
    if "event-stream" in kind or re.match(rb"(?:event|data|id|retry):|:", head):
        return "sse"
    if head[:1] == b"{" and ("ndjson" in kind or "jsonl" in kind or _detect_json(head, at_end=True) == "jsonl"):
        return "json-lines" if _STREAM_OF_EVENTS.search(head) else None
    return None


def _pieces(body: bytes) -> Iterator[bytes]:
    for at in range(0, len(body), _TOGETHER):
        yield body[at : at + _TOGETHER]


def _events_of(source: Source, limits: Limits) -> Iterator[Capture]:
    """A JSON array of events, or events one after another. Their bytes are kept, line ends between tokens left out."""
    data = source.rest(limits.document, "A JSON document").removeprefix(b"\xef\xbb\xbf").strip()
    try:
        raws = msgspec.json.decode(data, type=list[msgspec.Raw])
        lines = [bytes(raw) for raw in raws]
    except (ValueError, RecursionError):
        lines = list(_json_texts(data, source))
    flat = [re.sub(rb"[\r\n]+[ \t]*", b"", line) for line in lines]  # none inside a string: JSON escapes them there
    flavour = _flavour(flat[0]) if flat else "jsonl"
    if flavour == "envelope":
        yield Capture(_joined(_frame_of(line) for line in flat), name=source.name, format="json", framing="sse")
        return
    payloads = (_payload(line) for line in flat) if flavour == "websocket" else (line + b"\n" for line in flat)
    yield Capture(
        _joined(line for line in payloads if line), name=source.name, format="json", framing="json-lines"
    )


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


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


# ---- several streams in one body ------------------------------------------------------------------------------------


class _Created(msgspec.Struct):
    type: str = ""
    response: msgspec.Raw = msgspec.Raw(b"{}")


class _Id(msgspec.Struct):
    id: str = ""


_read_created = msgspec.json.Decoder(_Created).decode
_read_id = msgspec.json.Decoder(_Id).decode


class _Seams:
    """Where one stream ends and the next begins, in the events of a body.

    A new stream is a `response.created` of another response, or one that comes after a terminal event or `[DONE]` and
    starts the numbers anew. One that merely came twice is a fault of its stream, and stays in it.
    """

    __slots__ = ("created", "ended")

    def __init__(self) -> None:
        self.created: str | None = None
        self.ended = False

    def starts(self, kind: str | None, data: bytes) -> bool:
        """Whether a new stream starts with this event. `kind` is what its `event:` line says."""
        if not data:
            return False
        if kind is None:
            kind = _type_of(data)
        if kind in _ENDS or data == b"[DONE]":
            self.ended = True
            return False
        if kind != "response.created":
            return False
        before, self.created = self.created, _response_id(data)
        first = before is None
        new = not first and (self.created != before or self.ended)
        if new or first:
            self.ended = False
        return new


def _type_of(data: bytes) -> str | None:
    """The type of an event, read only where it may matter here."""
    if b'"response.c' not in data and b'"response.' not in data and data != b"[DONE]":
        return None
    try:
        return _read_created(data).type
    except (ValueError, RecursionError):
        return None


def _response_id(data: bytes) -> str:
    try:
        return _read_id(_read_created(data).response).id
    except (ValueError, RecursionError):
        return ""


def _split(capture: Capture) -> Iterator[Capture]:
    """The streams of one body, as captures that share its bytes: each is read before the next is known of."""
    parts = _sse_parts(capture) if capture.framing == "sse" else _line_parts(capture)
    state = _Shared(parts)
    number = 0
    while True:
        number += 1
        one = Capture(
            state.next_stream(),
            name=capture.name if number == 1 else f"{capture.name} (stream {number})",
            format=capture.format,
            framing=capture.framing,
            status=capture.status,
            headers=capture.headers,
            request=capture.request,
            offset=capture.offset + state.given,
        )
        yield one
        state.finish(one._chunks)  # noqa: SLF001
        if state.ended:
            return


class _Shared:
    """The parts of a body, dealt out stream by stream. A part of None stands between two streams."""

    def __init__(self, parts: Iterator[bytes | None]) -> None:
        self._parts = parts
        self._open = False
        self.given = 0
        self.ended = False

    def stream(self) -> Generator[bytes, None, None]:
        """What is left of the stream that was dealt last."""
        while self._open:
            try:
                part = next(self._parts, _NO_PART)
            except BaseException:
                self._open, self.ended = False, True
                raise
            if not isinstance(part, bytes):
                self._open, self.ended = False, part is _NO_PART
                break
            self.given += len(part)
            yield part

    def next_stream(self) -> Generator[bytes, None, None]:
        self._open = True
        return self.stream()

    def finish(self, stream: Iterable[bytes]) -> None:
        """Pass over what was not read of a stream, also when whoever read it closed it half way."""
        for _ in stream:
            pass
        for _ in self.stream():
            pass


_NO_PART: Final = object()

_LARGE_FRAME: Final = 8 * 1024 * 1024
"""Bytes. A frame beyond that passes through unread: a seam is not looked for in it."""

_BLANK = re.compile(rb"\n\n|\r\n\r\n|\r\r")


def _sse_parts(capture: Capture) -> Iterator[bytes | None]:
    decoder = FrameDecoder(_LARGE_FRAME)
    seams = _Seams()
    held = bytearray()  # what the decoder took and has not given back as frames
    passing: bytes | None = None  # the last bytes of a large frame that is passing through
    for chunk in capture.chunks():
        if passing is not None:
            data = passing + chunk
            found = _BLANK.search(data)
            if found is None:
                yield chunk
                passing = data[-3:]
                continue
            cut = found.end() - len(passing)
            yield chunk[:cut]
            chunk = chunk[cut:]
            passing, decoder = None, FrameDecoder(_LARGE_FRAME)
        held += chunk
        try:
            frames = decoder.feed(chunk)
        except RemoteProtocolError as error:
            frames = list(error.frames)
            passing = b""
        del held[: sum(len(frame.raw) for frame in frames)]
        yield from _dealt(frames, seams)
        if passing is not None:
            rest = bytes(held)
            held.clear()
            found = _BLANK.search(rest, 1)
            yield rest
            # A blank line in what is left is rare: frames after it in this piece are not looked at for seams.
            passing = rest[-3:] if found is None else None
            if found is not None:
                decoder = FrameDecoder(_LARGE_FRAME)
    yield from _dealt(decoder.close(), seams)


def _dealt(frames: Iterable[Any], seams: _Seams) -> Iterator[bytes | None]:
    together: list[bytes] = []
    for frame in frames:
        if seams.starts(frame.event, frame.data):
            if together:
                yield b"".join(together)
                together = []
            yield None
        together.append(frame.raw)
    if together:
        yield b"".join(together)


def _line_parts(capture: Capture) -> Iterator[bytes | None]:
    seams = _Seams()
    for chunk in capture.chunks():  # whole lines
        if b'"response.created"' not in chunk and not any(end.encode() in chunk for end in _ENDS):
            yield chunk
            continue
        together: list[bytes] = []
        for line in chunk.splitlines(keepends=True):
            if seams.starts(None, line.rstrip()):
                if together:
                    yield b"".join(together)
                    together = []
                yield None
            together.append(line)
        if together:
            yield b"".join(together)
