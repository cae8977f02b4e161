"""Every view by name, with defaults that answer a question as they stand, and made from words."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from posenc.arguments import one_of
from posenc.errors import InvalidArgument
from posenc.pictures.view import View
from posenc.teaching.views import (
    added,
    alibi,
    attention,
    buckets,
    cache,
    counter,
    exactness,
    failures,
    order_blind,
    patches,
    remapped,
    rotation,
    scores,
    sinusoidal,
    sums,
    table,
)
from posenc.teaching.views import scaling as scaling

VIEWS: dict[str, Callable[..., View]] = {
    "heatmap": sinusoidal.heatmap,
    "hands": sinusoidal.hands,
    "waves": sinusoidal.waves,
    "falloff": sinusoidal.falloff,
    "shift": sinusoidal.shift,
    "score": scores.distance,
    "bias": alibi.bias,
    "weights": alibi.weights,
    "added": added.distance,
    "attention": attention.maps,
    "shuffle": order_blind.shuffle,
    "cat-sat": order_blind.cat_sat,
    "sums": sums.apart,
    "counter": counter.bits_and_hands,
    "lookup": table.lookup,
    "shift-both": rotation.shift_both,
    "every-pair": rotation.every_pair,
    "pairings": rotation.pairings,
    "floor": exactness.floor,
    "buckets": buckets.shared,
    "patches": patches.patches,
    "scaling": scaling.scaled,
    "remapped": remapped.distances,
    "cache": cache.angles,
    "counting": failures.counting,
    "turned": failures.scores,
}


def make(name: str, settings: Mapping[str, str]) -> View:
    """The view of this name with settings given as words, as a command line or an address has them.

    Raises:
        UnknownName: no view, or no setting of it, has that name.
        InvalidArgument: a word that is not a value of the setting's kind, or a value out of range.
    """
    one_of("view", name, VIEWS)
    return VIEWS[name](**arguments(name, VIEWS[name], settings))


def arguments(name: str, figure: Callable[..., object], settings: Mapping[str, str]) -> dict[str, Any]:
    """Settings given as words, as values of the kinds that the figure's defaults are."""
    parameters = inspect.signature(figure).parameters
    for setting in settings:
        one_of(f"setting of {name}", setting, parameters)
    return {setting: _value(setting, word, parameters[setting].default) for setting, word in settings.items()}


def _value(setting: str, word: str, default: object) -> object:
    """The word as the kind of value that the default is; a setting without default value is a whole number."""
    kind: type = int if default is None else type(default)
    try:
        if kind is bool:
            return {"true": True, "false": False}[word.lower()]
        if kind is tuple:
            return tuple(int(part) for part in word.split(","))
        return kind(word)
    except (ValueError, KeyError):
        expected = {int: "a whole number", float: "a number", bool: "true or false", tuple: "numbers with commas"}
        raise InvalidArgument(f"{setting}={word!r} is not {expected[kind]}") from None
