"""Checks that a page is readable, with posenc's own rules, and with axe if npm can fetch it."""

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
"""The rules for pages that posenc writes itself; pages with a theme do not follow axe's best practice."""


def hindrances(page: Any) -> list[str]:
    """Return the obstacles to reading the page: faint text, overlapping text, and text outside the window."""
    found: list[str] = page.evaluate(HINDRANCES)
    return found


@cache
def axe_source() -> str:
    """Return the script of axe-core, which is fetched once, or skip the test if npm cannot fetch it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    with TemporaryDirectory() as folder:
        asked = [npm, "install", "--no-save", "--no-audit", "--no-fund", "--prefix", folder, "axe-core@4"]
        if subprocess.run(asked, capture_output=True, timeout=120).returncode:
            pytest.skip("npm cannot fetch axe-core")
        return (Path(folder) / "node_modules/axe-core/axe.min.js").read_text("utf-8")


def violations(page: Any, rules: Sequence[str] = OUR_RULES) -> list[str]:
    """Return the violated rules of WCAG 2.2 AA and of axe's best practice, each with its first violation."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(f"() => {{ {axe_source()} }}")
    found = page.evaluate("(tags) => axe.run({ runOnly: tags }).then((r) => r.violations)", list(rules))
    return [f"{each['id']}: {each['nodes'][0]['html'][:140]}" for each in found]
