"""ExLlamaV3, which reads config.json in either spelling."""

from collections.abc import Mapping
from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.config import language_part
from posenc.integrations.huggingface.keys import rope_dictionary
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.position_table import PositionTable
from posenc.integrations.program_tables import defaults, table_of
from posenc.integrations.programs import PLAN, Line, Program, Releases, config_of
from posenc.integrations.rope_dictionaries import ORIGINAL, kind_of, sharpening, with_factor, with_stated_share
from posenc.scaling import LengthScaling, Scaling

RELEASES = Releases("exllamav3", ("1.4.0", "1.6.5"), ("exllamav3/",))


def read(config: object, version: str | None = None) -> PositionTable:
    """Return the table that ExLlamaV3 computes from this config.json.

    If the config gives the original length, YaRN's factor is max_position_embeddings divided by this length, and a
    factor in the config is ignored. YaRN's attention factor is attention_factor, or else 1 with
    llama_4_scaling_beta, or else 0.1·ln s + 1; mscale and mscale_all_dim are not read. LongRoPE computes its
    attention factor from its two lengths. If the config allows more than the original length, LongRoPE uses the
    long list for every input. A base outside the rope dictionary takes precedence over a base inside it. An
    original length outside it is read only for LongRoPE, and only if there is none inside. The share of channels
    that rotate is read from the rope dictionary. ``exllamav3/util/rope.py`` and ``model/config.py`` were run to
    check these rules.

    Args:
        config, version: as in ``vllm.read``.

    Raises:
        InvalidArgument: ExLlamaV3 does not read this model_type with ``read_rope_settings_default`` alone, or the
            scaling is dynamic, which ExLlamaV3 does not support.
    """
    version, part = RELEASES.chosen(version), language_part(config)[0]
    model_type, rope = str(part.get("model_type")), rope_dictionary(part)
    if model_type not in defaults("exllamav3"):
        raise InvalidArgument(
            f"model_type {model_type!r} was not checked in ExLlamaV3 {version}; compare its numbers with the "
            "output of posenc vectors"
        )

    def yarn(entry: Mapping[str, Any], latent: bool) -> float:
        default = 1.0 if entry.get("llama_4_scaling_beta") else sharpening(entry["factor"])
        stated = entry.get("attention_factor")
        return default if stated is None else float(stated)

    def change(entry: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
        kind, longest = kind_of(entry), config["max_position_embeddings"]
        original = entry.get(ORIGINAL) or config.get(ORIGINAL) or longest
        if kind == "dynamic":
            raise InvalidArgument(f"ExLlamaV3 {version} has no rope_type 'dynamic'; {PLAN}")
        if config.get("rope_theta"):
            entry["rope_theta"] = config["rope_theta"]
        if kind == "yarn":
            stated = entry.get(ORIGINAL)
            entry |= {"factor": longest / stated if stated else entry["factor"], ORIGINAL: stated or longest}
        if kind == "longrope" and longest > original:
            entry = {key: value for key, value in entry.items() if key != "long_mscale"}
            entry["short_factor"] = entry["long_factor"]
        return with_factor(entry, config, yarn)

    outside = kind_of(rope) == "longrope" and ORIGINAL not in rope
    return table_of(
        "exllamav3",
        "ExLlamaV3",
        version,
        config,
        "exllamav3",
        change,
        unread=() if outside else (ORIGINAL,),
        rotated=with_stated_share,
        long_list="for every request",
    )


def spell(
    positions: ModelPositions, scaling: Scaling | LengthScaling | None, max_length: int | None, version: str
) -> dict[str, Any]:
    """Return the config.json of ``huggingface.write`` with the base both inside and outside the rope dictionary."""
    _, config, entry = config_of(positions, scaling, max_length)
    return {**config, "rope_theta": entry["rope_theta"]}


PROGRAM = Program("ExLlamaV3", RELEASES, Line("", file="config.json"), read, spell)
write = PROGRAM.write
