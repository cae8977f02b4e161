"""Converts Hugging Face's ``rope_scaling`` (v4) and ``rope_parameters`` (v5) to scalings and back.

Every key is used or refused. If a key is unknown, a factor is below 1 or an original length is missing,
transformers itself only warns, and computes frequencies that the config's author did not intend.
"""

from collections.abc import Mapping
from typing import Any

from posenc.arguments import one_of
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.schema import ROPE
from posenc.scaling import (
    NTK,
    Default,
    DynamicNTK,
    LengthScaling,
    Linear,
    Llama3,
    LongRoPE,
    Proportional,
    Scaling,
    YaRN,
)

COMMON = ("rope_type", "type", "rope_theta", "partial_rotary_factor")
ORIGINAL = "original_max_position_embeddings"
PAIR = ("mscale", "mscale_all_dim")
TYPES: dict[str, tuple[Any, tuple[str, ...], tuple[str, ...]]] = {
    "default": (Default, (), ()),
    "linear": (Linear, ("factor",), ("factor",)),
    "dynamic": (DynamicNTK, ("factor", ORIGINAL), ("factor",)),
    "yarn": (
        YaRN,
        ("factor", ORIGINAL, "beta_fast", "beta_slow", "truncate", "attention_factor", *PAIR, "finetuned"),
        (ORIGINAL,),
    ),
    "longrope": (
        LongRoPE,
        ("short_factor", "long_factor", "factor", ORIGINAL, "attention_factor"),
        (ORIGINAL, "short_factor", "long_factor"),
    ),
    "llama3": (
        Llama3,
        ("factor", ORIGINAL, "low_freq_factor", "high_freq_factor"),
        (ORIGINAL, "low_freq_factor", "high_freq_factor", "factor"),
    ),
    "proportional": (Proportional, ("partial_rotary_factor", "factor"), ("partial_rotary_factor",)),
}
"""For each rope type, its scaling class, its keys in addition to ``COMMON``, and its required keys.

The key ``finetuned``, which is in the configs of YaRN's authors, has no effect on frequencies.
"""
FIELDS = {
    ORIGINAL: "original_length",
    "partial_rotary_factor": "fraction",
    "short_factor": "short_factors",
    "long_factor": "long_factors",
}
"""For each config key that has a different name in posenc, posenc's name."""

SPELLINGS = {"su": "longrope"}


def rope_type(parameters: Mapping[str, Any]) -> str:
    """Return the value of ``rope_type`` or of the older key ``type``, or ``"default"`` if neither is given."""
    named = {
        key: ROPE[key].check(key, parameters[key])
        for key in ("rope_type", "type")
        if parameters.get(key) is not None
    }
    types = {SPELLINGS.get(value, value) for value in named.values()}
    if len(types) > 1:
        raise InvalidArgument(
            f"rope_type={named['rope_type']!r} contradicts type={named['type']!r}; keep one of them"
        )
    if "mrope_section" in parameters or "mrope" in types:
        raise InvalidArgument(
            "this config has M-RoPE (mrope_section), with separate positions for time, height and width, which "
            "this model_type does not support; use a model_type with M-RoPE, such as 'qwen2_vl_text'"
        )
    return str(one_of("rope_type", types.pop() if types else "default", TYPES))


def check_type_keys(parameters: Mapping[str, Any], kind: str, *more: str) -> None:
    """Check the values of the keys, and refuse keys that belong neither to this rope type nor to ``more``. The
    error for such a key names the nearest allowed key.
    """
    known = [*COMMON, *TYPES[kind][1], *more]
    for key in parameters:
        one_of(f"key of rope_type {kind!r}", key, known)
        if parameters[key] is not None or key == "truncate":  # transformers reads truncate=null as false
            ROPE[key].check(key, parameters[key])


def scaling_from(parameters: Mapping[str, Any], max_length: int) -> Scaling | LengthScaling:
    """Return the scaling of a rope dictionary; ``max_length`` is the config's max_position_embeddings.

    Raises:
        UnknownName: a rope type or key does not exist; the message suggests the nearest name.
        InvalidArgument: a value is missing or contradictory.
    """
    kind = rope_type(parameters)
    check_type_keys(parameters, kind)
    scaling, keys, needed = TYPES[kind]
    given = {key: parameters[key] for key in keys if parameters.get(key) is not None}
    if kind == "dynamic" and given.setdefault(ORIGINAL, max_length) != max_length:
        raise InvalidArgument(
            f"{ORIGINAL}={given[ORIGINAL]} contradicts max_position_embeddings={max_length}: dynamic scaling in "
            "transformers starts at max_position_embeddings; set both to the trained length"
        )
    if missing := [key for key in needed if key not in given]:
        raise InvalidArgument(
            f"rope_type {kind!r} needs {missing[0]!r}, which is missing; add it to the rope dictionary"
        )
    if kind in ("yarn", "longrope"):
        given.setdefault("factor", max_length / given[ORIGINAL])
    unsaid = {"finetuned", *(() if all(map(given.get, PAIR)) else PAIR)}  # transformers reads both or neither
    return scaling(
        **{
            FIELDS.get(key, key): tuple(value) if isinstance(value, list) else value
            for key, value in given.items()
            if key not in unsaid
        }
    )


def ntk_from(parameters: Mapping[str, Any]) -> NTK:
    """Return the scaling of a Hunyuan rope dictionary: NTK by the factor ``alpha``. The keys factor, beta_fast,
    beta_slow, mscale and mscale_all_dim have no effect.
    """
    check_type_keys(parameters, "dynamic", "alpha", "beta_fast", "beta_slow", *PAIR)
    return NTK(parameters["alpha"])


def parameters_from(scaling: Scaling | LengthScaling, rotary_dim: int, base: float) -> dict[str, Any]:
    """Return the v5 rope dictionary of a scaling, with ``rope_theta``.

    NTK is written as its equivalent base. Scalings for which transformers has no rope type (YaRN with
    ramp="rotations", NTK with form="fixed") are written as a longrope dictionary with one factor per pair, which
    gives the same frequencies.
    """
    if isinstance(scaling, NTK) and scaling.form != "fixed":
        return {"rope_type": "default", "rope_theta": scaling.base(rotary_dim, base)}
    kind = next((kind for kind, (form, _, _) in TYPES.items() if form is type(scaling)), None)
    if kind is None or (isinstance(scaling, YaRN) and scaling.ramp != "dimension"):
        return per_pair(scaling, rotary_dim, base)
    numbers = {
        key: getattr(scaling, FIELDS.get(key, key), None)
        for key in TYPES[kind][1]
        if (kind, key) != ("dynamic", ORIGINAL)  # dynamic scaling starts at max_position_embeddings
    }
    return {
        "rope_type": kind,
        "rope_theta": base,
        **{
            key: list(value) if isinstance(value, tuple) else value
            for key, value in numbers.items()
            if value is not None and (kind, key, value) != ("proportional", "factor", 1)
        },
    }


def per_pair(scaling: Scaling | LengthScaling, rotary_dim: int, base: float) -> dict[str, Any]:
    """Return a longrope dictionary that gives the frequencies of a scaling; its short and long lists are equal.

    The scaling must not depend on the length, and every pair must rotate under it.
    """
    if isinstance(scaling, LengthScaling):
        raise InvalidArgument(
            f"one list of factors cannot express {type(scaling).__name__}, which depends on the length; use "
            "scaling.plan(total_length), which is fixed"
        )
    plain, scaled = (s.frequencies(rotary_dim, base).exact for s in (Default(), scaling))
    if not all(scaled):
        raise InvalidArgument(
            f"{scaling} has pairs that do not rotate, which longrope cannot express; use another scaling"
        )
    factors = [float(p / s) for p, s in zip(plain, scaled, strict=True)]
    return {
        "rope_type": "longrope",
        "rope_theta": base,
        "short_factor": factors,
        "long_factor": factors,
        "factor": getattr(scaling, "factor", 1.0),
        ORIGINAL: getattr(scaling, "original_length", 2),
        "attention_factor": scaling.frequencies(rotary_dim, base).attention_factor,
    }
