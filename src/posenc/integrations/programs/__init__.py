"""One file a program: which of its releases are asked, and ``write``, the keys or fields that it takes.

Each writes the same frequencies and the same attention factor in the program's own words, or refuses: a key that a
program ignores is worse than none. What several of them need stands here.
"""

import math
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.write import Spelling, write
from posenc.scaling import LengthScaling, Scaling

NAMES = tuple(module.name for module in pkgutil.iter_modules(__path__))
"""The programs: the files of this folder."""
ORIGINAL = "original_max_position_embeddings"
PLAN = "write scaling.plan(total_length), which is fixed"


@dataclass(frozen=True)
class Releases:
    """Releases that the tests of real programs ask.

    Args:
        package: the wheel's name.
        versions: ascending.
        files: beginnings of the names of files that are taken out of each wheel; without any, the package is
            installed into the environment of all programs, and without what it asks for.
        requirements: exact versions that are installed there too.
    """

    package: str
    versions: tuple[str, ...]
    files: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()


def config_of(
    positions: ModelPositions,
    scaling: Scaling | LengthScaling | None,
    max_length: int | None,
    spelling: Spelling = "v5",
) -> tuple[Recipe, dict[str, Any]]:
    """The recipe of the rotary layers, all alike, and the config that says it."""
    scaled = positions if scaling is None else positions.with_scaling(scaling)
    if not scaled.rotary_recipes or not scaled.alike or scaled.layout or scaled.added_table:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} rotates {sorted(scaled.rotary_recipes) or 'nothing'}; one layer "
            "type in a language model is expected"
        )
    return scaled.rotary, write(positions, scaling, max_length=max_length, spelling=spelling)


def entry_of(positions: ModelPositions, config: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The rope dictionary under this key, as a dict of its own."""
    if FAMILIES[positions.model_type].fixed_base is not None:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has its base in its code, and no rope dictionary to write"
        )
    entry = dict(config[key] or {})
    if positions.scales and "llama_4_scaling_beta" in entry:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has llama_4_scaling_beta in its rope dictionary, where vLLM "
            "does not read it, and mlx-lm only under rope_parameters; serve the model's own config"
        )
    return entry


def with_pair(entry: dict[str, Any]) -> dict[str, Any]:
    """YaRN's entry with its attention factor as DeepSeek's pair, beside the second number that it may have."""
    if "attention_factor" not in entry:
        return entry
    scale, factor, second = entry["attention_factor"], entry["factor"], entry.get("mscale_all_dim", 0.0)
    if factor == 1:
        raise InvalidArgument(f"attention_factor={scale:g} has no place beside factor=1; use a factor above 1")
    pair = {
        "mscale": (scale * sharpening(factor, second) - 1) / (0.1 * math.log(factor)),
        "mscale_all_dim": second,
    }
    return {key: value for key, value in entry.items() if key != "attention_factor"} | pair


def sharpening(factor: float, amount: float = 1.0) -> float:
    """YaRN's attention factor, where nothing else is stated."""
    return 0.1 * amount * math.log(factor) + 1
