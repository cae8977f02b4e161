"""A score bias that is a function of the offset alone, held in O(H·L) and never as an L×L tensor."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


class DistanceBias(ABC):
    """What a head adds to its score, after the 1/√D scaling, as a function of the offset.

    Calling it with offsets (key position − query position, int64, any shape) gives biases in float32 at least,
    with the heads in front: ``(H, *offsets.shape)``.
    """

    heads: int

    @abstractmethod
    def __call__(self, offsets: Int[Tensor, "*shape"]) -> Float[Tensor, "H *shape"]:
        """The biases at these offsets."""

    def nearer(
        self, offsets: Int[Tensor, "*shape"], visible: Bool[Tensor, "*mask"] | None
    ) -> Int[Tensor, "*shape2"]:
        """Offsets closer to 0 whose biases differ along every row as these do, over the keys that it sees.

        Softmax looks at differences only, and smaller numbers lose no digits. ``visible`` broadcasts against
        the offsets; None is every key. A bias that knows no such offsets keeps its own.
        """
        return offsets


class PlacedBias:
    """A distance bias at given positions.

    ``line`` holds every value once, ``(H, 2S−1)`` for the offsets −(S−1) … S−1, where the positions allow it:
    one row of consecutive positions, the queries the last T of the S keys. Elsewhere (padded, packed or
    arbitrary positions) it is None and ``rows`` computes the bias of a few query rows at a time.
    """

    def __init__(self, bias: DistanceBias, q_positions: Tensor, k_positions: Tensor) -> None:
        self.bias = bias
        self.q_positions = q_positions
        self.k_positions = k_positions
        self.line: Tensor | None = None
        if consecutive(q_positions, k_positions):
            last = k_positions.shape[0] - 1
            self.line = bias(torch.arange(-last, last + 1, device=k_positions.device))

    def rows(self, first: int, last: int, keys: int) -> Float[Tensor, "#B H rows S"]:
        """The bias of query rows ``first`` to ``last`` (excluded) for the first ``keys`` keys."""
        return _heads_second(self.bias(self._offsets(first, last, keys)))

    def differences(
        self, first: int, last: int, keys: int, visible: Bool[Tensor, "#B 1 rows S"] | None
    ) -> Float[Tensor, "#B H rows S"]:
        """``rows``, but for a number that all visible keys of a row share: exact however far away they are."""
        offsets = self._offsets(first, last, keys)
        visible = None if visible is None else visible.squeeze(1)
        return _heads_second(self.bias(self.bias.nearer(offsets, visible)))

    def _offsets(self, first: int, last: int, keys: int) -> Int[Tensor, "*B rows S"]:
        return self.k_positions[..., None, :keys] - self.q_positions[..., first:last, None]


def _heads_second(biases: Float[Tensor, "H *B rows S"]) -> Float[Tensor, "#B H rows S"]:
    return biases.transpose(0, 1) if biases.dim() == 4 else biases.unsqueeze(0)


def consecutive(q_positions: Tensor, k_positions: Tensor) -> bool:
    """Whether keys count up by one and the queries are the last of them; looks at values on the CPU only."""
    if torch.compiler.is_compiling() or k_positions.device.type != "cpu":
        return False
    if q_positions.dim() != 1 or k_positions.dim() != 1 or not 0 < len(q_positions) <= len(k_positions):
        return False
    aligned = torch.equal(k_positions[len(k_positions) - len(q_positions) :], q_positions)
    return aligned and bool((k_positions.diff() == 1).all())
