"""Recorded exchanges out of one JSON or YAML document: HAR, VCR cassettes and their kin.

The recorders differ in the names of things, not in what they keep. So a document is searched for the list of its
exchanges, and an exchange for a request and an answer, under the names that recorders in use write:

- HAR: `log.entries[]`, `response.content.text` (`encoding: base64`), `_webSocketMessages` (Chromium, Playwright).
- VCR (Python `interactions`, Ruby and betamax `http_interactions`): `response.body.string`, `.base64_string`; the
  `requests` and `responses` lists of LangChain's cassettes; go-vcr's `response.body` text.
- The session records of Azure's test proxy: `Entries[]`, `ResponseBody` as text or a list of lines.
- nock: a list of `{scope, path, status, response}`, hex where the body was packed.
- httpmock: YAML documents of `when` and `then`. Cassettes of `entries` whose body has `kind` and `chunks`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

import msgspec

from respevents._extras import load
from respevents._sources import CaptureError, Limits, Source, inflate

__all__ = ["DOCUMENT_KEYS", "Exchange", "exchanges", "read_document", "text_bytes"]

DOCUMENT_KEYS: Final = frozenset(
    {"log", "interactions", "http_interactions", "entries", "Entries", "requests", "responses", "recordings", "when"}
)
"""The top-level keys that tell a document of recorded exchanges from an event."""

_LISTS: Final = ("interactions", "http_interactions", "entries", "Entries", "recordings")

Json = Mapping[str, Any]


class Exchange(NamedTuple):
    """A request and what was answered. `body` is unpacked; `messages` are those of a WebSocket, from the server."""

    place: str
    """JSON path in the document."""
    request: dict[str, Any] | None
    status: int | None
    headers: dict[str, str]
    body: bytes
    messages: list[bytes] | None


def read_document(source: Source, kind: str, limits: Limits) -> list[Any]:
    """The JSON or YAML documents in what is left of the source. Raises `CaptureError` when they do not parse."""
    if kind == "yaml":
        return _yaml(source, source.rest(limits.yaml, "A YAML document"))
    start = source.offset
    data = source.rest(limits.document, "A JSON document").removeprefix(b"\xef\xbb\xbf")
    try:
        return [msgspec.json.decode(data)]
    except (ValueError, RecursionError):
        pass
    # Not strict JSON: recorders write lone surrogates, and several documents may follow one another.
    values: list[Any] = []
    at = 0
    text = data.decode("utf-8", "surrogateescape")
    decoder = json.JSONDecoder()
    try:
        while at < len(text):
            value, at = decoder.raw_decode(text, at)
            values.append(value)
            at = _after_space(text, at)
    except (ValueError, RecursionError) as error:
        position = error.pos if isinstance(error, json.JSONDecodeError) else 0
        where = start + len(text[:position].encode("utf-8", "surrogateescape"))
        raise CaptureError(
            f"{source.name}: the JSON document cannot be read: {str(error).partition(': line')[0]}",
            offset=where,
            fix="A file that was cut off while it was written has to be recorded again.",
        ) from error
    return values


_SPACES = re.compile(r"[\s,\x1e]*")


def _after_space(text: str, at: int) -> int:
    found = _SPACES.match(text, at)
    assert found is not None
    return found.end()


def _yaml(source: Source, data: bytes) -> list[Any]:
    yaml: Any = load("yaml", needed_by="a YAML cassette")
    loader = _yaml_loader(yaml)
    try:
        return list(yaml.load_all(data, Loader=loader))
    except (yaml.YAMLError, ValueError, RecursionError, TypeError, OverflowError) as error:
        if isinstance(error, RecursionError):
            raise source.error("the YAML document is nested too deep for a recording") from error
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        line = "" if mark is None else f" in line {mark.line + 1}"
        raise CaptureError(
            f"{source.name}: the YAML document cannot be read{line}: {problem}",
            offset=getattr(mark, "index", None),
            fix="A file that was cut off while it was written has to be recorded again.",
        ) from error


def _yaml_loader(yaml: Any) -> type[Any]:
    """SafeLoader, which makes plain values only, and what Ruby writes read as plain values too. Both it and libyaml
    bound the depth. Merge keys (`<<`), which no recorder writes and which multiply, are keys like others.
    """
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc,unused-ignore]
        def flatten_mapping(self, node: Any) -> None:
            pass

    def binary(loader: Any, node: Any) -> bytes:
        return base64.b64decode(loader.construct_scalar(node))

    def plain(loader: Any, _suffix: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    def word(loader: Any, node: Any) -> Any:
        return loader.construct_scalar(node)

    Loader.add_constructor("!binary", binary)
    Loader.add_constructor("tag:yaml.org,2002:timestamp", word)  # dates are of no use here and may be out of range
    Loader.add_constructor("tag:yaml.org,2002:value", word)
    Loader.add_constructor("tag:yaml.org,2002:merge", word)
    Loader.add_multi_constructor("!ruby/", plain)
    Loader.add_multi_constructor("tag:ruby.yaml.org,2002:", plain)
    return cast("type[Any]", Loader)


# ---- the exchanges of a document ----------------------------------------------------------------------------------


def exchanges(documents: list[Any], name: str, limits: Limits) -> Iterator[Exchange]:
    """Every recorded exchange, in order. Raises `CaptureError` for a body that cannot be decoded."""
    for number, document in enumerate(documents):
        root = "$" if len(documents) == 1 else f"$[{number}]"
        for place, pair in _pairs(document, root):
            yield _exchange(place, pair, name, limits)


def _pairs(document: Any, root: str) -> Iterator[tuple[str, Json]]:
    if isinstance(document, list):
        for index, one in enumerate(document):
            if isinstance(one, Mapping):
                yield f"{root}[{index}]", one
        return
    if not isinstance(document, Mapping):
        return
    log = document.get("log")
    if isinstance(log, Mapping) and isinstance(log.get("entries"), list):
        yield from _pairs(log["entries"], f"{root}.log.entries")
        return
    for key in _LISTS:
        entries = document.get(key)
        if isinstance(entries, list):
            yield from _pairs(entries, f"{root}.{key}")
            return
    requests, responses = document.get("requests"), document.get("responses")
    if isinstance(responses, list):
        asked: list[Any] = requests if isinstance(requests, list) else []
        for index, answer in enumerate(responses):
            request = asked[index] if index < len(asked) else None
            yield f"{root}.responses[{index}]", {"request": request, "response": answer}
        return
    yield root, document


def _get(box: Any, *keys: str) -> Any:
    if isinstance(box, Mapping):
        for key in keys:
            if key in box and box[key] is not None:
                return box[key]
    return None


def _exchange(place: str, pair: Json, name: str, limits: Limits) -> Exchange:
    request = _request(pair)
    answer = _get(pair, "response", "then")
    if isinstance(answer, Mapping):
        head: Json = answer
        body: Any = _get(answer, "content", "body", "base64_string", "body_base64")
        if "body_base64" in answer and body is answer["body_base64"]:
            body = {"base64_string": body}
    else:  # flat: nock has `response` as the body, the test proxy its own names
        head = pair
        body = answer if answer is not None else _get(pair, "ResponseBody", "body")
    headers = _headers(_get(head, "headers", "header", "ResponseHeaders", "rawHeaders", "reqheaders"))
    content_type = _get(_get(answer, "content"), "mimeType")
    if isinstance(content_type, str):
        headers.setdefault("content-type", content_type)
    status = _status(_get(head, "status", "StatusCode", "status_code", "code"))
    try:
        data = _body(body, limits.document)
        unpacked = inflate(data, headers.get("content-encoding", ""), limits.document)
    except (binascii.Error, ValueError) as error:
        raise CaptureError(
            f"{name}: the recorded body cannot be decoded: {error}",
            path=place,
            fix="The recording is damaged there: record it again, or take the entry out.",
        ) from error
    if unpacked is None:
        raise CaptureError(
            f"{name}: the recorded body is packed with {headers.get('content-encoding') or 'an unknown encoding'}",
            path=place,
            fix="Only gzip and deflate are unpacked here: have the recorder keep decoded bodies"
            " (vcrpy: decode_compressed_response=True).",
        )
    return Exchange(place, request, status, headers, unpacked, _messages(pair))


def _request(pair: Json) -> dict[str, Any] | None:
    asked = _get(pair, "request", "when")
    if isinstance(asked, Mapping):
        found = {
            "method": _method(_get(asked, "method")),
            "url": _word(_get(asked, "url", "uri", "path")),
            "headers": _headers(_get(asked, "headers", "header")),
        }
    elif "RequestUri" in pair or "path" in pair:
        scope = _word(_get(pair, "scope")) or ""
        found = {
            "method": _method(_get(pair, "RequestMethod", "method")),
            "url": _word(_get(pair, "RequestUri")) or scope + (_word(_get(pair, "path")) or ""),
            "headers": _headers(_get(pair, "RequestHeaders", "reqheaders")),
        }
    else:
        return None
    return {key: value for key, value in found.items() if value}


def _word(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return None if value is None else str(value)[:1000]


def _method(value: Any) -> str | None:
    word = _word(value)
    return word.lstrip(":").upper() if word else None  # Ruby writes symbols


def _status(value: Any) -> int | None:
    if isinstance(value, Mapping):
        value = value.get("code")
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 3:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1000 else None


_MANY: Final = 200
"""Headers, and values of one. Past that it is no recording."""


def _headers(value: Any) -> dict[str, str]:
    """Lower-case names. Takes a mapping (of text or lists), a list of `{name, value}`, of pairs, or flat as nock's."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list):
        if all(isinstance(one, str) for one in value):
            pairs = list(zip(value[::2], value[1::2], strict=False))
        for one in value:
            if isinstance(one, Mapping):
                pairs.append((one.get("name"), one.get("value")))
            elif isinstance(one, list) and len(one) == 2:
                pairs.append((one[0], one[1]))
    found: dict[str, str] = {}
    for key, raw in pairs[:_MANY]:
        values = raw[:_MANY] if isinstance(raw, list) else [raw]
        text = ", ".join(_header_text(one) for one in values if one is not None)
        if isinstance(key, (str, bytes)):
            label = _header_text(key).lower()
            found[label] = f"{found[label]}, {text}" if label in found else text
    return found


def _header_text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)[:10_000]


def text_bytes(text: str) -> bytes:
    """The bytes a recorded text stood for. Halves of a surrogate pair that were written apart are joined; a lone one
    stays as it is, three bytes that are no UTF-8, for the reader of the stream to report.
    """
    try:
        return text.encode()
    except UnicodeEncodeError:
        pass
    try:
        return text.encode("utf-8", "surrogateescape")  # bytes that were no UTF-8 in the document itself
    except UnicodeEncodeError:
        paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return paired.encode("utf-8", "surrogatepass")


def _body(value: Any, limit: int) -> bytes:
    """The bytes of a recorded body, in any of the forms of the module's docstring; `b""` for one that was recorded as
    parsed JSON: it is no stream, and its bytes are gone.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return text_bytes(value)
    if isinstance(value, list):
        return _joined(value, "", limit)
    if not isinstance(value, Mapping):
        return b""
    for key in ("base64_string", "base64", "bytes"):
        if isinstance(value.get(key), (str, bytes)):
            return base64.b64decode(value[key], validate=False)
    if isinstance(value.get("chunks"), list):
        # A recorder that parses event streams keeps their blocks without the blank line.
        return _joined(value["chunks"], "\n\n" if value.get("kind") == "sse" else "", limit)
    for key in ("text", "string", "value", "data", "content"):
        found = value.get(key)
        if isinstance(found, (str, bytes)):
            encoding = _get(value, "encoding", "kind", "_encoding")
            if isinstance(encoding, str) and encoding.lower() == "base64":
                return base64.b64decode(found, validate=False)
            return found if isinstance(found, bytes) else text_bytes(found)
        if isinstance(found, list):
            return _joined(found, "", limit)
    return b""


_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+\Z")


def _joined(pieces: list[Any], ending: str, limit: int) -> bytes:
    """Lines or pieces of text; nock writes packed bodies as hex. A YAML alias costs its document nothing, so what
    the pieces come to is bounded here.
    """
    size = 0
    parts: list[bytes] = []
    packed = bool(pieces) and all(isinstance(one, str) and _HEX.match(one) for one in pieces[:100])
    for one in pieces:
        if isinstance(one, str):
            part = bytes.fromhex(one) if packed else text_bytes(one if one.endswith(ending) else one + ending)
        elif isinstance(one, bytes):
            part = one
        elif isinstance(one, Mapping):
            part = _body(one.get("data"), limit) if isinstance(one.get("data"), (str, bytes)) else b""
        else:
            return b""  # parsed JSON
        size += len(part)
        if size > limit:
            raise ValueError(f"its pieces come to more than {limit} bytes")
        parts.append(part)
    return b"".join(parts)


def _messages(pair: Json) -> list[bytes] | None:
    """What the server sent over a WebSocket that a HAR recorded."""
    messages = _get(pair, "_webSocketMessages")
    if not isinstance(messages, list):
        return None
    return [
        text_bytes(one["data"])
        for one in messages
        if isinstance(one, Mapping) and one.get("type") != "send" and isinstance(one.get("data"), str)
    ]
