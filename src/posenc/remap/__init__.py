"""RoPE at remapped positions, so that sequences beyond the trained length use only distances that occurred in
training.

    encoding = posenc.remap.SelfExtend(posenc.Rotary(128, pairing="half"), group=8, window=1024)
    placed = encoding.at(positions)
    q, k = placed.rotate(q, k)                                  # queries unrotated, keys as a cache stores them
    y = posenc.attention(q, k, v, placed, causal=True)

Near keys keep their distance to a query, and distant keys get a different distance. A single rotation of q and k
cannot do both, so a remapped encoding has a few *parts*. Each part has its own query positions (and sometimes
key positions) and its own range of distances. Every visible key is in exactly one part. Attention is computed
for each part, and results are merged using their logsumexps. The merged result is exact: no key is counted
twice, and attention sinks are added once.
"""

from posenc.remap.dca import DCA as DCA
from posenc.remap.remap import Remap as Remap
from posenc.remap.remap import remapped as remapped
from posenc.remap.rerope import ReRoPE as ReRoPE
from posenc.remap.self_extend import SelfExtend as SelfExtend
from posenc.remap.string import STRING as STRING
