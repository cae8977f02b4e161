"""The view that shows how well content and position can be separated once they have been added."""

from functools import lru_cache
from typing import Annotated

import torch
from torch import Tensor

import posenc
from posenc.pictures.view import Axis, Heatmap, Line, Lines, View, counted, labelled
from posenc.teaching.views.bounds import Bounds, Position, Seed, Width, bounded

WIDTHS = (4, 8, 16, 32, 64, 128, 256, 512)
CAT = (0.32, -0.71, 0.55, 0.18)
"""The word vector of the lessons."""

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
    position: Position = 0,
) -> View:
    """Show how often a linear layer recovers the word and the position from their sum, word + PE(p), by width.

    Args:
        width: the largest width for which the recovered shares are shown.
        words: the number of word vectors, drawn from N(0, 1), the scale of embeddings after multiplication by √d.
        length: the number of positions, 0 … length − 1.
        seed: the seed of the words.
        position: the position of the example word “cat”; its vector, PE(position) and their sum are shown in 4
            channels.
    """
    widths = [w for w in WIDTHS if w < width] + [width]
    shares = torch.tensor([recovered(w, words, length, seed) for w in widths], dtype=torch.float64).T
    encoding, at, cat = posenc.Sinusoidal(len(CAT)), torch.tensor([position]), torch.tensor([CAT])
    added = torch.cat((cat, encoding.table(at), encoding.at(at).embed(cat[None])[0]))
    word, place = recovered(width, words, length, seed)
    return View(
        f"At width {width} a linear layer recovers {word:.0%} of {words} words "
        f"and {place:.0%} of {length} positions",
        (
            Heatmap(
                "an example in 4 channels",
                added,
                labelled("vector", ("cat", f"PE({position})", "sum")),
                counted("dimension", len(CAT)),
                "signed",
            ),
            Lines(
                "recovered from the sum",
                tuple(Line(name, share) for name, share in zip(("word", "position"), shares, strict=True)),
                Axis("width", tuple(float(w) for w in widths), "channels", log=True),
                "share right",
            ),
        ),
        {
            "words recovered": word,
            "positions recovered": place,
            "words by chance": f"1 in {words}",
            "positions by chance": f"1 in {length}",
        },
        PYTHON.format(width=width, words=words, length=length, seed=seed),
    )


def codebooks(width: int, words: int, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return random word vectors ``(words, width)`` and the sinusoidal encoding ``(length, width)`` in float64."""
    content = torch.randn(words, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return content, posenc.Sinusoidal(width).table(posenc.positions.arange(length), torch.float64)


@lru_cache(maxsize=64)
def recovered(width: int, words: int, length: int, seed: int) -> tuple[float, float]:
    """Return the shares of the sums word + PE(p) from which a linear layer recovers the word and the position.

    For a sum x, a linear layer picks the vector c of a codebook for which x·c − |c|²/2 is largest.
    """
    content, code = codebooks(width, words, length, seed)
    shares = []
    for book in (content, code):
        # Products are linear: compute those of words and positions once, then add them for one position at a time.
        once, shift = content @ book.T - book.square().sum(1) / 2, code @ book.T
        both = torch.empty_like(once)
        best = torch.stack([torch.add(once, row, out=both).amax(-1) for row in shift], dim=1)
        right = once.diagonal()[:, None] + shift.T if book is content else once + shift.diagonal()
        shares.append(float((right == best).double().mean()))
    return shares[0], shares[1]
