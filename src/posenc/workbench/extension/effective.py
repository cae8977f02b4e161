"""The effective length: how far a method reads about as well as the model does at its trained length.

The loss is within ``MARGIN`` nats per token of the unscaled model's own, at that length and at every shorter one
that was read.
"""

from posenc.workbench.extension.curves import Extension, MethodLosses
from posenc.workbench.extension.decision import MARGIN, paired
from posenc.workbench.study.effective_length import EffectiveLength, longest_within


def by_loss(extension: Extension, curve: MethodLosses) -> EffectiveLength:
    """Of one method: loss minus the unscaled model's own, document by document.

    Past the trained length its own is that of the last bucket within it; before, that of the same bucket.
    """
    ours, plain, inside = curve.losses, extension.plain.losses, extension.inside
    excess = [paired(ours[:, i].tolist(), plain[:, min(i, inside - 1)].tolist()) for i in range(ours.shape[1])]
    ends = [extension.width * (i + 1) for i in range(len(excess))]
    return longest_within(ends, excess, MARGIN, len(ours))
