"""Sinusoids of each token's row and column, which are added to the token embeddings (DETR: Carion et al. 2020,
arXiv 2005.12872).

    PE(p, a, 2i) = sin(p_a·θ_i)    PE(p, a, 2i+1) = cos(p_a·θ_i)    θ_i = base^(−2i/C_a)

Axis a has C_a of the C channels and its own frequencies. By default, rows and columns each have half of the
channels.
"""

from itertools import groupby
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.clock import Clock
from posenc.encodings.axes import AxisMap, axial, axis_frequencies
from posenc.encodings.embedding_table import EmbeddingTable
from posenc.encodings.placed import Positions
from posenc.encodings.sinusoidal import Order, sinusoids
from posenc.errors import InvalidArgument
from posenc.scaling.default import Default


@final
class SinusoidalGrid(EmbeddingTable):
    """Adds sinusoids of several coordinates to the token embeddings. Has no parameters and no maximum position.

    Args:
        width: C, channels of the token embeddings; must be even.
        axes: the map from pairs of channels to coordinates. The default is ``axial(C/4, C/4)``, rows before
            columns, as in DETR; with ``order=(1, 0)`` in ``axial``, columns come first, as in MAE's code. With
            ``units`` and ``turns`` in ``axial``, coordinates become fractions of the image: for images of 20 rows
            and 30 columns, DETR's ``normalize`` is ``units=("1/20", "1/30"), turns=True``.
        base: the base of the frequencies; 10000 in the paper.
        order: the order of channels within an axis: ``"interleaved"`` (sin, cos, sin, cos …; DETR) or ``"block"``
            (sines first; MAE).
        signed: whether positions may be negative.

    DETR counts cells from 1 (``posenc.positions.grid(rows, columns, corner=1)``); MAE counts cells from 0.
    DETR's ``normalize`` also adds 10⁻⁶ to the number of cells; this class does not.
    """

    name: ClassVar[str] = "sinusoidal-grid"

    def __init__(
        self,
        width: int,
        *,
        axes: AxisMap | None = None,
        base: float = 10_000.0,
        order: Order = "interleaved",
        signed: bool = False,
    ) -> None:
        super().__init__()
        self.width = width
        if axes is None:
            if self.width < 4 or self.width % 4:
                raise InvalidArgument(
                    f"width={width} must be a multiple of 4 for two axes of equal width; for other widths, pass "
                    "axes"
                )
            axes = axial(self.width // 4, self.width // 4)
        if 2 * axes.pairs != self.width:
            raise InvalidArgument(
                f"axes={axes} has {axes.pairs} pairs of channels, but width={width} must be twice the number of "
                "pairs"
            )
        self.axis_map, self.axes, self.signed = axes, axes.axes, signed
        self.base = base
        self.order: Order = order
        self.clock = Clock(axis_frequencies(axes, Default(), base), axis_of_hand=axes.axis_of_pair)

    def rows(self, positions: Positions, dtype: torch.dtype) -> Float[Tensor, "*shape C"]:
        cos, sin = self.clock(positions, dtype)
        sizes = [len(list(run)) for _, run in groupby(self.axis_map.axis_of_pair)]
        runs = zip(cos.split(sizes, -1), sin.split(sizes, -1), sizes, strict=True)
        return torch.cat([sinusoids(c, s, 2 * size, self.order) for c, s, size in runs], dim=-1)
