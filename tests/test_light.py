"""What is loaded when: a name of the face, help, completion and the lab's pages load only what they need."""

import re
from importlib import import_module

import pytest

import posenc
from support.processes import python
from test_house import HOMES

HEAVY = {"torch", "numpy", "jaxtyping", "matplotlib", "scipy", "safetensors", "transformers", "triton", "ray"}
LAB = {"starlette", "uvicorn"}
OPTIONAL = {*HOMES, "sympy", "x_transformers", "rotary_embedding_torch", "hypothesis", "pytest", "beartype"}


def loaded_by(program: str) -> set[str]:
    """Top names of the modules that a fresh Python holds after the program."""
    program += "\nimport sys; print(); print(*{m.split('.')[0] for m in sys.modules})"
    return set(python("-c", program).splitlines()[-1].split())


def test_importing_posenc_loads_no_torch() -> None:
    assert not loaded_by("import posenc, posenc.errors; posenc.errors.PosencError; dir(posenc)") & HEAVY


def test_names_load_torch_and_nothing_optional() -> None:
    """All public names and the first rotation: asking a meta tensor for strides would load sympy, most of a second.

    Nor is torch's compiler loaded, a second more, where what the first study needs is counted.
    """
    program = """
import sys, torch, posenc
for name in posenc.__all__:
    getattr(posenc, name)
q = torch.randn(1, 2, 4, 8)
posenc.Rotary(8, pairing="half").at(posenc.positions.arange(4)).rotate(q, q)
print(*sys.modules)
from posenc.workbench.run.footprint import footprint
from posenc.workbench.study.study import Study
from posenc.workbench.run.training import encoding, task_of
study = Study()
text = study.source.load()
for plan in study.plans(text):
    footprint(plan, task_of(plan, text), encoding(plan))
print("torch._dynamo" in sys.modules)
"""
    names, compiler = python("-c", program).splitlines()
    loaded = {name.split(".")[0] for name in names.split()}
    assert loaded & (HEAVY | LAB | OPTIONAL) == {"torch", "numpy", "jaxtyping"}
    assert not re.search(r"\bposenc\.(pictures|workbench|teaching|commands)\b", names)
    assert compiler == "False"


def test_the_table_of_names_is_what_there_is() -> None:
    assert list(posenc._HOMES) == posenc.__all__
    assert set(posenc.__all__) <= set(dir(posenc))


def test_every_name_is_what_its_home_calls_so() -> None:
    homes = {name: getattr(import_module(posenc._HOMES[name]), name) for name in posenc.__all__}
    assert [name for name, value in homes.items() if getattr(posenc, name) is not value] == []


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'posenc' has no attribute 'Rotray'"):
        posenc.Rotray  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.slow
def test_names_are_found_inside_a_compiled_function() -> None:
    """The first use of a name may be the compiler's."""
    program = """
import torch, posenc
rope = posenc.encoding("rotary", head_dim=8)
def forward(q):
    placed = rope.at(posenc.positions.arange(4))
    q, k = placed.rotate(q, q)
    return posenc.attention(q, k, k, placed, causal=True)
q = torch.randn(1, 1, 4, 8)
compiled = torch.compile(forward, backend="eager", fullgraph=True)(q)
torch.testing.assert_close(compiled, forward(q))
"""
    loaded_by(program)


def test_help_of_every_verb_needs_no_torch() -> None:
    program = """
from typer.main import get_command
from posenc.commands.app import app
verbs = get_command(app)
for words in [[], ["--help"], *([verb, "--help"] for verb in verbs.commands)]:
    verbs(words, standalone_mode=False)
"""
    assert not loaded_by(program) & (HEAVY | LAB)


@pytest.mark.parametrize(("words", "offered"), [("posenc com", "compare"), ("posenc verify --sl", "--slow")])
def test_completion_offers_verbs_and_options_without_torch(words: str, offered: str) -> None:
    program = """
import atexit, sys
atexit.register(lambda: print(*sys.modules))
sys.argv = ["posenc"]
from posenc.cli import main
main()
"""
    asked = {
        "_POSENC_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    first, modules = python("-c", program, **asked).splitlines()
    assert first == offered
    assert not {m.split(".")[0] for m in modules.split()} & HEAVY


def test_the_lab_is_started_without_torch() -> None:
    pytest.importorskip("starlette", reason="starlette is not installed")
    program = """
from posenc.teaching.lab import server
server.serve = lambda host, port, open_page: print(f"serving {host}")
from typer.testing import CliRunner
from posenc.commands.app import app
assert CliRunner().invoke(app, ["lab", "--no-open"]).output == "serving 127.0.0.1\\n"
"""
    assert not loaded_by(program) & HEAVY


def test_pages_of_the_lab_appear_before_torch() -> None:
    """Home, a room, the quiz, style and script."""
    pytest.importorskip("starlette", reason="starlette is not installed")
    program = """
import asyncio, json, sys
from posenc.teaching.lab.server import create_app

async def get(path):
    said = []
    async def receive(): await asyncio.sleep(60)
    async def send(message): said.append(message)
    headers = [(b"host", b"127.0.0.1:8642")]
    scope = dict(type="http", method="GET", path=path, raw_path=path.encode(), query_string=b"", headers=headers,
                 scheme="http", server=("127.0.0.1", 8642), client=("127.0.0.1", 1), root_path="")
    await app(scope, receive, send)
    assert said[0]["status"] == 200, (path, said)

app = create_app(warm=False)
async def main():
    pages = ("/", "/order", "/rotation", "/results", "/check", "/claims", "/lessons")
    for path in (*pages, "/colours.css", "/static/lab.js", "/static/first.js", "/static/figure.js"):
        await get(path)
asyncio.run(main())
"""
    assert "torch" not in loaded_by(program)
