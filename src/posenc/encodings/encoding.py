"""What an encoding is: at given positions it acts on a transformer through at most three doors.

    placed = encoding.at(positions)                       # all work that depends on positions alone
    x = placed.embed(x)                                   # door 1: token embeddings
    q, k = placed.rotate(q, k)                            # door 2: queries and keys, v never
    y = posenc.attention(q, k, v, placed, causal=True)    # door 3: scores, through placed.bias

A door that an encoding does not use is the identity.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc import positions as positions_module
from posenc.encodings.bias import PlacedBias
from posenc.errors import InvalidArgument

Positions = Int[Tensor, " T"] | Int[Tensor, "B T"]
KeyPositions = Int[Tensor, " S"] | Int[Tensor, "B S"]


class Placed:
    """An encoding at given positions. Every door is the identity until a subclass opens it."""

    bias: PlacedBias | None = None
    """Door 3: what is added to the scores, read by ``posenc.attention``."""

    def __init__(self, q_positions: Positions, k_positions: KeyPositions) -> None:
        self.q_positions = q_positions
        self.k_positions = k_positions

    def embed(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """Door 1: the token embeddings, with their positions."""
        return x

    def rotate(
        self, q: Float[Tensor, "B H T D"], k: Float[Tensor, "B K S D"]
    ) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B K S D"]]:
        """Door 2: queries and keys, with their positions. Values have no door."""
        return q, k


class Encoding(nn.Module, ABC):
    """A positional encoding. Subclasses are final: a new kind is a new file, not a subclass of an old kind."""

    name: ClassVar[str]
    """The name in the catalogue."""

    doors: ClassVar[tuple[str, ...]]
    """Which of ``embed``, ``rotate`` and ``bias`` it uses."""

    relative: ClassVar[bool]
    """Whether scores depend on offsets only, so that shifting every position changes nothing."""

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
            positions: int64 ``(T,)`` or ``(B, T)``, the positions of the queries (and of the token embeddings).
            k_positions: the positions of the keys where they differ, as with a KV cache; default the same.
            dtype: of the tables computed here. float32 serves every model in float32 or below; pass float64
                for a float64 model.

        Raises:
            InvalidArgument: not int64, or another shape.
            PositionOutOfRange: below 0, or past the last position that the encoding has a value for.
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
        positions_module.check(positions, name, self.position_limit)

    def reset_parameters(self) -> None:
        """Fill parameters and buffers as at construction (after ``to_empty`` on a module built on meta)."""
        for child in self.children():
            child.reset_parameters()  # type: ignore[operator]


def over_heads(table: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape2"]:
    """Insert the heads' axis: ``(T, n)`` stays, ``(B, T, n)`` becomes ``(B, 1, T, n)``."""
    return table if table.dim() == 2 else table.unsqueeze(1)


def check_last(name: str, tensor: Tensor, size: int, argument: str) -> None:
    """Refuse a tensor whose last axis is not the size that the encoding was made for."""
    if tensor.shape[-1] != size:
        raise InvalidArgument(f"{name} has shape {tuple(tensor.shape)}; its last axis must be {argument}={size}")


def check_length(name: str, tensor: Tensor, positions: Positions, axis: int = -2) -> None:
    """Refuse a tensor that has not one row per position, or not one sequence per row of positions."""
    if tensor.shape[axis] != positions.shape[-1]:
        raise InvalidArgument(
            f"{name} has shape {tuple(tensor.shape)}, {tensor.shape[axis]} along its length, but the encoding "
            f"was placed at {positions.shape[-1]} positions; call at() with one position per token"
        )
    if positions.dim() == 2 and positions.shape[0] not in (1, tensor.shape[0]):
        raise InvalidArgument(
            f"{name} has batch size {tensor.shape[0]} but the encoding was placed at {positions.shape[0]} rows of "
            "positions; give one row per sequence, or one for all"
        )
