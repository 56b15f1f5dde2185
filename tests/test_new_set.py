"""`tools/new_set.py`, on wheels made here: nothing is fetched."""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile

import pytest

from conftest import ROOT

if sys.version_info < (3, 11):
    pytest.skip("the generators read TOML with tomllib", allow_module_level=True)

sys.path.insert(0, str(ROOT / "tools"))
build_schemas = pytest.importorskip("build_schemas")
new_set = pytest.importorskip("new_set")

RESPONSES = "openai/types/responses"
FILES = {
    "response_stream_event.py": """
from typing import Union
from .response_created_event import ResponseCreatedEvent
from .response_text_delta_event import ResponseTextDeltaEvent
ResponseStreamEvent = Union[ResponseCreatedEvent, ResponseTextDeltaEvent]
""",
    "response_created_event.py": """
from .response import Response
__all__ = ["ResponseCreatedEvent"]
class ResponseCreatedEvent(BaseModel):
    response: Response
    sequence_number: int
    type: Literal["response.created"]
""",
    "response.py": """
from typing import List, Optional, Union
__all__ = ["Response"]
class Response(BaseModel):
    id: str
    created_at: float
    output: List[object]
    instructions: Union[str, List[object], None] = None
    service_tier: Optional[Literal["auto", "flex"]] = None
""",
    "response_text_delta_event.py": """
__all__ = ["ResponseTextDeltaEvent"]
class ResponseTextDeltaEvent(BaseModel):
    delta: str
    sequence_number: int
    type: Literal["response.output_text.delta"]
""",
}
OVERLAY = """
[set]
id = "openai-2026-11"
origin = "openai"
date = "2026-11"
dialect = "openai"
[source]
package = "openai"
version = "1.0.0"
sha256 = "{sha256}"
license = "Apache-2.0"
[[edit]]
op = "replace"
path = "Response.created_at"
old = {{ type = "number" }}
new = {{ type = "integer" }}
evidence = "all captured snapshots"
[[edit]]
op = "add"
paths = ["ResponseTextDeltaEvent.obfuscation", "Response.store"]
new = {{ type = "string" }}
evidence = "all captured deltas"
[[edit]]
op = "require"
profiles = ["strict"]
path = "Response"
keys = ["service_tier"]
evidence = "all captured snapshots"
[[edit]]
op = "open-enums"
profiles = ["wire"]
keep = ["type"]
evidence = "values were added"
"""


def wheel(folder, version, **changed):
    """A wheel with the modules above, and the ones given in their place."""
    file = folder / f"openai-{version}-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in {**FILES, **{f"{key}.py": value for key, value in changed.items()}}.items():
            archive.writestr(f"{RESPONSES}/{name}", text)
    return file


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    """tools/overlays and schemas with one set, openai-2026-11, in a folder of its own."""
    for name, place in (("ROOT", ""), ("OVERLAYS", "tools/overlays"), ("SCHEMAS", "schemas")):
        for module in (build_schemas, new_set):
            monkeypatch.setattr(module, name, tmp_path / place, raising=module is build_schemas)
    (tmp_path / "tools" / "overlays").mkdir(parents=True)
    first = wheel(tmp_path, "1.0.0")
    digest = hashlib.sha256(first.read_bytes()).hexdigest()
    (tmp_path / "tools" / "overlays" / "openai-2026-11.toml").write_text(OVERLAY.format(sha256=digest), "utf-8")
    assert build_schemas.main(["--wheel", str(first)]) == 0
    return tmp_path


NEWER = FILES["response.py"].replace("created_at: float", "created_at: int\n    model: str")
NEWER_DELTA = FILES["response_text_delta_event.py"] + "    obfuscation: Optional[str] = None\n"


def made(workshop):
    second = wheel(workshop, "1.1.0", response=NEWER, response_text_delta_event=NEWER_DELTA)
    assert new_set.main(["openai-2026-12", "--sdk", "1.1.0", "--wheel", str(second)]) == 0
    return second


def test_one_command_makes_a_set_and_tells_what_changed_and_what_no_longer_fits(workshop, capsys):
    second = made(workshop)
    said = capsys.readouterr().out
    assert "replace Response.created_at: it is {'type': 'integer'}" in said
    assert "add ResponseTextDeltaEvent.obfuscation: it is there" in said
    assert "2 edits of openai-2026-11 do not fit" in said
    manifest = json.loads((workshop / "schemas" / "openai-2026-12" / "manifest.json").read_bytes())
    assert manifest["parent"] == "openai-2026-11"
    assert manifest["source"]["version"] == "1.1.0"
    assert manifest["source"]["sha256"] == hashlib.sha256(second.read_bytes()).hexdigest()
    assert manifest["overlay"]["includes"][0]["skip"] == [
        "replace Response.created_at",
        "add ResponseTextDeltaEvent.obfuscation",
    ]
    added = [one for one in manifest["changes"] if one["path"].startswith("Response.model")]
    assert [(one["effect"], one["profiles"]) for one in added] == [("tighten", ["strict", "wire"])]
    assert "Response.model" in said
    wire = json.loads((workshop / "schemas" / "openai-2026-12" / "wire.json").read_bytes())["$defs"]
    assert wire["Response"]["properties"]["created_at"] == {"type": "integer"}
    assert wire["Response"]["properties"]["store"] == {"type": "string"}  # the other path of an edit still holds
    for digest in (manifest["profiles"][profile]["sha256"] for profile in ("strict", "wire")):
        assert digest in said


def test_a_new_set_builds_again_to_the_same_bytes_and_a_later_one_follows_it(workshop):
    made(workshop)
    assert build_schemas.main(["--check", "--wheel", str(workshop)]) == 0
    third = wheel(workshop, "1.2.0", response=NEWER, response_text_delta_event=FILES["response_text_delta_event.py"])
    assert new_set.main(["openai-2027-01", "--sdk", "1.2.0", "--wheel", str(third)]) == 0
    manifest = json.loads((workshop / "schemas" / "openai-2027-01" / "manifest.json").read_bytes())
    assert manifest["parent"] == "openai-2026-12"
    assert [one["file"].rpartition("/")[2] for one in manifest["overlay"]["includes"]] == [
        "openai-2026-12.toml",
        "openai-2026-11.toml",
    ]


def test_a_changed_file_and_a_wheel_that_is_another_are_refused(workshop, capsys):
    made(workshop)
    file = workshop / "schemas" / "openai-2026-12" / "wire.json"
    file.write_bytes(file.read_bytes().replace(b'"model"', b'"modal"'))
    assert build_schemas.main(["--check", "--wheel", str(workshop)]) == 1
    assert "openai-2026-12/wire.json: differs" in capsys.readouterr().err
    wheel(workshop, "1.1.0", response=FILES["response.py"])
    with pytest.raises(build_schemas.SourceError, match="sha256"):
        build_schemas.main(["--check", "--wheel", str(workshop)])


def test_a_skip_of_nothing_and_an_edit_that_does_not_fit_are_named(workshop):
    second = made(workshop)
    file = workshop / "tools" / "overlays" / "openai-2026-12.toml"
    text = file.read_text("utf-8")
    file.write_text(text.replace('"replace Response.created_at"', '"replace Response.created"'), "utf-8")
    with pytest.raises(build_schemas.SourceError, match=r"nothing to skip is called replace Response\.created"):
        build_schemas.main(["--wheel", str(second), "openai-2026-12"])
    file.write_text("\n".join(one for one in text.splitlines() if "replace Response.created_at" not in one), "utf-8")
    with pytest.raises(build_schemas.MisfitError, match=r"edit replace Response\.created_at: does not fit, it is"):
        build_schemas.main(["--wheel", str(second), "openai-2026-12"])


def test_a_set_that_exists_or_has_no_name_is_refused(workshop, capsys):
    second = made(workshop)
    for name, said in (
        ("openai-2026-12", "exists"),
        ("openai", "a set is called"),
        ("azure-2026-12", "follows one of that origin"),
    ):
        with pytest.raises(SystemExit) as stopped:
            new_set.main([name, "--sdk", "1.1.0", "--wheel", str(second)])
        assert stopped.value.code == 2
        assert said in capsys.readouterr().err
