"""The verdict on an extension: each method inside and beyond the trained length, and the one to use.

A verdict errs with at most 5%, of which every method gets an equal share, since any may turn out to be the best
(Bonferroni).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from posenc.workbench.extend.curves import Extension, MethodLosses
from posenc.workbench.study.effective_length import FEW
from posenc.workbench.study.statistics import Interval, over_blocks
from posenc.workbench.study.statistics import paired as over_pairs

SAME = 0.005
"""Nats below which a difference is not worth a sentence, however sure it is."""
MARGIN = 0.05
"""Nats below which a loss far out is as good as the best. Where documents are too few for an interval, only a
difference above it is worth a sentence."""
ERROR = 0.05
"""The probability that a method's standing is wrong."""


@dataclass(frozen=True)
class MethodScore:
    """One method.

    Args:
        inside, beyond: mean losses within the trained length and past it.
        far: the mean loss of the last positions: a trained length of them, or all past it where they are fewer.
        cost: loss inside minus that of the unscaled model, paired; what a short text pays.
        to_best: far loss minus that of the best method, paired; None for the best.
        to_window: loss in the last bucket minus that of the trained length of context alone, paired.
    """

    curve: MethodLosses
    inside: Interval
    beyond: Interval
    far: Interval
    cost: Interval
    to_best: Interval | None
    to_window: Interval

    @property
    def standing(self) -> str:
        """At the far end, beside the best, by the interval of their difference: "as good" where all of it is below
        ``MARGIN``.
        """
        if self.to_best is None:
            return "best"
        if not self.curve.losses.isfinite().all():
            return "not finite"
        if self.to_best.high < MARGIN:
            return "as good"
        # One document has no interval, NaN, and decides nothing.
        return "worse" if self.to_best.mean > SAME and self.to_best.low > 0 else "undecided"


@dataclass(frozen=True)
class Verdict:
    """All methods, best at the full length first, and the one to use.

    Args:
        undecided: methods that cost short texts less than the one to use, and that the documents show neither to be
            as good at the far end nor to be worse.
    """

    scores: tuple[MethodScore, ...]
    chosen: MethodScore
    undecided: tuple[MethodScore, ...] = ()


def judge(extension: Extension, *, tuned: bool = False) -> Verdict:
    """Judge the zero-shot curves, or the fine-tuned ones.

    The choice is the method with the lowest loss at the far end of the documents; among those that are surely less
    than ``MARGIN`` worse, by the upper end of their paired difference's interval, it is the one that costs short
    texts least. Where documents are too few for an interval, none is. A loss that is not finite comes last.
    """
    curves = [c for c in extension.curves if c.tuned == tuned]
    curves.sort(key=lambda c: (not c.losses.isfinite().all(), float(c.losses[:, _far(extension)].mean())))
    level = 1 - 2 * ERROR / len(curves)
    scores = [_score(extension, c, curves[0], level) for c in curves]
    as_good = [score for score in scores if score.standing in ("best", "as good")]
    chosen = min(as_good, key=_pays)
    unsure = (score for score in scores if score.standing == "undecided" and _pays(score) < _pays(chosen))
    return Verdict(tuple(scores), chosen, tuple(unsure))


def above(difference: Interval) -> bool:
    """Whether a paired difference is above 0, surely and by enough to matter."""
    if math.isnan(difference.low):
        return difference.mean > MARGIN
    return difference.mean > SAME and difference.low > 0


def _pays(score: MethodScore) -> tuple[bool, int]:
    """What short texts pay, in steps of ``SAME``, least first; one that cannot be read pays most."""
    return not score.curve.losses.isfinite().all(), round(max(0.0, score.cost.mean) / SAME)


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """The mean difference on the same documents, with an interval where they are enough for one."""
    difference = over_pairs(ours, theirs)
    return difference if len(ours) >= FEW else replace(difference, low=math.nan, high=math.nan)


def _far(extension: Extension) -> slice:
    return slice(-extension.far, None)


def _score(extension: Extension, curve: MethodLosses, best: MethodLosses, level: float) -> MethodScore:
    inside, beyond, far = slice(0, extension.inside), slice(extension.inside, None), _far(extension)

    def mean(of: MethodLosses, part: slice) -> list[float]:
        values: list[float] = of.losses[:, part].mean(1).tolist()
        return values

    last = curve.losses[:, -1].tolist()
    return MethodScore(
        curve,
        over_blocks(mean(curve, inside)),
        over_blocks(mean(curve, beyond)),
        over_blocks(mean(curve, far)),
        paired(mean(curve, inside), mean(extension.plain, inside)),
        None if curve is best else over_pairs(mean(curve, far), mean(best, far), level),
        paired(last, extension.window.tolist()),
    )
