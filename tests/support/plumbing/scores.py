"""Laws that the shortcuts of a bias equal its rows, and that its rows equal the scores."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad

from posenc.attend import scores
from posenc.encodings.bias import Bias, offsets
from posenc.encodings.placed import Placed
from posenc.laws.effects import inputs, met
from posenc.laws.law import ROUNDING, law, near, owed
from posenc.laws.subject import Subject, each_layer
from support.plumbing.roundings import roundings


def _no_bias(subject: Subject) -> str:
    return "" if "bias" in subject.declared.acts_on else "it adds nothing to the scores"


def _biases(subject: Subject, T: int, S: int, dtype: torch.dtype) -> Iterator[tuple[str, Placed, Bias]]:
    """Yield the biases between T queries and S keys, at the first and at the last positions."""
    encoding = subject.build().to(dtype)
    x, q, k, _ = inputs(subject, S, dtype)
    for first in (0, encoding.position_limit - S):
        positions = subject.plain(S, first)
        states = [awaiting.with_content(x)[1] for _, awaiting in each_layer(encoding.at(positions), subject.period)]
        placed = encoding.at(positions[..., S - T :], positions, dtype=dtype)
        for (layer, awaiting), state in zip(each_layer(placed, subject.period), states, strict=True):
            here = awaiting.with_content(x[:, S - T :])[0].with_state(state)
            if here.bias is not None:
                bias = met(here, *here.rotate(q[:, :, S - T :], k))
                yield f"layer {layer}, positions from {first}, the last {T} of {S}", here, bias


@law(_no_bias)
def shortcuts_are_rows(subject: Subject) -> None:
    """A line, channels and parts of rows equal ``rows`` up to a constant per row, also at the last positions.

    Omit the shortcuts ``toeplitz`` and ``low_rank``, or derive them from ``rows``, as ``OffsetBias`` does for a
    function of the offset.
    """
    for T, S in ((9, 9), (4, 9)):
        S = subject.longest(S)
        T = min(T, S)
        for dtype in (torch.float64, torch.float32):
            for where, _, bias in _biases(subject, T, S, dtype):
                none = torch.zeros(2, bias.heads, T, S, dtype=dtype)
                dense = bias.rows(0, T, S, none if bias.needs_scores else None)
                distances = offsets(torch.arange(S - T, S), torch.arange(S), 0, T, S)
                # A function with several roundings may be rounded differently in a tensor of another shape.
                off = roundings(subject.declared) * torch.finfo(dtype).eps / 2 * dense.abs().max()
                if bias.toeplitz is not None:
                    owed(
                        bias.toeplitz.shape == (bias.heads, S + T - 1),
                        f"line of shape {tuple(bias.toeplitz.shape)}, {where}",
                    )
                    near(bias.toeplitz[:, distances + S - 1].expand_as(dense), dense, off, f"line at {where}")
                for start, keys in () if bias.needs_scores else ((1, S), (S - 1, S), (0, S - 1)):
                    part = dense[:, :, 1:, start:keys]
                    near(bias.rows(1, T, keys, start=start), part, off, f"keys {start} to {keys} at {where}")
                for narrow in (torch.float32, torch.bfloat16, torch.float16) if T == S else ():
                    for scale in (1.0, 0.3):
                        _near_channels(bias, dense, narrow, scale, where)


def _near_channels(bias: Bias, dense: Tensor, narrow: torch.dtype, scale: float, where: str) -> None:
    """Compare products of channels in the type ``narrow`` with the rows, for keys not after their query."""
    channels = bias.low_rank(narrow, scale)
    if channels is None:
        return
    for name, side in zip(("queries", "keys"), channels, strict=True):
        near(side.to(narrow), side, 0.0, f"channels of {name} held in {narrow} at {where}")
    q, k = channels
    summed = torch.zeros(dense.shape)
    for i in range(q.shape[-1]):  # in float32, one by one and in order, as kernels do
        summed = summed + q[..., i, None].float() * k[..., None, :, i].float()
    # Both may differ by a number per row, so each is compared relative to the query's own key.
    got, want = (x.double() - x.double().diagonal(dim1=-2, dim2=-1)[..., None] for x in (summed * scale, dense))
    # Each sum is rounded, and so are the rows. A type whose smallest number is larger than float32's adds an error
    # of that size.
    bound = (q.shape[-1] + 3) * 2.0**-24 * (1 + want.abs()) + 2 * torch.finfo(narrow).smallest_normal
    near(got.tril(), want.tril(), bound, f"channels in {narrow}, scaled by {scale}, at {where}")


@law(_no_bias)
def rows_are_scores(subject: Subject) -> None:
    """If queries or keys are zeros, the rows are the scores, and a block of rows equals that part of all rows.

    Compute ``rows(first, last, keys)`` from positions ``first`` to ``last`` and the first ``keys`` keys.
    """
    S = subject.longest(9)
    _, q, k, _ = inputs(subject, S, torch.float64)
    # Products of blocks of other sizes may be summed in another order.
    off = ROUNDING if roundings(subject.declared) else 0.0
    for where, here, _ in _biases(subject, S, S, torch.float64):
        rotated_q, rotated_k = (pad(x, (0, here.added)) for x in (q, k))
        for zeros, given in (("keys", (rotated_q, 0 * rotated_k)), ("queries", (0 * rotated_q, rotated_k))):
            bias = met(here, *given)
            if bias.needs_scores:
                continue
            dense, got = bias.rows(0, S, S), scores(*given, here, causal=here.causal)
            want = dense.masked_fill(torch.ones(S, S).triu(1).bool(), -math.inf) if here.causal else dense
            near(got, want.expand_as(got), 0.0, f"scores at {zeros} of zeros, {where}")
            for first, last, start, keys in ((0, 1, 0, S), (2, S, 1, S - 1), (S - 1, S, S - 1, S)):
                part = dense[..., first:last, start:keys]
                what = f"rows {first} to {last} of keys {start} to {keys}, {where}"
                near(bias.rows(first, last, keys, start=start), part, off * (1 + part.abs().max()), what)


LAWS = (
    shortcuts_are_rows,
    rows_are_scores,
)
