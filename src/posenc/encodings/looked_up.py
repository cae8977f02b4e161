"""Computes the biases q·A or k·A in O(H·T·R) memory; the offset picks one of the R columns of the table A.

    q side:  scale·q_i·A[:, column(p_j − p_i)]        k side:  scale·k_j·A[:, column(p_j − p_i)]

A column of A has n channels. Gathering one column for each of T queries and S keys would need a T×S×n tensor.
Instead, every query (or key) is multiplied by all R columns, and the offset picks one of these R products. Products
are computed block by block, when attention asks for rows.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

from posenc.encodings.bias import Bias, check_channels, consecutive, offsets
from posenc.encodings.wide import product
from posenc.kernels.attention.softmax import repeat_kv
from posenc.kernels.memory import is_concrete
from posenc.pytrees import Pytree

TILE = 128
"""The number of keys in a tile. All keys of a tile are multiplied by the same columns. If a block has as many rows
as a tile has keys, half of the products are unused.
"""


class Rows(Pytree, ABC):
    """A function from an offset (key position − query position) to the index of a row of a table of vectors. With
    several axes, the first dimension of the offsets indexes the axis.
    """

    @abstractmethod
    def __call__(self, offsets: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape2"]:
        """Return the table row of every offset."""


class LookedUp(Bias):
    """The base class of biases that multiply queries or keys by a table.

    Args:
        table: the table A, ``(H, n, R)`` or ``(1, n, R)`` if heads share it, float32 or wider.
        column: the function from an offset to the index of a column of A. (``Rows`` calls this column a row.)
        heads: H.
    """

    def __init__(
        self, table: Float[Tensor, "#H n R"], column: Rows, heads: int, q_positions: Tensor, k_positions: Tensor
    ) -> None:
        self.table, self.column, self.heads = table, column, heads
        self.q_positions, self.k_positions = q_positions, k_positions
        self.derive()

    def derive(self) -> None:
        self.consecutive = consecutive(self.q_positions, self.k_positions)


class QueryTable(LookedUp):
    """A bias that multiplies every query by the column that the offset picks.

    Args:
        table, column, heads: as in ``LookedUp``.
        added: a vector per head, which is added to the head's queries before they are multiplied by the table.
        scaled: whether products are multiplied by the scale of q·k.
    """

    indexed_by: ClassVar[dict[str, str]] = {
        "table": "h··",
        "added": "h··",
        "queries": "bhq·",
        "q_positions": "bq",
        "k_positions": "bk",
    }
    queries: Float[Tensor, "B H T n"] | None = None
    """The scaled queries; None until queries are known."""

    def __init__(
        self,
        table: Float[Tensor, "#H n R"],
        column: Rows,
        heads: int,
        q_positions: Tensor,
        k_positions: Tensor,
        *,
        added: Float[Tensor, "H 1 n"] | None = None,
        scaled: bool = True,
    ) -> None:
        self.added, self.scaled = added, scaled
        super().__init__(table, column, heads, q_positions, k_positions)

    def meeting(self, q: Tensor, k: Tensor, scale: float) -> Bias:
        if self.queries is not None:  # already set, as by Inkling
            return self
        check_channels("q", q, self.table.shape[1])
        q = q.to(torch.promote_types(q.dtype, torch.float32))
        q = q if self.added is None else q + self.added
        # A view, so that tables that use the same queries get separate gradients.
        return self.changed(queries=q * scale if self.scaled else q.view_as(q))

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "B H rows S"]:
        assert self.queries is not None
        queries = self.queries[:, :, first:last]
        if self.consecutive:
            return self._along(queries, first, start, keys)
        products = product(queries, self.table)
        picked = self.column(offsets(self.q_positions, self.k_positions, first, last, keys, start))
        return products.gather(-1, expand_to_heads(picked, products))

    def far(self, first: int, last: int) -> tuple[int, Float[Tensor, "B H rows 1"]] | None:
        assert self.queries is not None
        if not self.consecutive:
            return None
        columns = self._columns(first, last, len(self.k_positions))
        # Row 0 has column rows − 1 + j at key j.
        n = min(len(self.k_positions) - len(self.q_positions) + first, distinct(columns)[0] + 2 - last + first)
        return (n, product(self.queries[:, :, first:last], self.table[..., columns[:1]])) if n > 0 else None

    def _columns(self, first: int, last: int, keys: int, begin: int = 0) -> Int[Tensor, " offsets"]:
        """Return the column of every offset in a block of consecutive positions, in ascending order of offsets."""
        start = self.k_positions.shape[0] - self.q_positions.shape[0] + first
        device = self.q_positions.device
        return self.column(torch.arange(1 + first - last - start + begin, keys - start, device=device))

    def _along(self, queries: Tensor, first: int, begin: int, keys: int) -> Float[Tensor, "B H rows near"]:
        """Return the bias for positions that count up by one. Every query is multiplied by the columns of all
        offsets in the block; a column that all offsets at one end share, as in Shaw's table, is multiplied once.
        Row i of the bias starts at element ``rows − 1 − i`` of row i of these products, so the bias is a view of
        the products.
        """
        rows = queries.shape[2]
        columns = self._columns(first, first + rows, keys, begin)
        low, high = distinct(columns)
        products = product(queries, self.table.index_select(-1, columns[low:high])).contiguous()
        if high - low != len(columns):
            before, after = products[..., :1].expand(-1, -1, -1, low), products[..., -1:]
            products = torch.cat((before, products, after.expand(-1, -1, -1, len(columns) - high)), -1)
        sizes, (batch, head, row, _) = (*products.shape[:2], rows, keys - begin), products.stride()
        return products.as_strided(sizes, (batch, head, row - 1, 1), rows - 1)


class KeyTable(LookedUp):
    """A bias that multiplies every key by the column that the offset picks. The arguments are the same as in
    ``LookedUp``.
    """

    indexed_by: ClassVar[dict[str, str]] = {
        "table": "h··",
        "keys": "bhk·",
        "q_positions": "bq",
        "k_positions": "bk",
    }
    keys: Float[Tensor, "B H S n"] | None = None

    def meeting(self, q: Tensor, k: Tensor, scale: float) -> Bias:
        check_channels("k", k, self.table.shape[1])
        k = k.to(torch.promote_types(k.dtype, torch.float32))
        return self.changed(keys=repeat_kv(k, q.shape[1]) * scale)

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "B H rows S"]:
        assert self.keys is not None
        if self.consecutive and self.table.shape[-1] > 1:
            return self._along(first, last, start, keys)
        products = product(self.table.mT, self.keys[:, :, start:keys].mT)
        if products.shape[-2] == 1:
            return products.expand(-1, -1, last - first, -1)
        picked = self.column(offsets(self.q_positions, self.k_positions, first, last, keys, start))
        return products.gather(-2, expand_to_heads(picked, products))

    def _along(self, first: int, last: int, begin: int, keys: int) -> Float[Tensor, "B H rows S"]:
        """Return the bias for positions that count up by one. Each tile of keys, from the last tile to the first,
        is multiplied by the columns of all its offsets. In a tile of ``size`` keys, the bias of key j starts at
        element ``size − 1 − j`` of the key's products, so the bias of the tile is a view of the products.
        """
        assert self.keys is not None
        rows, start = last - first, self.k_positions.shape[0] - self.q_positions.shape[0] + first
        size, nearest = min(TILE, keys - begin), begin - start
        tiles = -(-(keys - begin) // size)
        tile_offsets = torch.arange(tiles * size - 1 + nearest, nearest - rows, -1, device=self.k_positions.device)
        columns = (
            self.table.index_select(-1, self.column(tile_offsets)).unfold(-1, rows + size - 1, size).transpose(1, 2)
        )
        padded = pad(self.keys[:, :, begin:keys], (0, 0, 0, tiles * size - keys + begin))
        products = product(padded.unflatten(2, (tiles, size)).flip(2), columns).contiguous()
        tile, width = products.stride()[:3], rows + size - 1
        skewed = products.as_strided((*products.shape[:3], rows, size), (*tile, 1, width - 1), size - 1)
        return skewed.flip(2).transpose(2, 3).flatten(-2)[..., : keys - begin]


def distinct(columns: Int[Tensor, " offsets"]) -> tuple[int, int]:
    """Return the first index and the end of a range of columns. Every column before the range equals its first
    column, and every column after it equals its last column. If this would leave out less than half of the columns,
    or if a compiler records this call, the range has all columns.
    """
    if not is_concrete(columns):
        return 0, len(columns)
    changes = columns.diff().nonzero()
    low, high = (int(changes[0]), int(changes[-1]) + 2) if len(changes) else (0, 1)
    return (low, high) if 2 * (high - low) < len(columns) else (0, len(columns))


def expand_to_heads(
    picked: Int[Tensor, "*B rows S"], products: Float[Tensor, "B H n m"]
) -> Int[Tensor, "B H rows S"]:
    """Expand column indices to every head of every sequence."""
    picked = picked if picked.dim() == 2 else picked.unsqueeze(1)
    return picked.expand(*products.shape[:2], *picked.shape[-2:])
