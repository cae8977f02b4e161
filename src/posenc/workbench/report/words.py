"""Describes a study in words: its values as text for tables and pages, and sentences that say which encodings hold
up beyond the trained length.

An encoding holds up if it is hardly worse at the longest test length than at the trained length; see
``results.LOST``.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from posenc.pictures.numbers import fixed, plain, short, signed
from posenc.pictures.palette import style
from posenc.workbench.run.plan import Plan, Run
from posenc.workbench.study.results import Row, TaskResult, differing, effective_length
from posenc.workbench.study.statistics import Interval
from posenc.workbench.study.statistics import perplexity as exp

NOTHING = "–"
THREE_DECIMALS = partial(plain, digits=3)
NEAR = 0.1
"""An encoding reads well if, at the trained length, its perplexity is at most this share higher, or its accuracy at
most this share lower, than that of the best encoding."""


def label(row: Row) -> str:
    """Return the name of an encoding in tables and figures of a study."""
    return style(row.encoding).label


def heading(task: str) -> str:
    """Return the task's name, or the name of a custom task's class, with a capital first letter, for a title."""
    name = task.rpartition(":")[2]
    return name[:1].upper() + name[1:]


def at(values: Mapping[str, object]) -> str:
    """Return the values of a study's axes as text, such as ``learning_rate 0.003, width 64``; empty if there are
    no axes."""
    return ", ".join(f"{name} {shown(value)}" for name, value in values.items())


def names(plans: Sequence[Plan]) -> dict[str, str]:
    """Return the name of every plan by id, with the values of the axes in which the task's plans differ."""
    values = axes_in_words(plans)
    return {plan.id: ", ".join(filter(None, (plan.name, values[plan.id]))) for plan in plans}


def axes_in_words(plans: Sequence[Plan]) -> dict[str, str]:
    """Return a string for each plan id: the plan's values of all settings in which plans of the same task differ.
    The string is empty if only encoding and seed differ."""
    of_tasks = [[plan for plan in plans if plan.task == task] for task in {plan.task for plan in plans}]
    return {id: at(values) for alike in of_tasks for id, values in differing(alike).items()}


def shown(value: object) -> str:
    """Return the value of a setting as text; a hash is truncated to twelve digits."""
    return f"{value:g}" if isinstance(value, float) else str(value)[:12] if isinstance(value, str) else str(value)


def by_setting(plans: Sequence[Plan]) -> dict[tuple[str, str], list[Plan]]:
    """Group the plans of a task by encoding and axis values; plans in a group differ only in their seed."""
    values = axes_in_words(plans)
    groups: dict[tuple[str, str], list[Plan]] = {}
    for plan in plans:
        groups.setdefault((plan.encoding, values[plan.id]), []).append(plan)
    return groups


def best_values(result: TaskResult) -> str:
    """Describe the best axis values of each encoding."""
    each = "; ".join(f"{label(row)} {at(row.at)}" for row in result.rows)
    return f"Best values of {', '.join(result.rows[0].at)} at {result.lengths[0]}: {each}."


def measured(result: TaskResult, interval: Interval | None) -> str:
    """Return a measured value as text. A loss is shown as a perplexity, and a missing value as a dash."""
    if interval is None:
        return NOTHING
    return perplexity(interval.mean) if result.task.measure == "loss" else f"{interval.mean:.3f}"


def perplexity(loss: float) -> str:
    """Return exp(loss) for a loss in nats, rounded to two decimals, or to a whole number if it is at least 100."""
    value = exp(loss)
    return fixed(value, 2 if value < 100 else 0)


def spread(result: TaskResult, interval: Interval | None) -> str:
    """Return the 95% interval of a measured value as text, or both values if the results have two seeds.

    Losses are shown as perplexities. The string is empty for a single value, which has no interval.
    """
    return (_seeds_or_ends if result.has_two_seeds else ends)(
        interval, perplexity if result.task.measure == "loss" else "{:.3f}".format
    )


def _seeds_or_ends(interval: Interval | None, show: Callable[[float], str]) -> str:
    return " and ".join(map(show, interval.seeds)) if interval and interval.seeds else ends(interval, show)


def below(result: TaskResult) -> str:
    """Return the heading of the column that ``spread`` fills."""
    return "both seeds" if result.has_two_seeds else "95% intervals"


def ends(interval: Interval | None, show: Callable[[float], str] = THREE_DECIMALS) -> str:
    """Return an interval as ``low … high``; empty if its ends are unknown, as for a single value."""
    if interval is None or math.isnan(interval.low):
        return ""
    return f"{show(interval.low)} … {show(interval.high)}"


def difference(row: Row) -> tuple[str, str]:
    """Return a row's paired difference from the best row at the longest length, and the interval of the difference.

    A difference between losses is in nats. A difference between accuracies, which are shares of right answers, is
    0.1 for ten percentage points.
    """
    gap = row.to_best
    return (NOTHING, "") if gap is None else (signed(gap.mean), _seeds_or_ends(gap, signed))


def effective(result: TaskResult, row: Row) -> tuple[str, str]:
    """Return the effective length and its interval."""
    length = effective_length(result, row)
    return length.parts if length else (NOTHING, "")


def unit(result: TaskResult) -> str:
    """Describe the values in a table of the results: the measure, its unit, and whether lower or higher is
    better."""
    return (
        f"perplexity per {result.unit}, lower is better"
        if result.task.measure == "loss"
        else "share of right answers, higher is better"
    )


def answer(results: Sequence[TaskResult]) -> str:
    """Summarise the study: for each task, say which encodings hold (see ``verdict``), and which encoding has the
    lowest perplexity within the trained length."""
    if not results:
        return "No run has finished yet."
    furthest = results[0].longest / results[0].lengths[0]
    verdicts = "; ".join(f"{verdict(result)} on {result.name}" for result in results)
    losses = [result for result in results if result.task.measure == "loss"]
    inside = "".join(_inside(result, f" on {result.name}" if len(losses) > 1 else "") for result in losses)
    seeds = len({run.plan.seed for result in results for run in result.runs})
    how_many = f"{seeds} seeds" if seeds > 1 else "One seed"
    return f"At {short(furthest)}× the trained length, {verdicts}.{inside} {how_many}."


def best_inside(result: TaskResult) -> Row | None:
    """Return the row with the best loss at the trained length; None if the task measures
    accuracy, or if it is undecided which row is best."""
    return result.best(result.lengths[0]) if result.task.measure == "loss" else None


def _inside(result: TaskResult, where: str) -> str:
    if sum(row.ranked for row in result.rows) < 2:
        return ""
    leaders = [label(row) for row in result.leaders(result.lengths[0])]
    best = (
        f"{leaders[0]} has the lowest perplexity"
        if len(leaders) == 1
        else f"the best is undecided between {together(leaders)}"
    )
    return f" Within the trained length, {best}{where}."


def verdict(result: TaskResult) -> str:
    """Say which encodings hold up to the longest length, which means that they become worse by at most
    ``results.LOST``, and for which encodings this is undecided.

    An encoding that holds, but is much worse at the trained length than the best encoding, is listed separately.
    """
    ranked = [row for row in result.rows if row.ranked]
    if not ranked:
        passed = f"none passed the gate{' in every run' * any(row.converged[0] for row in result.rows)}"
        return f"no encoding is ranked, as {passed} at {result.lengths[0]} ({_nearest(result)})"
    keep = [row for row in ranked if result.standing(row) == "holds"]
    good = [label(row) for row in keep if _reads_well(result, row)]
    parts = [f"{together(good)} {'holds' if len(good) == 1 else 'hold'}"] if good else []
    unsure = [label(row) for row in ranked if result.standing(row) == "undecided"]
    parts += [f"{together(unsure)} {'is' if len(unsure) == 1 else 'are'} undecided"] if unsure else []
    start, name = result.lengths[0], "perplexity " if result.task.measure == "loss" else ""
    parts += [
        f"{label(row)} holds, but is worse at the trained length "
        f"({name}{measured(result, row.values[start])} at {start})"
        for row in keep
        if not _reads_well(result, row)
    ]
    judged = f" that converged ({len(ranked)} of {len(result.rows)})" if len(ranked) < len(result.rows) else ""
    return ", ".join(parts) or f"none{judged} holds"


def _reads_well(result: TaskResult, row: Row) -> bool:
    """Return whether a row is about as good as the best row at the trained length."""
    start = result.lengths[0]
    values = [other.values[start].mean for other in result.rows if other.ranked]
    value = row.values[start].mean
    if result.task.measure == "loss":
        return value <= min(values) + math.log1p(NEAR)
    return value >= max(values) * (1 - NEAR)


def _nearest(result: TaskResult) -> str:
    """Name the encodings with the best measure at the trained length, and state the gate: the measure at which the
    task counts as learned. For an accuracy, also state the chance level. See ``Criteria``."""
    start, task = result.lengths[0], result.task
    tried = [row for row in result.rows if start in row.values]
    if not tried:
        return "nothing was measured"
    best = min((row.values[start] for row in tried), key=lambda value: task.sign * value.mean)
    nearest = together([label(row) for row in tried if row.values[start].mean == best.mean])
    gate = perplexity(task.gate) if task.measure == "loss" else f"{task.gate:g}, chance {task.chance:.2f}"
    return f"nearest: {nearest} {measured(result, best)}, gate {gate}"


def sentence(result: TaskResult) -> str:
    """Summarise one task in one sentence."""
    return f"Trained at {result.lengths[0]} and tested at {result.longest}: {verdict(result)}."


def mixed(runs: Sequence[Run]) -> list[str]:
    """Return the differences in versions and hardware between these runs, such as ``torch 2.12.1 (3 runs) and
    2.13.0 (9 runs)``. There is one string for each package whose version differs, and one if the hardware differs.
    """
    machines = [{**json.loads(run.versions or "{}"), "hardware": run.hardware} for run in runs]
    lines = []
    for name in dict.fromkeys(name for machine in machines for name in machine):
        counts = Counter(machine.get(name, "unknown") for machine in machines)
        values = [f"{value} ({count} run{'s' * (count > 1)})" for value, count in counts.items()]
        lines += [f"{name} {together(values)}"] if len(values) > 1 else []
    return lines


def together(names: Sequence[str]) -> str:
    """Join names as in ``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
