"""Biases by heads: of some heads each, and one rank's share of a bias."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from posenc.encodings.bias import Bias, Visible, side_by_side
from posenc.kernels.attention.low_rank import Channels


class HeadsBias(Bias):
    """Biases of some heads each, in order; ``None`` for heads without one."""

    made_of = ("parts",)

    def __init__(self, parts: tuple[tuple[Bias | None, int], ...]) -> None:
        self.parts, self.heads = parts, sum(heads for _, heads in parts)
        self.needs_scores = any(part is not None and part.needs_scores for part, _ in parts)

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "#B H rows S"]:
        return self._joined(
            lambda part, some: part.rows(first, last, keys, some, start), last - first, keys - start, scores
        )

    def differences(
        self, first: int, last: int, keys: int, visible: Visible, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "#B H rows S"]:
        def block(part: Bias, some_scores: Tensor | None) -> Tensor:
            return part.differences(first, last, keys, visible, some_scores, start)

        return self._joined(block, last - first, keys - start, scores)

    def _joined(
        self, block: Callable[[Bias, Tensor | None], Tensor], rows: int, keys: int, scores: Tensor | None
    ) -> Tensor:
        blocks, start = [], 0
        for part, heads in self.parts:
            some_scores = None if scores is None else scores[:, start : start + heads]
            blocks.append(None if part is None else block(part, some_scores))
            start += heads
        like = next(block for block in blocks if block is not None)
        batch = max(block.shape[0] for block in blocks if block is not None)
        filled = [
            like.new_zeros(1, heads, rows, keys) if block is None else block
            for block, (_, heads) in zip(blocks, self.parts, strict=True)
        ]
        return torch.cat([block.expand(batch, -1, -1, -1) for block in filled], dim=1)

    def low_rank(self, dtype: torch.dtype, scale: float) -> Channels | None:
        """Those of every part side by side, zero for the queries of other heads."""
        padded, start = [], 0
        for part, heads in self.parts:
            channels = None if part is None else part.low_rank(dtype, scale)
            if part is not None and channels is None:
                return None
            if channels is not None:
                around = (0, 0, 0, 0, start, self.heads - start - heads)
                q = pad(channels[0].expand(-1, heads, -1, -1), around)
                padded.append((q, channels[1] if channels[1].shape[1] == 1 else pad(channels[1], around)))
            start += heads
        return side_by_side([q for q, _ in padded]), side_by_side([k for _, k in padded])

    def part(self, row: int | None, first: int, last: int) -> Bias:
        return HeadsBias(tuple((part and part.part(row, first, last), heads) for part, heads in self.parts))

    def ordered(self, q_order: Tensor, k_order: Tensor) -> Bias:
        return HeadsBias(tuple((part and part.ordered(q_order, k_order), heads) for part, heads in self.parts))

    def meeting(self, q: Tensor, k: Tensor, scale: float) -> Bias:
        group, counts = q.shape[1] // k.shape[1], [heads for _, heads in self.parts]
        by_part = zip(self.parts, q.split(counts, dim=1), k.split([n // group for n in counts], dim=1), strict=True)
        return HeadsBias(
            tuple((part and part.meeting(some_q, some_k, scale), n) for (part, n), some_q, some_k in by_part)
        )


class SomeHeads(Bias):
    """The heads ``first`` to ``last`` (excluded) of a bias: one rank's share of it."""

    made_of = ("unsharded",)

    def __init__(self, unsharded: Bias, first: int, last: int) -> None:
        self.unsharded, self.first, self.last, self.heads = unsharded, first, last, last - first
        self.needs_scores = unsharded.needs_scores
        self.derive()

    def derive(self) -> None:
        self.toeplitz = None if self.unsharded.toeplitz is None else self.unsharded.toeplitz[self.first : self.last]

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "#B H rows S"]:
        return self.unsharded.rows(first, last, keys, self._own(scores), start)[:, self.first : self.last]

    def differences(
        self, first: int, last: int, keys: int, visible: Visible, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "#B H rows S"]:
        of_all = self.unsharded.differences(first, last, keys, visible, self._own(scores), start)
        return of_all[:, self.first : self.last]

    def low_rank(self, dtype: torch.dtype, scale: float) -> Channels | None:
        channels = self.unsharded.low_rank(dtype, scale)
        if channels is None:
            return None
        q, k = (x if x.shape[1] == 1 else x[:, self.first : self.last] for x in channels)
        return q, k

    def part(self, row: int | None, first: int, last: int) -> Bias:
        return SomeHeads(self.unsharded.part(row, first, last), self.first, self.last)

    def ordered(self, q_order: Tensor, k_order: Tensor) -> Bias:
        return SomeHeads(self.unsharded.ordered(q_order, k_order), self.first, self.last)

    def meeting(self, q: Tensor, k: Tensor, scale: float) -> Bias:
        group = q.shape[1] // k.shape[1]
        unsharded = self.unsharded.meeting(self._among_all(q), self._among_all(k, group), scale)
        return SomeHeads(unsharded, self.first, self.last)

    def _own(self, scores: Tensor | None) -> Tensor | None:
        return None if scores is None else self._among_all(scores)

    def _among_all(self, x: Tensor, group: int = 1) -> Tensor:
        """What belongs to these heads, with zeros for the others, as the whole bias takes it."""
        before, behind = self.first // group, (self.unsharded.heads - self.last) // group
        return pad(x, (0, 0, 0, 0, before, behind))
