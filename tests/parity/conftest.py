"""Oracles that warn about themselves when imported: their warnings are not ours to mend."""

import warnings
from types import ModuleType

import pytest
from packaging.version import Version


@pytest.fixture
def x_transformers() -> ModuleType:
    """x_transformers.x_transformers; importing it compiles with the deprecated torch.jit.script."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from x_transformers import x_transformers as module
    return module


@pytest.fixture
def recent_transformers() -> None:
    """transformers as these tests name its parts; before 5.23 many were called otherwise or were not there."""
    transformers = pytest.importorskip("transformers")
    if Version(transformers.__version__) < Version("5.23"):
        pytest.skip("its modules for pictures and videos have other names in this version")
