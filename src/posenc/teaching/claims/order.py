"""Claims about what attention knows about order without positional encoding, and what a causal mask reveals."""

import torch

import posenc
from posenc.teaching.claims.claim import Evidence, Verdict, above, below, claim, near, same
from posenc.teaching.views.order_blind import mean_of
from posenc.workbench.run.settings import Model
from posenc.workbench.run.transformer import Transformer

VASWANI = "Vaswani et al. 2017, section 3.5"
LENGTH = 8
SHUFFLED, MIRRORED = (3, 0, 7, 1, 5, 2, 6, 4), (7, 6, 5, 4, 3, 2, 1, 0)
"""Two permutations of ``LENGTH`` positions."""


def model(encoding: str, causal: bool) -> Transformer:
    """Build a small float64 transformer with this encoding and random weights."""
    encoded = posenc.encoding(encoding, width=32, heads=4, head_dim=8, num_positions=LENGTH)
    return Transformer(Model(width=32), encoded, 16, causal=causal).initialise(0).double()


@torch.no_grad()
def order_error(encoding: str, causal: bool, order: tuple[int, ...] = SHUFFLED) -> float:
    """Return the largest difference between f(PX) and P f(X): f is a model, X distinct tokens, P a permutation."""
    tokens, shuffle = torch.arange(LENGTH)[None], torch.tensor(order)
    f = model(encoding, causal)
    return float((f(tokens[:, shuffle]) - f(tokens)[:, shuffle]).abs().max())


@claim(
    statement="Without positional encoding, shuffling the inputs of self-attention only shuffles its outputs.",
    precise="f(PX) = P f(X) for every permutation P (equivariance), if there is no causal mask.",
    verdict=Verdict.WHEN,
    source="Vaswani et al. 2017, section 3.5; Zaheer et al. 2017",
)
def equivariant() -> Evidence:
    # Float64 through two layers: sums of a few hundred terms near 1, reordered.
    return (
        below("error without a mask", order_error("nope", causal=False), 1e-12),
        above("error with a causal mask", order_error("nope", causal=True), 0.01),
    )


@claim(
    statement="Attention is permutation-invariant.",
    precise="Attention is equivariant: outputs move with the inputs. Only an output pooled over all positions is "
    "invariant.",
    verdict=Verdict.FAILS,
    source="direct calculation",
)
@torch.no_grad()
def invariant() -> Evidence:
    tokens, f = torch.arange(LENGTH)[None], model("nope", causal=False)
    plain, flipped = f(tokens), f(tokens.flip(1))
    return (
        above("change of the outputs", float((plain - flipped).abs().max()), 0.01),
        below("change of their mean", float((plain - flipped).mean(1).abs().max()), 1e-12),
    )


@claim(
    statement="A decoder without positional encoding cannot tell the order of tokens.",
    precise="The causal mask reveals order: each token sees a different number of keys. Two layers are enough to "
    "distinguish orders.",
    verdict=Verdict.FAILS,
    source="Haviv et al. 2022; Kazemnejad et al. 2023, theorem 1",
)
@torch.no_grad()
def nope_leaks_order() -> Evidence:
    ordered, swapped = torch.tensor([[1, 2, 3, 4]]), torch.tensor([[2, 1, 3, 4]])
    models = (model("nope", causal) for causal in (True, False))
    last, unmasked = (float((f(ordered) - f(swapped))[0, -1].abs().max()) for f in models)
    return (
        above("change of the last output after swapping two earlier tokens", last, 1e-3),
        below("change of the last output without a mask", unmasked, 1e-12),
    )


def acts_near(encoding: posenc.Encoding) -> bool:
    """Return whether the encoding has an effect at the first ``LENGTH`` positions. An encoding that only multiplies
    scores by factors has no effect if all factors at these positions are 1.
    """
    if {"embeddings", "queries_keys", "bias"} & set(encoding.acts_on):
        return True
    scale = encoding.at(posenc.positions.arange(LENGTH))[0].scale
    return scale is not None and bool((scale != 1).any())


@claim(
    statement="Every encoding lets a model without a mask distinguish orders.",
    precise="Every encoding in the catalogue that acts on embeddings, on queries and keys, or on scores breaks "
    "equivariance. NoPE does not, nor do query scales that equal 1 at the tested positions. Encodings that "
    "require a causal mask were not tested.",
    verdict=Verdict.WHEN,
    source=VASWANI,
)
def encodings_show_order() -> Evidence:
    encodings = {name: model(name, causal=False).encoding for name in posenc.CATALOGUE}
    errors = {name: order_error(name, causal=False) for name, each in encodings.items() if not each.causal}
    return (
        same("NoPE is in the catalogue", "nope" in posenc.CATALOGUE, True),
        *(
            above(f"order error of {name}", error, 1e-4)
            if acts_near(encodings[name])
            else below(f"order error of {name}", error, 1e-12)
            for name, error in errors.items()
        ),
    )


@claim(
    statement='Without positional encoding, "cat ate fish" and "fish ate cat" give the same vectors in a different '
    "order.",
    precise="Each word has the same output vector in both sentences.",
    verdict=Verdict.HOLDS,
    source=VASWANI,
)
def two_fish_sentences() -> Evidence:
    words = torch.randn(3, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    one, other = (mean_of(x, x) for x in (words, words.flip(0)))
    return (
        below("largest difference of a word's output", float((one - other.flip(0)).abs().max()), 1e-14),
        above("largest difference at a position", float((one - other).abs().max()), 0.1),
    )


@claim(
    statement="Swapping cat and sat swaps their outputs and changes neither vector.",
    precise="With q = k = v = x and scale 1/√4, cat becomes [.4701, .4414, .6885, .2943] in either order.",
    verdict=Verdict.HOLDS,
    source="softmax by hand",
)
def cat_sat() -> Evidence:
    x = torch.tensor([[0.8, 0.3, 0.5, 0.2], [0.1, 0.6, 0.9, 0.4]], dtype=torch.float64)
    wanted = torch.tensor([[0.4701, 0.4414, 0.6885, 0.2943], [0.4022, 0.4705, 0.7273, 0.3137]], dtype=x.dtype)
    outputs = {"cat sat": mean_of(x, x), "sat cat": mean_of(x.flip(0), x.flip(0)).flip(0)}
    return tuple(
        near(f"error of {word} in {order!r}", float(error), 0.0, 5e-5)
        for order, y in outputs.items()
        for word, error in zip(("cat", "sat"), (y - wanted).abs().amax(1), strict=True)
    )
