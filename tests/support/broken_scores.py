"""Encodings that are broken on purpose in shortcuts, order, states, scales, axes or tracing."""

import copy

import torch
from torch import Tensor

from posenc import Bias, FoX, Placed
from posenc.encodings.alibi import LinearBias, slopes
from posenc.encodings.fox import ForgetBias
from posenc.encodings.placed import ContentState, KeyPositions, Positions, insert_head_axis, row_scale
from posenc.kernels.attention.low_rank import linear
from support.broken import Broken, BrokenRotary


class Biased(Broken):
    """A correct bias with four heads, which some mutants below replace by a broken bias."""

    def __init__(self, kind: type[LinearBias] = LinearBias) -> None:
        super().__init__()
        self.kind = kind

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Bias:
        return self.kind(torch.tensor(slopes(4), dtype=torch.float64), q_positions, k_positions)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return Placed(q_positions, k_positions, bias=self.bias(q_positions, k_positions))


class LineOffByOne(Biased):
    """Shifts the bias by one offset in its form as a line over offsets."""

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Bias:
        bias = super().bias(q_positions, k_positions)
        bias.toeplitz = None if bias.toeplitz is None else bias.toeplitz.roll(1, dims=1)
        return bias


class TooSteep(LinearBias):
    """Declares a fall that is 64 times as steep as its slopes."""

    @property
    def fall(self) -> Tensor:  # type: ignore[override]
        return 64 * self.slopes


class FirstRows(LinearBias):
    """Uses the distances of the first rows for every block of rows."""

    def rows(self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0) -> Tensor:
        return super().rows(0, last - first, keys, scores, start)


class FirstKeys(LinearBias):
    """Uses the distances of the first keys for a block of later keys."""

    def rows(self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0) -> Tensor:
        return super().rows(first, last, keys - start)


class KeepsQuiet(LinearBias):
    """Subtracts the largest bias of each row from the row, even in ``rows``."""

    def rows(self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0) -> Tensor:
        whole = super().rows(first, last, keys, scores, start)
        return whole - whole.amax(-1, keepdim=True)


class SumsByRow(ForgetBias):
    """Sums gates in the order of the tensors instead of the order of tokens."""

    def ordered(self, q_order: Tensor, k_order: Tensor) -> Bias:
        S, T = k_order.shape[-1], q_order.shape[-1]
        return super().ordered(torch.arange(S - T, S), torch.arange(S))


class WrongChannels(ForgetBias):
    """Halves the extra channels of keys."""

    def low_rank(self, dtype: torch.dtype, scale: float) -> tuple[Tensor, Tensor] | None:
        found = super().low_rank(dtype, scale)
        return None if found is None else (found[0], found[1] * 0.5)


class FirstGates(ForgetBias):
    """Gives every document the gates of the first tokens."""

    def cut(self, *, queries: slice, keys: slice, **places: object) -> Bias:  # type: ignore[override]
        first = slice(0, keys.stop - keys.start)
        return super().cut(queries=first, keys=first, **places)  # type: ignore[arg-type]


class FromTheOrigin(LinearBias):
    """Makes low-rank channels that count positions from 0 instead of from the first key."""

    def low_rank(self, dtype: torch.dtype, scale: float) -> tuple[Tensor, Tensor] | None:
        far = (torch.cat((torch.zeros_like(at[..., :1]), at), -1) for at in (self.q_positions, self.k_positions))
        q, k = linear(self.slopes, *far, dtype, scale)
        return q[:, :, 1:], k[:, :, 1:]


class BrokenFoX(Broken):
    """FoX with a bias of class ``kind`` from its gates, which is correct for ``ForgetBias``."""

    needs_content = True

    def __init__(self, kind: type[ForgetBias] = ForgetBias, *, drops: bool = False) -> None:
        super().__init__()
        self.fox, self.kind, self.drops = FoX(32, 4, bias=0.0), kind, drops

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedBroken(self, q_positions, k_positions)


class PlacedBroken(Placed):
    """``BrokenFoX`` at positions, which loses its state if ``drops`` is set."""

    def __init__(self, fox: BrokenFoX, q_positions: Positions, k_positions: KeyPositions) -> None:
        super().__init__(q_positions, k_positions)
        self.broken, self.state_size, self.awaits_content = fox, 4, True

    def with_content(self, x: Tensor, state: ContentState | None = None) -> tuple[Placed, ContentState | None]:
        gates = self.broken.fox.gates(x)
        if state is not None:
            gates = torch.cat((torch.zeros_like(state) if self.broken.drops else state, gates), dim=-1)
        return self.with_state(gates), gates

    def with_state(self, state: ContentState | None) -> Placed:
        here = copy.copy(self)
        if state is not None:
            here.bias, here.awaits_content = self.broken.kind(state), False
        return here


class ScaleLate(Broken):
    """Scales every row of scores by the factor of the previous row."""

    acts_on = ("scale",)
    relative = False

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        before = torch.cat((q_positions[..., :1], q_positions[..., :-1]), dim=-1)
        return Placed(q_positions, k_positions, scale=row_scale(1 + 0.25 * (before % 4).to(dtype)))


class TwoAxes(BrokenRotary):
    """Rotates half of the pairs by each of two coordinates; ``swapped`` exchanges the coordinates of keys."""

    axes = 2

    def __init__(self, *, swapped: bool = False) -> None:
        super().__init__()
        self.swapped = swapped

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        both = [self.clock(coordinate, dtype) for coordinate in positions]
        cos, sin = (torch.cat((a[..., ::2], b[..., 1::2]), -1) for a, b in zip(*both, strict=True))
        return insert_head_axis(cos), insert_head_axis(sin)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        placed = super().place(q_positions, k_positions.flip(0) if self.swapped else k_positions, dtype)
        placed.axes = 2
        return placed


class OtherEffects(BrokenRotary):
    """Declares a bias, but adds no bias."""

    acts_on = ("queries_keys", "bias")


class LooksAtPositions(BrokenRotary):
    """Reads the value of a position, which is not known during tracing."""

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        far = int(q_positions.max()) > 1000
        return super().place(q_positions, k_positions, torch.float64 if far else dtype)


class TellsLengthsApart(BrokenRotary):
    """Computes the same result in another way for long sequences."""

    def tables(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return super().tables(positions.clone() if positions.shape[-1] > 16 else positions, dtype)
