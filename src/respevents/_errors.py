"""The errors of the package: frozen values that say what failed, where, what was expected and how to mend it.

Two questions decide the class. Who broke the protocol: this process (`LocalProtocolError`) or the peer whose
bytes are read (`RemoteProtocolError`)? And is it the protocol at all, or a value JSON cannot carry (`EncodeError`)?
"""

from __future__ import annotations

import functools
import re
import reprlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["EncodeError", "LocalProtocolError", "ProtocolError", "RemoteProtocolError", "json_path", "show"]

_MAX_SHOWN = 120
"""Characters of a value or a path that a message repeats: enough to recognise it, not to flood a log."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = 60
_repr.maxdict = _repr.maxlist = _repr.maxtuple = _repr.maxset = 4
_repr.maxlevel = 3


def _clip(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 20]}... ({len(text)} characters)"


def show(value: object) -> str:
    """Give a short `repr` for a message: bounded in length and depth, and it never raises."""
    try:
        if isinstance(value, (str, bytes, bytearray)) and len(value) > _MAX_SHOWN:
            text = f"{value[:40]!r}... ({len(value)} {'characters' if isinstance(value, str) else 'bytes'})"
        else:
            text = _repr.repr(value)
    except Exception:  # noqa: BLE001 - a foreign __repr__ may raise anything, and must not hide the first error
        text = f"<{type(value).__name__}>"
    return _clip(text)


def json_path(parts: Iterable[str | int]) -> str:
    """Write keys and indexes as a JSON path: `("response", "output", 0)` is `$.response.output[0]`."""
    out = ["$"]
    for part in parts:
        if not isinstance(part, str):
            out.append(f"[{part}]")
        elif _PLAIN_KEY.match(part):
            out.append(f".{part}")
        else:
            out.append(f"[{show(part)}]")
    if len(out) > 24:  # a path that deep is read at its two ends
        out[12:-11] = ["..."]
    return "".join(out)


class _Explained(Exception):  # noqa: N818 - a private base, never raised
    """Fields and message shared by all errors here. Frozen: only what Python itself keeps on exceptions can be set."""

    what: str
    path: str | None
    expected: str | None
    got: str | None
    fix: str | None

    _fields: tuple[str, ...] = ("what", "path", "expected", "got", "fix")

    def _freeze(self, **fields: Any) -> None:
        for name, value in fields.items():
            self.__dict__[name] = value
        Exception.__init__(self, self._message())

    def _message(self) -> str:
        text = self.what
        if self.path is not None:
            text += f" at {self.path}"
        text += self._where()
        clauses = []
        if self.expected is not None:
            clauses.append(f"expected {self.expected}")
        if self.got is not None:
            clauses.append(f"got {self.got}")
        if clauses:
            text += f": {', '.join(clauses)}"
        if self.fix is not None:
            text += f". {self.fix}"
        # A message is printed and logged: a lone surrogate in it would raise there.
        return text.encode("utf-8", "backslashreplace").decode()

    def _where(self) -> str:
        return ""

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__"):
            msg = f"{type(self).__name__} is frozen: {name!r} cannot be set"
            raise AttributeError(msg)
        super().__setattr__(name, value)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._fields)

    def __hash__(self) -> int:
        return hash((type(self), self.what, self.path))

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {name: getattr(self, name) for name in self._fields}
        return functools.partial(type(self), **fields), ()


class ProtocolError(_Explained):
    """Somebody broke the protocol. Abstract: raised as one of its two leaves.

    `what` is the sentence of the error, `path` a JSON path (`$.response.id`), `expected`, `got` and `fix` are words
    (`got=show(value)` for a value). Long words are shortened.
    """

    def __init__(self, *args: object, **fields: Any) -> None:
        del args, fields
        msg = "ProtocolError is abstract: raise LocalProtocolError or RemoteProtocolError"
        raise TypeError(msg)


class LocalProtocolError(ProtocolError):
    """This process tried an illegal step.

    `event` is the wire type (or the name of the step) that was tried, `state` the state it was tried in.
    """

    event: str | None
    state: str | None

    _fields = ("what", "path", "expected", "got", "fix", "event", "state")

    def __init__(
        self,
        what: str,
        *,
        path: str | None = None,
        expected: str | None = None,
        got: str | None = None,
        fix: str | None = None,
        event: str | None = None,
        state: str | None = None,
    ) -> None:
        self._freeze(
            what=what,
            path=path,
            expected=expected,
            got=None if got is None else _clip(got),
            fix=fix,
            event=event,
            state=state,
        )

    def _where(self) -> str:
        words = [
            f"{label} {value}" for label, value in (("event", self.event), ("state", self.state)) if value is not None
        ]
        return f" ({', '.join(words)})" if words else ""


class RemoteProtocolError(ProtocolError):
    """The bytes of the peer break the protocol.

    `offset` is the byte offset of the fault in what was being read (a stream for the frame decoder, one document for
    `decode_json`). `frames` are the frames that the failing `feed` completed before the fault: they are good.
    """

    offset: int | None
    frames: tuple[Any, ...]

    _fields: tuple[str, ...] = ("what", "path", "expected", "got", "fix", "offset", "frames")

    def __init__(
        self,
        what: str,
        *,
        path: str | None = None,
        expected: str | None = None,
        got: str | None = None,
        fix: str | None = None,
        offset: int | None = None,
        frames: Iterable[Any] = (),
    ) -> None:
        self._freeze(
            what=what,
            path=path,
            expected=expected,
            got=None if got is None else _clip(got),
            fix=fix,
            offset=offset,
            frames=tuple(frames),
        )

    def _where(self) -> str:
        return "" if self.offset is None else f" (byte {self.offset})"


class EncodeError(_Explained, ValueError):
    """A value cannot be written as JSON, or not as an event. `path` says which."""

    def __init__(
        self,
        what: str,
        *,
        path: str | None = None,
        expected: str | None = None,
        got: str | None = None,
        fix: str | None = None,
    ) -> None:
        self._freeze(what=what, path=path, expected=expected, got=None if got is None else _clip(got), fix=fix)
