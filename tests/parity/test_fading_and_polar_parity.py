"""PoPE against x-transformers."""

from types import ModuleType

import torch

from posenc import PoPE, scores
from posenc.positions import arange


def test_scores_of_pope(x_transformers: ModuleType) -> None:
    """It adds its clamped angle to the keys of every head; here its opposite stands on the queries."""
    q, k = torch.randn(2, 2, 3, 40, 16, dtype=torch.float64)
    other = x_transformers.PolarEmbedding(16, 3)
    torch.nn.init.uniform_(other.learned_bias, -6.0, 0.0)
    freqs, bias = other.double()(torch.arange(40))
    polar = x_transformers.apply_polar_pos_emb
    want = polar(q, freqs[:, None]) @ polar(k, freqs[:, None] + bias).mT / 4
    encoding = PoPE(16, 3).double()
    encoding.load_state_dict({"weight": other.learned_bias.detach().squeeze(1)})
    placed = encoding.at(arange(40), dtype=torch.float64)
    turned = placed.rotate(q, k)
    got = scores(*turned, placed)
    # It computes in float32: angles off by 2^-24 of 40 radians and sums of 16 terms by as much of their size.
    bound = 46 * 2.0**-23 * 4 * turned[0].norm(dim=-1).max() * turned[1].norm(dim=-1).max() / 4
    torch.testing.assert_close(got, want.double(), rtol=0, atol=bound.item())
