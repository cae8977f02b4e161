"""Laws of attention: every backend gives the outputs and gradients of softmax(scores)·v."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from posenc.attend import attention
from posenc.encodings.placed import Placed
from posenc.laws.effects import defined, inputs, layers
from posenc.laws.law import ROUNDING, law, near, owed
from posenc.laws.subject import Subject
from posenc.mask import Mask

SEVERAL_BLOCKS = 270
"""A number of tokens that every backend of attention divides into several blocks of rows."""


def ways(subject: Subject, T: int, S: int) -> list[tuple[str, Mask, float | None]]:
    """Return the masks that the encoding allows, each with a name and a scale. With these masks, attention for the
    last T of S tokens uses every backend at least once.
    """
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
    """Every backend computes softmax(scores)·v, with and without a cache, a mask, gradients and a logsumexp.

    ``Bias.rows`` and every shortcut of the bias must give the same values. If the bias sets ``fall``, its value at
    distance d must be at most −fall·d.
    """
    S = subject.longest(SEVERAL_BLOCKS)
    for layer, here, _, _ in Meeting.of(subject, S, S).layers:
        # These sequences are too short for attention to use fall.
        if here.bias is not None and (fall := here.bias.fall) is not None:
            most = -fall[:, None] * torch.arange(S - 1, -1, -1)
            above = (here.bias.rows(S - 1, S, S)[:, :, 0] - most).clamp(min=0)
            near(above, torch.zeros_like(above), ROUNDING * S, f"bias of layer {layer} above −fall · distance")
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
    """With every backend, the float64 gradients of inputs and parameters equal the gradients of softmax(scores)·v.

    Keep all trainable tensors as attributes of the ``Bias``, and compute shortcuts from these tensors in
    ``derive``.
    """
    S = subject.longest(SEVERAL_BLOCKS * 3 // 2)  # too many tokens for attention to store their scores
    meeting = Meeting.of(subject, S, S)
    for i, (name, mask, scale) in enumerate(ways(subject, S, S)):
        for way in ("values", "logsumexp") if i % 3 == 1 else ("values",):
            mine, theirs = (meeting.gradients(mask, scale, how, way) for how in (way, "definition"))
            for leaf, (got, want) in enumerate(zip(mine, theirs, strict=True)):
                what = f"gradient of {'xqkv'[leaf] if leaf < 4 else f'parameter {leaf - 4}'}, {name}, {way}"
                got, want = (torch.zeros(()) if g is None else g for g in (got, want))
                owed(
                    got.shape == want.shape or not bool(got.any() or want.any()),
                    f"{what}: only one of attention and softmax(scores)·v has it",
                )
                # Sums have S terms of the size of the result, each rounded by 2^-53 a few times. A parameter
                # affects 2·S² scores, each with a gradient of S such terms; errors add up like a random walk.
                walk = 4 * 2.0**-53 * S * math.sqrt(2) * S if leaf > 3 else 0.0
                if got.shape == want.shape:
                    near(got, want, 1e-12 * (1 + want.abs().max()) + walk, what)


@dataclass(frozen=True)
class Meeting:
    """The queries of the last T of S tokens, and all keys, in every layer. The same queries and keys are passed
    to all backends, so the encoding is placed, reads the tokens and rotates only once.
    """

    leaves: list[Tensor]
    """The tensors x, q, k and v, and the parameters."""
    layers: list[tuple[int, Placed, Tensor, Tensor]]
    """The number, the placed encoding, the queries and the keys of every layer."""

    @classmethod
    def of(cls, subject: Subject, T: int, S: int) -> "Meeting":
        encoding, tokens = subject.build().double(), torch.arange(S)
        given = [tensor.requires_grad_() for tensor in inputs(subject, S, torch.float64)]
        rotated = [
            (layer.number, *layer.rotated(tokens[S - T :], tokens))
            for layer in layers(subject, encoding, subject.plain(S), given)
        ]
        return cls([*given, *encoding.parameters()], rotated)

    def attended(self, mask: Mask, scale: float | None, way: str) -> dict[str, Tensor]:
        """Return the outputs of every layer, and the logsumexps if the backend returns them."""
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
        """Compute outputs with the backend ``how``, and return the gradients of a weighted sum of these outputs."""
        total = torch.zeros((), dtype=torch.float64)
        for name, y in self.attended(mask, scale, how).items():
            weight = torch.randn(y.shape, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
            if way == "logsumexp" or not name.startswith("logsumexp"):
                total = total + (y.masked_fill(y.isinf(), 0.0) * weight).sum()
        return torch.autograd.grad(total, self.leaves, allow_unused=True, retain_graph=True)
