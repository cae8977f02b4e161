"""Fill pages with results of the studies in docs/results: single figures by name, and tables per task.

A study is stored as the ``tables.json`` that ``posenc compare`` writes.
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
"""The pattern of a placeholder: study, task, encoding, length, and optionally the interval."""
TABLE = re.compile(r"<!-- table ([\w-]+) ([\w-]+) -->")
"""The pattern of a placeholder for a study's table of one task."""
HOLDING = re.compile(r"\{\{ ([\w-]+) holding \}\}")
"""The pattern of a placeholder for the encodings that hold on all tasks of a study."""


@cache
def rows(study: str) -> list[dict[str, Any]]:
    """Return a row for each task and encoding of a study, best first."""
    return list(json.loads((FOLDER / f"{study}.json").read_text("utf-8"))["results"])


def figure(study: str, task: str, encoding: str, length: str, interval: bool = False) -> str:
    """Return one figure, a perplexity or an accuracy: the mean over seeds, or its interval."""
    for row in rows(study):
        if (row["task"], row["encoding"]) == (task, encoding) and length in row["values"]:
            return _shown(row, length, "low", "high") if interval else _shown(row, length, "mean")
    raise UnknownName(f"{study} has no result of {encoding} on {task} at length {length}")


def _shown(row: dict[str, Any], length: str, *ends: str) -> str:
    """Return a row's figure at a length, or the ends of its interval; a dash if there is none."""
    if length not in row["values"]:
        return "–"
    values = (row["values"][length][end] for end in ends)
    numbers = [perplexity(value) if row["measure"] == "loss" else value for value in values]
    return " … ".join(f"{x:.2f}" if x < 10 else f"{x:.1f}" if x < 100 else f"{x:.0f}" for x in numbers)


def table(study: str, task: str) -> str:
    """Return the table of a task with each encoding's figures, interval at the longest length, and verdict."""
    chosen = [row for row in rows(study) if row["task"] == task]
    lengths = list(max((row["values"] for row in chosen), key=len))
    head = ["encoding", *lengths, f"interval at {lengths[-1]}", "verdict"]
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * len(lengths)} --- | --- |"]
    for row in chosen:
        cells = [*(_shown(row, at, "mean") for at in lengths), _shown(row, lengths[-1], "low", "high")]
        lines.append(f"| `{row['encoding']}` | {' | '.join(cells)} | {row['verdict']} |")
    return "\n".join(lines)


def holding(study: str) -> str:
    """Return the encodings that hold on every task of a study."""
    failed = {row["encoding"] for row in rows(study) if not row["verdict"].startswith("holds")}
    return ", ".join(dict.fromkeys(f"`{row['encoding']}`" for row in rows(study) if row["encoding"] not in failed))


def filled(markdown: str) -> str:
    """Return the page with its placeholders replaced."""
    markdown = TABLE.sub(lambda match: table(*match.groups()), markdown)
    markdown = HOLDING.sub(lambda match: holding(match[1]), markdown)
    return FIGURE.sub(lambda match: figure(*match.groups()[:4], interval=bool(match[5])), markdown)
