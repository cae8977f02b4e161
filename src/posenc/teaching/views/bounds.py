"""Bounds of a view's settings, declared in its signature: ``width: Annotated[int, Bounds(2, 1024)] = 64``."""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, Literal, ParamSpec, get_args, get_origin, get_type_hints

from posenc.arguments import one_of
from posenc.errors import InvalidArgument
from posenc.pictures.view import View

P = ParamSpec("P")

FAR = 2**31 - 1
"""The last position at which phases are exact."""


@dataclass(frozen=True)
class Bounds:
    """The range of a setting, from ``low`` to ``high``.

    If ``below`` names another setting, the value must also be less than that setting's value. If a setting has
    several numbers, the bounds apply to every number.
    """

    low: float
    high: float
    below: str = ""


Width = Annotated[int, Bounds(2, 1024)]
Length = Annotated[int, Bounds(2, 4096)]
Furthest = Annotated[int, Bounds(1, 8192)]
Position = Annotated[int, Bounds(0, FAR)]
Base = Annotated[float, Bounds(2, 1e9)]
Seed = Annotated[int, Bounds(0, FAR)]


def bounds(view: Callable[..., View]) -> dict[str, Bounds]:
    """Return the bounds of a view's settings by name; settings that are not numbers have no bounds."""
    return {
        name: note
        for name, hint in get_type_hints(view, include_extras=True).items()
        for note in getattr(hint, "__metadata__", ())
        if isinstance(note, Bounds)
    }


def bounded(view: Callable[P, View]) -> Callable[P, View]:
    """Make a view refuse settings outside their bounds, and strings that are not in a setting's ``Literal``."""
    signature, limits = inspect.signature(view), bounds(view)
    choices = {name: get_args(hint) for name, hint in get_type_hints(view).items() if get_origin(hint) is Literal}

    @wraps(view)
    def checked(*args: P.args, **kwargs: P.kwargs) -> View:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        check(limits, given.arguments)
        for name, known in choices.items():
            one_of(name, given.arguments[name], known)
        return view(*args, **kwargs)

    return checked


def check(limits: Mapping[str, Bounds], settings: Mapping[str, object]) -> None:
    """Raise an error if a setting is outside its bounds."""
    for setting, limit in limits.items():
        given, other = settings[setting], settings.get(limit.below)
        high = min(limit.high, other - 1) if isinstance(other, int) else limit.high
        values = given if isinstance(given, tuple) else (given,)
        for value in (value for value in values if isinstance(value, int | float)):
            within(setting, value, limit.low, high, f"; {limit.below} is {other}" if high < limit.high else "")


def arguments(name: str, figure: Callable[..., object], settings: Mapping[str, str]) -> dict[str, Any]:
    """Convert settings from strings to the types of the defaults in the figure's signature.

    Raises:
        UnknownName: a key of ``settings`` is not a setting of the figure, whose name is ``name``.
        InvalidArgument: a string is not a value of the setting's type.
    """
    parameters = inspect.signature(figure).parameters
    for setting in settings:
        one_of(f"setting of {name}", setting, parameters)
    return {setting: _value(setting, word, parameters[setting].default) for setting, word in settings.items()}


def _value(setting: str, word: str, default: object) -> object:
    """Convert a string to the type of the setting's default; a setting without a default stays a string."""
    if isinstance(default, str) or default is inspect.Parameter.empty:
        return word
    kind = int if default is None else type(default)
    readers: dict[type, tuple[str, Callable[[str], object]]] = {
        int: ("a whole number", _whole),
        float: ("a number", float),
        bool: ("true or false", {"true": True, "1": True, "false": False, "0": False}.__getitem__),
        tuple: ("numbers with commas", lambda word: tuple(map(int, re.split("[,-]", word)))),
    }
    expected, read = readers[kind]
    try:
        return read(word)
    except (ValueError, KeyError, OverflowError):
        raise InvalidArgument(f"{setting}={word[:40]!r} must be {expected}") from None


def _whole(word: str) -> int:
    """Return the whole number in a string, which may be written as ``1e6``."""
    value = float(word)
    if not value.is_integer():
        raise ValueError(word)
    return int(value)


def within(name: str, value: float, low: float, high: float, why: str = "") -> None:
    """Raise an error if a setting, or a number computed from a view's settings, is out of range."""
    if not low <= value <= high:
        raise InvalidArgument(f"{name}={value:.12g} must be between {low:.12g} and {high:.12g}{why}")
