"""Read the stream types out of the source of the openai SDK, as JSON Schema, without importing it.

Reading the source and not the pydantic models keeps the result independent of the installed pydantic, whose own
JSON Schema differs from release to release for the same SDK; and importing the SDK would take a second.
"""

from __future__ import annotations

import ast
import zipfile
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

__all__ = ["Schema", "SdkTypes", "SourceError", "any_of", "read_sdk"]

Schema = dict[str, Any]

_ROOT_MODULE: Final = "openai.types.responses.response_stream_event"
_ROOT_NAME: Final = "ResponseStreamEvent"
_PREFIX: Final = "#/$defs/"
_SCALARS: Final[dict[str, Schema]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "None": {"type": "null"},
    # `object` is JSON the user owns: its key order is kept (x-free-form).
    "object": {"x-free-form": True},
    "builtins.object": {"x-free-form": True},
    "Any": {"x-free-form": True},
}


class SourceError(Exception):
    """The source does not have the form this reader knows."""


class _Files:
    """The files of a wheel, or of a folder that holds the package `openai`, by their path from there."""

    def __init__(self, place: Path) -> None:
        self._folder = None if place.is_file() else place
        try:
            self._zip = zipfile.ZipFile(place) if place.is_file() else None
        except zipfile.BadZipFile:
            raise SourceError(f"{place} is no wheel") from None
        self._names = frozenset(self._zip.namelist()) if self._zip is not None else frozenset[str]()

    def read(self, name: str) -> bytes | None:
        """The content of a file; None when there is none."""
        if self._zip is not None:
            return self._zip.read(name) if name in self._names else None
        try:
            return (self._folder or Path()).joinpath(name).read_bytes()
        except FileNotFoundError:
            return None


@dataclass
class Module:
    """One source file: its classes, aliases, imports and the name it exports first."""

    name: str
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    aliases: dict[str, ast.expr] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    exported: str | None = None


class SdkTypes:
    """The types reachable from `ResponseStreamEvent`, as `$defs` under names of our own.

    A name: the SDK's own where a module exports it, else the exported name of its module followed by the nested
    name (42 nested names clash in the SDK otherwise).
    """

    def __init__(self, place: Path) -> None:
        """`place` is a wheel, or the folder that holds the package (`site-packages`)."""
        self._files = _Files(place)
        self._modules: dict[str, Module] = {}
        self._owners: dict[str, tuple[str, str]] = {}
        self.defs: dict[str, Schema] = {}
        self.events: list[str] = []

    def read(self) -> None:
        """Fill `defs` and `events` (definition names in the order of the SDK's union)."""
        union = self._resolve(_ROOT_MODULE, _ROOT_NAME)
        branches = union.get("anyOf", [union])
        self.events = [branch["$ref"].removeprefix(_PREFIX) for branch in branches]

    def version(self) -> str:
        """What the package says of itself; `unknown` when it says nothing."""
        for node in ast.parse(self._files.read("openai/_version.py") or b"").body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__":
                return str(ast.literal_eval(node.value))
        return "unknown"

    def structure(self) -> Schema:
        """All that was read, as one bundle: `anyOf` over the events, `$defs` sorted by name."""
        return {
            "anyOf": [{"$ref": _PREFIX + name} for name in self.events],
            "$defs": {name: self.defs[name] for name in sorted(self.defs)},
        }

    def _module(self, name: str) -> Module:
        if name in self._modules:
            return self._modules[name]
        base = name.replace(".", "/")
        package, source = name.rpartition(".")[0], self._files.read(f"{base}.py")
        if source is None:
            package, source = name, self._files.read(f"{base}/__init__.py")
        if source is None:
            raise SourceError(f"there is no module {name}")
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError) as error:
            raise SourceError(f"{name}: cannot be read: {error}") from None
        module = Module(name)
        for node in tree.body:
            self._read_statement(module, package, node)
        self._modules[name] = module
        return module

    @staticmethod
    def _read_statement(module: Module, package: str, node: ast.stmt) -> None:
        if isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = parts[: len(parts) - (node.level - 1)] if node.level else []
            source = ".".join([*base, node.module] if node.module else base)
            for alias in node.names:
                module.imports[alias.asname or alias.name] = (source, alias.name)
        elif isinstance(node, ast.ClassDef):
            module.classes[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            module.aliases[node.target.id] = node.value
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            if node.targets[0].id == "__all__":
                exported = ast.literal_eval(node.value)
                module.exported = exported[0] if exported else None
            else:
                module.aliases[node.targets[0].id] = node.value

    def _resolve(self, module_name: str, name: str) -> Schema:
        if name in _SCALARS:
            return dict(_SCALARS[name])
        module = self._module(module_name)
        if name in module.classes:
            return {"$ref": _PREFIX + self._define(module, name)}
        if name in module.aliases:
            return self._schema(module, module.aliases[name])
        if name in module.imports:
            source, original = module.imports[name]
            return self._resolve(source, original)
        owner, _, inner = name.partition(".")
        if inner and owner in module.imports:  # `from . import web_search_tool`
            return self._resolve(".".join(module.imports[owner]), inner)
        raise SourceError(f"{module_name}: the name {name} is neither a class, an alias nor an import")

    def _define(self, module: Module, name: str) -> str:
        own = name if name == module.exported or module.exported is None else f"{module.exported}{name}"
        here = (module.name, name)
        if self._owners.setdefault(own, here) != here:
            raise SourceError(f"two SDK classes would be called {own}: {self._owners[own]} and {here}")
        if own not in self.defs:
            self.defs[own] = {}
            self.defs[own].update(self._object(module, module.classes[name]))
        return own

    def _object(self, module: Module, node: ast.ClassDef) -> Schema:
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id not in ("BaseModel", "GenericModel"):
                source, original = module.imports.get(base.id, (module.name, base.id))
                parent = self._module(source)
                inherited = self._object(parent, parent.classes[original])
                properties.update(inherited["properties"])
                required.extend(inherited["required"])
        for statement in node.body:
            if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
                continue
            key, has_default = statement.target.id, statement.value is not None
            if isinstance(statement.value, ast.Call):
                keywords = {word.arg: word.value for word in statement.value.keywords}
                key = ast.literal_eval(keywords["alias"]) if "alias" in keywords else key
                has_default = "default" in keywords
            properties[key] = self._schema(module, statement.annotation)
            if not has_default:
                required.append(key)
        return {"type": "object", "properties": properties, "required": required}

    def _schema(self, module: Module, node: ast.expr) -> Schema:
        if isinstance(node, ast.Name):
            return self._resolve(module.name, node.id)
        if isinstance(node, ast.Constant):
            if node.value is None:
                return {"type": "null"}
            return self._schema(module, ast.parse(str(node.value), mode="eval").body)
        if isinstance(node, ast.Attribute):
            return self._resolve(module.name, ast.unparse(node))
        if not isinstance(node, ast.Subscript):
            raise SourceError(f"{module.name}: cannot read the type {ast.unparse(node)}")
        outer = node.value.id if isinstance(node.value, ast.Name) else ast.unparse(node.value)
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if outer == "Annotated":
            return self._schema(module, inner[0])
        if outer == "Literal":
            values = [ast.literal_eval(value) for value in inner]
            return {"const": values[0]} if len(values) == 1 else {"type": "string", "enum": values}
        if outer in ("List", "list", "Iterable", "Sequence"):
            return {"type": "array", "items": self._schema(module, inner[0])}
        if outer in ("Dict", "dict", "Mapping"):
            value = self._schema(module, inner[1])
            # A map's keys are the user's, so its order is kept; a map of anything is free-form at every depth.
            return (
                {"type": "object", "x-free-form": True}
                if "x-free-form" in value
                else {"type": "object", "additionalProperties": value}
            )
        if outer in ("Union", "Optional"):
            branches = [self._schema(module, branch) for branch in inner]
            return any_of([*branches, {"type": "null"}] if outer == "Optional" else branches)
        raise SourceError(f"{module.name}: cannot read the type {ast.unparse(node)}")


def read_sdk(place: Path | None = None) -> SdkTypes:
    """The types of the SDK at a place, or of the installed one. Raises `SourceError` when there is none to read."""
    if place is None:
        spec = find_spec("openai")
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        if not folders:
            raise SourceError("openai is not installed: pip install 'respevents[openai]', or name one with --sdk")
        place = Path(folders[0]).parent
    elif not place.exists():
        raise SourceError(f"{place}: there is no such file or folder")
    types = SdkTypes(place)
    try:
        types.read()
    except SourceError as error:
        raise SourceError(f"{place}: {error}; is this the openai SDK, 1.66 or later?") from None
    return types


def any_of(branches: list[Schema]) -> Schema:
    """A flat union without repeats; null last, so that the same union always reads the same."""
    flat: list[Schema] = []
    for branch in branches:
        for one in branch["anyOf"] if set(branch) == {"anyOf"} else [branch]:
            if one not in flat:
                flat.append(one)
    null = {"type": "null"}
    if null in flat:
        flat.remove(null)
        flat.append(null)
    # An open string beside its enumerated values is an open string.
    if {"type": "string"} in flat:
        flat = [one for one in flat if not (one.get("type") == "string" and "enum" in one)]
    return flat[0] if len(flat) == 1 else {"anyOf": flat}
