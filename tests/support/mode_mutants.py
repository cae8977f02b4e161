"""Encodings whose results depend on the mode, the memory layout or the device, each rejected by a law."""

import torch
from torch import Tensor

from posenc import Placed
from posenc.encodings.placed import KeyPositions, Positions
from posenc.encodings.rotary import rotate
from support.broken import BrokenRotary, Rotates, Turn
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


class TakenForContiguous(Rotates):
    """Reads queries as if they were contiguous in memory."""

    def turned(self, turn: Turn, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        strides = torch.empty(q.shape, device="meta").stride()
        return turn(q.as_strided(q.shape, strides), k)


class OnTheDefaultDevice(BrokenRotary):
    """Multiplies tables by numbers on the default device."""

    def tables(self, positions: Positions, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        cos, sin = super().tables(positions, dtype)
        return cos * torch.ones(cos.shape[-1]), sin


class LooksForTheLast(BrokenRotary):
    """Reduces positions, even if there are none."""

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return super().tables(positions + 0 * positions.amax(), dtype)


MUTANTS = [
    Mutant("another way without gradients", RoundsWithoutGradients, modes.is_the_same_without_gradients),
    Mutant("a wider type rounded at position 0", RoundsWithoutGradients, modes.passes_position_zero_exactly),
    Mutant("tables kept from any mode", LazyTables, modes.may_first_be_used_anywhere),
    Mutant("positions by reference", ByReference, modes.keeps_the_positions_it_was_given),
    Mutant("the last of no positions", LooksForTheLast, independence.takes_no_tokens),
    Mutant("strides not looked at", TakenForContiguous, independence.strides_change_nothing),
    Mutant("numbers on the default device", OnTheDefaultDevice, survival.survives_another_default_device),
]
"""The mutants of this file, in the form of mutants.py."""
