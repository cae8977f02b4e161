"""Results of a study: per task and encoding the measure at every length with its interval, and a verdict."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean

from posenc.errors import StudyError
from posenc.pictures.numbers import fixed
from posenc.workbench.run.plan import Plan, Run
from posenc.workbench.study.statistics import (
    Interval,
    between_shares,
    finite,
    over_answers,
    over_blocks,
    over_seeds,
    paired,
    perplexity,
)
from posenc.workbench.tasks import TASKS, Criteria, RecordedCriteria, Source, task

LOST = 0.05
"""The share of perplexity or accuracy that an encoding may lose up to the longest length and still hold."""


@dataclass(frozen=True)
class Row:
    """One encoding on one task.

    Args:
        values: by length, the loss (nats per fixed target) or the accuracy.
        windows: by length, the loss over whole windows, as papers print it; empty for accuracies.
        converged: runs that passed the task's gate at the trained length, and runs in all.
        diverged: runs that were broken off as their loss diverged.
        refusal: why the encoding has no value past some length, or empty.
        not_finite: the lengths at which the loss of a run is NaN or infinite, and which have no value.
        to_best: the paired difference to the best row at the longest length, or None.
        change: the measure at the longest length less that at the trained one: over seeds, or within one run paired
            over blocks of text, or between shares; None where one of them is lacking.
    """

    encoding: str
    values: dict[int, Interval]
    windows: dict[int, Interval]
    converged: tuple[int, int]
    refusal: str = ""
    to_best: Interval | None = None
    diverged: int = 0
    not_finite: tuple[int, ...] = ()
    change: Interval | None = None

    @property
    def ranked(self) -> bool:
        """Whether every run learned the task; others are shown, never ranked."""
        return self.converged[0] == self.converged[1]


@dataclass(frozen=True)
class TaskResult:
    """All encodings on one task, best at the longest length first, then those not ranked."""

    task: Criteria
    lengths: tuple[int, ...]
    rows: tuple[Row, ...]
    runs: tuple[Run, ...]

    @property
    def longest(self) -> int:
        return self.lengths[-1]

    @property
    def unit(self) -> str:
        """``"byte"``, or ``"token"`` where a tokenizer cut the text."""
        return "byte" if self.runs[0].plan.tokenizer in ("", "bytes") else "token"

    @property
    def question(self) -> str:
        """The task in words."""
        return self.task.question.replace("byte", self.unit)

    def verdict(self, row: Row) -> str:
        """How this encoding does at the longest length, in a few words."""
        if row.diverged:
            return f"diverged ({row.diverged} of {row.converged[1]} runs)"
        if row.not_finite:
            return f"loss not finite at {row.not_finite[0]}"
        if not row.ranked:
            return f"not converged ({row.converged[0]} of {row.converged[1]} runs)"
        if self.longest not in row.values:
            return f"no value past {max(row.values)}"
        if holds(self, row):
            return "best, holds" if row is self.rows[0] else "holds"
        start, end = row.values[self.lengths[0]].mean, row.values[self.longest].mean
        loss = f"perplexity ×{fixed(perplexity(end - start), 2)}"
        change = loss if self.task.measure == "loss" else f"falls to {end:.2f}"
        return f"{change}, undecided" if undecided(self, row) else change


def holds(result: TaskResult, row: Row) -> bool:
    """Whether the measure of the trained length surely remains at the longest one, but for ``LOST``.

    The whole interval of the change has to say so: a mean over few blocks or seeds can stay where it was by chance.
    """
    return _remains(result, row, "low", "high")


def undecided(result: TaskResult, row: Row) -> bool:
    """Whether the mean remains, and its interval does not show it."""
    return _remains(result, row, "mean", "mean") and not holds(result, row)


def _remains(result: TaskResult, row: Row, low: str, high: str) -> bool:
    """Whether the change lies within the limit, a share at its ``low`` end and a loss at its ``high`` end."""
    if not row.ranked or row.not_finite or row.change is None:
        return False
    if result.task.measure == "loss":
        return bool(getattr(row.change, high) <= math.log1p(LOST))
    return bool(getattr(row.change, low) >= -LOST * row.values[result.lengths[0]].mean)


def summarise(criteria: Criteria, runs: Sequence[Run]) -> TaskResult:
    """Gather the runs of one task."""
    by_encoding: dict[str, list[Run]] = {}
    for run in runs:
        by_encoding.setdefault(run.plan.encoding, []).append(run)
    lengths = tuple(sorted({length for run in runs for length in run.plan.lengths}))
    rows = [_row(criteria, encoding, group, lengths) for encoding, group in by_encoding.items()]
    sign = 1 if criteria.measure == "loss" else -1
    rows.sort(key=lambda r: (not r.ranked, lengths[-1] not in r.values, sign * _last(r, lengths[-1])))
    best = rows[0].encoding
    rows = [
        _with_difference(criteria, row, by_encoding[row.encoding], by_encoding[best], lengths[-1]) for row in rows
    ]
    return TaskResult(criteria, lengths, tuple(rows), tuple(runs))


def newest(runs: Sequence[Run[Plan]], name: str, source: Source = Source()) -> TaskResult | None:  # noqa: B008 - frozen
    """The results of a task's newest runs that differ in encoding and seed alone; None without a run.

    Raises:
        StudyError: the runs recorded no chance and gate, and read another text than ``source``.
    """
    group = alike([run for run in runs if run.plan.task == name])
    if not group:
        return None
    plan = group[0].plan
    for run in group:
        chance, gate = (run.cell(plan.lengths[0], measure) for measure in ("chance", "gate"))
        if chance and gate:
            return summarise(RecordedCriteria(name, TASKS[name].question, "loss", chance.value, gate.value), group)
    text = source.load()
    if plan.text_sha256 not in ("", text.sha256):
        raise StudyError(
            "this study read another text; see the page that posenc compare wrote, or open it in Python with "
            "source=Source(path)"
        )
    longest = max(length for run in group for length in run.plan.lengths)
    return summarise(task(name, text, longest, plan.train_length), group)


def alike(runs: Sequence[Run]) -> list[Run]:
    """The runs that differ from the newest in encoding and seed alone: a ledger may hold several studies.

    Of an encoding and seed only the newest counts: the source of a custom class may have changed.
    """

    def common(run: Run) -> dict[str, object]:
        differing = ("encoding", "settings", "source", "seed")
        return {key: value for key, value in asdict(run.plan).items() if key not in differing}

    group = [run for run in runs if common(run) == common(runs[-1])]
    return list({(run.plan.encoding, run.plan.seed): run for run in group}.values())


def _last(row: Row, longest: int) -> float:
    return row.values[longest].mean if longest in row.values else 0.0


def _row(criteria: Criteria, encoding: str, runs: list[Run], lengths: tuple[int, ...]) -> Row:
    values = {n: v for n in lengths if (v := _interval(criteria, runs, n, criteria.measure))}
    windows = {n: v for n in lengths if (v := _interval(criteria, runs, n, "window_loss"))}
    passed = sum(criteria.passes(cell.value) for run in runs if (cell := run.cell(lengths[0], criteria.measure)))
    notes = [cell.note for run in runs for cell in run.cells if cell.note]
    lost = sum(bool(run.verdict) for run in runs)
    broken = tuple(n for n in lengths if not finite([c.value for r in runs if (c := r.cell(n, criteria.measure))]))
    change = (
        _change(criteria, runs, lengths[0], lengths[-1]) if {lengths[0], lengths[-1]} <= values.keys() else None
    )
    note = notes[0] if notes else ""
    return Row(encoding, values, windows, (passed, len(runs)), note, None, lost, broken, change)


def _change(criteria: Criteria, runs: list[Run], trained: int, longest: int) -> Interval:
    cells = [(run.cell(trained, criteria.measure), run.cell(longest, criteria.measure)) for run in runs]
    pairs = [(start, end) for start, end in cells if start and end]
    if len(pairs) > 1:
        return over_seeds([end.value - start.value for start, end in pairs])
    start, end = pairs[0]
    if criteria.measure == "loss":
        return paired(end.detail, start.detail)
    return between_shares(start.detail, end.detail)


def _interval(criteria: Criteria, runs: list[Run], length: int, measure: str) -> Interval | None:
    """Over seeds where there are several, else blocks or answers of the one run; None where they are not finite."""
    cells = [cell for run in runs if (cell := run.cell(length, measure))]
    if not cells or not finite([cell.value for cell in cells]):
        return None
    if criteria.measure == "loss":
        return over_seeds([cell.value for cell in cells]) if len(cells) > 1 else over_blocks(cells[0].detail)
    if len(cells) == 1:
        return over_answers(cells[0].detail)
    spread = over_seeds([cell.value for cell in cells])
    return replace(spread, low=max(0.0, spread.low), high=min(1.0, spread.high))  # a share stays one


def _with_difference(criteria: Criteria, row: Row, ours: list[Run], best: list[Run], longest: int) -> Row:
    """The row with its difference to the best on the same blocks (one seed) or the same seeds (several)."""
    mine = {r.plan.seed: c for r in ours if (c := r.cell(longest, criteria.measure))}
    theirs = {r.plan.seed: c for r in best if (c := r.cell(longest, criteria.measure))}
    shared = sorted(mine.keys() & theirs.keys())
    if not shared or ours is best or longest in row.not_finite:
        return row
    if len(shared) > 1:
        difference = over_seeds([mine[s].value - theirs[s].value for s in shared])
    else:
        difference = paired(mine[shared[0]].detail, theirs[shared[0]].detail)
    return replace(row, to_best=difference)


def depth_shares(result: TaskResult) -> dict[str, dict[int, list[float]]]:
    """Accuracy by tenth of depth, per encoding and length, averaged over seeds; empty for tasks without depths."""
    shares: dict[str, dict[int, list[float]]] = {}
    for row in result.rows:
        for length in result.lengths:
            runs = [r for r in result.runs if r.plan.encoding == row.encoding]
            cells = [c for r in runs if (c := r.cell(length, "accuracy_by_depth"))]
            if cells:
                means = [fmean(values) for values in zip(*(c.detail for c in cells), strict=True)]
                shares.setdefault(row.encoding, {})[length] = means
    return shares
