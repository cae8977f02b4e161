"""The field types of scalings, annotated with checks. Error messages name the field, its value, the range and the
fix.
"""

from abc import ABCMeta
from collections.abc import Sequence
from dataclasses import fields
from typing import Annotated, Any

from posenc.arguments import ArgumentType, at_least, checked, is_number, such_that
from posenc.errors import InvalidArgument


class CheckedType(ArgumentType, ABCMeta):
    """The metaclass of scalings: ``ArgumentType`` for errors about arguments, ``ABCMeta`` for abstract methods."""


class Checked(metaclass=CheckedType):
    """A frozen dataclass whose fields are checked, in order, against their annotations. NumPy numbers are
    converted to Python numbers, and lists to tuples."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value: Any = getattr(self, field.name)
            if value is not None or field.default is not None:
                value = checked(field.type, value, field.name)
            object.__setattr__(self, field.name, tuple(value) if isinstance(value, list) else value)


check_total_length = at_least(1, ": prompt and answer together, in tokens")


def check_factors(values: object, name: str) -> None:
    """Check that values are a list of positive finite numbers, one per pair."""
    if not isinstance(values, Sequence) or isinstance(values, str) or not values:
        raise InvalidArgument(f"{name}={values!r} must be a list of positive numbers, one per pair")
    wrong = [(i, v) for i, v in enumerate(values) if not is_number(v) or v <= 0]
    if wrong:
        raise InvalidArgument(f"{name}[{wrong[0][0]}]={wrong[0][1]!r} must be a finite number above 0")


Factor = Annotated[
    float,
    such_that(
        lambda value: is_number(value) and value >= 1,
        "be a finite number of at least 1: it is the new context length divided by the old one; 1 changes "
        "nothing, and shorter contexts need no scaling",
    ),
]
Length = Annotated[int, at_least(2, ": the length that the model was trained at")]
Factors = Annotated[tuple[float, ...], check_factors]
