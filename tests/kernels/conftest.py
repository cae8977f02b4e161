"""Fixtures of the kernels' tests: the native kernel where a compiler is, Triton in its interpreter."""

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from posenc.kernels import native


@pytest.fixture(scope="session")
def built(request: pytest.FixtureRequest) -> Path:
    """A cache that holds the native kernel, kept from one run of the tests to the next."""
    if native.compiler() is None:
        pytest.skip("no C++ compiler is installed")
    return Path(request.config.cache.mkdir("native"))


@pytest.fixture
def native_built(built: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The native kernel is built, for the time of a test."""
    monkeypatch.setenv("POSENC_CACHE", str(built))
    native.build(native.ROTATION)
    yield
    native.find.cache_clear()


@pytest.fixture
def triton_interpreted() -> Iterator[None]:
    """Triton's kernels run on the CPU, in its interpreter, for the time of a test."""
    pytest.importorskip("triton", reason="triton is not installed: pip install 'posenc[triton]'")
    with mock.patch.dict(os.environ, TRITON_INTERPRET="1"):
        import posenc.kernels.rotary.by_triton  # noqa: F401 - decorated while the interpreter is asked for

        yield
