"""An extension: the losses of every candidate at every position, and the decision between them.

The candidates are changing nothing, cutting the context, and several changes. All are scored on the same targets,
the last positions of the same documents, so differences are paired. A change is chosen only if it is surely better
than changing nothing, than cutting, and than the choice among cheaper changes. A tuned method must also be surely
better than every tuned model that reads the cut text, since a fine-tune gains there too. On a tie, the cheaper one
wins. The comparisons of each change have an error rate of at most 5% divided by the number of changes, since any
change may look best by chance (Bonferroni).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from posenc.pictures.numbers import count
from posenc.workbench.extension.methods import Method
from posenc.workbench.extension.models import LanguageModel, StudyModel
from posenc.workbench.extension.scoring import Scoring
from posenc.workbench.study.statistics import FEW, EffectiveLength, Interval, longest_within
from posenc.workbench.study.statistics import paired as over_pairs
from posenc.workbench.tasks.text import Text

SAME = 0.005
"""Gains of less than this many nats do not count, however sure they are."""
MARGIN = 0.05
"""Losses on the last positions that differ by less than this many nats count as equally good."""
ERROR = 0.05
"""The probability of choosing a change that gains nothing."""
CHANGES = (
    *("nothing", "cut", "config", "code", "weights and cut", "weights"),
    *("weights and config and cut", "weights and config", "weights and code and cut", "weights and code"),
)
"""What a candidate changes, cheapest first: nothing; how much of a text is read; keys of the config; the program's
code, if no config can express the method; or the weights, by a fine-tune.
"""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to read a text of the whole length.

    Args:
        method: the method.
        losses: one row per document and one column per bucket of positions; NaN for positions that cutting drops.
        plan: the plan of the fine-tune, under which its weights are stored; None without one.
        tokens: the loss of each token, if these are stored.
        window: for a tuned model, its losses as in ``Extension.window``.
        cut: how much of the text it reads, in words; empty if it reads the whole text.
    """

    method: Method
    losses: Float[Tensor, "documents buckets"]
    plan: Scoring | None = None
    tokens: Float[Tensor, "documents T"] | None = None
    window: Float[Tensor, "documents far"] | None = None
    cut: str = ""

    @property
    def tuned(self) -> bool:
        return self.plan is not None

    @property
    def name(self) -> str:
        return "cut" if self.cut else self.method.name

    @property
    def label(self) -> str:
        tuned = f"{self.method.label}, tuned" + (" and cut" if self.cut else "")
        return tuned if self.tuned else self.cut or self.method.label


@dataclass(frozen=True, eq=False)
class Extension:
    """The measurements, and the decision that follows from them.

    Args:
        width: positions per bucket; bucket i has i·width … (i+1)·width − 1.
        curves: zero-shot candidates, then fine-tuned ones, in the order of the methods.
        window: the unchanged model's losses on the targets of the last ``far`` buckets, each read with only one
            trained length of context.
        identity: hash of the model's weights, or the id of the study's run.
        finetune: training steps of each fine-tune.
        hardware: hardware of the runs.
        seconds: computing time of the runs.
        exhausted: whether the text has no further document.
        positions: positions in fine-tunes, as in ``Request``.
        key: key tokens of LongPPL; None if LongPPL was not requested.
        evaluator: the model that picked them, as in ``longppl.Evaluator.as_json``.
    """

    model: str
    unit: str
    original_length: int
    length: int
    width: int
    curves: tuple[Candidate, ...]
    window: Float[Tensor, "documents far"]
    text: Text
    finetune: int = 0
    hardware: tuple[str, ...] = ()
    seconds: float = 0.0
    exhausted: bool = False
    identity: str = ""
    positions: str = "counted"
    key: Bool[Tensor, "documents T"] | None = None
    evaluator: dict[str, Any] = field(default_factory=dict)

    @property
    def tuning(self) -> str:
        """The fine-tune in words."""
        return f"{self.finetune} step{'s' if self.finetune > 1 else ''} of tuning" + (
            ", positions drawn by PoSE" if self.positions == "pose" else ""
        )

    @property
    def inside(self) -> int:
        """The number of buckets within the trained length."""
        return self.original_length // self.width

    @property
    def far(self) -> int:
        """The number of last buckets that judge a method: a trained length of them, or all past it if fewer."""
        return min(self.inside, self.length // self.width - self.inside)

    @property
    def lengths(self) -> list[int]:
        """The columns of every table: the trained length, each doubling of it, and the whole length."""
        start = self.inside * self.width
        return [*(start << i for i in range(64) if start << i < self.length), self.length]

    @cached_property
    def unchanged(self) -> Candidate:
        """The unchanged model, under the scaling of its config if there is one."""
        by_name = {curve.method.name: curve for curve in self.curves if not curve.tuned}
        return by_name.get("own") or by_name["none"]

    @cached_property
    def cuts(self) -> dict[Candidate, Candidate]:
        """The unchanged model and each tuned one, with the candidate that reads only the last trained length."""
        words = f"cut to the last {count(self.original_length)} {self.unit}s"
        windows = {self.unchanged: self.window} | {c: c.window for c in self.curves if c.window is not None}
        cuts = {}
        for curve, window in windows.items():
            dropped = torch.full_like(curve.losses[:, self.inside : -self.far], math.nan)
            losses = torch.cat((curve.losses[:, : self.inside], dropped, window), 1)
            cuts[curve] = replace(curve, losses=losses, tokens=None, cut=words)
        return cuts

    @property
    def cut(self) -> Candidate:
        """The unchanged model on the last trained length only."""
        return self.cuts[self.unchanged]

    @cached_property
    def by_length(self) -> dict[Candidate, list[list[float]]]:
        """For each candidate and each of ``lengths``, the loss of every document on the positions before it.

        A loss is the mean over a trained length of positions, or over ``far`` buckets before the whole length.
        """
        table = {}
        for candidate in (*self.curves, *self.cuts.values()):
            parts = [candidate.losses[:, : n // self.width][:, -self.inside :] for n in self.lengths[:-1]]
            table[candidate] = [part.mean(1).tolist() for part in (*parts, candidate.losses[:, -self.far :])]
        return table

    @cached_property
    def candidates(self) -> list[Candidate]:
        """All candidates, sorted by their loss on the last positions."""
        return sorted(self.by_length, key=self.loss)

    @cached_property
    def chosen(self) -> Candidate:
        """The candidate to use.

        Among equally cheap changes, those that are surely less than ``MARGIN`` worse than the lowest loss on the
        last positions are as good, and the one that costs short texts least is chosen. Any finite loss beats a loss
        that is not finite.
        """
        chosen = self.unchanged
        for change in CHANGES[1:]:
            equal = (c for c in self.candidates if self.change(c) == change)
            sure = [c for c in equal if all(self._beats(c, rival) for rival in (chosen, *self.rivals(c)))]
            if sure:  # the first has the lowest loss
                as_good = (c for c in sure if c is sure[0] or self.gap(c, sure[0]).high < MARGIN)
                chosen = min(as_good, key=lambda c: (round(max(0.0, self.cost(c).mean) / SAME), self.loss(c)))
        return chosen

    def rivals(self, candidate: Candidate) -> list[Candidate]:
        """What a candidate must beat to be chosen: changing nothing, cutting, and for a tuned model that reads the
        whole text, every tuned model that reads the cut one."""
        cuts = self.cuts.values() if candidate.tuned and not candidate.cut else (self.cut,)
        return [self.unchanged, *(cut for cut in cuts if cut is not candidate)]

    @cached_property
    def open(self) -> list[Candidate]:
        """The candidates that may be better than the chosen one by more than ``MARGIN``, cheapest first.

        The interval of the difference allows this, and their mean is lower or documents are too few to decide.
        """
        few, others = len(self.window) < FEW, [c for c in self.candidates if c is not self.chosen]
        gaps = {c: self.gap(c, self.chosen) for c in others if self.finite(c) and self.finite(self.chosen)}
        may = [c for c, gap in gaps.items() if not gap.low > -MARGIN and (gap.mean < 0 or few)]
        return sorted(may, key=lambda c: CHANGES.index(self.change(c)))

    @property
    def decided(self) -> bool:
        """Whether enough documents support the decision, and its loss is finite.

        A decision to change nothing or to cut may lack documents.
        """
        changed = not (self.chosen is self.unchanged or self.chosen.cut)
        return self.finite(self.chosen) and (changed or not self.open)

    def change(self, candidate: Candidate) -> str:
        """What a candidate changes, as a word in ``CHANGES``."""
        method, same = candidate.method, candidate.method.name == self.unchanged.method.name
        what = "code" if method.remap or method.scaling is None else "config"
        parts = ["weights"] * candidate.tuned + [what] * (not same) + ["cut"] * bool(candidate.cut)
        return " and ".join(parts) or "nothing"

    def finite(self, candidate: Candidate) -> bool:
        """Whether all losses of a candidate are finite."""
        read = candidate.losses[:, -self.far :] if candidate.cut else candidate.losses
        return bool(read.isfinite().all())

    def loss(self, candidate: Candidate) -> float:
        """The mean loss on the last positions over documents; infinite if any loss is not finite."""
        return fmean(self.by_length[candidate][-1]) if self.finite(candidate) else math.inf

    def gap(self, ours: Candidate, theirs: Candidate, column: int = -1) -> Interval:
        """The paired difference of two candidates' losses on the last positions, or before another length."""
        level = 1 - ERROR / (len(self.by_length) - 1)
        return over_pairs(self.by_length[ours][column], self.by_length[theirs][column], level)

    def cost(self, candidate: Candidate) -> Interval:
        """The loss within the trained length minus the unchanged model's, paired."""
        return paired(self.by_length[candidate][0], self.by_length[self.unchanged][0])

    def standing(self, candidate: Candidate) -> str:
        """How a candidate compares to the chosen one, in a word or two, by the interval of their difference."""
        if not self.finite(candidate):
            return "not finite"
        if candidate is self.chosen:
            return "use this" if self.decided else "undecided"
        gap = self.gap(candidate, self.chosen)
        if gap.low > -MARGIN and gap.high < MARGIN:
            return "as good"
        return "worse" if gap.low > 0 else "undecided"

    def effective_length(self, candidate: Candidate) -> EffectiveLength:
        """The length up to which a method reads about as well as the unchanged model does at its trained length.

        Its loss is within ``MARGIN`` of the unchanged model's, paired by document, at this and all shorter lengths.
        Within the trained length, both losses are from the same bucket. Past it, the unchanged model's is from the
        last bucket within it.
        """
        ours, unchanged = candidate.losses.T.tolist(), self.unchanged.losses.T.tolist()
        excess = [paired(losses, unchanged[min(i, self.inside - 1)]) for i, losses in enumerate(ours)]
        ends = [self.width * (i + 1) for i in range(len(excess))]
        return longest_within(ends, excess, MARGIN, len(self.window))

    def _beats(self, ours: Candidate, theirs: Candidate) -> bool:
        """Whether ``ours`` is surely better, by more than ``SAME``."""
        gap = self.gap(ours, theirs)
        return self.finite(ours) and (not self.finite(theirs) or (gap.mean < -SAME and gap.high < 0))


def config_patch(model: LanguageModel, extension: Extension) -> dict[str, Any] | None:
    """The keys to set in a pretrained model's config.json to apply a decision up to its length, if there are
    any."""
    scaling = extension.chosen.method.scaling
    if isinstance(model, StudyModel) or extension.change(extension.chosen) != "config":
        return None
    assert scaling is not None
    return model.patch(scaling, extension.length)


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """The mean difference on the same documents, with an interval if there are enough documents."""
    difference = over_pairs(ours, theirs)
    return difference if len(ours) >= FEW else replace(difference, low=math.nan, high=math.nan)
