"""All views by name, and a function that makes a view from settings given as strings."""

from collections.abc import Callable, Mapping

from posenc.arguments import one_of
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
from posenc.teaching.views.bounds import arguments

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
    """Return the view with this name for settings that are strings from a command line or a URL.

    Raises:
        UnknownName: there is no view with this name, or the view has no such setting.
        InvalidArgument: a string is not a value of the setting's type, or is out of range.
    """
    one_of("view", name, VIEWS)
    return VIEWS[name](**arguments(name, VIEWS[name], settings))
