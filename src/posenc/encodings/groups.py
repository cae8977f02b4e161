"""Rotation by tables with gradients, or with one for each group of heads: what learned rotations share."""

import copy
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.encodings.encoding import check_heads
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.errors import InvalidArgument
from posenc.kernels.rotary import Tables, rotate, rotate_both, tables
from posenc.kernels.rotary.specification import Pairing

Pair = tuple[Tensor, Tensor]
"""cos and sin."""


@runtime_checkable
class Turns(Protocol):
    """An encoding that gives one cos and one sin per group of heads, position and pair."""

    head_dim: int
    groups: int
    heads: int | None
    axes: int
    pairing: Pairing

    def tables(self, positions: Positions, dtype: torch.dtype = ...) -> tuple[Tensor, Tensor]: ...


class PlacedGroups(Placed):
    """cos and sin ``(B or 1, groups, T, pairs)`` at the queries' positions; those of other keys are made when they
    turn."""

    def __init__(
        self, encoding: Turns, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype
    ) -> None:
        super().__init__(q_positions, k_positions, encoding.axes)
        self.encoding, self.dtype, self.of_groups = encoding, dtype, slice(None)
        self.q_tables = encoding.tables(q_positions, dtype)

    def some_heads(self, first: int, last: int) -> Placed:
        own = self.encoding
        if own.groups == 1:
            return self
        if own.heads is None or own.heads % own.groups:
            raise InvalidArgument(
                f"heads={own.heads} with groups={own.groups}: to give a rank some heads, say how many there are"
            )
        size = own.heads // own.groups
        whole = first % size == 0 and last % size == 0
        if not whole and first // size != (last - 1) // size:
            raise InvalidArgument(
                f"first={first} and last={last} cut groups of {size} heads; take whole groups, or part of one"
            )
        some = copy.copy(self)
        some.of_groups = slice(first // size, (last - 1) // size + 1)
        return some

    def rotate(
        self, q: Float[Tensor, "B H T D"], k: Float[Tensor, "B K S D"]
    ) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B K S D"]]:
        self.check_current()
        own, alike = self.encoding, self.meets_cache(k) or self.k_positions is self.q_positions
        check_heads("q", q, self.q_positions, own.head_dim, own.axes)
        check_heads("k", k, self.q_positions if alike else self.k_positions, own.head_dim, own.axes)
        q_tables, q_fixed = self._for_heads("q", q.shape[1])
        k_tables, k_fixed = self._for_heads("q" if alike else "k", k.shape[1])
        turned = rotate_both(q, k, q_fixed, k_fixed, own.pairing)
        if not (q_tables[0].requires_grad or q_tables[1].requires_grad):
            return turned
        # Engines take tables without gradients. These come with a rotation by zero, which changes no number, so
        # that numbers are the same whether gradients are recorded or not.
        return (
            _with_gradients(turned[0], q, q_tables, own.pairing),
            _with_gradients(turned[1], k, k_tables, own.pairing),
        )

    def _for_heads(self, whose: str, heads: int) -> tuple[Pair, Tables]:
        """The tables of so many heads, with gradients and without."""
        found = self.q_tables if whose == "q" else self.once("k", self._of_keys)
        if found[0].shape[1] == 1:
            return found, self.once((whose, 1), lambda: self._fixed(found))
        own = self.of_groups
        some = self.once((whose, heads, own.start, own.stop), lambda: for_heads(heads, *(t[:, own] for t in found)))
        return some, self._fixed(some)

    def _of_keys(self) -> Pair:
        return self.encoding.tables(self.k_positions, self.dtype)

    def _fixed(self, own: Pair) -> Tables:
        cos, sin = (table.detach() for table in own)
        return tables(cos, sin, self.encoding.pairing, self.encoding.head_dim, "auto")


def for_heads(heads: int, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Tables of groups ``(#B, groups, T, pairs)`` for so many heads: consecutive heads are a group."""
    groups = cos.shape[1]
    if heads % groups:
        raise InvalidArgument(
            f"there are {heads} heads and groups={groups}; the heads of queries and of keys must both be a "
            "multiple of it"
        )
    if groups == 1:
        return cos, sin
    return cos.repeat_interleave(heads // groups, dim=1), sin.repeat_interleave(heads // groups, dim=1)


def _with_gradients(turned: Tensor, x: Tensor, own: tuple[Tensor, Tensor], pairing: Pairing) -> Tensor:
    """x as it was turned by these tables, plus its rotation by zero, which has their gradients."""
    cos, sin = (table - table.detach() for table in own)
    n = 2 * cos.shape[-1]
    more = turned[..., :n] + rotate(x[..., :n], cos, sin, pairing)
    return more if n == x.shape[-1] else torch.cat((more, turned[..., n:]), dim=-1)
