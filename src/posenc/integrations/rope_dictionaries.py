"""Helpers for reading and writing rope dictionaries as individual programs do.

A rope dictionary is the value of ``rope_parameters`` or ``rope_scaling`` in a config.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.config_class import config_class
from posenc.integrations.huggingface.families import FAMILIES, READ_AS, SKIPS_SHARE
from posenc.integrations.huggingface.family import MAPS, Family
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.scaling import ORIGINAL, SPELLINGS
from posenc.scaling.yarn import sharpening

MAGNITUDE = ("attention_factor", "attn_factor", "mscale", "mscale_all_dim", "extrapolation_factor")
"""The keys that set YaRN's attention factor, and extrapolation_factor, which only some programs read."""


def with_factor(entry: Mapping[str, Any], config: Mapping[str, Any], yarn: Callable[..., float]) -> dict[str, Any]:
    """Return a rope dictionary in which ``attention_factor`` is the attention factor that a program computes.

    LongRoPE's attention factor is long_mscale if it is given, and otherwise √(1 + ln(M/L)/ln L), where M is
    max_position_embeddings and L is the original length; attention_factor in the dictionary is ignored. The
    function ``yarn`` computes YaRN's attention factor. Its arguments are the dictionary and whether the family is
    served as DeepSeek is. For such a family, mscale_all_dim is kept and the ends of the ramp are rounded.
    """
    other = {key: value for key, value in entry.items() if key not in (*MAGNITUDE, "short_mscale", "long_mscale")}
    kind = kind_of(entry)
    is_yarn = kind == "yarn" and "factor" in entry
    if kind == "longrope":
        original = config.get(ORIGINAL) or entry.get(ORIGINAL) or longest_of(config)
        ratio = max(1.0, longest_of(config) / original)
        return {**other, "attention_factor": entry.get("long_mscale") or math.sqrt(1 + math.log(ratio, original))}
    if is_yarn and served_as_deepseek(config):
        second = {"mscale_all_dim": entry["mscale_all_dim"]} if entry.get("mscale_all_dim") else {}
        return {**other, **second, "truncate": True, "attention_factor": yarn(entry, True)}
    return {**other, "attention_factor": yarn(entry, False)} if is_yarn else other


def as_yarn(entry: Mapping[str, Any], config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return ``entry`` as vLLM and SGLang read it. Their RoPE class for DeepSeek computes YaRN for any scaling."""
    if kind_of(entry) in ("default", "yarn") or not served_as_deepseek(config):
        return entry
    return {key: entry[key] for key in ("rope_theta", "factor", ORIGINAL, *MAGNITUDE) if key in entry} | {
        "rope_type": "yarn"
    }


def checked_factors(entry: Mapping[str, Any], *, weighs_ramp: bool) -> dict[str, Any]:
    """Check that posenc can compute the factors in a rope dictionary of vLLM or SGLang, and return the dictionary.
    If the scaling is proportional, its ``factor`` is left out, because both programs ignore it.

    Args:
        weighs_ramp: whether the program multiplies YaRN's ramp by extrapolation_factor.

    Raises:
        InvalidArgument: the program multiplies YaRN's ramp by an extrapolation_factor other than 1.
    """
    if weighs_ramp and kind_of(entry) == "yarn" and entry.get("extrapolation_factor", 1) != 1:
        raise InvalidArgument(
            f"extrapolation_factor={entry['extrapolation_factor']:g} multiplies YaRN's ramp in SGLang and in "
            "vLLM 0.29; posenc cannot compute such a ramp, so remove extrapolation_factor"
        )
    return {key: value for key, value in entry.items() if key != "factor" or kind_of(entry) != "proportional"}


def as_served(positions: ModelPositions, entry: Mapping[str, Any]) -> ModelPositions:
    """Return ``positions`` with the M-RoPE axes that ``get_rope`` in vLLM and SGLang uses: one axis if there is a
    scaling other than YaRN, and interleaved sections only if the rope dictionary has ``mrope_interleaved``.

    Raises:
        InvalidArgument: the scaling is LongRoPE and pairs are interleaved, which neither program supports.
    """
    family = FAMILIES[positions.model_type]
    interleaved = any(recipe.get("pairing") == "interleaved" for recipe in positions.rotary_recipes.values())
    # halved by its own class (DeepSeek), or by sorting the rows of its weights (Llama 4)
    halved = served_as_deepseek(positions.source) or positions.model_type == "llama4_text"
    if kind_of(entry) == "longrope" and interleaved and not halved:
        raise InvalidArgument(
            "vLLM and SGLang support lists of factors only for half pairs, but the pairs of model_type "
            f"{positions.model_type!r} are interleaved; use Linear, Llama3 or YaRN"
        )
    if (axes := family.axes) is None:
        return positions
    layout = axes if axes == "first_last" else "strided" if entry.get("mrope_interleaved") else "chunked"
    served = (
        MAPS[layout](*(entry.get("mrope_section") or family.sections))
        if kind_of(entry) in ("default", "mrope", "yarn")
        else None
    )
    return replace(
        positions,
        recipes={
            name: recipe.with_(axes=served) if recipe.get("axes") else recipe
            for name, recipe in positions.recipes.items()
        },
    )


def with_stated_share(positions: ModelPositions, entry: Mapping[str, Any]) -> ModelPositions:
    """Return ``positions`` with the rope dictionary's ``partial_rotary_factor``, as in vLLM and ExLlamaV3."""
    share = entry.get("partial_rotary_factor")
    if share is None or positions.model_type not in SKIPS_SHARE or kind_of(entry) == "proportional":
        return positions
    return replace(
        positions,
        recipes={
            name: recipe.with_(rotary_dim=int(recipe.get("head_dim") * share))
            if recipe.name == "rotary"
            else recipe
            for name, recipe in positions.recipes.items()
        },
    )


def family_of(config: Mapping[str, Any]) -> Family | None:
    """Return the family whose rules apply to a config, or None for an unknown family."""
    model_type = str(config.get("model_type"))
    return FAMILIES.get(READ_AS.get(model_type, model_type))


def served_as_deepseek(config: Mapping[str, Any]) -> bool:
    """Return whether other programs compute a family's angles and scores as those of DeepSeek, whose scores are
    scaled by mscale_all_dim.
    """
    family = family_of(config)
    return family is not None and family.mscale_scores and family.mscale_served


def longest_of(config: Mapping[str, Any]) -> int:
    """Return the maximum input length in a config or, if it has none, the default of its config class."""
    key = (family_of(config) or Family()).length_key(config)
    if stated := config.get(key):
        return int(stated)
    declared = config_class(str(config["model_type"]))
    return int(getattr(declared, key, None) or getattr(declared, Family.length))


def kind_of(entry: Mapping[str, Any]) -> str:
    """Return a rope dictionary's type in its standard spelling, or ``"default"`` if it has none."""
    kind = str(entry.get("rope_type") or entry.get("type") or "default")
    return SPELLINGS.get(kind, kind)


def pair_ratio(entry: Mapping[str, Any]) -> float:
    """Return DeepSeek's attention factor (0.1·mscale·ln s + 1)/(0.1·mscale_all_dim·ln s + 1).

    s is the scaling's factor. By default, ``mscale`` is 1 and ``mscale_all_dim`` is 0.
    """
    first, second = (entry.get(key, default) for key, default in (("mscale", 1.0), ("mscale_all_dim", 0.0)))
    return sharpening(entry["factor"], first) / sharpening(entry["factor"], second)


def mscale_of(entry: Mapping[str, Any], now: Any) -> float:
    """Return the attention factor in LongRoPE's dictionary or, if there is none, that of the scaling ``now``."""
    return (
        entry.get("attention_factor") or entry.get("long_mscale") or now.plan(now.original_length).attention_factor
    )


def with_mscales(entry: Mapping[str, Any], now: Any) -> dict[str, Any]:
    """Return LongRoPE's dictionary with its attention factor written as ``short_mscale`` and ``long_mscale``."""
    return {
        **{key: value for key, value in entry.items() if key != "attention_factor"},
        **dict.fromkeys(("short_mscale", "long_mscale"), mscale_of(entry, now)),
    }


def with_pair(entry: dict[str, Any]) -> dict[str, Any]:
    """Return YaRN's dictionary with its attention factor written as ``mscale`` and ``mscale_all_dim``."""
    if "attention_factor" not in entry:
        return entry
    scale, factor, second = entry["attention_factor"], entry["factor"], entry.get("mscale_all_dim", 0.0)
    if factor == 1:
        raise InvalidArgument(
            f"attention_factor={scale:g} cannot be written as mscale with factor=1; use a factor above 1"
        )
    return {
        **{key: value for key, value in entry.items() if key != "attention_factor"},
        "mscale": (scale * sharpening(factor, second) - 1) / (0.1 * math.log(factor)),
        "mscale_all_dim": second,
    }
