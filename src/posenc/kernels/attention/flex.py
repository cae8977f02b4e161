"""Masks and relative biases with FlexAttention, which does not store masks or biases and skips fully masked blocks.

    y = flexible(q, k, v, alibi_score_mod(alibi.slopes, positions, positions), mask, scale=0.125)

On CUDA devices, FlexAttention is used instead of attention in blocks of query rows. On the CPU, FlexAttention has
no backward pass (torch 2.13). Tests compare FlexAttention with attention from dense scores, uncompiled on the CPU
and compiled on a GPU (tests/test_cuda.py).
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.kernels.memory import is_concrete

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""``score_mod(score, b, h, q_index, k_index)``; every index is an integer scalar."""


MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""``mask_mod(b, h, q_index, k_index)``, true if the query may see the key."""


@lru_cache
def compiled() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return FlexAttention and its mask builder, compiled once per process. Without compilation, both store L×L
    tensors.
    """
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    return torch.compile(flex_attention), torch.compile(create_block_mask)


def sums_of_rows() -> dict[str, Any]:
    """Return the argument that makes FlexAttention return the logsumexp in this version of torch."""
    from torch.nn.attention import flex_attention

    request = getattr(flex_attention, "AuxRequest", None)  # new in torch 2.9
    return {"return_lse": True} if request is None else {"return_aux": request(lse=True)}


_BLOCK_MASKS: dict[tuple[object, ...], tuple[tuple[object, ...], Any]] = {}

GRAPHS = 256
"""The largest number of compiled graphs of FlexAttention. Each combination of encoding, mask and dtype needs its
own graph, and training needs a different graph from inference. Torch's own limit is eight; beyond the limit,
FlexAttention runs uncompiled and stores L×L tensors.
"""

FEW = 8
"""The number of cached block masks. A model needs one block mask per layer type."""


def block_mask_of(
    mask_mod: MaskMod, made_of: tuple[object, ...], sizes: tuple[int | None, ...], device: str
) -> Any:
    """Return FlexAttention's block mask: which blocks contain visible scores. All layers whose masks have the same
    tensors share one block mask.

    Tensors count as the same if they are the same objects and have not been modified since the shared block mask
    was computed.
    """
    tensors = [x for x in made_of if isinstance(x, Tensor)]
    if not is_concrete(*tensors):
        return compiled()[1](mask_mod, *sizes, device=device)
    versions = ((id(x), None if x.is_inference() else x._version) if isinstance(x, Tensor) else x for x in made_of)
    key = *versions, sizes, device
    if key not in _BLOCK_MASKS:
        while len(_BLOCK_MASKS) >= FEW:
            del _BLOCK_MASKS[next(iter(_BLOCK_MASKS))]
        # The tensors are stored too, so that their ids are not reused.
        _BLOCK_MASKS[key] = made_of, compiled()[1](mask_mod, *sizes, device=device)
    return _BLOCK_MASKS[key][1]


def flexible(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    score_mod: ScoreMod | None,
    mask_mod: MaskMod | None,
    scale: float,
    made_of: tuple[object, ...] = (),
    mask_heads: int | None = None,
    return_logsumexp: bool = False,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H T"] | None]:
    """Compute attention, and also its logsumexp if requested. The output of a query that sees no key is zero.

    Scores are q·kᵀ·scale, changed by ``score_mod`` and masked by ``mask_mod``.

    ``made_of`` contains all numbers and tensors on which ``mask_mod`` depends. ``mask_heads`` is the number of
    heads of the mask; None if all heads share the mask.
    """
    sizes = q.shape[0], mask_heads, q.shape[2], k.shape[2]
    with torch._dynamo.config.patch(recompile_limit=GRAPHS):
        block_mask = None if mask_mod is None else block_mask_of(mask_mod, made_of, sizes, str(q.device))
        y = compiled()[0](
            q,
            k,
            v,
            score_mod=score_mod,
            block_mask=block_mask,
            scale=scale,
            enable_gqa=bool(q.shape[1] != k.shape[1]),
            **(sums_of_rows() if return_logsumexp else {}),
        )
    if not return_logsumexp:
        return y, None
    out, sums = y
    return out, getattr(sums, "lse", sums)


def alibi_score_mod(
    slopes: Float[Tensor, " H"],
    q_positions: Int[Tensor, " T"] | Int[Tensor, "B T"],
    k_positions: Int[Tensor, " S"] | Int[Tensor, "B S"],
) -> ScoreMod:
    """Return the ``score_mod`` of ALiBi, score − m_h·|p_k − p_q|, for any positions, such as those of
    packed or left-padded rows.
    """

    def score_mod(score: Tensor, b: Tensor, h: Tensor, q_index: Tensor, k_index: Tensor) -> Tensor:
        distance = (picked(k_positions, b, k_index) - picked(q_positions, b, q_index)).abs()
        return score - slopes[h] * distance

    return score_mod


def capped_score_mod(softcap: float, added: ScoreMod | None, device: torch.device) -> ScoreMod:
    """Return a ``score_mod`` that computes softcap·tanh(score/softcap) and then applies ``added``."""
    cap = as_tensor(softcap, device)

    def score_mod(score: Tensor, b: Tensor, h: Tensor, q_index: Tensor, k_index: Tensor) -> Tensor:
        capped = cap * torch.tanh(score / cap)
        return capped if added is None else added(capped, b, h, q_index, k_index)

    return score_mod


def mask_mod(sees: Callable[[dict[str, Tensor]], Tensor | None], known: dict[str, Tensor]) -> MaskMod:
    """Return the predicate ``sees`` as a FlexAttention ``mask_mod``, which is called with one query and one key.

    ``known`` contains the tensors that ``sees`` reads, by name, with axes for the batch, heads, queries and keys.
    An axis along which values are constant has size 1. The tensor of a single number, such as the window, has no
    axes.
    """

    def picks(b: Tensor, h: Tensor, q_index: Tensor, k_index: Tensor) -> Tensor:
        visible = sees({name: picked(x, b, h, q_index, k_index) for name, x in known.items()})
        return k_index >= 0 if visible is None else visible

    return picks


def as_tensor(number: float, device: torch.device) -> Tensor:
    """Convert a number to a tensor for FlexAttention. torch.compile makes a Python number symbolic when its
    value changes, and FlexAttention cannot compile symbolic numbers (torch 2.11: ``LoweringException``).
    """
    return torch.full((), number, device=device)  # filled on the device, since a copy would wait for it


def picked(x: Tensor, *index: Tensor) -> Tensor:
    """Return the value of x at these indices of its last axes. On an axis of size 1, index 0 replaces the given
    index, so that x broadcasts.
    """
    # i * 0, because torch 2.8 refuses a mixture of tensors and ints
    at = tuple([i if n > 1 else i * 0 for i, n in zip(index[len(index) - x.dim() :], x.shape, strict=True)])
    return x[at] if at else x


def table_score_mod(
    table: Float[Tensor, "offsets H"], bound: int, q_positions: Tensor, k_positions: Tensor
) -> ScoreMod:
    """Return a ``score_mod`` that adds the table's value for the offset p_k − p_q. Offsets are clamped to
    ±``bound``; row 0 of the table is for offset −``bound``.
    """

    furthest = as_tensor(bound, table.device)

    def score_mod(score: Tensor, b: Tensor, h: Tensor, q_index: Tensor, k_index: Tensor) -> Tensor:
        apart = picked(k_positions, b, k_index) - picked(q_positions, b, q_index)
        return score + table[apart.clamp(-furthest, furthest) + furthest, h]

    return score_mod
