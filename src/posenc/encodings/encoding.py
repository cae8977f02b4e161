"""What an encoding is: a module that, placed at positions, acts on a transformer through at most three doors.

    placed = encoding.at(positions)                          # all work that depends on positions alone
    x = placed.embed(x)                                      # token embeddings
    here, carry = placed[layer].read(x, carry)               # what depends on content
    q, k = here.rotate(q, k)                                 # queries and keys, v never
    y = posenc.attention(q, k, v, here, sight=True)          # scores, through here.bias and here.scale

What it declares, laws and callers rely on.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, final

import torch
from torch import Tensor, nn

from posenc import positions as positions_module
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.errors import InvalidArgument
from posenc.sight import Sight


class Encoding(nn.Module, ABC):
    """A positional encoding. Subclasses are final: a new kind is a new file, not a subclass of an old kind."""

    name: ClassVar[str]
    """The name in the catalogue."""

    doors: tuple[str, ...]
    """Which of ``embed``, ``rotate``, ``bias`` and ``scale`` it uses."""

    relative: bool
    """Whether scores depend on offsets only, so that shifting every position changes nothing."""

    isometric: bool = True
    """Whether ``rotate`` keeps the lengths of vectors, and turns nothing at position 0."""

    axes: int = 1
    """Coordinates of a position. With A > 1 positions are ``(A, T)`` or ``(A, B, T)``."""

    signed: bool = False
    """Whether positions may be negative."""

    reads_content: bool = False
    """Whether a placed one must read tokens before attention can use it."""

    per_layer: bool = False
    """Whether every layer has a module of its own, with parameters of its own."""

    needs: tuple[str, ...] = ()
    """Facts of the model's shape that the weights depend on; see ``ModelShape``."""

    position_limit: int = positions_module.LIMIT
    """The first position that it has no value for."""

    @abstractmethod
    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        """The encoding at positions that were already checked. Called by ``at``."""

    @final
    def at(
        self,
        positions: Positions,
        k_positions: KeyPositions | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> Placed:
        """The encoding at these positions: does, once a forward, all work that depends on positions alone.

        Args:
            positions: int64 ``(T,)`` or ``(B, T)``, the positions of the queries (and of the token embeddings);
                ``(A, T)`` or ``(A, B, T)`` where the encoding has A > 1 axes.
            k_positions: the positions of the keys where they differ, as with a KV cache; default the same.
            dtype: of the tables computed here. float32 serves every model in float32 or below; pass float64
                for a float64 model.

        Raises:
            InvalidArgument: not int64, or another shape.
            PositionOutOfRange: outside the range that the encoding has a value for.
        """
        self.check(positions, "positions")
        if k_positions is None:
            return self.place(positions, positions, dtype)
        self.check(k_positions, "k_positions")
        if k_positions.device != positions.device:
            raise InvalidArgument(
                f"positions is on {positions.device} and k_positions on {k_positions.device}; "
                f"move one: k_positions.to({str(positions.device)!r})"
            )
        return self.place(positions, k_positions, dtype)

    def check(self, positions: Positions, name: str) -> None:
        """Refuse positions that this encoding has no value for."""
        positions_module.check(positions, name, self.position_limit, axes=self.axes, signed=self.signed)

    def sight(self, layer: int, sight: Sight | bool) -> Sight:
        """What layer ``layer`` may see of what the model may see; narrower only in ``Layers`` with windows."""
        return Sight.of(sight)

    def describe(self) -> str:
        """One line that says what it does."""
        return f"{self.name}: {self.extra_repr()}" if self.extra_repr() else self.name

    def reset_parameters(self) -> None:
        """Fill parameters and buffers as at construction (after ``to_empty`` on a module built on meta)."""
        _reset_below(self)


def _reset_below(module: nn.Module) -> None:
    """Reset every child that knows how to; of containers, which do not, their children."""
    for child in module.children():
        reset = getattr(child, "reset_parameters", None)
        _reset_below(child) if reset is None else reset()


def check_last(name: str, tensor: Tensor, size: int, argument: str) -> None:
    """Refuse a tensor whose last axis is not the size that the encoding was made for."""
    if tensor.shape[-1] != size:
        raise InvalidArgument(f"{name} has shape {tuple(tensor.shape)}; its last axis must be {argument}={size}")


def check_length(name: str, tensor: Tensor, positions: Positions, axis: int = -2, axes: int = 1) -> None:
    """Refuse a tensor that has not one row per position, or not one sequence per row of positions."""
    if tensor.shape[axis] != positions.shape[-1]:
        raise InvalidArgument(
            f"{name} has shape {tuple(tensor.shape)}, {tensor.shape[axis]} along its length, but the encoding "
            f"was placed at {positions.shape[-1]} positions; call at() with one position per token"
        )
    batched = positions.dim() == (2 if axes == 1 else 3)
    if batched and positions.shape[-2] not in (1, tensor.shape[0]):
        raise InvalidArgument(
            f"{name} has batch size {tensor.shape[0]} but the encoding was placed at {positions.shape[-2]} rows of "
            "positions; give one row per sequence, or one for all"
        )
