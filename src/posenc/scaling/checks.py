"""Settings of scalings as fields: each says beside its type how it is checked. A message names the field, its
value, the range and the fix."""

from collections.abc import Callable, Sequence
from dataclasses import fields
from numbers import Real
from typing import Annotated, Any

from posenc.arguments import checked, is_number
from posenc.errors import InvalidArgument


class Checked:
    """A frozen dataclass whose fields are checked, in their order, as their annotations say; NumPy's numbers become
    the Python numbers they are equal to, and lists tuples."""

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value: Any = getattr(self, field.name)
            if isinstance(value, Real) and hasattr(value, "item"):
                value = value.item()
            if value is not None or field.default is not None:
                value = checked(field.type, value, field.name)
            object.__setattr__(self, field.name, tuple(value) if isinstance(value, list) else value)


def check_factor(value: object, name: str = "factor") -> None:
    """How many times longer the context gets: at least 1."""
    if not is_number(value) or value < 1:  # type: ignore[operator]
        raise InvalidArgument(
            f"{name}={value!r} must be a finite number of at least 1: it says how many times longer the context "
            "gets; 1 changes nothing, and a context is shortened by using less of it"
        )


def positive(fix: str) -> Callable[[object, str], None]:
    """A check for a finite number above 0."""

    def check(value: object, name: str) -> None:
        if not is_number(value) or value <= 0:  # type: ignore[operator]
            raise InvalidArgument(f"{name}={value!r} must be a finite number above 0; {fix}")

    return check


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


Factor = Annotated[float, check_factor]
Length = Annotated[int, check_original_length]
Factors = Annotated[tuple[float, ...], check_factors]
