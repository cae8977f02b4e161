"""One file a program: which releases are asked, ``read``, what it makes of a config, and ``write``, what it takes.

``read`` gives the position table that the program computes from a config, by its own source, also where that is
not what the config says. ``write`` says the same frequencies and the same attention factor in the program's own
words, or refuses: a key that a program ignores is worse than none. What several of them need stands here.
"""

import json
import math
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument, UnknownName
from posenc.integrations import position_table
from posenc.integrations.huggingface.config import language_part, read
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.keys import BOTH_FORMS
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.huggingface.scaling import SPELLINGS
from posenc.integrations.huggingface.write import Spelling, write
from posenc.integrations.position_table import PositionTable
from posenc.scaling import LengthScaling, Scaling

NAMES = tuple(module.name for module in pkgutil.iter_modules(__path__))
"""The programs: the files of this folder."""
ORIGINAL = "original_max_position_embeddings"
PLAN = "write scaling.plan(total_length), which is fixed"


@dataclass(frozen=True)
class Releases:
    """Releases that the tests of real programs ask.

    Args:
        package: the wheel's name.
        versions: ascending.
        files: beginnings of the names of files that are taken out of each wheel; without any, the package is
            installed into the environment of all programs, and without what it asks for.
        requirements: exact versions that are installed there too.
    """

    package: str
    versions: tuple[str, ...]
    files: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()

    def chosen(self, version: str | None) -> str:
        """This version, or the newest that is asked; others are refused, as nobody has looked at them."""
        if version not in (None, *self.versions):
            raise UnknownName(f"version of {self.package}", str(version), self.versions)
        return version or self.versions[-1]


@dataclass(frozen=True)
class Line:
    """How a program is told what ``write`` gives.

    Args:
        start: the words of the command, with ``{model}`` for the model's folder; empty for a library.
        overrides: the flag that takes the keys as JSON; empty where they go into a file.
        length: the flag of the longest input; empty where the program has none.
        file: the name of that file.
    """

    start: str
    overrides: str = ""
    length: str = ""
    file: str = ""


def config_of(
    positions: ModelPositions,
    scaling: Scaling | LengthScaling | None,
    max_length: int | None,
    spelling: Spelling = "v5",
) -> tuple[Recipe, dict[str, Any]]:
    """The recipe of the rotary layers, all alike, and the config that says it."""
    _check_forwards(positions)
    scaled = positions if scaling is None else positions.with_scaling(scaling)
    if not scaled.rotary_recipes or not scaled.alike or scaled.layout or scaled.added_table:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} rotates {sorted(scaled.rotary_recipes) or 'nothing'}; one layer "
            "type in a language model is expected"
        )
    return scaled.rotary, write(positions, scaling, max_length=max_length, spelling=spelling)


def _check_forwards(positions: ModelPositions) -> None:
    if FAMILIES[positions.model_type].backwards:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} turns its pairs backwards, and no program but transformers was "
            "asked which way it turns them; serve it with transformers"
        )


def entry_of(positions: ModelPositions, config: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The rope dictionary under this key, as a dict of its own."""
    if FAMILIES[positions.model_type].fixed_base is not None:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has its base in its code, and no rope dictionary to write"
        )
    entry = dict(config[key] or {})
    if positions.scales and "llama_4_scaling_beta" in entry:
        raise InvalidArgument(
            f"model_type {positions.model_type!r} has llama_4_scaling_beta in its rope dictionary, where vLLM "
            "does not read it, and mlx-lm only under rope_parameters; serve the model's own config"
        )
    return entry


def with_pair(entry: dict[str, Any]) -> dict[str, Any]:
    """YaRN's entry with its attention factor as DeepSeek's pair, beside the second number that it may have."""
    if "attention_factor" not in entry:
        return entry
    scale, factor, second = entry["attention_factor"], entry["factor"], entry.get("mscale_all_dim", 0.0)
    if factor == 1:
        raise InvalidArgument(f"attention_factor={scale:g} has no place beside factor=1; use a factor above 1")
    pair = {
        "mscale": (scale * sharpening(factor, second) - 1) / (0.1 * math.log(factor)),
        "mscale_all_dim": second,
    }
    return {key: value for key, value in entry.items() if key != "attention_factor"} | pair


def sharpening(factor: float, amount: float = 1.0) -> float:
    """YaRN's attention factor, where nothing else is stated; 1 for a factor below 1."""
    return 0.1 * amount * math.log(max(factor, 1)) + 1


@cache
def defaults(program: str) -> Mapping[str, Mapping[str, Any]]:
    """What a program takes for a base, a share of channels and a length that a config leaves out, by model_type.

    Made by ``tools/program_defaults.py`` from the released programs.
    """
    every = json.loads((files(__package__) / "defaults.json").read_text("utf-8"))
    return dict(every[program])


def table_of(
    program: str,
    config: object,
    takes: str,
    change: Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]],
    admitted: Callable[[ModelPositions], int] | None = None,
    unread: Sequence[str] = (),
) -> PositionTable:
    """What a program makes of a config: its defaults filled in, each rope dictionary changed as it takes it.

    Args:
        program: with its version.
        config: as in ``huggingface.read``.
        takes: whose ``defaults`` stand in for what the config leaves out.
        change: a rope dictionary, alone or of one layer type, and the config, to the dictionary that says to
            ``huggingface.read`` what the program computes from it.
        admitted: the longest input that it lets in by default; without it what the config allows.
        unread: keys of the config that it does not know.
    """
    part, _ = language_part(config)
    notes = [f"{key} is not read by {program}" for key in unread if part.pop(key, None) is not None]
    stated: set[str] = set()
    for key in BOTH_FORMS:
        entries = part.get(key) or {}
        nested = bool(entries) and all(isinstance(entry, Mapping | None) for entry in entries.values())
        each = entries if nested else {"": entries}
        changed = {name: entry and change(dict(entry), part) for name, entry in each.items()}
        stated.update(name for entry in changed.values() for name in entry or ())
        part[key] = changed if nested else changed[""] or None
    model_type = str(part.get("model_type"))
    family = FAMILIES.get(model_type)
    inside = {family.base: "rope_theta", family.partial: "partial_rotary_factor"} if family else {}
    if takes == "transformers5":  # where the rope dictionary wins over what stands beside it
        part = {key: value for key, value in part.items() if inside.get(key) not in stated}
    for key, value in defaults(takes).get(model_type, {}).items():
        if part.get(key) is None and inside.get(key) not in stated and type(value) is not bool:
            part[key] = value
            notes.append(f"{key} = {value:.10g}, which {program} takes where nothing that it reads says it")
    positions = read({key: value for key, value in part.items() if key not in BOTH_FORMS or value})
    _check_forwards(positions)
    return position_table.of(
        positions, admitted=admitted and admitted(positions), program=program, notes=tuple(notes)
    )


MAGNITUDE = ("attention_factor", "attn_factor", "mscale", "mscale_all_dim", "extrapolation_factor")
"""Keys of YaRN that say by how much cos and sin are multiplied, or that only some programs know."""


def with_factor(entry: Mapping[str, Any], config: Mapping[str, Any], yarn: Callable[..., float]) -> dict[str, Any]:
    """A rope dictionary with the attention factor that a program takes, and no other key of it.

    LongRoPE has long_mscale, or √(1 + ln s/ln L) with s = max_position_embeddings/L, whatever else is stated.
    ``yarn`` makes YaRN's of the dictionary and of whether the family has DeepSeek's second number, which is kept;
    programs compute such a ramp with rounded ends.
    """
    other = {key: value for key, value in entry.items() if key not in (*MAGNITUDE, "short_mscale", "long_mscale")}
    kind, family = kind_of(entry), FAMILIES.get(str(config.get("model_type")))
    if kind == "longrope":
        original = config.get(ORIGINAL) or entry[ORIGINAL]
        ratio = max(1.0, config["max_position_embeddings"] / original)
        return {**other, "attention_factor": entry.get("long_mscale") or math.sqrt(1 + math.log(ratio, original))}
    if kind == "yarn" and family and family.mscale_scores:
        second = {"mscale_all_dim": entry["mscale_all_dim"]} if entry.get("mscale_all_dim") else {}
        return {**other, **second, "truncate": True, "attention_factor": yarn(entry, True)}
    return {**other, "attention_factor": yarn(entry, False)} if kind == "yarn" else other


def kind_of(entry: Mapping[str, Any]) -> str:
    """The type of a rope dictionary under either key and spelling; ``"default"`` where none is given."""
    kind = str(entry.get("rope_type") or entry.get("type") or "default")
    return SPELLINGS.get(kind, kind)


def pair_ratio(entry: Mapping[str, Any]) -> float:
    """DeepSeek's attention factor (0.1·mscale·ln s + 1)/(0.1·mscale_all_dim·ln s + 1), with 1 and 0 by default."""
    first, second = (entry.get(key, default) for key, default in (("mscale", 1.0), ("mscale_all_dim", 0.0)))
    return sharpening(entry["factor"], first) / sharpening(entry["factor"], second)
