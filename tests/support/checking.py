"""The run-time checker of annotations, which may be switched off; an int is a float, as PEP 484 has it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from beartype import BeartypeConf, beartype
from jaxtyping import config

WITH_INTS_FOR_FLOATS = beartype(conf=BeartypeConf(is_pep484_tower=True))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its annotations checked; one inside another is left alone, as every call makes it anew."""
    return function if "<locals>" in function.__qualname__ else WITH_INTS_FOR_FLOATS(function)


@contextmanager
def annotations_unchecked() -> Iterator[None]:
    """The library as its users call it: errors are its own, and calls take half the time."""
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", False)
