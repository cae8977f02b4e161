"""The effective length: how far a method reads about as well as the model does at its trained length.

By loss: within ``MARGIN`` nats a token of the unscaled model's own. By retrieval: at least ``THRESHOLD`` of the
answers right. Both at that length and at every shorter one that was read.
"""

from posenc.workbench.extend.curves import Extension, MethodLosses
from posenc.workbench.extend.retrieval import Retrieval
from posenc.workbench.extend.verdict import MARGIN, paired
from posenc.workbench.study.effective_length import EffectiveLength, longest_within
from posenc.workbench.study.statistics import over_answers

THRESHOLD = 0.85
"""Of answers. RULER (Hsieh et al. 2024, section 4) takes 85.6 %, for thirteen tasks of its own."""


def by_loss(extension: Extension, curve: MethodLosses) -> EffectiveLength:
    """Of one method: loss minus the unscaled model's own, document by document.

    Past the trained length its own is that of the last bucket within it; before, that of the same bucket.
    """
    ours, plain, inside = curve.losses, extension.plain.losses, extension.inside
    excess = [paired(ours[:, i].tolist(), plain[:, min(i, inside - 1)].tolist()) for i in range(ours.shape[1])]
    ends = [extension.width * (i + 1) for i in range(len(excess))]
    return longest_within(ends, excess, MARGIN, len(ours))


def by_retrieval(asked: Retrieval) -> list[EffectiveLength]:
    """Of every method: the share of answers that are wrong, by Wilson's interval."""
    missed = [[over_answers((1.0 - cell.double()).flatten().tolist()) for cell in cells] for cells in asked.correct]
    answers = asked.correct[0, 0].numel()
    return [longest_within(asked.lengths, shares, 1 - THRESHOLD, answers) for shares in missed]
