"""Relative biases as FlexAttention score modifiers: no bias is ever stored, forward or backward.

    from torch.nn.attention.flex_attention import flex_attention
    y = torch.compile(flex_attention)(q, k, v, score_mod=alibi_score_mod(alibi.slopes, positions))

For CUDA devices. On the CPU FlexAttention has no backward (torch 2.13), and ``posenc.attention`` is as fast.
Masks (causal, documents, padding) are its ``block_mask``'s business.
"""

from collections.abc import Callable

from jaxtyping import Float, Int
from torch import Tensor

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""``score_mod(score, b, h, q_index, k_index)``, every index an integer scalar."""


def alibi_score_mod(
    slopes: Float[Tensor, " H"],
    q_positions: Int[Tensor, " T"] | Int[Tensor, "B T"],
    k_positions: Int[Tensor, " S"] | Int[Tensor, "B S"] | None = None,
) -> ScoreMod:
    """score − m_h·|p_k − p_q|, at any positions: with a cache, packed, left-padded.

    ``k_positions`` are the keys' where they differ, as with a cache.
    """
    keys = q_positions if k_positions is None else k_positions

    def score_mod(score: Tensor, b: Tensor, h: Tensor, q_index: Tensor, k_index: Tensor) -> Tensor:
        q = q_positions[q_index] if q_positions.dim() == 1 else q_positions[b, q_index]
        k = keys[k_index] if keys.dim() == 1 else keys[b, k_index]
        return score - slopes[h] * (k - q).abs()

    return score_mod


def line_score_mod(line: Float[Tensor, "H offsets"], ahead: int = 0) -> ScoreMod:
    """score + line[h, offset + S − 1]: any bias held along a line of the offsets −(S−1) … S−1.

    ``ahead`` is how many keys stand before the first query's own: S − T with a cache. ``PlacedBias.line`` holds
    such a line; gradients flow to it.
    """
    zero = (line.shape[1] - 1) // 2

    def score_mod(score: Tensor, b: Tensor, h: Tensor, q_index: Tensor, k_index: Tensor) -> Tensor:
        return score + line[h, k_index - q_index - ahead + zero]

    return score_mod
