"""The documentation runs: every Python block, every link between pages, every public name and every command."""

import importlib.util
import inspect
import json
import math
import re
import sys
import tomllib
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType, SimpleNamespace

import pytest
import typer.main
from tools.pages import results
from tools.pages.models import Model, table

import posenc
import posenc.workbench
from posenc.commands.app import app
from posenc.encodings.catalogue import canonical_text
from posenc.errors import BackendUnavailable, InvalidArgument
from posenc.integrations import huggingface
from posenc.integrations.model_files import departures
from posenc.teaching.lab.rooms import find
from posenc.workbench.files import as_json
from posenc.workbench.report.write import of_results
from posenc.workbench.study.study import read_study
from posenc.workbench.tasks.language import Language
from support.pages import anchors
from support.places import ROOT
from support.processes import python

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
BLOCK = re.compile(r'^```python(?: title="(?P<title>[^"]+)")?\n(?P<code>.*?)^```$', re.MULTILINE | re.DOTALL)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


CHECKING = "posenc.check("
"""Pages with it run every law; in every run of the tests test_check.py and test_compile.py do."""
RUNNING = [
    pytest.param(page, marks=[pytest.mark.slow] if CHECKING in page.read_text() else [])
    for page in PAGES
    if BLOCK.search(page.read_text())
]


@pytest.mark.parametrize("page", RUNNING, ids=name)
def test_every_block_of_python_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page's blocks run one after the other; one with a title is also a module of that name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    space: dict[str, object] = {"__name__": "__main__"}
    blocks = list(BLOCK.finditer(page.read_text().replace("STEPS = 20\n", "STEPS = 2\n")))
    for block in blocks:
        if block["title"]:
            (tmp_path / block["title"]).write_text(block["code"])
    whole = "\n".join(block["code"] for block in blocks)
    if CHECKING in whole:  # its laws compile, and a compiler cannot trace annotations that are checked here
        python("-W", "ignore", "-c", whole)
        return
    for block in blocks:
        try:
            exec(compile(block["code"], name(page), "exec"), space)
        except BackendUnavailable as error:
            pytest.skip(f"what it shows needs more than is installed: {error}")
    for module in [m for m in sys.modules if (tmp_path / f"{m}.py").exists()]:
        monkeypatch.delitem(sys.modules, module)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if target.startswith("http"):
            assert target.startswith("https://arxiv.org/abs/"), target
            continue
        path, _, anchor = target.partition("#")
        goal = page if not path else page.parent / path
        if "figures/" in path:
            made = build()
            drawn = {*made.VIEWS, *made.PICTURES, *made.STANDARD, "positional_encoding_viz"}
            assert Path(path).stem in drawn, target
            continue
        assert goal.is_file(), target
        if anchor and goal.suffix == ".md":
            assert anchor in anchors(goal.read_text()), target


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    config = SimpleNamespace(nav=[{"Learn": [{"Encodings": []}]}, {"Contributing": []}])
    build().on_config(config)
    listed |= {*config.nav[0]["Learn"][0]["Encodings"], *config.nav[1]["Contributing"]}
    assert listed == {str(p.relative_to(DOCS)) for p in DOCS.rglob("*.md")}


DIRECTIVE = re.compile(r"^::: ([\w.]+)\n(?: +options:\n)?(?:      .*\n)*", re.MULTILINE)


@cache
def referred() -> dict[str, object]:
    """What the API reference shows, by the last part of its name, members of modules and classes included."""
    shown: dict[str, object] = {}
    text = build().on_page_markdown("".join(page.read_text() for page in sorted(DOCS.glob("api*.md"))))
    for directive in DIRECTIVE.finditer(text):
        value = resolve_name(directive[1])
        shown[directive[1].rpartition(".")[2]] = value
        listed = re.search(r"members: \[(.+)\]", directive[0])
        members = listed[1].split(", ") if listed else list(vars(value)) if inspect.ismodule(value) else []
        shown |= {member: getattr(value, member, None) for member in members}
    return shown


def test_the_reference_shows_what_there_is() -> None:
    assert [name for name, value in referred().items() if value is None] == []


def public_names() -> list[str]:
    """Every public class and function of the library, and what pages import of the rest."""
    names = {name for name in posenc.__all__ if not inspect.ismodule(getattr(posenc, name))}
    for module in (posenc.scaling, posenc.positions, huggingface):
        names |= {name for name, value in vars(module).items() if not name.startswith("_") and of_posenc(value)}
    imported = re.findall(r"^from (posenc\S*) import (.+)$", "".join(page.read_text() for page in PAGES), re.M)
    above = ("posenc.integrations.", "posenc.workbench.", "posenc.pictures.")
    return sorted(
        names | {name for module, line in imported if module.startswith(above) for name in line.split(", ")}
    )


def of_posenc(value: object) -> bool:
    return callable(value) and str(getattr(value, "__module__", "")).startswith("posenc")


def test_every_public_name_is_in_the_reference() -> None:
    assert set(public_names()) - set(referred()) == set(), "no ::: directive of docs/api*.md shows these"


def argument_names(text: str) -> set[str]:
    """The names in the section "Args" of a docstring."""
    section = re.search(r"^Args:\n((?: {4}.*\n|\n)*)", f"{text}\n", re.MULTILINE)
    listed = re.findall(r"^ {4}(\w[\w, ]*):", section[1], re.MULTILINE) if section else []
    return {name for names in listed for name in names.split(", ")}


@pytest.mark.parametrize("public", public_names())
def test_every_argument_that_a_docstring_names_is_a_parameter(public: str) -> None:
    """As ``help`` and editors show it: no name is hidden in ``**settings``."""
    value = referred()[public]
    if names := argument_names(inspect.getdoc(value) or ""):
        assert names <= set(inspect.signature(value).parameters)  # type: ignore[arg-type]


def test_every_command_is_on_a_page() -> None:
    text = "".join(page.read_text() for page in DOCS.rglob("*.md"))
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert [command for command in commands if f"posenc {command}" not in text] == []


STAGE = r"`/(\w+)#([\w-]+)`"
"""The address of a stage of the lab, as pages name it."""


@cache
def build() -> ModuleType:
    """``docs/build.py``, which the site is built with."""
    spec = importlib.util.spec_from_file_location("build", DOCS / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_tables_of_the_site_are_computed() -> None:
    made = build()
    page = made.on_page_markdown("<!-- properties -->\n<!-- models -->")
    assert "| rotary | queries_keys | 0 | 2³¹ − 1 | yes | yes |" in page
    assert "| learned | embeddings | 393\u202f216 | 511 | no | yes |" in page
    four = made.on_page_markdown("<!-- four -->")
    assert four.count("\n") == len(posenc.CATALOGUE) + 2
    assert "| alibi | yes (0.52) | no (2e+06) | yes (−1) | yes (0.034) |" in four
    llama = next(line for line in page.splitlines() if line.startswith("| Llama 2 7B"))
    assert "| 54\u202f410 | 18 of 64 |" in llama
    assert made.on_page_markdown("nothing to fill in") == "nothing to fill in"


def test_a_known_difference_says_to_which_configs_it_applies() -> None:
    assert not [
        one
        for one in departures()
        for condition in (
            *one.kinds,
            *one.given.split(),
            *one.unless,
            *one.null.split(),
            one.number,
            f"{one.up_to:,}" * bool(one.up_to),
        )
        if condition not in build().conditions(one)
    ]


def test_on_the_site_a_stage_is_a_link_into_the_lab_beside_it() -> None:
    text = (DOCS / "lessons.md").read_text()
    made = build().on_page_markdown(text)
    named = re.findall(STAGE, text)
    assert len(named) > 20
    for room, question in named:
        assert f'<a href="lab/{room}.html#{question}">{find(question).heading}</a>' in made, question


def test_only_pages_beside_the_lab_name_its_stages() -> None:
    assert not [page for page in DOCS.glob("*/**/*.md") if re.search(STAGE, page.read_text())]


def test_every_study_that_pages_quote_is_whole() -> None:
    """Files in docs/results have every run of their presets, and the standard ledger gives the same numbers."""
    for name in ("quick", "standard", "zoo", "zoo-grid"):
        preset = read_study(name)
        asked = {(task, canonical_text(encoding)) for task in preset.tasks for encoding in preset.encodings}
        assert {(row["task"], row["encoding"]) for row in results.rows(name)} == asked, name
    opened = posenc.workbench.open(DOCS / "standard").results
    assert json.loads(as_json(list(of_results(opened.values())))) == results.rows("standard")
    assert set(build().STANDARD.values()) == set(opened)


def test_the_readme_quotes_the_quick_study() -> None:
    line = r"^\S[^\n]*?((?: +\d+\.\d\d){4})  "
    readme = (ROOT / "README.md").read_text()
    quoted = re.findall(line, readme, re.MULTILINE)
    rows = [row for row in results.rows("quick") if row["task"] == "language"]
    assert [row.split() for row in quoted] == [
        [f"{math.exp(row['values'][length]['mean']):.2f}" for length in ("128", "256", "512", "1024")]
        for row in rows
    ]
    found = {
        row["encoding"]: row["values"]["512"]["mean"] for row in results.rows("quick") if row["task"] == "needle"
    }
    needles = f"ALiBi finds {found['alibi']:.0%} of the needles, RoPE {found['rotary']:.0%}, NoPE all."
    text = " ".join(readme.split())
    assert found["nope"] == 1
    assert needles.replace("%", " %") in text
    assert f"language: {Language.question} encoding 128" in text


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_with_computed_parts_says_so_to_readers_of_its_file(page: Path) -> None:
    text, made = page.read_text(), build()
    assert (made.INCOMPLETE in text) == ("<!-- " in text or "{{ " in text)


@pytest.mark.parametrize("name", ["results.md", "choosing.md"])
def test_no_figure_of_a_study_is_typed_into_a_page(name: str) -> None:
    """A figure that a study measured is named, and the site fills it in; other decimals name what measured them."""
    text = (DOCS / name).read_text()
    assert not re.findall(r"\{\{", results.filled(text))
    measured = {
        results.figure(study, row["task"], row["encoding"], length)
        for study in ("quick", "standard", "zoo")
        for row in results.rows(study)
        if row["measure"] == "loss"
        for length in row["values"]
    }
    typed = set(re.findall(r"(?<![\d.])\d+\.\d\d(?!\d)", re.sub(r"\{\{.*?\}\}", "", text)))
    assert typed & measured == set()


def test_models_are_whole_and_refuse_nonsense() -> None:
    models = [Model(n, **f) for n, f in tomllib.loads((DOCS / "models.toml").read_text()).items()]
    assert {m.encoding for m in models} == {"sinusoidal", "learned", "rotary", "alibi"}
    assert table(models).count("\n") == len(models) + 2
    for width, encoding, message in (
        (64, "rotory", "unknown encoding 'rotory'; did you mean 'rotary'"),
        (65, "rotary", "x: width=65 must be a multiple of heads=4"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            Model("x", width, 4, encoding, "nowhere")


def test_formulas_become_mathml() -> None:
    made = build()
    for page in (DOCS / "encodings").glob("*.md"):
        shown = made.FORMULA.sub(lambda found: made.formula(found[1]), page.read_text())
        assert "```math" not in shown, page.name
        assert "merror" not in shown, page.name
    assert "<msub><mi>m</mi><mi>h</mi></msub>" in made.formula("m_h")


def test_the_notebook_holds_what_each_cell_showed() -> None:
    cells = json.loads((DOCS / "results.ipynb").read_text())["cells"]
    shown = [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]
    assert all(len(outputs) == 1 and outputs[0]["output_type"] == "execute_result" for outputs in shown)
    assert "/tmp" not in json.dumps(shown)


def test_nothing_that_the_site_imports_is_taken_for_an_event() -> None:
    """mkdocs takes every name of a hook that begins with on_ for one of its events, and stops at others."""
    made = build()
    events = {name: value for name, value in vars(made).items() if name.startswith("on_")}
    assert events
    assert [name for name, value in events.items() if value.__module__ != made.__name__] == []
