"""How far can content and position be taken apart once they are added?"""

import math
from functools import lru_cache
from typing import Annotated

import torch
from torch import Tensor

import posenc
from posenc.pictures.view import Axis, Heatmap, Line, Lines, View, counted
from posenc.teaching.views.bounds import Bounds, Seed, Width, bounded

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512)
PARTS = ("word", "position")

PYTHON = """\
import torch, posenc

generator = torch.Generator().manual_seed({seed})
content = torch.randn({words}, {width}, generator=generator, dtype=torch.float64)
code = posenc.Sinusoidal({width}).table(posenc.positions.arange({length}), torch.float64)
sums = content[:, None] + code
for book, true in ((content, torch.arange({words})[:, None]), (code, torch.arange({length}))):
    nearest = (sums @ book.T - book.square().sum(1) / 2).argmax(-1)
    print((nearest == true).double().mean())    # the share recovered: words, then positions"""


@bounded
def apart(
    width: Width = 64,
    words: Annotated[int, Bounds(2, 300)] = 200,
    length: Annotated[int, Bounds(2, 128)] = 64,
    seed: Seed = 0,
) -> View:
    """Shares of sums word + PE(p) from which a linear layer recovers the word, and the position, up to a width.

    Args:
        width: d, for the picture of overlaps and the numbers.
        words: random vectors N(0, 1), as large as embeddings are once they are multiplied by √d.
        length: positions 0 … length − 1.
        seed: of the words.
    """
    widths = [w for w in WIDTHS if w < width] + [width]
    shares = torch.tensor([recovered(w, words, length, seed) for w in widths], dtype=torch.float64).T
    content, code = codebooks(width, words, length, seed)
    few = content[:24]
    overlap = few @ code.T / (few.norm(dim=1)[:, None] * code.norm(dim=1))
    word, position = recovered(width, words, length, seed)
    return View(
        f"At width {width} a linear layer recovers {word:.0%} of the words and {position:.0%} of the positions",
        (
            Lines(
                "recovered from the sum",
                tuple(Line(name, share) for name, share in zip(PARTS, shares, strict=True)),
                Axis("width", tuple(float(w) for w in widths), "channels", log=True),
                "share right",
            ),
            Heatmap(
                f"overlap at width {width}",
                overlap,
                counted("word", len(few)),
                counted("position", length),
                "signed",
                "cosine",
                limit=1.0,
            ),
        ),
        {
            "words recovered": word,
            "positions recovered": position,
            "typical overlap (root mean square cosine)": float(overlap.square().mean().sqrt()),
            "1/√width": 1 / math.sqrt(width),
        },
        PYTHON.format(width=width, words=words, length=length, seed=seed),
    )


def codebooks(width: int, words: int, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Random words and the sinusoidal code, ``(words, width)`` and ``(length, width)`` in float64."""
    generator = torch.Generator().manual_seed(seed)
    content = torch.randn(words, width, generator=generator, dtype=torch.float64)
    return content, posenc.Sinusoidal(width).table(posenc.positions.arange(length), torch.float64)


@lru_cache(maxsize=64)
def recovered(width: int, words: int, length: int, seed: int) -> tuple[float, float]:
    """Which shares of all sums give the word and the position back, each read without knowing the other.

    The reading is what one linear layer can do: the largest of x·c − |c|²/2 over the vectors c of a codebook.
    """
    content, code = codebooks(width, words, length, seed)
    shares = []
    for book in (content, code):
        # Products are linear: each word's and each position's once, then their sums, a position at a time.
        once, shift = content @ book.T - book.square().sum(1) / 2, code @ book.T
        both = torch.empty_like(once)
        best = torch.stack([torch.add(once, row, out=both).amax(-1) for row in shift], dim=1)
        right = once.diagonal()[:, None] + shift.T if book is content else once + shift.diagonal()
        shares.append(float((right == best).double().mean()))
    return shares[0], shares[1]
