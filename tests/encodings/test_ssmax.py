"""Scalable softmax: its factors, what it makes of softmax over many keys, its gradients, float32 under any type."""

import math

import pytest
import torch

import posenc
from posenc import NoPE, SSMax, attention
from posenc.positions import arange, packed
from posenc.workbench.run.settings import Model
from posenc.workbench.run.transformer import Transformer


def test_a_fresh_one_changes_nothing_at_its_length() -> None:
    got = SSMax(2, length=512).factors(torch.tensor([0, 511, 262_143]), torch.float64)[0]
    # The parameter is float32, off by 2^-24.
    torch.testing.assert_close(got, torch.tensor([[0.0, 1.0, 2.0]] * 2).double(), rtol=2**-23, atol=0)


def test_softmax_does_not_fade_over_more_keys() -> None:
    """One key of score 1 among n−1 of score 0: e/(e+n−1) fades to zero, n^s/(n^s+n−1) does not for s > 1."""
    encoding = SSMax(1)
    torch.nn.init.constant_(encoding.weight, 1.5)
    for n in (16, 1024, 16_384):
        scale = encoding.at(arange(1, offset=n - 1)).scale
        assert scale is not None
        scores = torch.cat((torch.ones(1), torch.zeros(n - 1)))
        got = (scores * scale.flatten()).softmax(0)[0].item()
        assert got == pytest.approx(n**1.5 / (n**1.5 + n - 1), rel=1e-4)


def test_gradients_reach_both_parameters() -> None:
    encoding = SSMax(2, offset=True).double()
    q, k, v = torch.randn(3, 1, 2, 6, 4, dtype=torch.float64)
    at = arange(6)

    def attended(weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        made = torch.func.functional_call(encoding, {"weight": weight, "bias": bias}, (at, q, k, v))
        assert isinstance(made, torch.Tensor)
        return made

    encoding.forward = lambda at, q, k, v: attention(q, k, v, encoding.at(at, dtype=torch.float64), causal=True)
    assert encoding.bias is not None
    leaves = (encoding.weight.detach().clone().requires_grad_(), encoding.bias.detach().clone().requires_grad_())
    assert torch.autograd.gradcheck(attended, leaves)


def test_packing_starts_anew() -> None:
    encoding = SSMax(1)
    at, _ = packed([3, 4])
    want = encoding.factors(arange(4))[0, 0]
    assert torch.equal(encoding.factors(at)[0, 0], torch.cat((want[:3], want)))


def test_it_trains_in_every_layer_and_alone_it_tells_orders_apart() -> None:
    encoding = posenc.encoding("ssmax(length=64)", width=32, heads=4, head_dim=8, layers=2)
    model = Transformer(Model(width=32, layers=2, heads=4), encoding, 17).initialise(0)
    assert model.encoding.layer(0) is not model.encoding.layer(1)
    model(torch.randint(17, (2, 9))).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in model.encoding.parameters())


def test_it_multiplies_scores() -> None:
    at, (q, k) = arange(5), torch.randn(2, 1, 2, 5, 4, dtype=torch.float64)
    encoding = SSMax(2).double()
    plainly = posenc.scores(q, k, NoPE().at(at))
    got = posenc.scores(q, k, encoding.at(at, dtype=torch.float64))
    logs = torch.tensor([math.log(n) for n in range(1, 6)], dtype=torch.float64)
    want = plainly * (logs * encoding.weight[:, None])[..., None]
    torch.testing.assert_close(got, want, rtol=1e-14, atol=1e-15)
