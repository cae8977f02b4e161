"""Every table of a study's page as JSON."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from posenc.workbench.study.results import TaskResult, effective_length
from posenc.workbench.study.statistics import Interval


def as_json(tables: object) -> str:
    """As JSON, which has no NaN and no infinity: both are null."""
    finite = json.loads(json.dumps(tables), parse_constant=lambda name: None)
    return json.dumps(finite, indent=1, ensure_ascii=False)


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
