"""What an encoding is: at given positions it acts on a transformer through at most three doors.

    placed = encoding.at(positions)                       # all work that depends on positions alone
    x = placed.embed(x)                                   # door 1: token embeddings
    q, k = placed.rotate(q, k)                            # door 2: queries and keys, v never
    y = posenc.attention(q, k, v, placed, causal=True)    # door 3: scores, through placed.bias

A door that an encoding does not use is the identity.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, final

import torch
import torch.fx
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
        return _at(self, positions, k_positions, dtype)

    def check(self, positions: Positions, name: str) -> None:
        """Refuse positions that this encoding has no value for."""
        positions_module.check(positions, name, self.position_limit)

    def reset_parameters(self) -> None:
        """Fill parameters and buffers as at construction (after ``to_empty`` on a module built on meta)."""
        for child in self.children():
            child.reset_parameters()  # type: ignore[operator]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Encoding":
        """As everywhere; and buffers that leave the meta device are filled, which ``to_empty`` leaves as found."""
        empty = any(buffer.is_meta for buffer in self.buffers())
        super()._apply(fn, recurse)
        if empty and not any(buffer.is_meta for buffer in self.buffers()):
            self.reset_parameters()
        return self


def _at(encoding: Encoding, positions: Positions, k_positions: KeyPositions | None, dtype: torch.dtype) -> Placed:
    """``Encoding.at``; a function, so that torch.fx can take it as one step and trace past its checks."""
    if not dtype.is_floating_point:
        raise InvalidArgument(f"dtype={dtype} must be a floating type; torch.float32 serves most models")
    encoding.check(positions, "positions")
    # Copies: a decoding loop may count its positions up in place, and what was placed must not follow.
    if k_positions is None:
        positions = positions.clone()
        return encoding.place(positions, positions, dtype)
    encoding.check(k_positions, "k_positions")
    if k_positions.device != positions.device:
        raise InvalidArgument(
            f"positions is on {positions.device} and k_positions on {k_positions.device}; "
            f"move one: k_positions.to({str(positions.device)!r})"
        )
    return encoding.place(positions.clone(), k_positions.clone(), dtype)


torch.fx.wrap("_at")


def over_heads(table: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape2"]:
    """Insert the heads' axis: ``(T, n)`` stays, ``(B, T, n)`` becomes ``(B, 1, T, n)``."""
    return table if table.dim() == 2 else table.unsqueeze(1)


def check_heads(name: str, x: Tensor, positions: Positions, head_dim: int) -> None:
    """Refuse what is no batch of queries or keys at these positions."""
    if x.dim() != 4:
        raise InvalidArgument(f"{name} has shape {tuple(x.shape)}; expected (B, heads, length, channels)")
    _check_fit(name, x, positions, "head_dim", head_dim)


def check_embeddings(x: Tensor, positions: Positions, width: int) -> None:
    """Refuse what is no batch of token embeddings at these positions."""
    if x.dim() != 3:
        raise InvalidArgument(f"x has shape {tuple(x.shape)}; expected (B, length, channels)")
    _check_fit("x", x, positions, "width", width)


def _check_fit(name: str, x: Tensor, positions: Positions, argument: str, size: int) -> None:
    """Refuse another last axis, another length, another batch, another kind of number or another device."""
    shape, placed = x.shape, positions.shape
    if shape[-1] != size:
        raise InvalidArgument(f"{name} has shape {tuple(shape)}; its last axis must be {argument}={size}")
    if shape[-2] != placed[-1]:
        raise InvalidArgument(
            f"{name} has shape {tuple(shape)}, {shape[-2]} along its length, but the encoding "
            f"was placed at {placed[-1]} positions; call at() with one position per token"
        )
    if len(placed) == 2 and placed[0] not in (1, shape[0]):
        raise InvalidArgument(
            f"{name} has batch size {shape[0]} but the encoding was placed at {placed[0]} rows of "
            "positions; give one row per sequence, or one for all"
        )
    if not x.is_floating_point():
        raise InvalidArgument(f"{name} is {x.dtype}; expected a floating type, the model's")
    if not (x.is_cpu and positions.is_cpu) and x.device != positions.device:
        raise InvalidArgument(
            f"{name} is on {x.device} and the encoding was placed on {positions.device}; move one with .to(…)"
        )
