"""Read the stream types out of an openai wheel, as JSON Schema fragments, without importing it.

Reading the source and not the pydantic models keeps the result independent of the installed pydantic, whose own
JSON Schema differs from release to release for the same SDK.
"""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Schema = dict[str, Any]

_ROOT_MODULE = "openai.types.responses.response_stream_event"
_ROOT_NAME = "ResponseStreamEvent"
_SCALARS: dict[str, Schema] = {
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
    """The wheel does not have the form this reader knows."""


def download_wheel(name: str, version: str) -> Path:
    """Path of a wheel fetched with pip."""
    folder = Path(tempfile.mkdtemp(prefix="respevents-wheel-"))
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, "--dest", str(folder), f"{name}=={version}"], check=True)
    return next(folder.glob("*.whl"))


def fetch_wheel(name: str, version: str, sha256: str, given: Path | None = None) -> Path:
    """Path of the pinned wheel: `given`, or downloaded with pip. Raises SourceError when the digest differs."""
    if given is None:
        given = download_wheel(name, version)
    digest = hashlib.sha256(given.read_bytes()).hexdigest()
    if digest != sha256:
        message = (
            f"{given.name}: sha256 is {digest}, pinned is {sha256}; pin the new one on purpose or fetch the right file"
        )
        raise SourceError(message)
    return given


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

    def __init__(self, wheel: Path) -> None:
        self._zip = zipfile.ZipFile(wheel)
        self._modules: dict[str, Module] = {}
        self._owners: dict[str, tuple[str, str]] = {}
        self.defs: dict[str, Schema] = {}
        self.events: list[str] = []

    def read(self) -> None:
        """Fill `defs` and `events` (definition names in the order of the SDK's union)."""
        union = self._resolve(_ROOT_MODULE, _ROOT_NAME)
        branches = union.get("anyOf", [union])
        self.events = [branch["$ref"].removeprefix("#/$defs/") for branch in branches]

    def _module(self, name: str) -> Module:
        if name in self._modules:
            return self._modules[name]
        base = name.replace(".", "/")
        names = set(self._zip.namelist())
        path = f"{base}.py" if f"{base}.py" in names else f"{base}/__init__.py"
        package = name if path.endswith("__init__.py") else name.rpartition(".")[0]
        module = Module(name)
        for node in ast.parse(self._zip.read(path)).body:
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
            return {"$ref": f"#/$defs/{self._define(module, name)}"}
        if name in module.aliases:
            return self._schema(module, module.aliases[name])
        if name in module.imports:
            source, original = module.imports[name]
            return self._resolve(source, original)
        message = f"{module_name}: the name {name} is neither a class, an alias nor an import"
        raise SourceError(message)

    def _define(self, module: Module, name: str) -> str:
        own = name if name == module.exported or module.exported is None else f"{module.exported}{name}"
        here = (module.name, name)
        if self._owners.setdefault(own, here) != here:
            message = f"two SDK classes would be called {own}: {self._owners[own]} and {here}"
            raise SourceError(message)
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
            message = f"{module.name}: cannot read the type {ast.unparse(node)}"
            raise SourceError(message)
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
        message = f"{module.name}: cannot read the type {ast.unparse(node)}"
        raise SourceError(message)


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
