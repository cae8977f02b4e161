"""Rotary positions as ONNX's own operator: ``torch.onnx.export`` gives one RotaryEmbedding node each, opset 23."""

from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc import positions as make
from posenc.encodings.rotary import Rotary
from posenc.errors import BackendUnavailable, InvalidArgument


@lru_cache
def serves() -> bool:
    """Whether this torch's operator rotates each head by its own tokens' rows; that of torch 2.8 does not."""
    x, table = torch.arange(24.0).view(1, 2, 3, 4), torch.ones(3, 2)
    try:
        rotated = torch.onnx.ops.rotary_embedding(x, 0 * table, table, torch.arange(3)[None])
    except RuntimeError:
        return False
    return torch.equal(rotated, torch.cat((-x[..., 2:], x[..., :2]), -1))


class OnnxRotary(nn.Module):
    """Rotates queries and keys as ``rotary`` does, by the operator that ONNX runtimes have a kernel for.

    The operator looks cos and sin up in a table, so the length is bounded; an attention factor is in the table.

    Args:
        rotary: with one axis, of either pairing, of the whole head or a part of it.
        max_length: rows of the table; positions run from 0 to one less.

    Raises:
        InvalidArgument: a rotary of several axes.
        BackendUnavailable: a torch whose own operator computes something else.
    """

    cos: Float[Tensor, "max_length pairs"]
    sin: Float[Tensor, "max_length pairs"]

    def __init__(self, rotary: Rotary, max_length: int) -> None:
        super().__init__()
        if rotary.axes != 1:
            raise InvalidArgument(f"rotary has {rotary.axes} axes; ONNX's RotaryEmbedding has one")
        if not serves():
            raise BackendUnavailable(
                f"torch.onnx.ops.rotary_embedding of torch {torch.__version__} does not rotate by its tables; take "
                "a newer torch to export"
            )
        cos, sin = rotary.tables(make.arange(max_length))
        self.register_buffer("cos", cos.reshape(max_length, -1), persistent=False)
        self.register_buffer("sin", sin.reshape(max_length, -1), persistent=False)
        self.interleaved = rotary.pairing == "interleaved"
        self.rotary_dim = 0 if rotary.rotary_dim == rotary.head_dim else rotary.rotary_dim

    def forward(
        self, q: Float[Tensor, "B H T D"], k: Float[Tensor, "B K T D"], positions: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B K T D"]]:
        """Queries and keys, rotated by their positions."""
        return self._turned(q, positions), self._turned(k, positions)

    def _turned(self, x: Tensor, positions: Tensor) -> Tensor:
        cos, sin = self.cos.to(x.dtype), self.sin.to(x.dtype)
        return torch.onnx.ops.rotary_embedding(
            x, cos, sin, positions, interleaved=self.interleaved, rotary_embedding_dim=self.rotary_dim
        )
