"""vLLM, which merges the keys in ``--hf-overrides`` into a model's config."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.config_class import class_keys
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
    kind_of,
    pair_ratio,
    with_factor,
    with_stated_share,
)
from posenc.scaling import LengthScaling, Scaling
from posenc.scaling.yarn import sharpening

OTHER_LENGTHS = ("max_target_positions", "max_sequence_length", "max_seq_length", "seq_len")
"""Keys of lengths that vLLM reads besides the family's own; it uses the smallest value
(transformers_utils/model_arch_config_convertor.py:378)."""


def change(entry: dict[str, Any], config: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return a rope dictionary as vLLM reads it.

    In 0.29, YaRN's attention factor is attn_factor·(0.1·ln s + 1), where s is the scaling's factor, and other
    attention factors in the config are ignored. In 0.33, it is attention_factor if this key is given; otherwise it
    is DeepSeek's factor (``pair_ratio``) if mscale and mscale_all_dim are given, and 0.1·ln s + 1 if not.
    LongRoPE's attention factor is long_mscale if the config has it; otherwise it is computed from the original
    length and max_position_embeddings. LongRoPE's long_factor is used only if inputs may be longer than the
    original length. Dynamic scaling without ``alpha`` changes no frequencies. Dynamic and linear scaling multiply
    the maximum input length by their factor. In 0.29, YaRN sets this length to factor × original length. The module
    ``model_files`` documents where vLLM's model files depart from these rules.

    Raises:
        InvalidArgument: vLLM would fail, because it reads every scaling of a DeepSeek model as YaRN, and the
            original length or the factor is missing; or vLLM 0.29 would multiply YaRN's ramp by an
            extrapolation_factor other than 1.
    """
    older = version == "0.29.0"

    def yarn(entry: Mapping[str, Any], latent: bool) -> float:
        if latent or (all(map(entry.get, PAIR)) and not older and entry.get("attention_factor") is None):
            return pair_ratio(entry)
        default = sharpening(entry["factor"])
        return float(default * entry.get("attn_factor", 1) if older else entry.get("attention_factor") or default)

    read_as = as_yarn(entry, config)
    if read_as is not entry and (lacking := [key for key in (ORIGINAL, "factor") if key not in read_as]):
        raise InvalidArgument(
            f"vLLM reads rope_type {kind_of(entry)!r} of a DeepSeek model as YaRN, and fails without "
            f"{lacking[0]}; add this key, or use YaRN"
        )
    entry = checked_factors(read_as, weighs_ramp=older)
    if kind_of(entry) == "dynamic" and not entry.get("alpha"):
        # its base is computed for the unmultiplied length
        return {key: entry[key] for key in ("rope_theta", "partial_rotary_factor") if key in entry}
    unscored = not older and entry.get("attention_factor") == 1  # then vLLM does not scale scores
    return {
        key: value
        for key, value in with_factor(entry, config, yarn).items()
        if key != "mscale_all_dim" or not unscored
    }


def _admitted(positions: ModelPositions, entry: Mapping[str, Any], version: str) -> int:
    """Return the maximum input length that vLLM allows by default."""
    stated = [LENGTH.check(key, positions.source[key]) for key in OTHER_LENGTHS if positions.source.get(key)]
    longest = int(positions.source.get("model_max_length") or min([positions.max_length, *stated]))
    if kind_of(entry) == "longrope":
        copied = positions.model_type == "phimoe" and entry.get(ORIGINAL)  # by its config class
        return int(positions.source.get(ORIGINAL) or copied or longest)
    if kind_of(entry) == "yarn" and version == "0.29.0" and "gemma3" not in positions.model_type:
        return int(entry["factor"] * (positions.source.get(ORIGINAL) or entry.get(ORIGINAL) or longest))
    factors = [
        one["factor"]
        for one in (entry, *entry.values())
        if isinstance(one, Mapping) and one.get("factor")
        if kind_of(one) in ("linear", "dynamic", "proportional")
    ]
    return int(longest * factors[-1]) if factors and "gemma3" not in positions.model_type else longest


def _windowed(positions: ModelPositions) -> ModelPositions:
    """Return ``positions`` with the window that vLLM applies to every layer, even if the family has no windows."""
    model_type, width = positions.model_type, positions.source.get("sliding_window")
    if not width or model_type == "falcon" or {"sliding_window", "layer_types"} & class_keys(model_type):
        return positions
    return replace(
        positions,
        windows=(width,) * len(positions.windows),
        assumed=(
            *positions.assumed,
            f"vLLM applies sliding_window = {width} to every layer (vllm/engine/arg_utils.py:2294)",
        ),
    )


def spell(
    positions: ModelPositions, scaling: Scaling | LengthScaling | None, max_length: int | None, version: str
) -> dict[str, Any]:
    """Return the value of ``--hf-overrides``: ``rope_parameters`` and ``max_position_embeddings``.

    For a composite model, both keys are nested under the keys of the language model, as vLLM expects. Releases up
    to 0.29 read ``attn_factor``, and newer releases read ``attention_factor``. The keys do not change windows
    or query scales.

    Args:
        positions, scaling, max_length: as in ``huggingface.write``.

    Raises:
        InvalidArgument: the scaling is dynamic, but vLLM fixes the base once for all requests; the model has no
            rotary layers; the scaling is a list of factors, but the model's pairs are interleaved; ``max_length``
            is above YaRN's factor × original length; the model is a DeepSeek model, and its scaling is not YaRN
            with rounded ramp ends; or vLLM would compute a different positional encoding.
    """
    entry, longest = overrides("vLLM", positions, scaling, max_length)
    if positions.path:  # vLLM merges these keys into the file's
        entry = {k: None for k in rope_dictionary(positions.source) if k != "partial_rotary_factor"} | entry
    return within(positions.path, {positions.length_key: longest, "rope_parameters": entry})


PROGRAM = Program(
    module="vllm",
    title="vLLM",
    # the last release that reads attn_factor, and the newest release; releases since 0.30 read attention_factor
    releases=Releases("vllm", ("0.29.0", "0.33.0"), ("vllm/",), under=TRANSFORMERS_OF_SERVERS),
    change=change,
    rotated=lambda positions, entry: with_stated_share(as_served(positions, entry), entry),
    windowed=_windowed,
    admitted=_admitted,
    long_list="for every request if --max-model-len exceeds the original length, otherwise for none",
    finished=lambda table: replace(table, short=None),  # the list is chosen once for all requests
    keeps=lambda version: (False, True),  # vllm/config/model.py:527, 570
    command="vllm serve {model}",
    keys_flag="--hf-overrides",
    length_flag="--max-model-len",
    spell=spell,
)
read, write = PROGRAM.read, PROGRAM.write
