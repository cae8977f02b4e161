"""A run-time checker of annotations that can be switched off. As in PEP 484, an int counts as a float."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from beartype import BeartypeConf, beartype
from jaxtyping import config

WITH_INTS_FOR_FLOATS = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check the annotations of a function. Nested functions are unchecked, because every call creates them."""
    return function if "<locals>" in function.__qualname__ else WITH_INTS_FOR_FLOATS(function)


@contextmanager
def annotations_unchecked() -> Iterator[None]:
    """Call the library without checks, as users do. Errors are then posenc's own, and calls take half the time."""
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", False)
