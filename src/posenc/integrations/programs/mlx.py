"""mlx-lm, which reads a complete config.json with the older keys ``rope_theta`` and ``rope_scaling``."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.families import FAMILIES, READ_AS
from posenc.integrations.huggingface.keys import BOTH_FORMS
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.position_table import LayerTable
from posenc.integrations.program_tables import Releases, defaults
from posenc.integrations.programs import Program, config_of
from posenc.integrations.rope_dictionaries import (
    ORIGINAL,
    kind_of,
    mscale_of,
    pair_ratio,
    with_factor,
    with_pair,
)
from posenc.scaling import LengthScaling, Scaling

PHI = ("phi3", "phimoe")
"""Model types for which mlx-lm reads the original length only outside the rope dictionary."""
LOADS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "internlm3": ("rope_type", ("linear", "dynamic")),
    "minicpm3": ("", ("longrope",)),
    "phi3": ("type", ("longrope",)),
    "phimoe": ("type", ("longrope",)),
}
"""The model types that load only some forms of rope_scaling. Each is mapped to the key that must hold the rope type
(empty if both ``rope_type`` and ``type`` are read) and to the rope types that it accepts."""


def change(entry: dict[str, Any], config: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return a rope dictionary, for all layers or for one layer type, as mlx-lm reads it.

    Most models of mlx-lm read only ``rope_theta`` and ``rope_scaling``. If a config has ``rope_parameters``, these
    models use their default base and no scaling. YaRN's attention factor is computed from mscale and
    mscale_all_dim. If these keys are missing, it is 0.1·ln s + 1, where s is the scaling's factor. The ends of
    YaRN's ramp are rounded. LongRoPE uses long_factor at every length, an attention factor computed from the
    original length and max_position_embeddings, and ``half`` pairing (channels i and i + rotary_dim/2) in every
    family. M-RoPE sections are ignored. Windows are read from the config. For qwen3, a base outside the rope
    dictionary takes precedence over a base inside it.

    Raises:
        InvalidArgument: this scaling was not tested in mlx-lm for this model type.
    """
    kind, model_type = kind_of(entry), config["model_type"]
    missing: dict[str, Any] = {
        "llama3": {"low_freq_factor": 1.0, "high_freq_factor": 4.0, ORIGINAL: 8192},
        "yarn": {ORIGINAL: 4096},
    }
    fixed: dict[str, Any] = {"longrope": {"short_factor": entry.get("long_factor")}, "yarn": {"truncate": True}}
    key, kinds = LOADS.get(model_type, ("", (kind,)))
    if kind not in kinds or (key and key not in entry):
        raise InvalidArgument(
            f"this rope_scaling of {model_type} was not tested in mlx-lm; in rope_scaling, set "
            f"{key or 'rope_type'!r} to {' or '.join(kinds)}"
        )
    outer = {"rope_theta": config["rope_theta"]} if model_type == "qwen3" and config.get("rope_theta") else {}
    entry = {**missing.get(kind, {}), **entry, **fixed.get(kind, {}), **outer}
    if model_type == "phimoe":  # phimoe.py:61; the class of transformers needs both keys
        return {**entry, ORIGINAL: config[ORIGINAL], "short_mscale": entry.get("long_mscale")}
    return with_factor(entry, config, lambda entry, latent: pair_ratio(entry))


def _unread(part: Mapping[str, Any], version: str) -> tuple[str, ...]:
    """Return the config keys that mlx-lm ignores for this model type.

    ``rope_parameters``, ``rope_scaling`` and ``head_dim`` are among them unless the model's code in mlx-lm reads
    them. So is an original length outside the rope dictionary, unless the model type is in ``PHI``.

    Raises:
        InvalidArgument: mlx-lm would not read the config's rotary base, and has no default base.
    """
    model_type = str(part.get("model_type"))
    known, base = defaults(f"mlx-lm {version}")[model_type], FAMILIES[READ_AS.get(model_type, model_type)].base
    if not known["rope_parameters"] and part.get(base) is None and base not in known:
        raise InvalidArgument(
            f"mlx-lm {version} cannot run this config: for model_type {model_type!r} it reads no base in a rope "
            f"dictionary and has no default base; add {base!r} outside the rope dictionary"
        )
    return (
        *(key for key in (*BOTH_FORMS, "head_dim") if known.get(key) is False),
        *(() if model_type in PHI else (ORIGINAL,)),
    )


def _in_halves(layer: LayerTable) -> LayerTable:
    """Return the layer with a single position axis, and with ``half`` pairing if its scaling is LongRoPE."""
    return replace(
        layer,
        axes=(0,) * len(layer.axes),
        pairing="half" if str(layer.scaling).startswith("longrope") else layer.pairing,
    )


def spell(
    positions: ModelPositions, scaling: Scaling | LengthScaling | None, max_length: int | None, version: str
) -> dict[str, Any]:
    """Return the config.json for mlx-lm, in the older spelling: ``rope_theta`` beside ``rope_scaling``.

    Models that read only ``rope_parameters`` get that key instead.

    For LongRoPE, mlx-lm always uses ``long_factor``. It computes the attention factor from the maximum input
    length M and the original length L: √(1 + ln(M/L)/ln L), which is 1 if M = L. YaRN's attention factor a is
    written as ``mscale``, with a = (0.1·mscale·ln s + 1)/(0.1·mscale_all_dim·ln s + 1), where s is the scaling's
    factor.

    Raises:
        InvalidArgument: the scaling is dynamic; the scaling of phi3 or phimoe is not a list of factors; the rope
            dictionary sets a query scale; the model is composite; or mlx-lm cannot compute this encoding, for
            example because the ends of YaRN's ramp are not rounded, because pairs are divided into M-RoPE sections,
            or because mlx-lm uses a different attention factor or pairing for LongRoPE.
    """
    if positions.path:
        where = ".".join(positions.path)
        raise InvalidArgument(
            f"the language model of this config is in {where}, but mlx-lm needs a complete config.json; pass only "
            f"the contents of {where}, and write the result back to {where} in config.json"
        )
    known = defaults(f"mlx-lm {version}").get(positions.model_type, {})
    newer = known.get("rope_parameters") and not known.get("rope_scaling")
    recipe, config, entry = config_of(positions, scaling, max_length, spelling="v5" if newer else "v4")
    entry.pop("truncate", None)  # mlx-lm does not read it
    if entry.get("rope_type") == "yarn":  # some versions ignore its attention_factor
        entry = with_pair(entry)
    if entry.get("rope_type") == "longrope":
        if mscale_of(entry, recipe.get("scaling")) == 1:
            entry[ORIGINAL] = config[positions.length_key]
        entry.pop("attention_factor", None)
    if positions.model_type in PHI and entry:
        entry["type"], config[ORIGINAL] = "longrope", entry[ORIGINAL]
    return {**config, "rope_parameters" if newer else "rope_scaling": entry or None}


PROGRAM = Program(
    module="mlx",
    title="mlx-lm",
    # its layers need only the package mlx
    releases=Releases("mlx-lm", ("0.28.4", "0.32.2"), ("mlx_lm/",), requirements=("mlx[cpu]==0.32.4",)),
    change=change,
    takes="mlx-lm {version}",
    unread=_unread,
    long_list="for every request",
    finished=lambda table: table.with_layers(_in_halves),
    command="mlx_lm.generate --model {model}",
    spell=spell,
)
read, write = PROGRAM.read, PROGRAM.write
