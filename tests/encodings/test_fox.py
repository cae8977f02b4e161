"""FoX against its sum written out, whatever order and documents its tokens come in."""

import pytest
import torch
from torch import Tensor

from posenc import FoX, Mask, attention
from posenc.positions import arange, packed
from support import reference
from support.attending import same_gradients

B, H, T, D, C = 2, 4, 12, 4, 6
EXACT = 1e-12
"""float64: some dozen roundings of 1e-16 of numbers of order one."""


def made(bias: float = 1.0) -> FoX:
    return FoX(C, H, bias=bias).double()


def tensors(T: int = T) -> tuple[Tensor, ...]:
    """x, q, k, v."""
    shapes = [(B, T, C), (B, H, T, D), (B, H // 2, T, D), (B, H // 2, T, D)]
    return tuple(torch.randn(shape, dtype=torch.float64) for shape in shapes)


def written_out(fox: FoX, x: Tensor) -> Tensor:
    """Σ_{l=j+1…i} ln σ(w·x_l + b) for every i ≥ j, one sum at a time; zero ahead."""
    bias = torch.zeros(B, H, x.shape[1], x.shape[1], dtype=torch.float64)
    logs = -torch.log1p(torch.exp(-(torch.einsum("btc,hc->bht", x, fox.weight) + fox.bias[:, None])))
    for i in range(x.shape[1]):
        for j in range(i):
            bias[:, :, i, j] = logs[:, :, j + 1 : i + 1].sum(-1)
    return bias


def alone(fox: FoX, x: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal attention of one whole sequence."""
    length = x.shape[1]
    return reference.attention(q, k, v, written_out(fox, x), reference.visible(length, length, causal=True))


def test_values_and_gradients_are_those_of_the_sum_written_out() -> None:
    fox, given = made(), [x.requires_grad_() for x in tensors()]
    assert (fox.bias == 1.0).all()
    here, _ = fox.at(arange(T), dtype=torch.float64).with_content(given[0])
    y, want = attention(*given[1:], here, causal=True), alone(fox, *given)
    torch.testing.assert_close(y, want, rtol=0, atol=EXACT)
    same_gradients(y, want, (*given, fox.weight, fox.bias), 100 * EXACT)


@pytest.mark.parametrize("q_rows", [True, False])
@pytest.mark.parametrize("k_rows", [True, False])
def test_sums_follow_the_order_and_not_the_rows(k_rows: bool, q_rows: bool) -> None:
    """A permuted sequence, its orders one for all or one a sequence."""
    fox, (x, q, k, v) = made(), tensors()
    order, some = torch.randperm(T), torch.tensor([7, 2, 11])
    placed = fox.at(some, order, dtype=torch.float64).with_state(fox.gates(x)[..., order])
    q_order, k_order = some.expand(B, -1) if q_rows else some, order.expand(B, -1) if k_rows else order
    mask = Mask(causal=True, q_order=q_order, k_order=k_order)
    y = attention(q[:, :, some], k[:, :, order], v[:, :, order], placed, mask)
    torch.testing.assert_close(y, alone(fox, x, q, k, v)[:, :, some], rtol=0, atol=EXACT)


HASHED = torch.tensor([7, 7 + (1 << 32), 7 - (5 << 32)])
"""Names of documents as hashes are, some of which agree in their lower 32 bits."""


@pytest.mark.parametrize("far", [0, 1 << 40])
@pytest.mark.parametrize("given", ["segments", "q_order and k_order", "a cache"])
def test_documents_of_any_name_fade_alone(given: str, far: int) -> None:
    """Whatever int64 ids and orders are: between each other, permuted, behind a cache."""
    fox, (x, q, k, v) = made(), tensors()
    at, segments = packed([5, 1, 6])
    mixed = torch.randperm(T) if given == "q_order and k_order" else at.argsort(stable=True)
    own, names = [t[..., mixed, :] for t in (q, k, v)], HASHED[segments[mixed]]
    order = at[mixed] + far if far or given == "q_order and k_order" else None
    new = slice(4, None) if given == "a cache" else slice(None)
    if new.start and order is None:
        mask = Mask(causal=True, q_segments=names[new], k_segments=names)
    elif order is None:
        mask = Mask(causal=True, q_segments=names)
    else:
        mask = Mask(causal=True, q_order=order[new], k_order=order, q_segments=names[new], k_segments=names)
    placed = fox.at(at[mixed][new], at[mixed], dtype=torch.float64).with_state(fox.gates(x[:, mixed]))
    y = attention(own[0][:, :, new], *own[1:], placed, mask)
    pieces = zip(*(t.split([5, 1, 6], dim=-2) for t in (x, q, k, v)), strict=True)
    want = torch.cat([alone(fox, *piece) for piece in pieces], dim=2)
    torch.testing.assert_close(y, want[:, :, mixed][:, :, new], rtol=0, atol=EXACT)
