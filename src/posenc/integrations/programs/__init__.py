"""One module per program, with its tested releases, its interpretation of configs, and its position keys.

``read`` returns the position table that the program computes from a config. The table follows the program's own
source code, even if the code does not do what the config says. ``write`` writes position settings in the program's
own keys and reads the keys back. If the result differs, ``write`` raises an error, because a key that a program
ignores is worse than no key. This file has the code that several programs share; ``program_tables`` computes their
tables.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import getitem
from typing import Any

from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument
from posenc.integrations import position_table
from posenc.integrations.differences import differences
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.keys import BOTH_FORMS, rope_dictionary
from posenc.integrations.huggingface.model_positions import ModelPositions, scaling_of
from posenc.integrations.huggingface.scaling import COMMON, TYPES
from posenc.integrations.huggingface.write import Spelling, write
from posenc.integrations.position_table import PositionTable
from posenc.integrations.program_tables import ProgramReader
from posenc.integrations.rope_dictionaries import family_of, kind_of, served_as_deepseek, with_mscales, with_pair
from posenc.scaling import DynamicNTK, LengthScaling, Scaling
from posenc.scaling.yarn import sharpening

TRANSFORMERS_OF_SERVERS = (
    "transformers==5.12.1 tokenizers==0.22.2 huggingface-hub==1.33.0",
    "transformers==5.19.0",
)
"""The releases of transformers with which the model files of a server's older and newer release are run."""


PROVED = ("axes", "encoding", "head_dim", "query_scale")
"""The fields of a layer's table that must match in addition to the fields that change cos or scores."""


def different(positions: ModelPositions, table: PositionTable) -> list[str]:
    """Return how a program's table differs from the model's own table for the longest input that the program
    allows. Differences in windows and lengths are omitted.
    """
    wanted = position_table.of(positions, length=table.admitted_length)
    every = differences(replace(wanted, short=None), replace(table, short=None), names=("the model", table.program))
    return [str(one) for one in every if one.errors or one.what in PROVED]


@dataclass(frozen=True, kw_only=True)
class Program(ProgramReader):
    """A program: how it reads configs, and the keys that make it compute a model's positional encoding.

    Args:
        command: the beginning of the command line, with ``{model}`` for the model's folder; empty for a library.
        keys_flag: the flag that takes the keys of ``write`` as JSON; empty if the keys belong in config.json.
        length_flag: the flag for the longest input; empty if the program has no such flag.
        spell: a function of (positions, scaling, max_length, version) that returns the program's keys for these
            settings, and raises an error if there are none.
    """

    command: str = ""
    keys_flag: str = ""
    length_flag: str = ""
    spell: Callable[[ModelPositions, Scaling | LengthScaling | None, int | None, str], dict[str, Any]]

    def write(
        self,
        positions: ModelPositions,
        scaling: Scaling | LengthScaling | str | None = None,
        *,
        max_length: int | None = None,
        version: str | None = None,
    ) -> dict[str, Any]:
        """Return the keys that make the program compute a model's positional encoding, after checking them with
        ``read``.

        Args:
            positions, scaling, max_length: as in ``huggingface.write``.
            version: a version in ``releases.versions``. The default is the newest.

        Raises:
            InvalidArgument: the program has no keys for this positional encoding, would compute other frequencies,
                factors, scales, pairs or axes from the keys, or would allow only shorter inputs.
        """
        version, scaling = self.releases.chosen(version), scaling_of(scaling, positions.original_length)
        keys = self.spell(positions, scaling, max_length, version)
        if not positions.source:  # read from a file of another type
            return keys
        config = laid_over(positions.source, reduce(getitem, positions.path, keys)) if self.keys_flag else keys
        table = self.read(config, version)
        wanted = positions if scaling is None else positions.with_scaling(scaling)
        apart = different(wanted, table)
        meant = write(positions, scaling, max_length=max_length)[positions.length_key]
        now = [recipe.get("scaling") for recipe in wanted.rotary_recipes.values()]
        planned = any(isinstance(each, LengthScaling) for each in now)  # for the length in the command
        if not planned and table.admitted_length + max(getattr(each, "factor", 1.0) for each in now) <= meant:
            apart.append(f"it allows inputs of at most {table.admitted_length} tokens instead of {meant}")
        if apart:
            raise InvalidArgument(
                f"{table.program} would compute differently: {'; '.join(apart)}; use another scaling or program"
            )
        return keys


def laid_over(
    config: Mapping[str, Any],
    overrides: Mapping[str, Any],
    keeps: bool | None = None,
    keeps_inside: bool | None = None,
) -> dict[str, Any]:
    """Return a config with overrides merged into it recursively; an override of null removes a key (RFC 7396).

    A rope dictionary in the overrides replaces the config's. If ``keeps`` is None, the config is read as an edited
    file, which keeps its base. Otherwise a server applies the overrides to the object that transformers' class made
    of the config: the rope dictionary has the base there, and keeps other keys too if ``keeps`` is true.
    ``keeps_inside`` is the same for the config's parts.

    Raises:
        InvalidArgument: a server would ignore a base or a share of rotated channels outside the rope dictionary, or
            the rope dictionary in the overrides has no ``rope_theta`` and ``keeps`` is false.
    """
    served, before = keeps is not None, rope_dictionary(config)
    given = {
        form: overrides[form]
        for form in BOTH_FORMS
        if isinstance(overrides.get(form, ""), Mapping | None) and (served or overrides[form])
    }
    stated = {"rope_theta": None, **getattr(family_of(config), "defaults", {}), **config, **before}
    moved = {"rope_theta", "partial_rotary_factor"} & {*stated} if served and not given else set[str]()
    if lost := sorted(key for key in moved & {*overrides} if overrides[key] != stated[key]):
        raise InvalidArgument(
            f"{lost[0]}={overrides[lost[0]]} outside the rope dictionary of the overrides has no effect, because "
            f"transformers' class has moved the config's own {lost[0]} into rope_parameters; move it there"
        )
    overrides = {
        **overrides,
        **{
            form: _with_kept(config, new) if keeps and new else _with_base(new or {})
            for form, new in given.items()
            if served
        },
    }
    base = {"rope_theta": before["rope_theta"]} if given and "rope_theta" in before else {}
    gone = {*BOTH_FORMS, *["rope_theta"] * served} if given else set()
    rest = {key: value for key, value in {**base, **config}.items() if key not in gone}
    merged = {
        key: laid_over(
            rest[key] if isinstance(rest.get(key), Mapping) else {},
            value,
            *[None if key in BOTH_FORMS else keeps_inside] * 2,
        )
        if isinstance(value, Mapping)
        else value
        for key, value in overrides.items()
    }
    return {key: value for key, value in (rest | merged).items() if value is not None or key not in overrides}


def _with_base(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a rope dictionary of overrides, or raise an error if it has no ``rope_theta``."""
    if not any("rope_theta" in part for part in (entry, *entry.values()) if isinstance(part, Mapping)):
        raise InvalidArgument(
            "the rope dictionary in the overrides replaces the config's but has no rope_theta, so the server uses "
            "a default of its model file as the base, or fails; add the config's rope_theta to the rope dictionary"
        )
    return entry


def _with_kept(config: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rope dictionary of overrides, with the keys of the config's rope dictionary that it leaves out. Keys
    that only other rope types have are dropped, because servers do not read them.
    """
    stated = {"rope_theta": config.get("rope_theta"), **rope_dictionary(config)}
    if {"rope_type", "type"} & set(entry):
        stated = {key: value for key, value in stated.items() if key not in ("rope_type", "type")}
    readable = (*COMMON, *TYPES.get(kind_of({**stated, **entry}), TYPES["default"])[1])
    others = {key for _, keys, _ in TYPES.values() for key in keys}.difference(readable)
    return {**{key: value for key, value in stated.items() if key not in others}, **entry}


def config_of(
    positions: ModelPositions,
    scaling: Scaling | LengthScaling | None,
    max_length: int | None,
    spelling: Spelling = "v5",
) -> tuple[Recipe, dict[str, Any], dict[str, Any]]:
    """Return the recipe of all rotary layers, the config that expresses it, and a copy of its rope dictionary."""
    if FAMILIES[positions.model_type].fixed_base is not None:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has a hard-coded base, so it has no rope dictionary to write"
        )
    scaled = positions if scaling is None else positions.with_scaling(scaling)
    if not scaled.rotary_recipes or not scaled.alike or scaled.layout or scaled.added_table:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has these rotary layer types: "
            f"{sorted(scaled.rotary_recipes) or 'none'}; posenc writes for programs only language models "
            "whose rotary layers are all equal"
        )
    if isinstance(now := scaled.rotary.get("scaling"), DynamicNTK):
        raise InvalidArgument(
            f"{now} changes its base with the length of the input, which posenc writes only for transformers; use "
            "scaling.plan(total_length), which is fixed"
        )
    config = write(positions, scaling, max_length=max_length, spelling=spelling)
    return scaled.rotary, config, dict(rope_dictionary(config))


def within(path: Sequence[str], keys: dict[str, Any]) -> dict[str, Any]:
    """Return the keys, nested in the part of a config that a path names."""
    return reduce(lambda inner, key: {key: inner}, reversed(path), keys)


def overrides(
    program: str, positions: ModelPositions, scaling: Scaling | LengthScaling | None, max_length: int | None
) -> tuple[dict[str, Any], int]:
    """Return the rope dictionary and the length from which vLLM and SGLang compute a model's positional encoding.

    YaRN's attention factor is written twice: as ``attention_factor``, and as ``attn_factor``, which multiplies
    0.1·ln s + 1 (s is the scaling's factor). For DeepSeek families, which have their own classes, the attention
    factor is written as ``mscale``. With lists of factors, it is written as ``short_mscale`` and ``long_mscale``.
    Both programs multiply the length by the factor of linear scaling, so the length is divided by that factor here.

    Raises:
        InvalidArgument: the program cannot compute this positional encoding, or its table of cos and sin is
            shorter than the longest input.
    """
    recipe, config, entry = config_of(positions, scaling, max_length)
    family, now = FAMILIES[positions.model_type], recipe.get("scaling")
    longest, kind = config[positions.length_key], entry["rope_type"]
    if family.axes == "strided":
        entry["mrope_interleaved"] = True
    if kind == "yarn" and longest > math.ceil(now.factor * now.original_length):
        raise InvalidArgument(
            f"max_length={longest} must be at most factor={now.factor:g} times "
            f"original_length={now.original_length}, where {program}'s table ends; use a larger factor"
        )
    if kind == "longrope":
        entry = with_mscales(entry, now)
    elif kind == "yarn" and served_as_deepseek(config):
        entry = with_pair(entry)
    elif kind == "yarn":
        entry |= {"attention_factor": now.scale, "attn_factor": now.scale / sharpening(now.factor)}
    elif kind == "linear":
        entry["factor"] = float(now.factor)  # vLLM fails at an int
        longest = longest if (scaling, max_length) == (None, None) else int(longest / now.factor)
    return entry, longest
