"""llama.cpp: metadata and tensors of a GGUF file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.model_positions import ModelPositions, softmax_factor
from posenc.integrations.huggingface.scaling import parameters_from, per_pair
from posenc.integrations.programs import PLAN, Releases, config_of, sharpening
from posenc.scaling import DynamicNTK, LengthScaling, LongRoPE, Scaling

RELEASES = Releases("xllamacpp", ("2026.10.11549",))
"""A binding whose wheel has the shared library."""


@dataclass(frozen=True)
class Fields:
    """Metadata and tensors of a GGUF file that say its positions.

    Args:
        values: by key; numbers and text.
        tensors: by name, float32.
    """

    values: Mapping[str, int | float | str]
    tensors: Mapping[str, Float[Tensor, " pairs"]] = field(default_factory=dict)

    def add_to(self, writer: Any) -> None:
        """Put them into a ``gguf.GGUFWriter``."""
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        for key, value in self.values.items():
            add[type(value)](key, value)
        for name, tensor in self.tensors.items():
            writer.add_tensor(name, tensor.numpy())


def write(
    positions: ModelPositions,
    scaling: Scaling | LengthScaling | None = None,
    *,
    architecture: str = "llama",
    max_length: int | None = None,
) -> Fields:
    """The fields that llama.cpp reads of a rotation, by the names of the GGUF specification.

    Linear and YaRN have a type of their own; LongRoPE two tensors; everything else that is fixed is a factor per
    pair, ``rope_freqs.weight``, by which llama.cpp divides. So is a YaRN with other ends than 32 and 1, which few
    architectures read. The attention factor is ``attn_factor``, which llama.cpp multiplies by YaRN's own
    0.1·ln s + 1. An architecture without those tensors fails to load a file that has them.

    Args:
        positions, scaling, max_length: as in ``huggingface.write``.
        architecture: the prefix of the keys, llama.cpp's name of the family.

    Raises:
        InvalidArgument: dynamic scaling, and pairs that stand still; what stands in other fields: windows, sections
            (M-RoPE), scales of queries; in the DeepSeek families any scaling, whose second number llama.cpp takes
            together with the first.
    """
    recipe, config = config_of(positions, scaling, max_length)
    now, family = recipe.get("scaling"), FAMILIES[positions.model_type]
    elsewhere = {"windows": any(positions.windows), "sections": recipe.get("axes"), "scales": positions.scales}
    if names := [name for name, there in elsewhere.items() if there]:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has {' and '.join(names)}, which are not written here; take the "
            "fields of llama.cpp's own converter"
        )
    if isinstance(now, DynamicNTK):
        raise InvalidArgument(f"{now} is not in llama.cpp; {PLAN}")
    entry = parameters_from(now, recipe.get("rotary_dim"), recipe.get("base"))
    if family.mscale_scores and (entry["rope_type"] != "default" or softmax_factor(recipe) != 1):
        raise InvalidArgument(
            f"{now} of model_type {positions.model_type!r} multiplies the scores, too, and llama.cpp has one "
            "number for both; use Default() or NTK, or take the fields of llama.cpp's own converter"
        )
    longest = max_length or config[family.length]
    values, tensors = _gguf_scaling(recipe, entry, longest)
    rope = {"dimension_count": recipe.get("rotary_dim"), "freq_base": float(entry["rope_theta"])}
    rope |= {f"scaling.{key}": value for key, value in values.items()}
    return Fields(
        {f"{architecture}.context_length": longest, **{f"{architecture}.rope.{k}": v for k, v in rope.items()}},
        {f"rope_{name}.weight": torch.tensor(factors, dtype=torch.float32) for name, factors in tensors.items()},
    )


def _gguf_scaling(
    recipe: Recipe, entry: Mapping[str, Any], longest: int
) -> tuple[dict[str, int | float | str], dict[str, Sequence[float]]]:
    """The fields of a scaling below ``rope.scaling``, and its lists of factors, from its rope dictionary."""
    now, kind = recipe.get("scaling"), entry["rope_type"]
    if kind == "default":
        return {}, {}
    if kind == "linear":
        return {"type": kind, "factor": float(now.factor)}, {}
    if isinstance(now, LongRoPE):
        scale = now.plan(longest).frequencies(recipe.get("rotary_dim"), recipe.get("base")).attention_factor
        lists: dict[str, Sequence[float]] = {"factors_short": now.short_factors, "factors_long": now.long_factors}
        length = {"original_context_length": now.original_length}  # a factor would divide beside the lists
        return {"type": kind, **length, "attn_factor": float(scale)}, lists
    if kind == "yarn" and now.truncate and (now.beta_fast, now.beta_slow) == (32, 1):
        lengths = {"factor": float(now.factor), "original_context_length": now.original_length}
        ends = {"yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0}
        return {"type": kind, **lengths, **ends, "attn_factor": now.scale / sharpening(now.factor)}, {}
    factors = per_pair(now, recipe.get("rotary_dim"), recipe.get("base"))
    scale = float(factors["attention_factor"])
    return {} if scale == 1 else {"attn_factor": scale}, {"freqs": factors["long_factor"]}
