"""Checks of arguments. Each error message names the argument, its value, the expected form and the fix."""

import inspect
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from numbers import Real
from types import UnionType
from typing import Annotated, Any, Literal, NoReturn, TypeVar, get_args, get_origin

from torch import Tensor

from posenc.errors import InvalidArgument, UnknownName
from posenc.names import HINTS

T = TypeVar("T")


def shown(value: object) -> str:
    """Return the repr of a value, or its type if the repr is long."""
    text = repr(value)
    return text if len(text) < 100 and "\n" not in text else f"{type(value).__name__}(…)"


def form(value: object) -> str:
    """Return the dtype, shape and device of a tensor, or the result of ``shown`` for any other value."""
    return f"{value.dtype} {tuple(value.shape)} on {value.device}" if isinstance(value, Tensor) else shown(value)


def no_argument(name: str, word: str, known: Iterable[str]) -> UnknownName:
    """Return the error for an argument that a function does not have. The error suggests the correct name."""
    return UnknownName(f"argument of {name}", word, known, fix=HINTS.get(word))


def parameters_of(call: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the named parameters of a function or class. A class without its own ``__init__`` has no
    parameters.
    """
    open_ended = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    parameters = inspect.signature(call).parameters
    return {name: parameter for name, parameter in parameters.items() if parameter.kind not in open_ended}


def bound(call: Callable[..., Any], arguments: tuple[Any, ...], given: Mapping[str, Any]) -> inspect.BoundArguments:
    """Bind arguments to the parameters of a function or class, and raise an error for arguments that do not fit."""
    name, known = call.__name__, parameters_of(call)
    for word in given:
        if word not in known:
            raise no_argument(name, word, known)
    try:
        result = inspect.signature(call).bind_partial(*arguments, **given)
    except TypeError as error:
        raise InvalidArgument(f"{name}: {error}; pass arguments by name: {', '.join(known)}") from error
    for word in (word for word, x in known.items() if word not in result.arguments and x.default is x.empty):
        choices = [f"{word}={choice!r}" for choice in get_args(known[word].annotation) if isinstance(choice, str)]
        hint = f": {HINTS[word]}" if word in HINTS else ""
        raise InvalidArgument(f"{name} needs {word}; add {' or '.join(choices) or f'{word}=…'}{hint}")
    return result


class ArgumentType(type):
    """The metaclass of classes with clearer errors: for an unknown argument, the error suggests the correct name;
    for a missing argument, the error says which one is missing. Arguments are inspected only after Python has
    raised its own error.
    """

    @property
    @lru_cache(maxsize=1024)  # noqa: B019  classes outlive their instances
    def __signature__(cls) -> inspect.Signature:
        """The signature of ``__init__``, for ``inspect.signature`` of the class."""
        return inspect.signature(cls.__init__.__get__(cls))  # type: ignore[misc]

    # If this method were annotated, editors would take its result for the type of every instance.
    def __call__(cls, *arguments, **settings):  # type: ignore[no-untyped-def]
        try:
            return super().__call__(*arguments, **settings)
        except TypeError as error:
            unfit = error
        bound(cls, arguments, settings)
        raise unfit


def refused(instead: str) -> Callable[..., NoReturn]:
    """Return a method that raises an error. ``instead`` is the message, which says what to call instead."""

    def method(self: object, *arguments: object, **settings: object) -> NoReturn:
        raise InvalidArgument(instead)

    return method


def one_of(kind: str, value: T, known: Iterable[object]) -> T:
    """Return the value if it is a known name, or else raise an error that suggests the nearest known name."""
    names = tuple(known)
    if value not in names:
        raise UnknownName(kind, value, map(str, names))
    return value


def is_number(value: object) -> bool:
    """Return whether the value is a finite real number; True and False do not count."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def as_integer(value: Any, name: str) -> int:
    """Convert a value of any integer type to a Python int."""
    try:
        if not isinstance(value, bool):
            return operator.index(value)
    except TypeError:
        pass
    raise InvalidArgument(
        f"{name}={shown(value)} must be an integer; "
        f"{'write it in digits' if isinstance(value, str) else 'use int(…)'}"
    )


def as_number(value: Any, name: str) -> float:
    """Convert a value of any real type to a Python int or float."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise InvalidArgument(
            f"{name}={shown(value)} must be a number; "
            f"{'write it in digits' if isinstance(value, str) else 'use float(…)'}"
        )
    return int(value) if isinstance(value, int) else float(value)


def as_flag(value: Any, name: str) -> bool:
    """Convert a value of any boolean type to a Python bool."""
    flag = value.item() if hasattr(value, "item") else value
    if not isinstance(flag, bool):
        raise InvalidArgument(f"{name}={shown(value)} must be True or False")
    return flag


def as_scale(value: float | None, name: str) -> float | None:
    """Return the value if it is None or a finite number above 0, or else raise an error. None means the default."""
    # isfinite is not used, because torch.compile cannot trace it for symbolic numbers.
    if value is not None and not (isinstance(value, Real) and not isinstance(value, bool) and 0 < value < math.inf):
        raise InvalidArgument(f"{name}={shown(value)} must be a finite number above 0; omit {name} for the default")
    return value


def instance(value: object, kinds: Any, name: str, fix: str) -> None:
    """Raise an error unless the value is an instance of ``kinds``. ``fix`` says what is expected."""
    if not isinstance(value, kinds):
        raise InvalidArgument(f"{name} is {form(value)}; expected {fix}")


def tensors(**given: object) -> None:
    """Raise an error unless all arguments are tensors."""
    for name, value in given.items():
        instance(value, Tensor, name, "a tensor; use torch.tensor(…)")


def at_least(least: int, known: str = "") -> Callable[[Any, str], int]:
    """Return a check for integers of at least ``least``. ``known`` is appended to the error message."""

    def check(value: Any, name: str) -> int:
        if as_integer(value, name) < least:
            raise InvalidArgument(f"{name}={value} must be at least {least}{known}")
        return as_integer(value, name)

    return check


def such_that(holds: Callable[[Any], bool], must: str) -> Callable[[Any, str], None]:
    """Return a function that raises an error unless ``holds(value)``. The error message is ``{name}={value} must
    {must}``.
    """

    def check(value: Any, name: str) -> None:
        if not holds(value):
            raise InvalidArgument(f"{name}={shown(value)} must {must}")

    return check


def positive(fix: str) -> Callable[[Any, str], None]:
    """Return a check for finite numbers above 0. ``fix`` ends the error message."""
    return such_that(lambda value: is_number(value) and value > 0, f"be a finite number above 0; {fix}")


def even_from(least: int, known: str) -> Callable[[Any, str], None]:
    """Return a check for even integers of at least ``least``. ``known`` is appended to the error message."""
    return such_that(lambda n: n >= least and n % 2 == 0, f"be even and at least {least}; {known}")


Size = Annotated[int, at_least(1)]
Std = Annotated[
    float, such_that(lambda std: 0 <= std <= 1e30, "be between 0 and 1e30, so that entries are finite; use 0.02")
]
"""The standard deviation of the initial entries of a table."""
PLAIN: dict[Any, Callable[[Any, str], Any]] = {int: as_integer, float: as_number, bool: as_flag}
"""For each type, the function that checks a value and converts it to this type."""


def plain_types(annotation: Any) -> tuple[Any, ...]:
    """Return the types that an annotation allows, without the checks that ``Annotated`` adds."""
    plain = annotation.__origin__ if hasattr(annotation, "__metadata__") else annotation
    return get_args(plain) if isinstance(plain, UnionType) else (plain,)


def checked(annotation: Any, value: Any, name: str) -> Any:
    """Check a value against its annotation, and return the value converted to the annotated type."""
    if get_origin(annotation) is Literal:
        return one_of(name, value, get_args(annotation))
    types = [PLAIN[kind] for kind in plain_types(annotation) if kind in PLAIN]
    for check in (*types, *getattr(annotation, "__metadata__", ())):
        replacement = check(value, name)
        value = value if replacement is None else replacement
    return value


def argument(parameter: inspect.Parameter, value: Any) -> Any:
    """Return the value of a parameter, checked against its annotation. If the default is None, None is accepted."""
    if value is None and parameter.default is None:
        return None
    return checked(parameter.annotation, value, parameter.name)
