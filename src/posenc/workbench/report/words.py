"""How numbers are written in tables and pages: perplexities, shares, lengths, intervals."""

import math

from posenc.pictures.numbers import fixed, signed
from posenc.pictures.palette import style
from posenc.workbench.study.results import Row, TaskResult
from posenc.workbench.study.statistics import Interval
from posenc.workbench.study.statistics import perplexity as exp

NOTHING = "–"


def label(row: Row) -> str:
    """The name of an encoding in every table and figure of a study."""
    return style(row.encoding).label


def measured(result: TaskResult, interval: Interval | None) -> str:
    """A loss as a perplexity, an accuracy as it is; a dash where there is none."""
    if interval is None:
        return NOTHING
    return perplexity(interval.mean) if result.task.measure == "loss" else f"{interval.mean:.3f}"


def perplexity(loss: float) -> str:
    """exp of a loss in nats, to three digits."""
    value = exp(loss)
    return fixed(value, 2 if value < 100 else 0)


def spread(result: TaskResult, interval: Interval | None) -> str:
    """The 95% interval in the measure's own unit, or nothing where one number has none."""
    if interval is None or math.isnan(interval.low):
        return ""
    if result.task.measure == "loss":
        return f"{perplexity(interval.low)}–{perplexity(interval.high)}"
    return f"{interval.low:.3f}–{interval.high:.3f}"


def difference(row: Row) -> tuple[str, str]:
    """The paired difference to the best row at the longest length (nats or share), and its interval."""
    gap = row.to_best
    if gap is None:
        return NOTHING, ""
    return signed(gap.mean), "" if math.isnan(gap.low) else f"{signed(gap.low)} to {signed(gap.high)}"


def seconds(value: float) -> str:
    """A duration for people."""
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def unit(result: TaskResult) -> str:
    """The measure and unit of the table's numbers."""
    if result.task.measure == "loss":
        return f"perplexity per {result.unit}, lower is better"
    return "share of right answers, higher is better"
