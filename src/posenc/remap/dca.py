"""Dual Chunk Attention (DCA) uses each key's index within its chunk as the key's position (An et al. 2024, arXiv
2402.17463, section 3).

    s tokens per chunk, c = s + w:        key at p mod s
    keys of the query's chunk:            query at p mod s
    keys of the chunk before:             query at min(p mod s + s, c − 1)
    keys of earlier chunks:               query at c − 1

All distances are then below c. The w tokens before a query keep their distances to the query, and keys are
rotated only once.
"""

import math
from typing import ClassVar, final

import torch
from torch import Tensor

from posenc.arguments import Size
from posenc.encodings.placed import RemappedPart
from posenc.encodings.rotary import Rotary
from posenc.errors import InvalidArgument
from posenc.remap.remap import At, Remap


@final
class DCA(Remap):
    """Computes distances by different rules for keys in the query's chunk, in the previous chunk and in earlier
    chunks. A cache stores each key rotated to p mod ``chunk``, where p is the key's position.

    For keys of earlier chunks, the authors' code sets the position of queries to chunk + local, not
    chunk + local − 1. The authors' code also multiplies cos and sin by YaRN's attention factor for the request's
    length. To apply this factor here, pass a ``Rotary`` with ``YaRN``.

    Args:
        rotary: the model's own rotary encoding.
        chunk: s, the number of tokens in a chunk; the authors take about three quarters of the trained length and
            subtract ``local``.
        local: w, the number of tokens before a query that keep their distance across chunks; chunk + local must
            be at most the trained length.
    """

    name: ClassVar[str] = "dca"
    relative = False

    def __init__(self, rotary: Rotary, chunk: Size, local: Size) -> None:
        super().__init__(rotary)
        self.chunk, self.local = chunk, local
        if local > chunk:
            raise InvalidArgument(
                f"local={local} must be at most chunk={chunk}, because a query's local keys must be in its own "
                "chunk or the one before"
            )

    def cached(self, positions: Tensor) -> Tensor:
        return positions % self.chunk

    def parts(self, q: Tensor, k: Tensor, at: At) -> tuple[RemappedPart, ...]:
        place, s, last = q % self.chunk, self.chunk, self.chunk + self.local - 1
        start = q - place
        return (
            RemappedPart(at(place), None, start),
            RemappedPart(at((place + s).clamp(max=last)), None, start - s, start),
            RemappedPart(at(torch.full_like(q, last)), None, None, start - s),
        )

    def longest(self, trained: int) -> float:
        return math.inf if self.chunk + self.local <= trained else trained
