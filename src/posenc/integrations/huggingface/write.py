"""Writes position settings back as a Hugging Face config, unchanged or with a new scaling."""

import math
from collections.abc import Mapping
from typing import Any, Literal, get_args

from posenc.arguments import at_least, instance, one_of
from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.config_class import RefusedByClass, class_form
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.keys import BOTH_FORMS, rope_dictionary
from posenc.integrations.huggingface.model_positions import AS_READ, ModelPositions, scaling_of, softmax_factor
from posenc.integrations.huggingface.scaling import parameters_from, per_pair
from posenc.integrations.position_table import briefly
from posenc.integrations.rope_dictionaries import with_mscales
from posenc.scaling import NTK, Default, DynamicNTK, LengthScaling, Scaling

Spelling = Literal["v5", "v4"]


def write(
    positions: ModelPositions,
    scaling: Scaling | LengthScaling | str | None = None,
    *,
    max_length: int | None = None,
    spelling: Spelling = "v5",
) -> dict[str, Any]:
    """Return the config with its position settings in one spelling, optionally with a new scaling.

    For a composite model, the result is only the config of its language model, ``text_config``.

    Args:
        positions: a model's position settings, as returned by ``read``.
        scaling: the scaling of the layer types named by ``positions.stretched``, as in
            ``positions.with_scaling``. The default is the model's own scaling.
        max_length: the longest input that the config allows. With a new scaling, the default is factor × original
            length, but a config with dynamic scaling always gets the original length, at which the scaling starts.
            ``max_length`` is required if the model's own scaling reaches further than the new scaling, which
            replaces it.
        spelling: ``"v5"`` writes one dictionary, ``rope_parameters``. ``"v4"`` writes ``rope_scaling`` and
            ``rope_theta``; older servers need these keys, and transformers 5 still reads them. The v4 spelling
            cannot express a rope dictionary per layer type.

    Raises:
        InvalidArgument: the family's config cannot express this scaling, the scaling replaces NTK, or the scaling
            reaches fewer positions than the scaling that it replaces and ``max_length`` is not given.
    """
    instance(positions, ModelPositions, "positions", AS_READ)
    one_of("spelling", spelling, get_args(Spelling))
    scaling = scaling_of(scaling, positions.original_length)
    max_length = None if max_length is None else at_least(1)(max_length, "max_length")
    if scaling is not None:
        positions, max_length = _stretched(positions, scaling, max_length)
    if not _says(positions, scaling):
        return dict(positions.source)
    config = _without(positions, max_length or positions.max_length)
    entries = {name: _entry(positions, recipe) for name, recipe in positions.rotary_recipes.items()}
    if not positions.alike:
        if spelling == "v4":
            raise InvalidArgument(
                "spelling='v4' has one rope_scaling dictionary for all layers, but this model needs several "
                "dictionaries; use spelling='v5'"
            )
        config = {
            **config,
            **({} if {*positions.recipes} <= {"main", "compress"} else {"layer_types": [*positions.layer_types]}),
            "rope_parameters": {name: entries.get(name) for name in positions.recipes},
        }
        try:  # Gemma 4's class refuses longrope
            class_form({**config, "model_type": positions.model_type})
        except RefusedByClass as error:
            raise InvalidArgument(
                f"scaling={briefly(positions.rotary.get('scaling'))} cannot be written for model_type "
                f"{positions.model_type!r}, so use another: {error}"
            ) from error
        return config
    stated, ignored = rope_dictionary(positions.source), FAMILIES[positions.model_type].ignored_rope_keys
    floor = {key: stated[key] for key in stated if key == "original_max_position_embeddings" and positions.scales}
    entry = {**floor, **next(iter(entries.values())), **{key: stated[key] for key in stated if key in ignored}}
    return {**config, **(_older(positions, config, entry) if spelling == "v4" else {"rope_parameters": entry})}


def _stretched(
    positions: ModelPositions, scaling: Scaling | LengthScaling, max_length: int | None
) -> tuple[ModelPositions, int]:
    """Return the position settings with this scaling, and the longest input that the config then allows."""
    before, positions = positions, positions.with_scaling(scaling)
    if positions is before and max_length is None:
        return positions, positions.max_length
    replaced = before.rotary.get("scaling")
    if isinstance(replaced, NTK) and scaling not in (Default(), replaced):
        raise InvalidArgument(
            f"{scaling} would replace the model's own {replaced}, which acts within the trained length; fold alpha "
            "into the base, and scale that config: "
            f"rope_theta = {_entry(before, before.rotary)['rope_theta']}, without rope_scaling"
        )
    reached = (
        positions.original_length  # dynamic scaling starts at the length that the config allows
        if isinstance(scaling, DynamicNTK)
        else max_length or math.ceil(positions.original_length * getattr(scaling, "factor", 1.0))
    )
    if max_length is None and before.tuned_length > max(reached, before.original_length) and scaling != Default():
        raise InvalidArgument(
            f"{scaling} reaches {reached} positions, but the model's own {type(replaced).__name__} reaches "
            f"{before.tuned_length}; pass max_length (--max-length on the command line) to replace it anyway"
        )
    return positions, reached


def _says(positions: ModelPositions, scaling: Scaling | LengthScaling | None) -> bool:
    """Return whether the config has a rope dictionary. Raise an error if the config cannot express ``scaling``."""
    family = FAMILIES[positions.model_type]
    several = len(positions.rotary_recipes) > 1 and family.rotates in ("bases", "scaled")
    if family.fixed_base is not None and scaling not in (None, Default()):
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has no key for {scaling}; the encoding is fixed in its code"
        )
    if several and scaling is not None:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has one rope_parameters dictionary for all layers, but "
            f"{family.rotates_key} makes layers rotate differently from each other, so no scaling can be written "
            "for it; edit config.json by hand"
        )
    return bool(positions.rotary_recipes) and family.fixed_base is None and not several


def _without(positions: ModelPositions, max_length: int) -> dict[str, Any]:
    """Return the config with this length, without its rope dictionary, and without the rotary keys outside the
    dictionary.
    """
    family = FAMILIES[positions.model_type]
    gone = {*BOTH_FORMS, family.base, family.partial, family.local_base}
    config = {
        **{key: value for key, value in positions.source.items() if key not in gone},
        positions.length_key: max_length,
    }
    if positions.model_type == "phi3":
        config["original_max_position_embeddings"] = positions.original_length
    if positions.model_type == "mixtral" and config.get("head_dim") is None:  # without head_dim, it does not scale
        config["head_dim"] = positions.rotary.get("head_dim")
    return config


def _older(positions: ModelPositions, config: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of transformers v4: ``rope_scaling`` and, outside it, the base and the share of channels that
    rotate.
    """
    family, entry = FAMILIES[positions.model_type], dict(entry)
    outer = {family.base: entry.pop("rope_theta")}
    if family.partial and "partial_rotary_factor" in entry and entry["rope_type"] != "proportional":
        outer[family.partial] = entry.pop("partial_rotary_factor")
    if entry["rope_type"] == "longrope":  # transformers 4 reads the length there in every family
        outer["original_max_position_embeddings"] = entry["original_max_position_embeddings"]
    if entry == {"rope_type": "default"}:
        null = class_form({**config, **outer, "rope_scaling": None, "model_type": positions.model_type})
        rope = getattr(null, "rope_parameters", None) or {}
        if rope.get("rope_type", "default") in ("default", "axial"):  # the class may replace null with a scaling
            return {**outer, "rope_scaling": None}
    return {**outer, "rope_scaling": entry}


def changes(positions: ModelPositions, scaling: Scaling | LengthScaling | str, **options: Any) -> dict[str, Any]:
    """Return the config keys that ``write`` would change, with their new values, or None for a key to remove."""
    written = write(positions, scaling, **options)  # checks positions
    return changed(positions.source, written)


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that differ, with their values in ``after``, or None for a key to remove."""
    return {
        **{key: value for key, value in after.items() if key not in before or before[key] != value},
        **{key: None for key in before if key not in after},
    }


def _entry(positions: ModelPositions, recipe: Recipe) -> dict[str, Any]:
    """Return the rope dictionary of a layer type."""
    scaling, rotary_dim, base = (recipe.get(name) for name in ("scaling", "rotary_dim", "base"))
    model_type, family = positions.model_type, FAMILIES[positions.model_type]
    entry = parameters_from(scaling, rotary_dim, base)
    if family.partial and entry["rope_type"] == "proportional" and rotary_dim != recipe.get("head_dim"):
        raise InvalidArgument(
            f"in model_type {model_type!r}, partial_rotary_factor already gives the share of channels that rotate "
            f"({rotary_dim} per head), so it cannot express the fraction of {scaling}; use another scaling"
        )
    dropped = not positions.alike and not entry.get("truncate", True)  # transformers drops it in a nested entry
    refused = entry["rope_type"] not in ("default", "longrope") and (  # Phi-3 and PhiMoE allow only these
        model_type == "phi3" or family.mscale_by_length
    )
    if dropped or refused:
        entry = per_pair(scaling, rotary_dim, base)
    if family.mscale_by_length and entry["rope_type"] == "longrope":
        entry = with_mscales(entry, scaling)
    factor = softmax_factor(recipe)
    if family.mscale_scores and not math.isclose(factor, 1.0) and "mscale_all_dim" not in entry:
        entry = _with_softmax(entry, scaling, factor, rotary_dim, base)
    if family.rotates == "compression" or (family.partial and entry["rope_type"] != "proportional"):
        entry["partial_rotary_factor"] = rotary_dim / (positions.query_dim or recipe.get("head_dim"))
    return entry


def _with_softmax(
    entry: dict[str, Any],
    scaling: Scaling | LengthScaling,
    factor: float,
    rotary_dim: int,
    base: float,
) -> dict[str, Any]:
    """Return the entry with the model's factor on scores, expressed as DeepSeek's mscale_all_dim.

    For every type of scaling, the factor on scores is (0.1·mscale_all_dim·ln s + 1)². s is the entry's ``factor``,
    which must be above 1.
    """
    if entry.get("factor", 1.0) <= 1 and not isinstance(scaling, LengthScaling):
        entry = {**per_pair(scaling, rotary_dim, base), "factor": 2.0}
    if entry.get("factor", 1.0) <= 1:
        raise InvalidArgument(
            f"{scaling} has factor 1, with which mscale_all_dim has no effect, so the config cannot express the "
            "model's factor on scores; use Default()"
        )
    amount = (math.sqrt(factor) - 1) / (0.1 * math.log(entry["factor"]))
    if entry["rope_type"] == "yarn":
        entry = {**entry, "attention_factor": scaling.frequencies(rotary_dim, base).attention_factor}  # type: ignore[union-attr]
    return {**entry, "mscale_all_dim": amount}
