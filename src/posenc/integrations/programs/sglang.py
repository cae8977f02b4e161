"""SGLang, which reads keys from ``--json-model-override-args``. Its RoPE code is derived from vLLM's."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.config_class import class_keys
from posenc.integrations.huggingface.families import READ_AS
from posenc.integrations.huggingface.keys import rope_dictionary
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.scaling import PAIR
from posenc.integrations.huggingface.schema import LENGTH
from posenc.integrations.program_tables import Releases
from posenc.integrations.programs import TRANSFORMERS_OF_SERVERS, Program, overrides, within
from posenc.integrations.rope_dictionaries import (
    ORIGINAL,
    as_served,
    as_yarn,
    checked_factors,
    family_of,
    kind_of,
    longest_of,
    pair_ratio,
    with_factor,
)
from posenc.scaling import LengthScaling, Scaling
from posenc.scaling.yarn import sharpening

FILLED = ("llama3", "longrope", "yarn")
"""Rope types for which a config class of transformers sets a missing original length to the maximum input
length."""
OWN = ("olmo3", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_next")
"""Model types whose config class is SGLang's own and does not fill in a missing original length
(configs/qwen3_next.py:237)."""
OUTSIDE = ("apertus", "arcee", "exaone4", "granite", "granite_swa", "hunyuan_v1_dense", "llama", "mistral")
"""Model types whose model file reads the original length outside the rope dictionary, as in llama.py:374."""


def change(entry: dict[str, Any], config: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return a rope dictionary as SGLang reads it.

    YaRN's attention factor is attn_factor times DeepSeek's factor (``pair_ratio``) if mscale and mscale_all_dim are
    given, or else attn_factor times 0.1·ln s + 1, where s is the scaling's factor. SGLang 0.5.15 uses DeepSeek's
    factor only for the DeepSeek families. The key attention_factor is read only for Laguna
    (``sglang/srt/configs/laguna.py``): in 0.5.15 it has the meaning of attn_factor, and in 0.5.23 it is the
    attention factor itself. LongRoPE's attention factor is computed as in vLLM, and a batch uses long_factor if one
    of its requests is longer than the original length. An original length outside the rope dictionary is read only
    if SGLang's model file reads this key or the config class defines it, as Phi-3's does. If the config has no
    original length, linear and dynamic scaling multiply the maximum input length by the factor, and other rope
    types use the maximum input length as the original length.
    """

    def yarn(entry: Mapping[str, Any], latent: bool) -> float:
        both = latent or (version != "0.5.15" and None not in map(entry.get, PAIR))
        return float((pair_ratio(entry) if both else sharpening(entry["factor"])) * entry.get("attn_factor", 1))

    if config["model_type"] == "laguna" and entry.get("attention_factor") is not None:
        entry = {key: value for key, value in entry.items() if key not in PAIR} | {
            "attn_factor": entry["attention_factor"]
            / (1 if version == "0.5.15" else sharpening(entry.get("factor") or 1))
        }
    if kind_of(entry) == "proportional" and not any(  # such heads rotate whole; Gemma 4's file reads the share
        getattr(family_of(config), key, "") for key in ("partial", "full_head_dim")
    ):
        entry = {key: entry[key] for key in ("rope_theta",) if key in entry}
    read_as = as_yarn(entry, config)
    if read_as is not entry or kind_of(entry) in FILLED:
        read_as = {ORIGINAL: longest_of(config), **({} if kind_of(entry) == "yarn" else {"factor": 1.0}), **read_as}
    return with_factor(checked_factors(read_as, weighs_ramp=True), config, yarn)


def _unread(part: Mapping[str, Any], version: str) -> tuple[str, ...]:
    """Return the config keys that SGLang ignores: the original length outside the rope dictionary, unless SGLang's
    model file reads this key or the config class defines it; otherwise none.
    """
    kind = str(part.get("model_type"))
    return () if kind in OUTSIDE or ORIGINAL in class_keys(READ_AS.get(kind, kind)) else (ORIGINAL,)


def _admitted(positions: ModelPositions, entry: Mapping[str, Any], version: str) -> int:
    """Return the maximum input length that SGLang allows by default."""
    own = positions.model_type in OWN
    entry = entry.get("full_attention", entry) if own else entry
    stated = map(positions.source.get, ("max_sequence_length", "model_max_length"))  # hf_transformers/common.py:668
    longest = LENGTH.check("max_sequence_length", next(filter(None, stated), positions.max_length))
    fixed = (
        ORIGINAL in entry
        or kind_of(entry) in (("llama3",) if own else FILLED)
        or (len(positions.rotary_recipes) > 1 and not own)
    )
    return int(longest * (1 if fixed else entry.get("factor") or 1))


def spell(
    positions: ModelPositions, scaling: Scaling | LengthScaling | None, max_length: int | None, version: str
) -> dict[str, Any]:
    """Return the value of ``--json-model-override-args``: ``rope_parameters`` and ``max_position_embeddings``.

    The keys are the same as for vLLM, except that YaRN's attention factor is only in ``attn_factor``. SGLang merges
    this rope dictionary into the one in config.json; in a composite model, however, it replaces the language
    model's rope dictionary with this one. SGLang's model files for llama and DeepSeek were tested; those of other
    families may read a config differently.

    Args:
        positions, scaling, max_length: as in ``huggingface.write``.

    Raises:
        InvalidArgument: SGLang cannot compute this positional encoding; SGLang would compute a different one from
            these keys; the language model's config is nested more than one level deep; or the scaling is linear
            and the rope dictionary in config.json has an original length, because SGLang then does not multiply
            the maximum input length by the factor.
    """
    if len(positions.path) > 1:
        raise InvalidArgument(
            f"the language model of this config is in {'.'.join(positions.path)}, but SGLang merges overrides only "
            "one level deep; edit config.json instead"
        )
    entry, longest = overrides("SGLang", positions, scaling, max_length)
    if "attn_factor" in entry:  # SGLang multiplies it by pair_ratio
        entry = {key: value for key, value in entry.items() if key not in ("attention_factor", *PAIR)}
    if not positions.path:
        before = rope_dictionary(positions.source)
        if entry["rope_type"] == "linear" and ORIGINAL in before:
            raise InvalidArgument(
                f"SGLang does not multiply the maximum input length by factor={entry['factor']:g} if the "
                f"config's rope dictionary has {ORIGINAL}; edit config.json instead of passing overrides"
            )
        entry = {key: None for key in PAIR if key in before} | entry
    return within(positions.path, {positions.length_key: longest, "rope_parameters": entry})


PROGRAM = Program(
    module="sglang",
    title="SGLang",
    releases=Releases("sglang", ("0.5.15", "0.5.23"), ("sglang/srt/",), under=TRANSFORMERS_OF_SERVERS),
    change=change,
    unread=_unread,
    rotated=as_served,
    admitted=_admitted,
    long_list="for every request of a batch if one of them is longer than the original length",
    finished=lambda table: (  # layers/rotary_embedding/rope_variant.py:880
        replace(
            table, short=None, notes=(*table.notes, "SGLang uses one base, for factor × length, for all inputs")
        )
        if any(str(layer.scaling).startswith("dynamic") for layer in table.layers.values())
        else table
    ),
    keeps=lambda version: (version != "0.5.15", False),  # sglang/srt/utils/hf_transformers/config.py:413, 422
    command="python -m sglang.launch_server --model-path {model}",
    keys_flag="--json-model-override-args",
    length_flag="--context-length",
    spell=spell,
)
read, write = PROGRAM.read, PROGRAM.write
