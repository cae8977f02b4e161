"""ExLlamaV3, which reads config.json in the spelling of transformers 4 or 5."""

from collections.abc import Mapping
from typing import Any

from posenc.integrations.huggingface.keys import rope_dictionary
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.program_tables import Releases
from posenc.integrations.programs import Program, config_of
from posenc.integrations.rope_dictionaries import (
    ORIGINAL,
    kind_of,
    longest_of,
    with_factor,
    with_stated_share,
)
from posenc.scaling import LengthScaling, Scaling
from posenc.scaling.yarn import sharpening

MISSING = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, ORIGINAL: 8192}
"""The values that ExLlamaV3 uses for keys that a llama3 dictionary leaves out (util/rope.py:230)."""


def change(entry: dict[str, Any], config: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return a rope dictionary as ExLlamaV3 reads it.

    If the config gives the original length, YaRN's factor is max_position_embeddings divided by this length, and a
    factor in the config is ignored. YaRN's attention factor is attention_factor if it is given. Otherwise it is 1
    if llama_4_scaling_beta is given, and 0.1·ln s + 1 if not, where s is the factor. mscale and mscale_all_dim are
    not read. LongRoPE computes its attention factor from the original length and max_position_embeddings. If the
    config allows more than the original length, LongRoPE uses the long list for every input. A base outside the
    rope dictionary takes precedence over a base inside it. An original length outside the rope dictionary is read
    only for LongRoPE, and only if there is none inside. The share of channels that rotate is read from the rope
    dictionary. ``exllamav3/util/rope.py`` and ``model/config.py`` were run to check these rules.

    Raises:
        InvalidArgument: the scaling is dynamic, which ExLlamaV3 does not support.
    """
    kind, longest = kind_of(entry), longest_of(config)
    original = entry.get(ORIGINAL) or config.get(ORIGINAL) or longest
    if config.get("rope_theta"):
        entry["rope_theta"] = config["rope_theta"]
    if kind == "yarn":
        stated = entry.get(ORIGINAL)
        entry |= {"factor": longest / stated if stated else entry["factor"], ORIGINAL: stated or longest}
    if kind == "longrope" and longest > original:
        entry |= {"short_factor": entry["long_factor"], "long_mscale": None}
    return with_factor({**(MISSING if kind == "llama3" else {}), **entry}, config, _yarn)


def _yarn(entry: Mapping[str, Any], latent: bool) -> float:
    """Return YaRN's attention factor."""
    default = 1.0 if entry.get("llama_4_scaling_beta") else sharpening(entry["factor"])
    stated = entry.get("attention_factor")
    return default if stated is None else float(stated)


def _unread(part: Mapping[str, Any], version: str) -> tuple[str, ...]:
    """Return the keys that ExLlamaV3 does not read: the original length outside the rope dictionary, unless the
    scaling is LongRoPE and its rope dictionary has no original length.
    """
    return () if kind_of(rope := rope_dictionary(part)) == "longrope" and ORIGINAL not in rope else (ORIGINAL,)


def spell(
    positions: ModelPositions, scaling: Scaling | LengthScaling | None, max_length: int | None, version: str
) -> dict[str, Any]:
    """Return the config.json of ``huggingface.write`` with the base both inside and outside the rope dictionary."""
    _, config, entry = config_of(positions, scaling, max_length)
    return {**config, "rope_theta": entry["rope_theta"]}


PROGRAM = Program(
    module="exllamav3",
    title="ExLlamaV3",
    releases=Releases("exllamav3", ("1.4.0", "1.6.5"), ("exllamav3/",)),
    change=change,
    takes="exllamav3",
    unread=_unread,
    rotated=with_stated_share,
    long_list="for every request",
    spell=spell,
)
read, write = PROGRAM.read, PROGRAM.write
