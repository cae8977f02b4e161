"""Every table of a study's page as JSON, and its results as LaTeX."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from posenc.workbench.report import words
from posenc.workbench.study.results import TaskResult, effective_length
from posenc.workbench.study.statistics import Interval

SPECIAL = {sign: f"\\{sign}" for sign in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\^{}",
    "–": "--",
    "…": r"\ldots{}",
    "\u202f": r"\,",
}
"""What LaTeX spells otherwise: its own signs, and those of our numbers."""


def as_json(tables: object) -> str:
    """As JSON, which has no NaN and no infinity: both are null."""
    return json.dumps(_finite(tables), indent=1, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def of_results(results: Iterable[TaskResult]) -> Iterator[dict[str, Any]]:
    """A row for each encoding of a task, and for each value of a study's axes; losses are in nats.

    ``best`` says whether it is the row that the page compares, at the axes' best values.
    """
    for result in results:
        for row in result.grid or result.rows:
            best = next(one for one in result.rows if one.encoding == row.encoding)
            length, compared = effective_length(result, row), best.at == row.at
            yield {
                "task": result.name,
                "encoding": row.encoding,
                **row.at,
                "measure": result.task.measure,
                "verdict": result.verdict(row),
                "best": compared,
                "seeds": len(row.runs),
                "converged": row.converged[0],
                "values": _by_length(row.values),
                "windows": _by_length(row.windows),
                "to_best": asdict(best.to_best) if compared and best.to_best else None,
                "effective_length": length.as_json() if length else None,
            }


def _by_length(values: Mapping[int, Interval]) -> dict[int, dict[str, Any]]:
    return {length: asdict(interval) for length, interval in values.items()}


def as_latex(results: Iterable[TaskResult]) -> str:
    """A ``tabular`` for each task, in the rules of the package booktabs: as the page's, with 95% intervals."""
    return "\n".join("\n".join(_tabular(result)) for result in results)


def _tabular(result: TaskResult) -> Iterator[str]:
    seeds = len({run.plan.seed for run in result.runs})
    yield f"% {result.name}: {words.unit(result)}; trained to {result.lengths[0]}; {seeds} seed{'s' * (seeds > 1)}"
    yield f"\\begin{{tabular}}{{l{'r' * (len(result.lengths) + 1)}}}\n\\toprule"
    yield _line("encoding", *map(str, result.lengths), "effective length") + "\n\\midrule"
    for row in result.rows:
        best, values = row is result.rows[0] and row.ranked, [row.values.get(length) for length in result.lengths]
        cells = [_with_interval(words.measured(result, v), words.spread(result, v), best) for v in values]
        name = words.label(row) + (f" ({words.at(row)})" if row.at else "")
        yield _line(_escaped(name), *cells, _with_interval(*words.effective(result, row)))
    yield "\\bottomrule\n\\end{tabular}\n"


def _line(*cells: str) -> str:
    return f"{' & '.join(cells)} \\\\"


def _with_interval(number: str, interval: str, bold: bool = False) -> str:
    number = rf"\textbf{{{_escaped(number)}}}" if bold else _escaped(number)
    return rf"{number} {{\scriptsize [{_escaped(interval)}]}}" if interval else number


def _escaped(text: str) -> str:
    return "".join(SPECIAL.get(letter, letter) for letter in text)
