"""What an extension found: each method inside and beyond the trained length, and which one to use."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from posenc.workbench.experiments.extend import Curve, Extension
from posenc.workbench.experiments.statistics import Interval, over_blocks
from posenc.workbench.experiments.statistics import paired as over_pairs

SAME = 0.005
"""Nats below which a difference is not worth a sentence, however sure it is."""
ALONE = 0.05
"""Nats above which a difference is worth one where documents are too few for an interval."""
FEW = 3
"""Documents below which there is none: that of two reaches thirteen times as far as each lies from their mean."""


@dataclass(frozen=True)
class Line:
    """One method.

    Args:
        inside, beyond: mean losses within the trained length and past it.
        far: the mean loss of the last positions: a trained length of them, or all past it where they are fewer.
        cost: loss inside minus that of the unscaled model, paired; what a short text pays.
        to_best: far loss minus that of the best method, paired; None for the best.
        to_window: loss in the last bucket minus that of the trained length of context alone, paired.
    """

    curve: Curve
    inside: Interval
    beyond: Interval
    far: Interval
    cost: Interval
    to_best: Interval | None
    to_window: Interval

    @property
    def label(self) -> str:
        return self.curve.method.label + (", tuned" if self.curve.tuned else "")


@dataclass(frozen=True)
class Verdict:
    """All methods, best at the full length first, and the one to use."""

    lines: tuple[Line, ...]
    chosen: Line


def judge(found: Extension, *, tuned: bool = False) -> Verdict:
    """Judge the zero-shot curves, or the fine-tuned ones.

    The choice is the method with the lowest loss at the far end of the documents; among those whose paired
    difference to it is within its own interval or below ``SAME`` it is the one that costs short texts least.
    """
    curves = [c for c in found.curves if c.tuned == tuned]
    plain = next(c for c in found.curves if c.method.name == "none" and not c.tuned)
    best = min(curves, key=lambda c: float(c.losses[:, _far(found)].mean()))
    lines = sorted((_line(found, c, best, plain) for c in curves), key=lambda line: line.far.mean)
    as_good = [line for line in lines if line.to_best is None or not above(line.to_best)]
    chosen = min(as_good, key=lambda line: (round(max(line.cost.mean, 0) / SAME), line.far.mean))
    return Verdict(tuple(lines), chosen)


def above(difference: Interval) -> bool:
    """Whether a paired difference is above 0, surely and by enough to matter."""
    if math.isnan(difference.low):
        return difference.mean > ALONE
    return difference.mean > SAME and difference.low > 0


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """The mean difference on the same documents, with an interval where they are enough for one."""
    found = over_pairs(ours, theirs)
    return found if len(ours) >= FEW else replace(found, low=math.nan, high=math.nan)


def _far(found: Extension) -> slice:
    return slice(-found.far, None)


def _line(found: Extension, curve: Curve, best: Curve, plain: Curve) -> Line:
    inside, beyond, far = slice(0, found.inside), slice(found.inside, None), _far(found)

    def mean(of: Curve, part: slice) -> list[float]:
        values: list[float] = of.losses[:, part].mean(1).tolist()
        return values

    last = curve.losses[:, -1].tolist()
    return Line(
        curve,
        over_blocks(mean(curve, inside)),
        over_blocks(mean(curve, beyond)),
        over_blocks(mean(curve, far)),
        paired(mean(curve, inside), mean(plain, inside)),
        None if curve is best else paired(mean(curve, far), mean(best, far)),
        paired(last, found.window.tolist()),
    )
