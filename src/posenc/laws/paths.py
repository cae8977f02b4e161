"""Laws of scores: shortcuts are rows, rows are scores, and every path of attention is its definition."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from posenc.attend import attention, scores
from posenc.encodings.bias import Bias, offsets
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import Placed
from posenc.laws.effects import defined, inputs, met
from posenc.laws.law import ROUNDING, law, near, owed
from posenc.laws.subject import Subject, each_layer
from posenc.mask import Mask

LONG = 270
"""Tokens of several blocks of rows on every path of attention."""


def _no_bias(subject: Subject) -> str:
    return "" if "bias" in subject.declared.acts_on else "it adds nothing to the scores"


def _biases(subject: Subject, T: int, S: int, dtype: torch.dtype) -> Iterator[tuple[str, Placed, Bias]]:
    """The biases of T tokens that meet S, near and far."""
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
    """A line, channels and parts of rows give what rows give, up to a number per row, also at the last positions.

    Leave shortcuts out (``toeplitz``, ``low_rank``), or derive them from ``rows``; ``OffsetBias`` does it for a
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
                # A function of several roundings may be rounded otherwise in a tensor of another shape.
                off = subject.bias_roundings * torch.finfo(dtype).eps / 2 * dense.abs().max()
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
    """Products of channels that ``narrow`` holds, against the rows at keys not after their query."""
    channels = bias.low_rank(narrow, scale)
    if channels is None:
        return
    for name, side in zip(("queries", "keys"), channels, strict=True):
        near(side.to(narrow), side, 0.0, f"channels of {name} held in {narrow} at {where}")
    q, k = channels
    summed = torch.zeros(dense.shape)
    for i in range(q.shape[-1]):  # in float32, one by one and in order, as kernels do
        summed = summed + q[..., i, None].float() * k[..., None, :, i].float()
    # Both may lack a number a row: what is compared is how far a key is from its query's own.
    got, want = (x.double() - x.double().diagonal(dim1=-2, dim2=-1)[..., None] for x in (summed * scale, dense))
    # Each sum is rounded, and so are the rows. A type whose smallest number is larger than float32's holds the bias
    # as finely as it can.
    bound = (q.shape[-1] + 3) * 2.0**-24 * (1 + want.abs()) + 2 * torch.finfo(narrow).smallest_normal
    near(got.tril(), want.tril(), bound, f"channels in {narrow}, scaled by {scale}, at {where}")


@law(_no_bias)
def rows_are_scores(subject: Subject) -> None:
    """Where queries or keys are zeros the rows are the scores, and a block of rows is that part of all rows.

    Compute ``rows(first, last, keys)`` from positions ``first`` to ``last`` and the first ``keys`` keys.
    """
    S = subject.longest(9)
    _, q, k, _ = inputs(subject, S, torch.float64)
    # Products of blocks of other sizes may be summed in another order.
    off = ROUNDING if subject.bias_roundings else 0.0
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


Way = tuple[str, Mask, float | None]


def ways(subject: Subject, T: int, S: int) -> list[Way]:
    """Masks, such as the encoding allows, and scales under which attention of the last T of S tokens takes another
    path each."""
    mask = torch.ones(2, S, dtype=torch.bool)
    mask[0, : S // 3] = mask[1, S // 2] = False
    padded = torch.arange(S) >= torch.tensor([[S // 3], [0]])
    segments = torch.arange(S) // max(S // 2, 1)
    every = [
        ("everything", Mask(), None),
        ("causal", Mask(causal=True), None),
        ("causal with a scale", Mask(causal=True), 0.3),
        ("masked", Mask(key_mask=mask), None),
        ("causal and masked", Mask(causal=True, key_mask=mask), None),
        ("left-padded", Mask(causal=True, key_mask=padded), None),
        ("documents", Mask(causal=True, q_segments=segments[S - T :], k_segments=segments), None),
        ("a window", Mask(causal=True, window=3), None),
    ]
    return [way for way in every if way[1].causal or not subject.declared.causal]


@law()
def paths_are_scores(subject: Subject) -> None:
    """Every path of attention is softmax(scores)·v: whole, cached, masked, training, with its logsumexp.

    Give the same numbers from ``rows`` and from every shortcut that the bias offers.
    """
    S = subject.longest(LONG)
    for T in (S, min(S, 5), 0):
        meeting = Meeting.of(subject, T, S)
        with torch.no_grad():
            unrecorded = Meeting.of(subject, T, S)
        for name, mask, scale in ways(subject, T, S):
            with torch.no_grad():
                want = unrecorded.attended(mask, scale, "definition")
                plain = [unrecorded.attended(mask, scale, way) for way in ("values", "logsumexp")]
            training = meeting.attended(mask, scale, "values")
            for got, way in ((plain[0], "no gradients"), (plain[1], "logsumexp"), (training, "training")):
                for key, tensor in got.items():
                    near(tensor, want[key], what=f"{key}, {name}, {T} of {S} tokens, {way}:")


@law()
def gradients_are_those_of_scores(subject: Subject) -> None:
    """On every path the gradients of inputs and parameters equal those of softmax(scores)·v, in float64.

    Name all trainable tensors: ``OffsetBias(…, trainable=(…))``, or ``made_of`` in a ``Bias`` of your own, and
    compute shortcuts from them in ``derive``.
    """
    S = subject.longest(LONG)
    meeting = Meeting.of(subject, S, S)
    for i, (name, mask, scale) in enumerate(ways(subject, S, S)):
        for way in ("values", "logsumexp") if i % 3 == 1 else ("values",):
            mine, theirs = (meeting.gradients(mask, scale, how, way) for how in (way, "definition"))
            for leaf, (got, want) in enumerate(zip(mine, theirs, strict=True)):
                what = f"gradient of {'xqkv'[leaf] if leaf < 4 else f'parameter {leaf - 4}'}, {name}, {way}"
                got, want = (torch.zeros(()) if g is None else g for g in (got, want))
                owed(got.shape == want.shape or not bool(got.any() or want.any()), f"{what}: none on one side")
                # Sums of S terms of the size of the result, each rounded by 2^-53 a few times. A parameter is met
                # by 2·S² scores, each with a gradient of S such terms, whose roundings add up like a random walk.
                walk = 4 * 2.0**-53 * S * math.sqrt(2) * S if leaf > 3 else 0.0
                if got.shape == want.shape:
                    near(got, want, 1e-12 * (1 + want.abs().max()) + walk, what)


@dataclass(frozen=True)
class Meeting:
    """The last T of S tokens in every layer, placed, read and rotated once for all ways of attending."""

    encoding: Encoding
    leaves: list[Tensor]
    """x, q, k, v and the parameters."""
    layers: list[tuple[int, Placed, Tensor, Tensor]]
    """Of every layer its number, how it is placed, its queries and its keys."""

    @classmethod
    def of(cls, subject: Subject, T: int, S: int) -> "Meeting":
        encoding = subject.build().double()
        given = [tensor.requires_grad_() for tensor in inputs(subject, S, torch.float64)]
        x, q, k, _ = given
        positions, layers = subject.plain(S), []
        placed = encoding.at(positions, dtype=torch.float64)
        cached = encoding.at(positions[..., S - T :], positions, dtype=torch.float64)
        for layer, awaiting in each_layer(placed, subject.period):
            embedded = placed.embed(x)
            here = (
                cached[layer].with_content(embedded[:, S - T :])[0].with_state(awaiting.with_content(embedded)[1])
            )
            layers.append((layer, here, *here.rotate(q[:, :, S - T :], k)))
        return cls(encoding, [*given, *encoding.parameters()], layers)

    def attended(self, mask: Mask, scale: float | None, way: str) -> dict[str, Tensor]:
        """Outputs of every layer, and logsumexps where the way has them."""
        results, v = {}, self.leaves[3]
        for layer, here, q, k in self.layers:
            y, sums = f"layer {layer}", f"logsumexp of layer {layer}"
            if way == "definition":
                results[y], results[sums] = defined(q, k, v, here, mask, scale)
            elif way == "logsumexp":
                results[y], results[sums] = attention(q, k, v, here, mask, scale=scale, return_logsumexp=True)
            else:
                results[y] = attention(q, k, v, here, mask, scale=scale)
        return results

    def gradients(self, mask: Mask, scale: float | None, how: str, way: str) -> tuple[Tensor | None, ...]:
        """Gradients of a weighted sum of what this way gives, computed in the way ``how``."""
        total = torch.zeros((), dtype=torch.float64)
        for name, y in self.attended(mask, scale, how).items():
            weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
            if way == "logsumexp" or not name.startswith("logsumexp"):
                total = total + (y.masked_fill(y.isinf(), 0.0) * weight).sum()
        return torch.autograd.grad(total, self.leaves, allow_unused=True, retain_graph=True)


LAWS = (shortcuts_are_rows, rows_are_scores, paths_are_scores, gradients_are_those_of_scores)
