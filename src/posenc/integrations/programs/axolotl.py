"""Axolotl: ``overrides_of_model_config`` of a training's YAML, set on the config of transformers 5."""

from dataclasses import replace
from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.write import write as config_json
from posenc.integrations.position_table import PositionTable
from posenc.integrations.programs import ORIGINAL, Line, Releases, transformers
from posenc.scaling import LengthScaling, Scaling

RELEASES = Releases("axolotl", ("0.19.0",), ("axolotl/loaders/utils.py",))
LINE = Line("axolotl train config.yml", file="config.yml")


def read(config: object, version: str | None = None) -> PositionTable:
    """What transformers 5 computes from this config, which Axolotl asks for.

    Args:
        config, version: as in ``vllm.read``.
    """
    return replace(transformers.read(config), program=f"Axolotl {RELEASES.chosen(version)}")


def write(
    positions: ModelPositions, scaling: Scaling | LengthScaling | None = None, *, max_length: int | None = None
) -> dict[str, Any]:
    """The keys of its YAML: in ``overrides_of_model_config`` the rope dictionary, whole, and the length.

    Args:
        positions, scaling, max_length: as in ``huggingface.write``.

    Raises:
        InvalidArgument: a composite model, whose language model's config would become a plain dictionary.
    """
    if positions.path:
        where = ".".join(positions.path)
        raise InvalidArgument(f"Axolotl sets keys of the whole config alone; change {where} in config.json")
    config = config_json(positions, scaling, max_length=max_length)
    names = (FAMILIES[positions.model_type].length, ORIGINAL, "rope_parameters", "layer_types")
    keys = {key: config[key] for key in names if key in config}
    return {"overrides_of_model_config": keys, "sequence_len": config[names[0]]}
