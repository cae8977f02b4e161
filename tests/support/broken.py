"""Encodings that are broken on purpose, each with one mistake that popular libraries have made.

mutants.py lists each encoding with the law that must reject it, and test_mutants.py asserts this rejection.
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, cast

import torch
from torch import Tensor

from posenc import Encoding, Learned, Placed
from posenc.clock import Clock
from posenc.encodings.alibi import slopes
from posenc.encodings.embedding_table import PlacedTable
from posenc.encodings.offset_bias import OffsetBias
from posenc.encodings.placed import KeyPositions, Keys, Positions, Queries, insert_head_axis
from posenc.encodings.rotary import rotate
from posenc.scaling import Default
from support.cases import ROWS


class PlacedTables(Placed):
    """A placed encoding whose cos and sin a mutant computes."""

    def __init__(
        self, q_positions: Positions, k_positions: KeyPositions, tables: Callable[[Tensor], tuple[Tensor, Tensor]]
    ) -> None:
        super().__init__(q_positions, k_positions)
        self.tables = tables

    def rotate(self, q: Queries, k: Keys) -> tuple[Queries, Keys]:
        head_dim = next(x.shape[-1] for x in (q, k) if x is not None)
        k_positions = self.q_positions if self.keys_at_queries(q, k, head_dim) else self.k_positions
        both = (q, self.q_positions), (k, k_positions)
        rotated = (x if x is None else rotate(x, *self.tables(at), "half") for x, at in both)
        return cast(tuple[Queries, Keys], tuple(rotated))


class Broken(Encoding):
    """What the encodings below say of themselves, unless they say otherwise."""

    name: ClassVar[str] = "broken"
    acts_on = ("bias",)
    relative = True


class BrokenRotary(Broken):
    """A correct rotary encoding, from which the mutants below differ by one mistake each."""

    acts_on = ("queries_keys",)

    def __init__(self, base: float = 1e4) -> None:
        super().__init__()
        self.base = base
        self.clock = Clock(Default().frequencies(8, base))

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        cos, sin = self.clock(positions, dtype)
        return insert_head_axis(cos), insert_head_axis(sin)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedTables(q_positions, k_positions, partial(self.tables, dtype=dtype))


def ladder(base: float = 1e4) -> Tensor:
    """Return the frequencies in the default dtype."""
    return torch.tensor([base ** (-i / 4) for i in range(4)])


def tables_of(angle: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    return insert_head_axis(angle.cos().to(dtype)), insert_head_axis(angle.sin().to(dtype))


class Retabled(BrokenRotary):
    """Rotates by what ``change`` makes of the right tables, the positions and the dtype."""

    def __init__(self, change: Callable[..., tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.change = change

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return cast(tuple[Tensor, Tensor], self.change(super().tables, positions, dtype))


class FloatPositions(BrokenRotary):
    """Computes positions and angles in float32, which merges distinct positions and shifts far positions."""

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return tables_of(positions[..., None].float() * ladder(self.base), dtype)


class Cached(BrokenRotary):
    """Keeps tables in ``kept`` by what ``key`` makes of positions and dtype, and regardless of the base."""

    def __init__(
        self,
        key: Callable[[Tensor, torch.dtype], object],
        kept: dict[object, tuple[Tensor, Tensor]] | None = None,
        base: float = 1e4,
    ) -> None:
        super().__init__(base)
        self.key, self.kept = key, {} if kept is None else kept

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        key = self.key(positions, dtype)
        if key not in self.kept:
            self.kept[key] = super().tables(positions, dtype)
        return self.kept[key]


class RoundedTables(BrokenRotary):
    """Rounds cos and sin to the dtype of the activations before rotation."""

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        placed = super().place(q_positions, k_positions, dtype)
        cos, sin = self.tables(q_positions, dtype)
        placed.rotate = lambda q, k: tuple(rotate(x, cos.to(x), sin.to(x), "half") for x in (q, k))  # type: ignore
        return placed


class Rotates(BrokenRotary):
    """Rotates with ``change``, which gets the right rotation, the queries and the keys."""

    def __init__(self, change: Callable[..., tuple[Tensor | None, ...]]) -> None:
        super().__init__()
        self.change = change

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        placed = super().place(q_positions, k_positions, dtype)
        placed.rotate = partial(self.change, placed.rotate)  # type: ignore[assignment,method-assign]
        return placed


class FloatBuffer(BrokenRotary):
    """Keeps frequencies in a float buffer, which a cast of the module rounds and ``to_empty`` loses."""

    def __init__(self, base: float = 1e4) -> None:
        super().__init__(base)
        self.register_buffer("frequencies", ladder(base), persistent=False)

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return tables_of(positions[..., None].float() * self.get_buffer("frequencies"), dtype)


class FilledWithParameters(FloatBuffer):
    """Fills the buffer only in ``reset_parameters``."""

    def reset_parameters(self) -> None:
        with torch.no_grad():
            self.get_buffer("frequencies").copy_(ladder(self.base))


class PersistentTable(FloatBuffer):
    """Saves the buffer in ``state_dict``, so that an old checkpoint restores old frequencies."""

    def __init__(self, base: float = 1e4) -> None:
        super().__init__(base)
        self._non_persistent_buffers_set.clear()


class SilentClamp(Broken):
    """Gives positions past the end of a learned table its last row without an error."""

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
    """Does not fill its parameters again after to_empty."""

    def reset_parameters(self) -> None:
        pass


class CalledRelative(SilentClamp):
    """Declares an absolute encoding as relative."""

    relative = True


class Forgetful(SilentClamp):
    """Adds the same row at all positions, which loses the order, but declares an absolute encoding."""

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedTable(q_positions, k_positions, self.rows.weight[:1].expand(q_positions.shape[-1], -1))


class RowNumbers(SilentClamp):
    """Adds rows of a table by index in the tensor, and ignores positions."""

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        rows = torch.arange(q_positions.shape[-1]).expand(q_positions.shape)
        return PlacedTable(q_positions, k_positions, self.rows.weight[rows])


class ByFormula(OffsetBias):
    """A bias by any formula with ALiBi's slopes."""

    formula: Callable[[Tensor, Tensor], Tensor]

    def values(self, offsets: Tensor) -> Tensor:
        slope = torch.tensor(slopes(4), dtype=torch.float32, device=offsets.device)
        return self.formula(slope.view(-1, *[1] * offsets.dim()), offsets)


class BrokenALiBi(Broken):
    """ALiBi with ``formula`` instead of −m·|k − q|."""

    def __init__(self, formula: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.formula = formula

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        bias = ByFormula(4, q_positions, k_positions, formula=self.formula)
        return Placed(q_positions, k_positions, bias=bias)


class RowsInsteadOfPositions(BrokenALiBi):
    """Uses distances between indices in the tensors instead of positions, which loses the offset of a cache."""

    def __init__(self) -> None:
        super().__init__(lambda m, o: -m * o.abs())

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        T, S = q_positions.shape[-1], k_positions.shape[-1]
        between_rows = super().place(torch.arange(T), torch.arange(S), dtype).bias
        return Placed(q_positions, k_positions, bias=between_rows)
