"""Whether a page can be read, by checks of our own and by axe where npm can bring it."""

import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

WINDOWS = ((1280, 800), (1024, 768), (360, 740))
HINDRANCES = (Path(__file__).parent / "aloud.js").read_text("utf-8")
RULES = "wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"
OUR_RULES = *RULES, "best-practice"
"""Of pages that are ours from the first line to the last; a theme has practices of its own."""


def hindrances(page: Any) -> list[str]:
    """What hinders reading the page as it stands: faint text, text over text, text beyond the window."""
    found: list[str] = page.evaluate(HINDRANCES)
    return found


@cache
def axe_source() -> str:
    """The script of axe-core, fetched once into a folder that goes again; the test is skipped where that fails."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    with TemporaryDirectory() as folder:
        asked = [npm, "install", "--no-save", "--no-audit", "--no-fund", "--prefix", folder, "axe-core@4"]
        if subprocess.run(asked, capture_output=True, timeout=120).returncode:
            pytest.skip("npm cannot fetch axe-core")
        return (Path(folder) / "node_modules/axe-core/axe.min.js").read_text("utf-8")


def violations(page: Any, rules: Sequence[str] = OUR_RULES) -> list[str]:
    """What axe finds against WCAG 2.2 AA and its own best practice: the rule, and the first element at fault."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(f"() => {{ {axe_source()} }}")
    found = page.evaluate("(tags) => axe.run({ runOnly: tags }).then((r) => r.violations)", list(rules))
    return [f"{each['id']}: {each['nodes'][0]['html'][:140]}" for each in found]
