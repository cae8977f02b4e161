"""An encoding at given positions: embeddings, rotation, bias, and what a row's scores are multiplied by.

    x = placed.embed(x)                        # token embeddings
    here, state = placed.with_content(x, state)        # what depends on content; itself where nothing does
    q, k = here.rotate(q, k)                   # queries and keys, v never
    y = posenc.attention(q, k, v, here, mask) # here.bias and here.scale enter there

Whatever an encoding does not act on passes unchanged.
"""

import copy
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from posenc.arguments import as_integer
from posenc.encodings.bias import Bias
from posenc.errors import InvalidArgument
from posenc.pytrees import Pytree

Positions = Int[Tensor, " T"] | Int[Tensor, "B T"] | Int[Tensor, "A T"] | Int[Tensor, "A B T"]
KeyPositions = Int[Tensor, " S"] | Int[Tensor, "B S"] | Int[Tensor, "A S"] | Int[Tensor, "A B S"]
Queries = TypeVar("Queries", bound=Tensor | None)
"""``(B, H, T, D)``, or None."""
Keys = TypeVar("Keys", bound=Tensor | None)
"""``(B, K, S, D)``, or None."""
ContentState = Float[Tensor, "B n _"]
"""One raw value per key, n of them: gathered, sharded and cached like keys and values, so the last axis is as long
as the keys are so far: those of a cache, then all."""


class Stamp:
    """A parameter and torch's count of its changes; in copies and pickles, whose tensors are others, none."""

    def __init__(self, parameter: Tensor | None = None) -> None:
        self.parameter, self.count = parameter, 0 if parameter is None else parameter._version

    @property
    def is_current(self) -> bool:
        return self.parameter is None or self.parameter._version == self.count

    def __reduce__(self) -> tuple[type["Stamp"], tuple[()]]:
        return Stamp, ()


class Placed(Pytree):
    """An encoding at given positions. Every method is the identity until a subclass overrides it.

    A pytree of its tensors: it may be an argument of an exported program and travels between processes.

    Args:
        q_positions: of the queries, and of the token embeddings.
        k_positions: of the keys.
        axes: coordinates of a position; with more than one, positions state them as a leading axis.
        bias: what is added to the scores, after they are scaled.
        scale: what the scores of each query row are multiplied by, beside 1/√D.
        softmax_scale: what q·k is multiplied by in place of 1/√D.
    """

    facts: ClassVar[tuple[str, ...]] = ("stamps", "asked_by")

    state_size: int = 0
    """Values that it keeps per key."""

    awaits_content: bool = False
    """Whether it needs ``with_content`` before attention can use it."""

    window: int | None = None
    """How far its layer sees, where ``Layers`` sets it: attention takes the narrower of this and the mask's."""

    chunk: int | None = None
    """The chunk that its layer sees, where ``Layers`` sets it: see ``Mask.chunk``."""

    stamps: tuple[Stamp, ...] = ()
    """The parameters that it was placed with."""

    added: int = 0
    """Channels that ``rotate`` adds to every head; the 1/√D of scores leaves them out."""

    softmax_factor: float = 1.0
    """What q·k is multiplied by beside ``softmax_scale`` or 1/√D: YaRN's second number."""

    causal: bool = False
    """Whether it has no numbers for keys ahead of their query; attention then refuses a mask that shows them."""

    remaps: "tuple[RemappedPart, ...]" = ()
    """The parts of a remapped encoding, which attention rotates queries for one by one: see ``posenc.remap``."""

    asked_by: set[int] | None = None
    """The layers that asked for it, where its parameters are those of one layer."""

    def __init__(
        self,
        q_positions: Positions,
        k_positions: KeyPositions,
        axes: int = 1,
        *,
        bias: Bias | None = None,
        scale: Float[Tensor, "#B #H T 1"] | None = None,
        softmax_scale: float | None = None,
    ) -> None:
        self.q_positions, self.k_positions, self.axes = q_positions, k_positions, axes
        self.bias, self.scale, self.softmax_scale = bias, scale, softmax_scale

    def __getitem__(self, layer: int) -> "Placed":
        """What layer ``layer`` has; the same in every layer, unless this is ``Layers``."""
        if self.asked_by is not None:
            self.asked_by.add(layer)
            if len(self.asked_by) > 1:
                raise InvalidArgument(
                    f"layers {sorted(self.asked_by)} would share the parameters of one, and this encoding is for a "
                    "module in every layer; make one of all: posenc.encoding(…, layers=n), or shared=True if it can"
                )
        return self

    def embed(self, x: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """The token embeddings, with their positions; once, before the first layer."""
        return x

    def with_content(
        self, x: Float[Tensor, "B T C"], state: ContentState | None = None
    ) -> tuple["Placed", ContentState | None]:
        """What the tokens x that enter a layer's attention add to it, and the state of all keys so far.

        ``state`` is that of the keys in the cache; without a cache it is None. Where nothing depends on content
        this is the encoding itself, without a state.
        """
        return self, state

    def with_state(self, state: ContentState | None) -> "Placed":
        """The same with this state in place of its own, as after gathering shards; itself without one."""
        return self

    def rotate(self, q: Queries, k: Keys) -> tuple[Queries, Keys]:
        """Queries ``(B, H, T, D)`` and keys ``(B, K, S, D)``, with their positions; one that is None comes back as
        None. Values are never rotated.

        k is either the keys of the T tokens at ``q_positions``, as when new tokens meet a cache, or all S keys at
        ``k_positions``. Tables of other positions than the queries' are made in every call; for a cache of keys
        that are not rotated, place all keys by themselves, once for all layers.
        """
        return q, k

    def unrotate(self, k: Float[Tensor, "B K S E"]) -> Float[Tensor, "B K S D"]:
        """Keys at ``q_positions`` as they were before ``rotate`` rotated them."""
        return k

    def narrow(self, window: int | None, chunk: int | None) -> None:
        """Let its layer see no further than this window, and no chunk but its own."""
        windows = [size for size in (window, self.window) if size is not None]
        self.window = min(windows) if windows else None
        self.chunk = chunk or self.chunk

    def check_current(self) -> None:
        """Refuse to continue with numbers made from parameters that have changed since.

        Raises:
            InvalidArgument: a parameter was changed in place, as an optimiser's step does; changes through
                ``.data`` are not noticed.
        """
        if not torch.compiler.is_compiling() and not all(x.is_current for x in self.stamps):
            raise InvalidArgument(
                "the encoding's parameters have changed since it was placed, so that it would use their old "
                "values; place it again, once a step: placed = encoding.at(positions)"
            )

    def slice_heads(self, first: int, last: int) -> "Placed":
        """The query heads ``first`` to ``last`` (excluded) alone: what one rank of a model split by heads has.

        ``ALiBi(8).at(positions).slice_heads(4, 8)`` has the slopes 2^−5 … 2^−8, which ``ALiBi(4)`` has not.
        Content is read before; its state stays that of all heads.

        Raises:
            InvalidArgument: there are no such heads, or content is still to be read.
        """
        if self.awaits_content:
            raise InvalidArgument(
                "heads are of one layer that has read its tokens; call here, state = placed[layer].with_content(x, "
                "state), then here.slice_heads(first, last)"
            )
        if not 0 <= as_integer(first, "first") < as_integer(last, "last"):
            raise InvalidArgument(f"first={first} and last={last} must be 0 ≤ first < last, query heads")
        for what, heads in head_counts(self).items():
            if last > heads:
                raise InvalidArgument(
                    f"first={first} and last={last} leave the {heads} heads that the {what} is of; count heads "
                    "from 0, and make the encoding for all of the model's"
                )
        sliced = copy.copy(self)
        if self.bias is not None:
            sliced.bias = self.bias.cut(heads=slice(first, last))
        if self.scale is not None and self.scale.shape[1] != 1:
            sliced.scale = self.scale[:, first:last]
        return sliced

    def are_at_queries(self, k: Float[Tensor, "B K S D"]) -> bool:
        """Whether k stand where the queries do: all keys, or those of T new tokens, the others being in a cache."""
        if self.k_positions is self.q_positions:
            return True
        # Decided by a branch, and so a plain bool also where a compiler holds lengths as symbols.
        if k.shape[-2] != self.k_positions.shape[-1] and k.shape[-2] == self.q_positions.shape[-1]:  # noqa: SIM103
            return True
        return False


@dataclass(frozen=True, eq=False)
class RemappedPart(Pytree):
    """Positions of queries and keys, and which keys a query meets at these: those whose ``Placed.k_positions`` lie
    from ``q_from`` on and below ``q_until``.

    Args:
        queries: the rotation at the queries' positions.
        keys: that of the keys, of all at once; None where they stay as the cache has them.
        q_from, q_until: where the keys begin and end; None for no bound.
    """

    queries: Placed
    keys: Placed | None
    q_from: Positions | None = None
    q_until: Positions | None = None

    def rotate(self, q: Float[Tensor, "B H T D"], k: Float[Tensor, "B K S D"]) -> tuple[Tensor, Tensor]:
        """Queries, and keys as the cache has them, at the positions of this part."""
        return self.queries.rotate(q, None)[0], k if self.keys is None else self.keys.rotate(k, None)[0]


def head_counts(placed: Placed) -> dict[str, int]:
    """For how many heads it has numbers, by what holds them; what serves any number of heads is left out."""
    counts = {} if placed.bias is None else {"bias": placed.bias.heads}
    if placed.scale is not None and placed.scale.shape[1] != 1:
        counts["scale"] = placed.scale.shape[1]
    return counts


def insert_head_axis(table: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape2"]:
    """Insert the heads' axis: ``(B, T, n)`` becomes ``(B, 1, T, n)``; two axes need none, and four have it."""
    return table.unsqueeze(1) if table.dim() == 3 else table


def row_scale(factors: Float[Tensor, "*shape"]) -> Float[Tensor, "#B 1 T 1"]:
    """Factors per position, ``(T,)`` or ``(B, T)``, as ``Placed.scale`` holds them."""
    return (factors[None] if factors.dim() == 1 else factors)[:, None, :, None]
