"""``--resume=FILE`` omits the tests that passed in an earlier, interrupted run of the same sources.

The first line of FILE identifies the sources, the tests, and the versions of torch and transformers. Each other
line is a test that passed. If the first line changes, the list starts again. Write the option with ``=``, because
pytest takes a separate word for a path that determines its root.
"""

import hashlib
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--resume", type=Path, metavar="FILE", help="leave out tests that passed, as listed in FILE")


def sources(root: Path = ROOT) -> str:
    """Return a line that identifies the sources, the tests, and the versions on which results depend."""
    digest = hashlib.sha256()
    for path in sorted(path for part in ("src", "tests", "tools") for path in (root / part).rglob("*")):
        if path.suffix in (".py", ".toml", ".json", ".jsonl", ".c", ".h", ".js", ".html", ".css"):
            digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return f"{digest.hexdigest()[:16]} {sys.version_info[:2]} {' '.join(map(_version, ('torch', 'transformers')))}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


class Resumed:
    """Deselects the tests that passed earlier, and records the tests that pass now."""

    def __init__(self, path: Path, passed: set[str], is_controller: bool) -> None:
        self.path, self.passed, self.is_controller = path, passed, is_controller

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        left_out = [item for item in items if item.nodeid in self.passed]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.nodeid not in self.passed]

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: object) -> None:
        """Make every worker omit the same tests, regardless of the tests that have passed since."""
        node.workerinput["passed"] = sorted(self.passed)  # type: ignore[attr-defined]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Iterator[None]:
        if self.is_controller and report.outcome == ("passed" if report.when == "call" else "skipped"):
            with self.path.open("a") as file:
                print(report.nodeid, file=file)
        return (yield)


def pytest_configure(config: pytest.Config) -> None:
    path: Path | None = config.getoption("--resume")
    if path is None:
        return
    given = getattr(config, "workerinput", None)
    if given is not None:
        config.pluginmanager.register(Resumed(path, set(given["passed"]), False))
        return
    first, *passed = path.read_text().splitlines() if path.exists() else [""]
    if first != sources():
        passed = []
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(sources() + "\n")
    config.pluginmanager.register(Resumed(path, set(passed), True))
