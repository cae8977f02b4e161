"""Biases are added to the scores. Every bias can return dense blocks; some biases also offer shortcuts that
attention uses.
"""

from abc import ABC, abstractmethod
from functools import reduce
from typing import Any, ClassVar, TypeVar, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils._pytree import tree_map

from posenc.errors import InvalidArgument
from posenc.kernels.attention.flex import ScoreMod
from posenc.kernels.attention.low_rank import SPAN, Channels
from posenc.kernels.memory import is_concrete
from posenc.pytrees import COMPILES_OBJECTS, Pytree, narrowed

B = TypeVar("B", bound="Bias")


class Bias(Pytree, ABC):
    """A score bias at given positions, added to the scaled scores.

    ``heads`` is H, the number of query heads for which the bias has values.

    Attention checks whether a bias has one of these shortcuts; it never checks the class of the bias:

    - ``toeplitz`` ``(H, S+T−1)``: the value at each offset −(S−1) … T−1. This shortcut has three conditions: the
      bias depends only on the offset, the keys' positions count up by one, and the queries are at the positions of
      the last T of the S keys.
    - ``low_rank(dtype, scale)``: extra channels of queries and keys, ``(#B, #H, T, r)`` and ``(#B, #H, S, r)``, in
      ``dtype``. For every key that is not after the query, the bias equals ``scale`` times the dot product of these
      channels, up to a constant per row of scores, which softmax ignores. The dot product is summed in the order of
      the channels.
    - ``modifier``: the ``score_mod`` function with which FlexAttention adds the bias to a score.
    - ``fall`` ``(H,)``: the bias of a key d positions behind its query is at most −fall·d, and 0 at d = 0, under
      the same conditions on positions as ``toeplitz``.
    """

    heads: int
    toeplitz: Float[Tensor, "H offsets"] | None = None
    fall: Float[Tensor, " H"] | None = None
    modifier: ScoreMod | None = None
    needs_scores: bool = False
    """Whether ``rows`` reads the scaled scores of its block, as in CoPE. The scores of hidden keys are −∞."""

    indexed_by: ClassVar[dict[str, str]] = {}
    """For each attribute that ``cut`` slices, a string whose n letters name the last n axes of its tensors: ``b``
    for rows of the batch, ``h`` for heads, ``q`` for queries, ``k`` for keys, and a dot for other axes.
    """

    @property
    def trained(self) -> tuple[Tensor, ...]:
        """The tensors in this object's attributes that require gradients. With torch older than 2.13, the tuple is
        empty during compilation, because the compiled graph then computes all gradients.
        """
        if torch.compiler.is_compiling() and not COMPILES_OBJECTS:
            return ()
        for name, part in vars(self).items():
            if isinstance(part, nn.Module) and any(x.requires_grad for x in part.parameters()):
                raise InvalidArgument(
                    f"{name} of {type(self).__name__} is a module, whose parameters would get no gradient; store "
                    "its tensors as attributes instead"
                )
        return tuple({id(x): x for x in tensors(self) if x.requires_grad}.values())

    def with_trained(self: B, tensors: tuple[Tensor, ...]) -> B:
        """Return a copy of the bias with ``trained`` replaced by these tensors.

        Attention uses this copy to compute a gradient inside another backward pass. The inner gradient must stop at
        ``tensors``. If a layer's queries also depend on one of the trained tensors, the outer pass computes the
        gradient through the queries.
        """
        others = dict(zip(map(id, self.trained), tensors, strict=True))
        return cast(B, tree_map(lambda leaf: others.get(id(leaf), leaf), self))

    @abstractmethod
    def rows(
        self,
        first: int,
        last: int,
        keys: int,
        scores: Float[Tensor, "B H rows near"] | None = None,
        start: int = 0,
    ) -> Float[Tensor, "#B H rows near"]:
        """Return the bias for query rows ``first:last`` and key columns ``start:keys``, in float32 or wider."""

    def low_rank(self, dtype: torch.dtype, scale: float) -> Channels | None:
        """Return the extra channels of q and k in this dtype, for the product ``scale``·q·k, or None if the bias
        has no such channels.

        Attention calls this method only if queries and keys are the same tokens and no query sees a later key.
        """
        return None

    def far(self, first: int, last: int) -> tuple[int, Float[Tensor, "B H rows 1"]] | None:
        """Return a number n, and each row's bias at the first n keys, if all of them have the same and come before
        the tokens of these rows; otherwise None. Attention then needs no mask for these keys.
        """
        return None

    def cut(
        self,
        *,
        row: int | None = None,
        heads: slice | None = None,
        queries: slice | None = None,
        keys: slice | None = None,
    ) -> "Bias":
        """Return the bias for these heads, queries and keys, in one row of the batch or in all rows. Every slice
        must have a start and a stop. A bias that declares ``indexed_by`` computes only this part.

        Raises:
            InvalidArgument: heads are sliced from a bias that uses queries and has no ``indexed_by``.
        """
        places = {"b": None if row is None else slice(row, row + 1), "h": heads, "q": queries, "k": keys}
        if not self.indexed_by:
            return CutBias(self, places)
        other = self.changed(
            **{name: sliced(getattr(self, name), x, places) for name, x in self.indexed_by.items()}
        )
        other.heads = self.heads if heads is None else heads.stop - heads.start
        other.derive()
        return other

    def ordered(self, q_order: Tensor, k_order: Tensor) -> "Bias":
        """Return the bias for queries and keys whose indices in their sequence are ``q_order`` and ``k_order``.
        Only biases that sum over the tokens of a sequence, such as FoX and CoPE, need these indices.
        """
        return self

    def meeting(self, q: Float[Tensor, "B H T D"], k: Float[Tensor, "B K S D"], scale: float) -> "Bias":
        """Return the bias for these queries and keys, as they enter attention, and for this scale of q·k. Only
        biases that read queries or keys override this method.
        """
        return self


class CutBias(Bias):
    """A part of a bias whose class does not declare ``indexed_by``. To compute rows of the part, the rows of the
    whole bias are computed, for all heads and sequences, and then sliced.
    """

    def __init__(self, bias: Bias, places: dict[str, slice | None]) -> None:
        self.bias, self.places, self.needs_scores, self.heads = bias, places, bias.needs_scores, bias.heads
        heads = places["h"]
        if heads is not None:
            self.heads = heads.stop - heads.start
            if type(bias).meeting is not Bias.meeting:
                raise InvalidArgument(
                    f"{type(bias).__name__} uses queries but does not declare which of its tensors have an axis "
                    'for heads; name the axes: indexed_by = {"table": "h··"}'
                )

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "#B H rows S"]:
        q, k, head = (0 if place is None else place.start for place in (self.places[axis] for axis in "qkh"))
        if scores is not None:  # zeros for the other heads, since the bias expects all heads
            scores = pad(scores, (0, 0, 0, 0, head, self.bias.heads - head - self.heads))
        block = self.bias.rows(q + first, q + last, k + keys, scores, k + start)
        return sliced(block, "bh··", self.places)

    def ordered(self, q_order: Tensor, k_order: Tensor) -> Bias:
        return CutBias(self.bias.ordered(q_order, k_order), self.places)


class SumBias(Bias):
    """The sum of several biases. It has every shortcut that all of them have, except ``fall``."""

    indexed_by: ClassVar[dict[str, str]] = {"parts": ""}

    def __init__(self, parts: tuple[Bias, ...]) -> None:
        self.parts, self.heads = parts, parts[0].heads
        self.derive()

    def derive(self) -> None:
        self.needs_scores = any(part.needs_scores for part in self.parts)
        lines = [part.toeplitz for part in self.parts if part.toeplitz is not None]
        self.toeplitz = reduce(torch.add, lines) if len(lines) == len(self.parts) else None

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "#B H rows S"]:
        return reduce(torch.add, [part.rows(first, last, keys, scores, start) for part in self.parts])

    def low_rank(self, dtype: torch.dtype, scale: float) -> Channels | None:
        # No walrus operator here: torch's compiler would find its cell uninitialised.
        of_parts = [part.low_rank(dtype, scale) for part in self.parts]
        channels_of_parts = [channels for channels in of_parts if channels is not None]
        if len(channels_of_parts) < len(self.parts):
            return None
        return side_by_side([q for q, _ in channels_of_parts]), side_by_side([k for _, k in channels_of_parts])

    @property
    def modifier(self) -> ScoreMod | None:  # type: ignore[override]
        modifiers = [part.modifier for part in self.parts]

        def score_mod(score: Tensor, *place: Tensor) -> Tensor:
            for modifier in modifiers:
                assert modifier is not None
                score = modifier(score, *place)
            return score

        return None if None in modifiers else score_mod

    def ordered(self, q_order: Tensor, k_order: Tensor) -> Bias:
        return self._of(tuple(part.ordered(q_order, k_order) for part in self.parts))

    def meeting(self, q: Tensor, k: Tensor, scale: float) -> Bias:
        return self._of(tuple(part.meeting(q, k, scale) for part in self.parts))

    def _of(self, parts: tuple[Bias, ...]) -> Bias:
        if all(a is b for a, b in zip(parts, self.parts, strict=True)):
            return self
        return SumBias(parts)


def tensors(value: Any) -> list[Tensor]:
    """Return the tensors of a pytree, including tensors in nested pytrees, tuples, lists and dicts."""
    leaves: list[Tensor] = []
    values = vars(value) if isinstance(value, Pytree) else value
    for part in values.values() if isinstance(values, dict) else values:
        if isinstance(part, Tensor):
            leaves.append(part)
        elif isinstance(part, tuple | list | dict | Pytree):
            leaves += tensors(part)
    return leaves


def offsets(
    q_positions: Tensor, k_positions: Tensor, first: int, last: int, keys: int, start: int = 0
) -> Int[Tensor, "*B rows near"]:
    """Return the offsets, key position − query position, of a block of rows."""
    return k_positions[..., start:keys].unsqueeze(-2) - q_positions[..., first:last].unsqueeze(-1)


def rows_of_line(
    line: Float[Tensor, "H offsets"], queries: int, first: int, last: int, keys: int, start: int
) -> Float[Tensor, "1 H rows near"]:
    """Return a block of rows as a view of ``line``, the ``toeplitz`` of a bias for this number of queries."""
    block = line[:, queries - last + start : queries - first - 1 + keys]
    return block.unfold(1, keys - start, 1).flip(1)[None]


def check_channels(name: str, x: Float[Tensor, "B H n D"], channels: int) -> None:
    """Raise an error unless ``x``, the queries or keys, has the number of channels that the bias expects."""
    if x.shape[-1] != channels:
        raise InvalidArgument(
            f"{name} has {x.shape[-1]} channels per head but the bias reads {channels}; build the encoding with "
            f"head_dim={x.shape[-1]}, the width of {name} when it enters attention"
        )


def batch_first(values: Float[Tensor, "H *shape"]) -> Float[Tensor, "#B H rows S"]:
    """Return a bias with the batch axis first. A bias without batch axis, ``(H, rows, S)``, gets one of size 1."""
    return values.transpose(0, 1) if values.dim() == 4 else values.unsqueeze(0)


def side_by_side(tensors: list[Tensor]) -> Tensor:
    """Expand the batch and head axes of the tensors to the same sizes, and concatenate the channels."""
    batch, heads = (max(tensor.shape[axis] for tensor in tensors) for axis in (0, 1))
    return torch.cat([tensor.expand(batch, heads, -1, -1) for tensor in tensors], dim=-1)


def sliced(attribute: Any, axes: str, places: dict[str, slice | None]) -> Any:
    """Slice the tensors of an attribute. ``axes`` is a string as in ``indexed_by``: its n letters name the last n
    axes of each tensor. Axes that broadcast over the batch or heads are not sliced. A value that contains no tensor
    is returned unchanged.
    """
    if isinstance(attribute, Bias):
        b, h, q, k = (places[axis] for axis in "bhqk")
        return attribute.cut(row=None if b is None else b.start, heads=h, queries=q, keys=k)
    if isinstance(attribute, tuple):
        return tuple(sliced(part, axes, places) for part in attribute)
    return narrowed(attribute, axes, places) if isinstance(attribute, Tensor) else attribute


def climbs(q_positions: Tensor, k_positions: Tensor) -> bool:
    """Return whether positions never decrease from token to token, and the last position exceeds the first by less
    than ``SPAN``.

    Positions are read only on the CPU; on GPUs, and for more keys than ``SPAN``, the result is False. A compiled
    graph assumes that the result is True and asserts it.
    """
    if not torch.compiler.is_exporting() and (k_positions.shape[-1] > SPAN or not k_positions.numel()):
        return False  # an exported graph has only one branch
    if k_positions.is_cuda and not torch.compiler.is_compiling():
        return False  # FlexAttention does not need this, and on a GPU a failing assertion ends the process
    inside = (k_positions.cummax(-1).values == k_positions).all() & (q_positions >= k_positions).all()
    inside = inside & (q_positions.amax() - k_positions.amin() < SPAN)
    if is_concrete(q_positions, k_positions) and inside.device.type == "cpu":
        return bool(inside)
    torch._assert_async(
        inside,
        f"positions decrease from one token to the next, or span {SPAN} or more; compiled attention and attention "
        "on a GPU do not support this: pass backend='blocks' to attention",
    )
    return True


def line_of_offsets(q_positions: Tensor, k_positions: Tensor) -> Int[Tensor, " offsets"] | None:
    """Return the offsets −(S−1) … T−1, in the order of ``toeplitz``; None if positions are not ``consecutive``."""
    if not consecutive(q_positions, k_positions):
        return None
    return torch.arange(1 - len(k_positions), len(q_positions), device=k_positions.device)


def consecutive(q_positions: Tensor, k_positions: Tensor) -> bool:
    """Return whether the keys' positions count up by one and end with the queries' positions. Positions are read
    only on the CPU; on other devices, the result is False.
    """
    if k_positions.device.type != "cpu" or not is_concrete(q_positions, k_positions):
        return False
    if q_positions.dim() != 1 or k_positions.dim() != 1 or not 0 < len(q_positions) <= len(k_positions):
        return False
    aligned = torch.equal(k_positions[len(k_positions) - len(q_positions) :], q_positions)
    return aligned and bool((k_positions.diff() == 1).all())
