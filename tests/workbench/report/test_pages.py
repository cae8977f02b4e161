"""Every page that the builder makes, in a real browser: read at any width, on light and dark paper, and on A4."""

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from posenc.workbench.report.extension import write as write_extension
from posenc.workbench.report.words import mixed
from posenc.workbench.report.write import write
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.machine import hardware
from posenc.workbench.study.comparison import Comparison
from posenc.workbench.study.presets import PRESETS
from posenc.workbench.study.study import as_toml, read_study
from posenc.workbench.tasks.tokens import trained_bpe
from support.aloud import WINDOWS, hindrances, violations
from support.extensions import made
from support.photographs import saved
from support.studies import SHARED, TINY, python_text

PAINTED = """() => [...document.querySelectorAll("figure")].filter((figure) =>
  [...figure.querySelectorAll(".panel :is(svg, canvas, .cell)")].some((part) => part.checkVisibility())).length"""
"""How many figures have something painted in them."""
BEYOND = "() => [document.documentElement.scrollWidth, window.innerWidth]"


@pytest.fixture(scope="module")
def pages(shared_study: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    found = made(none=[2, 2, 3, 5, 7, 7], yarn=[2, 2, 2, 2, 2, 2], window=[2.5])
    return {
        "compare": shared_study / "report.html",
        "extend": write_extension(found, folder / "extension", "posenc extend x", {"rope_scaling": None}),
    }


@pytest.fixture
def page(browser: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    """A page with the settings that a test states with ``indirect``."""
    made = browser.new_page(**{"viewport": {"width": 1280, "height": 800}} | getattr(request, "param", {}))
    yield made
    made.close()


@pytest.mark.browser
@pytest.mark.parametrize("name", ["compare", "extend"])
def test_a_page_can_be_read_at_every_width_and_on_dark_paper(pages: dict[str, Path], page: Any, name: str) -> None:
    for (width, height), paper in [*zip(WINDOWS, ["light"] * 3, strict=True), (WINDOWS[0], "dark")]:
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=paper)
        page.goto(pages[name].as_uri())
        assert hindrances(page) == []
        assert page.evaluate(PAINTED) == page.locator("figure").count() > 0


@pytest.mark.browser
@pytest.mark.parametrize("width", [1100, 390])
def test_the_length_that_decides_is_visible_without_scrolling(page: Any, tmp_path: Path, width: int) -> None:
    means = {name: [2.0] * 4 + [5.0] * 28 for name in ("none", "ntk", "yarn")}
    found = replace(made(**means, window=[2.5]), length=256)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(write_extension(found, tmp_path, "posenc extend x", None).as_uri())
    rows = page.locator("#loss > .wide tr")
    assert rows.locator("th").filter(has_text=re.compile("^256$")).count() == 1
    column = page.locator("#loss > .wide thead th").all_inner_texts().index("256")
    for row in rows.all():
        box = row.locator("th, td").nth(column).bounding_box()
        assert box["x"] + box["width"] <= width


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("page", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True, ids=str)
@pytest.mark.parametrize("name", ["compare", "extend"])
def test_axe_finds_nothing(pages: dict[str, Path], page: Any, name: str) -> None:
    page.goto(pages[name].as_uri())
    assert violations(page) == []


COLOURS = """() => [...document.querySelector(".matrix canvas").getContext("2d").getImageData(0, 0, 1, 1).data,
  getComputedStyle(document.querySelector(".curve.encoding-learned")).stroke]"""
"""Those of a cell and of a curve."""
DARK_A4 = {"color_scheme": "dark", "viewport": {"width": 672, "height": 1000}}
"""A4 less its margins."""


@pytest.mark.browser
@pytest.mark.parametrize("page", [DARK_A4], indirect=True, ids=["A4"])
def test_print_from_a_dark_browser_is_dark_on_white_and_whole(pages: dict[str, Path], page: Any) -> None:
    page.goto(pages["compare"].as_uri())
    page.emulate_media(media="print", color_scheme="dark")
    printed = page.evaluate(COLOURS)
    wide, window = page.evaluate(BEYOND)
    assert wide <= window
    assert page.evaluate("() => getComputedStyle(document.body).color") == "rgb(29, 31, 35)"
    tables = page.evaluate("() => [...document.querySelectorAll('table')].map(t => t.scrollWidth)")
    assert max(tables) <= window
    page.emulate_media(media="screen", color_scheme="light")
    assert page.evaluate(COLOURS) == printed


@pytest.mark.browser
@pytest.mark.parametrize("name", ["compare", "extend"])
def test_a_figure_tells_what_is_pointed_at_and_is_saved(pages: dict[str, Path], page: Any, name: str) -> None:
    page.goto(pages[name].as_uri())
    figure = page.locator("figure").first
    figure.locator(".field").first.hover()
    assert figure.locator(".probe").inner_text().startswith(("test length", "position"))
    assert not figure.locator("details").get_attribute("open")
    for kind, begins in (("png", b"\x89PNG"), ("svg", b"<svg")):
        file = saved(page, figure.locator(f'button[data-kind="{kind}"]'))
        assert file.path().read_bytes().startswith(begins)


@pytest.mark.browser
@pytest.mark.parametrize("page", [{"java_script_enabled": False}], indirect=True, ids=["without script"])
@pytest.mark.parametrize("name", ["compare", "extend"])
def test_without_script_the_numbers_stand_as_tables(pages: dict[str, Path], page: Any, name: str) -> None:
    page.goto(pages[name].as_uri())
    for figure in page.locator("figure").all():
        assert figure.locator("table").first.is_visible()
        assert figure.locator(".panels").is_hidden()
        assert figure.locator(".save").is_hidden()


def test_the_page_alone_repeats_its_study(pages: dict[str, Path], tmp_path: Path) -> None:
    html = pages["compare"].read_text()
    for words in (
        "posenc compare --config study.toml --output study",
        'download="study.toml"',
        "Made by posenc ",
    ):
        assert words in html
    for asked in (*map(read_study, PRESETS), TINY):
        written = tmp_path / "study.toml"
        written.write_text(as_toml(asked, tmp_path))
        assert tomllib.loads(as_toml(asked, tmp_path))["encodings"] == list(asked.encodings)
        assert read_study(config=written) == asked
    assert read_study(config=pages["compare"].with_name("study.toml")).tasks == ("needle", "language")


def test_a_study_repeats_from_its_file_wherever_it_is_typed_and_its_folder_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tmp_path / "home" / "somebody"
    (before / "study").mkdir(parents=True)
    (before / "book.txt").write_text("A line of a book.\n" * 40)
    (before / "pieces.json").write_text(trained_bpe([b"A line of a book.\n" * 40], 256))
    monkeypatch.chdir(before)
    asked = replace(TINY, text=Path("book.txt"), tokenizer="pieces.json", tasks=("language",))
    text = as_toml(asked, Path("study"))
    assert "somebody" not in text
    Path("study", "study.toml").write_text(text)
    wanted = asked.read_text()
    after = before.rename(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    again = read_study(config=after / "study" / "study.toml")
    assert again.read_text().sha256 == wanted.sha256
    assert again.read_text().tokens.name == wanted.tokens.name


def test_runs_of_unlike_machines_are_named_and_alike_ones_are_not(
    pages: dict[str, Path], copied_study: Path
) -> None:
    assert "Runs differ in" not in pages["compare"].read_text()
    with Ledger(copied_study, write=True) as ledger:
        runs = ledger.runs()
        assert mixed(runs) == []
        elsewhere = json.dumps({**json.loads(runs[0].versions), "torch": "1.0"})
        ledger.add(replace(runs[0], versions=elsewhere, hardware="a Z80, 1 core, 1 thread per run"))
        assert mixed(sorted(ledger.runs(), key=lambda run: run.versions == elsewhere)) == [
            f"torch {torch.__version__} (5 runs) and 1.0 (1 run)",
            f"hardware {hardware()} (5 runs) and a Z80, 1 core, 1 thread per run (1 run)",
        ]
        outcome = Comparison(SHARED, python_text(), ledger).outcome()
        assert "Runs differ in" in write(outcome, copied_study, "posenc compare", SHARED).read_text()


def test_a_table_that_was_not_measured_is_not_spoken_of(pages: dict[str, Path], copied_study: Path) -> None:
    assert "The clamped table repeats its last row" in pages["compare"].read_text()
    plain = replace(SHARED, encodings=("nope", "rotary"))
    with Ledger(copied_study) as ledger:
        outcome = Comparison(plain, python_text(), ledger).outcome()
    assert "learned table" not in write(outcome, copied_study, "posenc compare", plain).read_text()
