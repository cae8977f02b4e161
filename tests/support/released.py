"""Runs some files of a released program on a CPU with plain torch, with stand-ins for all other modules."""

import ast
import builtins
import importlib
import importlib.machinery
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import torch


class Layer(torch.nn.Module):
    """A replacement for vLLM's CustomOp, which chooses kernels."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    @classmethod
    def register(cls, *_: Any, **__: Any) -> Any:
        return lambda one: one

    @classmethod
    def enabled(cls) -> bool:
        return False


class StandIn(ModuleType):
    """A module in which the names in ``names`` have the given values, and all other names are mocks."""

    def __init__(self, name: str, names: Mapping[str, Any]) -> None:
        super().__init__(name)
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


class Finder:
    """Makes a stand-in for every module of a program, except for one package, which comes from a folder."""

    def __init__(self, folder: Path, package: str, names: Mapping[str, Any]) -> None:
        self.folder, self.package, self.names = folder, package, names

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] != self.package.split(".")[0] or name.startswith(self.package):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module: Any = StandIn(spec.name, self.names)
        module.__path__ = [str(self.folder.joinpath(*spec.name.split(".")))]
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


def released(folder: Path, package: str, names: Mapping[str, Any]) -> Any:
    """Import a package of a program from the folder. ``names`` has the values of names in stand-ins."""
    sys.meta_path.insert(0, Finder(folder, package, names))  # type: ignore[arg-type]
    return importlib.import_module(package)


def functions(file: Path, names: Sequence[str], known: dict[str, Any]) -> dict[str, Any]:
    """Return these functions and methods of a file as functions; mocks replace all other names in their code."""
    tree = ast.parse(file.read_text())
    chosen: list[Any] = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in names]
    for function in chosen:
        function.decorator_list = []
    return run(chosen, known)


def run(nodes: list[ast.stmt], known: dict[str, Any]) -> dict[str, Any]:
    """Run these statements, and return the names that they define."""
    module = ast.Module(body=[ast.ImportFrom("__future__", [ast.alias("annotations")], 0), *nodes], type_ignores=[])
    code = compile(ast.fix_missing_locations(module), "released", "exec")
    named = {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)} - set(dir(builtins))
    space = {**{name: MagicMock() for name in named}, **known}
    exec(code, space)
    return space


def statements(file: Path, name: str, *words: str) -> list[ast.stmt]:
    """Return the top-level statements of a class's constructor that contain all of these words."""
    classes = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.ClassDef)]
    (chosen,) = [n for n in classes if n.name == name]
    (init,) = [n for n in chosen.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
    return [n for n in init.body if all(word in ast.unparse(n) for word in words)]
