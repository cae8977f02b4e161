"""Writes positions back as a Hugging Face config, as they were read or with another schedule."""

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument, UnknownName
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.keys import BOTH_FORMS
from posenc.integrations.huggingface.layers import ModelPositions
from posenc.integrations.huggingface.scaling import parameters_from, per_pair
from posenc.integrations.huggingface.silent import silent
from posenc.schedules import Default, DynamicNTK, LengthSchedule, Schedule

Spelling = Literal["v5", "v4"]


def write(
    positions: ModelPositions,
    schedule: Schedule | LengthSchedule | None = None,
    *,
    max_length: int | None = None,
    spelling: Spelling = "v5",
) -> dict[str, Any]:
    """The config again, with its positions spelt in one way, or with another schedule in place.

    Of a composite model it is the language model's part, the ``text_config``.

    Args:
        positions: what ``read`` returned.
        schedule: that of the layers that are stretched; default the one that was read.
        max_length: the longest input that the config shall allow; default factor × original length where the
            schedule is replaced. With dynamic scaling it is the original length, where the scaling starts.
        spelling: ``"v5"``, one ``rope_parameters``; ``"v4"``, ``rope_scaling`` beside ``rope_theta``, which
            transformers reads too and which servers with older readers need. Not for nested layer types.

    Raises:
        InvalidArgument: a family whose config has no place for this schedule.
    """
    if spelling not in get_args(Spelling):
        raise UnknownName("spelling", spelling, get_args(Spelling))
    family = FAMILIES[positions.model_type]
    config = dict(positions.source)
    if schedule is not None:
        positions = positions.rescaled(schedule)
        reach = math.ceil(positions.original_length * getattr(schedule, "factor", 1.0))
        # Dynamic scaling starts at the length that the config allows.
        max_length = positions.original_length if isinstance(schedule, DynamicNTK) else max_length or reach
    if family.kind != "rotary" or family.fixed_base is not None:
        if schedule not in (None, Default()):
            raise InvalidArgument(
                f"model_type {positions.model_type!r} has no key for {schedule}; it is in its code"
            )
        return config
    if len(positions.turning) > 1 and family.bases:
        if schedule is None:
            return config
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has one rope_parameters for several bases, {family.bases}; scale "
            "it there by hand"
        )
    if not positions.turning:
        return config
    for key in (*BOTH_FORMS, family.base, family.partial, family.local):
        config.pop(key or "", None)
    config[family.length] = max_length or positions.max_length
    if "original_max_position_embeddings" in family.extra:
        config["original_max_position_embeddings"] = positions.original_length
    beside = {key: value for key, value in _rope(positions.source).items() if key in family.beside}
    if family.states_head_dim and config.get("head_dim") is None:
        config["head_dim"] = positions.rotary.get("head_dim")
    entries = {name: _entry(positions, recipe) for name, recipe in positions.turning.items()}
    if not positions.alike:
        if spelling == "v4":
            raise InvalidArgument(
                "spelling='v4' has one rope_scaling for all layers and this one has several; use 'v5'"
            )
        config["layer_types"] = list(positions.layers)
        config["rope_parameters"] = {name: entries.get(name) for name in positions.kinds}
        return config
    entry = {**next(iter(entries.values())), **beside}
    if spelling == "v5":
        return {**config, "rope_parameters": entry}
    config[family.base] = entry.pop("rope_theta")
    if family.partial and "partial_rotary_factor" in entry and entry["rope_type"] != "proportional":
        config[family.partial] = entry.pop("partial_rotary_factor")
    plain = entry == {"rope_type": "default"} and "rope_parameters" not in silent().get(positions.model_type, {})
    config["rope_scaling"] = None if plain else entry  # null is the family's own, and not everywhere none
    return config


def changes(positions: ModelPositions, schedule: Schedule | LengthSchedule, **options: Any) -> dict[str, Any]:
    """The keys of the config that ``write`` would set to something else; None for one that goes away."""
    before, after = positions.source, write(positions, schedule, **options)
    changed = {key: value for key, value in after.items() if key not in before or before[key] != value}
    return {**changed, **{key: None for key in before if key not in after}}


def _rope(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The rope dictionary under whichever key it stands."""
    return next((config[key] for key in BOTH_FORMS if config.get(key)), {})


def _entry(positions: ModelPositions, recipe: Recipe) -> dict[str, Any]:
    """One kind's rope dictionary."""
    schedule, rotary_dim, base = (recipe.get(name) for name in ("schedule", "rotary_dim", "base"))
    model_type, family = positions.model_type, FAMILIES[positions.model_type]
    entry = parameters_from(schedule, rotary_dim, base)
    if family.partial and entry["rope_type"] == "proportional" and rotary_dim != recipe.get("head_dim"):
        raise InvalidArgument(
            f"model_type {model_type!r} has {family.partial!r} for the share of a head that turns, and so no place "
            f"for {schedule}"
        )
    dropped = not positions.alike and not entry.get("truncate", True)  # which transformers drops in a nested entry
    refused = model_type == "phi3" and entry["rope_type"] not in ("default", "longrope")  # all that Phi-3 accepts
    if dropped or refused:
        entry = per_pair(schedule, rotary_dim, base)
    if family.second_factor and not math.isclose(positions.softmax_factor, 1.0):
        entry = _with_softmax(entry, schedule, positions.softmax_factor, rotary_dim, base)
    if family.partial and entry["rope_type"] != "proportional":
        entry["partial_rotary_factor"] = rotary_dim / recipe.get("head_dim")
    return entry


def _with_softmax(
    entry: dict[str, Any],
    schedule: Schedule | LengthSchedule,
    softmax_factor: float,
    rotary_dim: int,
    base: float,
) -> dict[str, Any]:
    """The entry with the factor on the scores that the model was loaded with, spelt as DeepSeek's second number.

    What says it is (0.1·mscale_all_dim·ln s + 1)², of whatever type; s must be above 1.
    """
    if "mscale_all_dim" in entry:  # a schedule that states its own
        return entry
    if entry.get("factor", 1.0) <= 1 and not isinstance(schedule, LengthSchedule):
        entry = {**per_pair(schedule, rotary_dim, base), "factor": 2.0}
    if entry.get("factor", 1.0) <= 1:
        raise InvalidArgument(f"{schedule} with factor 1 has no place for DeepSeek's second number; use Default()")
    amount = (math.sqrt(softmax_factor) - 1) / (0.1 * math.log(entry["factor"]))
    if entry["rope_type"] == "yarn":
        entry = {**entry, "attention_factor": schedule.spectrum(rotary_dim, base).attention_factor}  # type: ignore[union-attr]
    return {**entry, "mscale_all_dim": amount}
