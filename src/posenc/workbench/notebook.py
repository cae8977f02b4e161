"""A study in a notebook: its runs, numbers and losses as data frames, and figures that display themselves."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.errors import MissingExtra, StudyError, UnknownName
from posenc.workbench.report.words import sentence
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import Run
from posenc.workbench.study.results import TaskResult, newest

if TYPE_CHECKING:
    import pandas

    from posenc.pictures.draw import Drawing


class Opened:
    """A study's folder, read once. Open it again to see later runs.

    Args:
        study: the folder.
    """

    def __init__(self, study: str | Path) -> None:
        self.name, self.folder = str(study), Path(study)
        with Ledger(self.folder) as ledger:
            self._runs: list[Run] = ledger.runs()
            self._settings = ledger.rows("SELECT * FROM settings")
            self._numbers = ledger.rows("SELECT * FROM numbers")
            self._steps = list(ledger.steps(self._settings))

    @cached_property
    def runs(self) -> "pandas.DataFrame":
        """One row per run: its settings, its cost and its result."""
        return _frame(self._settings)

    @cached_property
    def numbers(self) -> "pandas.DataFrame":
        """One row per measured number."""
        return _frame(self._numbers)

    @cached_property
    def losses(self) -> "pandas.DataFrame":
        """One row per training step of a run."""
        return _frame(self._steps)

    @cached_property
    def verdicts(self) -> "pandas.DataFrame":
        """One row per task and encoding at its best axis values: those values, the measure at every length, and a
        verdict."""
        lengths = sorted({n for result in self.results.values() for n in result.lengths})
        rows = [
            {
                "task": result.task.name,
                "encoding": row.encoding,
                **row.at,
                **{str(n): row.values[n].mean if n in row.values else None for n in lengths},
                "verdict": result.verdict(row),
            }
            for result in self.results.values()
            for row in result.rows
        ]
        return _frame(rows)

    @cached_property
    def results(self) -> dict[str, TaskResult]:
        """Results by task, from its newest run and the runs that differ from it only in encoding, seed and axis
        values."""
        names = dict.fromkeys(run.plan.task for run in self._runs)
        results = {name: newest(self._runs, name) for name in names}
        return {name: result for name, result in results.items() if result}

    def over_lengths(self, task: str) -> "Drawing":
        """The measure of every encoding at every length, with its interval."""
        from posenc.pictures.draw import Drawing
        from posenc.workbench.report.charts import over_lengths

        return Drawing(over_lengths(self._of(task)))

    def over_steps(self, task: str) -> "Drawing":
        """Training loss, validation loss and gradient norm of every encoding at its best axis values, by step."""
        from posenc.pictures.draw import Drawing
        from posenc.workbench.report.charts import over_steps

        runs = [run for row in self._of(task).rows for run in row.runs]
        with Ledger(self.folder) as ledger:
            curves = {run.plan.id: ledger.curve(run.plan.id) for run in runs}
        view = over_steps(task, [run.plan for run in runs], curves)
        if view is None:
            raise StudyError(
                f"the runs of {task!r} in {self.name!r} have no losses by step; run the study again with posenc "
                "compare"
            )
        return Drawing(view)

    def _of(self, task: str) -> TaskResult:
        if task not in self.results:
            raise UnknownName("task", task, self.results)
        return self.results[task]

    def __repr__(self) -> str:
        sentences = " ".join(f"{name}: {sentence(result)}" for name, result in self.results.items())
        count = len(self._runs)
        return f"{count} run{'s' * (count != 1)} in {self.name!r}. {sentences}"


def _frame(rows: list[dict[str, Any]]) -> "pandas.DataFrame":
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise MissingExtra("pandas", "notebook") from error
    return pandas.DataFrame(rows)
