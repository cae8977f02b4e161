"""The house stands as designed: who may import whom, where optional packages live, what a file looks like."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import posenc

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src" / "posenc").rglob("*.py"))
PYTHON = sorted(p for part in ("src", "tests", "benchmarks") for p in (ROOT / part).rglob("*.py"))

FLOORS = {
    "names": set(),
    "errors": {"names"},
    "positions": {"errors"},
    "sight": {"errors", "kernels"},
    "schedules": {"errors"},
    "clock": {"errors", "schedules"},
    "kernels": {"errors", "clock"},
    "encodings": {"errors", "names", "positions", "sight", "schedules", "clock", "kernels"},
    "attention": {"errors", "sight", "encodings", "kernels"},
    "laws": {"errors", "positions", "sight", "encodings", "attention", "kernels"},
    "face": {"errors", "positions", "schedules", "clock", "sight", "encodings", "attention", "laws"},
    "__main__": {"workbench"},
    "integrations": {
        "errors",
        "positions",
        "schedules",
        "clock",
        "sight",
        "encodings",
        "attention",
        "laws",
        "face",
    },
}
"""What each part of the library may import; the workbench may import all of it."""

ROOMS = {
    "palette": 0,
    "numbers": 0,
    "transformer": 0,
    "tasks": 1,
    "screen": 0,
    "files": 0,
    "templates": 0,
    "notebook": 5,
    "views": 1,
    "lessons": 2,
    "experiments": 2,
    "launch": 3,
    "scene": 2,
    "figures": 3,
    "claims": 4,
    "inspect": 4,
    "report": 4,
    "lab": 5,
    "commands": 6,
    "cli": 7,
    "versions": 0,
    "entry": 8,
}
"""Inside the workbench a room imports rooms below its own floor, and itself."""

HOMES = {
    "triton": ["kernels"],
    "transformers": ["integrations"],
    "accelerate": ["integrations"],
    "gguf": ["integrations"],
    "safetensors": ["integrations", "workbench.experiments"],
    "matplotlib": ["workbench.figures"],
    "jinja2": ["workbench.templates"],
    "starlette": ["workbench.lab"],
    "latex2mathml": ["workbench.lab"],
    "uvicorn": ["workbench.lab"],
    "ray": ["workbench.launch.ray", "workbench.launch.remote"],
    "typer": ["workbench"],
    "pandas": ["workbench.notebook"],
    "pyarrow": ["workbench.tasks.text"],
    "tokenizers": ["workbench.tasks.tokens"],
    "rich": ["workbench"],
}
"""The one place each package that is not torch may be imported from."""


def imports(source: str) -> Iterator[str]:
    """Every module imported anywhere in the source, ``from posenc import x`` as ``posenc.x``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            short = node.module in ("posenc", "posenc.workbench")
            yield from (f"{node.module}.{alias.name}" if short else node.module for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield "relative import"


def part(module: str) -> str:
    """The part of the library that ``posenc.…`` belongs to; its face for what the face re-exports."""
    name = [*module.split("."), "face"][1]
    return name if name in FLOORS or name == "workbench" else "face"


def complaints(module: str, source: str) -> list[str]:
    """What the source of this module imports and may not."""
    found = []
    own, room = part(module), [*module.split("."), "", ""][2]
    for name in imports(source):
        top = name.split(".")[0]
        home = HOMES.get(top)
        if name == "relative import":
            found.append(f"{module} uses a relative import")
        elif home is not None and not any(f"{module}.".startswith(f"posenc.{place}.") for place in home):
            found.append(f"{module} imports {top}, whose home is {' and '.join(home)}")
        if top != "posenc" or own == part(name) != "workbench":
            continue
        if own != "workbench" and part(name) not in FLOORS[own]:
            found.append(f"{module} imports {name}: {own} may not import {part(name)}")
        target = [*name.split("."), "", ""][2]
        if own == part(name) == "workbench" and room and target and room != target:
            if not {room, target} <= ROOMS.keys():
                found.append(f"{module} imports {name}: give both rooms a floor in ROOMS")
            elif ROOMS[target] >= ROOMS[room]:
                found.append(f"{module} imports {name}: {room} may not import {target}")
    return found


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_imports_only_from_floors_below() -> None:
    assert [found for path in SOURCES for found in complaints(module_of(path), path.read_text())] == []


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("posenc.clock", "from posenc.encodings.rotary import rotate", "clock may not import encodings"),
        ("posenc.schedules.yarn", "import posenc", "schedules may not import face"),
        ("posenc.schedules.yarn", "from posenc import Rotary", "schedules may not import face"),
        (
            "posenc.attention",
            "def f():\n    from posenc.workbench import cli",
            "attention may not import workbench",
        ),
        ("posenc.attention", "from posenc.laws import check", "attention may not import laws"),
        ("posenc.kernels.attention.block", "from posenc.sight import Sight", "kernels may not import sight"),
        ("posenc.laws.check", "import posenc", "laws may not import face"),
        ("posenc.encodings.rotary", "import triton", "whose home is kernels"),
        ("posenc.workbench.lab.server", "import matplotlib.pyplot as plt", "whose home is workbench.figures"),
        (
            "posenc.workbench.views.slopes",
            "from posenc.workbench.figures.ink import save",
            "may not import figures",
        ),
        ("posenc.workbench.launch.local", "import ray", "whose home is workbench.launch.ray and"),
        ("posenc.workbench.attic", "from posenc.workbench.views import view", "give both rooms a floor"),
        ("posenc.encodings.rotary", "from .alibi import slopes", "relative import"),
    ],
)
def test_the_check_of_floors_can_fail(module: str, source: str, complaint: str) -> None:
    assert any(complaint in found for found in complaints(module, source))


def test_every_name_of_the_face_loads_nothing_optional() -> None:
    program = "import sys, posenc; [getattr(posenc, n) for n in posenc.__all__]; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names = run.stdout.split()
    loaded = {name.split(".")[0] for name in names}
    assert {"posenc", "torch"} <= loaded
    oracles = {"x_transformers", "rotary_embedding_torch", "hypothesis", "pytest", "beartype"}
    assert not loaded & (set(HOMES) | oracles)
    assert not [name for name in names if name.startswith("posenc.workbench")]


def test_a_file_says_what_it_is_and_stays_short() -> None:
    for path in PYTHON:
        source = path.read_text()
        docstring = ast.get_docstring(ast.parse(source)) or ""
        assert docstring.partition("\n")[0].strip(), f"{path}: its first line says in one sentence what it is"
        assert "kernels" in path.parts or len(source.splitlines()) <= 350, path


def test_the_library_prints_nothing() -> None:
    for path in SOURCES:
        if part(module_of(path)) == "workbench":
            continue
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert not [f"{path}:{f.lineno}" for f in calls if isinstance(f, ast.Name) and f.id == "print"]


KNOWS_ALL = {"posenc.encodings.catalogue", "posenc.encodings", "posenc", "posenc.names"}
"""The catalogue, the two faces, and what people call things."""

BUILT_ON = {
    "posenc.encodings.hope": {"Rotary"},
    "posenc.encodings.xpos": {"Rotary"},
    "posenc.encodings.layoutlm": {"T5"},
    "posenc.encodings.rotary": {"NoPE"},
    "posenc.encodings.query_scale": {"inkling"},
    "posenc.kernels.native": {"rotary"},
}
"""What an encoding is made of, a rule that has a model's name, and a folder of kernels."""


def named(source: str) -> set[str]:
    """Names of the catalogue that stand in code as text, and its classes that stand there by name."""
    made = {entry.make.__name__ for entry in posenc.CATALOGUE.values()}
    tree = ast.parse(source)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    texts = {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return (texts & set(posenc.CATALOGUE)) | (names & (made - own))


def test_an_encoding_is_named_in_its_own_file_and_the_catalogue() -> None:
    for path in SOURCES:
        module = module_of(path)
        if part(module) in ("workbench", "integrations") or module in KNOWS_ALL:
            continue
        home = {
            name
            for name, entry in posenc.CATALOGUE.items()
            if entry.make.__module__ == module and getattr(entry.make, "name", None) == name
        }
        assert named(path.read_text()) - home == BUILT_ON.get(module, set()), module


def test_the_check_of_names_can_fail() -> None:
    assert named('def f(x):\n    return x.name == "alibi"') == {"alibi"}
    assert named("def f(x):\n    return isinstance(x, FoX)") == {"FoX"}
    assert named("class FoX:\n    def f(self):\n        return FoX()") == set()
