"""Dumps of HTTP answers: the output of curl, and bodies with the sizes of their chunks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from respevents._capture import Capture, Framing
from respevents._lines import plain_lines
from respevents._sources import Limits, Source, open_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["CHUNK_SIZE", "FIELD", "STATUS_LINE", "Dump", "dechunk", "whole"]

FIELD = re.compile(rb"(?:event|data|id|retry)(?::|[ \t]*\r?\n)|:")
STATUS_LINE = re.compile(rb"HTTP/[0-9](?:\.[0-9])? [0-9]{3}(?:[ \r\n]|\Z)")
CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n(?=event:|data:|id:|retry:|:|\{|\r?\n|\x1f\x8b)")


def whole(source: Source) -> Iterator[bytes]:
    while chunk := source.take():
        yield chunk


_SIZE_LINE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?\r?\n\Z")


def dechunk(source: Source, limits: Limits) -> Iterator[bytes]:
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
_KEPT: Final = 64 * 1024
"""Bytes that are kept of an answer that is no stream, and one piece more at most."""


class _Answer(msgspec.Struct):
    status: int
    headers: dict[str, str]
    offset: int = 0


class Dump:
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
        number = streams = 0
        refusal: tuple[str, _Answer, bytes] | None = None
        while True:
            answer = self.head()
            if answer is None:
                break
            number += 1
            kind = answer.headers.get("content-type", "")
            name = source.name if number == 1 else f"{source.name} (answer {number})"
            stream = self.is_stream(answer)
            if not stream:
                what = f"HTTP {answer.status} {kind or 'without a content-type'} is no event stream"
                on_skip(f"{name}: {what}")
                kept = bytearray()
                for piece in self.body(in_json=True):
                    if refusal is None and len(kept) < _KEPT:
                        kept += piece
                refusal = refusal or (what, answer, bytes(kept))
                continue
            streams += 1
            chunked = self.is_chunked(answer)
            packed = self.is_packed()
            if packed and source.peek(2) != b"\x1f\x8b":
                encoding = answer.headers.get("content-encoding", "something that is not gzip")
                raise source.error(
                    f"the body is packed with {encoding}", fix="Only gzip is unpacked here: use curl --compressed."
                )
            framing: Framing = "json-lines" if source.peek(1) == b"{" and not chunked and not packed else "sse"
            body = dechunk(source, self.limits) if chunked else self.body(in_json=False)
            if packed or chunked:  # what was packed is seen once the sizes are off
                body = whole(open_source(body, name, self.limits)[0])
            elif framing == "json-lines":
                body = plain_lines(Source(body, name), self.limits)
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
            capture.skip()
        if not streams:
            if refusal is not None:
                what, answer, first = refusal
                raise source.no_stream(what, answer.status, answer.headers, first)
            raise source.error(
                "the dump holds no answer", fix="Add -i (or -v) to curl, and keep its output in one file."
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
            if STATUS_LINE.match(text):
                status = int(text.split(b" ", 2)[1][:3])
                if answer is None or answer.status != status or not self.verbose:
                    answer = _Answer(status, {})
                else:
                    echoed = True
                continue
            if answer is None:
                if not marked and self.verbose and (FIELD.match(text) or text[:1] == b"{"):
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
        if STATUS_LINE.match(head):
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

    def bound_note(self, text: bytes) -> None:
        if len(text) > self.limits.headers:
            raise self.source.error(f"a note of curl is longer than {self.limits.headers} bytes")

    def is_stream(self, answer: _Answer) -> bool:
        kind = answer.headers.get("content-type", "").lower()
        if "event-stream" in kind:
            return True
        head = self.source.peek(64).lstrip(b" \t\r\n")
        if FIELD.match(head):
            return True
        if "json" in kind and "jsonl" not in kind and "ndjson" not in kind:
            return False
        return bool(re.match(rb'\{"type"[ ]*:[ ]*"response\.', head)) or (
            not kind and answer.status in {0, 200} and CHUNK_SIZE.match(head) is not None
        )

    def is_chunked(self, answer: _Answer) -> bool:
        """The sizes of chunks stand in the body: curl takes them off, unless told `--raw`; packet dumps do not."""
        head = self.source.peek(64)
        return CHUNK_SIZE.match(head) is not None and (
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
                    else:
                        self.bound_note(line)
                    inside = False
                    at = stop + 1
                    continue
                rest = data[at:]
                if not inside and (
                    len(rest) < 16
                    or _NOTE_LINE.match(rest)
                    or (len(rest) <= _METER_WIDTH + 2 and _METER_BEGUN.match(rest))
                ):
                    self.bound_note(rest)
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
