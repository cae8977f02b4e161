"""The results of a study by task and encoding: the measure at every length with its interval, and a verdict."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import fmean
from typing import Any

from posenc.errors import StudyError
from posenc.pictures.numbers import fixed
from posenc.workbench.run.plan import Cell, Plan, Run
from posenc.workbench.run.settings import TASKS, Model, Training, declared
from posenc.workbench.study.statistics import (
    LEVEL,
    NO_VALUE,
    EffectiveLength,
    Interval,
    between_shares,
    crossed,
    finite,
    longest_within,
    over_answers,
    over_seeds,
    perplexity,
    together,
)
from posenc.workbench.tasks import Criteria, task_class

LOST = 0.05
"""An encoding holds if, at the longest length, its perplexity is at most this share higher, or its accuracy at most
this share lower, than at the trained length."""
AXES = ("learning_rate", "batch", "steps", *declared(Model), *declared(Training))
"""The settings of a plan that may be axes of a study. The trained length may be an axis too, but is not listed
here, because each trained length has separate results."""
FOLLOWS = {"lengths": "train_length", "test_count": "lengths", "source": "encoding"}
"""Maps a setting of a plan to the setting that determines it within one study."""
NO_CHANGE = Interval(0.0, 0.0, 0.0, "")


@dataclass(frozen=True)
class Row:
    """The results of one encoding on one task.

    Args:
        values: the accuracy at each length, or the loss at each length in nats per target. Losses are measured on
            the targets that all lengths share.
        windows: the loss at each length on all targets of the test windows, as papers report it; empty for
            accuracies.
        converged: the number of runs that passed the task's gate at the trained length, and the number of all runs.
        diverged: the number of runs that were stopped because their loss diverged.
        refusal: the reason if the encoding has no value past some length, else an empty string.
        not_finite: the lengths at which the loss of a run is NaN or infinite; these lengths have no value.
        to_best: the paired difference from the best row at the longest length; None if there is no such difference.
        lost: for each longer length, how much worse the measure is than at the trained length. Losses are paired
            by seed and block of text. Accuracies are paired by seed only, because each length has its own
            sequences.
        at: the values of the study's axes by setting; empty if there are no axes.
        runs: the runs from which the results were computed.
    """

    encoding: str
    values: dict[int, Interval]
    windows: dict[int, Interval]
    converged: tuple[int, int]
    refusal: str = ""
    to_best: Interval | None = None
    diverged: int = 0
    not_finite: tuple[int, ...] = ()
    lost: Mapping[int, Interval] = field(default_factory=dict)
    at: Mapping[str, Any] = field(default_factory=dict)
    runs: tuple[Run, ...] = ()

    @property
    def ranked(self) -> bool:
        """Whether the row is ranked, which requires that every run has learned the task."""
        return self.converged[0] == self.converged[1]


@dataclass(frozen=True)
class TaskResult:
    """The results of all encodings on one task.

    Args:
        rows: one row per encoding, at the axis values that are best at the trained length. The row that is best at
            the longest length comes first, and unranked rows come last.
        grid: one row per encoding and combination of axis values, in the order of ``rows``; empty if there are no
            axes.
        runs: all runs of the task.
        name: the task's name, with the trained length if that is an axis.
    """

    task: Criteria
    lengths: tuple[int, ...]
    rows: tuple[Row, ...]
    grid: tuple[Row, ...]
    runs: tuple[Run, ...]
    name: str

    @property
    def longest(self) -> int:
        return self.lengths[-1]

    @property
    def unit(self) -> str:
        """``"byte"``, ``"token"`` with a tokenizer, or ``"target"`` in a custom task that reads no text."""
        tokenizer = self.runs[0].plan.tokenizer
        without_text = not tokenizer and ":" in self.task.name
        return "target" if without_text else "byte" if tokenizer in ("", "bytes") else "token"

    @property
    def has_two_seeds(self) -> bool:
        """Whether values are shown with those of both seeds, instead of an interval over seeds."""
        return len({run.plan.seed for run in self.runs}) == 2

    @property
    def question(self) -> str:
        """A short description of the task, with the unit of its text."""
        return self.task.question.replace("byte", "token" if self.unit == "token" else "byte")

    def verdict(self, row: Row) -> str:
        """Describe the result of an encoding at the longest length in a few words."""
        if row.diverged:
            return f"diverged in {row.diverged} of {row.converged[1]} runs"
        if row.not_finite:
            return f"loss not finite at {row.not_finite[0]}"
        if not row.ranked:
            return f"not converged in {row.converged[1] - row.converged[0]} of {row.converged[1]} runs"
        if self.longest not in row.values:
            return f"no value past {max(row.values)}"
        standing, loss = self.standing(row), self.task.measure == "loss"
        if standing == "holds":
            return f"holds, best at {self.longest}" if self.best(self.longest) is row else "holds"
        value = row.lost[self.longest] if loss else row.values[self.longest]
        seeds = [f"×{fixed(perplexity(v), 2)}" if loss else f"{v:.2f}" for v in value.seeds or (value.mean,)]
        # equal values only once
        return f"{standing}, {'perplexity' if loss else 'at'} {' and '.join(dict.fromkeys(seeds))}"

    def standing(self, row: Row) -> str:
        """Return "holds", "worse" or "undecided", based on the change from the trained to the longest length.

        For "holds", the whole interval of the change must be within the limit, because a mean over few blocks or
        seeds may be within the limit by chance. The string is empty if the row is not ranked or its change is not
        known.
        """
        change = NO_CHANGE if len(self.lengths) == 1 else row.lost.get(self.longest)
        if change is None or not row.ranked or row.not_finite:
            return ""
        if change.high <= self.limit(row):
            return "holds"
        return "worse" if change.low > self.limit(row) else "undecided"

    def limit(self, row: Row) -> float:
        """Return the limit for the verdict "holds": by how much the row's measure at longer lengths may be worse
        than at the trained length.

        For a loss, the limit is a difference in nats. For an accuracy, it is a difference between two shares of
        right answers.
        """
        return math.log1p(LOST) if self.task.measure == "loss" else LOST * row.values[self.lengths[0]].mean

    def leaders(self, length: int) -> tuple[Row, ...]:
        """Return the ranked rows that may be best at a length, best mean first.

        A row is excluded if the interval of its paired difference from the row with the best mean shows that it is
        worse. The joint error rate of these exclusions is 5%. A difference without an interval excludes no row.
        """
        sign = self.task.sign
        ranked = sorted(
            (row for row in self.rows if row.ranked and length in row.values),
            key=lambda row: sign * row.values[length].mean,
        )
        gaps = ((row, _gap(self.task, row, ranked[0], length, len(self.rows))) for row in ranked)
        return tuple(row for row, gap in gaps if gap is None or not min(sign * gap.low, sign * gap.high) > 0)

    def best(self, length: int) -> Row | None:
        """Return the best row at a length, if ``leaders`` has only this row.

        Return None if several rows may be best, or if only one row is ranked, so that there is nothing to compare.
        """
        leaders = self.leaders(length)
        return leaders[0] if len(leaders) == 1 and sum(row.ranked for row in self.rows) > 1 else None


def effective_length(result: TaskResult, row: Row) -> EffectiveLength | None:
    """Return the longest test length up to which a row's measure worsens by at most ``LOST``; None if the row is
    not ranked."""
    if not row.ranked or result.lengths[0] not in row.values:
        return None
    lost = {n: row.lost.get(n, NO_VALUE) for n in result.lengths} | {result.lengths[0]: NO_CHANGE}
    samples = sum(run.plan.test_count for run in row.runs)
    return longest_within([*lost], [*lost.values()], result.limit(row), samples)


def differing(plans: Iterable[Plan]) -> dict[str, dict[str, Any]]:
    """Return, by plan id, the settings that differ between these plans of a task, except encoding and seed.

    Test lengths are left out if they differ only because the trained length differs; see ``FOLLOWS``.
    """
    plans, names = list(plans), dict.fromkeys(("train_length", *AXES, *(each.name for each in fields(Plan))))

    def differs(name: str) -> bool:
        given = FOLLOWS.get(name, "task")
        pairs = {(getattr(plan, given), getattr(plan, name)) for plan in plans}
        return len(pairs) > len({given for given, _ in pairs})

    chosen = [name for name in names if name not in ("encoding", "seed") and differs(name)]
    return {plan.id: {name: getattr(plan, name) for name in chosen} for plan in plans}


def summarise(criteria: Criteria, runs: Sequence[Run], name: str = "") -> TaskResult:
    """Summarise the runs of one task, which differ in encoding, seed and axis values."""
    sizes = {(cell.length, cell.measure): len(cell.detail) for run in runs for cell in run.cells}
    if any(len(cell.detail) != sizes[cell.length, cell.measure] for run in runs for cell in run.cells):
        raise StudyError(
            f"runs of {criteria.name} have results for different numbers of test sequences, so they cannot be "
            "compared; restore the ledger from a backup, or use another folder"
        )
    axes = [axis for axis in AXES if len({getattr(run.plan, axis) for run in runs}) > 1]
    groups: dict[tuple[Any, ...], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.plan.encoding, *(getattr(run.plan, axis) for axis in axes)), []).append(run)
    lengths = tuple(sorted({length for run in runs for length in run.plan.lengths}))
    grid = [
        _row(criteria, encoding, dict(zip(axes, at, strict=True)), group, lengths)
        for (encoding, *at), group in groups.items()
    ]

    def rank(row: Row, length: int) -> tuple[bool, bool, float]:
        known = row.values.get(length)
        return not row.ranked, known is None, criteria.sign * known.mean if known else 0.0

    rows: dict[str, Row] = {}
    for row in sorted(grid, key=lambda row: rank(row, lengths[0])):
        rows.setdefault(row.encoding, row)
    order = sorted(rows.values(), key=lambda row: rank(row, lengths[-1]))
    return TaskResult(
        criteria,
        lengths,
        rows=tuple(replace(row, to_best=_gap(criteria, row, order[0], lengths[-1], len(order))) for row in order),
        grid=tuple(row for best in order for row in grid if row.encoding == best.encoding) if axes else (),
        runs=tuple(runs),
        name=name or criteria.name,
    )


def newest(runs: Sequence[Run]) -> TaskResult:
    """Summarise the newest of a task's runs and the runs that can be compared with it; see ``alike``.

    The chance level and the gate are those stored in these runs.
    """
    group, name = alike(runs), runs[-1].plan.task
    trained = group[0].plan.lengths[0]
    cells = {cell.measure: cell.value for run in group for cell in run.cells if cell.length == trained}
    chance, gate = (cells.get(measure, math.nan) for measure in ("chance", "gate"))  # missing if all diverged
    known = task_class(name) if name in TASKS else None
    loss = known.measure == "loss" if known else "loss" in cells
    criteria = Criteria(name, getattr(known, "question", name), "loss" if loss else "accuracy", chance, gate)
    return summarise(criteria, group)


def alike(runs: Sequence[Run]) -> list[Run]:
    """Return the runs that differ from the newest run only in encoding, seed and the settings that a study may vary
    (axes).

    A ledger may contain runs of several studies. If runs differ only in the source code of a custom class, only
    the newest of these runs is returned.
    """
    names, last = ("encoding", "seed", *AXES), runs[-1].plan
    common = [each.name for each in fields(Plan) if each.name not in (*names, "source")]
    group = [run for run in runs if all(getattr(run.plan, name) == getattr(last, name) for name in common)]
    return list({tuple(getattr(run.plan, name) for name in names): run for run in group}.values())


def _row(
    criteria: Criteria, encoding: str, at: Mapping[str, Any], runs: list[Run], lengths: tuple[int, ...]
) -> Row:
    values = {n: v for n in lengths if (v := _interval(criteria, runs, n, criteria.measure))}
    trained = [cell.value for run in runs if (cell := run.cell(lengths[0], criteria.measure))]
    past = [length for length in lengths[1:] if {lengths[0], length} <= values.keys()]
    return Row(
        encoding,
        values,
        {n: v for n in lengths if (v := _interval(criteria, runs, n, "window_loss"))},
        converged=(sum(map(criteria.passes, trained)), len(runs)),
        refusal=next((cell.note for run in runs for cell in run.cells if cell.note), ""),
        diverged=sum(bool(run.verdict) for run in runs),
        not_finite=tuple(
            n for n in lengths if not finite([c.value for r in runs if (c := r.cell(n, criteria.measure))])
        ),
        lost={length: _worsening(criteria, runs, lengths[0], length) for length in past},
        at=at,
        runs=tuple(runs),
    )


def _worsening(criteria: Criteria, runs: list[Run], trained: int, length: int) -> Interval:
    """Return how much worse the measure is than at the trained length."""
    pairs = [
        (start, end)
        for run in runs
        if (start := run.cell(trained, criteria.measure)) and (end := run.cell(length, criteria.measure))
    ]
    if criteria.measure == "loss":
        return _differences([(end, start) for start, end in pairs])
    by_seed = over_seeds([start.value - end.value for start, end in pairs])
    return together(by_seed, between_shares(*(_means([pair[i] for pair in pairs]) for i in (1, 0))))


def _differences(pairs: Sequence[tuple[Cell, Cell]], level: float = LEVEL) -> Interval:
    """Return the mean of first cell minus second cell over all pairs, with an interval. The two cells of a pair are
    subtracted block by block, or answer by answer.
    """
    return crossed([[a - b for a, b in zip(x.detail, y.detail, strict=True)] for x, y in pairs], level)


def _means(cells: Sequence[Cell]) -> list[float]:
    """Return the mean share of right answers over seeds, for each sequence."""
    return [fmean(answers) for answers in zip(*(cell.detail for cell in cells), strict=True)]


def _interval(criteria: Criteria, runs: list[Run], length: int, measure: str) -> Interval | None:
    """Return the mean of a measure at a length, with an interval for the variation over seeds and test sequences.

    For a loss, the interval is over blocks of text instead of test sequences. Overlapping windows count as
    independent, so the interval for the mean loss of whole windows is too narrow. Return None if no run has a
    value or a value is not finite.
    """
    cells = [cell for run in runs if (cell := run.cell(length, measure))]
    if not cells or not finite([cell.value for cell in cells]):
        return None
    if criteria.measure == "loss":
        return crossed([cell.detail for cell in cells])
    spread = together(over_seeds([cell.value for cell in cells]), over_answers(_means(cells)))
    return replace(spread, low=max(0.0, spread.low), high=min(1.0, spread.high))  # keep shares within 0 … 1


def _gap(criteria: Criteria, row: Row, best: Row, length: int, compared: int) -> Interval | None:
    """Return a row's difference from the best row on equal blocks or sequences and seeds; None if there are none.

    Any row may look best by chance, so each interval's error rate is 5% divided by the number of rows (Bonferroni).
    """
    mine, theirs = (
        {run.plan.seed: cell for run in each.runs if (cell := run.cell(length, criteria.measure))}
        for each in (row, best)
    )
    shared = sorted(mine.keys() & theirs.keys())
    if not shared or row is best or length in row.not_finite:
        return None
    return _differences([(mine[seed], theirs[seed]) for seed in shared], level=1 - (1 - LEVEL) / compared)
