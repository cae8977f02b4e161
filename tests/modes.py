"""The laws of modes: what is computed does not depend on gradients, transforms, or where it was first used."""

import torch
from torch import Tensor

from cases import Case
from posenc import Placed
from posenc.positions import plain
from probe import inputs


def is_the_same_without_gradients(case: Case) -> None:
    """Recording gradients changes no bit of what is embedded and rotated, in any type."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for length in (1, 9):
            given = inputs(case, length, dtype)[:3]
            placed = case.build().at(plain(length, offset=7))
            recorded = _doors(placed, *(x.requires_grad_() for x in given))
            with torch.no_grad():
                for got, want in zip(_doors(placed, *given), recorded, strict=True):
                    assert got.dtype == want.dtype == dtype
                    assert torch.equal(got, want), "it depends on whether gradients are recorded"


def passes_position_zero_exactly(case: Case) -> None:
    """Position 0 turns nothing, whatever the tables' type: huge and tiny numbers pass bit for bit."""
    _, q, k, _ = inputs(case, 1, torch.float64)
    for tables in (torch.float32, torch.bfloat16):
        placed = case.build().at(plain(1), dtype=tables)
        with torch.no_grad():
            for scale in (1.0, 1e300, 1e-300):
                for x, turned in zip((q, k), placed.rotate(q * scale, k * scale), strict=True):
                    assert torch.equal(turned, x * scale)


def may_first_be_used_anywhere(case: Case) -> None:
    """A placing first used in inference_mode or a function transform can be trained with afterwards."""
    x, q, k, _ = inputs(case)

    def inference(placed: Placed) -> None:
        with torch.inference_mode():
            _doors(placed, x, q, k)

    def second_derivatives(placed: Placed) -> None:
        torch.func.hessian(lambda q: placed.rotate(q, q)[0].pow(3).sum())(q[:1, :1, :, :4].repeat(1, 1, 1, 2))

    for first_use in (inference, second_derivatives):
        for at in ((plain(9),), (plain(9), plain(9))):
            placed = case.build().at(*at)
            want = _doors(case.build().at(*at), x, q, k)
            first_use(placed)
            leaves = [tensor.clone().requires_grad_() for tensor in (x, q, k)]
            sum(tensor.sum() for tensor in _doors(placed, *leaves)).backward()
            torch.func.grad(lambda q, placed=placed: placed.rotate(q, k)[0].sum())(q)
            with torch.no_grad():
                after = _doors(placed, x, q, k)
            assert all(torch.equal(a, b) for a, b in zip(after, want, strict=True))


def keeps_the_positions_it_was_given(case: Case) -> None:
    """Counting the positions up in place, as a decoding loop may, moves nothing that was placed before."""
    x, q, k, _ = inputs(case)
    at, keys = plain(9, offset=4), plain(9, offset=4)
    placed, want = case.build().at(at, keys), case.build().at(plain(9, offset=4), plain(9, offset=4))
    at += 30
    keys += 30
    for got, kept in zip(_doors(placed, x, q, k), _doors(want, x, q, k), strict=True):
        assert torch.equal(got, kept)
    assert placed.q_positions[0] == placed.k_positions[0] == 4


def _doors(placed: Placed, x: Tensor, q: Tensor, k: Tensor) -> list[Tensor]:
    return [placed.embed(x), *placed.rotate(q, k)]


LAWS = [
    is_the_same_without_gradients,
    passes_position_zero_exactly,
    may_first_be_used_anywhere,
    keeps_the_positions_it_was_given,
]
