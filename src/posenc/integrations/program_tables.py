"""How programs read configs: which defaults they use, and how they interpret rope dictionaries."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from posenc.arguments import one_of
from posenc.errors import InvalidArgument
from posenc.integrations import model_files, position_table
from posenc.integrations.huggingface.config import language_part, mapping_of, read
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.keys import BOTH_FORMS, rope_dictionary
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.schema import NUMBER
from posenc.integrations.position_table import PositionTable
from posenc.integrations.rope_dictionaries import MAGNITUDE, ORIGINAL, family_of
from posenc.integrations.words import has_windows


@dataclass(frozen=True)
class Releases:
    """The tested releases of a program.

    Args:
        package: the name of the wheel.
        versions: the tested versions, in ascending order.
        files: prefixes of the names of Python files to extract from each wheel; an empty prefix extracts every
            file.
        requirements: exact versions of packages that these files import, installed into a separate environment.
        under: for each version, the release of transformers with which the model files are run, and its
            requirements. With other releases of transformers, the tests would find false differences.
    """

    package: str
    versions: tuple[str, ...]
    files: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    under: tuple[str, ...] = ()

    def chosen(self, version: str | None) -> str:
        """Return the given version, or the newest version if it is None. Raise an error for an untested version."""
        return one_of(f"version of {self.package}", version or self.versions[-1], self.versions)


Change = Callable[[dict[str, Any], Mapping[str, Any], str], dict[str, Any]]
"""A function that takes a rope dictionary, its config and a program's version, and returns a changed rope
dictionary, from which ``huggingface.read`` computes the program's positional encoding.
"""


@dataclass(frozen=True, kw_only=True)
class ProgramReader:
    """How a program reads a config: its defaults, and the changes that it makes to the config's rope dictionary.

    Args:
        module: the name of the program's module.
        title: the program's name in messages.
        releases: the tested releases.
        change: a function that takes a rope dictionary (for all layers or for one layer type), the config and the
            version. It returns the dictionary from which ``huggingface.read`` computes the program's positional
            encoding.
        takes: the key in defaults.json under which the program's defaults are listed by model type; the key may
            contain ``{version}``. Other model types are refused, except under ``"transformers5"``.
        unknown: the error message for model types without defaults, which may contain ``{model_type}`` and
            ``{program}``.
        unread: a function of the config and the version that returns the keys that the program does not read.
        rotated: a function that changes the position settings after reading, if no rope dictionary can express the
            change. Its arguments are the settings and the given rope dictionary.
        windowed: a function that changes the windows in the position settings after reading.
        admitted: a function that returns the longest input that the program allows by default, or None for the
            config's length. Its arguments are the position settings, the given rope dictionary and the version.
        long_list: the requests for which the program uses LongRoPE's long list, in words; empty if it uses the
            list only for long requests.
        finished: a function that changes the finished position table.
        keeps: a function of the version that returns whether overrides of a rope dictionary leave its other keys in
            place: in the config itself, and in the part of a composite config that describes the language model.
            The value None stands for a program that has no overrides.
    """

    module: str
    title: str
    releases: Releases
    change: Change
    takes: str = "transformers5"
    unknown: str = (
        "model_type {model_type!r} was not checked in {program}; run posenc vectors and compare its output with "
        "the cos and sin of {program}"
    )
    unread: Callable[[Mapping[str, Any], str], Sequence[str]] = lambda part, version: ()
    rotated: Callable[[ModelPositions, Mapping[str, Any]], ModelPositions] = lambda positions, entry: positions
    windowed: Callable[[ModelPositions], ModelPositions] = lambda positions: positions
    admitted: Callable[[ModelPositions, Mapping[str, Any], str], int | None] = lambda *given: None
    long_list: str = ""
    finished: Callable[[PositionTable], PositionTable] = lambda table: table
    keeps: Callable[[str], tuple[bool | None, bool | None]] = lambda version: (None, None)

    def read(self, config: object, version: str | None = None) -> PositionTable:
        """Return the table that the program computes from a config, with the longest input that it allows.

        Args:
            config: as in ``huggingface.read``.
            version: a version in ``releases.versions``. The default is the newest.

        Raises:
            InvalidArgument: the program does not run this config, or its reading of this model type was never
                checked.
        """
        version = self.releases.chosen(version)
        config, program, takes = mapping_of(config), f"{self.title} {version}", self.takes.format(version=version)
        part = language_part(config)[0]
        reader = (
            ProgramReader(module=self.module, title=self.title, releases=self.releases, change=_as_transformers)
            if model_files.runs_transformers(self.module, version, config)
            else self
        )
        model_type = str(part.get("model_type"))
        if takes != "transformers5" and model_type not in defaults(takes):
            raise InvalidArgument(self.unknown.format(model_type=model_type, program=program))
        known = defaults(takes).get(model_type, {})
        unread = reader.unread(part, version)
        notes = [
            f"{key} is not read by {program}" + " outside the rope dictionary" * (key == ORIGINAL)
            for key in unread
            if part.pop(key, None) is not None
        ]
        if (inner := rope_dictionary(part).get(ORIGINAL)) and ORIGINAL in unread:
            part[ORIGINAL] = inner  # outside the dictionary, Phi-3's class has a default of its own
        departing = model_files.departing_from(self.module, version, config, part)
        departing += [model_files.NO_WINDOWS] * (known.get("sliding_window") is False)
        part = model_files.rewritten(part, departing, known.get("rope_theta"))
        given = rope_dictionary(part)
        if reader.long_list and given.get("short_factor") != given.get("long_factor"):
            notes.append(f"{program} uses the long list of factors {reader.long_list}")
        dropped = {key for one in departing for key, value in one.default.items() if value != "left out"}
        part, stated = _changed(
            part, reader.change, version, dropped, base_only=any(one.unscaled for one in departing)
        )
        part, assumed = _completed(part, stated, known, inner_first=takes == "transformers5")
        notes += [f"{fact}, the default of {program}, which finds no value in the config" for fact in assumed]
        try:
            positions = read({key: value for key, value in part.items() if key not in BOTH_FORMS or value})
        except InvalidArgument as error:
            raise InvalidArgument(
                "; ".join([str(error), *notes, *(f"{program} {one.says}" for one in departing if one.default)])
            ) from error
        positions, departing = model_files.listed(
            reader.rotated(self.windowed(model_files.ramped(positions, departing)), given),
            departing,
            part.get("layer_types") or (),
        )
        if self.module != "transformers" and FAMILIES[positions.model_type].backwards:
            raise InvalidArgument(
                f"model_type {positions.model_type!r} rotates its pairs backwards, which was checked only in "
                "transformers; serve it with transformers"
            )
        table = position_table.of(
            positions, admitted=self.admitted(positions, given, version), program=program, notes=tuple(notes)
        )
        table = model_files.applied(table, departing)
        return reader.finished(
            replace(table, not_asked=model_files.unasked(self.module, version, config, has_windows(table)))
        )


@cache
def defaults(program: str) -> Mapping[str, Mapping[str, Any]]:
    """Return a program's defaults, by model_type, for a base, share of rotated channels or length that a config
    leaves out.

    ``tools/program_defaults.py`` reads these defaults from the released programs.
    """
    return dict(json.loads((files("posenc.integrations.programs") / "defaults.json").read_text("utf-8"))[program])


def _as_transformers(entry: dict[str, Any], config: Mapping[str, Any], version: str) -> dict[str, Any]:
    """Return a rope dictionary as transformers reads it: without keys that only other programs know."""
    by_length = getattr(family_of(config), "mscale_by_length", False)
    unknown = ("attn_factor", "extrapolation_factor", *(() if by_length else ("short_mscale", "long_mscale")))
    return {key: value for key, value in entry.items() if key not in unknown}


def _changed(
    config: Mapping[str, Any], change: Change, version: str, dropped: Collection[str], *, base_only: bool
) -> tuple[dict[str, Any], set[str]]:
    """Return a config with changed rope dictionaries, and the dictionaries' keys. Before the change, the keys in
    ``dropped`` are removed from the dictionaries, and so are nulls, except that of truncate, which means false.
    With ``base_only``, only the base is kept.

    Raises:
        InvalidArgument: a factor is not a number.
    """
    changed, stated = dict(config), set[str]()
    for key in BOTH_FORMS:
        entries = config.get(key) or {}
        nested = bool(entries) and all(isinstance(entry, Mapping | None) for entry in entries.values())
        each = entries if nested else {"": entries}
        results = {
            name: entry
            and change(
                {
                    k: NUMBER.check(k, v) if k in ("factor", *MAGNITUDE) else v
                    for k, v in entry.items()
                    if k not in dropped and (v is not None or k == "truncate")
                    if k == "rope_theta" or not base_only
                },
                changed,
                version,
            )
            for name, entry in each.items()
        }
        stated.update(*(entry or () for entry in results.values()))
        changed[key] = results if nested else results[""] or None
    return changed, stated


def _completed(
    config: Mapping[str, Any], stated: Collection[str], known: Mapping[str, Any], *, inner_first: bool
) -> tuple[dict[str, Any], list[str]]:
    """Return a config with a program's defaults for keys that the config lacks, and the defaults in words.

    Args:
        stated: the keys of the rope dictionary.
        known: the program's defaults by key. A value of true or false is not a default; it records whether the
            program reads the key.
        inner_first: whether the rope dictionary takes precedence over keys outside it.
    """
    family = family_of(config)
    by_type = {"rope_theta" in entry for entry in rope_dictionary(config).values() if isinstance(entry, Mapping)}
    inside = (
        {
            family.local_base: "rope_theta" if by_type == {True} else "",  # if every layer type states a base
            family.base: "rope_theta",
            family.partial: "partial_rotary_factor",
        }
        if family
        else {}
    )
    outer = {key: value for key, value in config.items() if not inner_first or inside.get(key) not in stated}
    named = {family.length} - {family.length_key(outer)} if family else set()  # under its usual name
    added = {
        key: value
        for key, value in known.items()
        if outer.get(key) is None and inside.get(key) not in stated and key not in named and type(value) is not bool
    }
    return outer | added, [f"{key} = {value:.10g}" for key, value in added.items()]
