"""The table of released models: facts from configs, and the wavelengths and slopes that follow from them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from posenc.encodings.alibi import slopes
from posenc.encodings.catalogue import canonical_text
from posenc.errors import InvalidArgument, UnknownName
from posenc.scaling import Default

COLUMNS = (
    *("model", "width / heads", "encoding", "base", "length"),
    *("longest wavelength", "pairs without a full turn", "slopes", "source"),
)
KINDS = ("sinusoidal", "learned", "rotary", "alibi")


@dataclass(frozen=True)
class Model:
    """The facts about a released model.

    Args:
        name: the name under which it is known.
        width, heads: the channels of the embeddings, and the number of query heads.
        encoding: its positional encoding.
        source: where the facts are stated.
        base: the base of sinusoidal or rotary frequencies.
        rotary_dim: channels of a head that rotate; by default all.
        trained: the trained length before scaling; by default ``length``.
        length: the longest context it is released for; 0 if none is stated.
        max_exponent: the largest exponent of ALiBi's slopes.
    """

    name: str
    width: int
    heads: int
    encoding: str
    source: str
    base: float = 10_000.0
    rotary_dim: int = 0
    trained: int = 0
    length: int = 0
    max_exponent: float = 8.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "encoding", canonical_text(self.encoding))
        if self.encoding not in KINDS:
            raise UnknownName("encoding", self.encoding, KINDS)
        if self.width % self.heads:
            raise InvalidArgument(f"{self.name}: width={self.width} must be a multiple of heads={self.heads}")

    @property
    def channels(self) -> int:
        """The number of channels with frequencies: the width for sinusoids, the rotated head channels for RoPE."""
        return self.width if self.encoding == "sinusoidal" else self.rotary_dim or self.width // self.heads

    @property
    def wavelengths(self) -> list[float]:
        """The wavelengths λ_i in positions, from the trained frequencies; empty if there are no frequencies."""
        if self.encoding not in ("sinusoidal", "rotary"):
            return []
        return [2 * math.pi / float(f) for f in Default().frequencies(self.channels, self.base).exact]

    @property
    def incomplete(self) -> int:
        """The number of pairs that do not complete a turn within the trained length."""
        return sum(wavelength > (self.trained or self.length) for wavelength in self.wavelengths)


def table(models: Sequence[Model]) -> str:
    """Return the table in Markdown."""
    head = f"| {' | '.join(COLUMNS)} |\n{'| --- ' * len(COLUMNS)}|\n"
    return head + "".join(f"| {' | '.join(_cells(m))} |\n" for m in models)


def _cells(m: Model) -> list[str]:
    waves = m.wavelengths
    length = "no cap" if m.length == 0 else _count(m.length)
    if m.trained:
        length += f", stretched from {_count(m.trained)}"
    known = waves and (m.trained or m.length)
    steep = slopes(m.heads, m.max_exponent) if m.encoding == "alibi" else []
    return [
        m.name,
        f"{_count(m.width)} / {m.heads}",
        m.encoding,
        _count(int(m.base)) if waves else "–",
        length,
        _count(round(waves[-1])) if waves else "–",
        f"{m.incomplete} of {len(waves)}" if known else "–",
        f"{max(steep):.3g} … {min(steep):.3g}" if steep else "–",
        m.source,
    ]


def _count(value: int) -> str:
    """Format an integer with narrow spaces between thousands."""
    return f"{value:,}".replace(",", "\u202f")
