"""A law of what is divided: a sequence over ranks that hold its first and last part still free."""

import torch

from posenc.attend import attention
from posenc.laws.law import law, near
from posenc.laws.sharding import RANKS, chunks, layers
from posenc.laws.subject import Subject


@law()
def zigzag_is_whole(subject: Subject) -> None:
    """So do ranks that hold the first and the last part still free, keys gathered in the order of ranks.

    A bias that sums along the sequence does so in ``Bias.ordered``, along ``q_order`` and ``k_order``.
    """
    for layer in layers(subject):
        parts = chunks(layer.q.shape[2], 2 * RANKS)
        shards = [torch.cat((parts[i], parts[-1 - i])) for i in range(len(parts) // 2)]
        gathered = torch.cat(shards)
        for rank, tokens in enumerate(shards):
            what = f"rank {rank} with tokens {tokens.tolist()}, layer {layer.layer}"
            near(attention(*layer.call(tokens, gathered)), layer.unsharded[:, :, tokens], what=what)


LAWS = (zigzag_is_whole,)
