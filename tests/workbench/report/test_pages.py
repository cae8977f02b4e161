"""Every page that the builder makes, in a real browser: read at any width, on light and dark paper, and on A4."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from posenc.teaching.gallery import gallery
from posenc.workbench.report.extension import write as write_extension
from posenc.workbench.report.write import write
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.study.comparison import Comparison
from posenc.workbench.study.presets import PRESETS
from posenc.workbench.study.toml import as_toml, read_study
from support.aloud import WINDOWS, hindrances, violations
from support.studies import TINY, inline, python_text
from workbench.test_extend_verdict import made

BEYOND = "() => [document.documentElement.scrollWidth, window.innerWidth]"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    tiny = replace(TINY, tasks=("needle", "language"), encodings=("nope", "learned-clamped"))
    with Ledger(folder / "study", write=True) as ledger:
        outcome = Comparison(tiny, python_text(), ledger).run(inline)
        report = write(outcome, folder / "study", "posenc compare --config tiny.toml", tiny)
    found = made(none=[2, 2, 3, 5, 7, 7], yarn=[2, 2, 2, 2, 2, 2], window=[2.5])
    return {
        "compare": report,
        "extend": write_extension(found, folder / "extension", "posenc extend x", 3.0, {"rope_scaling": None}),
        "show": gallery(["bias", "weights"], folder / "figures", "lesson.png"),
    }


@pytest.mark.browser
@pytest.mark.parametrize("paper", ["light", "dark"])
@pytest.mark.parametrize("name", ["compare", "extend", "show"])
def test_a_page_can_be_read_at_every_width(pages: dict[str, Path], browser: Any, name: str, paper: str) -> None:
    page = browser.new_page(color_scheme=paper)
    for width, height in WINDOWS if paper == "light" else WINDOWS[:1]:  # a theme moves nothing
        page.set_viewport_size({"width": width, "height": height})
        page.goto(pages[name].as_uri())
        assert hindrances(page) == []
        assert page.evaluate("() => document.querySelector('picture img').currentSrc.length > 0")
    page.close()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("paper", ["light", "dark"])
@pytest.mark.parametrize("name", ["compare", "extend", "show"])
def test_axe_finds_nothing(pages: dict[str, Path], browser: Any, name: str, paper: str) -> None:
    page = browser.new_page(color_scheme=paper, viewport={"width": 1280, "height": 800})
    page.goto(pages[name].as_uri())
    assert violations(page) == []
    page.close()


@pytest.mark.browser
def test_figures_follow_the_readers_paper_and_width(pages: dict[str, Path], browser: Any) -> None:
    seen = set()
    for paper in ("light", "dark"):
        for width in (360, 1280):
            page = browser.new_page(color_scheme=paper, viewport={"width": width, "height": 800})
            page.goto(pages["show"].as_uri())
            seen.add(page.evaluate("() => document.querySelector('picture img').currentSrc").rpartition("/")[2])
            page.close()
    assert seen == {"bias.svg", "bias-dark.svg", "bias-narrow.svg", "bias-dark-narrow.svg"}


@pytest.mark.browser
def test_print_from_a_dark_browser_is_dark_on_white_and_whole(pages: dict[str, Path], browser: Any) -> None:
    page = browser.new_page(color_scheme="dark", viewport={"width": 672, "height": 1000})  # A4 less its margins
    page.goto(pages["compare"].as_uri())
    page.emulate_media(media="print", color_scheme="dark")
    wide, window = page.evaluate(BEYOND)
    assert wide <= window
    assert page.evaluate("() => getComputedStyle(document.body).color") == "rgb(29, 31, 35)"
    tables = page.evaluate("() => [...document.querySelectorAll('table')].map(t => t.scrollWidth)")
    assert max(tables) <= window
    page.close()


def test_the_page_alone_repeats_its_study(pages: dict[str, Path], tmp_path: Path) -> None:
    html = pages["compare"].read_text()
    assert "posenc compare --config study.toml --output study" in html
    assert 'download="study.toml"' in html
    assert "Made by posenc " in html
    for asked in (*(preset.study for preset in PRESETS.values()), TINY):
        written = tmp_path / "study.toml"
        written.write_text(as_toml(asked))
        assert tomllib.loads(as_toml(asked))["encodings"] == list(asked.encodings)
        assert read_study(config=written) == asked


def test_a_table_that_was_not_measured_is_not_spoken_of(pages: dict[str, Path], tmp_path: Path) -> None:
    assert "The clamped table repeats its last row" in pages["compare"].read_text()
    plain = replace(TINY, tasks=("needle",), encodings=("nope", "alibi"))
    with Ledger(tmp_path, write=True) as ledger:
        page = write(
            Comparison(plain, python_text(), ledger).run(inline), tmp_path, "posenc compare", plain
        ).read_text()
    assert "learned table" not in page
