"""Fixtures of the kernels' tests: the native kernel where it was compiled, and an installation without it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from posenc.kernels import native
from support.native_kernel import forget_the_library


@pytest.fixture
def native_built() -> None:
    """The native kernel is there."""
    if lack := native.lacking():
        pytest.skip(lack)


@pytest.fixture
def without_native(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """As in an installation that found no compiler; where the library would be."""
    monkeypatch.setattr(native, "LIBRARY", tmp_path / "native.so")
    monkeypatch.setattr(native, "SOURCES", tmp_path / "native")
    forget_the_library()
    yield tmp_path / "native.so"
    forget_the_library()
