"""Biases of some heads each, side by side."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from posenc.encodings.bias import Bias, JoinedBias, side_by_side
from posenc.kernels.attention.flex import ScoreMod
from posenc.kernels.attention.low_rank import Channels


class HeadsBias(JoinedBias):
    """Biases of ``counts`` heads each, in order; ``None`` for heads without one."""

    def __init__(self, parts: tuple[Bias | None, ...], counts: tuple[int, ...]) -> None:
        self.parts, self.counts, self.heads = parts, counts, sum(counts)
        self.derive()

    def join(self, blocks: list[Tensor | None]) -> Tensor:
        some = [block for block in blocks if block is not None]
        batch, like = max(block.shape[0] for block in some), some[0]
        filled = [
            like.new_zeros(1, heads, *like.shape[2:]) if block is None else block
            for block, heads in zip(blocks, self.counts, strict=True)
        ]
        return torch.cat([block.expand(batch, -1, -1, -1) for block in filled], dim=1)

    def shares(self, x: Tensor) -> tuple[Tensor, ...]:
        group = self.heads // x.shape[1]
        return x.split([count // group for count in self.counts], dim=1)

    def low_rank(self, dtype: torch.dtype, scale: float) -> Channels | None:
        """Those of every part side by side, zero for the queries of other heads."""
        padded, start = [], 0
        for part, heads in zip(self.parts, self.counts, strict=True):
            channels = None if part is None else part.low_rank(dtype, scale)
            if part is not None and channels is None:
                return None
            if channels is not None:
                around = (0, 0, 0, 0, start, self.heads - start - heads)
                q = pad(channels[0].expand(-1, heads, -1, -1), around)
                padded.append((q, channels[1] if channels[1].shape[1] == 1 else pad(channels[1], around)))
            start += heads
        return side_by_side([q for q, _ in padded]), side_by_side([k for _, k in padded])

    @property
    def modifier(self) -> ScoreMod | None:  # type: ignore[override]
        modifiers = [None if part is None else part.modifier for part in self.parts]

        def score_mod(score: Tensor, b: Tensor, h: Tensor, q_index: Tensor, k_index: Tensor) -> Tensor:
            start, modified = 0, score
            for modifier, heads in zip(modifiers, self.counts, strict=True):
                if modifier is not None:
                    inside = (h >= start) & (h < start + heads)
                    other = modifier(score, b, (h - start).clamp(0, heads - 1), q_index, k_index)
                    modified = torch.where(inside, other, modified)
                start += heads
            return modified

        lacking = any(a is not None and b is None for a, b in zip(self.parts, modifiers, strict=True))
        return None if lacking else score_mod

    def cut(self, *, heads: slice | None = None, **places: object) -> Bias:
        if heads is None:
            return super().cut(**places)  # type: ignore[arg-type]
        parts, counts, start = [], [], 0
        for part, count in zip(self.parts, self.counts, strict=True):
            first, last = max(heads.start - start, 0), min(heads.stop - start, count)
            if first < last:
                parts.append(part and part.cut(heads=slice(first, last), **places))  # type: ignore[arg-type]
                counts.append(last - first)
            start += count
        return HeadsBias(tuple(parts), tuple(counts))
