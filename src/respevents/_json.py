"""A strict reader of JSON: RFC 8259, and one defined answer for each thing that text leaves open.

msgspec reads. It is strict already, but it keeps the last of two equal keys, calls a lone surrogate truncated input,
and often knows no position. So what it refuses is read again by a slow exact scan that finds the first fault and its
byte offset, and a document may hold each key of an object once.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

import msgspec

from respevents._canonical import MAX_DEPTH, MAX_INT_DIGITS
from respevents._errors import RemoteProtocolError, json_path, show

__all__ = ["decode_json"]

_decode = msgspec.json.decode
_encode = msgspec.json.encode


def decode_json(data: bytes | bytearray | memoryview | str) -> Any:
    """Read one JSON document. Integers are exact up to 4,300 digits; a number as `11.0` stays the float it is.

    Raises RemoteProtocolError, with the byte offset and where there is one the JSON path, for what is no JSON (NaN and
    Infinity among it), invalid UTF-8, a byte order mark, an empty document, trailing data, a number out of range
    (`1e400`), two equal keys in an object, a lone surrogate escape, more than 256 levels.
    """
    if type(data) is not bytes:
        data = _bytes(data)
    try:
        value = _decode(data)
        # Equal keys: msgspec keeps the last. Compact JSON proves fastest that none was lost: it encodes to itself.
        if (type(value) is dict or type(value) is list) and (
            (_encode(value) != data and _repeats_key(data)) or _too_deep(data, value)
        ):
            _explain(data, None)
    except (ValueError, RecursionError) as error:  # msgspec.DecodeError and UnicodeDecodeError are ValueErrors
        _explain(data, error)
    return value


def _bytes(data: Any) -> bytes:
    if isinstance(data, str):
        try:
            return data.encode()
        except UnicodeEncodeError as error:
            raise RemoteProtocolError(
                "The text holds a lone surrogate",
                offset=len(data[: error.start].encode()),
                got=f"U+{ord(data[error.start]):04X}",
            ) from None
    return bytes(data)


def _too_deep(data: bytes, value: Any) -> bool:
    if len(data) <= 2 * MAX_DEPTH or data.count(b"{") + data.count(b"[") <= MAX_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            one
            for box in level
            for one in (box.values() if type(box) is dict else box)
            if type(one) is dict or type(one) is list
        ]
        if not level:
            return False
    return True


def _repeats_key(data: bytes) -> bool:
    try:
        json.loads(data, object_pairs_hook=_unique, parse_int=_keep, parse_float=_keep)
    except _RepeatedKeyError:
        return True
    return False


class _RepeatedKeyError(Exception):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        raise _RepeatedKeyError


def _keep(text: str) -> str:
    return text


# ---- the exact scan: only to name a fault ------------------------------------------------------------------------

_SPACE = re.compile(rb"[ \t\n\r]*")
_STRING = re.compile(rb'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"', re.DOTALL)
_ESCAPE = re.compile(rb"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WORD = re.compile(rb"-?[A-Za-z_][A-Za-z0-9_]*|-|\+[0-9.]*|[0-9.]+")
_LITERALS = (b"true", b"false", b"null")


def _fail(what: str, offset: int, path: list[str | int], *, got: str | None = None, fix: str | None = None) -> NoReturn:
    raise RemoteProtocolError(what, offset=offset, path=json_path(path) if path else None, got=got, fix=fix)


def _explain(data: bytes, error: BaseException | None) -> NoReturn:
    """Raise the error of the first fault in the document."""
    if data.startswith(b"\xef\xbb\xbf"):
        _fail("JSON starts with a byte order mark", 0, [], fix="Send UTF-8 without a mark.")
    try:
        data.decode()
    except UnicodeDecodeError as bad:
        _fail("JSON is not valid UTF-8", bad.start, [], got=f"byte 0x{data[bad.start]:02X} ({bad.reason})")
    _Scan(data).document()
    raise RemoteProtocolError(f"JSON cannot be read: {error}") from error


class _Scan:
    """One pass over a document, without recursion, that raises at the first fault."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.path: list[str | int] = []
        self.keys: list[set[str] | None] = []  # for each open container: the keys of an object, None for an array

    def fail(self, what: str, offset: int | None = None, *, got: str | None = None, fix: str | None = None) -> NoReturn:
        _fail(what, self.at if offset is None else offset, self.path, got=got, fix=fix)

    def byte(self) -> bytes:
        """The next byte after white space; empty at the end."""
        match = _SPACE.match(self.data, self.at)
        assert match is not None
        self.at = match.end()
        return self.data[self.at : self.at + 1]

    def unexpected(self, what: str) -> NoReturn:
        got = self.data[self.at : self.at + 12]
        if not got:
            self.fail(f"JSON ends where {what} should follow")
        self.fail(f"JSON has no {what} where one should stand", got=show(got.decode("utf-8", "replace")))

    def document(self) -> None:
        if not self.byte():
            self.fail("JSON is empty")
        self.value()
        while self.keys:
            self.step()
        if self.byte():
            self.fail(
                "JSON is followed by more data", got=show(self.data[self.at : self.at + 12].decode("utf-8", "replace"))
            )

    def value(self) -> None:
        """Read a scalar, or open a container."""
        first = self.byte()
        if first in {b"{", b"["} and first:
            if len(self.keys) >= MAX_DEPTH:
                self.path = self.path[:1]  # a path of hundreds of steps says less than the offset
                self.fail(f"JSON is nested deeper than {MAX_DEPTH} levels")
            self.at += 1
            self.keys.append(set() if first == b"{" else None)
            self.path.append("" if first == b"{" else -1)
        elif first == b'"':
            self.string()
        else:
            self.scalar()

    def step(self) -> None:
        """Go on in the innermost container: its next value, or its end."""
        keys = self.keys[-1]
        last = self.path.pop()
        begun = last != -1 if keys is None else bool(keys)
        byte = self.byte()
        if byte == (b"]" if keys is None else b"}"):
            self.at += 1
            self.keys.pop()
            return
        if begun:
            if byte != b",":
                self.unexpected("comma")
            self.at += 1
            if self.byte() in {b"]", b"}"}:
                self.fail("JSON has a comma too many")
        if keys is None:
            self.path.append(int(last) + 1)
        else:
            if self.byte() != b'"':
                self.unexpected("key in double quotes")
            start = self.at
            key = self.string()
            self.path.append(key)
            if key in keys:
                self.fail("JSON repeats a key of an object", start, got=show(key))
            keys.add(key)
            if self.byte() != b":":
                self.unexpected("colon")
            self.at += 1
        self.value()

    def scalar(self) -> None:
        start = self.at
        for literal in _LITERALS:
            if self.data.startswith(literal, start):
                self.at += len(literal)
                return
        match = _NUMBER.match(self.data, start)
        if match is None:
            word = _WORD.match(self.data, start)
            if word is not None:
                text = word.group().decode()
                if text.lstrip("-").lower() in {"nan", "infinity", "inf"}:
                    self.fail("JSON has no number that is not finite", got=text, fix="Send null, or leave the key out.")
            self.unexpected("value")
        self.at = match.end()
        after = _WORD.match(self.data, self.at)
        if after is not None:
            self.fail("JSON has a malformed number", start, got=show((match.group() + after.group())[:24].decode()))
        if match.group(1) is None and match.group(2) is None:
            if match.end() - start > MAX_INT_DIGITS:
                self.fail(f"JSON has an integer of more than {MAX_INT_DIGITS} digits", start)
        elif float(match.group()) in {float("inf"), float("-inf")}:
            self.fail("JSON has a number out of range", start, got=show(match.group().decode()))

    def string(self) -> str:
        start = self.at
        match = _STRING.match(self.data, start)
        if match is None:
            rest = re.compile(rb"[\x00-\x1f]").search(self.data, start)
            if rest is not None:
                self.fail("JSON has a control character in a string", rest.start(), got=f"0x{rest.group()[0]:02X}")
            self.fail("JSON ends inside a string", len(self.data))
        self.at = match.end()
        text = match.group()
        if b"\\" not in text:
            return text[1:-1].decode()
        high: int | None = None  # where the first half of a pair was escaped
        end = 0
        for escape in _ESCAPE.finditer(text):
            code = int(escape.group(1), 16) if escape.group(1) else 0
            if not code and escape.group(1) is None and escape.group(2) not in _SIMPLE:
                self.fail(
                    "JSON has an unknown escape",
                    start + escape.start(),
                    got=show(escape.group().decode("utf-8", "replace")),
                )
            low = 0xDC00 <= code < 0xE000
            if high is not None and not (low and escape.start() == end):
                self.lone(start + high, text[high : high + 6])
            if low and high is None:
                self.lone(start + escape.start(), escape.group())
            high = escape.start() if 0xD800 <= code < 0xDC00 else None
            end = escape.end()
        if high is not None:
            self.lone(start + high, text[high : high + 6])
        value = json.loads(text)
        assert isinstance(value, str)
        return value

    def lone(self, offset: int, escape: bytes) -> NoReturn:
        self.fail(
            "JSON holds a lone surrogate escape",
            offset,
            got=escape.decode(),
            fix="The two halves of a pair belong in one string.",
        )


_SIMPLE = frozenset({b'"', b"\\", b"/", b"b", b"f", b"n", b"r", b"t"})
