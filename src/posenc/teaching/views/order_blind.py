"""Views that show whether attention knows order: its outputs for a sentence and for the rearranged words."""

import math
from functools import reduce

import torch
from jaxtyping import Float
from torch import Tensor

import posenc
from posenc.encodings.catalogue import ModelShape, canonical_text
from posenc.errors import InvalidArgument
from posenc.pictures.view import Heatmap, View, counted, labelled
from posenc.teaching.views.bounds import within
from posenc.teaching.views.layer import python, visible

WIDTH, HEADS = 8, 2
HEAD_DIM = WIDTH // HEADS
SHAPE = ModelShape(width=WIDTH, heads=HEADS, head_dim=HEAD_DIM, num_positions=16)

PYTHON = """\
import torch, posenc

words, order = {words}, {order}
torch.manual_seed(1)
encoding = {encoding}
w = (torch.arange(121, 313).double() ** 2).sin().view(3, 8, 8).float() / 2

def vector(word):
    code = 0
    for letter in word:
        code = (31 * code + ord(letter)) % 65521
    return (2**0.5 * (code * torch.arange(1, 9).double() ** 2).sin()).float()

def attend(words):
    placed = encoding.at(posenc.positions.on_axes(posenc.positions.arange(len(words)), encoding.axes))
    x = placed.embed(torch.stack([vector(word) for word in words])[None])
    q, k, v = ((x @ part).unflatten(-1, (2, 4)).transpose(1, 2) for part in w)
    here, _ = placed[0].with_content(x)
    y = posenc.attention(*here.rotate(q, k), v, here, causal={causal})
    return y.transpose(1, 2).flatten(-2)[0].detach()

print((attend([words[i] for i in order]) - attend(words)[order]).abs().max())"""

CAT_SAT = {"cat": [0.80, 0.30, 0.50, 0.20], "sat": [0.10, 0.60, 0.90, 0.40]}
"""The word vectors of the lessons."""

CAT_SAT_PYTHON = """\
import torch, posenc

cat, sat = [0.80, 0.30, 0.50, 0.20], [0.10, 0.60, 0.90, 0.40]
x = torch.tensor([{rows}])[None, None]            # (B, H, T, D)
print((x @ x.mT / 2).softmax(-1))                # scale 1/√4
placed = posenc.NoPE().at(posenc.positions.arange(2))
print(posenc.attention(x, x, x, placed))         # Q = K = V = X, scale 1/√4"""


def word_vectors(words: list[str]) -> Float[Tensor, "T C"]:
    """Return a pseudorandom vector per word: √2·sin(c·n²) for n = 1 … 8, where c is the word's hash.

    In the lab's pages, ``static/own_words.js`` computes the same vectors.
    """
    hashes = [reduce(lambda code, letter: (31 * code + ord(letter)) % 65_521, word, 0) for word in words]
    squares = torch.arange(1, WIDTH + 1, dtype=torch.float64) ** 2
    return (torch.tensor(hashes)[:, None] * squares).sin().mul(math.sqrt(2)).float()


@torch.no_grad()
def attend(words: list[str], name: str, *, causal: bool) -> Float[Tensor, "T C"]:
    """Compute one attention layer over words at positions 0, 1, 2 …, with weights sin(n²)/2 for n = 121 … 312.
    Learned values of the encoding are about as large as after training.
    """
    encoding = visible(name, SHAPE, 0.5, seed=1)
    weights = (torch.arange(121, 121 + 3 * WIDTH**2).double() ** 2).sin().view(3, WIDTH, WIDTH).float() / 2
    placed = encoding.at(posenc.positions.on_axes(posenc.positions.arange(len(words)), encoding.axes))
    x = placed.embed(word_vectors(words)[None])
    q, k, v = ((x @ w).unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2) for w in weights)
    here, _ = placed[0].with_content(x)
    return posenc.attention(*here.rotate(q, k), v, here, causal=causal).transpose(1, 2).flatten(-2)[0]


def shuffle(
    sentence: str = "dog bites man",
    order: tuple[int, ...] = (2, 1, 0),
    encoding: str = "nope",
    causal: bool = False,
    remove: bool = False,
) -> View:
    """Show attention over a sentence and over its words in another order.

    Args:
        sentence: words separated by spaces; equal words have the same vector.
        order: a permutation; position t of the new sentence holds word ``order[t]``.
        encoding: a string, such as a name in the catalogue; "nope" means no positional encoding.
        causal: whether a word attends only to itself and the words before it.
        remove: whether to leave out the encoding, as if it were "nope".

    Without positional encoding or a mask, f(PX) = P f(X), and the largest difference is float32 rounding, about
    1e-7. An encoding or a causal mask makes the difference large.
    """
    words = sentence.split()
    within("number of words", len(words), 2, 8)
    if sorted(order) != list(range(len(words))):
        raise InvalidArgument(
            f"order={'-'.join(map(str, order))} is not an arrangement of {len(words)} words; use each number "
            f"from 0 to {len(words) - 1} once"
        )
    encoding = "nope" if remove else canonical_text(encoding)
    moved = [words[i] for i in order]
    y, shuffled = (attend(tokens, encoding, causal=causal) for tokens in (words, moved))
    differences = (shuffled - y[list(order)]).abs()
    changed = int((differences >= FOLLOWS).sum())
    panels = [_outputs("in this order", y, words), _outputs("rearranged", shuffled, moved)]
    title, status = "Nothing changes: each output moves with its word", "the same vectors, moved"
    if list(order) == sorted(order):
        panels, title, status = panels[:1], "One output vector for each word", "nothing moved"
    elif changed:
        title, status = f"Order counts: {changed} of {y.numel()} output values change", "changed"
    return View(
        title=title,
        panels=tuple(panels),
        readouts={
            "output values changed": f"{changed} of {y.numel()}",
            "largest difference": float(differences.max()),
            "status": status,
        },
        python=PYTHON.format(words=words, order=list(order), encoding=python(encoding, SHAPE, 0.5), causal=causal),
    )


FOLLOWS = 1e-5
"""The smallest change of an output that counts; rounding errors are far smaller."""


def _outputs(name: str, y: Tensor, words: list[str]) -> Heatmap:
    return Heatmap(name, y, labelled("word", words), counted("channel", y.shape[1]), "signed")


def mean_of(v: Tensor, x: Tensor) -> Tensor:
    """Compute attention over the values v with q = k = x, one head and no positional encoding."""
    placed = posenc.NoPE().at(posenc.positions.arange(len(x)))
    return posenc.attention(x[None, None], x[None, None], v[None, None], placed)[0, 0]


def cat_sat(swap: bool = False) -> View:
    """Show the weights and the outputs of attention over the lessons' two words; ``swap`` exchanges the words.

    With Q = K = V = X, scale 1/√4 and no positional encoding, swapping the words swaps the outputs and changes no
    number.
    """
    names = ["sat", "cat"] if swap else ["cat", "sat"]
    x = torch.tensor([CAT_SAT[name] for name in names])
    # Attention over the identity as values returns the weights themselves.
    y, weights = mean_of(x, x), mean_of(torch.eye(2), x)
    words, channel = labelled("word", names), counted("channel", 4)
    return View(
        "Swapped words, swapped outputs, the same numbers"
        if swap
        else "Each output is a weighted mean of both words",
        (
            Heatmap("x: a vector for each word", x, words, channel, "signed"),
            Heatmap("weights: softmax(x xᵀ / √4)", weights, words, labelled("sees", names), "magnitude", limit=1.0),
            Heatmap("outputs: weights · x", y, words, channel, "signed"),
        ),
        python=CAT_SAT_PYTHON.format(rows=", ".join(names)),
    )
