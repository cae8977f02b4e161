"""Write the measured types for docs/models.md: counts, every type by name, and changes since another version."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from packaging.version import Version

KEPT = Path(__file__).parent / "walked"
"""The results of each measured version: the date, the model types, and one line per result."""

CLASSES = {
    "read and equal": "`posenc inspect` reads the config, and the model does the same",
    "corrected since": "this version of transformers departs from the config; newer versions follow it",
    "read and different": "the model differs from what was read",
    "measured only": "`read` refuses the config; `posenc inspect --measure` says what the model does",
    "has no positions": "its attention, if any, does not use token positions",
    "cannot be built": "no small model could be built and run on token ids, images or audio",
}


Found = Mapping[str, Any]


@dataclass
class Walk:
    """The results for one version of transformers.

    Args:
        version: the version of transformers.
        names: its model types.
        found: the result of each type measured so far.
        day: the date of the latest run.
    """

    version: str
    names: list[str]
    found: dict[str, Found]
    day: str


def kept(folder: Path = KEPT) -> list[Walk]:
    """Return the stored results of all versions, oldest first, with the latest result of every type."""
    walks = []
    for file in folder.glob("walk-*.types"):
        day, *names = file.read_text().split()
        found = {one["type"]: one for one in map(json.loads, file.with_suffix(".jsonl").read_text().splitlines())}
        known = {name: found[name] for name in names if name in found}
        walks.append(Walk(file.stem.removeprefix("walk-"), names, known, day))
    return sorted(walks, key=lambda walk: Version(walk.version))


def page(walks: Sequence[Walk]) -> str:
    """Return the counts and types of the newest version, and what changed from each version to the next."""
    walk = walks[-1]
    results = sorted(walk.found.values(), key=lambda one: str(one["type"]).lower())
    counts = Counter(str(one["class"]) for one in results)
    rotating = [one for one in results if one.get("turns")]
    read = sum(one["class"] == "read and equal" for one in rotating)
    missing = len(walk.names) - len(results)
    summary = [
        f"transformers {walk.version} has {len(walk.names)} model types. {len(rotating)} of the {len(results)} "
        f"measured rotate queries and keys, and `read` agrees with the measurement for {read} of those "
        f"({read / max(1, len(rotating)):.1%}; `python -m tools.walk`, {walk.day}).",
        *(["", f"Not measured yet: {missing}. Run the command again to continue."] if missing else []),
        "",
        "| class | types | |",
        "| --- | ---: | --- |",
        *(f"| {name} | {counts[name]} | {what} |" for name, what in CLASSES.items()),
    ]
    changed = [line for older, newer in pairwise(walks) for line in changes(older, newer)]
    return "\n".join([*summary, "", *_more(results), *_by_name(results), *changed])


def _by_name(results: Sequence[Found]) -> list[str]:
    """Return the names of the types in each class."""
    lines = []
    for kind in CLASSES:
        if names := [f"`{one['type']}`" for one in results if one["class"] == kind]:
            lines += ["", f"**{kind.capitalize()}:** {', '.join(names)}."]
    return lines


def changes(older: Walk, newer: Walk) -> list[str]:
    """Return what changed between two versions of transformers: types added or removed, and different results."""
    came, went = sorted({*newer.names} - {*older.names}), sorted({*older.names} - {*newer.names})
    both = [(older.found[name], newer.found[name]) for name in sorted({*older.found} & {*newer.found})]
    other = [(a, b) for a, b in both if _rounded(_said(a)) != _rounded(_said(b))]
    lines = [
        "",
        f"## From transformers {older.version} to {newer.version}",
        "",
        f"{len(came)} types were added and {len(went)} removed; of {len(both)} measured in both versions, "
        f"{len(other)} are measured or read differently.",
    ]
    for how, names in (("Added", came), ("Removed", went)):
        if names:
            lines += ["", f"{how}: {', '.join(f'`{name}`' for name in names)}."]
    if other:
        lines += ["", f"| type | in {older.version} | in {newer.version} |", "| --- | --- | --- |"]
        lines += [f"| `{a['type']}` | {_cell(_said(a))} | {_cell(_said(b))} |" for a, b in other]
    return lines


def _said(one: Found) -> str:
    """Return a type's class and measurement, without the reason, which may change between runs."""
    return ": ".join(str(one[key]) for key in ("class", "measured") if one.get(key))


def _rounded(text: str) -> str:
    """Round numbers to five digits, because measured wavelengths vary in the seventh from run to run."""
    return re.sub(r"\d[\d,]*(\.\d+)?", lambda number: f"{float(number[0].replace(',', '')):.5g}", text)


def _cell(text: object) -> str:
    """Return the text of a table cell."""
    return str(text or "").replace("|", "\\|")


def _more(found: Sequence[Found]) -> list[str]:
    """Return the counts of results for other configs than the default: by kind, and of the published ones."""
    more = [
        (key if " " in key else "published configs of these types", said)  # names of configs have no spaces
        for one in found
        for key, said in one.get("more", {}).items()
    ]
    lines = []
    for kind in dict(more):
        counts = Counter(said.split(":")[0] for other, said in more if other == kind)
        lines.append(
            f"{kind[0].upper()}{kind[1:]}: {counts['equal']} read as measured, {counts['different']} differently, "
            f"{counts['not compared']} not compared, since the class or `read` refuses them."
        )
    return lines
