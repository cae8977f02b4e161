"""Which keys CoPE counts, and how Inkling's bias grows past its floor."""

import math

import pytest
import torch

from posenc import CoPE, Inkling, Mask, Shaw, attention, scores
from posenc.positions import arange


def test_cope_does_not_count_what_is_hidden() -> None:
    """The future, padding, other documents: a gate on them would let a token see them."""
    cope, (q, k) = CoPE(4, 2, positions=6, std=1.0).double(), torch.randn(2, 1, 2, 9, 4, dtype=torch.float64)
    seen_keys = (torch.arange(9) != 3)[None]
    placed, other = cope.at(arange(9), dtype=torch.float64), k.clone()
    other[:, :, 3] = other[:, :, 7:] = 100.0
    for mask in (Mask(causal=True, key_mask=seen_keys), Mask(key_mask=seen_keys & (arange(9) < 7))):
        rows = [scores(q, keys, placed, mask)[:, :, :7] for keys in (k, other)]
        seen = rows[0] > -math.inf
        torch.testing.assert_close(rows[1][seen], rows[0][seen], rtol=0, atol=1e-12)


def test_past_its_floor_inklings_bias_grows_with_the_logarithm_of_the_position() -> None:
    """By 1 + ln((p + 1)/128000)/10."""
    plain, grown = (Inkling(4, 2, extent=9, basis=3, log_floor=floor).double() for floor in (None, 128_000))
    grown.load_state_dict(plain.state_dict())
    at, x = torch.tensor([127_998, 127_999, 128_000, 1_048_575]), torch.randn(1, 4, 4, dtype=torch.float64)
    placed = (e.at(at, at - 2, dtype=torch.float64).with_content(x)[0] for e in (plain, grown))
    rows, got = (here.bias.rows(0, 4, 4) for here in placed)
    factors = 1 + ((at + 1).double() / 128_000).log().clamp(min=0) / 10
    torch.testing.assert_close(got, rows * factors[:, None], rtol=0, atol=1e-13)
    assert rows.any()


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("behind", [16, 0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_where_far_keys_share_a_vector(causal: bool, behind: int, dtype: torch.dtype) -> None:
    """Blocks of 256 rows, the last of one row: hundreds of keys are further than ``behind`` before all queries."""
    shaw = Shaw(8, 4, behind=behind, std=1.0).to(dtype)
    at = (arange(513, offset=80), arange(593))
    inputs = [
        torch.randn(2, heads, n, 8, dtype=dtype, requires_grad=True) for heads, n in ((4, 513), (2, 593), (2, 593))
    ]
    placed = shaw.at(*at, dtype=dtype)
    assert placed.bias is not None
    far = placed.bias.meeting(*inputs[:2], 1.0).far(256, 512)
    assert (far or (0,))[0] == 256 + 80 - max(behind - 1, 0)
    y = attention(*inputs, placed, causal=causal, backend="blocks")
    with torch.no_grad():
        plain = attention(*inputs, placed, causal=causal)
    assert (plain - y).abs().max() <= 64 * torch.finfo(dtype).eps * y.abs().max()
    got = torch.autograd.grad(y, (*inputs, shaw.weight), upstream := torch.randn_like(y))
    exact = [x.detach().double().requires_grad_() for x in inputs]
    precise = shaw.double()
    weights = scores(*exact[:2], precise.at(*at, dtype=torch.float64), causal=causal).softmax(-1)
    wanted = torch.autograd.grad(
        weights @ exact[2].repeat_interleave(2, 1), (*exact, precise.weight), upstream.double()
    )
    for a, b in zip(got, wanted, strict=True):
        assert (a - b).abs().max() <= 64 * torch.finfo(dtype).eps * (1 + b.abs().max())
