"""The view of attention maps of a small random layer, with and without positional encoding."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

import posenc
from posenc.encodings.catalogue import ModelShape, canonical_text
from posenc.pictures.palette import style
from posenc.pictures.view import Heatmap, View, labelled
from posenc.teaching.views.bounds import Seed, bounded, within
from posenc.teaching.views.layer import python, visible

WIDTH, MAX_WORDS = 32, 24
SHAPE = ModelShape(width=WIDTH, heads=1, head_dim=WIDTH, num_positions=MAX_WORDS)

PYTHON = """\
import torch, posenc

tokens = {tokens}
seed, names = torch.Generator().manual_seed({seed}), sorted(set(tokens))
vectors = torch.randn(len(names), {width}, generator=seed, dtype=torch.float64)
w_q, w_k = torch.randn(2, {width}, {width}, generator=seed, dtype=torch.float64) / {width}**0.5
torch.manual_seed({seed})
encoding = {encoding}
at = posenc.positions.on_axes(posenc.positions.arange(len(tokens)), encoding.axes)
placed = encoding.at(at, dtype=torch.float64)
x = placed.embed(vectors[[names.index(token) for token in tokens]][None])
here, _ = placed[0].with_content(x)
q, k = here.rotate((x @ w_q)[:, None], (x @ w_k)[:, None])
print(posenc.scores(q, k, here, causal={causal})[0, 0].softmax(-1))"""


@bounded
def maps(
    words: str = "dog bites man bites dog", encoding: str = "rotary", causal: bool = False, seed: Seed = 0
) -> View:
    """Show the words to which each word attends in one head of a random layer, without and with the encoding.

    Repeated words have the same vector, so without positional encoding or a mask their rows are equal. ALiBi has
    slope 1/2, as in the first of 8 heads; its slope for a single head, 1/256, would hardly change the weights.
    """
    tokens, encoding = words.split(), canonical_text(encoding)
    within("number of words", len(tokens), 1, MAX_WORDS)
    drawn = "alibi(max_exponent=1)" if encoding == "alibi" else encoding
    without, with_positions = (weights(tokens, name, causal, seed) for name in ("nope", drawn))
    axis, rows = labelled("key", tokens), labelled("query", tokens)
    limit = float(max(without.nan_to_num().max(), with_positions.nan_to_num().max()))
    moved = float((without - with_positions).nan_to_num().abs().max())
    return View(
        f"{style(encoding).label} changes "
        + (
            f"what words attend to: weights differ by up to {moved:.2f}"
            if moved >= 5e-3
            else "no weight by 0.005 or more"
        ),
        (
            Heatmap("without positions", without, rows, axis, "magnitude", limit=limit),
            Heatmap(f"with {style(encoding).label}", with_positions, rows, axis, "magnitude", limit=limit),
        ),
        {"largest change of a weight": moved},
        PYTHON.format(
            tokens=tokens, width=WIDTH, seed=seed, causal=causal, encoding=python(drawn, SHAPE, math.sqrt(0.5))
        ),
    )


@torch.no_grad()
def weights(tokens: list[str], name: str, causal: bool, seed: int) -> Float[Tensor, "T T"]:
    """Return the attention weights of one random head in float64; the weights of masked keys are NaN. The
    encoding's learned values are about as large as those of a sinusoidal table.
    """
    encoding = visible(name, SHAPE, math.sqrt(0.5), seed)
    generator = torch.Generator().manual_seed(seed)
    vocabulary = sorted(set(tokens))
    vectors = torch.randn(len(vocabulary), WIDTH, generator=generator, dtype=torch.float64)
    w_q, w_k = torch.randn(2, WIDTH, WIDTH, generator=generator, dtype=torch.float64) / math.sqrt(WIDTH)
    placed = encoding.at(
        posenc.positions.on_axes(posenc.positions.arange(len(tokens)), encoding.axes), dtype=torch.float64
    )
    x = placed.embed(vectors[[vocabulary.index(t) for t in tokens]][None])
    here, _ = placed[0].with_content(x)
    q, k = here.rotate((x @ w_q)[:, None], (x @ w_k)[:, None])
    weights = posenc.scores(q, k, here, causal=causal)[0, 0].softmax(-1)
    return weights.masked_fill(torch.full_like(weights, causal).triu(1).bool(), math.nan)
