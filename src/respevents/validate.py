"""`validate_stream`: a captured stream held against the protocol, every fault named.

`StreamValidator` is sans-IO: bytes in, findings out, in one pass and bounded memory. Its layers are framing (the frame
decoder's raw bytes), JSON, schema (jsonschema-rs decides, jsonschema explains), the lifecycle machine that the builder
obeys too, ids, numbers, accumulated text, usage, and the ending. After a fault it reads on from where a client would.
What a rule means, and whom it breaks, stands in `findings`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

import msgspec

from respevents import schemas
from respevents._dialect import DIALECTS, DONE, Dialect
from respevents._errors import RemoteProtocolError, show
from respevents._grammar import READING
from respevents._open_responses import OpenResponses
from respevents._schema_checks import shapes_of
from respevents._stream_checks import StreamChecks
from respevents.findings import BY_NAME, CLIENTS, LIFECYCLE, RULES, Rule, Severity
from respevents.lifecycle import TERMINAL, Lifecycle
from respevents.wire import FrameDecoder, decode_json

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping

    from respevents.captures import Capture
    from respevents.wire import Frame

__all__ = ["Dialect", "Finding", "Report", "StreamValidator", "validate_file", "validate_stream"]

Framing = Literal["sse", "json-lines"]

_CHUNK: Final = 1 << 16
_ONCE: Final = frozenset(
    {
        "event-line-missing", "line-ends", "bare-cr", "data-before-event", "id-or-retry-line", "sequence-missing",
        "several-data-lines", "response-id-changed", "item-id-mismatch", "item-id-changed", "response-changed",
        "error-shape", "error-key-in-event", "id-missing", "id-form", "time-unit", "delta-empty",
    }
)  # fmt: skip
"""Rules that a server breaks in every event or in none: reported at the first."""

_ONCE_EACH: Final = frozenset({"extension-name", "content-part-missing"})
"""Rules that are reported once for each name or place."""

_MOST: Final = 10_000
_BOM: Final = b"\xef\xbb\xbf"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One fault at one place. `frame` counts from 0 (at the end of the stream: the number of frames), `offset` is the
    frame's first byte in the body, `path` a JSON path into its data.
    """

    rule: str
    name: str
    severity: Severity
    frame: int
    offset: int
    path: str
    message: str
    breaks: str
    fix: str
    event: str | None = None

    def __str__(self) -> str:
        where = f"frame {self.frame}, byte {self.offset}" + (f", {self.event}" if self.event else "")
        at = f" at {self.path}" if self.path != "$" else ""
        return f"{self.severity} {self.rule} {self.name} ({where}): {self.message}{at}. {self.breaks} {self.fix}"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What the validator says of one stream. `events` and `frames` are counts."""

    findings: tuple[Finding, ...]
    events: int
    frames: int
    dialect: Dialect
    schema: str
    profile: str
    framing: Framing = "sse"
    name: str = "<bytes>"
    more: int = 0
    """Findings beyond the 10,000 that are kept."""

    @property
    def ok(self) -> bool:
        """No finding has the severity error."""
        return not any(finding.severity == "error" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data."""
        return {"name": self.name, "ok": self.ok, **msgspec.to_builtins(self)}

    def __str__(self) -> str:
        counts = {level: sum(one.severity == level for one in self.findings) for level in ("error", "warning", "info")}
        said = ", ".join(f"{count} {level}" for level, count in counts.items() if count) or "no findings"
        head = f"{self.name}: {self.events} events, {said}"
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)])


class StreamValidator:
    """The validator of one stream.

    - `schema`: the set (`schemas.VERSIONS`); None takes the one in force when the response was created, where what a
      later one names and accepts is no fault: sets are fewer than the changes of the API.
    - `profile`: `wire` (what to accept) or `strict` (what to emit).
    - `dialect`: `openai` or `open-responses`; None tells it by the stream. That is known at its end, so the events of a
      stream that is told to be Open Responses were held against OpenAI's sets.
    - `client`: one of `findings.CLIENTS`, whose hazards become errors.
    - `strict`: unknown events, items and keys are errors.
    - `fragment`: a piece of a stream: it may start and end anywhere.
    - `select`, `ignore`: rule ids or names (a prefix such as `RE6` stands for its layer).
    - `framing`: `sse`, or `json-lines` for a log of one event a line (a WebSocket).

    Raises ValueError for what does not exist.
    """

    def __init__(
        self,
        *,
        schema: str | None = None,
        profile: schemas.Profile = "wire",
        dialect: Dialect | None = None,
        client: str | None = None,
        strict: bool = False,
        fragment: bool = False,
        select: Iterable[str] = (),
        ignore: Iterable[str] = (),
        framing: Framing = "sse",
        name: str = "<bytes>",
        max_frame: int = 64 * 1024 * 1024,
    ) -> None:
        _among("dialect", dialect, (*DIALECTS, None))
        _among("client", client, (*CLIENTS, None))
        _among("framing", framing, ("sse", "json-lines"))
        _among("profile", profile, ("wire", "strict"))
        _among("schema", schema, (*schemas.VERSIONS, None))
        self._profile, self._client = profile, client
        self._dated = schema is not None
        """Whether the schema set is settled."""
        self._exact = schema is not None
        """Whether a key that it does not name is unknown, or only one that the newest set does not name either."""
        self._later: tuple[str, ...] = ()
        """The sets after it, where it was chosen by the date."""
        self._schema = schema or schemas.at(None, dialect or "openai")
        self._dialect: Dialect | None = dialect
        self._framing: Framing = framing
        self._strict, self._fragment, self._name = strict, fragment, name
        self._select, self._ignore = _rules("select", select), _rules("ignore", ignore)
        self._shapes = shapes_of(self._schema, profile)
        self._decoder = FrameDecoder(max_frame)
        self._max_frame = max_frame
        self._lines = bytearray()
        self._offset = 0
        self._findings: list[Finding] = []
        self._more = 0
        self._new: list[Finding] = []
        self._said: set[tuple[str, str]] = set()
        self._frame = -1
        self._frames = self._events = 0
        self._at = 0
        self._kind: str | None = None
        self._machine: Lifecycle | None = None
        self._checks = StreamChecks(self._find)
        self._rules = None if dialect == "openai" else OpenResponses()
        self._held: list[Finding] = []
        """Findings of rules that only the other dialect has, until it is known which one is spoken."""
        self._place: tuple[Any, ...] = ()
        self._running: Any = None
        """The text that the deltas of one place add to, while nothing else comes."""
        self._done_marker = False
        self._bare_error = False
        self._failed: RemoteProtocolError | None = None
        self._closed = False

    # ---- bytes

    def feed(self, chunk: bytes) -> list[Finding]:
        """Take the next bytes of the body; the findings they lead to. After `close` nothing is taken."""
        self._new = []
        if self._closed or self._failed is not None:
            return []
        if self._framing == "json-lines":
            if b"\n" not in chunk and len(self._lines) + len(chunk) <= self._max_frame:
                self._lines += chunk
                return []
            *lines, rest = (bytes(self._lines) + chunk).split(b"\n")
            self._lines = bytearray(rest)
            for line in lines:
                self._line(line, len(line) + 1)
            if len(rest) > self._max_frame:
                self._failed = RemoteProtocolError(f"A line is longer than {self._max_frame} bytes")
                self._frame, self._at, self._kind = self._frames, self._offset, None
                self._find("no-event-stream", f"{self._failed.what}, and nothing after it was read")
            return self._new
        try:
            frames = self._decoder.feed(chunk)
        except RemoteProtocolError as error:
            for frame in error.frames:
                self._look(frame)
            self._failed = error
            self._frame, self._at, self._kind = self._frames, error.offset or 0, None
            self._find("no-event-stream", f"{error.what}, and nothing after it was read")
            return self._new
        for frame in frames:
            self._look(frame)
        return self._new

    def close(self) -> Report:
        """The stream has ended: what is wrong with that, and the report."""
        if not self._closed:
            self._new = []
            if self._framing == "json-lines" and self._lines:
                self._line(bytes(self._lines), len(self._lines))
            for frame in self._decoder.close():
                self._look(frame)
            self._closed = True
            self._end()
        dialect: Dialect = self._dialect or self._told()
        findings = self._findings
        if dialect == "open-responses":
            findings = [again for one in findings if (again := self._graded(one, dialect)) is not None]
            findings = sorted(findings + self._held, key=lambda one: one.frame)
            if not self._done_marker and not self._fragment and self._events:
                self._frame, self._at, self._kind = self._frames, self._offset, None
                rule = BY_NAME["done-marker-missing"]
                if self._wanted(rule):
                    findings = [*findings, self._made(rule, "error", "The stream has no [DONE]", "$")]
        return Report(
            findings=tuple(findings),
            events=self._events,
            frames=self._frames,
            dialect=dialect,
            schema=self._schema,
            profile=self._profile,
            framing=self._framing,
            name=self._name,
            more=self._more,
        )

    def _told(self) -> Dialect:
        """The dialect, where nobody says: Open Responses has response.reasoning.delta or events named `slug:type`,
        and [DONE] at the end.
        """
        return "open-responses" if self._checks.of_open_responses and self._done_marker else "openai"

    def _line(self, line: bytes, size: int) -> None:
        start, self._offset = self._offset, self._offset + size
        if not line.strip():
            return
        self._frame, self._at, self._kind = self._frames, start, None
        self._frames += 1
        if line.strip() == DONE:
            self._find("done-marker", "The log has [DONE]")
            return
        self._data(line.strip())

    def _look(self, frame: Frame) -> None:
        self._frame, self._at, self._kind = self._frames, frame.offset, None
        self._frames += 1
        self._offset = frame.offset + len(frame.raw)
        raw, data = frame.raw, frame.data
        plain = frame.event is not None and data and raw.startswith(b"event: ") and raw.count(b"\n") == 3
        if not plain or b"\r" in raw or not frame.complete:
            self._framed(frame)
        if data == DONE:
            if self._done_marker:
                self._find("after-done-marker", "A second [DONE]")
            self._done_marker = True
            self._find("done-marker", "The stream sends [DONE]")
            return
        if not data:
            if b"\ndata" in raw or raw.startswith(b"data"):
                self._find("event-without-data", "The data is empty")
            return
        if self._done_marker:
            self._find("after-done-marker", "An event follows [DONE]")
        self._data(data, frame.event)

    def _framed(self, frame: Frame) -> None:
        """The raw bytes of a frame that is not written as OpenAI writes it."""
        raw = frame.raw
        if frame.offset == 0 and raw.startswith(_BOM):
            self._find("byte-order-mark", "The body starts with a byte order mark")
            raw = raw[len(_BOM) :]
        if b"\r" in raw:
            bare = raw.replace(b"\r\n", b"\n")
            if b"\r" in bare:
                self._find("bare-cr", "A line ends with a lone CR")
            else:
                self._find("line-ends", "Lines end with CRLF")
            raw = bare.replace(b"\r", b"\n")
        names = [line.partition(b":")[0] for line in raw.split(b"\n") if line and not line.startswith(b":")]
        if not frame.complete and names:
            self._find("blank-line-missing", "The last frame has no blank line behind it")
        strange = [name for name in names if name not in {b"event", b"data", b"id", b"retry"}]
        if strange:
            self._find("no-event-stream", f"A line starts with {show(strange[0][:40].decode('utf-8', 'replace'))}")
        if b"id" in names or b"retry" in names:
            self._find("id-or-retry-line", "A frame has an id: or retry: line")
        if names.count(b"data") > 1:
            self._find("several-data-lines", f"The data stands in {names.count(b'data')} lines")
        if b"event" in names and b"data" not in names:
            self._find("event-without-data", f"The frame has event: {show(frame.event)} and no data")
        if b"data" in names and frame.data != DONE:
            if b"event" not in names:
                self._find("event-line-missing", "The frame has no event: line")
            elif names.index(b"data") < names.index(b"event"):
                self._find("data-before-event", "The data stands before the event's name")

    # ---- one event

    def _data(self, data: bytes, name: str | None = None) -> None:
        try:
            event = decode_json(data)
        except RemoteProtocolError as error:
            event = self._mended(data, error)
        if event is _NOTHING:
            return
        if not isinstance(event, dict):
            self._find("not-an-object", f"The data is {show(event)}")
            return
        self._events += 1
        kind = event.get("type")
        if not isinstance(kind, str) or not kind:
            if "error" in event and not self._bare_error:
                self._bare_error = True
            self._find("type-missing", f"The event has the type {show(kind)}", "$.type")
            self._checks.bare(event)
            return
        self._kind = kind
        if not self._dated and "response" in event:
            self._date(event["response"])
        if name is not None and name != kind:
            self._find("event-line-mismatch", f"The frame says event: {show(name)}, the data {show(kind)}", "$.type")
        # Most events are deltas of one form: what was looked at once need not be looked at again.
        types = tuple(map(type, event.values()))
        form = (kind, tuple(event), types)
        lists = self._shapes.forms.get(form)
        if lists is not None and not any(map(event.get, lists)):
            place = (kind, *map(event.get, _PLACES))
            running = self._running
            if (
                running is not None
                and place == self._place
                and event["delta"]
                and not event["delta"].endswith("\ufffd")
            ):
                running.add(event["delta"])
                self._checks.number(event)
                return
            self._move(event, kind)
            # The next delta of the same text changes nothing but the text and the number.
            self._place, self._running = place, self._checks.running(event, kind)
            return
        self._running = None
        if float in types or dict in types or list in types:
            for box, key, path in list(self._shapes.floats(event, kind)):
                value = box[key]
                self._find("float-for-integer", f"{show(value)} stands where an integer belongs", path)
                if value.is_integer():
                    box[key] = int(value)  # what follows reads it as it was meant
        self._shape(event, kind)
        if form not in self._shapes.forms and self._shapes.flat(event, kind, types) and not self._strict:
            self._shapes.forms[form] = tuple(key for key, value in event.items() if type(value) is list)
        self._move(event, kind)

    def _mended(self, data: bytes, error: RemoteProtocolError) -> Any:
        """Name every trap of a document, and read it as far as it can be read."""
        text = data.decode("utf-8", "replace")
        if "UTF-8" in error.what:
            self._find("invalid-utf-8", error.what)
        traps: list[tuple[str, str]] = []

        def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
            whole: dict[str, Any] = {}
            twice = None
            for key, value in found:
                twice = key if key in whole else twice
                whole[key] = value
            if twice is not None:
                traps.append(("duplicate-key", f"The key {show(twice)} stands twice in an object"))
            return whole

        def constant(word: str) -> float:
            traps.append(("not-a-number", f"{word} stands where a value belongs"))
            return 0.0

        def number(digits: str) -> float:
            value = float(digits)
            if value in {float("inf"), float("-inf")}:
                traps.append(("number-out-of-range", f"{digits[:24]} is beyond what a double holds"))
                return 0.0
            return value

        try:
            event = json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_float=number)
        except RecursionError:
            self._find("too-deep", error.what)
            return _NOTHING
        except ValueError:
            trap = "too-deep" if "nested deeper" in error.what else "not-json"
            self._find(trap, error.what, error.path or "$")
            return _NOTHING
        if "nested deeper" in error.what:
            self._find("too-deep", error.what)
            return _NOTHING
        if "surrogate" in error.what or "\\u" in text:
            cleaned, lone = _without_surrogates(event)
            if lone:
                traps.append(("lone-surrogate", "A string holds half of a surrogate pair"))
            event = cleaned
        for rule, message in dict.fromkeys(traps):
            self._find(rule, message)
        if not traps and "UTF-8" not in error.what:
            self._find("not-json", error.what, error.path or "$")
        return event

    def _date(self, response: Any) -> None:
        """Take the schema set of the response's date."""
        created_at = response.get("created_at") if isinstance(response, dict) else None
        if type(created_at) not in (int, float):
            return
        dialect = self._dialect or "openai"
        self._dated, self._schema = True, schemas.at(created_at, dialect)
        self._shapes = shapes_of(self._schema, self._profile)
        after = schemas.VERSIONS[schemas.VERSIONS.index(self._schema) + 1 :]
        self._later = tuple(version for version in after if version.startswith(f"{dialect}-"))

    def _shape(self, event: dict[str, Any], kind: str) -> None:
        shapes = self._shapes
        if not shapes.takes(event, kind):
            # Sets are fewer than the changes of the API: what a later one takes is no fault at this date.
            sets = [shapes, *(shapes_of(name, self._profile) for name in self._later)]
            taking = next((one for one in sets if one.takes(event, kind)), None)
            naming = next((one for one in sets if one.knows(kind)), None)
            if naming is None:
                self._find("unknown-event", f"No schema names the event {show(kind)}", "$.type")
                return
            if taking is None:
                # For the same reason the set that finds less is believed, of that of the date and the newest.
                found = [list(one.faults(event, kind)) for one in {naming: 0, sets[-1]: 0} if one.knows(kind)]
                for rule, path, message in min(found, key=len):
                    self._find(rule, message, path)
            shapes = taking or naming
        for path, key in shapes.unknown(event, kind, exact=self._exact):
            place = ("unknown-field", re.sub(r"\d+", "", path))
            if self._strict or place not in self._said:  # servers that send one send it in every event
                self._said.add(place)
                self._find("unknown-field", f"The schema names no {show(key)}", path)

    def _move(self, event: dict[str, Any], kind: str) -> None:
        machine = self._machine
        if machine is None:
            machine = self._begin(event, kind)
        before = machine.state
        violation = machine.feed(event)
        if violation is not None:
            slug = violation.rule
            if slug == "after-terminal" and kind in _TERMINALS:
                slug = "second-terminal"
            said = violation.expected if violation.path is None else f"expected {violation.expected}"
            self._find(
                slug, f"state {violation.state}; expected {said.removeprefix('expected ')}", violation.path or "$"
            )
        if self._rules is not None:
            self._dialect_rules(self._rules, event)
        if before in TERMINAL and violation is not None:
            self._checks.number(event)
            return
        self._checks.event(event, kind)

    def _dialect_rules(self, rules: OpenResponses, event: dict[str, Any]) -> None:
        for one in rules.violations(event):
            place = (one.rule, one.got or "")
            if one.rule not in _ONCE_EACH or place not in self._said:
                self._said.add(place)
                got = f", got {one.got}" if one.got else ""
                self._find(one.rule, f"{one.state}; expected {one.expected}{got}", one.path or "$")
        rules.feed(event)

    def _begin(self, event: dict[str, Any], kind: str) -> Lifecycle:
        number = event.get("sequence_number")
        later = kind != "response.created" and (self._fragment or (type(number) is int and number > 0))
        self._machine = Lifecycle(continued=later, table=READING)
        self._checks.begin(continued=later, number=number)
        return self._machine

    def _end(self) -> None:
        self._frame, self._at, self._kind = self._frames, self._offset, None
        if not self._events:
            if not self._fragment:
                self._find("empty-stream", "The stream has no events")
            return
        machine = self._machine
        if self._fragment:
            return
        if machine is None or not machine.ended:
            state = "idle" if machine is None else machine.state
            self._find("unterminated", f"The stream ends in the state {state}, without a terminal event")
            if state == "error" or (machine is None and self._bare_error):
                self._find("error-alone", "An error event is the last word")
        self._checks.end()

    # ---- findings

    def _find(self, name: str, message: str, path: str = "$") -> None:
        rule = LIFECYCLE.get(name) or BY_NAME[name]
        if name in _ONCE:
            if (name, "") in self._said:
                return
            self._said.add((name, ""))
        if not self._wanted(rule):
            return
        severity = self._severity(rule, self._dialect or "openai")
        if severity is None:
            other = None if self._dialect is not None else self._severity(rule, "open-responses")
            if other is not None and len(self._held) < _MOST:
                self._held.append(self._made(rule, other, message, path))
            return
        if len(self._findings) >= _MOST:
            self._more += 1
            return
        finding = self._made(rule, severity, message, path)
        self._findings.append(finding)
        self._new.append(finding)

    def _made(self, rule: Rule, severity: Severity, message: str, path: str) -> Finding:
        return Finding(
            rule=rule.id,
            name=rule.name,
            severity=severity,
            frame=self._frame,
            offset=self._at,
            path=path,
            message=message,
            breaks=rule.breaks,
            fix=rule.fix,
            event=self._kind,
        )

    def _severity(self, rule: Rule, dialect: str) -> Severity | None:
        severity: Severity | Literal["off"] = rule.severity
        if dialect == "open-responses" and rule.open_responses is not None:
            severity = rule.open_responses
        if severity == "off":
            return None
        if self._strict and rule.strict is not None:
            severity = rule.strict
        if self._client is not None and self._client in rule.clients:
            severity = "error"
        return severity

    def _graded(self, finding: Finding, dialect: str) -> Finding | None:
        severity = self._severity(RULES[finding.rule], dialect)
        return None if severity is None else msgspec.structs.replace(finding, severity=severity)

    def _wanted(self, rule: Rule) -> bool:
        if self._select and not any(rule.id.startswith(one) for one in self._select):
            return False
        return not any(rule.id.startswith(one) for one in self._ignore)


_NOTHING: Final = object()
_PLACES: Final = ("output_index", "item_id", "content_index", "summary_index")
_TERMINALS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})


def _among(name: str, value: object, known: tuple[object, ...]) -> None:
    if value not in known:
        said = ", ".join(str(one) for one in known if one is not None)
        raise ValueError(f"{name}: expected one of {said}, got {show(value)}")


def _rules(name: str, given: Iterable[str]) -> tuple[str, ...]:
    found: list[str] = []
    for one in [given] if isinstance(given, str) else given:
        known = BY_NAME[one].id if one in BY_NAME else one.strip().upper()
        if not any(rule.startswith(known) for rule in RULES) or not known.startswith("RE"):
            raise ValueError(f"{name}: no rule {show(one)}; `respevents explain` lists them")
        found.append(known)
    return tuple(found)


def _without_surrogates(value: Any) -> tuple[Any, bool]:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        text = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()
        return json.loads(text), True
    return value, False


# ---- whole captures -----------------------------------------------------------------------------------------------


def validate_stream(
    source: bytes | bytearray | str | os.PathLike[str] | Iterable[bytes] | Capture, **options: Any
) -> Report:
    """Validate one stream: bytes, a path (any capture format), an iterable of chunks, or a `Capture`.

    `options` are those of `StreamValidator`. A file with several streams is refused with ValueError: use
    `validate_file`. Raises CaptureError for a file that cannot be read.
    """
    if isinstance(source, (str, Path)) or hasattr(source, "__fspath__"):
        reports = list(validate_file(source, **options))  # type: ignore[arg-type]
        if len(reports) != 1:
            raise ValueError(f"{source!r} holds {len(reports)} streams: use validate_file")
        return reports[0]
    if hasattr(source, "chunks") and hasattr(source, "framing"):
        return _capture(cast("Capture", source), options)
    validator = StreamValidator(**options)
    for chunk in _chunks(cast("bytes | Iterable[bytes]", source)):
        validator.feed(chunk)
    return validator.close()


def _chunks(source: bytes | Iterable[bytes]) -> Iterator[bytes]:
    if isinstance(source, (bytes, bytearray, memoryview)):
        whole = bytes(source)
        for at in range(0, len(whole), _CHUNK):
            yield whole[at : at + _CHUNK]
    else:
        yield from source


def validate_file(path: str | os.PathLike[str], **options: Any) -> Iterator[Report]:
    """A report for each stream of a capture file, in any format that `read_captures` knows."""
    from respevents.captures import read_captures

    for capture in read_captures(path):
        yield _capture(capture, options)


def _capture(capture: Capture, options: Mapping[str, Any]) -> Report:
    given: dict[str, Any] = {"framing": capture.framing, "name": capture.name, **options}
    validator = StreamValidator(**given)
    for chunk in capture.chunks():
        validator.feed(chunk)
    return validator.close()
