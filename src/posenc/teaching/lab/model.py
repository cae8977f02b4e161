"""What does a real model do in each of its layers? Read from a pasted config.json."""

import json
import math
from typing import TYPE_CHECKING

from posenc.errors import InvalidArgument

if TYPE_CHECKING:
    from posenc.pictures.view import View

PYTHON = """\
import json
from posenc.integrations import huggingface

positions = huggingface.read(json.loads({config!r}))
print(positions.recipes, positions.layer_types, positions.windows)"""


def layers(config: str) -> "View":
    """The longest wavelength and the window of every layer, beside the trained length, and what can go wrong."""
    import torch

    from posenc.pictures.view import Line, Lines, View, counted
    from posenc.teaching.inspect import inspect, longest

    try:
        given = json.loads(config)
    except (ValueError, RecursionError) as error:  # no JSON, too long a number, too deep
        raise InvalidArgument(f"config is no JSON ({error}); paste a model's whole config.json") from error
    if not isinstance(given, dict):
        raise InvalidArgument(
            f"config is a {type(given).__name__}; paste a model's config.json, which begins with {{"
        )
    inspection = inspect(given)
    positions = inspection.positions
    # A line a kind: layers of two kinds have nothing between them that a line could join.
    values = {
        "longest wavelength" + (f", {name}" if len(positions.rotary_recipes) > 1 else ""): [
            longest(recipe, positions) if kind == name else math.nan for kind in positions.layer_types
        ]
        for name, recipe in positions.rotary_recipes.items()
    }
    values["window"] = [float(window or math.nan) for window in positions.windows]
    values["trained length"] = [float(positions.original_length)] * len(positions.layer_types)
    lines = tuple(
        Line(name, torch.tensor(row, dtype=torch.float64))
        for name, row in values.items()
        if not all(map(math.isnan, row))
    )
    readouts: dict[str, float | str] = {
        name: f"{positions.layer_types.count(name)} layers" for name in positions.recipes
    }
    readouts["trained length"] = positions.original_length
    readouts |= {f"risk {i}": words for i, words in enumerate(inspection.risks, 1)}
    return View(
        inspection.answer,
        (Lines("layers", lines, counted("layer", len(positions.layer_types)), "tokens", y_log=True),),
        readouts,
        PYTHON.format(config=json.dumps(given)),
    )
