"""Views of a real model, from its config: what each layer does, and the effect of a program that misreads the
config.
"""

import json
import math
import re
from collections import Counter
from functools import lru_cache
from typing import Annotated

import torch
from torch import Tensor

import posenc
from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.model_positions import NOPE
from posenc.integrations.inspection import Inspection, inspect
from posenc.integrations.words import longest
from posenc.pictures.numbers import THIN, plain
from posenc.pictures.view import Axis, Line, Lines, View, counted
from posenc.scaling import Default
from posenc.teaching.views.bounds import FAR, Bounds, bounded, within

PYTHON = """\
import json
from posenc.integrations import huggingface

positions = huggingface.read(json.loads({config!r}))
print(positions.recipes, positions.layer_types, positions.windows)"""


def layers(config: str) -> View:
    """Show the longest wavelength and the visible tokens of every layer, compared with the trained length."""
    given, inspection = _inspected(config)
    positions, table = inspection.positions, inspection.table
    seen = [window or positions.original_length for window in positions.windows]
    waves = [
        longest(layer) if layer.frequencies else math.nan
        for layer in (table.layers[name] for name in table.layer_types)
    ]
    spans = Counter(
        ("see every token" if window is None else f"see {window} tokens")
        + (" and have no positional encoding" if positions.recipes[kind] == NOPE else "")
        for kind, window in zip(positions.layer_types, positions.windows, strict=True)
    )
    counts = ", ".join(f"{count} of {spans.total()} layers {span}" for span, count in spans.most_common())
    return View(
        f"{positions.model_type}: {counts}",
        (
            Lines(
                "layers",
                (
                    Line("longest wavelength", torch.tensor(waves, dtype=torch.float64)),
                    Line("tokens it sees", torch.tensor(seen, dtype=torch.float64)),
                ),
                counted("layer", len(positions.layer_types)),
                "tokens",
                y_log=True,
                levels=((float(positions.original_length), "trained length"),),
                apart=True,
            ),
        ),
        {
            "trained length": positions.original_length,
            "in words": re.sub(r"(?<=\d),(?=\d)", THIN, inspection.answer),
        },
        PYTHON.format(config=json.dumps(given)),
    )


MISREAD_PYTHON = """\
import torch, posenc

right, *wrong = (
    {texts}
)
at, k = torch.tensor([{distance}]), torch.randn({shape}, generator=torch.Generator().manual_seed(0))
for text in wrong:
    one, other = (posenc.encoding(each, total_length={length}).rotate_keys(k, at) for each in (right, text))
    print(torch.cosine_similarity(one, other, -1).mean())"""
DRAWS = 64
"""The number of random keys whose cosines are averaged; the error of the mean is about 1/√(64·head_dim)."""


@bounded
def misread(config: str, distance: Annotated[int, Bounds(1, 1_000_000)] = 1000) -> View:
    """Show, at each distance, how far the keys that a program rotates are from the right keys if the program
    misreads one setting.

    The view shows the mean cosine between keys rotated as in the config and keys rotated by the program: 1 if
    the keys are equal, 0 if they are unrelated.
    """
    positions = _inspected(config)[1].positions
    if not positions.rotary_recipes:
        raise InvalidArgument(
            f"{positions.model_type} has no rotary layers; paste the config.json of a model with RoPE"
        )
    length, right = positions.max_length, positions.rotary
    within("max_position_embeddings", length, 2, FAR)
    here = min(distance, length - 1)
    spread = torch.logspace(0, math.log10(length - 1), 60).long().clamp(max=length - 1)
    at = torch.cat((spread, torch.tensor([here]))).unique()  # the mark is at a point of every curve
    shape = (DRAWS, 1, 1, right.get("head_dim"))
    k = torch.randn(shape, generator=torch.Generator().manual_seed(0))

    def cosines(at: Tensor, wrong: Recipe) -> Tensor:
        ropes = (posenc.encoding(str(recipe), total_length=length) for recipe in (right, wrong))
        one, other = (rope.rotate_keys(k.expand(-1, -1, len(at), -1), at) for rope in ropes)
        return torch.cosine_similarity(one, other, -1).mean((0, 1)).double()

    misreadings = _misreadings(right)
    curves = {name: cosines(at, wrong) for name, wrong in misreadings.items()}
    values = {name: float(curve[at == here]) for name, curve in curves.items()}
    ends = [plain(end(values.values()), 2) for end in (min, max)]
    return View(
        f"At distance {here}, keys with one wrong setting have a cosine of {' to '.join(dict.fromkeys(ends))}",
        (
            Lines(
                "cosine to the right rotation",
                tuple(Line(name, curve) for name, curve in curves.items()),
                Axis("distance", tuple(map(float, at.tolist())), "tokens", log=True),
                "cosine",
                marks=((float(here), "this distance"),),
            ),
        ),
        {"lowest cosine at this distance": min(values.values()), **values},
        MISREAD_PYTHON.format(
            texts=",\n    ".join(repr(str(recipe)) for recipe in (right, *misreadings.values())),
            distance=here,
            shape=shape,
            length=length,
        ),
    )


def _misreadings(recipe: Recipe) -> dict[str, Recipe]:
    """Return the recipe of a program that makes only one mistake, for each known mistake by name."""
    wrong = {
        "the wrong pairing": recipe.with_(
            pairing="half" if recipe.get("pairing") == "interleaved" else "interleaved"
        ),
        "base 10 000 by default": recipe.with_(base=10_000),
        "ignoring the scaling": recipe.with_(scaling=Default()),
    }
    return {mistake: used for mistake, used in wrong.items() if used != recipe}


@lru_cache(maxsize=8)
def _inspected(config: str) -> tuple[dict[str, object], Inspection]:
    """Return the pasted config, and the position settings that ``read`` returns for it."""
    try:
        given = json.loads(config)
    except (ValueError, RecursionError) as error:  # not JSON, a number is too long, or nesting too deep
        raise InvalidArgument(f"config is not JSON ({error}); paste a model's whole config.json") from error
    if not isinstance(given, dict):
        raise InvalidArgument(
            f"config is a {type(given).__name__}; paste a model's config.json, which begins with {{"
        )
    return given, inspect(given)
