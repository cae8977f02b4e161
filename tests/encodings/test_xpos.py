"""xPos: scores by their formula, the last position, axes, and a float16 that is refused."""

import math

import pytest
import torch

import posenc
from posenc import XPos, attention, scores
from posenc.errors import InvalidArgument
from posenc.positions import arange


def formula(
    q: torch.Tensor, k: torch.Tensor, at: torch.Tensor, pairing: str, scale_base: int = 512
) -> torch.Tensor:
    """Products by the paper's formula once more, with complex pairs and real powers; of keys up to their query."""
    D = q.shape[-1]

    def pairs(x: torch.Tensor) -> torch.Tensor:
        split = x.unflatten(-1, (2, D // 2)).mT if pairing == "half" else x.unflatten(-1, (D // 2, 2))
        return torch.view_as_complex(split.double().contiguous())

    n = (at[:, None] - at[None]).double().clamp(min=0)
    total = torch.zeros(*q.shape[:-1], len(at), dtype=torch.float64)
    for i in range(D // 2):
        zeta, theta = (2 * i / D + 0.4) / 1.4, 10_000 ** (-2 * i / D)
        turn = zeta ** (n / scale_base) * torch.exp(1j * n * theta)
        total = total + (pairs(q)[..., :, None, i] * pairs(k).conj()[..., None, :, i] * turn).real
    return total


@pytest.mark.parametrize("pairing", ["half", "interleaved"])
def test_scores_by_complex_numbers(pairing: str) -> None:
    q, k = torch.randn(2, 1, 2, 6, 8, dtype=torch.float64)
    at = torch.tensor([0, 3, 100, 1000, 5000, 5001])
    placed = XPos(8, pairing=pairing).at(at, dtype=torch.float64)
    got = scores(*placed.rotate(q, k), placed, causal=True, scale=1.0)
    past = at[:, None] >= at
    torch.testing.assert_close(got[..., past], formula(q, k, at, pairing)[..., past], rtol=0, atol=1e-11)


LAST = 26_156
"""⌊64·512/ln(1.4/0.4)⌋."""


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_last_position_is_as_exact_as_the_first(dtype: torch.dtype) -> None:
    """Of 64 tokens that end there and see some at the start, and their gradients.

    No hidden key, which its factor makes up to 1e27 times as large, is infinite.
    """
    assert XPos(16, pairing="half").position_limit == LAST + 1
    q, k, v = (torch.randn(1, 2, 80, 16).to(dtype).double().requires_grad_() for _ in range(3))
    at = torch.cat((arange(16), arange(64, offset=LAST - 63)))
    hidden = ~torch.ones(80, 80).tril().bool()
    want = (formula(q, k, at, "half") / 4).masked_fill(hidden, -math.inf).softmax(-1) @ v
    weight = torch.randn(want.shape, dtype=torch.float64)
    placed = XPos(16, pairing="half").at(at)
    narrow = [x.detach().to(dtype).requires_grad_() for x in (q, k, v)]
    got = attention(*placed.rotate(*narrow[:2]), narrow[2], placed, causal=True)
    grads = [
        torch.autograd.grad((y * weight.to(y.dtype)).sum(), of) for y, of in ((got, narrow), (want, (q, k, v)))
    ]
    # q and k are rounded where they are rotated, v's sums once: u of what they hold, in scores of |q|·|k|/4.
    u = torch.finfo(dtype).eps
    size = float(q.detach().norm(dim=-1).max() * k.detach().norm(dim=-1).max()) / 4
    off = 4 * u * (1 + 2 * size) * float(v.detach().abs().max())
    torch.testing.assert_close(got.double(), want, rtol=0, atol=off)
    for mine, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(mine.double(), theirs, rtol=0, atol=off * (1 + float(theirs.abs().max())))


@pytest.mark.parametrize("settings", [{"scale_base": 64}, {"gamma": 1e-9, "scale_base": 64}], ids=str)
def test_fast_fading_ends_sooner(settings: dict) -> None:
    """At its own last position as at the paper's."""
    xpos = XPos(8, pairing="half", **settings)
    last = xpos.position_limit - 1
    assert 63 < -last * min(xpos.fading) <= 64
    q, k = torch.randn(2, 1, 2, 6, 8)
    at = torch.tensor([0, 1, last - 3, last - 2, last - 1, last])
    exact, single = (xpos.at(at, dtype=dtype) for dtype in (torch.float64, torch.float32))
    want = scores(*exact.rotate(q.double(), k.double()), exact, causal=True)
    got = scores(*single.rotate(q, k), single, causal=True)
    bound = 8 * 2.0**-24 * float(q.norm(dim=-1).max() * k.norm(dim=-1).max())
    torch.testing.assert_close(got.double(), want, rtol=0, atol=bound)


@pytest.mark.usefixtures("unchecked")
def test_float16_is_refused() -> None:
    """After 4,500 positions it has no number for the fastest pair."""
    xpos, x = XPos(8, pairing="half"), torch.randn(1, 2, 4, 8)
    placed = xpos.at(arange(4))
    for here, q, k, message in (
        (placed, x, x.half(), "k is torch.float16 and attention runs in torch.float16.*use torch.bfloat16"),
        (posenc.Stack(xpos, posenc.ALiBi(2)).at(arange(4)), x.half(), None, "q is torch.float16"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            here.rotate(q, k)
    with (
        torch.autocast("cpu", torch.float16),
        pytest.raises(InvalidArgument, match=r"q is torch.float32 and attention runs in torch.float16"),
    ):
        placed.rotate(x, x)  # which attention would round
    with torch.autocast("cpu", torch.bfloat16):
        placed.rotate(x, x)


def test_channels_fade_along_the_first_of_several_axes() -> None:
    q, k, v = torch.randn(3, 2, 2, 6, 8, dtype=torch.float64)
    at = torch.stack((torch.tensor([0, 1, 2, 4, 5, 9]), torch.tensor([3, 0, 1, 1, 2, 0])))
    fades, window = XPos(8, pairing="half", scale_base=64), posenc.Window(2, size=(10, 4)).double()
    placed, alone = posenc.Stack(fades, window).at(at, dtype=torch.float64), fades.at(at[0], dtype=torch.float64)
    turned = placed.rotate(q, k)
    added = window.at(at, dtype=torch.float64).bias
    want = (scores(*turned, alone, causal=True) + added.rows(0, 6, 6)).softmax(-1) @ v
    torch.testing.assert_close(attention(*turned, v, placed, causal=True), want, rtol=0, atol=1e-12)
    torch.testing.assert_close(scores(*turned, placed, causal=True).softmax(-1) @ v, want, rtol=0, atol=1e-12)


def test_what_it_rotated_comes_undone() -> None:
    """Of outputs too, where values rotate as keys do, and under a scaling that lengthens."""
    xpos = XPos(8, pairing="interleaved", scaling=posenc.scaling.YaRN(4, 512))
    at, x = torch.tensor([0, 7, 900, 20_000]), torch.randn(1, 2, 4, 8, dtype=torch.float64)
    placed = xpos.at(at, dtype=torch.float64)
    torch.testing.assert_close(placed.unrotate(placed.rotate(None, x)[1]), x, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(xpos.unrotate(placed.rotate(None, x)[1], at), x, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(xpos.rotate_keys(x, at), placed.rotate(None, x)[1], rtol=1e-13, atol=1e-13)
