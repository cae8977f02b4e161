"""LLaMA-Factory: ``rope_scaling`` and ``cutoff_len`` of a training's YAML, set on the config of transformers 4."""

import math
from dataclasses import replace
from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.write import rope_dictionary
from posenc.integrations.huggingface.write import write as config_json
from posenc.integrations.position_table import PositionTable
from posenc.integrations.programs import ORIGINAL, Line, Releases, transformers
from posenc.scaling import LengthScaling, Linear, Llama3, Scaling, YaRN

FILES = ("llamafactory/model/model_utils/rope.py", "llamafactory/extras/constants.py")
RELEASES = Releases("llamafactory", ("0.9.5",), FILES)
LINE = Line("llamafactory-cli train train.yaml", file="train.yaml")


def read(config: object, version: str | None = None) -> PositionTable:
    """What transformers 4 computes from this config, without ``rope_scaling`` among LLaMA-Factory's own keys.

    Args:
        config, version: as in ``vllm.read``.
    """
    table = transformers.read(config, transformers.RELEASES.versions[0])
    return replace(table, program=f"LLaMA-Factory {RELEASES.chosen(version)}")


def write(
    positions: ModelPositions, scaling: Scaling | LengthScaling | None = None, *, max_length: int | None = None
) -> dict[str, Any]:
    """``cutoff_len`` and ``rope_scaling``, the name of a type, whose numbers LLaMA-Factory makes itself.

    The factor is ⌈cutoff_len/L⌉ for the original length L of the config's rope dictionary, else its longest input;
    YaRN's attention factor and ends are transformers' own, Llama 3's 1 and 4. The length that it sets is no
    integer, which transformers 5 refuses: it needs transformers 4.

    Args:
        positions, scaling, max_length: as in ``huggingface.write``; max_length is ``cutoff_len``.

    Raises:
        InvalidArgument: a scaling with other numbers, or of another type; a config in transformers 5's spelling.
    """
    if positions.source.get("rope_parameters"):
        raise InvalidArgument(
            "this config has rope_parameters, which transformers 4 does not read; write config.json for it "
            "first: posenc inspect --for transformers@4.57.6"
        )
    longest = config_json(positions, scaling, max_length=max_length)[FAMILIES[positions.model_type].length]
    now = (positions if scaling is None else positions.with_scaling(scaling)).rotary.get("scaling")
    length = rope_dictionary(positions.source).get(ORIGINAL) or positions.max_length
    factor = float(math.ceil(longest / length))
    makes = {"linear": Linear(factor), "yarn": YaRN(factor, length), "llama3": Llama3(factor, length)}
    for name, scaled in makes.items():
        if scaled == now:
            return {"rope_scaling": name, "cutoff_len": longest}
    raise InvalidArgument(
        f"LLaMA-Factory has no keys for {now}: it knows {', '.join(makes)} of factor {factor:g} and original "
        f"length {length}; put the scaling into config.json, and leave rope_scaling out"
    )
