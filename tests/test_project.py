"""The package as a package: what it imports, on which Python, and what its files may say."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import respevents
from conftest import ROOT
from respevents._extras import EXTRAS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGE = ROOT / "src" / "respevents"
SOURCES = sorted(PACKAGE.rglob("*.py"))

NEWER_THAN_3_10 = {"tomllib", "annotationlib", "compression", "concurrent.interpreters", "string.templatelib"}
"""Standard modules that Python 3.11 to 3.14 added (each release's "What's New")."""
GONE_BY_3_14 = set(
    "aifc asynchat asyncore audioop cgi cgitb chunk crypt distutils imghdr imp lib2to3 mailcap msilib nis nntplib"
    " ossaudiodev pipes smtpd sndhdr spwd sunau telnetlib uu xdrlib".split()
)
"""Standard modules of 3.10 that a release up to 3.14 removed."""

OPTIONAL = {*EXTRAS, "pydantic_core"}


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


def test_typing_extensions_is_imported_for_type_checkers_only():
    """It is no dependency; every type checker brings its own copy."""
    # (msgspec itself imports it where it is installed, so what is loaded proves nothing.)
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            assert not (isinstance(node, ast.ImportFrom) and node.module == "typing_extensions"), path


def unusable(name: str) -> bool:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return bool({top, ".".join(name.split(".")[:2])} & (NEWER_THAN_3_10 | GONE_BY_3_14))
    return top not in {"respevents", "msgspec", "typing_extensions", *OPTIONAL}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_imported_module_exists_from_python_3_10_to_3_14(path):
    assert [name for name in imports(path) if unusable(name)] == []


def test_the_import_check_finds_what_it_is_for(tmp_path):
    planted = tmp_path / "planted.py"
    planted.write_text("import tomllib, cgi, requests\nfrom concurrent import interpreters\nfrom json import loads\n")
    assert [name for name in imports(planted) if unusable(name)] == [
        "tomllib",
        "cgi",
        "requests",
        "concurrent.interpreters",
    ]


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; import json; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout))


HEAVY = {"openai", "pydantic", "jsonschema", "jsonschema_rs", "asyncio", "uvicorn", "hypothesis", "pytest"}


def test_importing_the_package_loads_no_optional_library_no_asyncio_and_no_table():
    loaded = loaded_by("import respevents")
    assert loaded & HEAVY == set()
    assert [name for name in loaded if name.startswith("respevents._generated")] == []


CORE = [name for name in respevents.__all__ if name != "__version__"]


def test_using_every_public_name_loads_no_optional_library_and_no_asyncio():
    loaded = loaded_by("import respevents; [getattr(respevents, name) for name in respevents.__all__]")
    assert loaded & HEAVY == set()


def test_every_public_name_resolves():
    missing = [name for name in respevents.__all__ if not hasattr(respevents, name)]
    assert missing == []
    assert set(respevents.__all__) <= set(dir(respevents))


def test_type_checkers_and_the_lazy_table_are_told_the_same():
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    told = {name.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert told == respevents._HOME
    assert sorted([*told, "__version__"]) == sorted(respevents.__all__)


def test_every_module_keeps_its_promise_of_public_names():
    """Choice: public is what `__all__` says, so what it says must be there."""
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    module = importlib.import_module(name)\n"
        "    for public in getattr(module, '__all__', ()): getattr(module, public)\n"
    )
    modules = []
    for path in SOURCES:
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        modules.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    subprocess.run([sys.executable, "-W", "error::SyntaxWarning", "-c", code, *modules], check=True)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing_of_that_name'"):
        respevents.nothing_of_that_name  # noqa: B018


def test_a_missing_library_is_answered_with_the_extra_that_brings_it(tmp_path):
    code = (
        "import sys; sys.modules['uvicorn'] = None\n"
        "from respevents._extras import MissingExtraError, load\n"
        "try: load('uvicorn.config', needed_by='this test')\n"
        "except MissingExtraError as error: print(error, error.extra, error.name)\n"
    )
    # None in sys.modules makes the import fail the way an absent library does.
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == (
        "this test needs uvicorn, which is not installed: pip install 'respevents[cli]' cli uvicorn\n"
    )


def test_every_extra_of_the_message_exists_in_the_project_file():
    from respevents._extras import EXTRAS

    text = (ROOT / "pyproject.toml").read_text()
    block = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    extras = dict(re.findall(r"^(\w+) = (\[.*?\])$", block, re.MULTILINE | re.DOTALL))
    for library, extra in EXTRAS.items():
        assert library.replace("_", "-") in extras[extra]
        assert extra in extras["all"]


def test_the_version_stands_in_one_place_more_only():
    text = (ROOT / "pyproject.toml").read_text()
    assert re.search(r'^version = "(.*)"$', text, re.MULTILINE).group(1) == respevents.__version__


def tracked_files() -> list[Path]:
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in run.stdout.split("\0") if name and (ROOT / name).is_file()]


# Spelled in pieces, so that this file does not find itself.
OF_ONE_MACHINE = re.compile(
    "|".join(
        [
            "/wo" + "rk/",
            "/ro" + "ot/",
            "/ho" + "me/",
            r"\.lib" + "rary",
            "py" + r"pi\.org",
            "registry" + r"\.npm",
        ]
    )
)


def test_no_file_names_a_path_of_one_machine_or_a_registry_host():
    found = []
    for path in tracked_files():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{path.relative_to(ROOT)}: {match.group()}" for match in OF_ONE_MACHINE.finditer(text)]
    assert found == []
