"""transformers 5 and 4, which read config.json. transformers 4 does not know ``rope_parameters``."""

import math
from collections.abc import Mapping
from typing import Any

from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.write import write as config_json
from posenc.integrations.program_tables import Releases
from posenc.integrations.programs import Program
from posenc.integrations.rope_dictionaries import ORIGINAL, kind_of, longest_of
from posenc.scaling import LengthScaling, Scaling


def change(entry: dict[str, Any], config: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return a rope dictionary as transformers reads it.

    Version 4 does not know ``rope_parameters``. For a config with ``rope_parameters`` alone, version 4 silently
    uses the config class's default rotary base (usually 10,000) and no scaling. Version 4 reads LongRoPE's original
    length only outside the rope dictionary, and the original length of other scalings only inside it. Version 5
    follows the config, as ``huggingface.read`` does.
    """
    older = version.startswith("4")
    if older and kind_of(entry) == "longrope":
        outside, longest = config.get(ORIGINAL), longest_of(config)
        if not outside:
            return {**entry, ORIGINAL: longest}
        return {
            "attention_factor": math.sqrt(1 + math.log(max(1.0, longest / outside), outside)),
            **{key: value for key, value in entry.items() if value is not None},
        }
    return {ORIGINAL: longest_of(config), **entry} if older and kind_of(entry) == "yarn" else entry


def spell(
    positions: ModelPositions, scaling: Scaling | LengthScaling | None, max_length: int | None, version: str
) -> dict[str, Any]:
    """Return the config.json of ``huggingface.write`` in the spelling of this version."""
    return config_json(
        positions, scaling, max_length=max_length, spelling="v4" if version.startswith("4") else "v5"
    )


PROGRAM = Program(
    module="transformers",
    title="transformers",
    # the last release without ``rope_parameters``, and the release with which families are measured
    releases=Releases("transformers", ("4.57.6", "5.23.0")),
    change=change,
    takes="transformers{version[0]}",
    unknown="{program} has no rotary model_type {model_type!r}; use transformers 5",
    unread=lambda part, version: (  # modeling_rope_utils.py:311, 430
        ()
        if not version.startswith("4")
        else ("rope_parameters",)
        if kind_of(part.get("rope_scaling") or {}) == "longrope"
        else ("rope_parameters", ORIGINAL)
    ),
    spell=spell,
)
read, write = PROGRAM.read, PROGRAM.write
