"""The site as it is handed out: built strictly, opened from files, every page read as readers do."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.aloud import RULES, WINDOWS, hindrances, violations

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    folder: Path = tmp_path_factory.mktemp("site")
    asked = [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "-f", str(ROOT / "mkdocs.yml")]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # of a release that the theme does not follow
    built = subprocess.run([*asked, "-d", str(folder)], cwd=ROOT, env=quiet, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-3000:]
    return folder


def test_the_search_finds_from_files(site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    left = []
    page.on("request", lambda request: left.append(request.url) if not request.url.startswith("file:") else None)
    page.goto((site / "encodings" / "rotary.html").as_uri())
    page.locator("input.md-search__input").click()
    page.keyboard.type("kerple")
    page.locator(".md-search-result__link[href*='encodings/kerple.html']").first.wait_for()
    assert left == []
    page.close()


def test_formulas_are_mathml(site: Path) -> None:
    assert "<math" in (site / "encodings" / "rotary.html").read_text()


@pytest.mark.parametrize("paper", ["light", "dark"])
def test_every_page_can_be_read(site: Path, browser: Any, paper: str) -> None:
    """The page for addresses that do not exist is left out: it finds its style on a server only."""
    found = {}
    page = browser.new_page(color_scheme=paper)
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site).as_posix()
        if name == "404.html":
            continue
        page.set_viewport_size({"width": 1280, "height": 800})
        page.goto(path.as_uri())
        wrong = violations(page, RULES)
        for width, height in WINDOWS:
            page.set_viewport_size({"width": width, "height": height})
            wrong += hindrances(page)
        if wrong:
            found[name] = wrong
    page.close()
    assert found == {}
