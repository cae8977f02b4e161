"""A model's positions as the keys of other programs: vLLM's overrides, MLX's config, llama.cpp's GGUF fields.

Each says the same frequencies and the same attention factor in its own words, or refuses: a key that a program
ignores is worse than none.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.layers import ModelPositions
from posenc.integrations.huggingface.scaling import per_pair
from posenc.integrations.huggingface.write import write
from posenc.schedules import NTK, Default, DynamicNTK, LengthSchedule, Linear, LongRoPE, Schedule, YaRN

ORIGINAL = "original_max_position_embeddings"


def vllm(
    positions: ModelPositions, schedule: Schedule | LengthSchedule | None = None, *, max_length: int | None = None
) -> dict[str, Any]:
    """What vLLM takes as ``--hf-overrides``: ``rope_parameters`` and ``max_position_embeddings``.

    Where transformers says ``attention_factor``, vLLM says ``attn_factor`` times its own 0.1·ln s + 1, and for
    lists of factors ``short_mscale`` and ``long_mscale``.

    Args:
        positions, schedule, max_length: as in ``write``.

    Raises:
        InvalidArgument: dynamic scaling, whose base vLLM fixes once for all requests; pairs that stand still; a
            list of factors for neighbours, or for a part of the head.
    """
    recipe = _one(positions, schedule)
    written = write(positions, schedule, max_length=max_length)
    entry = dict(written["rope_parameters"])
    kind = entry["rope_type"]
    if kind in ("dynamic", "proportional"):
        raise InvalidArgument(f"{recipe.get('schedule')} is not what vLLM computes under {kind!r}; {_PLAN}")
    if kind == "longrope":
        if recipe.get("pairing") != "half" or recipe.get("rotary_dim") != recipe.get("head_dim"):
            raise InvalidArgument(
                "vLLM has lists of factors for whole heads of halves alone; use Linear, Llama3 or YaRN"
            )
        scale = entry.pop("attention_factor", None)
        entry |= {} if scale is None else {"short_mscale": scale, "long_mscale": scale}
    if kind == "yarn" and "attention_factor" in entry:
        entry["attn_factor"] = entry.pop("attention_factor") / _sharpening(entry["factor"])
    return {"max_position_embeddings": written["max_position_embeddings"], "rope_parameters": entry}


def mlx(
    positions: ModelPositions, schedule: Schedule | LengthSchedule | None = None, *, max_length: int | None = None
) -> dict[str, Any]:
    """The config.json that mlx-lm reads, in its older spelling: ``rope_theta`` beside ``rope_scaling``.

    mlx-lm has no attention factor beside a list of factors; it takes √(1 + ln s/ln L) from the two lengths, which
    is 1 where they are equal, and it always uses the long list. YaRN's factor a goes into ``mscale``, as
    a = 0.1·mscale·ln s + 1.

    Raises:
        InvalidArgument: dynamic scaling, an unrounded ramp, and lists of factors with another attention factor.
    """
    schedule_now = _one(positions, schedule).get("schedule")
    written = write(positions, schedule, max_length=max_length, spelling="v4")
    entry = dict(written["rope_scaling"] or {})
    if entry.get("rope_type") == "dynamic":
        raise InvalidArgument(f"{schedule_now} is not in mlx-lm; {_PLAN}")
    if not entry.pop("truncate", True):
        raise InvalidArgument(f"{schedule_now} has unrounded ends, and mlx-lm rounds them; leave truncate out")
    if entry.get("rope_type") == "yarn" and "attention_factor" in entry:  # which not every mlx-lm reads
        amount = (entry.pop("attention_factor") - 1) / (0.1 * math.log(entry["factor"]))
        entry |= {"mscale": amount, "mscale_all_dim": 0.0}
    if entry.get("rope_type") == "longrope":
        longest, scale = written["max_position_embeddings"], entry.pop("attention_factor", None)
        if scale == 1:
            entry[ORIGINAL] = longest
        ratio = longest / entry[ORIGINAL]
        own = 1.0 if ratio <= 1 else math.sqrt(1 + math.log(ratio) / math.log(entry[ORIGINAL]))
        if scale is not None and not math.isclose(scale, own):
            raise InvalidArgument(f"{schedule_now} has attention factor {scale:g}, and mlx-lm takes {own:g} there")
    return {**written, "rope_scaling": entry or None}


@dataclass(frozen=True)
class Fields:
    """Metadata and tensors of a GGUF file that say its positions.

    Args:
        values: by key; numbers and text.
        tensors: by name, float32.
    """

    values: Mapping[str, int | float | str]
    tensors: Mapping[str, Float[Tensor, " pairs"]] = field(default_factory=dict)

    def add_to(self, writer: Any) -> None:
        """Put them into a ``gguf.GGUFWriter``."""
        add = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        for key, value in self.values.items():
            add[type(value)](key, value)
        for name, tensor in self.tensors.items():
            writer.add_tensor(name, tensor.numpy())


def gguf(
    positions: ModelPositions,
    schedule: Schedule | LengthSchedule | None = None,
    *,
    architecture: str = "llama",
    max_length: int | None = None,
) -> Fields:
    """The fields that llama.cpp reads, by the names of the GGUF specification.

    Linear and YaRN have a type of their own; LongRoPE two tensors; everything else that is fixed is a factor per
    pair, ``rope_freqs.weight``, by which llama.cpp divides, and ``attn_factor``. Its YaRN multiplies
    ``yarn_attn_factor`` by its own 0.1·ln s + 1.

    Args:
        positions, schedule, max_length: as in ``write``.
        architecture: the prefix of the keys, llama.cpp's name of the family.

    Raises:
        InvalidArgument: dynamic scaling, and pairs that stand still.
    """
    recipe = _one(positions, schedule)
    now, rotary_dim, base = recipe.get("schedule"), recipe.get("rotary_dim"), recipe.get("base")
    longest = write(positions, schedule, max_length=max_length)["max_position_embeddings"]
    rope, scaling = f"{architecture}.rope", f"{architecture}.rope.scaling"
    plain = {f"{architecture}.context_length": longest, f"{rope}.dimension_count": rotary_dim}
    if isinstance(now, DynamicNTK):
        raise InvalidArgument(f"{now} is not in llama.cpp; {_PLAN}")
    if isinstance(now, NTK) and now.form == "base":
        return Fields({**plain, f"{rope}.freq_base": float(now.base(rotary_dim, base))})
    plain[f"{rope}.freq_base"] = float(base)
    if isinstance(now, Default):
        return Fields(plain)
    if isinstance(now, Linear):
        return Fields({**plain, f"{scaling}.type": "linear", f"{scaling}.factor": float(now.factor)})
    if isinstance(now, LongRoPE):
        lengths = {
            f"{scaling}.original_context_length": now.original_length,
            f"{scaling}.factor": float(now.factor),
        }
        scale = now.plan(longest).spectrum(rotary_dim, base).attention_factor
        return Fields(
            {**plain, **lengths, f"{scaling}.type": "longrope", f"{scaling}.attn_factor": float(scale)},
            {
                "rope_factors_short.weight": torch.tensor(now.short_factors, dtype=torch.float32),
                "rope_factors_long.weight": torch.tensor(now.long_factors, dtype=torch.float32),
            },
        )
    if isinstance(now, YaRN) and now.ramp == "dimension" and now.truncate:
        return Fields({**plain, **_yarn(now, scaling)})
    entry = per_pair(now, rotary_dim, base)
    more = {} if entry["attention_factor"] == 1 else {f"{scaling}.attn_factor": float(entry["attention_factor"])}
    return Fields({**plain, **more}, {"rope_freqs.weight": torch.tensor(entry["long_factor"], dtype=torch.float32)})


def _yarn(schedule: YaRN, scaling: str) -> dict[str, int | float | str]:
    return {
        f"{scaling}.type": "yarn",
        f"{scaling}.factor": float(schedule.factor),
        f"{scaling}.original_context_length": schedule.original_length,
        f"{scaling}.yarn_beta_fast": float(schedule.beta_fast),
        f"{scaling}.yarn_beta_slow": float(schedule.beta_slow),
        f"{scaling}.yarn_attn_factor": float(schedule.scale / _sharpening(schedule.factor)),
    }


_PLAN = "write schedule.plan(total_length), which is fixed"


def _sharpening(factor: float) -> float:
    return 0.1 * math.log(factor) + 1


def _one(positions: ModelPositions, schedule: Schedule | LengthSchedule | None) -> Any:
    """The recipe of the layers that turn, all alike."""
    made = positions if schedule is None else positions.rescaled(schedule)
    if not made.turning or not made.alike:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} turns {sorted(made.turning) or 'nothing'}; one kind is expected"
        )
    return made.rotary
