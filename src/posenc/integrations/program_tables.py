"""The position table that a program computes from a config, by the program's defaults and its rope dictionaries."""

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from posenc.errors import InvalidArgument
from posenc.integrations import model_files, position_table
from posenc.integrations.huggingface.config import language_part, mapping_of, read
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.keys import BOTH_FORMS, rope_dictionary
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.position_table import PositionTable
from posenc.integrations.rope_dictionaries import ORIGINAL, family_of
from posenc.integrations.words import has_windows


@cache
def defaults(program: str) -> Mapping[str, Mapping[str, Any]]:
    """Return a program's defaults, by model_type, for a base, share of channels or length that a config leaves out.

    ``tools/program_defaults.py`` reads these defaults from the released programs.
    """
    every = json.loads((files("posenc.integrations.programs") / "defaults.json").read_text("utf-8"))
    return dict(every[program])


Change = Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]]
"""A function of a rope dictionary and its config that returns the dictionary as a program reads it."""


def _changed(config: Mapping[str, Any], change: Change, times: int) -> tuple[dict[str, Any], set[str]]:
    """Return a config with changed rope dictionaries and original lengths, and the dictionaries' keys."""
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


def _completed(
    config: Mapping[str, Any], stated: Collection[str], known: Mapping[str, Any], *, inner_first: bool
) -> tuple[dict[str, Any], list[str]]:
    """Return a config with a program's defaults for keys that the config lacks, and the defaults in words.

    Args:
        stated: the keys of the rope dictionary.
        known: the program's defaults; true and false are not defaults, but say which keys the program reads.
        inner_first: whether the rope dictionary takes precedence over keys outside it.
    """
    family = family_of(config)
    inside = {family.base: "rope_theta", family.partial: "partial_rotary_factor"} if family else {}
    outer = {key: value for key, value in config.items() if not inner_first or inside.get(key) not in stated}
    added = {
        key: value
        for key, value in known.items()
        if outer.get(key) is None and inside.get(key) not in stated and type(value) is not bool
    }
    return outer | added, [f"{key} = {value:.10g}" for key, value in added.items()]


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
    long_list: str = "",
) -> PositionTable:
    """Return the table that a program computes from a config, with the program's defaults and rope dictionaries.

    Args:
        name: the name of the program's module.
        title, version: the program's name in sentences, and its release.
        config: as in ``huggingface.read``.
        takes: the program whose ``defaults`` are used for missing keys.
        change: a function of a rope dictionary (for all layers or for one layer type) and the config that returns
            the dictionary from which ``huggingface.read`` computes the same positional encoding as the program.
        admitted: a function of the positions and the given rope dictionary that returns the longest input that the
            program allows by default. The default is the config's length.
        unread: keys of the config that the program does not know.
        rotated: a function that changes the positions after reading, if no dictionary can express the change.
        long_list: the requests for which the program uses LongRoPE's long list, in words; empty if only for long
            requests.
    """
    config = mapping_of(config)
    part, program = language_part(config)[0], f"{title} {version}"
    given = rope_dictionary(part)
    known = defaults(takes).get(str(part.get("model_type")), {})
    departing = model_files.departing_from(name, title, version, config, part)
    departing += [model_files.NO_WINDOWS] * (known.get("sliding_window") is False)
    unread = (*unread, *(key for one in departing for key in one.unread))
    notes = [f"{key} is not read by {program}" for key in unread if part.pop(key, None) is not None]
    for one in departing:
        part |= {key: value for key, value in (one.default or {}).items() if part.get(key) is None}
    if long_list and given.get("short_factor") != given.get("long_factor"):
        notes.append(f"{program} uses the long list of factors {long_list}")
    times = math.prod(one.times_original for one in departing)
    part, stated = _changed(part, change, times)
    part, assumed = _completed(part, stated, known, inner_first=takes == "transformers5")
    notes += [f"{fact}, the default of {program}, which finds no key for it" for fact in assumed]
    positions = read({key: value for key, value in part.items() if key not in BOTH_FORMS or value})
    positions, departing = model_files.listed(rotated(positions, given), departing, part.get("layer_types") or ())
    if name != "transformers" and FAMILIES[positions.model_type].backwards:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} rotates its pairs backwards, which was checked only in "
            "transformers; serve it with transformers"
        )
    table = position_table.of(
        positions, admitted=admitted and admitted(positions, given), program=program, notes=tuple(notes)
    )
    departing = [one for one in departing if has_windows(table) or [*one.sets] != ["window"]]
    table = model_files.applied(table, departing)
    return replace(
        table,
        pretrained_length=table.pretrained_length and table.pretrained_length // times,
        not_asked=model_files.unasked(name, version, config, has_windows(table)),
    )
