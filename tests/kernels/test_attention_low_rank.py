"""Biases as channels: exact far from the first key, summed in order, and refused where a device sums otherwise."""

import io
import math

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode

import posenc
from posenc import ALiBi, FoX, Mask, attention
from posenc.encodings.alibi import LinearBias, slopes
from posenc.encodings.bias import climbs
from posenc.kernels.attention import low_rank
from posenc.kernels.attention.low_rank import SPAN, exact, linear
from posenc.laws.effects import defined
from posenc.positions import arange
from support.attending import same_gradients
from support.operators import Operators

FAR = torch.cat((torch.zeros(1, dtype=torch.int64), torch.arange(SPAN - 39, SPAN)))
"""A first key, and 39 more at the far end of what one call may span."""


def summed(q: Tensor, k: Tensor) -> Tensor:
    """Scores as a kernel sums them: in float32, channel by channel."""
    total = torch.zeros(*q.shape[:3], k.shape[2])
    for i in range(q.shape[-1]):
        total = total + q[..., i, None].float() * k[..., None, :, i].float()
    return total


def off(q: Tensor, k: Tensor, scale: float, heads: int) -> Tensor:
    """How far products are from the bias in relation to 1 + |bias|, at keys before their query; a number a row is
    lost."""
    want = torch.tensor(slopes(heads)).float().double()[:, None, None] * (FAR[None] - FAR[:, None])
    difference = (summed(q, k).double() * scale - want)[0]
    difference = difference - difference.diagonal(dim1=-2, dim2=-1)[..., None]
    return (difference.abs() / (1 + want.abs())).tril().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [0.125, 128**-0.5])
@pytest.mark.parametrize("start", [0, 2**31 - SPAN])
@pytest.mark.parametrize("heads", [8, 12])
def test_a_bias_is_exact_all_along_the_span(dtype: torch.dtype, scale: float, start: int, heads: int) -> None:
    """A dozen sums of what is as large as the bias, each rounded by 2^-24, wherever the sequence begins."""
    q, k = linear(torch.tensor(slopes(heads)), FAR + start, FAR + start, dtype, scale)
    assert k.shape[1] == 1, "heads that share keys share their channels"
    assert off(q, k, scale, heads) <= 12 * 2.0**-24


def test_what_is_not_anchored_or_not_in_order_is_wrong() -> None:
    """The bound above tells right from wrong: content before the bias, and queries without their own term."""
    q, k = linear(torch.tensor(slopes(12)), FAR, FAR, torch.float32, 0.125)
    assert off(q.flip(-1), k.flip(-1), 0.125, 12) > 12 * 2.0**-24
    alone = torch.cat((q[..., :1], 0 * q[..., 1:2], q[..., 2:]), dim=-1)
    content = torch.full_like(q[..., :1], 0.7)
    q, k = torch.cat((alone, content), -1), torch.cat((k, torch.full_like(k[..., :1], 0.7)), -1)
    assert off(q, k, 0.125, 12) > 100 * 2.0**-24


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_this_device_sums_in_order(dtype: torch.dtype) -> None:
    assert exact(torch.device("cpu"), dtype)


def test_a_device_that_sums_otherwise_is_not_offered_channels(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that rounds to TensorFloat-32 before it multiplies, as GPUs may, is found out."""

    def rounding(q: Tensor, k: Tensor, v: Tensor, **settings: object) -> Tensor:
        def tf32(x: Tensor) -> Tensor:
            return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)

        hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).triu(1)
        return ((tf32(q) @ tf32(k).mT) * 0.125).masked_fill(hidden, -math.inf).softmax(-1) @ v

    monkeypatch.setattr(low_rank, "sdpa", rounding)
    assert not low_rank._exact.__wrapped__("cpu", torch.float32, ("highest", False))
    assert not exact(torch.device("meta"), torch.float32)
    assert not exact(torch.device("cpu"), torch.float64)


def test_the_first_export_of_a_process_can_be_saved() -> None:
    """The test of the device, which the export runs, leaves nothing in its graph."""

    class Attending(torch.nn.Module):
        def forward(self, q: Tensor, positions: Tensor) -> Tensor:
            return posenc.attention(q, q, q, ALiBi(4).at(positions), causal=True)

    q, saved = torch.randn(1, 4, 9, 8), io.BytesIO()
    low_rank._exact.cache_clear()
    torch.export.save(torch.export.export(Attending(), (q, arange(9))), saved)
    saved.seek(0)
    torch.testing.assert_close(
        torch.export.load(saved).module()(q, arange(9)), Attending()(q, arange(9)), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_test_of_a_device_runs_in_any_mode(device: str) -> None:
    low_rank._exact.cache_clear()
    with torch.device(device), torch.autocast("cpu"):
        assert exact(torch.device("cpu"), torch.float32)


ENCODINGS = {
    "alibi": lambda: ALiBi(4),
    "fox": lambda: FoX(8, 4, bias=1.0),
    "both": lambda: posenc.Stack(ALiBi(4), FoX(8, 4, bias=1.0)),
    "some heads": lambda: ALiBi(4, slopes=(0.0625, 0.00390625, 0, 0)),
}


def given(name: str, T: int, kv_heads: int, dtype: torch.dtype = torch.float32) -> tuple:
    q, x = torch.randn(2, 4, T, 16, dtype=dtype), torch.randn(2, T, 8)
    k, v = torch.randn(2, 2, kv_heads, T, 16, dtype=dtype)
    here = ENCODINGS[name]().at(arange(T, offset=10**6))[0].with_content(x)[0]
    return [t.requires_grad_() for t in (q, k, v)], here


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("name", ENCODINGS)
def test_channels_are_scores_forward_and_backward(name: str, kv_heads: int) -> None:
    """float32 sums of 16 products and 40 keys."""
    (q, k, v), here = given(name, 40, kv_heads)
    y = attention(q, k, v, here, causal=True, backend="low_rank")
    want, _ = defined(q, k, v, here, Mask(causal=True))
    rounding = 40 * 2.0**-23
    torch.testing.assert_close(y, want, rtol=0, atol=rounding * (1 + want.abs().max().item()))
    same_gradients(y, want, (q, k, v), rounding, rounding)


def test_positions_that_go_back_or_far_have_no_channels() -> None:
    back = torch.tensor([0, 1, 2, 0, 1])
    assert not climbs(back, back)
    assert not climbs(arange(3), arange(3, offset=1))
    far = torch.tensor([0, SPAN])
    assert not climbs(far, far)
    assert climbs(torch.tensor([0, 0, 0, 1, SPAN - 1]), torch.tensor([0, 0, 0, 1, SPAN - 1]))
    slope = torch.tensor([0.5])
    assert LinearBias(slope, back, back).low_rank(torch.float32, 1.0) is None
    assert LinearBias(slope, arange(SPAN + 1), arange(SPAN + 1)).low_rank(torch.float32, 1.0) is None


def test_a_compiler_is_promised_nothing_of_so_many_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where lengths alone say that positions span too much, nothing is asserted; seen on fake
    tensors, as a compiler traces them."""
    asserted: list[str] = []
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    for length, channels in ((SPAN, True), (SPAN + 1, False)):
        with FakeTensorMode(), Operators() as operators:
            at, slope = torch.arange(length), torch.ones(1)
            assert (LinearBias(slope, at, at).low_rank(torch.bfloat16, 1.0) is not None) == channels
        asserted += [name for name in operators.names if "_assert_async" in name]
    assert len(asserted) == 1
