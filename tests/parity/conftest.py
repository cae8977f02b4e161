"""Oracles that warn about themselves when imported: their warnings are not ours to mend."""

import warnings
from types import ModuleType

import pytest


@pytest.fixture
def x_transformers() -> ModuleType:
    """x_transformers.x_transformers; importing it compiles with the deprecated torch.jit.script."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from x_transformers import x_transformers as module
    return module
