"""What docs/ shows runs as it stands there, its links lead somewhere, and the generated pages hold what they are of."""

from __future__ import annotations

import importlib.util
import json
import re
import sys

import pytest

from conftest import ROOT
from respevents import FrameDecoder, decode_event, encode_frame, schemas
from respevents.events import UnknownEvent
from respevents.failures import CATALOGUE, FailureCode
from respevents.findings import RULES
from respevents.lifecycle import TABLE
from snippets import blocks, run_console, run_python

DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
WRITTEN = [page for page in PAGES if "/" not in page]
FENCES = {"python", "console", "text", "{toctree}"}


@pytest.fixture(scope="module")
def build_docs():
    pytest.importorskip("tomllib", reason="tools run on Python 3.11 and later")
    for extra in ("h11", "uvicorn", "jsonschema"):
        pytest.importorskip(extra)
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        spec = importlib.util.spec_from_file_location("build_docs", ROOT / "tools" / "build_docs.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(ROOT / "tools"))


def text_of(page):
    return (DOCS / page).read_text("utf-8")


def headings(text):
    """The anchors of a page, by GitHub's rule, as Sphinx is told to make them."""
    found = []
    bare = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#{1,4} (.*)$", bare, re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        found.append(slug if slug not in found else f"{slug}-{found.count(slug)}")
    return found


def links(text):
    bare = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"\]\(([^)\s]+)\)", bare)


@pytest.mark.parametrize("page", WRITTEN)
def test_every_snippet_of_a_page_runs_in_its_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "snippet"}
    for block in blocks(text_of(page)):
        assert block.language in FENCES, f"{page}:{block.line}: what runs a block of {block.language!r}?"
        if block.language == "python":
            if "openai" in block.text:
                pytest.importorskip("openai")
            run_python(block, names, page)
        elif block.language == "console":
            assert run_console(block, tmp_path) == [], f"{page}:{block.line}"


def test_a_snippet_that_is_wrong_is_seen(tmp_path):
    page = "```python\nassert 1 == 2\n```\n\n```console\n$ echo one; echo two\none\nthree\n```\n"
    python, console = blocks(page)
    with pytest.raises(AssertionError) as caught:
        run_python(python, {}, "page.md")
    assert caught.traceback[-1].lineno == 1
    assert "two" in run_console(console, tmp_path)[0]
    assert run_console(console._replace(text="$ echo one; echo two\n...\ntwo\n"), tmp_path) == []
    assert run_console(console._replace(text="$ exit 2\n"), tmp_path)


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_page_and_a_heading_there(page):
    for link in links(text_of(page)):
        if link.startswith(("https://", "http://")):
            continue
        name, _, anchor = link.partition("#")
        target = (DOCS / page).parent / name if name else DOCS / page
        assert target.is_file(), f"{page}: {link}"
        if anchor:
            assert anchor in headings(target.read_text("utf-8")), f"{page}: {link}"


@pytest.mark.parametrize("page", WRITTEN)
def test_a_written_page_is_short_and_stands_in_the_index(page):
    assert len(text_of(page).split("\n")) < 160 or page == "clients.md"
    listed = [
        line for block in blocks(text_of("index.md")) if block.language == "{toctree}" for line in block.text.split()
    ]
    assert page == "index.md" or page.removesuffix(".md") in listed


def test_generated_pages_stand_in_the_index():
    listed = [
        line for block in blocks(text_of("index.md")) if block.language == "{toctree}" for line in block.text.split()
    ]
    assert {page.removesuffix(".md") for page in PAGES if page.startswith("generated/")} <= set(listed)


def test_the_committed_pages_are_those_that_the_tool_makes(build_docs, capsys):
    assert build_docs.main(["--check"]) == 0, capsys.readouterr().err


def test_a_page_that_differs_is_missing_or_is_left_over_is_named(build_docs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(build_docs, "DOCS", tmp_path)
    made = {"clients.md": "C", "generated/a.md": "A", "generated/b.md": "B"}
    monkeypatch.setattr(build_docs, "pages", lambda: made)
    (tmp_path / "generated").mkdir()
    (tmp_path / "generated" / "a.md").write_text("other")
    (tmp_path / "generated" / "old.md").write_text("")
    (tmp_path / "written.md").write_text("W")
    assert build_docs.main(["--check"]) == 1
    assert re.findall(r"docs/(\S+):", capsys.readouterr().err) == [*made, "generated/old.md"]
    assert build_docs.main([]) == 0
    assert build_docs.main(["--check"]) == 0
    there = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.md")}
    assert there == {**made, "written.md": "W"}


def test_the_catalogue_has_every_event_of_every_set_with_a_frame_that_is_canonical():
    page = text_of("generated/events.md")
    sections = dict(re.findall(r"^### `([^`]+)`\n(.*?)(?=^##|\Z)", page, re.DOTALL | re.MULTILINE))
    assert set(sections) == {
        event["type"] for version in schemas.VERSIONS for event in schemas.manifest(version)["events"]
    }
    newest = {event["type"] for event in schemas.manifest()["events"]}
    for kind, section in sections.items():
        (block,) = blocks(section)
        raw = block.text.encode() + b"\n"
        (frame,) = FrameDecoder().feed(raw)
        assert encode_frame(decode_event(frame.data)) == raw
        if kind in newest:
            assert not isinstance(decode_event(frame.data), UnknownEvent)


def test_an_example_of_the_newest_set_is_what_its_strict_schema_takes():
    jsonschema = pytest.importorskip("jsonschema")
    page = text_of("generated/events.md")
    sections = dict(re.findall(r"^### `([^`]+)`\n(.*?)(?=^##|\Z)", page, re.DOTALL | re.MULTILINE))
    for event in schemas.manifest()["events"]:
        (block,) = blocks(sections[event["type"]])
        data = FrameDecoder().feed(block.text.encode() + b"\n")[0].data
        # The sets themselves are checked elsewhere: `validate` would do that again for each event.
        jsonschema.Draft202012Validator(schemas.definition(event["type"])).validate(json.loads(data))


def test_every_field_of_the_newest_set_stands_in_a_table():
    pages = text_of("generated/events.md") + text_of("generated/objects.md")
    for name, definition in schemas.load()["$defs"].items():
        assert f"Class `{name}`" in pages or f"## {name}\n" in pages
        for field in definition["properties"]:
            assert f"| `{field}` |" in pages


def test_every_code_cause_rule_and_row_of_the_lifecycle_has_its_place():
    failures, findings = text_of("generated/failures.md"), text_of("generated/findings.md")
    assert all(f"| `{code.value}` |" in failures for code in FailureCode)
    assert all(f"| `{cause}` |" in failures for cause in CATALOGUE)
    assert all(f"### {rule.id} {rule.name}\n" in findings for rule in RULES.values())
    drawn = "".join(path.read_text("utf-8") for path in (DOCS / "generated").glob("*.svg"))
    assert all(re.search(rf"[+=] {re.escape(kind)}<", drawn) for kind, row in TABLE.items() if row.type != "keepalive")


def test_every_state_of_the_table_is_drawn_or_the_tool_says_which_is_not(build_docs):
    drawing = sys.modules["docs_lifecycle"]
    with pytest.raises(SystemExit, match="no place in the drawing for failed"):
        drawing.response().draw("The response", {key: at for key, at in drawing._RESPONSE.items() if key != "failed"})


def test_the_site_loads_nothing_from_elsewhere():
    assert "http" not in (DOCS / "_static" / "respevents.css").read_text()
    assert not re.search(r"https?://(?!example)", (DOCS / "conf.py").read_text())
