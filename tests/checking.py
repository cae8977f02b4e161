"""The run-time checker of annotations, which may be switched off; an int is a float, as PEP 484 has it."""

from collections.abc import Iterator
from contextlib import contextmanager

from beartype import BeartypeConf, beartype
from jaxtyping import config

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


@contextmanager
def annotations_unchecked() -> Iterator[None]:
    """The library as its users call it: errors are its own, and calls take half the time."""
    config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        config.update("jaxtyping_disable", False)
