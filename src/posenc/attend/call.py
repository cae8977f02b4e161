"""What one call of attention adds to the scores of a block of rows, and which shortcuts it allows."""

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.encodings.bias import Bias
from posenc.encodings.placed import Placed
from posenc.kernels.attention.block import mask_dtype
from posenc.kernels.attention.low_rank import LEAST_SCALE, exact
from posenc.kernels.memory import may_be_looked_at
from posenc.mask import Mask

Backend = Literal["auto", "toeplitz", "low_rank", "blocks"]
"""``"toeplitz"``: a bias along a line as views of it, block by block. ``"low_rank"``: as more channels of queries
and keys, in one call of torch's attention. ``"blocks"``: neither. ``"auto"``: by the length of the call alone."""

BACKENDS = get_args(Backend)


@dataclass(frozen=True, eq=False)
class AttentionCall:
    """Mask, bias and scale of one call."""

    mask: Mask
    bias: Bias | None
    scale: float
    queries: int
    all_keys: int
    device: torch.device
    dtype: torch.dtype
    exact_rows: bool
    """Whether rows may lose no number that all their keys share, since their logsumexp is asked for."""
    trained: tuple[Tensor, ...]
    """The bias's tensors that a gradient is wanted for; noted here, as autograd calls back with gradients off."""
    backend: Backend = "auto"
    """Which way is taken where several are right."""

    @classmethod
    def of(
        cls, q: Tensor, k: Tensor, placed: Placed, mask: Mask, scale: float, exact_rows: bool, backend: Backend
    ) -> "AttentionCall":
        T, S = q.shape[2], k.shape[2]
        bias = placed.bias
        if bias is not None:
            bias = bias.ordered(*mask.order(T, S, q.device)).meeting(q, k, scale)
            if torch.is_grad_enabled() and T and S and may_be_looked_at(q, *bias.trainable):
                bias.check_trainable(torch.zeros(*q.shape[:2], 1, 1, dtype=mask_dtype(q), device=q.device))
        return cls(mask, bias, scale, T, S, q.device, mask_dtype(q), exact_rows, _trained(bias), backend)

    @property
    def open(self) -> bool:
        """Whether nothing hides keys that one flag could not say: everything is seen, or causality all there is."""
        return self.mask.only_causal and (
            not self.mask.causal or self.queries == 1 or bool(self.queries == self.all_keys)
        )

    @property
    def is_causal(self) -> bool:
        return self.mask.causal and self.queries != 1

    @property
    def whole(self) -> bool:
        """Whether one call without a mask does it."""
        return self.bias is None and self.open

    @property
    def needs_scores(self) -> bool:
        return self.bias is not None and self.bias.needs_scores

    @property
    def toeplitz(self) -> Tensor | None:
        """The bias along a line, where nothing hides keys besides causality."""
        if self.bias is None or not self.mask.only_causal or self.exact_rows:
            return None
        return None if self.backend == "blocks" else self.bias.toeplitz

    def may_widen(self, q: Tensor, dropout: float) -> bool:
        """Whether channels would be right for this call, if the bias has any."""
        if self.bias is None or not self.mask.only_causal or not self.mask.causal or self.backend == "blocks":
            return False
        # torch's fused kernel drops no weights on the CPU: blocks of rows need less memory than all of them.
        if not said(self.queries == self.all_keys) or self.scale < LEAST_SCALE or (dropout and q.is_cpu):
            return False
        return exact(q.device, q.dtype)

    @property
    def flexes(self) -> bool:
        """Whether FlexAttention knows what is added here."""
        return self.backend != "blocks" and (self.bias is None or self.bias.modifier is not None)

    def part(self, row: int | None, first: int, last: int) -> "AttentionCall":
        """The call of one span of tokens."""
        bias = None if self.bias is None else self.bias.part(row, first, last)
        trained = _trained(bias) if self.trained else ()
        mask, length = self.mask.part(row, first, last), last - first
        return replace(self, mask=mask, bias=bias, queries=length, all_keys=length, trained=trained)

    def with_trained(self, tensors: tuple[Tensor, ...]) -> "AttentionCall":
        """The same with these in place of ``trained``: what a gradient taken inside another one ends at."""
        if self.bias is None or not tensors:
            return self
        given = iter(tensors)
        every = tuple(next(given) if x.requires_grad else x for x in self.bias.trainable)
        return replace(self, bias=self.bias.with_trainable(every), trained=tensors)

    def keys(self, last: int) -> int:
        """How many of the first keys the first ``last`` rows may see at most."""
        return self.mask.keys_before(last, self.queries, self.all_keys)

    def start(self, first: int) -> int:
        """How many keys every row from ``first`` on sees alike, since they are out of the bias's reach."""
        if self.bias is None or self.bias.constant_beyond is None or self.backend == "blocks":
            return 0
        if not self.mask.only_causal or self.exact_rows or self.needs_scores:
            return 0
        return max(0, self.all_keys - self.queries + first - self.bias.constant_beyond)

    def beyond(self, first: int, last: int) -> Float[Tensor, "#B H rows 1"] | None:
        """What the bias gives those keys."""
        return None if self.bias is None else self.bias.beyond(first, last)

    def additive_mask(
        self, first: int, last: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "#B #H #rows S"]:
        """Bias, and −∞ at what is hidden, for the rows ``first`` to ``last`` and their keys from ``start`` on."""
        keys = self.keys(last)
        seen = self.mask.visible(first, last, keys, self.queries, self.all_keys, self.device, start)
        zero = torch.zeros((), dtype=self.dtype, device=self.device)
        hidden = zero.expand(1, 1, 1, keys - start) if seen is None else torch.where(seen, zero, -math.inf)
        if self.bias is None:
            return hidden.expand(-1, 1, last - first, keys - start)
        if scores is not None and seen is not None:
            scores = scores.masked_fill(~seen, -math.inf)
        if start:
            bias = self.bias.within(first, last, start, keys)
        elif self.exact_rows:
            bias = self.bias.rows(first, last, keys, scores)
        else:
            bias = self.bias.differences(first, last, keys, seen, scores)
        # Adding −∞ takes a tenth of the time of filling by a mask that broadcasts.
        return bias.to(self.dtype) if seen is None else bias.to(self.dtype) + hidden


def _trained(bias: Bias | None) -> tuple[Tensor, ...]:
    if bias is None or not torch.is_grad_enabled():
        return ()
    return tuple(x for x in bias.trainable if x.requires_grad)


def said(flag: bool) -> bool:
    """The flag as a plain bool: made of lengths it is a symbol under a compiler, and sdpa takes none."""
    if flag:  # noqa: SIM103  returning it would return the symbol
        return True
    return False
