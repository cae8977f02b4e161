"""Real models: what their configs state, and what follows for wavelengths and slopes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from posenc.encodings.alibi import slopes
from posenc.encodings.catalogue import canonical_text
from posenc.errors import InvalidArgument, UnknownName
from posenc.scaling import Default

COLUMNS = (
    *("model", "width / heads", "encoding", "base", "length"),
    *("slowest wavelength", "pairs without a full turn", "slopes", "source"),
)
KINDS = ("sinusoidal", "learned", "rotary", "alibi")


@dataclass(frozen=True)
class Model:
    """The facts of a released model.

    Args:
        name: as it is known.
        width, heads: channels of the embeddings, and query heads.
        encoding: its kind.
        source: where the facts are stated.
        base: of sinusoidal and rotary frequencies.
        rotary_dim: channels of a head that rotate; all by default.
        trained: the length before its scaling stretched it; ``length`` by default.
        length: the longest context it is released for; 0 where none is stated.
        max_exponent: of ALiBi's slopes.
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
        """Channels with frequencies: the width where sines are added, the rotated ones of a head in RoPE."""
        return self.width if self.encoding == "sinusoidal" else self.rotary_dim or self.width // self.heads

    @property
    def wavelengths(self) -> list[float]:
        """λ_i in positions, of the frequencies it was trained with; empty where it has none."""
        if self.encoding not in ("sinusoidal", "rotary"):
            return []
        return [2 * math.pi / float(f) for f in Default().frequencies(self.channels, self.base).exact]

    @property
    def incomplete(self) -> int:
        """Pairs that complete no turn within the length before stretching."""
        return sum(wavelength > (self.trained or self.length) for wavelength in self.wavelengths)


def table(models: Sequence[Model]) -> str:
    """The table in Markdown."""
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
    """An integer with thin spaces between thousands."""
    return f"{value:,}".replace(",", "\u202f")
