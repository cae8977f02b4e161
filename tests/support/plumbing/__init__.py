"""Laws of the library's internals, which no user's encoding can break, for the whole catalogue."""

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
