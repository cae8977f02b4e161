"""One file per program: its tested releases, how it reads a config, and how positions are passed to it.

``read`` gives the position table that the program computes from a config, following the program's own source, even
if it departs from the config. ``write`` states positions in the program's own keys, reads them back, and refuses if
the
result differs: a key that a program ignores is worse than no key. This file has the code that several programs
share.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from importlib.resources import files
from operator import getitem
from typing import Any

from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument, UnknownName
from posenc.integrations import model_files, position_table
from posenc.integrations.differences import differences
from posenc.integrations.huggingface.config import language_part, mapping_of, read
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.keys import BOTH_FORMS, rope_dictionary
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.write import Spelling, write
from posenc.integrations.position_table import PositionTable
from posenc.integrations.rope_dictionaries import ORIGINAL, family_of, sharpening, with_mscales, with_pair
from posenc.scaling import DynamicNTK, LengthScaling, Scaling

TRANSFORMERS_5_12 = "transformers==5.12.1 tokenizers==0.22.2 huggingface-hub==1.33.0"
TRANSFORMERS_5_19 = "transformers==5.19.0"
PLAN = "use scaling.plan(total_length), which is fixed"


@dataclass(frozen=True)
class Releases:
    """The releases that the tests run.

    Args:
        package: the wheel's name.
        versions: ascending.
        files: prefixes of the names of Python files that are extracted from each wheel; with an empty prefix every
            file is.
        requirements: exact versions that these files import, installed into an environment of their own.
        under: the transformers, with its requirements, under which the model files of each version are run. The
            version allows it; another one would show false differences.
    """

    package: str
    versions: tuple[str, ...]
    files: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    under: tuple[str, ...] = ()

    def chosen(self, version: str | None) -> str:
        """This version, or by default the newest tested one; untested versions are refused."""
        if version not in (None, *self.versions):
            raise UnknownName(f"version of {self.package}", str(version), self.versions)
        return version or self.versions[-1]


@dataclass(frozen=True)
class Line:
    """How the keys of ``write`` are passed to a program.

    Args:
        start: the words of the command, with ``{model}`` for the model's folder; empty for a library.
        overrides: the flag that takes the keys as JSON; empty if they go into a file.
        length: the flag of the longest input; empty if the program has none.
        file: the name of that file.
    """

    start: str
    overrides: str = ""
    length: str = ""
    file: str = ""


Read = Callable[[object, str | None], PositionTable]
Spell = Callable[[ModelPositions, Scaling | LengthScaling | None, int | None, str], dict[str, Any]]
PROVED = ("axes", "encoding", "query_scale")
"""Fields that must match in addition to those that change cos and scores."""


def different(positions: ModelPositions, table: PositionTable) -> list[str]:
    """The differences in positions for inputs of the table's length, without windows and lengths."""
    wanted = position_table.of(positions, length=table.admitted_length)
    every = differences(wanted, table, names=("the model", table.program))
    return [str(one) for one in every if one.errors or one.what in PROVED]


@dataclass(frozen=True)
class Program:
    """How a program reads a config, and how positions are passed to it.

    Args:
        title: its name in sentences.
        releases: the tested ones.
        line: how the keys of ``write`` are passed to it.
        read: what it computes from a config: (config, version) to a table.
        spell: the keys that state positions to it: (positions, scaling, max_length, version) to keys; an error if
            it has no keys for them.
    """

    title: str
    releases: Releases
    line: Line
    read: Read
    spell: Spell

    def write(
        self,
        positions: ModelPositions,
        scaling: Scaling | LengthScaling | None = None,
        *,
        max_length: int | None = None,
        version: str | None = None,
    ) -> dict[str, Any]:
        """The keys that make the program compute these positions, read back by ``read``.

        Args:
            positions, scaling, max_length: as in ``huggingface.write``.
            version: one of ``releases.versions``; the newest by default.

        Raises:
            InvalidArgument: positions that it has no keys for, or from whose keys it would compute other
                frequencies, factors, scales, pairs or axes, or admit shorter inputs.
        """
        version = self.releases.chosen(version)
        keys = self.spell(positions, scaling, max_length, version)
        if not positions.source:  # a file of another type
            return keys
        config = keys if self.line.file else laid_over(positions.source, reduce(getitem, positions.path, keys))
        table = self.read(config, version)
        wanted = positions if scaling is None else positions.with_scaling(scaling)
        apart = different(wanted, table)
        meant = write(positions, scaling, max_length=max_length)[FAMILIES[positions.model_type].length]
        now = [recipe.get("scaling") for recipe in wanted.rotary_recipes.values()]
        planned = any(isinstance(each, LengthScaling) for each in now)  # for the length in the command
        if not planned and table.admitted_length + max(getattr(each, "factor", 1.0) for each in now) <= meant:
            apart.append(f"it allows inputs of at most {table.admitted_length} tokens instead of {meant}")
        if apart:
            raise InvalidArgument(
                f"{table.program} would compute differently: {'; '.join(apart)}; use another scaling or program"
            )
        return keys


def laid_over(config: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A config with these keys in place of its own, part by part; null among them removes a key.

    A rope dictionary replaces both spellings of the existing one, with the base beside it.
    """
    gone = {*BOTH_FORMS, "rope_theta"} if set(BOTH_FORMS) & set(overrides) else set()
    result = {key: value for key, value in config.items() if key not in gone}
    for key, value in overrides.items():
        inside = isinstance(value, Mapping) and isinstance(config.get(key), Mapping) and key not in BOTH_FORMS
        result[key] = laid_over(config[key], value) if inside else value
    for key in set(BOTH_FORMS) & set(overrides):
        entry = result[key] or {}
        result[key] = {name: value for name, value in entry.items() if value is not None}
    return {key: value for key, value in result.items() if value is not None or key not in overrides}


def config_of(
    positions: ModelPositions,
    scaling: Scaling | LengthScaling | None,
    max_length: int | None,
    spelling: Spelling = "v5",
) -> tuple[Recipe, dict[str, Any], dict[str, Any]]:
    """The one recipe of all rotary layers, the config that states it, and a copy of the rope dictionary in it."""
    if FAMILIES[positions.model_type].fixed_base is not None:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has its base in its code, so it has no rope dictionary to write"
        )
    scaled = positions if scaling is None else positions.with_scaling(scaling)
    if not scaled.rotary_recipes or not scaled.alike or scaled.layout or scaled.added_table:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} rotates {sorted(scaled.rotary_recipes) or 'nothing'}; it must be "
            "a language model with one type of rotary layer"
        )
    if isinstance(now := scaled.rotary.get("scaling"), DynamicNTK):
        raise InvalidArgument(
            f"{now} changes its base with the length of the input, which only transformers does; {PLAN}"
        )
    config = write(positions, scaling, max_length=max_length, spelling=spelling)
    return scaled.rotary, config, dict(rope_dictionary(config))


def nested(positions: ModelPositions, longest: int, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The length and the rope dictionary under the keys of the language model."""
    return within(positions.path, {FAMILIES[positions.model_type].length: longest, "rope_parameters": entry})


def within(path: Sequence[str], keys: dict[str, Any]) -> dict[str, Any]:
    """The keys inside the parts of a config that a path names."""
    for key in reversed(path):
        keys = {key: keys}
    return keys


def overrides(
    program: str, positions: ModelPositions, scaling: Scaling | LengthScaling | None, max_length: int | None
) -> tuple[dict[str, Any], int]:
    """The rope dictionary and the length by which rotary files derived from vLLM's compute these positions.

    YaRN's attention factor is stated twice, as ``attention_factor`` and as ``attn_factor``, which multiplies
    0.1·ln s + 1. The DeepSeek families, which have classes of their own, state it in ``mscale``, and lists of
    factors in ``short_mscale`` and ``long_mscale``. These files multiply the length by the factor of linear
    scaling, so it is divided by it here.

    Raises:
        InvalidArgument: positions that such files cannot compute, or inputs past the end of their table.
    """
    recipe, config, entry = config_of(positions, scaling, max_length)
    family, now = FAMILIES[positions.model_type], recipe.get("scaling")
    longest, kind = config[family.length], entry["rope_type"]
    if kind == "proportional":
        raise InvalidArgument(
            f"{program} computes another scaling than {now} for {kind!r}; use Linear, Llama3 or YaRN"
        )
    whole_halves = recipe.get("pairing") == "half" and recipe.get("rotary_dim") == recipe.get("head_dim")
    if kind == "longrope" and not whole_halves:
        raise InvalidArgument(
            f"{program} supports lists of factors only for whole heads with pairing='half'; "
            "use Linear, Llama3 or YaRN"
        )
    if kind == "yarn" and longest > math.ceil(now.factor * now.original_length):
        raise InvalidArgument(
            f"max_length={longest} must be at most factor={now.factor:g} times "
            f"original_length={now.original_length}, where {program}'s table ends; use a larger factor"
        )
    if kind == "longrope":
        entry = with_mscales(entry, now, longest)
    elif kind == "yarn" and family.mscale_scores:
        entry = with_pair(entry)
    elif kind == "yarn":
        entry |= {"attention_factor": now.scale, "attn_factor": now.scale / sharpening(now.factor)}
    elif kind == "linear":
        entry["factor"] = float(now.factor)  # vLLM fails at an int
        longest = longest if (scaling, max_length) == (None, None) else int(longest / now.factor)
    return entry, longest


@cache
def defaults(program: str) -> Mapping[str, Mapping[str, Any]]:
    """A program's defaults of base, share of channels and length for configs that leave them out, by model_type.

    Made by ``tools/program_defaults.py`` from the released programs.
    """
    every = json.loads((files(__package__) / "defaults.json").read_text("utf-8"))
    return dict(every[program])


Change = Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]]
"""A rope dictionary, alone or of one layer type, and the config around it, to what a program makes of it."""


def _changed(config: Mapping[str, Any], change: Change, times: int) -> tuple[dict[str, Any], set[str]]:
    """The config with its rope dictionaries changed and their original lengths multiplied, and the keys in them."""
    changed, stated = dict(config), set[str]()
    for key in BOTH_FORMS:
        entries = config.get(key) or {}
        nested = bool(entries) and all(isinstance(entry, Mapping | None) for entry in entries.values())
        each = entries if nested else {"": entries}
        results = {kind: entry and change(dict(entry), changed) for kind, entry in each.items()}
        for entry in results.values():
            if entry and times != 1:
                entry[ORIGINAL] *= times
            stated.update(entry or ())
        changed[key] = results if nested else results[""] or None
    return changed, stated


def table_of(
    name: str,
    title: str,
    version: str,
    config: object,
    takes: str,
    change: Change,
    admitted: Callable[[ModelPositions, Mapping[str, Any]], int] | None = None,
    unread: Sequence[str] = (),
    rotated: Callable[[ModelPositions, Mapping[str, Any]], ModelPositions] = lambda positions, entry: positions,
) -> PositionTable:
    """The table that a program computes from a config, with its defaults and its reading of each rope dictionary.

    Args:
        name: the name of the program's module.
        title, version: the program's name in sentences, and its release.
        config: as in ``huggingface.read``.
        takes: the program whose ``defaults`` are used for missing keys.
        change: a function of a rope dictionary (the whole, or that of one layer type) and the config; it returns
            the dictionary with which ``huggingface.read`` computes the same as the program.
        admitted: a function of the positions and the given rope dictionary to the longest input that the program
            allows by default; without it the config's.
        unread: keys of the config that the program does not know.
        rotated: changes the positions after reading, if no dictionary can state the change.
    """
    config = mapping_of(config)
    part, program = language_part(config)[0], f"{title} {version}"
    given = rope_dictionary(part)
    departing = model_files.departing_from(name, version, config, part)
    unread = (*unread, *(key for one in departing for key in one.unread))
    notes = [f"{key} is not read by {program}" for key in unread if part.pop(key, None) is not None]
    for one in departing:
        part = {**(one.default or {}), **part}
    times = math.prod(one.times_original for one in departing)
    part, stated = _changed(part, change, times)
    model_type = str(part.get("model_type"))
    family = family_of(part)
    inside = {family.base: "rope_theta", family.partial: "partial_rotary_factor"} if family else {}
    if takes == "transformers5":  # the rope dictionary takes precedence over keys outside it
        part = {key: value for key, value in part.items() if inside.get(key) not in stated}
    for key, value in defaults(takes).get(model_type, {}).items():
        if part.get(key) is None and inside.get(key) not in stated and type(value) is not bool:
            part[key] = value
            notes.append(f"{key} = {value:.10g}, the default of {program}, as no key that it reads states it")
    positions = read({key: value for key, value in part.items() if key not in BOTH_FORMS or value})
    positions = rotated(positions, given)
    if name != "transformers" and FAMILIES[positions.model_type].backwards:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} rotates its pairs backwards, which was checked only in "
            "transformers; serve it with transformers"
        )
    table = position_table.of(
        positions, admitted=admitted and admitted(positions, given), program=program, notes=tuple(notes)
    )
    return replace(
        model_files.applied(table, departing),
        pretrained_length=table.pretrained_length and table.pretrained_length // times,
        not_asked=model_files.unasked(name, version, config),
    )
