"""All laws that tests check: the package's laws, the laws of internals, and agreement with a paper's formula."""

import torch
from torch import Tensor

import posenc
from posenc.laws import LAWS as PACKAGE
from posenc.laws.effects import inputs
from posenc.laws.law import ROUNDING, Law, law, near
from posenc.laws.subject import Subject
from support import reference
from support.cases import Case
from support.plumbing import LAWS as PLUMBING

WITHOUT_FORMULA = "no formula here says what it computes"


def _no_formula(subject: Subject) -> str:
    return "" if isinstance(subject, Case) and subject.formula is not None else WITHOUT_FORMULA


@law(_no_formula)
def follows_its_formula(case: Subject) -> None:
    """Every public method gives the paper's formula in float64, at positions (T,) and (B, T)."""
    x, q, k, v = inputs(case, 9, torch.float64)
    positions = torch.tensor([0, 1, 2, 3, 5, 8, 13, 21, 34])
    placed = case.build().at(positions, dtype=torch.float64)
    near(placed.embed(x), x + case.formula.rows(positions), what="embed")
    turned_q, turned_k = placed.rotate(q, k)
    near(turned_q, case.formula.rotate(q, positions), what="rotated q")
    near(turned_k, case.formula.rotate(k, positions), what="rotated k")
    bias = case.formula.bias(positions, positions)
    # Biases may be pinned to float32: relative error 2^-24 each for slope and product.
    size = bias.abs().max().item() if isinstance(bias, Tensor) else 0.0
    if isinstance(bias, Tensor):
        far = torch.tensor([0, 257, 1001, 4099, 65_537])
        placed_far = case.build().at(far).bias
        want = case.formula.bias(far, far)
        near(placed_far.rows(0, 5, 5)[0], want, 2**-23 * want.abs(), "bias far apart")
    for causal in (True, False):
        y = posenc.attention(turned_q, turned_k, v, placed, causal=causal)
        want = reference.attention(
            case.formula.rotate(q, positions),
            case.formula.rotate(k, positions),
            v,
            bias,
            reference.visible(9, 9, causal=causal),
        )
        near(y, want, ROUNDING + 4 * size * 2**-23 * v.abs().max(), f"attention, causal={causal}")
    in_batch = case.build().at(torch.stack((positions, positions)), dtype=torch.float64)
    near(in_batch.embed(x), placed.embed(x), what="embed at (B, T)")
    near(in_batch.rotate(q, k)[1], turned_k, what="rotated k at (B, T)")


LAWS: tuple[Law, ...] = (follows_its_formula, *PACKAGE, *PLUMBING)
HERE = tuple(law for law in LAWS if not law.traces)
"""The laws that run with checked annotations; test_compile.py runs all other laws."""
