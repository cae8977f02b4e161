"""The measured properties of every encoding, and the claims that compare them with the lessons' statements."""

from dataclasses import dataclass

import torch

import posenc
from posenc.teaching.claims.claim import Evidence, Verdict, claim, same
from posenc.teaching.claims.order import acts_near, order_error
from posenc.teaching.views.four import NAMES, four

WIDTH, HEADS, HEAD_DIM, ROWS = 768, 12, 64, 512
FAR = 10**6


@dataclass(frozen=True)
class Properties:
    """The properties and costs of an encoding in a model with 768 channels, 12 heads and 512 trained positions."""

    name: str
    acts_on: str
    parameters: int
    last_position: int
    offset_only: bool
    """Whether scores stay the same if every position is shifted by a million."""
    orders: bool
    """Whether a model with this encoding distinguishes orders of tokens, without a mask or with the mask that the
    encoding requires.
    """
    distinct: bool
    """Whether the score of two tokens changes if one token moves to the next position."""


def measured(name: str) -> Properties:
    """Measure the properties of an encoding in the catalogue."""
    encoding = _build(name)
    return Properties(
        name,
        ", ".join(encoding.acts_on) or "none",
        sum(p.numel() for p in encoding.parameters()),
        encoding.position_limit - 1,
        _moves(encoding, FAR) < 1e-3,
        encoding.causal or order_error(name, causal=False) > 1e-6,
        _moves(encoding, 0, one_further=True) > 1e-6,
    )


def _build(name: str) -> posenc.Encoding:
    return posenc.encoding(name, width=WIDTH, heads=HEADS, head_dim=HEAD_DIM, num_positions=ROWS)


@torch.no_grad()
def _moves(encoding: posenc.Encoding, by: int, one_further: bool = False) -> float:
    """Return how much the score of two tokens changes if both move by ``by``. With ``one_further``, the second
    token moves by 1 more.
    """
    by = min(by, encoding.position_limit - 10)  # at most to the end of a table
    x = torch.randn(1, 2, WIDTH, generator=torch.Generator().manual_seed(0))

    def scores(at: list[int]) -> torch.Tensor:
        placed = encoding.at(posenc.positions.on_axes(torch.tensor(at), encoding.axes))
        embedded = placed.embed(x)
        here, _ = placed.with_content(embedded)
        heads = embedded.view(1, 2, HEADS, HEAD_DIM).transpose(1, 2)
        return posenc.scores(*here.rotate(heads, heads), here, causal=encoding.causal)

    change = scores([by, by + 7 + one_further]) - scores([0, 7])
    visible = change[..., 1, 0] if encoding.causal else change[..., [0, 1], [1, 0]]
    return float(visible.abs().max())


TAUGHT = {
    "nope": (False, True, False, False),
    "sinusoidal": (True, True, True, False),
    "learned": (True, True, False, False),
    "rotary": (True, True, True, False),
    "alibi": (True, False, True, True),
    "sandwich": (True, True, True, True),
}
"""Whether each encoding is unique, is bounded, is aware of distance, and extrapolates."""


@claim(
    statement="A good encoding is unique, bounded and aware of distance, and it extrapolates.",
    precise="Of the whole catalogue, only Sandwich has all four properties before training. With RoPE and "
    "sinusoidal encodings, much attention falls on unseen distances; ALiBi's penalty prevents this but is "
    "unbounded; an untrained table does not encode distances.",
    verdict=Verdict.WHEN,
    source="measured on the catalogue",
)
def desiderata() -> Evidence:
    findings = [
        same(f"{name}: {word}", has, taught)
        for name, row in TAUGHT.items()
        for word, has, taught in zip(NAMES, four(name).has, row, strict=True)
    ]
    all_four = [name for name in posenc.CATALOGUE if all(four(name).has)]
    return (*findings, same("only Sandwich has all four properties", all_four == ["sandwich"], True))


@claim(
    statement="An encoding is absolute or relative, and either kind encodes order.",
    precise="Each encoding declares what it acts on and whether its scores depend only on the offset, and "
    "measurements agree for the whole catalogue. NoPE is neither absolute nor relative, and does not encode "
    "order.",
    verdict=Verdict.WHEN,
    source="measured on the catalogue",
)
def as_declared() -> Evidence:
    taught = {
        "nope": ("none", 0, False, True, False),
        "sinusoidal": ("embeddings", 0, True, False, True),
        "learned": ("embeddings", ROWS * WIDTH, True, False, True),
        "rotary": ("queries_keys", 0, True, True, True),
        "alibi": ("bias", 0, True, True, True),
    }
    known = {name: measured(name) for name in {*taught, *posenc.CATALOGUE}}
    lessons = (
        finding
        for name, (acts_on, parameters, orders, offset_only, distinct) in taught.items()
        for finding in (
            same(f"{name}: acts on {acts_on}", known[name].acts_on == acts_on, True),
            same(f"{name}: parameters", known[name].parameters, parameters),
            same(f"{name}: tells orders apart without a mask", known[name].orders, orders),
            same(f"{name}: scores depend only on the offset", known[name].offset_only, offset_only),
            same(f"{name}: one step further changes a score", known[name].distinct, distinct),
        )
    )
    declared = (
        finding
        for name in posenc.CATALOGUE
        for finding in (
            same(
                f"{name}: scores depend only on the offset, as declared",
                known[name].offset_only,
                _build(name).relative,
            ),
            same(
                f"{name}: tells orders apart, as what it acts on implies",
                known[name].orders,
                acts_near(_build(name)),
            ),
        )
    )
    return (*lessons, *declared)
