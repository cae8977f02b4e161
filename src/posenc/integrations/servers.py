"""A model's positions as the keys of other programs: vLLM's overrides, MLX's config, llama.cpp's GGUF fields.

Each says the same frequencies and the same attention factor in its own words, or refuses: a key that a program
ignores is worse than none.
"""

import math
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
from posenc.integrations.huggingface.write import Spelling, rope_dictionary, write
from posenc.scaling import DynamicNTK, LengthScaling, LongRoPE, Scaling, YaRN

ORIGINAL = "original_max_position_embeddings"


def vllm(
    positions: ModelPositions, scaling: Scaling | LengthScaling | None = None, *, max_length: int | None = None
) -> dict[str, Any]:
    """What vLLM takes as ``--hf-overrides``: ``rope_parameters`` and ``max_position_embeddings``.

    Of a composite model both are nested under the keys of its language model, where vLLM reads them. YaRN's
    attention factor a stands there twice, since vLLM's releases up to 0.29 read ``attn_factor``, which they
    multiply by their own 0.1·ln s + 1, and newer ones ``attention_factor``; the DeepSeek families, which vLLM runs
    with a class of their own, have it in ``mscale``. For lists of factors it is ``short_mscale`` and
    ``long_mscale``. vLLM multiplies the length by the factor of linear scaling, so that it is divided by it here.
    Windows and scales of queries stay as the model's own config has them.

    Args:
        positions, scaling, max_length: as in ``write``.

    Raises:
        InvalidArgument: what vLLM does not compute, or computes otherwise: dynamic scaling, whose base it fixes
            once for all requests; pairs that stand still; a list of factors for neighbours, or for a part of the
            head; scaled sections (M-RoPE); scales of queries in the rope dictionary; YaRN past factor × original
            length; in the DeepSeek families everything but YaRN with rounded ends.
    """
    recipe, written = _written(positions, scaling, max_length)
    family, now = FAMILIES[positions.model_type], recipe.get("scaling")
    entry = _entry(positions, written, "rope_parameters")
    longest, kind = written[family.length], entry["rope_type"]
    _check_vllm(positions, recipe, entry, longest)
    if kind == "longrope":
        scale = entry.pop("attention_factor", None) or now.plan(longest).attention_factor
        entry |= {"short_mscale": scale, "long_mscale": scale}
    elif kind == "yarn" and family.mscale_scores:
        entry = _paired(entry)
    elif kind == "yarn":
        entry |= {"attention_factor": now.scale, "attn_factor": now.scale / _sharpening(now.factor)}
    elif kind == "linear":
        entry["factor"] = float(now.factor)  # vLLM fails at an int
        longest = longest if (scaling, max_length) == (None, None) else int(longest / now.factor)
    if positions.path:  # where vLLM lays keys over those of the file
        entry = {k: None for k in rope_dictionary(positions.source) if k != "partial_rotary_factor"} | entry
    nested: dict[str, Any] = {family.length: longest, "rope_parameters": entry}
    for key in reversed(positions.path):
        nested = {key: nested}
    return nested


def _check_vllm(positions: ModelPositions, recipe: Recipe, entry: Mapping[str, Any], longest: int) -> None:
    """Refuse what vLLM does not compute, or computes otherwise."""
    kind, now = entry["rope_type"], recipe.get("scaling")
    instead = {"dynamic": _PLAN, "proportional": "use Linear, Llama3 or YaRN"}
    if kind in instead:
        raise InvalidArgument(f"{now} is not what vLLM computes under {kind!r}; {instead[kind]}")
    own_class = FAMILIES[positions.model_type].mscale_scores
    if own_class and (kind not in ("default", "yarn") or not entry.get("truncate", True)):
        raise InvalidArgument(
            f"vLLM runs {now} of model_type {positions.model_type!r} as a YaRN with rounded ends; use such a YaRN"
        )
    if recipe.get("axes") and (kind != "default" or "mrope_section" not in entry):
        raise InvalidArgument(
            f"vLLM rotates the sections of {positions.model_type!r} only as rope_type 'default' with "
            f"mrope_section, and this is {now}; use Default() or NTK, and state mrope_section"
        )
    whole_halves = recipe.get("pairing") == "half" and recipe.get("rotary_dim") == recipe.get("head_dim")
    if kind == "longrope" and not whole_halves:
        raise InvalidArgument(
            "vLLM has lists of factors for whole heads of halves alone; use Linear, Llama3 or YaRN"
        )
    if kind == "yarn" and longest > math.ceil(now.factor * now.original_length):
        raise InvalidArgument(
            f"max_length={longest} is above factor={now.factor:g} times original_length={now.original_length}, "
            "where vLLM's table ends; use a larger factor"
        )


def mlx(
    positions: ModelPositions, scaling: Scaling | LengthScaling | None = None, *, max_length: int | None = None
) -> dict[str, Any]:
    """The config.json that mlx-lm reads, in its older spelling: ``rope_theta`` beside ``rope_scaling``.

    mlx-lm has no attention factor beside a list of factors; it takes √(1 + ln s/ln L) from the two lengths, which
    is 1 where they are equal, and it always uses the long list. YaRN's factor a goes into ``mscale``, as
    a = (0.1·mscale·ln s + 1)/(0.1·mscale_all_dim·ln s + 1).

    Raises:
        InvalidArgument: dynamic scaling, an unrounded ramp, and lists of factors with another attention factor;
            sections (M-RoPE), which mlx-lm rotates as if there were none; scales of queries in the rope dictionary;
            a composite model, of which this would be a part alone.
    """
    if positions.path:
        where = ".".join(positions.path)
        raise InvalidArgument(
            f"this model's language model stands in {where}, and what is written here is a whole config.json; read "
            f"{where} alone and put the answer in its place"
        )
    recipe, written = _written(positions, scaling, max_length, spelling="v4")
    now, entry = recipe.get("scaling"), _entry(positions, written, "rope_scaling")
    if recipe.get("axes"):
        raise InvalidArgument(
            f"mlx-lm rotates {positions.model_type!r} without its sections (mrope_section), right for text alone; "
            "use mlx-vlm"
        )
    if entry.get("rope_type") == "dynamic":
        raise InvalidArgument(f"{now} rotates cached keys by other bases in mlx-lm; {_PLAN}")
    if not entry.pop("truncate", True):
        raise InvalidArgument(f"{now} has unrounded ends, and mlx-lm rounds them; leave truncate out")
    if entry.get("rope_type") == "yarn":  # whose attention_factor not every mlx-lm reads
        entry = _paired(entry)
    if entry.get("rope_type") == "longrope":
        longest = written[FAMILIES[positions.model_type].length]
        scale = entry.pop("attention_factor", None) or now.plan(longest).attention_factor
        if scale == 1:
            entry[ORIGINAL] = longest
        ratio = longest / entry[ORIGINAL]
        taken = 1.0 if ratio <= 1 else math.sqrt(1 + math.log(ratio) / math.log(entry[ORIGINAL]))
        if not math.isclose(scale, taken):
            raise InvalidArgument(f"{now} has attention factor {scale:g}, and mlx-lm takes {taken:g} there")
    return {**written, "rope_scaling": entry or None}


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


def gguf(
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
        positions, scaling, max_length: as in ``write``.
        architecture: the prefix of the keys, llama.cpp's name of the family.

    Raises:
        InvalidArgument: dynamic scaling, and pairs that stand still; what stands in other fields: windows, sections
            (M-RoPE), scales of queries; in the DeepSeek families any scaling, whose second number llama.cpp takes
            together with the first.
    """
    recipe, written = _written(positions, scaling, max_length)
    now, family = recipe.get("scaling"), FAMILIES[positions.model_type]
    elsewhere = {"windows": any(positions.windows), "sections": recipe.get("axes"), "scales": positions.scales}
    if names := [name for name, there in elsewhere.items() if there]:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has {' and '.join(names)}, which are not written here; take the "
            "fields of llama.cpp's own converter"
        )
    if isinstance(now, DynamicNTK):
        raise InvalidArgument(f"{now} is not in llama.cpp; {_PLAN}")
    entry = parameters_from(now, recipe.get("rotary_dim"), recipe.get("base"))
    if family.mscale_scores and (entry["rope_type"] != "default" or softmax_factor(recipe) != 1):
        raise InvalidArgument(
            f"{now} of model_type {positions.model_type!r} multiplies the scores, too, and llama.cpp has one "
            "number for both; use Default() or NTK, or take the fields of llama.cpp's own converter"
        )
    longest = max_length or written[family.length]
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
        return {"type": kind, **_lengths(now), "attn_factor": float(scale)}, lists
    if kind == "yarn" and now.truncate and (now.beta_fast, now.beta_slow) == (32, 1):
        ends = {"yarn_beta_fast": 32.0, "yarn_beta_slow": 1.0}
        return {"type": kind, **_lengths(now), **ends, "attn_factor": now.scale / _sharpening(now.factor)}, {}
    factors = per_pair(now, recipe.get("rotary_dim"), recipe.get("base"))
    scale = float(factors["attention_factor"])
    return {} if scale == 1 else {"attn_factor": scale}, {"freqs": factors["long_factor"]}


def _lengths(scaling: LongRoPE | YaRN) -> dict[str, int | float]:
    return {"factor": float(scaling.factor), "original_context_length": scaling.original_length}


_PLAN = "write scaling.plan(total_length), which is fixed"


def _sharpening(factor: float, amount: float = 1.0) -> float:
    return 0.1 * amount * math.log(factor) + 1


def _paired(entry: dict[str, Any]) -> dict[str, Any]:
    """YaRN's entry with its attention factor as DeepSeek's pair, beside the second number that it may have."""
    if "attention_factor" not in entry:
        return entry
    scale, factor, second = entry["attention_factor"], entry["factor"], entry.get("mscale_all_dim", 0.0)
    if factor == 1:
        raise InvalidArgument(f"attention_factor={scale:g} has no place beside factor=1; use a factor above 1")
    pair = {
        "mscale": (scale * _sharpening(factor, second) - 1) / (0.1 * math.log(factor)),
        "mscale_all_dim": second,
    }
    return {key: value for key, value in entry.items() if key != "attention_factor"} | pair


def _entry(positions: ModelPositions, written: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The rope dictionary under this key, as a dict of its own."""
    if FAMILIES[positions.model_type].fixed_base is not None:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has its base in its code, and no rope dictionary to write"
        )
    entry = dict(written[key] or {})
    if positions.scales and "llama_4_scaling_beta" in entry:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has llama_4_scaling_beta in its rope dictionary, where vLLM "
            "does not read it, and mlx-lm only under rope_parameters; serve the model's own config"
        )
    return entry


def _written(
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
