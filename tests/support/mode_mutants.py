"""Encodings whose results depend on the mode, the memory layout or the device, each rejected by a law."""

from functools import partial

import torch
from torch import Tensor

from posenc import Placed
from posenc.encodings.placed import KeyPositions, Positions
from posenc.encodings.rotary import rotate
from support.broken import BrokenRotary, Retabled, Rotates
from support.mutants import Mutant
from support.plumbing import independence, modes, survival


class RoundsWithoutGradients(BrokenRotary):
    """Computes in the dtype of the tables if gradients are disabled, which rounds wider queries."""

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        placed = super().place(q_positions, k_positions, dtype)
        long, (cos, sin) = placed.rotate, self.tables(q_positions, dtype)

        def turn(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
            if torch.is_grad_enabled():
                return long(q, k)
            return rotate(q.to(dtype), cos, sin, "half").to(q), rotate(k.to(dtype), cos, sin, "half").to(k)

        placed.rotate = turn  # type: ignore[method-assign]
        return placed


class LazyTables(BrokenRotary):
    """Makes tables in the mode of the first rotation, and keeps these tables."""

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        placed = super().place(q_positions, k_positions, dtype)
        kept: list[tuple[Tensor, Tensor]] = []

        def turn(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
            if not kept:
                kept.extend(self.tables(positions, dtype) for positions in (q_positions, k_positions))
            return rotate(q, *kept[0], "half"), rotate(k, *kept[1], "half")

        placed.rotate = turn  # type: ignore[method-assign]
        return placed


class ByReference(BrokenRotary):
    """Reads the caller's tensor of positions at every rotation instead of a copy."""

    def check(self, positions: Positions, name: str) -> None:
        super().check(positions, name)
        self.given = positions

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return super().place(self.given, self.given, dtype)


MUTANTS = [
    Mutant("another way without gradients", RoundsWithoutGradients, modes.is_the_same_without_gradients),
    Mutant("a wider type rounded at position 0", RoundsWithoutGradients, modes.passes_position_zero_exactly),
    Mutant("tables kept from any mode", LazyTables, modes.may_first_be_used_anywhere),
    Mutant("positions by reference", ByReference, modes.keeps_the_positions_it_was_given),
    Mutant(
        "the last of no positions",
        partial(Retabled, lambda tables, at, dtype: tables(at + 0 * at.amax(), dtype)),
        independence.takes_no_tokens,
    ),
    Mutant(
        "strides not looked at",
        partial(
            Rotates, lambda turn, q, k: turn(q.as_strided(q.shape, torch.empty(q.shape, device="meta").stride()), k)
        ),
        independence.strides_change_nothing,
    ),
    Mutant(
        "numbers on the default device",
        partial(Retabled, lambda tables, at, dtype: [table * torch.ones(4) for table in tables(at, dtype)]),
        survival.survives_another_default_device,
    ),
]
"""The mutants of this file, in the form of mutants.py."""
