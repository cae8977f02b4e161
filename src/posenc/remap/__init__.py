"""RoPE at remapped positions: text beyond the trained length at distances seen in training.

    encoding = posenc.remap.SelfExtend(posenc.Rotary(128, pairing="half"), group=8, window=1024)
    placed = encoding.at(positions)
    q, k = placed.rotate(q, k)                                  # queries unrotated, keys as a cache stores them
    y = posenc.attention(q, k, v, placed, causal=True)

Near keys keep their distance to a query and far keys get another one, which no single rotation of q and k can do. A
remapped encoding has a few *parts*, each with its own positions of queries, perhaps of keys, and a range of
distances whose keys it sees. Every visible key is in one part. Attention rotates for each part, attends, and merges
the results by their logsumexps, which is exact: no key is counted twice, and sinks are added once.
"""

from posenc.remap.dca import DCA as DCA
from posenc.remap.remap import Remap as Remap
from posenc.remap.remap import remapped as remapped
from posenc.remap.rerope import ReRoPE as ReRoPE
from posenc.remap.self_extend import SelfExtend as SelfExtend
from posenc.remap.string import STRING as STRING
