"""Laws of the project's own plumbing: what no encoding of a user's breaks, held against the whole catalogue."""

from posenc.laws import Law
from support.plumbing import independence, layers, modes, scores, survival, texts, tracing

LAWS: tuple[Law, ...] = (
    *scores.LAWS,
    *layers.LAWS,
    *independence.LAWS,
    *modes.LAWS,
    *survival.LAWS,
    *tracing.LAWS,
    *texts.LAWS,
)
