"""A bias along a line that is learned: gradients over several blocks of rows are those of scores, seconds too."""

import pytest
import torch
from torch import Tensor

import posenc
from posenc import Mask, attention
from posenc.attend import blocks
from posenc.kernels.attention.diagonals import Diagonals
from posenc.laws.effects import defined
from posenc.positions import arange
from support.attending import same_gradients

BIASES = ("t5", "t5(two_sided=True)", "kerple", "kerple(kernel=power)", "fire")


def given(T: int, S: int, heads: int, groups: int) -> list[Tensor]:
    shapes = (2, heads, T, 8), (2, groups, S, 8), (2, groups, S, 8)
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


def both(text: str, T: int, S: int, groups: int, causal: bool) -> tuple[list[Tensor], Tensor, Tensor]:
    """What gradients are wanted for, and the result: attention's and the specification's."""
    encoding = posenc.encoding(text, heads=4, num_positions=64).double()
    q, k, v = given(T, S, 4, groups)
    placed = encoding.at(arange(T, offset=S - T), arange(S), dtype=torch.float64)
    y = attention(q, k, v, placed, causal=causal, backend="toeplitz")
    return [q, k, v, *encoding.parameters()], y, defined(q, k, v, placed, Mask(causal=causal))[0]


@pytest.mark.parametrize("groups", [4, 2])
@pytest.mark.parametrize(("T", "S"), [(1, 9), (40, 40), (40, 57)])
@pytest.mark.parametrize("text", BIASES)
def test_gradients_are_those_of_scores(
    text: str, T: int, S: int, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of sixteen rows, the last of them short; all by sums along diagonals."""
    monkeypatch.setattr(blocks, "TRAINING_ROWS", 16)
    taken, backward = [], Diagonals.backward
    monkeypatch.setattr(Diagonals, "backward", lambda *given: (taken.append(given), backward(*given))[1])
    for causal in (True, False) if "two_sided" in text else (True,):
        wanted, y, want = both(text, T, S, groups, causal)
        same_gradients(y, want, wanted, 1e-12, 1e-12)
    assert taken


def test_second_derivatives_go_through_the_line() -> None:
    wanted, y, want = both("t5", 9, 9, 2, True)
    found = []
    for out in (y, want):
        once = torch.autograd.grad(out.square().sum(), wanted, create_graph=True)
        found.append(torch.autograd.grad(sum(g.square().sum() for g in once), wanted, retain_graph=True))
    torch.testing.assert_close(*found, rtol=0, atol=1e-11)


@pytest.mark.parametrize("text", ["t5", "fire"])
def test_layers_that_share_positions_are_differentiated_in_turn(text: str) -> None:
    """No layer's gradient takes away what the next one needs of a line that both share."""
    encoding, grads = posenc.encoding(text, heads=4, num_positions=64), []
    placed, leaves = encoding.at(arange(9)), [x.detach().float().requires_grad_() for x in given(9, 9, 4, 4)]
    for _ in range(2):
        encoding.zero_grad()
        y = attention(*leaves, placed, causal=True, backend="toeplitz")
        y.square().sum().backward(retain_graph=True)
        grads.append([parameter.grad for parameter in encoding.parameters()])
    torch.testing.assert_close(*grads, rtol=0, atol=0)


def test_sixteen_bits_are_rounded_once() -> None:
    """In bfloat16 the table's gradient is float32's, from inputs and a result that have eight bits."""
    encoding = posenc.encoding("t5", heads=4)
    q, k, v = (x.detach().bfloat16().requires_grad_() for x in given(40, 40, 4, 2))
    y = attention(q, k, v, encoding.at(arange(40)), causal=True, backend="toeplitz")
    (mine,) = torch.autograd.grad(y.float().square().sum(), encoding.parameters())
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    exact = attention(*wide, encoding.double().at(arange(40), dtype=torch.float64), causal=True)
    (theirs,) = torch.autograd.grad(exact.square().sum(), encoding.parameters())
    # Each of 320 rows gives its gradient, of its values' size, with a result that was rounded to eight bits.
    bound = 320 * 2.0**-8 * exact.abs().max().item() ** 2 * 2
    torch.testing.assert_close(mine.double(), theirs, rtol=0, atol=bound)
