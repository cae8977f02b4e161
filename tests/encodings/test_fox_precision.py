"""FoX in the types of models: gates never below float32, and one extra channel as good as dense rows."""

import pytest
import torch
from torch import Tensor

from posenc import FoX, attention
from posenc.positions import arange

U = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}
"""Half a unit of rounding."""


def gates(keep: float, length: int, heads: int = 2) -> Tensor:
    """Log gates around ln keep, every token another."""
    spread = torch.rand(1, heads, length, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (torch.tensor(keep).double().log() * (0.5 + spread)).float()


def placed(log_gates: Tensor):
    return FoX(4, log_gates.shape[1]).at(arange(log_gates.shape[-1])).with_state(log_gates)


def weights(log_gates: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """The weights of causal attention in float64."""
    sums = log_gates.double().cumsum(-1)
    scores = q.double() @ k.double().mT / q.shape[-1] ** 0.5 + sums[..., :, None] - sums[..., None, :]
    return scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1), -torch.inf).softmax(-1)


@pytest.mark.parametrize("autocast", [True, False])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_gates_are_never_below_float32(dtype: torch.dtype, autocast: bool) -> None:
    """They are those of the rounded weights and tokens, taken in float32."""
    fox, x = FoX(16, 4).to(dtype), torch.randn(2, 9, 16, dtype=dtype)
    with torch.autocast("cpu", enabled=autocast):
        _, state = fox.at(arange(9)).with_content(x)
    assert state.dtype == torch.float32
    wide = torch.nn.functional.linear(x.float(), fox.weight.float(), fox.bias.float())
    assert torch.equal(state, torch.nn.functional.logsigmoid(wide).mT)


@pytest.mark.parametrize(("keep", "length"), [(0.999, 32_768), (0.9, 512), (1e-3, 32_768)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_channels_are_the_rows_but_for_one_number_a_row(dtype: torch.dtype, length: int, keep: float) -> None:
    """Of the last row, where all keys count. Sums are rounded to float32 once: 2^-24 of the largest.

    Three pieces of 16-bit numbers hold what float32 holds, in float16 down to its smallest number.
    """
    bias = placed(gates(keep, length)).bias.ordered(arange(1, offset=length - 1), arange(length))
    q, k = bias.low_rank(dtype, 1.0) or ()
    for pieces in (q, k):
        assert torch.equal(pieces.to(dtype).float(), pieces), "every piece is held by the type"
    row = (q[:, :, :1].double() * k.double()).sum(-1)
    want = bias.rows(0, 1, length)[:, :, 0].double()
    exact = bias.q_sums - bias.k_sums  # type: ignore[operator]
    largest = exact.abs().max()
    smallest = 256 * 2.0**-25 if dtype == torch.float16 else 0.0
    assert ((row - row[..., -1:]) - (exact - exact[..., -1:])).abs().max() <= 2 * largest * 2.0**-24 + smallest
    assert (want - exact).abs().max() <= largest * 2.0**-24


@pytest.mark.parametrize(
    ("dtype", "keep"),
    [
        (torch.bfloat16, 0.99),
        (torch.float16, 1e-16),
        *(pytest.param(*way, marks=pytest.mark.slow) for way in ((torch.bfloat16, 1e-16), (torch.float16, 0.5))),
    ],
)
def test_a_16_bit_model_forgets_as_exactly_as_it_attends(dtype: torch.dtype, keep: float) -> None:
    """2048 tokens; with gates near zero the sums pass what float16 holds.

    Weights and result are rounded to the type, u·max|v| each. A score is summed in float32 beside the largest
    sum c: D + 3 roundings of 2^-24·(|c| + |q||k|), and a weight moves by twice that in relation.
    """
    length, D = 2048, 16
    log_gates, (q, k, v) = gates(keep, length), torch.randn(3, 1, 2, length, D).to(dtype)
    y = attention(q, k, v, placed(log_gates), causal=True)
    want = weights(log_gates, q, k) @ v.double()
    largest = log_gates.double().sum(-1).abs().max() + q.double().norm(dim=-1).max() * k.double().norm(dim=-1).max()
    bound = v.abs().max().double() * (2 * U[dtype] + 2 * (D + 3) * 2.0**-24 * largest)
    assert ((y.double() - want).abs() <= bound).all()


def test_gradients_of_gates_through_channels() -> None:
    """In bf16 the weights, their gradients, the outputs and a key's gradient are each rounded once, by u.

    So the gradient of key j's channel is off by 4u·Σ_i P_ij(|g_i|·|v_j| + |g_i|·|y_i|) at most, and that of a
    gate by the sum over the keys before it. Values that change sign midway give gradients that do not cancel.
    """
    length, D, u = 40, 16, U[torch.bfloat16]
    log_gates = gates(0.9, length).requires_grad_()
    q, k, v = torch.randn(3, 1, 2, length, D).bfloat16()
    v = torch.where(torch.arange(length)[:, None] < length // 2, v.abs(), -v.abs())
    (got,) = torch.autograd.grad(attention(q, k, v, placed(log_gates), causal=True).sum(), log_gates)
    P = weights(log_gates, q, k)
    y = P @ v.double()
    (want,) = torch.autograd.grad(y.sum(), log_gates)
    P, sizes = P.detach(), v.double().abs().sum(-1)
    of_key = 4 * u * (P.sum(-2) * sizes + (P * y.detach().abs().sum(-1, keepdim=True)).sum(-2))
    bound = of_key.cumsum(-1) - of_key
    # And float32's own sums of as many terms.
    assert ((got - want).abs() <= bound + length * 2.0**-24 * want.abs().max()).all()
    assert (want.abs() > 4 * bound).any(), "the bound tells right from wrong"
