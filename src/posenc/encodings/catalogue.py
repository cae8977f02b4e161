"""The catalogue of all encodings by name, with functions that build a module from a name or a string."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch

from posenc.arguments import argument, bound, one_of, parameters_of, plain_types
from posenc.encodings.alibi import ALiBi
from posenc.encodings.axes import MAPS
from posenc.encodings.channel_rotary import ChannelRotary
from posenc.encodings.compose import Stack
from posenc.encodings.cope import CoPE
from posenc.encodings.deberta import DeBERTa
from posenc.encodings.decomposed import Decomposed
from posenc.encodings.encoding import Encoding
from posenc.encodings.fire import FIRE
from posenc.encodings.fope import FoPE
from posenc.encodings.foreign import classes_in, load
from posenc.encodings.fox import FoX
from posenc.encodings.inkling import Inkling
from posenc.encodings.kerple import Kerple
from posenc.encodings.layers import Layers, for_layers
from posenc.encodings.layoutlm import LayoutLM
from posenc.encodings.learned import Learned
from posenc.encodings.learned_grid import LearnedGrid
from posenc.encodings.learned_rotary import LearnedRotary
from posenc.encodings.nope import NoPE
from posenc.encodings.pope import PoPE
from posenc.encodings.query_scale import QueryScale
from posenc.encodings.rotary import Rotary
from posenc.encodings.sandwich import Sandwich
from posenc.encodings.shaw import Shaw
from posenc.encodings.sinusoidal import Sinusoidal
from posenc.encodings.sinusoidal_grid import SinusoidalGrid
from posenc.encodings.ssmax import SSMax
from posenc.encodings.t5 import T5
from posenc.encodings.text import Recipe, parse
from posenc.encodings.transformer_xl import TransformerXL
from posenc.encodings.window import Window
from posenc.encodings.xpos import XPos
from posenc.errors import InvalidArgument
from posenc.names import ALIASES, REMAPS
from posenc.scaling import LengthScaling, Scaling, planned
from posenc.scaling.registry import make as make_scaling


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a transformer. An encoding uses only the sizes that it needs.

    Args:
        width: C, channels of the token embeddings.
        heads: H, query heads.
        head_dim: D, channels of one head.
        num_positions: rows of a learned table, usually the trained length.
        layers: the number of layers of the model.
    """

    width: int | None = None
    heads: int | None = None
    head_dim: int | None = None
    num_positions: int | None = None
    layers: int | None = None


FACTS = tuple(f.name for f in fields(ModelShape))


@dataclass(frozen=True)
class Entry:
    """An entry of the catalogue.

    Args:
        make: the class of the encoding.
        fresh: settings for the encoding of a new transformer; they replace the class's defaults or add to them.
    """

    make: Callable[..., Encoding]
    fresh: Mapping[str, Any] = field(default_factory=dict)


CATALOGUE: dict[str, Entry] = {
    "nope": Entry(NoPE),
    "sinusoidal": Entry(Sinusoidal),
    "learned": Entry(Learned),
    "rotary": Entry(Rotary, {"pairing": "half"}),
    "rotary-learned": Entry(LearnedRotary, {"pairing": "half"}),
    "xpos": Entry(XPos, {"pairing": "half"}),
    "pope": Entry(PoPE),
    "fope": Entry(FoPE, {"pairing": "half"}),
    "alibi": Entry(ALiBi),
    "t5": Entry(T5),
    "kerple": Entry(Kerple),
    "sandwich": Entry(Sandwich),
    "fire": Entry(FIRE),
    "shaw": Entry(Shaw),
    "inkling": Entry(Inkling),
    "transformer-xl": Entry(TransformerXL),
    "deberta": Entry(DeBERTa),
    "cope": Entry(CoPE),
    "fox": Entry(FoX),
    "window": Entry(Window),
    "decomposed": Entry(Decomposed),
    "layoutlm": Entry(LayoutLM),
    "query-scale": Entry(QueryScale),
    "channel-rotary": Entry(ChannelRotary, {"layout": "gemma4-vision"}),
    "learned-grid": Entry(LearnedGrid, {"tables": "sum"}),
    "sinusoidal-grid": Entry(SinusoidalGrid),
    "ssmax": Entry(SSMax),
}


def encoding(
    text: str,
    *,
    width: int | None = None,
    heads: int | None = None,
    head_dim: int | None = None,
    num_positions: int | None = None,
    layers: int | None = None,
    total_length: int | None = None,
    **settings: Any,
) -> Encoding:
    """Build the encoding that a string describes, for a new transformer.

    Examples: ``encoding("rotary", head_dim=64, base=500_000)``; ``encoding("layers(rotary*3 + nope)",
    head_dim=64)``. Pass all the model sizes that you know. Each encoding uses only the sizes that it needs (see
    ``ModelShape``), so the same call works for every string. All other arguments are settings of the class. The
    pairing is ``"half"`` unless you set it; for a checkpoint, set the pairing with which it was trained.
    ``total_length`` is the planned length of a request (prompt plus answer), for scalings that depend on it. With
    ``layers``, an encoding whose parameters differ from layer to layer is returned as ``Layers`` for this number
    of layers.

    Raises:
        UnknownName: no encoding or setting has this name; the message lists the nearest names.
        InvalidArgument: a size is missing, or a value is out of range.
    """
    recipe = parse(text)
    if settings and recipe.parts:
        raise InvalidArgument(
            f"{', '.join(settings)} cannot be set outside {recipe.name}(…); write the setting inside the "
            "parentheses"
        )
    shape = ModelShape(width, heads, head_dim, num_positions, layers)
    complete = replace(recipe, settings=(*recipe.settings, *settings.items()))
    return for_layers(build(complete, shape, total_length=total_length), layers)


def build(recipe: Recipe, shape: ModelShape, *, total_length: int | None = None) -> Encoding:
    """Build the module that a recipe describes, for a model of this shape.

    ``total_length`` is the planned length of a request, for scalings that depend on it. Building a recipe with a
    custom class imports the module of that class.
    """
    if recipe.name == "stack":
        return Stack(*(build(part, shape, total_length=total_length) for part, _ in recipe.parts))
    if recipe.name == "layers":
        return _layers(recipe, shape, total_length)
    if recipe.name == "local":
        raise InvalidArgument(
            f"{recipe} limits the keys that a layer sees, which is allowed only in layers(…); write "
            f"layers({recipe})"
        )
    if recipe.name in REMAPS:
        return remap(recipe, *(build(part, shape, total_length=total_length) for part, _ in recipe.parts))
    entry = lookup(recipe.name)
    given = {key: _valued(key, value, total_length) for key, value in named(recipe, entry).items()}
    return fresh(entry, given, shape)


def _layers(recipe: Recipe, shape: ModelShape, total_length: int | None) -> Layers:
    """Build ``Layers`` from a pattern. Layer types are named by their canonical strings, such as ``local(rotary,
    window=1024)``; ``local`` sets the window or chunk.
    """
    count = sum(n for _, n in recipe.parts)
    if count > MOST_LAYERS:
        raise InvalidArgument(
            f"the pattern has {count} layers; it must have at most {MOST_LAYERS}; write only the part that repeats"
        )
    by_type = {str(canonical(part)): part for part, _ in recipe.parts}
    local = {name: part for name, part in by_type.items() if part.name == "local"}
    of_layers = {
        setting: {name: part.get(key) for name, part in local.items() if part.get(key) is not None}
        for setting, key in (("windows", "window"), ("chunks", "chunk"))
    }
    encodings = {
        name: build(part.parts[0][0] if name in local else part, shape, total_length=total_length)
        for name, part in by_type.items()
    }
    layer_types = tuple(str(canonical(part)) for part, n in recipe.parts for _ in range(n))
    return Layers(encodings, layer_types, layers=shape.layers, **of_layers)


def remap(recipe: Recipe, *rotary: Encoding) -> Encoding:
    """Build the encoding of a recipe such as ``dca(rotary, …)``, which remaps the positions of ``rotary``."""
    entry = Entry(load(REMAPS[recipe.name], Encoding, "posenc.Encoding"))
    if not rotary:
        raise InvalidArgument(f"{recipe} does not name the encoding to remap; write {recipe.name}(rotary, …)")
    return entry.make(*rotary, **named(replace(recipe, parts=()), entry))


MOST_LAYERS = 1 << 12
"""The largest number of layers in a pattern, before the pattern is repeated."""

MOST = {"heads": 1 << 16, "head_dim": 1 << 16, "width": 1 << 16, "layers": MOST_LAYERS}
"""The largest value of each setting that determines memory use; other integer settings may be at most 2^24."""

MOST_NUMBERS = 1 << 33
"""The largest total size of an encoding's parameters, in elements: 32 GiB in float32."""


def fresh(entry: Entry, given: Mapping[str, Any], shape: ModelShape) -> Encoding:
    """Build the module of an entry with these settings, and with sizes from the shape."""
    known = {name: fact for name, fact in vars(shape).items() if fact is not None}
    facts = {name: known[name] for name in parameters_of(entry.make) if name in known}
    settings = bound(entry.make, (), {**facts, **entry.fresh, **given}).arguments
    sizes = [value for value in settings.values() if isinstance(value, int)]
    for name, value in settings.items():
        most, types = MOST.get(name, 1 << 24), plain_types(parameters_of(entry.make)[name].annotation)
        if int in types and isinstance(value, int) and value > most:
            raise InvalidArgument(f"{name}={value} must be at most {most}; use a smaller value")
    if max(sizes, default=0) > 1 << 16:
        with torch.device("meta"):
            numbers = sum(parameter.numel() for parameter in entry.make(**settings).parameters())
        if numbers > MOST_NUMBERS:
            raise InvalidArgument(f"a size of {max(sizes)} creates {numbers} parameters; use a smaller value")
    return entry.make(**settings)


def lookup(name: str) -> Entry:
    """Return the entry for a name or an alias, or for ``module:Class``, whose module is then imported."""
    if ":" in name:
        return Entry(load(name, Encoding, "posenc.Encoding"))
    return (
        CATALOGUE.get(ALIASES.get(name, name))
        or CATALOGUE[
            one_of("encoding", name, (*CATALOGUE, *classes_in(name)))  # unknown names only: classes_in reads a file
        ]
    )


def named(recipe: Recipe, entry: Entry) -> dict[str, Any]:
    """Return the settings of a recipe by name, after checking the names against the parameters of the class."""
    known = parameters_of(entry.make)
    order = [name for name in known if name not in FACTS]
    given: dict[str, Any] = {}
    for key, value in recipe.settings:
        name = (order[int(key)] if int(key) < len(order) else key) if key.isdigit() else key
        if name.isdigit():
            raise InvalidArgument(
                f"{recipe} has {int(key) + 1} settings, but {recipe.name} accepts only {len(order)}"
            )
        one_of(f"setting of {recipe.name}", name, known)
        if name in given:
            raise InvalidArgument(f"{recipe} sets {name} twice; set it once")
        given[name] = argument(known[name], value)
    return given


def settings_of(recipe: Recipe) -> tuple[str, ...]:
    """Return the names of all settings of a recipe's class, except the sizes of the model."""
    return tuple(name for name in parameters_of(lookup(recipe.name).make) if name not in FACTS)


def canonical(recipe: Recipe, *, full: bool = False) -> Recipe:
    """Return the canonical form of a recipe: without aliases, and with every setting in the form name=value.
    Settings that equal their defaults are omitted unless ``full`` is True.

    The recipe of a custom class is returned unchanged, because reading its settings would import its module.
    """
    if recipe.parts:
        return replace(recipe, parts=tuple((canonical(part, full=full), n) for part, n in recipe.parts))
    if recipe.foreign:
        return recipe
    name = ALIASES.get(recipe.name, recipe.name)
    entry = lookup(name)
    given = {key: _valued(key, value, None, plan=False) for key, value in named(recipe, entry).items()}
    defaults = {
        key: entry.fresh.get(key, parameter.default)
        for key, parameter in parameters_of(entry.make).items()
        if key not in FACTS and (key in entry.fresh or parameter.default is not inspect.Parameter.empty)
    }
    differing = {k: v for k, v in given.items() if k not in defaults or v != defaults[k]}
    settings = {**defaults, **given} if full else differing
    return Recipe(name, tuple(sorted((k, v) for k, v in settings.items() if v is not None)))


def canonical_text(text: str) -> str:
    """Return the canonical string of an encoding, such as ``"rotary"`` for ``"rope(base=10000)"``."""
    return str(canonical(parse(text)))


def _valued(key: str, value: Any, total_length: int | None, plan: bool = True) -> Any:
    """Return the value of a setting, after parsing scalings and axis maps from their strings."""
    if isinstance(value, (Recipe, str)) and key in ("scaling", "axes"):
        recipe = Recipe(value) if isinstance(value, str) else value
        positional, by_name = recipe.arguments
        if key == "scaling":
            value = make_scaling(recipe.name, *positional, **by_name)
        else:
            make = MAPS[one_of("axis map", recipe.name, MAPS)]
            settings = bound(make, tuple(positional), by_name)
            value = make(*settings.args, **settings.kwargs)
    return planned(value, total_length) if plan and isinstance(value, Scaling | LengthScaling) else value
