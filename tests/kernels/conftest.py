"""Fixtures of the kernels' tests: Triton in its interpreter, where the package is installed."""

import os
from collections.abc import Iterator
from unittest import mock

import pytest


@pytest.fixture
def triton_interpreted() -> Iterator[None]:
    """Triton's kernels run on the CPU, in its interpreter, for the time of a test."""
    pytest.importorskip("triton", reason="triton is not installed: pip install 'posenc[triton]'")
    with mock.patch.dict(os.environ, TRITON_INTERPRET="1"):
        import posenc.kernels.rotary.by_triton  # noqa: F401 - decorated while the interpreter is asked for

        yield
