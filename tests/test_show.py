"""`respevents show`: the rows of a timeline, its lines in a terminal, and the page."""

from __future__ import annotations

import json
import re
import sys
from html.parser import HTMLParser
from types import ModuleType, SimpleNamespace

import pytest

import recordings
from conftest import ROOT, shared_path
from respevents import Cause, Failure, FrameDecoder, ResponseStream, read_captures
from respevents import _page as page
from respevents._timeline import End, Row, timeline
from respevents.captures import Capture
from respevents.cli import main
from respevents.show import COLOURED, Terminal

BODY = recordings.stream("Hel|lo|, you")


def broken():
    stream = ResponseStream(model="m", id="resp_1", created_at=1767225600)
    body = stream.start() + stream.message().text("Hel")
    return body + stream.fail(Failure(cause=Cause.CONTEXT_LENGTH_EXCEEDED, message="9000 tokens"))


def rows(data, **options):
    one = next(read_captures(data, split=False))
    *found, end = timeline(one, **options)
    assert isinstance(end, End)
    assert all(isinstance(row, Row) for row in found)
    return found, end


class Finder:
    """Stands in for `StreamValidator`: finds something in every frame that holds a word, and something at the end."""

    def __init__(self, word, severity="error"):
        self.decoder = FrameDecoder()
        self.word, self.severity = word, severity
        self.frames = 0
        self.findings = []

    def feed(self, data):
        found = []
        for frame in self.decoder.feed(data):
            if self.word in frame.data:
                found.append(self.finding(self.frames))
            self.frames += 1
        self.findings += found
        return found

    def finding(self, frame):
        return SimpleNamespace(
            rule="RE101",
            name="a-name",
            severity=self.severity,
            frame=frame,
            offset=0,
            path="$.delta",
            message="it is wrong",
            breaks="a client",
            fix="make it right",
            event=None,
        )

    def close(self):
        last = self.finding(self.frames)
        return SimpleNamespace(ok=not self.findings, findings=(*self.findings, last))


def test_runs_of_deltas_are_folded_into_one_row():
    found, end = rows(BODY)
    run = next(row for row in found if row.kind == "response.output_text.delta")
    assert (run.first, run.last, run.count, run.text, run.number, run.lane) == (4, 6, 3, "Hello, you", 4, 0)
    assert [row.kind for row in found][:5] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
    ]
    assert (end.frames, end.size, end.terminal, end.ok) == (
        len(recordings.events(BODY)),
        len(BODY),
        "response.completed",
        None,
    )


def test_every_frame_is_in_exactly_one_row():
    found, end = rows(b": ping\n\n" + BODY + b"data: [DONE]\n\n", keep=True)
    assert [number for row in found for number in range(row.first, row.last + 1)] == list(range(end.frames))
    assert b"".join(frame.raw for row in found for frame in row.frames) == b": ping\n\n" + BODY + b"data: [DONE]\n\n"
    assert all(len(row.frames) == row.count for row in found)


def test_a_delta_with_a_finding_stands_alone_beside_it():
    found, end = rows(BODY, validator=Finder(b'"delta":"lo"'))
    deltas = [row for row in found if row.kind == "response.output_text.delta"]
    assert [(row.first, row.last, len(row.findings)) for row in deltas] == [(4, 4, 0), (5, 5, 1), (6, 6, 0)]
    assert end.ok is False
    assert [one.frame for one in end.findings] == [end.frames]


def test_failures_are_marked():
    found, end = rows(broken())
    assert [row.kind for row in found if row.bad] == ["error", "response.failed"]
    assert end.terminal == "response.failed"
    assert "context_length_exceeded: 9000 tokens" in found[-1].text


def test_what_is_no_event_is_shown_all_the_same():
    found, _ = rows(
        b': ping\n\ndata: {"type":\n\ndata: 3\n\ndata: {"type":"response.created","a":1,"a":2}\n\ndata: [DONE]\n\n'
    )
    assert [(row.kind, row.bad) for row in found] == [
        ("comment", False),
        ("unreadable", True),
        ("no event", True),
        ("response.created", True),
        ("[DONE]", False),
    ]


def test_a_capture_that_breaks_off_is_shown_to_there():
    import gzip

    one = next(read_captures([gzip.compress(BODY * 100)[:-50]], split=False))
    *found, end = timeline(one)
    assert found
    assert "cut off" in end.error


def lines(data, *, validator=None, **options):
    one = next(read_captures(data, name="a.sse", split=False))
    view = Terminal(**options)
    return [view.title(one), *(line for row in timeline(one, validator=validator) for line in view.lines(row))]


def test_the_terminal_draws_a_lane_for_each_item():
    stream = ResponseStream(model="m", id="resp_1", created_at=1767225600)
    body = stream.start()
    message, call = stream.message(), stream.function_call(name="f")
    body += message.text("a") + message.done()
    body += call.arguments("{") + call.arguments("}") + stream.complete()
    told = lines(body, width=100)
    assert told[0] == "a.sse (sse)"
    drawn = {line.split()[2]: line for line in told[1:-1]}
    assert "┌" in drawn["┌"]
    assert [line.split()[2] for line in told[1:-1]] == ["●", "●", "┌", "├", "├", "├", "├", "└", "┌", "├", "├", "└", "●"]
    assert told[-1].startswith("ok 14 frames, ")
    assert "function_call_arguments.delta ×2" in told[10]


def test_lanes_of_items_that_are_open_together_stand_side_by_side():
    def event(kind, index):
        return {
            "type": f"response.output_item.{kind}",
            "output_index": index,
            "item": {"type": "message", "id": str(index)},
        }

    order = [("added", 0), ("added", 1), ("done", 0), ("added", 2), ("done", 1), ("done", 2)]
    body = b"".join(b"data: " + json.dumps(event(*one)).encode() + b"\n\n" for one in order)
    drawn = [line[18:22].rstrip() for line in lines(body, width=100)[1:-1]]
    assert drawn == ["┌", "│┌", "└│", "┌│", "│└", "└"]
    assert [line[18:22].rstrip() for line in lines(body, width=100, plain=True)[1:-1]] == [
        ",",
        "|,",
        "`|",
        ",|",
        "|`",
        "`",
    ]


def test_more_items_than_columns_are_told_by_number():
    body = b"".join(
        b'data: {"type":"response.output_item.added","output_index":%d,"item":{"type":"message"}}\n\n' % index
        for index in range(20)
    )
    told = lines(body, width=160)
    assert "15" in told[16]
    assert max(len(line) for line in told) < 160


def test_findings_stand_under_their_frame_and_failures_are_red():
    told = lines(broken(), validator=Finder(b'"type":"error"'), style=COLOURED)
    at = next(index for index, line in enumerate(told) if "context_length_exceeded" in line)
    assert COLOURED.bad in told[at]
    assert "^ RE101 error: it is wrong at $.delta" in told[at + 1]
    assert "make it right" in told[at + 2]
    assert any("RE101 error (end of stream)" in line for line in told)
    assert "FAILED" in told[-1]
    assert "not valid" in told[-1]
    warned = lines(BODY, validator=Finder(b'"delta":"lo"', "warning"), style=COLOURED)
    assert any(COLOURED.warn in line and "output_text.delta" in line for line in warned)


def test_a_stream_that_was_cut_off_says_so():
    assert lines(BODY[: BODY.rindex(b"event:")])[-1].startswith("CUT OFF")


def test_nothing_captured_reaches_the_terminal_as_an_escape_sequence():
    evil = recordings.stream.__wrapped__("\x1b[2J\x07\u202eabc\x9b31m")
    told = "\n".join(lines(evil + b": \x1b]0;title\x07\n\n"))
    assert not set(told) & {"\x1b", "\x07", "\u202e", "\x9b"}
    assert "\\u202eabc" in told


def test_every_file_of_the_corpus_can_be_shown():
    root = shared_path("corpus")
    for line in (root / "index.jsonl").read_text().splitlines()[::8]:
        path = root / json.loads(line)["file"]
        for one in read_captures(path):
            view = Terminal(width=100)
            told = [text for row in timeline(one) for text in view.lines(row)]
            assert told[-1].startswith(("ok ", "FAILED ", "CUT OFF ")), path


# ---- the page ---------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """The elements of a page and the text of its data."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.data, self.inside = [], [], "", None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = dict(attrs).get("id") if tag == "script" else None
        self.links += [value for name, value in attrs if name in {"src", "href", "action", "srcset"}]

    def handle_data(self, data):
        if self.inside == "data":
            self.data += data


def written(data, validator=None, **options):
    out, failed = page.write(read_captures(data, name="a.sse"), validate=lambda _: validator, **options)
    return Page(out.decode()), out.decode(), failed


def test_the_page_holds_every_event_and_loads_nothing():
    found, text, failed = written(BODY)
    assert not failed
    (stream,) = json.loads(found.data)["streams"]
    assert [frame["data"].encode() for row in stream["rows"] for frame in row["frames"]] == recordings.events(BODY)
    assert found.links == []
    assert not re.search(r"https?://|@import|url\(", text)
    assert "default-src 'none'" in text
    assert (stream["frames"], stream["size"], stream["terminal"]) == (
        len(recordings.events(BODY)),
        len(BODY),
        "response.completed",
    )


def test_findings_are_in_the_page_with_their_frames():
    found, _, _ = written(BODY, Finder(b'"delta":"lo"'))
    (stream,) = json.loads(found.data)["streams"]
    assert [(one["rule"], one["frame"]) for one in stream["findings"]] == [("RE101", 5), ("RE101", stream["frames"])]
    assert stream["findings"][0]["fix"] == "make it right"
    assert stream["ok"] is False


def test_markup_in_a_capture_stays_text():
    evil = "</script><script>alert(1)</script><!--<img src=x onerror=alert(1)>\u2028"
    body = recordings.stream.__wrapped__(evil)
    plain, _, _ = written(BODY)
    found, text, _ = written(body)
    assert found.tags == plain.tags
    assert "alert(1)</script" not in text
    (stream,) = json.loads(found.data)["streams"]
    assert any(evil.replace("\u2028", "\\u2028") in row["text"] or evil in row["text"] for row in stream["rows"])
    out, _ = page.write([Capture([b""], name="<b>&")], validate=lambda _: None)
    assert b"<title>&lt;b>&amp; - respevents</title>" in out


def test_bytes_that_are_no_text_are_in_the_page():
    found, _, _ = written(b'data: {"type":"response.created","x":"\xff\\ud800"}\n\n')
    (stream,) = json.loads(found.data)["streams"]
    assert "\\xff" in stream["rows"][0]["frames"][0]["data"]


def test_the_page_says_what_it_leaves_out(capsys):
    found, _, _ = written(BODY, limit=2000)
    (stream,) = json.loads(found.data)["streams"]
    kept = sum(len(row["frames"]) for row in stream["rows"])
    assert 0 < kept < stream["frames"]
    assert stream["leftOut"] == stream["frames"] - kept
    assert "the page leaves out the last" in capsys.readouterr().err


def test_several_streams_are_in_one_page():
    found, _, _ = written(BODY + recordings.stream("x", "resp_2"))
    assert len(json.loads(found.data)["streams"]) == 2
    assert json.loads(written(recordings.curl_i(BODY))[0].data)["streams"][0]["status"] == 200


# ---- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def capture(tmp_path):
    path = tmp_path / "a.sse"
    path.write_bytes(BODY)
    return path


@pytest.fixture
def fake_validator(monkeypatch):
    """The validator as `show` imports it."""
    module = ModuleType("respevents.validate")
    module.StreamValidator = lambda *, framing: Finder(b'"delta":"lo"')
    monkeypatch.setitem(sys.modules, "respevents.validate", module)


def test_the_command_draws_with_findings(capture, fake_validator, capsys):
    assert main(["show", str(capture)]) == 0
    told = capsys.readouterr().out
    assert told.count("^ RE101 error") == 2
    assert "\x1b" not in told
    assert main(["show", "--no-validate", str(capture)]) == 0
    assert "RE101" not in capsys.readouterr().out


def test_the_command_draws_without_a_validator(capture, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "respevents.validate", None)
    assert main(["show", "--ascii", "--width", "80", str(capture)]) == 0
    told = capsys.readouterr().out
    assert told.isascii()
    assert "output_text.delta x3" in told


def test_a_validator_whose_library_is_missing_is_named(capture, monkeypatch, tmp_path, capsys):
    from respevents import show
    from respevents._extras import MissingExtraError

    def missing(*_args, **_options):
        raise MissingExtraError("jsonschema_rs", "validate", "findings")

    monkeypatch.setattr(show, "load", missing)
    assert main(["show", str(capture)]) == 0
    assert "pip install 'respevents[validate]'" in capsys.readouterr().err


def test_the_command_writes_a_page(capture, fake_validator, tmp_path, capfdbinary):
    out = tmp_path / "page.html"
    assert main(["show", "--html", str(out), str(capture)]) == 0
    assert out.read_text().startswith("<!doctype html>")
    assert main(["show", "--html", "-", "--no-validate", str(capture)]) == 0
    assert capfdbinary.readouterr().out.startswith(b"<!doctype html>")


def test_what_cannot_be_read_is_2(tmp_path, capsys):
    import gzip

    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(BODY * 100)[:-50])
    assert main(["show", str(path)]) == 2
    assert "CUT OFF" in capsys.readouterr().out
    assert main(["show", "--html", str(tmp_path / "o.html"), str(path)]) == 2
    assert main(["show", str(tmp_path / "none")]) == 2


def test_the_page_is_part_of_the_package():
    assert (ROOT / "src" / "respevents" / "_page.html").is_file()
    text = (ROOT / "src" / "respevents" / "_page.html").read_text()
    assert "innerHTML" not in text
    assert "eval(" not in text
