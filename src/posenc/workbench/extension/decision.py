"""The result of an extension: the losses of every candidate at every position, and the decision.

The candidates are the unchanged model, the unchanged model on truncated text, and several changes to the model. All
candidates are scored on the same targets, which are the last positions of the same documents, so their differences
are paired. Changes are considered from the cheapest to the most expensive. A change is chosen only if it is
significantly better than three candidates: the unchanged model, the unchanged model on truncated text, and the
candidate chosen so far. A tuned method must also be significantly better than every tuned model on truncated text,
because a fine-tune improves those models too. On a tie, the cheaper change wins. The comparisons of each change
have an error rate of at most 5% divided by the number of changes, because any change may look best by chance
(Bonferroni).
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
from posenc.workbench.extension.scoring import Scoring
from posenc.workbench.run.plan import Run
from posenc.workbench.study.statistics import FEW, EffectiveLength, Interval, longest_within
from posenc.workbench.study.statistics import paired as over_pairs
from posenc.workbench.tasks.text import Text

SAME = 0.005
"""The smallest gain in nats that counts; a smaller gain is ignored even if it is certain."""
MARGIN = 0.05
"""The difference in nats below which two losses on the last positions count as equal."""
ERROR = 0.05
"""The largest probability of choosing a change that gains nothing."""
CHANGES = (
    *("nothing", "cut", "config", "code", "weights and cut", "weights"),
    *("weights and config and cut", "weights and config", "weights and code and cut", "weights and code"),
)
"""The things that a candidate may change, cheapest first. "cut" shortens the text, "config" sets keys of the
config, "code" changes the program because no config can express the method, and "weights" means a fine-tune.
"""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A method and its losses on full-length documents.

    Args:
        method: the method.
        losses: one row per document and one column per bucket of positions; NaN for positions that truncation
            drops.
        plan: the plan of the fine-tune; None without a fine-tune. The file of the tuned weights is named after the
            plan's id.
        tokens: the loss of each token; None if only the mean of each bucket is stored.
        window: for a tuned model, its losses as in ``Extension.window``.
        cut: a phrase for the part of the text that the candidate reads; empty for the whole text.
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
    """The losses of all candidates, and the decision that follows from these losses.

    Args:
        width: positions per bucket; bucket i has the positions i·width … (i+1)·width − 1.
        curves: zero-shot candidates, then fine-tuned ones, in the order of the methods.
        window: the unchanged model's losses in the last ``far`` buckets on truncated text. For each bucket, the
            model reads only the ``original_length`` tokens before the bucket's last target.
        identity: hash of the model's weights, or the id of the study's run.
        finetune: training steps of each fine-tune.
        runs: the runs that measured the losses.
        exhausted: whether the text is too short for another document.
        positions: the way positions are set in fine-tunes, as in ``Request``.
        key: key tokens of LongPPL; None if LongPPL was not requested.
        evaluator: the model that picked the key tokens, as in ``longppl.Evaluator.as_json``.
        held_out: whether the documents come from the validation part of ``text`` instead of the whole text.
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
    runs: tuple[Run, ...] = ()
    exhausted: bool = False
    identity: str = ""
    positions: str = "counted"
    key: Bool[Tensor, "documents T"] | None = None
    evaluator: dict[str, Any] = field(default_factory=dict)
    held_out: bool = False

    @property
    def tuning(self) -> str:
        """The number of fine-tuning steps and how positions are drawn, in words."""
        return f"{self.finetune} step{'s' if self.finetune > 1 else ''} of tuning" + (
            ", positions drawn by PoSE" if self.positions == "pose" else ""
        )

    @property
    def inside(self) -> int:
        """The number of buckets within the trained length."""
        return self.original_length // self.width

    @property
    def far(self) -> int:
        """The number of buckets, counted from the end of the text, in which candidates are compared. It is the
        number of buckets within the trained length or the number past the trained length, whichever is smaller."""
        return min(self.inside, self.length // self.width - self.inside)

    @property
    def lengths(self) -> list[int]:
        """The lengths that are the columns of every table: the trained length, each doubling of it, and the
        whole length.
        """
        start = self.inside * self.width
        return [*(start << i for i in range(64) if start << i < self.length), self.length]

    @cached_property
    def unchanged(self) -> Candidate:
        """The unchanged model as a candidate, with the scaling of its config if it has one."""
        by_name = {curve.method.name: curve for curve in self.curves if not curve.tuned}
        return by_name.get("own") or by_name["none"]

    @cached_property
    def cuts(self) -> dict[Candidate, Candidate]:
        """A mapping from the unchanged model and each tuned model to the same model on truncated text."""
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
        """The unchanged model on text that is truncated to its last ``original_length`` tokens."""
        return self.cuts[self.unchanged]

    @cached_property
    def by_length(self) -> dict[Candidate, list[list[float]]]:
        """For each candidate, one list per length in ``lengths``, with one loss per document.

        The losses at the whole length, in the last list, are means over the last ``far`` buckets. At every shorter
        length n, they are means over the last ``inside`` buckets up to n.
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
        """The candidate that is recommended.

        Among equally cheap changes, the best change is the one with the lowest loss on the last positions.
        Another change counts as equally good if the upper end of the paired interval for the difference of the
        two losses is below ``MARGIN``. Of the changes that count as equally good, the one that harms short texts
        least is chosen. Any finite loss is better than a loss that is not finite.
        """
        chosen = self.unchanged
        for change in CHANGES[1:]:
            equal = (c for c in self.candidates if self.change(c) == change)
            sure = [c for c in equal if all(self.beats(c, rival) for rival in (chosen, *self.rivals(c)))]
            if sure:  # the first has the lowest loss
                as_good = (c for c in sure if c is sure[0] or self.gap(c, sure[0]).high < MARGIN)
                chosen = min(as_good, key=lambda c: (round(max(0.0, self.cost(c).mean) / SAME), self.loss(c)))
        return chosen

    def rivals(self, candidate: Candidate) -> list[Candidate]:
        """Return the candidates to beat: the unchanged model, the unchanged model on truncated text, and, for a
        tuned model on the whole text, every tuned model on truncated text."""
        cuts = self.cuts.values() if candidate.tuned and not candidate.cut else (self.cut,)
        return [self.unchanged, *(cut for cut in cuts if cut is not candidate)]

    @cached_property
    def open(self) -> list[Candidate]:
        """The candidates that may be better than the chosen candidate by more than ``MARGIN``, cheapest first.

        The list has every candidate for which two conditions hold. Both concern the difference *candidate's loss
        minus chosen candidate's loss*. First, the lower end of the difference's interval is at most −``MARGIN``, or
        the interval is unknown. Second, the mean difference is negative; with fewer than ``FEW`` documents, this is
        not required.
        """
        few, others = len(self.window) < FEW, [c for c in self.candidates if c is not self.chosen]
        gaps = {c: self.gap(c, self.chosen) for c in others if self.finite(c) and self.finite(self.chosen)}
        may = [c for c, gap in gaps.items() if not gap.low > -MARGIN and (gap.mean < 0 or few)]
        return sorted(may, key=lambda c: CHANGES.index(self.change(c)))

    @property
    def decided(self) -> bool:
        """Whether the documents suffice for the decision, and the chosen candidate's loss is finite.

        If the chosen candidate is a change that reads the whole text, the documents suffice, because such a change
        is chosen only if it is significantly better. If the unchanged model or a candidate on truncated text is
        chosen, the documents suffice only if ``open`` is empty.
        """
        return self.finite(self.chosen) and (
            not self.open or not (self.chosen is self.unchanged or self.chosen.cut)
        )

    def change(self, candidate: Candidate) -> str:
        """Return the entry of ``CHANGES`` that describes a candidate."""
        method, same = candidate.method, candidate.method.name == self.unchanged.method.name
        what = "code" if method.remap or method.scaling is None else "config"
        parts = ["weights"] * candidate.tuned + [what] * (not same) + ["cut"] * bool(candidate.cut)
        return " and ".join(parts) or "nothing"

    def finite(self, candidate: Candidate) -> bool:
        """Return whether all losses of a candidate are finite."""
        read = candidate.losses[:, -self.far :] if candidate.cut else candidate.losses
        return bool(read.isfinite().all())

    def loss(self, candidate: Candidate) -> float:
        """Return the mean loss on the last positions over documents; infinity if any loss is not finite."""
        return fmean(self.by_length[candidate][-1]) if self.finite(candidate) else math.inf

    def gap(self, ours: Candidate, theirs: Candidate, column: int = -1) -> Interval:
        """Return the paired difference of two candidates' losses in a column of ``by_length``."""
        level = 1 - ERROR / (len(self.by_length) - 1)
        return over_pairs(self.by_length[ours][column], self.by_length[theirs][column], level)

    def cost(self, candidate: Candidate) -> Interval:
        """Return the paired difference from the unchanged model's loss within the trained length."""
        return paired(self.by_length[candidate][0], self.by_length[self.unchanged][0])

    def standing(self, candidate: Candidate) -> str:
        """Compare a candidate with the chosen candidate, and return the result in one or two words."""
        if not self.finite(candidate):
            return "not finite"
        if candidate is self.chosen:
            return "use this" if self.decided else "undecided"
        gap = self.gap(candidate, self.chosen)
        if gap.low > -MARGIN and gap.high < MARGIN:
            return "as good"
        return "worse" if gap.low > 0 else "undecided"

    def effective_length(self, candidate: Candidate) -> EffectiveLength:
        """Return the length up to which a candidate's loss is as low as the unchanged model's at its trained
        length.

        At this length and all shorter lengths, the candidate's loss is less than ``MARGIN`` above the unchanged
        model's loss, paired by document. Within the trained length, the losses of the same bucket are compared; a
        later bucket is compared with the unchanged model's loss in the last bucket of the trained length.
        """
        ours, unchanged = candidate.losses.T.tolist(), self.unchanged.losses.T.tolist()
        excess = [paired(losses, unchanged[min(i, self.inside - 1)]) for i, losses in enumerate(ours)]
        ends = [self.width * (i + 1) for i in range(len(excess))]
        return longest_within(ends, excess, MARGIN, len(self.window))

    def beats(self, ours: Candidate, theirs: Candidate) -> bool:
        """Return whether ``ours`` is significantly better than ``theirs``, and by more than ``SAME``."""
        gap = self.gap(ours, theirs)
        return self.finite(ours) and (not self.finite(theirs) or (gap.mean < -SAME and gap.high < 0))


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Interval:
    """Return the mean difference on the same documents, with an interval if there are enough documents."""
    difference = over_pairs(ours, theirs)
    return difference if len(ours) >= FEW else replace(difference, low=math.nan, high=math.nan)
