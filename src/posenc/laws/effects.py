"""Helpers for laws: all results of an encoding at given positions, and attention computed from dense scores."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from posenc.attend import attention, scores
from posenc.encodings.bias import Bias
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import ContentState, Placed
from posenc.laws.subject import Subject, read_layers
from posenc.mask import CAUSAL, Mask


def inputs(
    subject: Subject, T: int = 9, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return random x ``(2, T, C)``, q ``(2, H, T, D)``, k and v ``(2, K, T, D)``; every call returns the same
    tensors.
    """
    generator = torch.Generator().manual_seed(2)
    keys = subject.kv_heads, T, subject.head_dim
    shapes = (T, subject.width), (subject.heads, T, subject.head_dim), keys, keys
    x, q, k, v = (torch.randn(2, *shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes)
    return x, q, k, v


class Whole(nn.Module):
    """A module around an encoding; ``forward`` returns the embeddings and every layer's attention output."""

    def __init__(self, subject: Subject, encoding: Encoding, way: str = "causal") -> None:
        super().__init__()
        self.subject, self.encoding, self.way = subject, encoding, way

    def forward(
        self, x: Tensor, q: Tensor, k: Tensor, v: Tensor, positions: Tensor, key_mask: Tensor | None = None
    ) -> list[Tensor]:
        mask = Mask(causal=True)
        if self.way == "masked":
            documents = positions.reshape(-1, positions.shape[-1])[0] // 16
            mask = Mask(causal=True, key_mask=key_mask, q_segments=documents)
        return outputs(self.subject, self.encoding, positions, (x, q, k, v), mask)


def outputs(
    subject: Subject, encoding: Encoding, positions: Tensor, given: Sequence[Tensor], mask: Mask = CAUSAL
) -> list[Tensor]:
    """Return the embeddings and the attention output of every layer, for x, q, k and v at these positions."""
    x, q, k, v = given
    placed = encoding.at(positions, dtype=x.dtype)
    layers = [here for _, here, _ in read_layers(placed, subject.period, x)]
    return [placed.embed(x), *(attention(*here.rotate(q, k), v, here, mask) for here in layers)]


@dataclass(frozen=True)
class Layer:
    """A layer, its inputs for a batch of sequences of equal length, and the content state of its keys."""

    encoding: Encoding
    number: int
    positions: Tensor
    x: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    state: ContentState | None

    def at(self, queries: Tensor, keys: Tensor) -> Placed:
        """Return the encoding placed at these queries and keys, with the content of the queries and the state of
        the keys.
        """
        places = self.positions[..., queries], self.positions[..., keys]
        here = self.encoding.at(*places, dtype=torch.float64)[self.number]
        return here.with_content(self.x[:, queries])[0].with_state(
            None if self.state is None else self.state[..., keys]
        )

    def rotated(self, queries: Tensor, keys: Tensor) -> tuple[Placed, Tensor, Tensor]:
        """Return the encoding placed at these tokens, and the rotated queries and keys."""
        here = self.at(queries, keys)
        return here, *here.rotate(self.q[:, :, queries], self.k[:, :, keys])


def layers(subject: Subject, encoding: Encoding, positions: Tensor, given: Sequence[Tensor]) -> list[Layer]:
    """Return every layer of a float64 encoding, with inputs x, q, k and v at these positions."""
    x, q, k, v = given
    placed = encoding.at(positions, dtype=torch.float64)
    embedded = placed.embed(x)
    return [
        Layer(encoding, number, positions, embedded, q, k, v, state)
        for number, _, state in read_layers(placed, subject.period, embedded)
    ]


def effects(
    subject: Subject, encoding: Encoding, positions: Tensor, dtype: torch.dtype = torch.float32
) -> dict[str, Tensor]:
    """Return all results of an encoding at these positions, layer by layer.

    ``far`` is the attention output for a zero query at a distant position, where the values of a bias are large.
    The output depends on the differences between these values, so it shows whether 16-bit rounding of the values
    has removed the differences.
    """
    x, q, k, v = inputs(subject, positions.shape[-1], dtype)
    placed = encoding.at(positions, dtype=dtype)
    distant = subject.along(torch.tensor([min(3001, encoding.position_limit - 1)]))
    far = encoding.at(distant, positions, dtype=dtype)
    result = {"x": placed.embed(x)}
    for layer, here, state in read_layers(placed, subject.period, x):
        rotated_q, rotated_k = here.rotate(q, k)
        of_layer = {"q": rotated_q, "k": rotated_k}
        if here.bias is not None:
            of_layer["bias"] = rows(here, rotated_q, rotated_k)
        if here.scale is not None:
            of_layer["scale"] = here.scale
        of_layer["y"] = attention(rotated_q, rotated_k, v, here, causal=True)
        there = far[layer].with_content(x[:, :1])[0].with_state(state)
        of_layer["far"] = attention(torch.zeros_like(rotated_q[:, :, :1]), rotated_k, v, there)
        result |= {f"{name} of layer {layer}": tensor for name, tensor in of_layer.items()}
    return {name: tensor.detach() for name, tensor in result.items()}


def met(placed: Placed, q: Tensor, k: Tensor) -> Bias:
    """Return the bias that attention uses for these queries and keys, with tokens in default order."""
    assert placed.bias is not None
    return placed.bias.ordered(*Mask().order(q.shape[2], k.shape[2], q.device)).meeting(
        q, k, 1 / math.sqrt(q.shape[-1])
    )


def rows(placed: Placed, q: Tensor, k: Tensor) -> Tensor:
    """Return the full bias ``(#B, H, T, S)`` for tokens in default order. A bias that depends on the
    scores is computed for scores of zero.
    """
    (B, H, T, _), S, compute_dtype = q.shape, k.shape[2], torch.promote_types(q.dtype, torch.float32)
    return met(placed, q, k).rows(0, T, S, q.new_zeros(B, H, T, S, dtype=compute_dtype))


def defined(
    q: Tensor, k: Tensor, v: Tensor, placed: Placed, mask: Mask | None = None, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """Return softmax(scores)·v and the logsumexp, computed from dense scores. The output is zero for a query
    that sees no key.
    """
    given = scores(q, k, placed, mask, scale=scale)
    dead = (given == -math.inf).all(-1, keepdim=True)
    weights = given.masked_fill(dead, 0.0).softmax(-1).masked_fill(dead, 0.0)
    lse = given.masked_fill(dead, 0.0).logsumexp(-1).masked_fill(dead[..., 0], -math.inf)
    return weights @ v.repeat_interleave(q.shape[1] // v.shape[1], dim=1).to(weights), lse
