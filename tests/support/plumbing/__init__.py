"""Laws of the library's internals for all encodings of the catalogue, which no user's encoding can break."""

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
