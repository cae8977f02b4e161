"""What pages quote of the studies in docs/results: single figures by name, and a table for each task.

A study is kept as the ``tables.json`` that ``posenc compare`` writes beside its page.
"""

import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

from posenc.errors import UnknownName

FOLDER = Path(__file__).parents[2] / "docs" / "results"
FIGURE = re.compile(r"\{\{ ([\w-]+) ([\w-]+) (\S.*?) (\d+)( interval)? \}\}")
"""A figure as a page names it: study, task, encoding, length, and whether its interval is wanted."""
TABLE = re.compile(r"<!-- table ([\w-]+) ([\w-]+) -->")
"""A study's table of one task."""
HOLDING = re.compile(r"\{\{ ([\w-]+) holding \}\}")
"""The encodings that hold on all tasks of a study."""


@cache
def rows(study: str) -> list[dict[str, Any]]:
    """A row for each task and encoding of a study, best first."""
    return list(json.loads((FOLDER / f"{study}.json").read_text("utf-8"))["results"])


def figure(study: str, task: str, encoding: str, length: str, interval: bool = False) -> str:
    """One figure: perplexity, or the share of right answers; the mean over seeds, or its interval."""
    for row in rows(study):
        if (row["task"], row["encoding"]) == (task, encoding) and length in row["values"]:
            value = row["values"][length]
            ends = [_shown(row["measure"], value[end]) for end in (("low", "high") if interval else ("mean",))]
            return " … ".join(ends)
    raise UnknownName(f"{study} has no figure of {encoding} on {task} at {length}")


def _shown(measure: str, value: float) -> str:
    number = math.exp(value) if measure == "loss" else value
    return f"{number:.2f}" if number < 10 else f"{number:.1f}" if number < 100 else f"{number:.0f}"


def table(study: str, task: str) -> str:
    """Every encoding on one task: its figures at all lengths, the interval at the longest, the verdict."""
    chosen = [row for row in rows(study) if row["task"] == task]
    lengths = list(max((row["values"] for row in chosen), key=len))
    head = ["encoding", *lengths, f"interval at {lengths[-1]}", "verdict"]
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * len(lengths)} --- | --- |"]
    for row in chosen:
        name, last = row["encoding"], lengths[-1]
        cells = [figure(study, task, name, at) if at in row["values"] else "–" for at in lengths]
        cells.append(figure(study, task, name, last, True) if last in row["values"] else "–")
        lines.append(f"| `{name}` | {' | '.join(cells)} | {row['verdict']} |")
    return "\n".join(lines)


def holding(study: str) -> str:
    """The encodings that hold on every task of a study."""
    failed = {row["encoding"] for row in rows(study) if not row["verdict"].endswith("holds")}
    return ", ".join(dict.fromkeys(f"`{row['encoding']}`" for row in rows(study) if row["encoding"] not in failed))


def filled(markdown: str) -> str:
    """The page with its figures and tables."""
    markdown = TABLE.sub(lambda match: table(*match.groups()), markdown)
    markdown = HOLDING.sub(lambda match: holding(match[1]), markdown)
    return FIGURE.sub(lambda match: figure(*match.groups()[:4], interval=bool(match[5])), markdown)
