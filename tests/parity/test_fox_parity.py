"""FoX against x-transformers' bias of the same paper."""

from types import ModuleType

import pytest
import torch

from posenc import FoX
from posenc.positions import arange


@pytest.mark.parametrize("length", [1, 9, 200])
def test_x_transformers(length: int, x_transformers: ModuleType) -> None:
    """Theirs sums in float32, ours in float64: as many roundings of 2^-24 of the sum as tokens."""
    theirs, ours = x_transformers.DataDependentAlibi(16, 4), FoX(16, 4)
    linear = theirs.to_forget_gates[0]
    assert torch.equal(linear.bias, ours.bias), "fresh gates are equally open"
    with torch.no_grad():
        ours.weight.copy_(linear.weight)
        x = torch.randn(2, length, 16)
        want = theirs(x).tril()
        here, state = ours.at(arange(length)).with_content(x)
        got = here.bias.ordered(arange(length), arange(length)).rows(0, length, length).tril()
    bound = (length + 16) * 2.0**-24 * state.sum(-1).abs().max().item()
    torch.testing.assert_close(got, want, rtol=0, atol=bound)
