"""Fixtures of the kernels' tests: the native kernel where it was compiled, Triton in its interpreter."""

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from posenc.kernels import native


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
    native._load.cache_clear()
    yield tmp_path / "native.so"
    native._load.cache_clear()


@pytest.fixture
def triton_interpreted() -> Iterator[None]:
    """Triton's kernels run on the CPU, in its interpreter, for the time of a test."""
    pytest.importorskip("triton", reason="triton is not installed: pip install 'posenc[triton]'")
    with mock.patch.dict(os.environ, TRITON_INTERPRET="1"):
        import posenc.kernels.rotary.by_triton  # noqa: F401 - decorated while the interpreter is asked for

        yield
