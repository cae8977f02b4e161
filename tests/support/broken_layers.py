"""Encodings that are broken on purpose for shared layers, in trainable numbers, windows, or stale placings."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from posenc import Bias, OffsetBias, Placed, Shaw
from posenc.encodings.looked_up import QueryTable
from posenc.encodings.placed import ContentState, KeyPositions, Positions
from support.broken_scores import Biased


class LearnsTwice(OffsetBias):
    """Doubles the gradient of the bias if the bias is computed as a line over offsets."""

    slope: Tensor

    def derive(self) -> None:
        super().derive()
        if self.toeplitz is not None:
            self.toeplitz = 2 * self.toeplitz - self.toeplitz.detach()

    def rows(self, *block: Any, **more: Any) -> Tensor:
        as_the_function_says = copy.copy(self)
        as_the_function_says.toeplitz = None
        return super(LearnsTwice, as_the_function_says).rows(*block, **more)

    def values(self, offsets: Tensor) -> Tensor:
        return -self.slope.double().view(-1, *[1] * offsets.dim()) * offsets.abs()


class SlopesToLearn(Biased):
    """Doubles the gradient of its trainable slopes, one per head."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.ones(4))

    def reset_parameters(self) -> None:
        nn.init.ones_(self.slope)

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Bias:
        return LearnsTwice(4, q_positions, k_positions, slope=self.slope)


class CutOff(QueryTable):
    """Does not declare its table as a trained tensor."""

    @property
    def trained(self) -> tuple[Tensor, ...]:
        return ()


class TableOfAllLayers(Biased):
    """Multiplies queries by a table that all layers share."""

    uses_queries = True

    def __init__(self) -> None:
        super().__init__()
        self.shaw = Shaw(8, 4, behind=3, ahead=1, shared=True, std=1.0)

    def bias(self, q_positions: Tensor, k_positions: Tensor) -> Bias:
        return CutOff(self.shaw.weight.double().T[None], self.shaw.row, 4, q_positions, k_positions)


class GoesOn(Placed):
    """Does not check whether parameters have changed."""

    def check_current(self) -> None:
        pass


class GoesOnWithOldSlopes(SlopesToLearn):
    """Uses the slopes at the time of placing, even after an update of the slopes."""

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return GoesOn(q_positions, k_positions, bias=self.bias(q_positions, k_positions))


class ReadsAnew(Placed):
    """Returns a new placed encoding from ``with_content``, without the window of the layer."""

    def with_content(self, x: Tensor, state: ContentState | None = None) -> tuple[Placed, ContentState | None]:
        return Placed(self.q_positions, self.k_positions, bias=self.bias), state


class WindowForgotten(Biased):
    """Loses the windows of its layers in ``with_content``."""

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return ReadsAnew(q_positions, k_positions, bias=self.bias(q_positions, k_positions))
