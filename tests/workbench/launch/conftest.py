"""The Ray cluster of a test's file; its driver is the head, and other machines come and go."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.cluster import running


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with running() as made:
        yield made
