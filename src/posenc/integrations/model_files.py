"""How the model files of each program treat positions. A model file is the Python file that runs a family of
models.

The behaviour was recorded by running the model files of released versions. The rotary code that a program's model
files share is described in ``programs`` instead.

``python -m tools.model_files`` builds and runs a model for each of its test configs; stubs replace the other parts
of the program. The tool writes the class that runs each ``model_type``, with its file and line, to
model_files.json. departures.toml lists behaviour of these classes that does not follow from any config. Tests
compare departures.toml with recordings of the models that the tool ran.
"""

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.families import built
from posenc.integrations.huggingface.keys import BOTH_FORMS
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.schema import NEAR
from posenc.integrations.position_table import LayerTable, PositionTable
from posenc.integrations.words import has_windows
from posenc.scaling import YaRN


@dataclass(frozen=True)
class Departure:
    """A deviation of a program's model files from what the configs of some families say.

    Args:
        program: the name of the program's module.
        types: every ``model_type``, of a config or of its language model, to which the deviation applies; ``"*"``
            for every type.
        but: the types to which it does not apply, if ``types`` is ``"*"``.
        kinds: the rope types to which the deviation applies; empty for all of them.
        says: what the program does, in words. If no other field is set, the deviation is only a note.
        line: the source line in the newest of ``releases``.
        releases: the releases with this deviation; empty for all tested releases.
        refuses: whether the program cannot run these families.
        sets: values that replace a layer's fields; ``"none"`` means None, and ``axes = 0`` means that all pairs use
            the first axis.
        one_more: the number of tokens by which a window is larger than the config's.
        unless: keys of the config or of its language model's part, or, with the prefix ``rope.``, keys of the rope
            dictionary. The prefixes ``rope_parameters.`` and ``rope_scaling.`` name one spelling of this
            dictionary. The deviation applies only if all of these keys are missing or null.
        given: a key of the config, of its language model's part or of a rope dictionary, which may be that of one
            layer type. With a prefix, as in ``unless``, it is a key of that rope dictionary alone; ``rope`` is the
            rope dictionary itself. Several keys are separated by spaces. The deviation applies only if all of them
            have values.
        null: keys as in ``unless``, separated by spaces. The deviation applies only if one of them is present with
            the value null and the program does not run the model's code in transformers.
        mixed: whether the deviation applies only if some layers have a window and others have none.
        up_to: the longest input up to which the deviation applies; 0 for any length.
        equals: the value of ``given`` for which the deviation applies; None for any value.
        number: a key of the config, of its language model's part or of the rope dictionary. The deviation applies
            only if its value is an integer and the program does not run the model's code in transformers.
        default: a dict from config keys to the values that the program uses instead of the values in the config.
            ``"none"`` stands for null. ``"length"`` stands for the length of the string in the config, such as 4
            for a sliding_window_pattern of ``"LLLG"``. ``"= key"`` stands for the config's value of another key; if
            the config lacks this key, so does the result. A key with ``"left out"`` is removed from the config, but
            not from rope dictionaries.
        as_listed: whether every layer has the type in ``layer_types``, even if transformers' class ignores or
            changes this list.
        unscaled: whether the program ignores every scaling.
        full_only: not empty if the program uses one base in every layer and scales only full_attention layers. The
            value is ``"inside"`` if a base in the rope dictionary takes precedence and the default base is 10,000,
            else ``"outside"``.
        times_original: the factor by which YaRN's original length is multiplied.
    """

    program: str
    types: tuple[str, ...]
    says: str
    line: str
    releases: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    refuses: bool = False
    sets: Mapping[str, Any] = field(default_factory=dict)
    one_more: int = 0
    as_listed: bool = False
    unless: tuple[str, ...] = ()
    given: str = ""
    equals: int | None = None
    number: str = ""
    null: str = ""
    mixed: bool = False
    up_to: int = 0
    default: Mapping[str, Any] = field(default_factory=dict)
    unscaled: bool = False
    full_only: str = ""
    times_original: int = 1

    def of(self, layer: LayerTable) -> LayerTable:
        """Return the layer as the program runs it."""
        values = {"window": (layer.window or 0) + self.one_more, **self.sets}
        changed: dict[str, Any] = {
            key: None if value == "none" else (value,) * len(layer.axes) if key == "axes" else value
            for key, value in values.items()
            if getattr(layer, key) is not None
        }
        return replace(layer, **changed)


NO_WINDOWS = Departure(
    "", (), "applies no window to these layers", "its model file has no sliding_window", sets={"window": "none"}
)
"""The deviation of a model file that ignores the config's key for windows."""


@cache
def departures() -> tuple[Departure, ...]:
    """Return all known deviations."""
    lines = tomllib.loads((files(__package__) / "departures.toml").read_text("utf-8"))["departure"]
    return tuple(built(Departure, line, "departure") for line in lines)


@cache
def asked() -> Mapping[str, Mapping[str, str]]:
    """Return the class that runs each ``model_type``, with its file and line, by program and release."""
    return dict(json.loads((files(__package__) / "model_files.json").read_text("utf-8")))


def runs_transformers(program: str, version: str, config: Mapping[str, Any]) -> bool:
    """Return whether a program has no model file for a config and runs the model's code in transformers."""
    return "/models/transformers" in asked().get(f"{program} {version}", {}).get(str(config.get("model_type")), "")


def departing_from(
    program: str, version: str, config: Mapping[str, Any], part: Mapping[str, Any]
) -> list[Departure]:
    """Return the deviations that apply when a release of a program runs a config.

    Args:
        program: the name of the program's module.
        config: the whole config.
        part: the language model's part of the config.
    """
    types = {str(block.get("model_type")) for block in (config, part)}
    rope = part.get("rope_parameters") or part.get("rope_scaling") or {}
    named = {"rope": rope, **{form: part.get(form) or {} for form in BOTH_FORMS}}
    inside = {f"{name}.{key}": value for name, entry in named.items() for key, value in entry.items()}
    stated = {**config, **part, **inside, "rope": rope or None}
    entries = [rope, *(entry for entry in rope.values() if isinstance(entry, Mapping))]
    anywhere = stated | {key: value for entry in entries for key, value in entry.items()}
    kinds = {str(entry[key]) for entry in entries for key in ("rope_type", "type") if entry.get(key)}
    return [
        departure
        for departure in departures()
        if departure.program == program
        and (types & {*departure.types} or ("*" in departure.types and not types & {*departure.but}))
        and version in (departure.releases or (version,))
        if not departure.kinds or kinds & {*departure.kinds}
        if all(stated.get(key) is None for key in departure.unless)
        if all(anywhere.get(key) is not None for key in departure.given.split())
        if not departure.null
        or (
            any(stated.get(key, "missing") is None for key in departure.null.split())
            and not runs_transformers(program, version, config)
        )
        if departure.equals is None or anywhere.get(departure.given) == departure.equals
        if not departure.number
        or (isinstance(anywhere.get(departure.number), int) and not runs_transformers(program, version, config))
        if not departure.unscaled or kinds - {"default"}
    ]


def rewritten(part: Mapping[str, Any], departing: Sequence[Departure], base: float | None) -> dict[str, Any]:
    """Return the language model's part of a config, with the values that the program uses instead of those in the
    config.

    Args:
        base: the program's default base.
    """
    defaults = {
        key: part.get(value[2:], "left out") if str(value).startswith("= ") else value
        for departure in departing
        for key, value in departure.default.items()
    }
    if first := next((departure.full_only for departure in departing if departure.full_only), ""):
        scaling = part.get("rope_scaling") or {}
        before, default = (scaling.get("rope_theta"), 10_000.0) if first == "inside" else (None, base)
        near = {"rope_theta": before or part.get("rope_theta") or default}
        defaults |= {
            "rope_scaling": "none",
            "rope_parameters": {"full_attention": {**scaling, **near}, "sliding_attention": near},
        }
    return {
        key: None if value == "none" else len(str(part.get(key))) if value == "length" else value
        for key, value in {**part, **defaults}.items()
        if value != "left out"
    }


def ramped(positions: ModelPositions, departing: Sequence[Departure]) -> ModelPositions:
    """Return the position settings with YaRN's original length multiplied by the ``times_original`` of each
    deviation."""
    times = math.prod(departure.times_original for departure in departing)
    return replace(
        positions,
        recipes={
            name: recipe.with_(scaling=replace(now, original_length=times * now.original_length))
            if isinstance(now := recipe.get("scaling"), YaRN)
            else recipe
            for name, recipe in positions.recipes.items()
        },
    )


def listed(
    positions: ModelPositions, departing: list[Departure], types: Sequence[str]
) -> tuple[ModelPositions, list[Departure]]:
    """Apply deviations with ``as_listed``: every layer gets the type that the config lists for it, and the window
    of this type. Return the resulting position settings and the deviations. If the layers already have these types
    and windows, deviations with ``as_listed`` are omitted.

    Args:
        types: the config's own ``layer_types``.
    """
    both = [*zip(types, positions.layer_types, strict=False)]
    other = replace(
        positions,
        layer_types=tuple(kind if kind in positions.recipes else before for kind, before in both),
        windows=tuple(
            max(filter(None, positions.windows), default=None) if kind == NEAR else None for kind, _ in both
        ),
    )
    if other == positions or len(both) < len(positions.layer_types):
        return positions, [one for one in departing if not one.as_listed]
    return (other if any(one.as_listed for one in departing) else positions), departing


def applied(table: PositionTable, departing: list[Departure]) -> PositionTable:
    """Return the table with deviations applied, and with a note on each that names its source line. Deviations
    about windows are left out if the table has no windows, deviations with ``mixed`` if all layers have the same
    window, and deviations with ``up_to`` if the longest input exceeds that length.

    Raises:
        InvalidArgument: the program cannot run the config.
    """
    departing = [
        departure
        for departure in departing
        if has_windows(table) or {*departure.sets, *["window"] * departure.one_more} != {"window"}
        if not departure.mixed or len({table.layers[name].window for name in table.layer_types}) > 1
        if not departure.up_to or table.admitted_length <= departure.up_to
    ]
    for departure in departing:
        if departure.refuses:
            raise InvalidArgument(
                f"{table.program} does not run {table.model_type!r}: {departure.says} ({departure.line})"
            )
        table = table.with_layers(departure.of)
    return replace(
        table,
        notes=(*table.notes, *(f"{table.program} {departure.says} ({departure.line})" for departure in departing)),
    )


def unasked(program: str, version: str, config: Mapping[str, Any], windows: bool) -> str:
    """Return the part of a program that was not checked, in words, or an empty string if everything was checked.

    Args:
        program: the name of the program's module.
        version: the program's release.
        config: the whole config.
        windows: whether the program's table has a window smaller than the longest input.
    """
    types, model_type = asked().get(f"{program} {version}"), str(config.get("model_type"))
    if types is None:  # its model files were not run; for transformers 5, ``measure`` ran them
        return f"the windows of {model_type!r}" * (windows and (program != "transformers" or version < "5"))
    return (
        ""
        if model_type in types
        else f"the model file of {model_type!r}: the rotary files were checked, but not windows, scales and layers"
    )
