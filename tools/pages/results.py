"""What pages quote of the studies in docs/results: single figures by name, and a table for each task.

A study is kept as the ``tables.json`` that ``posenc compare`` writes beside its page.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from posenc.errors import UnknownName
from posenc.workbench.study.statistics import perplexity

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
            return _shown(row, length, "low", "high") if interval else _shown(row, length, "mean")
    raise UnknownName(f"{study} has no figure of {encoding} on {task} at {length}")


def _shown(row: dict[str, Any], length: str, *ends: str) -> str:
    """A row's figure at a length, or the two ends of its interval; a dash where it has none."""
    if length not in row["values"]:
        return "–"
    values = (row["values"][length][end] for end in ends)
    numbers = [perplexity(value) if row["measure"] == "loss" else value for value in values]
    return " … ".join(f"{x:.2f}" if x < 10 else f"{x:.1f}" if x < 100 else f"{x:.0f}" for x in numbers)


def table(study: str, task: str) -> str:
    """Every encoding on one task: its figures at all lengths, the interval at the longest, the verdict."""
    chosen = [row for row in rows(study) if row["task"] == task]
    lengths = list(max((row["values"] for row in chosen), key=len))
    head = ["encoding", *lengths, f"interval at {lengths[-1]}", "verdict"]
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * len(lengths)} --- | --- |"]
    for row in chosen:
        cells = [*(_shown(row, at, "mean") for at in lengths), _shown(row, lengths[-1], "low", "high")]
        lines.append(f"| `{row['encoding']}` | {' | '.join(cells)} | {row['verdict']} |")
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
