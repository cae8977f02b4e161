"""One rank's share of the heads of an encoding that was made for all of them."""

from typing import ClassVar, final

import torch
from torch import Tensor

from posenc.encodings.compose import Composed
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import ContentState, KeyPositions, Keys, Placed, Positions, Queries, heads_of
from posenc.errors import InvalidArgument


class PlacedSomeHeads(Placed):
    """Some heads of a placed encoding."""

    def __init__(self, unsharded: Placed, first: int, last: int) -> None:
        super().__init__(unsharded.q_positions, unsharded.k_positions, unsharded.axes)
        self.unsharded, self.first, self.last = unsharded, first, last
        for what, heads in heads_of(unsharded).items():
            if last > heads:
                raise InvalidArgument(
                    f"first={first} and last={last} leave the {heads} heads that the {what} is of; count heads "
                    "from 0, and make the encoding for all of the model's"
                )
        self.state_size, self.awaits_content, self.added = (
            unsharded.state_size,
            unsharded.awaits_content,
            unsharded.added,
        )
        self.stamps, self.causal, self.remaps = unsharded.stamps, unsharded.causal, unsharded.remaps
        self.window, self.chunk, self.decay_span = unsharded.window, unsharded.chunk, unsharded.decay_span
        self.softmax_scale, self.softmax_factor = unsharded.softmax_scale, unsharded.softmax_factor
        if unsharded.bias is not None:
            self.bias = unsharded.bias.cut(heads=slice(first, last))
        if unsharded.decay is not None:
            self.decay = unsharded.decay if unsharded.decay.shape[0] == 1 else unsharded.decay[first:last]
        if unsharded.scale is not None:
            self.scale = unsharded.scale if unsharded.scale.shape[1] == 1 else unsharded.scale[:, first:last]

    def __getitem__(self, layer: int) -> Placed:
        unsharded = self.unsharded[layer]
        return self if unsharded is self.unsharded else PlacedSomeHeads(unsharded, self.first, self.last)

    def narrow(self, window: int | None, chunk: int | None) -> None:
        super().narrow(window, chunk)
        self.unsharded.narrow(window, chunk)

    def embed(self, x: Tensor) -> Tensor:
        return self.unsharded.embed(x)

    def rotate(self, q: Queries, k: Keys) -> tuple[Queries, Keys]:
        return self.unsharded.some_heads(self.first, self.last).rotate(q, k)

    def with_content(self, x: Tensor, state: ContentState | None = None) -> tuple[Placed, ContentState | None]:
        unsharded, state = self.unsharded.with_content(x, state)
        return PlacedSomeHeads(unsharded, self.first, self.last), state

    def with_state(self, state: ContentState | None) -> Placed:
        return PlacedSomeHeads(self.unsharded.with_state(state), self.first, self.last)


@final
class SomeHeads(Composed):
    """The heads ``first`` to ``last`` (excluded) of an encoding made for all: what one rank of a model split by
    heads holds. ``SomeHeads(ALiBi(8), 4, 8)`` has the slopes 2^−5 … 2^−8, which ``ALiBi(4)`` has not.

    A state stays that of all heads.
    """

    name: ClassVar[str] = "some_heads"

    def __init__(self, encoding: Encoding, first: int, last: int) -> None:
        super().__init__((encoding,))
        if not 0 <= first < last:
            raise InvalidArgument(
                f"first={first} and last={last} must be 0 ≤ first < last, heads of {encoding.name}"
            )
        self.first, self.last, self.heads = first, last, last - first

    @property
    def not_rerotatable(self) -> str:
        return "move the keys of all heads with the encoding of the whole" if "queries_keys" in self.acts_on else ""

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        (unsharded,) = self._placed(q_positions, k_positions, dtype)
        return PlacedSomeHeads(unsharded, self.first, self.last)

    def describe(self) -> str:
        return f"heads {self.first}–{self.last - 1} of {self.encodings[0].describe()}"
