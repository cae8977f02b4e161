"""FlexAttention score modifiers give the scores that ``posenc.attention`` gives."""

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

from posenc import ALiBi, attention, positions
from posenc.kernels.flex import alibi_score_mod, line_score_mod

HEADS, T, S = 6, 3, 8


def scores(score_mod) -> Tensor:
    """What the modifier adds to a score of 0, for one batch row."""
    zero, row = torch.zeros(()), torch.tensor(0)
    return torch.stack(
        [
            torch.stack([score_mod(zero, row, h, i, j) for i in torch.arange(T) for j in torch.arange(S)])
            for h in torch.arange(HEADS)
        ]
    ).view(HEADS, T, S)


@pytest.mark.parametrize("rows", [False, True])
def test_alibi_with_a_cache(rows: bool) -> None:
    alibi, keys = ALiBi(HEADS), positions.plain(S)
    k_positions = keys[None] if rows else keys
    q_positions = k_positions[..., -T:]
    want = -alibi.slopes[:, None, None] * (keys[None] - keys[-T:, None]).abs()
    torch.testing.assert_close(scores(alibi_score_mod(alibi.slopes, q_positions, k_positions)), want)


def test_any_bias_along_a_line() -> None:
    placed = ALiBi(HEADS).at(positions.plain(T, offset=S - T), positions.plain(S))
    line = placed.bias.line
    assert line is not None
    torch.testing.assert_close(
        scores(line_score_mod(line, ahead=S - T)), placed.bias.rows(0, T, S)[0], rtol=0, atol=0
    )


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_equals_attention() -> None:
    alibi, at = ALiBi(HEADS), positions.plain(S)
    q, k, v = torch.randn(3, 2, HEADS, S, 16, generator=torch.Generator().manual_seed(0))
    got = flex_attention(q, k, v, score_mod=alibi_score_mod(alibi.slopes, at))
    torch.testing.assert_close(got, attention(q, k, v, alibi.at(at)))
