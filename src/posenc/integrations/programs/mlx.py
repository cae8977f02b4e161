"""mlx-lm: a whole config.json, in the older spelling."""

import math
from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.programs import ORIGINAL, PLAN, Releases, config_of, entry_of, with_pair
from posenc.scaling import LengthScaling, Scaling

RELEASES = Releases("mlx-lm", ("0.32.2",), requirements=("mlx[cpu]==0.32.4",))
"""Its layers need mlx alone."""


def write(
    positions: ModelPositions, scaling: Scaling | LengthScaling | None = None, *, max_length: int | None = None
) -> dict[str, Any]:
    """The config.json that mlx-lm reads, in its older spelling: ``rope_theta`` beside ``rope_scaling``.

    mlx-lm has no attention factor beside a list of factors; it takes √(1 + ln s/ln L) from the two lengths, which
    is 1 where they are equal, and it always uses the long list. YaRN's factor a goes into ``mscale``, as
    a = (0.1·mscale·ln s + 1)/(0.1·mscale_all_dim·ln s + 1).

    Raises:
        InvalidArgument: dynamic scaling, an unrounded ramp, and lists of factors with another attention factor;
            sections (M-RoPE), which mlx-lm rotates as if there were none; scales of queries in the rope dictionary;
            a composite model, of which this would be a part alone.
    """
    if positions.path:
        where = ".".join(positions.path)
        raise InvalidArgument(
            f"this model's language model stands in {where}, and what is written here is a whole config.json; read "
            f"{where} alone and put the answer in its place"
        )
    recipe, config = config_of(positions, scaling, max_length, spelling="v4")
    now, entry = recipe.get("scaling"), entry_of(positions, config, "rope_scaling")
    if recipe.get("axes"):
        raise InvalidArgument(
            f"mlx-lm rotates {positions.model_type!r} without its sections (mrope_section), right for text alone; "
            "use mlx-vlm"
        )
    if entry.get("rope_type") == "dynamic":
        raise InvalidArgument(f"{now} rotates cached keys by other bases in mlx-lm; {PLAN}")
    if not entry.pop("truncate", True):
        raise InvalidArgument(f"{now} has unrounded ends, and mlx-lm rounds them; leave truncate out")
    if entry.get("rope_type") == "yarn":  # whose attention_factor not every mlx-lm reads
        entry = with_pair(entry)
    if entry.get("rope_type") == "longrope":
        longest = config[FAMILIES[positions.model_type].length]
        scale = entry.pop("attention_factor", None) or now.plan(longest).attention_factor
        if scale == 1:
            entry[ORIGINAL] = longest
        ratio = longest / entry[ORIGINAL]
        taken = 1.0 if ratio <= 1 else math.sqrt(1 + math.log(ratio) / math.log(entry[ORIGINAL]))
        if not math.isclose(scale, taken):
            raise InvalidArgument(f"{now} has attention factor {scale:g}, and mlx-lm takes {taken:g} there")
    return {**config, "rope_scaling": entry or None}
