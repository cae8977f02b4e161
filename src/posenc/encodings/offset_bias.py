"""Biases that depend only on the offset and are evaluated once per offset if possible."""

import math
from abc import abstractmethod
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import embedding

from posenc.arguments import form
from posenc.encodings.bias import Bias, batch_first, line_of_offsets, offsets, rows_of_line
from posenc.errors import InvalidArgument
from posenc.kernels.attention.flex import ScoreMod, table_score_mod
from posenc.kernels.memory import is_concrete
from posenc.positions import grid


class OffsetBias(Bias):
    """A bias that depends only on the offset; a subclass implements ``values``. If positions span few offsets,
    ``values`` is evaluated once per offset (except under a compiler). For example, this is a bias that is
    logarithmic in the distance:

        class LogDistance(posenc.OffsetBias):
            def values(self, offsets):
                return -self.rates.view(-1, *[1] * offsets.dim()) * offsets.abs().to(self.rates.dtype).log1p()

        bias = LogDistance(heads, q_positions, k_positions, rates=rates)

    Args:
        heads: H.
        q_positions: the positions of the queries, ``(T,)`` or ``(B, T)``, with a leading axis if ``axes`` is above
            1.
        k_positions: the positions of the keys, in the same form.
        axes: the number of coordinates of a position.
        bound: the distance beyond which the value is constant; None if there is no such distance, or if there are
            several axes. With a bound, the range of offsets is known without reading the positions: ``values`` is
            evaluated at −bound … bound.
        attributes: further inputs of ``values``, stored on the bias under their keyword names. Tensors in the
            attributes get gradients, including tensors in tuples, lists and dicts.

    Raises:
        InvalidArgument: ``values`` reads a trainable tensor that was not passed in ``attributes``, or a keyword in
            ``attributes`` is a name that every ``OffsetBias`` already uses, such as ``rows``.
    """

    indexed_by: ClassVar[dict[str, str]] = {"q_positions": "bq", "k_positions": "bk"}
    _table: Float[Tensor, "offsets H"] | None = None
    head_range: slice = slice(None)
    """The slice of heads that this bias covers, out of all heads that ``values`` returns."""

    def __init__(
        self,
        heads: int,
        q_positions: Tensor,
        k_positions: Tensor,
        *,
        axes: int = 1,
        bound: int | None = None,
        **attributes: Any,
    ) -> None:
        for name, value in attributes.items():
            if hasattr(OffsetBias, name):
                raise InvalidArgument(
                    f"{name} is an attribute of every bias, so {type(self).__name__} cannot use this name for its "
                    f"own attribute; choose another name, such as my_{name}"
                )
            setattr(self, name, value)
        self.heads, self.axes, self.bound = heads, axes, bound
        if axes > 1:  # (A, T): one row for the whole batch
            q_positions, k_positions = (
                at.unsqueeze(-2) if at.dim() == 2 else at for at in (q_positions, k_positions)
            )
        self.q_positions, self.k_positions = q_positions, k_positions
        if torch.is_grad_enabled():
            self._check_trained()
        self.derive()

    def _check_trained(self) -> None:
        """Raise an error if ``values`` uses trainable tensors that are not among the attributes."""
        trained = self.trained
        if not is_concrete(self.q_positions, *trained):
            return
        apart = self.q_positions.new_zeros((self.axes, 1) if self.axes > 1 else 1)
        values = self.with_trained(tuple(x.detach() for x in trained)).values(apart)
        if isinstance(values, Tensor) and values.requires_grad:
            raise InvalidArgument(
                f"{type(self).__name__} uses trainable tensors that are not among its attributes and would get no "
                f"gradient; pass these tensors by name and read them from self: {type(self).__name__}(heads, "
                "q_positions, k_positions, weight=weight)"
            )

    @abstractmethod
    def values(self, offsets: Int[Tensor, "*shape"]) -> Float[Tensor, "H *shape2"]:
        """Return the bias at these offsets (key position − query position), in float32 or float64, with heads as
        the first axis. The offsets are int64 and have any shape; the values must be finite even at offsets that a
        mask hides. With several axes, the first dimension of the offsets indexes the axis.
        """

    def derive(self) -> None:
        self.toeplitz, self._table = None, None
        line = line_of_offsets(self.q_positions, self.k_positions)
        if line is not None:
            self.toeplitz = self._at(line).contiguous()
        elif self.bound is not None:
            self._tabulate([-self.bound], [self.bound])
        elif self.k_positions.is_cpu and is_concrete(self.q_positions, self.k_positions):
            both = self.q_positions, self.k_positions
            q, k = (at.flatten(1) if self.axes > 1 else at.flatten()[None] for at in both)
            if q.numel() and k.numel():
                low, high = (k.amin(1) - q.amax(1)).tolist(), (k.amax(1) - q.amin(1)).tolist()
                size = math.prod(b - a + 1 for a, b in zip(low, high, strict=True))
                if size <= LONGEST_TABLE * sum(at.shape[-1] for at in both):
                    self._tabulate(low, high)

    def _tabulate(self, low: list[int], high: list[int]) -> None:
        """Evaluate ``values`` once for each offset; on axis a, offsets run from ``low[a]`` to ``high[a]``."""
        device = self.k_positions.device
        sizes = [b - a + 1 for a, b in zip(low, high, strict=True)]
        points = grid(*sizes, corner=low, device=device)
        self._table = self._at(points if self.axes > 1 else points[0]).T
        # An offset's index in the table is a mixed-radix number with one digit per axis.
        steps = [math.prod(sizes[i + 1 :]) for i in range(len(sizes))]
        # Tensors, because a compiler would turn Python numbers into constants; filled on the device, because a copy
        # from the host would synchronise.
        self._low, self._steps = (
            torch.stack([torch.full((), n, device=device) for n in row]) for row in (low, steps)
        )

    def _at(self, offsets: Tensor) -> Float[Tensor, "H *shape"]:
        values: Any = self.values(offsets)
        values = values[self.head_range] if isinstance(values, Tensor) and values.dim() else values
        shape = self.heads, *offsets.shape[self.axes > 1 :]
        if not isinstance(values, Tensor) or tuple(values.shape) != shape or values.dtype.itemsize < 4:
            raise InvalidArgument(
                f"{type(self).__name__}.values() must return a tensor of shape (H, *offsets) = {shape}, in float32 "
                f"or wider; got {form(values)}"
            )
        return values

    @property
    def modifier(self) -> ScoreMod | None:  # type: ignore[override]
        if self.bound is None or self._table is None:
            return None
        return table_score_mod(self._table, self.bound, self.q_positions, self.k_positions)

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "#B H rows S"]:
        if self.toeplitz is not None:
            return rows_of_line(self.toeplitz, len(self.q_positions), first, last, keys, start)
        apart = offsets(self.q_positions, self.k_positions, first, last, keys, start)
        if self._table is None:
            return batch_first(self._at(apart))
        apart = apart if self.bound is None else apart.clamp(-self.bound, self.bound)
        apart = apart if self.axes > 1 else apart[None]
        shape = -1, *[1] * (apart.dim() - 1)
        places = ((apart - self._low.view(shape)) * self._steps.view(shape)).sum(0)
        return batch_first(embedding(places, self._table).movedim(-1, 0))

    def cut(self, *, heads: slice | None = None, **places: Any) -> Bias:
        if heads is None:
            return super().cut(**places)
        before = self.head_range.start or 0
        other = self.changed(head_range=slice(before + heads.start, before + heads.stop))
        return super(OffsetBias, other).cut(heads=heads, **places)


LONGEST_TABLE = 4
"""The largest number of offsets per token that are tabulated if positions do not count up by one. It is large
enough for positions on a grid.
"""
