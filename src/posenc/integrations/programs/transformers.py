"""transformers 5 and 4, which read config.json. transformers 4 does not know ``rope_parameters``."""

import math
from collections.abc import Mapping
from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.config import language_part
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.write import Spelling
from posenc.integrations.huggingface.write import write as config_json
from posenc.integrations.position_table import PositionTable
from posenc.integrations.program_tables import defaults, table_of
from posenc.integrations.programs import Line, Program, Releases
from posenc.integrations.rope_dictionaries import ORIGINAL, kind_of
from posenc.scaling import LengthScaling, Scaling

RELEASES = Releases("transformers", ("4.57.6", "5.23.0"))
"""The last release without ``rope_parameters``, and the release with which families are measured."""


def read(config: object, version: str | None = None) -> PositionTable:
    """Return the table that transformers computes from this config.

    Version 4 does not know ``rope_parameters``. For a config with ``rope_parameters`` alone, version 4 silently
    uses the class's base (usually 10,000) and no scaling. Version 4 reads LongRoPE's original length only outside
    the rope dictionary. Version 5 follows the config, but ignores ``truncate`` in the rope dictionaries of
    individual layer types.

    Args:
        config, version: as in ``vllm.read``.

    Raises:
        InvalidArgument: version 4 has no rotary model of this model_type.
    """
    version = RELEASES.chosen(version)
    older, model_type = version.startswith("4"), language_part(config)[0].get("model_type")
    if older and model_type not in defaults("transformers4"):
        raise InvalidArgument(f"transformers {version} has no rotary model_type {model_type!r}; use transformers 5")

    def change(entry: dict[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
        if older and kind_of(entry) == "longrope":
            outside, longest = config.get(ORIGINAL), config["max_position_embeddings"]
            if not outside:
                return {**entry, ORIGINAL: longest}
            taken = math.sqrt(1 + math.log(max(1.0, longest / outside), outside))
            return {"attention_factor": taken, **{k: v for k, v in entry.items() if v is not None}}
        flat = older or entry in (config.get("rope_parameters"), config.get("rope_scaling"))
        return {key: value for key, value in entry.items() if flat or key != "truncate"}

    takes, unread = ("transformers4", ("rope_parameters",)) if older else ("transformers5", ())
    return table_of("transformers", "transformers", version, config, takes, change, unread=unread)


def spell(
    positions: ModelPositions, scaling: Scaling | LengthScaling | None, max_length: int | None, version: str
) -> dict[str, Any]:
    """Return the config.json of ``huggingface.write`` in the spelling of this version."""
    spelling: Spelling = "v4" if version.startswith("4") else "v5"
    return config_json(positions, scaling, max_length=max_length, spelling=spelling)


PROGRAM = Program("transformers", RELEASES, Line("", file="config.json"), read, spell)
write = PROGRAM.write
