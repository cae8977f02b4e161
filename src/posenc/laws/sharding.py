"""Laws of sharding: sequences sharded over ranks in any order, ring attention, preallocated caches, and heads
sharded over ranks.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from posenc.attend import attention
from posenc.encodings.placed import Placed
from posenc.kernels.attention.softmax import merge
from posenc.laws.effects import Layer, inputs, layers
from posenc.laws.law import law, near
from posenc.laws.subject import Subject, each_layer
from posenc.mask import Mask

RANKS = 4


def call(
    layer: Layer, queries: Tensor, keys: Tensor, **more: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Placed, Mask]:
    """Return the arguments of ``attention`` for these queries and keys, which are rotated at their positions. The
    mask contains the order of the queries and keys.
    """
    here, q, k = layer.rotated(queries, keys)
    mask = Mask(causal=True, **{"q_order": queries, "k_order": keys, **more})  # type: ignore[arg-type]
    return q, k, layer.v[:, :, keys], here, mask


def unsharded(subject: Subject) -> list[tuple[Layer, Tensor]]:
    """Return every layer of the subject with one sequence as input, and the output of the layer for the whole
    sequence.
    """
    length = subject.longest(16) // (2 * RANKS) * 2 * RANKS or subject.longest(16)
    given, every = inputs(subject, length, torch.float64), torch.arange(length)
    return [
        (layer, attention(*call(layer, every, every)))
        for layer in layers(subject, subject.build().double(), subject.plain(length), given)
    ]


def divisions(length: int) -> dict[str, Sequence[Tensor]]:
    """Return several ways to divide a sequence over ranks; each is a list of the ranks' token indices."""
    parts = torch.arange(length).chunk(2 * RANKS)
    return {
        "in one piece": torch.arange(length).chunk(RANKS),
        "zig-zag": [torch.cat((parts[i], parts[-1 - i])) for i in range(len(parts) // 2)],
        "permuted": [torch.randperm(length, generator=torch.Generator().manual_seed(5))],
    }


@law()
def sharded_is_whole(subject: Subject) -> None:
    """Queries sharded over ranks in any order, with gathered keys, give the outputs of the whole sequence.

    Compute a bias from the positions of queries and keys (``q_positions`` and ``k_positions``), not from their
    indices in the shard. If the bias sums along the sequence, override ``Bias.ordered`` and use ``q_order`` and
    ``k_order``.
    """
    for layer, want in unsharded(subject):
        for division, shards in divisions(layer.q.shape[2]).items():
            # Every rank rotates its own keys; rotated keys are gathered in the order of ranks.
            keys = torch.cat(list(shards))
            rotated = [call(layer, tokens, tokens)[1] for tokens in shards]
            for tokens in shards:
                q, _, v, here, mask = call(layer, tokens, keys)
                got = attention(q, torch.cat(rotated, 2), v, here, mask)
                what = f"tokens {tokens.tolist()}, sharded {division}, layer {layer.number}"
                near(got, want[:, :, tokens], what=what)


def _no_ring(subject: Subject) -> str:
    if subject.needs_scores:
        return "the bias reads the scores of all keys of a row"
    layers_apart = each_layer(subject.declared.at(subject.plain(1)), subject.period)
    states = any(here.state_size for _, here in layers_apart)
    return "the bias sums over the tokens between query and key, and a rank has only some of them" if states else ""


@law(_no_ring)
def ring_is_whole(subject: Subject) -> None:
    """Attention to parts of the keys, merged by logsumexps, gives the same outputs as attention to all keys.

    Return complete values from ``Bias.rows``. Omitting a constant from a row does not change softmax, but it
    changes merged outputs.
    """
    for layer, want in unsharded(subject):
        shards = torch.arange(layer.q.shape[2]).chunk(RANKS)
        for rank, tokens in enumerate(shards):
            parts = [attention(*call(layer, tokens, keys), return_logsumexp=True) for keys in shards]
            near(merge(parts)[0], want[:, :, tokens], what=f"rank {rank} of {RANKS}, layer {layer.number}")


@law(lambda subject: "" if subject.kv_heads > 1 else "all heads share one key-value head")
def heads_are_whole(subject: Subject) -> None:
    """Heads that are sharded over ranks with ``slice_heads`` give the same outputs as all heads together.

    Keep an axis for heads in the bias and the scale, and override ``Placed.slice_heads`` if a rotation has
    parameters per head.
    """
    group = subject.heads // subject.kv_heads
    for layer, want in unsharded(subject):
        every = torch.arange(layer.q.shape[2])
        for shared in range(subject.kv_heads):
            first, last = shared * group, (shared + 1) * group
            here = layer.at(every, every).slice_heads(first, last)
            q, k = here.rotate(layer.q[:, first:last], layer.k[:, shared : shared + 1])
            got = attention(q, k, layer.v[:, shared : shared + 1], here, causal=True)
            near(got, want[:, first:last], what=f"heads {first} to {last - 1}, layer {layer.number}")


@law()
def slots_are_a_cache(subject: Subject) -> None:
    """A preallocated cache, filled from the left or the right, gives the same outputs as a growing cache.

    Use ``k_positions``, because the index of a slot is not its position.
    """
    for layer, want in unsharded(subject):
        S = layer.q.shape[2]
        tokens, empty = torch.arange(S), torch.zeros(5, dtype=torch.int64)  # filled slots
        for side, slots in {"left": (tokens, empty), "right": (empty, tokens)}.items():
            order = torch.arange(S + 5) - (0 if side == "left" else 5)
            # If a cache is filled from the left, its empty slots are in the future, so causality hides them.
            filled = None if side == "left" else (order >= 0).expand(2, -1)
            got = attention(*call(layer, tokens[-3:], torch.cat(slots), k_order=order, key_mask=filled))
            near(got, want[:, :, -3:], what=f"slots filled from the {side} in layer {layer.number}")
