"""Every page that the builder makes, in a real browser: read at any width, on light and dark paper, and on A4."""

import json
import tomllib
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
from posenc.workbench.study.presets import PRESETS, read_study
from posenc.workbench.study.study import as_toml
from posenc.workbench.tasks.tokens import trained_bpe
from support.aloud import WINDOWS, hindrances, violations
from support.extensions import made
from support.studies import TINY, inline, python_text

PAINTED = """() => [...document.querySelectorAll("figure")].filter((figure) =>
  [...figure.querySelectorAll(".panel :is(svg, canvas, .cell)")].some((part) => part.checkVisibility())).length"""
"""How many figures have something painted in them."""
BEYOND = "() => [document.documentElement.scrollWidth, window.innerWidth]"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    tiny = replace(TINY, tasks=("needle", "language"), encodings=("nope", "learned(past_end=clamp)"))
    with Ledger(folder / "study", write=True) as ledger:
        outcome = Comparison(tiny, python_text(), ledger).run(inline)
        report = write(outcome, folder / "study", "posenc compare --config tiny.toml", tiny)
    found = made(none=[2, 2, 3, 5, 7, 7], yarn=[2, 2, 2, 2, 2, 2], window=[2.5])
    return {
        "compare": report,
        "extend": write_extension(found, folder / "extension", "posenc extend x", 3.0, {"rope_scaling": None}),
    }


@pytest.mark.browser
@pytest.mark.parametrize("paper", ["light", "dark"])
@pytest.mark.parametrize("name", ["compare", "extend"])
def test_a_page_can_be_read_at_every_width(pages: dict[str, Path], browser: Any, name: str, paper: str) -> None:
    page = browser.new_page(color_scheme=paper)
    for width, height in WINDOWS if paper == "light" else WINDOWS[:1]:  # a theme moves nothing
        page.set_viewport_size({"width": width, "height": height})
        page.goto(pages[name].as_uri())
        assert hindrances(page) == []
        assert page.evaluate(PAINTED) == page.locator("figure").count() > 0
    page.close()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("paper", ["light", "dark"])
@pytest.mark.parametrize("name", ["compare", "extend"])
def test_axe_finds_nothing(pages: dict[str, Path], browser: Any, name: str, paper: str) -> None:
    page = browser.new_page(color_scheme=paper, viewport={"width": 1280, "height": 800})
    page.goto(pages[name].as_uri())
    assert violations(page) == []
    page.close()


@pytest.mark.browser
def test_figures_have_the_readers_paper_and_a_light_one_in_print(pages: dict[str, Path], browser: Any) -> None:
    page = browser.new_page(color_scheme="dark", viewport={"width": 1280, "height": 800})
    page.goto(pages["compare"].as_uri())
    bar = """() => [...document.querySelector(".matrix canvas").getContext("2d").getImageData(0, 0, 1, 1).data]"""
    ink = "() => getComputedStyle(document.querySelector('.curve.encoding-learned')).stroke"
    seen = [(page.evaluate(bar), page.evaluate(ink))]
    page.emulate_media(media="print")
    seen.append((page.evaluate(bar), page.evaluate(ink)))
    page.emulate_media(media="screen", color_scheme="light")
    seen.append((page.evaluate(bar), page.evaluate(ink)))
    assert seen[1] == seen[2]
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("name", ["compare", "extend"])
def test_a_figure_tells_what_is_pointed_at_and_is_saved(
    pages: dict[str, Path], browser: Any, tmp_path: Path, name: str
) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.goto(pages[name].as_uri())
    figure = page.locator("figure").first
    figure.locator(".field").first.hover()
    assert figure.locator(".probe").inner_text().startswith(("test length", "position"))
    assert not figure.locator("details").get_attribute("open")
    for kind, begins in (("png", b"\x89PNG"), ("svg", b"<svg")):
        with page.expect_download() as download:
            figure.locator(f'button[data-kind="{kind}"]').click()
        assert download.value.path().read_bytes().startswith(begins)
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("name", ["compare", "extend"])
def test_without_script_the_numbers_stand_as_tables(pages: dict[str, Path], browser: Any, name: str) -> None:
    page = browser.new_page(java_script_enabled=False)
    page.goto(pages[name].as_uri())
    for figure in page.locator("figure").all():
        assert figure.locator("table").first.is_visible()
        assert figure.locator(".panels").is_hidden()
        assert figure.locator(".save").is_hidden()
    page.close()


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


def test_runs_of_unlike_machines_are_named_and_alike_ones_are_not(tmp_path: Path) -> None:
    one = replace(TINY, tasks=("needle",), encodings=("nope", "alibi"))
    with Ledger(tmp_path, write=True) as ledger:
        outcome = Comparison(one, None, ledger).run(inline)
        runs = ledger.runs()
        assert mixed(runs) == []
        assert "Runs differ in" not in write(outcome, tmp_path, "posenc compare", one).read_text()
        elsewhere = json.dumps({**json.loads(runs[0].versions), "torch": "1.0"})
        ledger.add(replace(runs[0], versions=elsewhere, hardware="a Z80, 1 core, 1 thread a run"))
        here = torch.__version__, hardware()
        lines = [
            f"torch {here[0]} (1 run) and 1.0 (1 run)",
            f"hardware {here[1]} (1 run) and a Z80, 1 core, 1 thread",
        ]
        runs = sorted(ledger.runs(), key=lambda run: run.versions == elsewhere)
        assert mixed(runs) == [lines[0], f"{lines[1]} a run (1 run)"]
        page = write(Comparison(one, None, ledger).outcome(), tmp_path, "posenc compare", one).read_text()
    assert "Runs differ in" in page


def test_a_table_that_was_not_measured_is_not_spoken_of(pages: dict[str, Path], tmp_path: Path) -> None:
    assert "The clamped table repeats its last row" in pages["compare"].read_text()
    plain = replace(TINY, tasks=("needle",), encodings=("nope", "alibi"))
    with Ledger(tmp_path, write=True) as ledger:
        page = write(
            Comparison(plain, python_text(), ledger).run(inline), tmp_path, "posenc compare", plain
        ).read_text()
    assert "learned table" not in page
