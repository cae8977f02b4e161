"""The decision on an extension: to change nothing, to cut the context, or to change what gains more than either.

Every candidate is scored on the same targets, the last positions of the same documents, so differences are paired.
A change is chosen only if it is surely better than changing nothing, than cutting, and than what is chosen among
cheaper changes; on a tie the cheaper one wins. The comparisons of each change err with at most 5% divided by the
number of changes, since any may turn out to be the best by chance (Bonferroni).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from jaxtyping import Float
from torch import Tensor

from posenc.pictures.numbers import count
from posenc.workbench.extension.curves import Extension, MethodLosses
from posenc.workbench.extension.models import LanguageModel, StudyModel
from posenc.workbench.study.effective_length import FEW
from posenc.workbench.study.statistics import Interval, finite
from posenc.workbench.study.statistics import paired as over_pairs

SAME = 0.005
"""Nats below which a gain is none, however sure it is."""
MARGIN = 0.05
"""Nats below which a loss far out is as good as another."""
ERROR = 0.05
"""The probability that a change is chosen which gains nothing."""
CHANGES = ("nothing", "cut", "config", "code", "weights", "weights and config", "weights and code")
"""What a candidate has to change, cheapest first: nothing; how much of a text is read; keys of the config; the code
of the program, where no config can ask for it; the weights, by a fine-tune.
"""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to read a text of the whole length.

    Args:
        name: the method's; ``"cut"`` for the unscaled model on the last trained length alone.
        change: of ``CHANGES``.
        losses: by document, before each of the extension's ``lengths``; NaN where cutting was not measured.
        curve: losses at every position; None for cutting.
    """

    name: str
    label: str
    change: str
    losses: Float[Tensor, "documents lengths"]
    curve: MethodLosses | None = None

    def at(self, column: int) -> list[float]:
        """The losses before one of the lengths, by document; the last of them decides."""
        return self.losses[:, column].tolist()

    @property
    def finite(self) -> bool:
        return finite(self.at(-1)) and (self.curve is None or bool(self.curve.losses.isfinite().all()))

    @property
    def loss(self) -> float:
        """On the last positions, over documents; infinite if any loss is not finite."""
        return fmean(self.at(-1)) if self.finite else math.inf


@dataclass(frozen=True)
class Decision:
    """What to do, and what it was decided from.

    Args:
        extension: what was measured.
        candidates: lowest loss on the last positions first.
        chosen: one of them.
        open: those that may be better than it by more than ``MARGIN``, as far as the documents can tell.
        level: of the interval of each comparison.
    """

    extension: Extension
    candidates: tuple[Candidate, ...]
    chosen: Candidate
    open: tuple[Candidate, ...]
    level: float

    @property
    def nothing(self) -> Candidate:
        return next(c for c in self.candidates if c.change == "nothing")

    @property
    def cut(self) -> Candidate:
        return next(c for c in self.candidates if c.change == "cut")

    @property
    def decided(self) -> bool:
        """False if nothing is changed, or the context is cut, for want of documents alone."""
        return not self.open or self.chosen.change not in ("nothing", "cut")

    def gap(self, ours: Candidate, theirs: Candidate, column: int = -1) -> Interval:
        """Loss on the last positions, or before another of the lengths, minus that of another, paired."""
        return over_pairs(ours.at(column), theirs.at(column), self.level)

    def cost(self, candidate: Candidate) -> Interval:
        """Loss within the trained length minus that of the unchanged model, paired."""
        return paired(candidate.at(0), self.nothing.at(0))

    def standing(self, candidate: Candidate) -> str:
        """In a word or two, beside the chosen one by the interval of their difference."""
        if not candidate.finite:
            return "not finite"
        if candidate is self.chosen:
            return "use this" if self.decided else "undecided"
        gap = self.gap(candidate, self.chosen)
        if gap.low > -MARGIN and gap.high < MARGIN:
            return "as good"
        return "worse" if gap.low > 0 else "undecided"


def judge(extension: Extension) -> Decision:
    """Decide; see above.

    Among changes that are equally cheap the choice is the one with the lowest loss on the last positions, or, of
    those that are surely less than ``MARGIN`` worse, the one that costs short texts least. A loss that is not
    finite is beaten by any that is.
    """
    candidates = _candidates(extension)
    decision = Decision(extension, tuple(candidates), candidates[0], (), 1 - ERROR / (len(candidates) - 1))
    chosen = nothing = decision.nothing
    for change in CHANGES[1:]:
        rivals = (nothing, decision.cut, chosen)
        equal = (c for c in candidates if c.change == change)
        sure = [c for c in equal if all(_beats(decision, c, rival) for rival in rivals if rival is not c)]
        if sure:  # the first has the lowest loss
            as_good = (c for c in sure if c is sure[0] or decision.gap(c, sure[0]).high < MARGIN)
            chosen = min(as_good, key=lambda c: (round(max(0.0, decision.cost(c).mean) / SAME), c.loss))
    decision = replace(decision, chosen=chosen)
    return replace(decision, open=tuple(c for c in candidates if _is_open(decision, c)))


def _beats(decision: Decision, ours: Candidate, theirs: Candidate) -> bool:
    """Whether it is surely better, by enough to matter."""
    gap = decision.gap(ours, theirs)
    return ours.finite and (not theirs.finite or (gap.mean < -SAME and gap.high < 0))


def _is_open(decision: Decision, candidate: Candidate) -> bool:
    """Whether it may be better than the chosen one by more than ``MARGIN``: its mean is lower and the interval of
    the difference allows it, or documents are too few for an interval that decides anything.
    """
    chosen = decision.chosen
    if candidate is chosen or not candidate.finite or not chosen.finite:
        return False
    gap = decision.gap(candidate, chosen)
    return not gap.low > -MARGIN and (gap.mean < 0 or len(chosen.losses) < FEW)


def _candidates(extension: Extension) -> list[Candidate]:
    """All that was measured, lowest loss on the last positions first."""
    candidates = [
        Candidate(
            curve.method.name, curve.label, _change(extension, curve), extension.by_length(curve.losses), curve
        )
        for curve in extension.curves
    ]
    cut = extension.by_length(extension.plain.losses)
    cut[:, 1:] = math.nan
    cut[:, -1] = extension.window.mean(1)
    label = f"cut to the last {count(extension.original_length)} {extension.unit}s"
    return sorted([*candidates, Candidate("cut", label, "cut", cut)], key=lambda c: c.loss)


def _change(extension: Extension, curve: MethodLosses) -> str:
    """What it changes, of ``CHANGES``."""
    method, same = curve.method, curve.method.name == extension.plain.method.name
    what = "code" if method.remap or method.scaling is None else "config"
    if curve.tuned:
        return "weights" if same else f"weights and {what}"
    return "nothing" if same else what


def config_patch(model: LanguageModel, decision: Decision) -> dict[str, Any] | None:
    """The keys of a pretrained model's config.json that put a decision into effect up to its length, or None."""
    curve = decision.chosen.curve
    if isinstance(model, StudyModel) or curve is None or decision.chosen.change != "config":
        return None
    assert curve.method.scaling is not None
    return model.patch(curve.method.scaling, decision.extension.length)


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """The mean difference on the same documents, with an interval where they are enough for one."""
    difference = over_pairs(ours, theirs)
    return difference if len(ours) >= FEW else replace(difference, low=math.nan, high=math.nan)
