"""How much of each word does FoX keep? The gates of a fresh layer over a sentence, and what they leave."""

import math
from typing import Annotated

import torch

import posenc
from posenc.pictures.view import Heatmap, View, labelled
from posenc.teaching.views.bounds import Bounds, Seed, bounded
from posenc.teaching.views.order_blind import WIDTH, word_vectors

PYTHON = """\
import zlib, torch, posenc

words = {words}
torch.manual_seed({seed})
fox = posenc.FoX({width}, 1, bias={bias})
vector = lambda word: torch.randn({width}, generator=torch.Generator().manual_seed(zlib.crc32(word.encode())))
x = torch.stack([vector(word) for word in words])[None]
print(fox.gates(x)[0, 0].exp())    # what each word keeps of all before it"""


@bounded
@torch.no_grad()
def gates(
    sentence: str = "the cat sat on the mat and slept", bias: Annotated[float, Bounds(-8, 8)] = 1.0, seed: Seed = 0
) -> View:
    """One head with random weights: the gate of every word, and what is left of each key at each query.

    Args:
        sentence: words with spaces; a repeated word has the same gate twice.
        bias: what the gates start from: σ(bias) is kept by a word that says nothing.
        seed: of the weights.
    """
    words = sentence.split()
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        fox = posenc.FoX(WIDTH, 1, bias=bias)
    x = word_vectors(words)[None]
    at = posenc.positions.arange(len(words))
    placed, _ = fox.at(at)[0].with_content(x)
    assert placed.bias is not None
    left = placed.bias.ordered(at, at).rows(0, len(words), len(words))[0, 0].double().exp()
    future = torch.ones_like(left).triu(1).bool()
    gates = fox.gates(x)[0].double().exp()
    keys, queries = labelled("key", words), labelled("query", words)
    gate, visible = labelled("", ("gate",)), left.masked_fill(future, math.nan)
    smallest, default = int(gates[0].argmin()), 1 / (1 + math.exp(-bias))
    return View(
        f"“{words[smallest]}” forgets most: {float(gates[0, smallest]):.0%} of what came before is kept",
        (
            Heatmap("what each word keeps", gates, gate, keys, "magnitude", limit=1.0),
            Heatmap("what is left of each key", visible, queries, keys, "magnitude", limit=1.0),
        ),
        {"first word, seen from the last": float(left[-1, 0]), "σ(bias), kept by default": default},
        PYTHON.format(words=words, seed=seed, width=WIDTH, bias=bias),
    )
