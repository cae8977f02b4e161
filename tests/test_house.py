"""The house stands as designed: who may import whom, no circles, and one home for each optional package."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from support.places import ROOT

PACKAGE = ROOT / "src" / "posenc"

LIBRARY = {
    "arguments",
    "errors",
    "positions",
    "mask",
    "scaling",
    "clock",
    "encodings",
    "attend",
    "layouts",
    "remap",
}
PICTURES = {"errors", "pictures"}
RESEARCH = LIBRARY | {"kernels", "laws", "integrations", "pictures", "workbench"}
FLOORS = {
    "names": set(),
    "errors": {"names"},
    "arguments": {"errors", "names"},
    "layouts": {"arguments", "errors"},
    "kernels": {"arguments", "errors"},
    "pytrees": set(),
    "scaling": {"arguments", "errors"},
    "mask": {"arguments", "errors", "kernels", "pytrees"},
    "clock": {"arguments", "errors", "scaling", "kernels"},
    "positions": {"arguments", "errors", "kernels", "mask"},
    "encodings": {"arguments", "errors", "names", "positions", "scaling", "clock", "kernels", "pytrees"},
    "attend": {"arguments", "errors", "mask", "encodings", "kernels", "pytrees"},
    "remap": {"arguments", "errors", "scaling", "clock", "encodings"},
    "laws": {"errors", "positions", "mask", "encodings", "attend", "kernels"},
    "integrations": LIBRARY | {"kernels", "laws"},
    "pictures": PICTURES,
    "workbench": RESEARCH,
    "teaching": RESEARCH | {"names", "teaching"},
    "commands": RESEARCH | {"names", "teaching"},
    "cli": {"errors", "commands"},
    "__main__": {"cli"},
}
"""What each part may import besides itself: those below it, in this order from the ground up."""

HOMES = {
    "transformers": ["integrations"],
    "accelerate": ["integrations"],
    "gguf": ["integrations"],
    "safetensors": ["integrations", "workbench.run"],
    "matplotlib": ["pictures"],
    "jinja2": ["pictures.assets"],
    "starlette": ["teaching.lab"],
    "latex2mathml": ["teaching.lab"],
    "uvicorn": ["teaching.lab"],
    "ray": ["workbench.launch.ray"],
    "typer": ["cli", "commands"],
    "pandas": ["workbench.notebook"],
    "pyarrow": ["workbench.tasks.documents"],
    "tokenizers": ["workbench.tasks.tokens"],
    "rich": ["cli", "commands", "workbench.report"],
}
"""The one place each package that is not torch may be imported from."""


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_of(path): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
PUBLIC = {
    alias.name: node.module if f"posenc.{alias.name}" not in SOURCES else f"posenc.{alias.name}"
    for node in ast.parse((PACKAGE / "__init__.pyi").read_text()).body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
"""The module behind each public name, as ``posenc.name`` loads it."""


@cache
def imports(source: str) -> frozenset[str]:
    """Every module imported anywhere in the source, and those behind the public names that it uses."""
    return frozenset(_imports(ast.parse(source)))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name != "posenc")
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield "relative import"
        elif isinstance(node, ast.ImportFrom):
            for name in (alias.name for alias in node.names):
                full = f"{node.module}.{name}"
                yield (
                    full
                    if full in SOURCES
                    else PUBLIC.get(name, "posenc")
                    if node.module == "posenc"
                    else node.module
                )
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "posenc":
            yield PUBLIC.get(node.attr, "posenc")


def part(module: str) -> str:
    return [*module.split("."), "posenc"][1]


def complaints(module: str, source: str) -> Iterator[str]:
    """What the source of this module imports and may not."""
    for name in imports(source):
        top = name.split(".")[0]
        if name == "relative import":
            yield f"{module} uses a relative import"
        elif top in HOMES and not any(f"{module}.".startswith(f"posenc.{home}.") for home in HOMES[top]):
            yield f"{module} imports {top}, whose home is {' and '.join(HOMES[top])}"
        elif top == "posenc" and part(name) not in {part(module), "posenc", *FLOORS.get(part(module), ())}:
            yield f"{module} imports {name}: {part(module)} may not import {part(name)}"


def circle(sources: Mapping[str, str]) -> list[str]:
    """Modules that import one another around, lazy imports counted; empty where there are none."""
    graph = {module: (imports(source) & sources.keys()) - {module} for module, source in sources.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_imports_only_from_floors_below() -> None:
    """A ``__main__`` is a program that nothing imports, so it may use all of the library."""
    programs = ("posenc", "posenc.encodings.__main__")
    inside = {module: source for module, source in SOURCES.items() if module not in programs}
    assert {part(module) for module in inside} == set(FLOORS)
    assert [found for module, source in inside.items() for found in complaints(module, source)] == []


def test_no_floor_knows_one_above() -> None:
    order = list(FLOORS)
    assert [(a, b) for a, below in FLOORS.items() for b in below if order.index(b) > order.index(a)] == []


def test_no_circle_of_imports() -> None:
    assert circle(SOURCES) == []
    assert circle({**SOURCES, "posenc.errors": "def f():\n    from posenc import Rotary"}) != []


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("posenc.clock", "from posenc.encodings.rotary import rotate", "clock may not import encodings"),
        ("posenc.scaling.yarn", "import posenc\nposenc.Rotary", "scaling may not import encodings"),
        ("posenc.scaling.yarn", "from posenc import Rotary", "scaling may not import encodings"),
        ("posenc.attend", "def f():\n    from posenc.workbench import study", "attend may not import workbench"),
        ("posenc.attend", "from posenc.laws import check", "attend may not import laws"),
        ("posenc.kernels.attention.softmax", "from posenc.mask import Mask", "kernels may not import mask"),
        ("posenc.pictures.draw", "from posenc.clock import Clock", "pictures may not import clock"),
        ("posenc.workbench.run.plan", "from posenc.teaching import claims", "workbench may not import teaching"),
        ("posenc.teaching.views.table", "from posenc.commands import show", "teaching may not import commands"),
        ("posenc.encodings.rotary", "import gguf", "whose home is integrations"),
        ("posenc.teaching.lab.server", "import matplotlib.pyplot as plt", "whose home is pictures"),
        ("posenc.workbench.launch.local", "import ray", "whose home is workbench.launch.ray"),
        ("posenc.attic", "from posenc.errors import PosencError", "attic may not import errors"),
        ("posenc.encodings.rotary", "from .alibi import slopes", "relative import"),
    ],
)
def test_the_check_of_floors_can_fail(module: str, source: str, complaint: str) -> None:
    assert any(complaint in found for found in complaints(module, source))


def test_an_encoding_is_known_to_the_catalogue_alone() -> None:
    """No other part asks which encoding it has, by its name or its class."""
    import posenc

    allowed = {"posenc.kernels.native": {"rotary"}}  # a folder
    classes = {entry.make.__name__ for entry in posenc.CATALOGUE.values()}
    for module, source in SOURCES.items():
        if part(module) not in ("attend", "laws", "kernels", "mask", "clock", "positions"):
            continue
        tree = ast.parse(source)
        texts = {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert (texts & set(posenc.CATALOGUE)) | (names & classes) == allowed.get(module, set()), module
