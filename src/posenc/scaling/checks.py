"""Refuses a scaling's fields one by one: each message names the field, its value, the range and the fix."""

from collections.abc import Sequence
from dataclasses import fields
from numbers import Real
from typing import Any

from posenc.arguments import is_number
from posenc.errors import InvalidArgument


def make_plain(scaling: Any) -> None:
    """Replace NumPy's scalars among the fields of a frozen scaling by the Python numbers they are equal to."""
    for field in fields(scaling):
        value = getattr(scaling, field.name)
        if isinstance(value, Real) and hasattr(value, "item"):
            object.__setattr__(scaling, field.name, value.item())


def check_factor(value: object, name: str = "factor") -> None:
    """How many times longer the context gets: at least 1."""
    if not is_number(value) or value < 1:  # type: ignore[operator]
        raise InvalidArgument(
            f"{name}={value!r} must be a finite number of at least 1: it says how many times longer the context "
            "gets; 1 changes nothing, and a context is shortened by using less of it"
        )


def check_positive(value: object, name: str, fix: str) -> None:
    """A finite number above 0."""
    if not is_number(value) or value <= 0:  # type: ignore[operator]
        raise InvalidArgument(f"{name}={value!r} must be a finite number above 0; {fix}")


def check_original_length(value: object, name: str = "original_length") -> None:
    """The trained context in tokens: an integer of at least 2."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 2:
        raise InvalidArgument(
            f"{name}={value!r} must be an integer of at least 2: the length that the model was trained at"
        )


def check_total_length(value: object) -> None:
    """The length of a whole request, prompt and answer: an integer of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidArgument(
            f"total_length={value!r} must be an integer of at least 1: prompt and answer together, in tokens"
        )


def check_factors(values: object, name: str) -> None:
    """A tuple of positive finite numbers, one per pair."""
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise InvalidArgument(f"{name}={values!r} must be a list of positive numbers, one per pair")
    wrong = [(i, v) for i, v in enumerate(values) if not is_number(v) or v <= 0]
    if wrong:
        raise InvalidArgument(f"{name}[{wrong[0][0]}]={wrong[0][1]!r} must be a finite number above 0")
