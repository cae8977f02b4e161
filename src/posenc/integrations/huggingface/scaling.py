"""Hugging Face's rope dictionaries to scalings and back: ``rope_scaling`` (v4) and ``rope_parameters`` (v5).

Every key is used or refused. transformers itself only warns about an unknown key, a factor below 1 or a missing
original length, and continues with other numbers.
"""

from collections.abc import Mapping
from typing import Any

from posenc.arguments import one_of
from posenc.errors import InvalidArgument, UnknownName
from posenc.integrations.huggingface.schema import ROPE
from posenc.scaling import (
    NTK,
    Default,
    DynamicNTK,
    LengthScaling,
    Linear,
    Llama3,
    LongRoPE,
    PerPair,
    Proportional,
    Scaling,
    YaRN,
)

COMMON = ("rope_type", "type", "rope_theta", "partial_rotary_factor")
ORIGINAL = "original_max_position_embeddings"
KEYS_OF_TYPE: dict[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor", ORIGINAL),
    "yarn": (
        "factor",
        ORIGINAL,
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
        "finetuned",
    ),
    "longrope": ("short_factor", "long_factor", "factor", ORIGINAL, "attention_factor"),
    "llama3": ("factor", ORIGINAL, "low_freq_factor", "high_freq_factor"),
    "proportional": ("factor",),
}
"""The keys of each type, in addition to ``COMMON``. ``finetuned`` (YaRN's authors) has no effect on the numbers."""

SPELLINGS = {"su": "longrope"}


def rope_type(parameters: Mapping[str, Any]) -> str:
    """The type under either spelling; ``"default"`` if none is given."""
    kinds = {key: parameters[key] for key in ("rope_type", "type") if parameters.get(key) is not None}
    named = {key: ROPE[key].check(key, value) for key, value in kinds.items()}
    types = {SPELLINGS.get(value, value) for value in named.values()}
    if len(types) > 1:
        raise InvalidArgument(
            f"rope_type={named['rope_type']!r} contradicts type={named['type']!r}; keep one of them"
        )
    if "mrope_section" in parameters or "mrope" in types:
        raise InvalidArgument(
            "this config has M-RoPE (mrope_section): three streams of positions for text, height and width, which "
            "this model_type does not have; name the one that does, such as qwen2_vl_text"
        )
    kind = types.pop() if types else "default"
    return str(one_of("rope_type", kind, KEYS_OF_TYPE))


def check_type_keys(parameters: Mapping[str, Any], kind: str) -> None:
    """Refuse a key that this type does not have, and name the nearest that it has."""
    known = [*COMMON, *KEYS_OF_TYPE[kind]]
    for key in parameters:
        if key not in known:
            raise UnknownName(f"key of rope_type {kind!r}", key, known)
        if parameters[key] is not None or key == "truncate":  # transformers reads null as false
            ROPE[key].check(key, parameters[key])


def scaling_from(parameters: Mapping[str, Any], max_length: int) -> Scaling | LengthScaling:
    """The scaling of one rope dictionary; ``max_length`` is the config's max_position_embeddings.

    Raises:
        UnknownName: a type or key that does not exist here; the message has the nearest.
        InvalidArgument: a missing or contradictory value.
    """
    kind = rope_type(parameters)
    check_type_keys(parameters, kind)
    given = {key: value for key, value in parameters.items() if value is not None}
    if kind == "default":
        return Default()
    if kind == "proportional":
        return Proportional(_need(given, "partial_rotary_factor", kind), given.get("factor", 1.0))
    if kind == "linear":
        return Linear(_need(given, "factor", kind))
    if kind == "dynamic":
        stated = given.get(ORIGINAL, max_length)
        if stated != max_length:
            raise InvalidArgument(
                f"{ORIGINAL}={stated} contradicts max_position_embeddings={max_length}: dynamic scaling in "
                "transformers starts at max_position_embeddings; set both to the trained length"
            )
        return DynamicNTK(_need(given, "factor", kind), max_length)
    original = _need(given, ORIGINAL, kind)
    if kind == "llama3":
        low, high = (_need(given, f"{end}_freq_factor", kind) for end in ("low", "high"))
        return Llama3(_need(given, "factor", kind), original, low, high)
    factor = given["factor"] if "factor" in given else max_length / original
    if kind == "longrope":
        short, long = (tuple(_need(given, f"{end}_factor", kind)) for end in ("short", "long"))
        return LongRoPE(short, long, original, factor, given.get("attention_factor"))
    pair = {key: given[key] for key in ("mscale", "mscale_all_dim") if given.get(key)}
    if given.get("mscale_all_dim") == 0 and pair == {"mscale": 1}:  # in every program 0.1·ln s + 1
        pair = {}
    options = {
        key: given[key] for key in ("beta_fast", "beta_slow", "truncate", "attention_factor") if key in given
    }
    return YaRN(factor, original, **options, **pair)


def ntk_from(parameters: Mapping[str, Any]) -> NTK:
    """The scaling of Hunyuan's dictionaries: NTK by ``alpha``; their other numbers have no effect."""
    kind = "dynamic with alpha"
    known = [*COMMON, "alpha", "factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", ORIGINAL]
    for key in parameters:
        if key not in known:
            raise UnknownName(f"key of rope_type {kind!r}", key, known)
    return NTK(ROPE["alpha"].check("alpha", parameters["alpha"]))


def _need(given: Mapping[str, Any], key: str, kind: str) -> Any:
    if key not in given:
        raise InvalidArgument(f"rope_type {kind!r} needs {key!r}, which is missing; add it to the rope dictionary")
    return given[key]


WRITTEN: dict[type, tuple[str, Mapping[str, str]]] = {
    Default: ("default", {}),
    Linear: ("linear", {"factor": "factor"}),
    DynamicNTK: ("dynamic", {"factor": "factor"}),
    Llama3: (
        "llama3",
        {
            "factor": "factor",
            ORIGINAL: "original_length",
            "low_freq_factor": "low_freq_factor",
            "high_freq_factor": "high_freq_factor",
        },
    ),
    LongRoPE: (
        "longrope",
        {
            "short_factor": "short_factors",
            "long_factor": "long_factors",
            "factor": "factor",
            ORIGINAL: "original_length",
            "attention_factor": "attention_factor",
        },
    ),
    YaRN: (
        "yarn",
        {
            "factor": "factor",
            ORIGINAL: "original_length",
            **{key: key for key in ("beta_fast", "beta_slow", "truncate")},
            **{key: key for key in ("attention_factor", "mscale", "mscale_all_dim")},
        },
    ),
}
"""The rope type of each scaling, and its keys with our names; None is left out."""


def parameters_from(scaling: Scaling | LengthScaling, rotary_dim: int, base: float) -> dict[str, Any]:
    """The v5 rope dictionary of a scaling, ``rope_theta`` included.

    NTK is written as its equivalent base, and scalings that transformers has no type for (YaRN's ramp by rotations,
    the fixed form of NTK) as a longrope with one factor per pair: the frequencies are the same.
    """
    if isinstance(scaling, NTK) and scaling.form != "fixed":
        return {"rope_type": "default", "rope_theta": scaling.base(rotary_dim, base)}
    parameters: dict[str, Any] = {"rope_theta": base}
    if isinstance(scaling, Proportional):
        factor = {} if scaling.factor == 1 else {"factor": scaling.factor}
        return {"rope_type": "proportional", **parameters, "partial_rotary_factor": scaling.fraction, **factor}
    if type(scaling) not in WRITTEN or (isinstance(scaling, YaRN) and scaling.ramp != "dimension"):
        return per_pair(scaling, rotary_dim, base)
    kind, names = WRITTEN[type(scaling)]
    numbers = {key: value for key, name in names.items() if (value := getattr(scaling, name)) is not None}
    lists = {key: list(value) for key, value in numbers.items() if isinstance(value, tuple)}
    return {"rope_type": kind, **parameters, **numbers, **lists}


def per_pair(scaling: Scaling | LengthScaling, rotary_dim: int, base: float) -> dict[str, Any]:
    """Any fixed scaling whose pairs all rotate, as a longrope whose two lists are the same."""
    if isinstance(scaling, LengthScaling):
        raise InvalidArgument(f"{type(scaling).__name__} has no rope dictionary; write scaling.plan(total_length)")
    if isinstance(scaling, PerPair):
        factors = list(scaling.factors)
    else:
        plain, scaled = (s.frequencies(rotary_dim, base).exact for s in (Default(), scaling))
        if not all(scaled):
            raise InvalidArgument(
                f"{scaling} has pairs that do not rotate, which a longrope cannot state; use another"
            )
        factors = [float(p / s) for p, s in zip(plain, scaled, strict=True)]
    original = getattr(scaling, "original_length", 2)
    factor = getattr(scaling, "factor", 1.0)
    attention_factor = scaling.frequencies(rotary_dim, base).attention_factor
    stated = {"factor": factor, ORIGINAL: original, "attention_factor": attention_factor}
    return {
        "rope_type": "longrope",
        "rope_theta": base,
        "short_factor": factors,
        "long_factor": factors,
        **stated,
    }
