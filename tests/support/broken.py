"""Encodings broken on purpose, one mistake each, as they were found in libraries people use.

Each is named with the law that must reject it in mutants.py; test_mutants.py asserts that it does.
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, cast

import torch
from torch import Tensor

from posenc import ChannelRotary, Encoding, Learned, Placed
from posenc.clock import Clock
from posenc.encodings.alibi import slopes
from posenc.encodings.embedding_table import PlacedTable
from posenc.encodings.offset_bias import OffsetBias
from posenc.encodings.placed import KeyPositions, Keys, Positions, Queries, insert_head_axis
from posenc.encodings.rotary import rotate
from posenc.scaling import Default
from support.cases import ROWS


class PlacedTables(Placed):
    """cos and sin for queries and for keys, as a mutant wants them."""

    def __init__(
        self, q_positions: Positions, k_positions: KeyPositions, tables: Callable[[Tensor], tuple[Tensor, Tensor]]
    ) -> None:
        super().__init__(q_positions, k_positions)
        self.tables = tables

    def rotate(self, q: Queries, k: Keys) -> tuple[Queries, Keys]:
        k_positions = self.q_positions if k is None or self.are_at_queries(k) else self.k_positions
        both = (q, self.q_positions), (k, k_positions)
        rotated = (x if x is None else rotate(x, *self.tables(at), "half") for x, at in both)
        return cast(tuple[Queries, Keys], tuple(rotated))


class BrokenRotary(Encoding):
    """Rotary as it should be; each mutant below breaks one thing."""

    name: ClassVar[str] = "broken"
    acts_on = ("queries_keys",)
    relative = True

    def __init__(self, base: float = 1e4) -> None:
        super().__init__()
        self.base = base
        self.clock = Clock(Default().frequencies(8, base))

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        cos, sin = self.clock(positions, dtype)
        return insert_head_axis(cos), insert_head_axis(sin)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedTables(q_positions, k_positions, partial(self.tables, dtype=dtype))


class PlacedTogether(PlacedTables):
    """Keys without queries stay as they are."""

    def rotate(self, q: Queries, k: Keys) -> tuple[Queries, Keys]:
        return (q, k) if q is None else super().rotate(q, k)


class RotatesTogether(BrokenRotary):
    """Rotates no keys that come without queries."""

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedTogether(q_positions, k_positions, partial(self.tables, dtype=dtype))


class FloatPositions(BrokenRotary):
    """Positions and angles in a float type: distinct positions merge, far ones drift."""

    angle_type: ClassVar[torch.dtype] = torch.float32

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        ladder = torch.tensor([self.base ** (-i / 4) for i in range(4)], dtype=self.angle_type)
        angle = positions.to(self.angle_type)[..., None] * ladder
        return insert_head_axis(angle.cos().to(dtype)), insert_head_axis(angle.sin().to(dtype))


class Bfloat16Positions(FloatPositions):
    """Positions in the activations' type."""

    angle_type: ClassVar[torch.dtype] = torch.bfloat16


class SharedCache(BrokenRotary):
    """A table kept for all instances, keyed by positions but not by base."""

    kept: ClassVar[dict[tuple[object, ...], tuple[Tensor, Tensor]]] = {}

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        key = (tuple(positions.flatten().tolist()), dtype)
        if key not in self.kept:
            self.kept[key] = super().tables(positions, dtype)
        return self.kept[key]


class LengthCache(BrokenRotary):
    """A table kept by length: the second call gets the positions of the first."""

    def __init__(self, base: float = 1e4) -> None:
        super().__init__(base)
        self.kept: dict[tuple[object, ...], tuple[Tensor, Tensor]] = {}

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        key = (positions.shape, dtype)
        if key not in self.kept:
            self.kept[key] = super().tables(positions, dtype)
        return self.kept[key]


class OffByOneAfterCache(BrokenRotary):
    """Tokens that follow a cache sit one too far."""

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return super().tables(positions + (positions[..., :1] > 0), dtype)


class CountsFromZero(BrokenRotary):
    """Positions made from the length, whatever was passed."""

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return super().tables(torch.arange(positions.shape[-1]).expand(positions.shape), dtype)


class PaddingCounts(BrokenRotary):
    """Every row of a batch gets the first row's positions."""

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return super().tables(positions[0].expand(positions.shape) if positions.dim() == 2 else positions, dtype)


class Transposed(BrokenRotary):
    """Turns the wrong way: still a rotation, still relative, but keys and queries trade places."""

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        cos, sin = super().tables(positions, dtype)
        return cos, -sin


class NotARotation(BrokenRotary):
    """The sine is missing from one of the two channels' sums, as after a lost minus and a simplification."""

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedTables(q_positions, k_positions, lambda p: (self.tables(p, dtype)[0],) * 2)


class RoundedTables(BrokenRotary):
    """cos and sin rounded to the activations' type before they are used."""

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        placed = super().place(q_positions, k_positions, dtype)
        cos, sin = self.tables(q_positions, dtype)
        placed.rotate = lambda q, k: tuple(rotate(x, cos.to(x), sin.to(x), "half") for x in (q, k))  # type: ignore
        return placed


class Detached(BrokenRotary):
    """Gradients stop at the rotation of keys."""

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        placed = super().place(q_positions, k_positions, dtype)
        turn = placed.rotate
        placed.rotate = lambda q, k: turn(q, k.detach())  # type: ignore[method-assign]
        return placed


class InPlace(BrokenRotary):
    """Overwrites the queries and keys it was given."""

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        placed = super().place(q_positions, k_positions, dtype)
        turn = placed.rotate

        def overwrite(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
            turned_q, turned_k = turn(q, k)
            return q.copy_(turned_q), k.copy_(turned_k)

        placed.rotate = overwrite  # type: ignore[method-assign]
        return placed


class FloatBuffer(BrokenRotary):
    """Frequencies in a float buffer, which a cast of the module rounds and to_empty loses."""

    def __init__(self, base: float = 1e4) -> None:
        super().__init__(base)
        ladder = torch.tensor([base ** (-i / 4) for i in range(4)])
        self.register_buffer("frequencies", ladder, persistent=False)

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        angle = positions[..., None].float() * self.get_buffer("frequencies")
        return insert_head_axis(angle.cos().to(dtype)), insert_head_axis(angle.sin().to(dtype))


class FilledWithParameters(FloatBuffer):
    """The buffer is filled where parameters are drawn anew, and nowhere else."""

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.get_buffer("frequencies").copy_(torch.tensor([self.base ** (-i / 4) for i in range(4)]))


class PersistentTable(FloatBuffer):
    """The buffer travels in state_dict, and an old checkpoint's frequencies come back with it."""

    def __init__(self, base: float = 1e4) -> None:
        super().__init__(base)
        self._non_persistent_buffers_set.clear()


class AutocastTable(BrokenRotary):
    """Angles by a matrix product, which autocast rounds."""

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        ladder = torch.tensor([[self.base ** (-i / 4) for i in range(4)]])
        angle = positions[..., None].float() @ ladder
        return insert_head_axis(angle.float().cos().to(dtype)), insert_head_axis(angle.float().sin().to(dtype))


class SilentClamp(Encoding):
    """A learned table that gives positions past its end the last row, and says nothing."""

    name: ClassVar[str] = "broken"
    acts_on = ("embeddings",)
    relative = False
    position_limit = ROWS

    def __init__(self) -> None:
        super().__init__()
        self.rows = Learned(ROWS, 32, past_end="clamp")

    def check(self, positions: Tensor, name: str) -> None:
        self.rows.check(positions, name)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return self.rows.place(q_positions, k_positions, dtype)


class NoReset(SilentClamp):
    """Its parameters are not filled again after to_empty."""

    def reset_parameters(self) -> None:
        pass


class CalledRelative(SilentClamp):
    """Absolute, but says that it is relative."""

    relative = True


def called_a_rotation() -> Encoding:
    """Turns a pair by two angles, but says that lengths survive."""
    made = ChannelRotary(8, layout="hunyuan-vl")
    made.isometric = True
    return made


class Forgetful(SilentClamp):
    """Adds the same row everywhere, so that order is lost; it declares otherwise."""

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedTable(q_positions, k_positions, self.rows.weight[:1].expand(q_positions.shape[-1], -1))


class RowNumbers(SilentClamp):
    """The rows of a table by place in the tensor, whatever positions were passed."""

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        rows = torch.arange(q_positions.shape[-1]).expand(q_positions.shape)
        return PlacedTable(q_positions, k_positions, self.rows.weight[rows])


class ByFormula(OffsetBias):
    """ALiBi's slopes in any formula."""

    formula: Callable[[Tensor, Tensor], Tensor]

    def values(self, offsets: Tensor) -> Tensor:
        slope = torch.tensor(slopes(4), dtype=torch.float32, device=offsets.device)
        return self.formula(slope.view(-1, *[1] * offsets.dim()), offsets)


class BrokenALiBi(Encoding):
    """ALiBi with another formula in the place of −m·|k − q|."""

    name: ClassVar[str] = "broken"
    acts_on = ("bias",)
    relative = True

    def __init__(self, formula: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.formula = formula

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        bias = ByFormula(4, q_positions, k_positions, formula=self.formula)
        return Placed(q_positions, k_positions, bias=bias)


class RowsInsteadOfPositions(BrokenALiBi):
    """Distances between rows of the tensors, not between the positions passed: a cache's offset is lost."""

    def __init__(self) -> None:
        super().__init__(lambda m, o: -m * o.abs())

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        T, S = q_positions.shape[-1], k_positions.shape[-1]
        between_rows = super().place(torch.arange(T), torch.arange(S), dtype).bias
        return Placed(q_positions, k_positions, bias=between_rows)
