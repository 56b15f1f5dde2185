"""One probe's bench: it asks, keeps the answers, and judges what every answer has in common."""

from __future__ import annotations

import itertools
import json
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from respevents._errors import RemoteProtocolError, show
from respevents.classifier import classify
from respevents.failures import Cause
from respevents.findings import BY_NAME
from respevents.readers import read
from respevents.validate import Finding, StreamValidator
from respevents.wire import FrameDecoder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from respevents._conformance_link import Answer, Link
    from respevents.failures import Failure
    from respevents.findings import Severity
    from respevents.readers import End as ReaderEnd

__all__ = ["Bench", "Found", "Options", "Skipped", "Told", "codex_on", "field", "objects", "tell"]

_OF_THE_REQUEST: Final = frozenset({Cause.INVALID_REQUEST, Cause.INVALID_PROMPT, Cause.GRAMMAR_ERROR})
_CANNOT: Final = re.compile(
    r"(?i)\bnot (?:\w+ ){0,2}(?:supported|implemented|available|enabled|allowed|permitted)\b|\bunsupported\b"
    r"|\b(?:does not|doesn't|do not|don't|cannot|no) support|\bunknown (?:parameter|field|argument)|\bunrecognized\b"
    r"|\brequires? --enable"
)
"""How servers say of a part of the API that they have none of it, beside status 501."""

_ENDINGS: Final = ("response.completed", "response.incomplete", "response.failed")


class Skipped(Exception):  # noqa: N818 - it is no error
    """The server says that it cannot do what the probe is about."""


class Options(NamedTuple):
    """What one check is made with."""

    link: Link
    model: str
    client: str | None = None
    """One of `findings.CLIENTS`: what breaks it is an error."""
    prompt_tokens: int | None = None
    captures: Path | None = None


class Found(NamedTuple):
    """A finding, and the file or the number of the answer that it is about (None: of the probe as a whole)."""

    finding: Finding
    answer: str | None

    @property
    def of_server(self) -> bool:
        """It is about no place in a stream."""
        return BY_NAME[self.finding.name].layer == "server"


class Told(NamedTuple):
    """What a streamed answer told, read as far as it can be read."""

    events: tuple[dict[str, Any], ...]

    @property
    def last(self) -> str | None:
        """The type of the terminal event; None without one."""
        return next((one["type"] for one in reversed(self.events) if one["type"] in _ENDINGS), None)

    @property
    def response(self) -> dict[str, Any]:
        """The terminal snapshot, or the newest there is."""
        found = [one["response"] for one in self.events if isinstance(one.get("response"), dict)]
        return found[-1] if found else {}

    @property
    def items(self) -> list[dict[str, Any]]:
        """The items that were done, or those of the snapshot."""
        done = [one.get("item") for one in self.events if one["type"] == "response.output_item.done"]
        return objects(done) or objects(self.response.get("output"))

    @property
    def text(self) -> str:
        """The text of its messages."""
        parts = [
            part.get("text")
            for item in self.items
            if item.get("type") == "message"
            for part in objects(item.get("content"))
            if part.get("type") == "output_text"
        ]
        return "".join(part for part in parts if isinstance(part, str))

    @property
    def failure(self) -> Failure | None:
        """What a failed stream failed of."""
        for one in reversed(self.events):
            if one["type"] in {"response.failed", "error"}:
                return classify(one)
        return None

    @property
    def code(self) -> Any:
        """`error.code` of the failed response, else of the `error` event."""
        if self.last == "response.failed":
            return field(self.response, "error", "code")
        for one in self.events:
            if one["type"] == "error":
                return field(one, "error", "code") if "error" in one else one.get("code")
        return None


def field(value: Any, *keys: str) -> Any:
    """The value below these keys; None where a server sends anything else there."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def objects(value: Any) -> list[dict[str, Any]]:
    """The objects of what should be a list of them."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def tell(body: bytes) -> Told:
    """The events of a body that are objects with a type."""
    return Told(tuple(_events(body)))


def _events(body: bytes) -> Iterator[dict[str, Any]]:
    decoder = FrameDecoder()
    try:
        frames = [*decoder.feed(body), *decoder.close()]
    except RemoteProtocolError as error:
        frames = list(error.frames)
    for frame in frames:
        try:
            event = json.loads(frame.data)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("type"), str):
            yield event


class Bench:
    """What a probe works with. `shared` outlives the probe: what one found out, the next one may use."""

    def __init__(self, name: str, options: Options, shared: dict[str, Any]) -> None:
        self.name = name
        self.options = options
        self.shared = shared
        self.found: list[Found] = []
        self.saved: list[str] = []
        self.notes: list[str] = []
        self._numbers = itertools.count(1)
        self._names: list[tuple[Answer, str]] = []

    # ---- asking

    def ask(
        self, prompt: Any, *, stream: bool = True, leave: Callable[[bytes], bool] | None = None, **fields: Any
    ) -> Answer:
        """One request for a response; `fields` are the rest of its body."""
        body = {"model": self.options.model, "input": prompt, "stream": stream, **fields}
        return self.options.link.ask(body, leave=leave)

    def keep(self, answer: Answer) -> Answer:
        """Give the answer a name, and save it as `curl -i` prints it: `.sse` is a stream, `.part` one that we left."""
        number = next(self._numbers)
        stem = self.name if number == 1 else f"{self.name}-{number}"
        kind = "http" if not answer.streams else "part" if answer.end == "left" else "sse"
        self._names.append((answer, f"{stem}.{kind}"))
        folder = self.options.captures
        if folder is not None and answer.status:
            (folder / f"{stem}.{kind}").write_bytes(answer.dump())
            self.saved.append(f"{stem}.{kind}")
        return answer

    # ---- findings

    def find(self, name: str, message: str, answer: Answer | None = None) -> None:
        """Add a finding of the server's own rules."""
        rule = BY_NAME[name]
        assert rule.severity != "off", "that is for rules of a dialect"
        severity: Severity = "error" if self.options.client in rule.clients else rule.severity
        finding = Finding(
            rule=rule.id,
            name=rule.name,
            severity=severity,
            frame=0,
            offset=0,
            path="$",
            message=message,
            breaks=rule.breaks,
            fix=rule.fix,
        )
        self.found.append(Found(finding, self._called(answer)))

    def _called(self, answer: Answer | None) -> str | None:
        return next((name for kept, name in self._names if kept is answer), None)

    def _validated(self, answer: Answer, body: bytes, *, fragment: bool = False, **more: Any) -> None:
        validator = StreamValidator(client=self.options.client, fragment=fragment, **more)
        validator.feed(body)
        self.found += [Found(finding, self._called(answer)) for finding in validator.close().findings]

    # ---- what every answer has in common

    def plain(self, answer: Answer, *, feature: bool = False) -> bool:
        """A request that a server of the API takes: HTTP 200? With `feature` it may say that it has no such thing."""
        if not self.came(answer):
            return False
        if 200 <= answer.status < 300:
            self.shared["proved"] = True
            return True
        failure = answer.failure()
        if not self.shared.get("proved"):
            self._unusable(answer, failure)
        if feature and (answer.status < 500 or answer.status == 501):
            self._may_skip(failure, said=answer.status == 501)
        self.find("answer-refused", f"HTTP {answer.status}, {failure.cause}: {_said(failure)}", answer)
        self.envelope(answer)
        return False

    def came(self, answer: Answer) -> bool:
        """There is an answer, and from here."""
        if not answer.status:
            self.find("answer-missing", answer.why, answer)
            return False
        if 300 <= answer.status < 400:
            where = show(answer.header("location"))
            if not self.shared.get("proved"):
                raise RemoteProtocolError(
                    f"{self.options.link.address} redirects (HTTP {answer.status}), which is not followed",
                    got=where,
                    fix="Name that address, if it is the server.",
                )
            self.find("redirected", f"HTTP {answer.status} to {where}", answer)
            return False
        return True

    def _unusable(self, answer: Answer, failure: Failure) -> None:
        """Nothing can be checked with this URL, key or model."""
        said = f"HTTP {answer.status}: {_said(failure)}"
        if answer.status in {401, 403}:
            raise RemoteProtocolError(
                "The server does not let this check in", got=said, fix="Name the key's variable: --key-env VAR."
            )
        if failure.cause is Cause.MODEL_NOT_FOUND:
            listed = ", ".join(map(show, (self.shared.get("models") or ())[:20])) or "none"
            raise RemoteProtocolError(
                f"The server has no model {show(self.options.model)}", got=said, fix=f"It lists: {listed}."
            )
        if answer.status in {404, 405}:
            raise RemoteProtocolError(f"There is no {self.options.link.address}", got=said)

    def _may_skip(self, failure: Failure, *, said: bool = False) -> None:
        if said or (failure.cause in _OF_THE_REQUEST and _CANNOT.search(failure.message)):
            raise Skipped(f"the server says: {_said(failure)}")

    def stream(self, answer: Answer, *, feature: bool = False) -> Told | None:
        """A plain request with `stream: true`: the stream, every fault of it found; None where there is none."""
        if not self.plain(answer, feature=feature):
            return None
        told = self.events(answer)
        if told is not None and (failure := told.failure) is not None:
            if feature:
                self._may_skip(failure)
            self.find("request-failed", f"{show(told.code)}: {_said(failure)}", answer)
            return None
        return told

    def events(self, answer: Answer) -> Told | None:
        """A body that should be a stream: its faults, and what it tells."""
        if answer.kind != "text/event-stream":
            self.find("not-streamed", f"The content type is {show(answer.kind)}", answer)
            if not answer.streams:
                self.ended(answer)
                return None
        self.ended(answer)
        self._validated(answer, answer.body, fragment=answer.end == "left")
        return tell(answer.body)

    def ended(self, answer: Answer) -> bool:
        """The body came whole (or as far as we wanted it)."""
        if answer.end in {"whole", "left"}:
            return True
        self.find("answer-unfinished", answer.why, answer)
        return False

    def whole(self, answer: Answer, *, feature: bool = False) -> dict[str, Any] | None:
        """A plain request without `stream`: the response object, every fault of it found."""
        if not self.plain(answer, feature=feature) or not self.ended(answer):
            return None
        response = answer.json()
        if not isinstance(response, dict):
            head = answer.body[:60].decode("utf-8", "replace")
            self.find("not-a-response", f"The body ({answer.kind or 'no content type'}) is {show(head)}", answer)
            return None
        status = response.get("status")
        kind = f"response.{status}" if f"response.{status}" in _ENDINGS else _ENDINGS[0]
        # As the terminal event of a stream: the same rules hold for the snapshot in it.
        event = b'{"type":"%s","sequence_number":1,"response":%s}\n' % (
            kind.encode(),
            re.sub(rb"[\r\n]", b" ", answer.body),
        )
        self._validated(answer, event, fragment=True, framing="json-lines")
        if status == "failed":
            failure = classify({"type": "response.failed", "response": response})
            if feature:
                self._may_skip(failure)
            self.find("request-failed", f"{failure.cause}: {_said(failure)}", answer)
            return None
        return response

    def envelope(self, answer: Answer) -> Any:
        """`error.code` of an HTTP error; a finding where its form is not OpenAI's."""
        body = answer.json()
        error = field(body, "error")
        if not isinstance(error, dict):
            self.find("error-envelope", f"HTTP {answer.status}: the body has no object `error`", answer)
            return field(body, "code")
        code, message = error.get("code"), error.get("message")
        if not isinstance(message, str) or not message:
            self.find("error-envelope", f"HTTP {answer.status}: error.message is {show(message)}", answer)
        elif code is not None and not isinstance(code, str):
            self.find("error-envelope", f"HTTP {answer.status}: error.code is {show(code)}", answer)
        return code


def _said(failure: Failure) -> str:
    return show(" ".join(failure.message.split())[:110])


_BODY_ENDS: Final[Mapping[str, ReaderEnd]] = {"cut": "aborted", "late": "open"}


def codex_on(answer: Answer) -> tuple[str, bool]:
    """What the newest Codex does with a streamed request's answer, and whether it asks again (`respevents.readers`)."""
    end: ReaderEnd = _BODY_ENDS.get(answer.end, "clean")
    outcome = read(answer.body, "codex", status=answer.status, headers=dict(answer.headers), end=end)
    said = {
        "context_window_full": "takes the window for full",
        "retry": f"sends the request {outcome.requests} times",
        "stop": "shows the error, stops and does not compact",
    }
    return f"Codex {outcome.version} {said.get(outcome.kind, outcome.kind)}", outcome.kind == "retry"
