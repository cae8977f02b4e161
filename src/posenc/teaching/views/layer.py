"""Builds encodings from strings for the random layers in figures."""

from dataclasses import replace

import torch

from posenc.encodings.catalogue import ModelShape, build, settings_of
from posenc.encodings.encoding import Encoding
from posenc.encodings.text import Recipe, parse
from posenc.errors import InvalidArgument


def visible(text: str, shape: ModelShape, std: float, seed: int) -> Encoding:
    """Build the encoding from a string; the seed determines its random values.

    If the string omits the encoding's setting ``std``, the argument ``std`` is used, because nothing would be
    visible with the default of 0.02. Custom classes are not imported, because the string may come from a URL.
    """
    recipe = parse(text)
    if recipe.foreign:
        raise InvalidArgument(
            f"encoding={text!r} is a custom class, which figures do not import; build it in Python"
        )
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        return build(_enlarged(recipe, std), replace(shape, layers=1))


def python(text: str, shape: ModelShape, std: float) -> str:
    """Return the encoding as a line of Python that uses only public names."""
    given = ", ".join(f"{name}={getattr(shape, name)}" for name in ("width", "heads", "head_dim", "num_positions"))
    return f'posenc.encoding("{_enlarged(parse(text), std)}", {given}, layers=1)'


def _enlarged(recipe: Recipe, std: float) -> Recipe:
    if recipe.parts:
        return replace(recipe, parts=tuple((_enlarged(part, std), count) for part, count in recipe.parts))
    return recipe.with_(std=std) if "std" in settings_of(recipe) and recipe.get("std") is None else recipe
