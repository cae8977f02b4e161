"""Shows a study in a notebook: its runs, measured values and losses as data frames, and its figures."""

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc.arguments import one_of
from posenc.errors import MissingExtra, StudyError
from posenc.workbench.report.words import sentence
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import Run
from posenc.workbench.study.comparison import result_names
from posenc.workbench.study.results import TaskResult, newest

if TYPE_CHECKING:
    import pandas

    from posenc.pictures.draw import Drawing


class Opened:
    """The runs in a study's folder at one point in time. Open the folder again to see later runs.

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
        """A data frame with one row per run, with the run's settings, cost and result."""
        return _frame(self._settings)

    @cached_property
    def numbers(self) -> "pandas.DataFrame":
        """A data frame with one row per run, test length and measure, such as the accuracy."""
        return _frame(self._numbers)

    @cached_property
    def losses(self) -> "pandas.DataFrame":
        """A data frame with one row per training step of a run."""
        return _frame(self._steps)

    @cached_property
    def verdicts(self) -> "pandas.DataFrame":
        """A data frame with one row per task and encoding. If other settings vary too (axes), each of them has a
        column with the value that gave the encoding its best result. Further columns have the measure at each
        test length and the verdict."""
        lengths = sorted({n for result in self.results.values() for n in result.lengths})
        return _frame(
            [
                {
                    "task": result.name,
                    "encoding": row.encoding,
                    **row.at,
                    **{str(n): row.values[n].mean if n in row.values else None for n in lengths},
                    "verdict": result.verdict(row),
                }
                for result in self.results.values()
                for row in result.rows
            ]
        )

    @cached_property
    def results(self) -> dict[str, TaskResult]:
        """The results by task, or by task and trained length, such as ``"language-64"``, if a task has several
        trained lengths. A result covers the newest run, and the runs that differ from this run only in encoding,
        seed and settings that a study may vary (axes)."""
        keys = [(run.plan.task, run.plan.train_length) for run in self._runs]
        return {
            name: replace(newest([run for run, its in zip(self._runs, keys, strict=True) if its == key]), name=name)
            for key, name in result_names(dict.fromkeys(keys)).items()
        }

    def over_lengths(self, task: str) -> "Drawing":
        """Draw every encoding's accuracy or perplexity at every test length, with its interval."""
        from posenc.pictures.draw import Drawing
        from posenc.workbench.report.charts import over_lengths

        return Drawing(over_lengths(self._of(task)))

    def over_steps(self, task: str) -> "Drawing":
        """Draw the losses and the gradient norm of every encoding by step.

        If other settings vary too (axes), each encoding is drawn only with the values of these settings that give
        its best result at the trained length.
        """
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
        return self.results[one_of("task", task, self.results)]

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
