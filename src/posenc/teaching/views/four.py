"""Measures whether an encoding is unique, is bounded, is aware of distance, and extrapolates."""

from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

import posenc

WIDTH, HEADS, HEAD_DIM, WORDS = 256, 4, 64, 4
LENGTH, SIDE, LONGER, FAR = 512, 64, 8, 10**9
"""The trained length, the length of each axis of an image, the ratio of the longer row to the trained length, and
the farthest position."""
DISTINCT, GROWTH, TREND, UNSEEN = 1e-6, 2.0, -0.5, 0.25
"""The thresholds of the properties, which apply to the measurements in ``Four``."""
NAMES = ("unique", "bounded", "aware of distance", "extrapolates")


@dataclass(frozen=True)
class Four:
    """The measurements of one untrained encoding.

    A row contains the scores of the last token in a sequence that repeats one word, so that keys differ only by
    position. There are 4 heads of 64 channels and four random words, and q = k = the embedded word. The encoding
    is not trained, but built for sequences of 512 tokens; this is called its trained length.

    Args:
        closest: the smallest difference between two keys in a row of the trained length. The difference is the
            Euclidean distance between the keys' scores for all heads and words.
        growth: how much larger the effect of positions on scores becomes past the trained length. An effect is the
            largest difference from the scores without positional encoding. It is measured in a row 8 times as long
            and in a row whose last token is at position 10⁹. The larger of these two effects is divided by the
            effect in a row of the trained length. The ratio is ``inf`` if only the divisor is 0, and 1 if all
            effects are 0. For tables, lengths and positions end at the last entry.
        trend: Spearman's rank correlation of distance and the mean score; 0 if all mean scores are equal.
        unseen: the share of attention at untrained distances in a row 8 times as long; 1 if a table is too short.
    """

    name: str
    closest: float
    growth: float
    trend: float
    unseen: float

    @property
    def has(self) -> tuple[bool, bool, bool, bool]:
        """Whether the encoding has each of the four properties, in the order of ``NAMES``."""
        return (
            self.closest > DISTINCT,
            self.growth <= GROWTH,
            self.trend <= TREND,
            self.unseen <= UNSEEN,
        )


@cache
@torch.no_grad()
def four(name: str) -> Four:
    """Measure the four properties of an encoding in the catalogue, with 512 as its trained length."""
    encoding = _build(name)
    words = torch.randn(WORDS, 1, WIDTH, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    limit = encoding.position_limit
    trained, longer = (posenc.positions.arange(min(n, limit)) for n in (LENGTH, LONGER * LENGTH))
    row, long = (_row(encoding, words, at) for at in (trained, longer))
    plain = _row(posenc.NoPE(), words, torch.tensor([0]))
    far = _row(encoding, words, trained.index_fill(0, trained[-1:], min(FAR, limit - 1)))
    return Four(
        name,
        float(torch.pdist(row.flatten(0, 1).T).min()),
        _growth(*(float((x - plain).abs().max()) for x in (row, long, far))),
        spearman(row.mean((0, 1)).flip(-1)),
        float(long.softmax(-1)[..., :-LENGTH].sum(-1).mean()) if limit >= LONGER * LENGTH else 1.0,
    )


def _build(name: str) -> posenc.Encoding:
    """Build an untrained encoding with a fixed seed."""
    shape = {"width": WIDTH, "heads": HEADS, "head_dim": HEAD_DIM}
    with torch.random.fork_rng(devices=()):
        rows = LENGTH if posenc.encoding(name, **shape, num_positions=SIDE).axes == 1 else SIDE
        torch.manual_seed(0)
        return posenc.encoding(name, **shape, num_positions=rows).double()


def _row(encoding: posenc.Encoding, words: Tensor, places: Tensor) -> Tensor:
    """Return the scores ``(words, heads, keys)`` of the last token in sequences that repeat one word each."""
    at = posenc.positions.on_axes(places, encoding.axes)
    placed = encoding.at(at, dtype=words.dtype)
    embedded = placed.embed(words.expand(-1, len(places), -1))
    state = placed[0].with_content(embedded)[1]
    last = encoding.at(at[..., -1:], at, dtype=words.dtype)[0].with_content(embedded[:, -1:])[0].with_state(state)
    heads = embedded.unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)
    return posenc.scores(*last.rotate(heads[:, :, -1:], heads), last, causal=True)[:, :, 0]


def _growth(near: float, *far: float) -> float:
    """Return the largest effect of positions on scores past the trained length (one of ``far``), divided by the
    effect within the trained length (``near``). The ratio is 1 if all effects are 0.
    """
    noise = 1e-12
    if near > noise:
        return max(far) / near
    return torch.inf if max(far) > noise else 1.0


def spearman(values: Tensor) -> float:
    """Return the rank correlation of values with their index, or 0 if all are equal. Equal values share their mean
    rank.
    """
    low, high = (torch.searchsorted(values.sort().values, values, right=right) for right in (False, True))
    both = torch.stack(((low + high).double(), torch.arange(len(values), dtype=torch.float64)))
    return float(torch.corrcoef(both)[0, 1].nan_to_num())  # NaN if all values are equal
