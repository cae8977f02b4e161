"""What docs/models.md shows of the walk: counts, every type by name, and what changed since another version."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.version import Version

KEPT = Path(__file__).parent / "walked"
"""Of every version that was walked: the day and its types, and a line a result."""

CLASSES = {
    "read and equal": "`posenc inspect` reads the config, and the model does what was read",
    "corrected since": "this version does something else than the config says, and newer ones what was read",
    "read and different": "the model does something else than was read",
    "measured only": "`posenc inspect --measure` says what the model does; its config is not read",
    "has no positions": "its attention, if it has any, knows no positions of tokens",
    "cannot be built": "no small model of it could be built and run on token ids, pictures or sounds",
}
SCALED = "YaRN with a stated attention factor"
"""The config of every type that rotates whose scaling and factor of cos and sin are other than its class's."""


Found = Mapping[str, Any]


@dataclass
class Walk:
    """What was found under one version of transformers.

    Args:
        version: of transformers.
        names: the types that it has.
        found: the result of every type walked so far.
        day: on which it was started last.
    """

    version: str
    names: list[str]
    found: dict[str, Found]
    day: str = ""

    def only(self, names: Collection[str]) -> "Walk":
        """The walk over those of its types alone."""
        found = {name: one for name, one in self.found.items() if name in names}
        return Walk(self.version, [name for name in self.names if name in names], found, self.day)


def kept(folder: Path = KEPT) -> list[Walk]:
    """All walks that there are results of, oldest version first, with the last result of every type."""
    walks = []
    for file in folder.glob("walk-*.types"):
        day, *names = file.read_text().split()
        found = {one["type"]: one for one in map(json.loads, file.with_suffix(".jsonl").read_text().splitlines())}
        known = {name: found[name] for name in names if name in found}
        walks.append(Walk(file.stem.removeprefix("walk-"), names, known, day))
    return sorted(walks, key=lambda walk: Version(walk.version))


def page(walks: Sequence[Walk]) -> str:
    """Counts and every type of the newest walk, and what changed since the oldest."""
    first, walk = walks[0], walks[-1]
    results = sorted(walk.found.values(), key=lambda one: str(one["type"]).lower())
    counts = Counter(str(one["class"]) for one in results)
    rotating = [one for one in results if one.get("turns")]
    read = sum(one["class"] == "read and equal" for one in rotating)
    summary = [
        f"transformers {walk.version} has {len(walk.names)} model types. {len(rotating)} of the {len(results)} "
        f"walked rotate queries and keys, and `read` agrees with the measurement for {read} of those "
        f"({read / max(1, len(rotating)):.1%}; `python -m tools.walk`, {walk.day}).",
        *_rest(len(walk.names) - len(results)),
        "",
        "| class | types | |",
        "| --- | ---: | --- |",
        *(f"| {name} | {counts[name]} | {what} |" for name, what in CLASSES.items()),
    ]
    since = changes(first, walk) if first.version != walk.version else []
    return "\n".join([*summary, "", *_more(results), *_by_name(results), *since])


def _by_name(results: Sequence[Found]) -> list[str]:
    """The names of each class."""
    lines = []
    for kind in CLASSES:
        if names := [f"`{one['type']}`" for one in results if one["class"] == kind]:
            lines += ["", f"**{kind.capitalize()}:** {', '.join(names)}."]
    return lines


def changes(older: Walk, newer: Walk) -> list[str]:
    """What changed from one version of transformers to another: types that came or went, and what others do."""
    came, went = sorted({*newer.names} - {*older.names}), sorted({*older.names} - {*newer.names})
    both = [(older.found[name], newer.found[name]) for name in sorted({*older.found} & {*newer.found})]
    other = [(a, b) for a, b in both if _said(a) != _said(b)]
    lines = ["", f"## From transformers {older.version} to {newer.version}", ""]
    lines.append(
        f"{len(came)} types came and {len(went)} went; of {len(both)} walked in both, {len(other)} are measured or "
        "read differently."
    )
    for how, names in (("Came", came), ("Went", went)):
        if names:
            lines += ["", f"{how}: {', '.join(f'`{name}`' for name in names)}."]
    if other:
        lines += ["", f"| type | in {older.version} | in {newer.version} |", "| --- | --- | --- |"]
        lines += [f"| `{a['type']}` | {_cell(_said(a))} | {_cell(_said(b))} |" for a, b in other]
    return lines


def _said(one: Found) -> str:
    """What a type does, and how it is read; for one that could not be built the reason is nobody's change."""
    return ": ".join(str(one[key]) for key in ("class", "measured") if one.get(key))


def _cell(text: object) -> str:
    """Text of a table."""
    return str(text or "").replace("|", "\\|")


def _more(found: Sequence[Found]) -> list[str]:
    """What further configs of types came to: those under YaRN, and the published ones."""
    more = [(key == SCALED, said) for one in found for key, said in one.get("more", {}).items()]
    lines = []
    for scaled, what in ((True, f"Under {SCALED}"), (False, "Published configs of these types")):
        counts = Counter(said.split(":")[0] for kind, said in more if kind == scaled)
        lines.append(
            f"{what}: {counts['equal']} read as measured, {counts['different']} differently, "
            f"{counts['not compared']} not compared, since the class or `read` refuses them."
        )
    return lines


def _rest(count: int) -> list[str]:
    if not count:
        return []
    return ["", f"{count} more {'is' if count == 1 else 'are'} still to be walked: the command goes on with them."]
