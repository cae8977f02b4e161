"""Converts the rope metadata of GGUF files to scalings and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from posenc.arguments import one_of
from posenc.encodings.text import Recipe
from posenc.integrations.huggingface.scaling import parameters_from, per_pair
from posenc.scaling import Default, Linear, LongRoPE, PerPair, Scaling, YaRN
from posenc.scaling.yarn import sharpening

SCALING_TYPES = ("none", "linear", "yarn", "longrope")
"""The types of scaling with which llama.cpp loads a file."""
OWN_ENDS = {"scaling.yarn_beta_fast": 32.0, "scaling.yarn_beta_slow": 1.0}
"""The default beta_fast and beta_slow of YaRN in llama.cpp. Few architectures read other values from a file."""


def scaling_of_fields(
    stated: Mapping[str, Any], original: int, divisors: Tensor | None, rotary_dim: int, base: float
) -> Scaling:
    """Return the scaling of these fields, with frequencies also divided by the file's list of divisors, if any."""
    kind = one_of("rope.scaling.type", stated.get("rope.scaling.type", "linear"), SCALING_TYPES)
    factor = stated.get("rope.scaling.factor") or stated.get("rope.scale_linear") or 1.0  # an older name
    times = stated.get("rope.scaling.attn_factor", 1.0)
    scaling: Scaling = (
        YaRN(factor, original, attention_factor=None if times == 1 else times * sharpening(factor))
        if kind == "yarn"
        else Default()
        if kind == "none" or factor == 1
        else Linear(factor)
    )
    if divisors is None and (times == 1 or kind == "yarn"):
        return scaling
    scaled = per_pair(scaling, rotary_dim, base)
    listed = [1.0] * (rotary_dim // 2) if divisors is None else divisors.tolist()
    factors = tuple(by * factor for by, factor in zip(listed, scaled["long_factor"], strict=True))
    return PerPair(factors, times * scaled["attention_factor"])


def rope_fields(
    recipe: Recipe, longest: int, any_ends: bool = False
) -> tuple[dict[str, Any], dict[str, Sequence[float]]]:
    """Return the metadata of a rotation, without the prefix ``rope.``, and its lists of factors. With ``any_ends``,
    YaRN is written as metadata even if beta_fast and beta_slow are not 32 and 1."""
    now, rotary_dim, base = (recipe.get(name) for name in ("scaling", "rotary_dim", "base"))
    entry = parameters_from(now, rotary_dim, base)
    plain, kind = {"freq_base": float(entry["rope_theta"])}, entry["rope_type"]
    if kind == "default":
        return plain, {}
    if kind == "linear":
        return {**plain, "scaling.type": kind, "scaling.factor": float(now.factor)}, {}
    if isinstance(now, LongRoPE):
        scale = now.plan(longest).frequencies(rotary_dim, base).attention_factor
        return {
            **plain,
            "scaling.type": kind,
            "scaling.original_context_length": now.original_length,  # with a factor, lists would divide twice
            "scaling.attn_factor": float(scale),
        }, {"factors_short": now.short_factors, "factors_long": now.long_factors}
    if kind == "yarn" and now.truncate and (any_ends or (now.beta_fast, now.beta_slow) == (32, 1)):
        return {
            **plain,
            "scaling.type": kind,
            "scaling.factor": float(now.factor),
            "scaling.original_context_length": now.original_length,
            "scaling.yarn_beta_fast": float(now.beta_fast),
            "scaling.yarn_beta_slow": float(now.beta_slow),
            "scaling.attn_factor": now.scale / sharpening(now.factor),
        }, {}
    factors = per_pair(now, rotary_dim, base)
    scale = float(factors["attention_factor"])
    return {**plain, **({} if scale == 1 else {"scaling.attn_factor": scale})}, {"freqs": factors["long_factor"]}
