"""What is added to the scores: dense blocks always, and shortcuts that attention takes where a bias offers them."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from posenc.errors import InvalidArgument
from posenc.kernels.attention.flex import ScoreMod
from posenc.kernels.attention.low_rank import SPAN, Channels
from posenc.kernels.memory import may_be_looked_at
from posenc.pytrees import Pytree

Values = Callable[..., Float[Tensor, "H *shape"]]
"""A bias as a function of the offset, key position − query position, int64 of any shape, and of its trainable
tensors; heads in front."""

Visible = Bool[Tensor, "#B 1 #rows S"] | None


class Bias(Pytree, ABC):
    """A score bias at given positions, added after the scores were scaled.

    ``heads`` is H, the query heads that it has values for.

    Attention asks for these shortcuts by looking whether they are there, never by what class a bias is:

    - ``toeplitz`` ``(H, 2S−1)``: every value once, at the offsets −(S−1) … S−1, where the bias is a function of the
      offset, positions count up by one and the queries are the last T of the S keys.
    - ``low_rank(dtype, scale)``: extra channels of queries and keys, ``(#B, #H, T, r)`` and ``(#B, #H, S, r)``,
      that ``dtype`` holds; scale · their products, summed in order, is the bias of every key not after its query,
      or it plus a number that is the same along a row of scores, which softmax does not see.
    - ``modifier``: what FlexAttention adds to one score, as a function of where it stands.
    - ``constant_beyond``: keys more than so many positions behind their query all get ``beyond`` from its row, and
      the others have their ``rows``, where positions count up by one and the queries are the last T of the S keys.
    """

    heads: int
    toeplitz: Float[Tensor, "H offsets"] | None = None
    constant_beyond: int | None = None
    modifier: ScoreMod | None = None
    needs_scores: bool = False
    """Whether ``rows`` reads the scaled scores of its block, −∞ where a key is hidden, as CoPE does."""

    checked: bool = False
    """Whether it is known that ``trainable`` names all that ``rows`` computes from."""

    made_of: ClassVar[tuple[str, ...]] = ()
    """The attributes that hold the tensors that gradients flow to: a tensor, a bias, None, or a tuple of them.
    ``rows`` must compute from these attributes and from no other trainable number."""

    @property
    def trainable(self) -> tuple[Tensor, ...]:
        """The tensors that ``rows`` computes from and that gradients flow to."""
        return tuple(_tensors(tuple(getattr(self, name) for name in self.made_of)))

    def with_trainable(self, tensors: tuple[Tensor, ...]) -> "Bias":
        """The same computed from these tensors, one for each of ``trainable``.

        A gradient that is taken inside another one must end at the bias: what a layer's queries were made of may
        be the very table that this layer adds too.
        """
        other, given = copy.copy(self), iter(tensors)
        for name in self.made_of:
            setattr(other, name, _exchanged(getattr(self, name), given))
        other.derive()
        return other

    def derive(self) -> None:
        """Make anew what is kept of numbers that depend on ``trainable``, such as ``toeplitz``."""

    def check_trainable(self, scores: Float[Tensor, "B H 1 1"]) -> None:
        """Refuse trainable numbers that ``trainable`` does not name; ``scores`` are any of the first row.

        Raises:
            InvalidArgument: ``rows`` computes from others, which would get no gradient.
        """
        if not self.checked:
            fixed = self.with_trainable(tuple(x.detach() for x in self.trainable))
            check_named(fixed.rows(0, 1, 1, scores), type(self).__name__)
            self.checked = True

    @abstractmethod
    def rows(
        self,
        first: int,
        last: int,
        keys: int,
        scores: Float[Tensor, "B H rows near"] | None = None,
        start: int = 0,
    ) -> Float[Tensor, "#B H rows near"]:
        """The bias of query rows ``first`` to ``last`` (excluded) for the keys ``start`` to ``keys`` (excluded), at
        least float32."""

    def differences(
        self,
        first: int,
        last: int,
        keys: int,
        visible: Visible,
        scores: Float[Tensor, "B H rows near"] | None = None,
        start: int = 0,
    ) -> Float[Tensor, "#B H rows near"]:
        """``rows``, or, where it has more digits then, less a number that all visible keys of a row share.

        Softmax does not see such a number. ``visible`` broadcasts against the block; None is every key.
        """
        return self.rows(first, last, keys, scores, start)

    def beyond(self, first: int, last: int) -> Float[Tensor, "#B H rows 1"] | None:
        """What the rows give every key that is further than ``constant_beyond``; None for nothing."""
        return None

    def low_rank(self, dtype: torch.dtype, scale: float) -> Channels | None:
        """The extra channels where q and k have this type and q·k is multiplied by ``scale``; None without any.

        Asked for only where queries and keys are the same tokens and a query sees none after it.
        """
        return None

    def part(self, row: int | None, first: int, last: int) -> "Bias":
        """The same for the tokens ``first`` to ``last`` (excluded) alone, of one row of the batch or of all."""
        return PartBias(self, row, first, last)

    def ordered(self, q_order: Tensor, k_order: Tensor) -> "Bias":
        """The same, knowing the order of the tokens; for those that sum along it."""
        return self

    def meeting(self, q: Float[Tensor, "B H T D"], k: Float[Tensor, "B K S D"], scale: float) -> "Bias":
        """The same, knowing queries and keys as they enter attention, and what multiplies their products; for those
        that read them."""
        return self


class OffsetBias(Bias):
    """A bias that is a function of the offset alone, held in O(H·L) where positions allow it.

    Args:
        values: the function; it is called with int64 offsets and then with the tensors of ``trainable``, and gives
            float32 or float64, heads in front.
        heads: H.
        q_positions: ``(T,)`` or ``(B, T)``, with their axes in front.
        k_positions: the keys', likewise.
        trainable: the tensors that gradients flow to. ``values`` must read them from its arguments: it is called
            again with others in their place, to take the gradients of one layer apart from those of the others.
        axes: coordinates of a position.

    Raises:
        InvalidArgument: ``values`` reads a trainable tensor that is not an argument of it.
    """

    made_of = ("parameters",)

    def __init__(
        self,
        values: Values,
        heads: int,
        q_positions: Tensor,
        k_positions: Tensor,
        trainable: tuple[Tensor, ...] = (),
        axes: int = 1,
    ) -> None:
        self.values, self.heads, self.parameters, self.axes = values, heads, trainable, axes
        if axes > 1 and q_positions.dim() != k_positions.dim():  # (A, T) beside (A, B, T): one row for all
            q_positions, k_positions = (
                at.unsqueeze(-2) if at.dim() == 2 else at for at in (q_positions, k_positions)
            )
        self.q_positions, self.k_positions = q_positions, k_positions
        self.straight = consecutive(q_positions, k_positions)
        if torch.is_grad_enabled() and may_be_looked_at(q_positions, *trainable):
            apart = q_positions.new_zeros((axes, 1) if axes > 1 else 1)
            check_named(values(apart, *(x.detach() for x in trainable)), type(self).__name__)
            self.checked = True
        self.derive()

    def derive(self) -> None:
        if self.straight:
            last = self.k_positions.shape[0] - 1
            along = torch.arange(-last, last + 1, device=self.k_positions.device)
            self.toeplitz = self.values(along, *self.parameters).contiguous()

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "#B H rows S"]:
        apart = offsets(self.q_positions, self.k_positions, first, last, keys, start)
        return heads_second(self.values(apart, *self.parameters))

    def part(self, row: int | None, first: int, last: int) -> Bias:
        q, k = (cut(at, row, first, last, self.axes) for at in (self.q_positions, self.k_positions))
        return OffsetBias(self.values, self.heads, q, k, self.parameters, self.axes)


class PartBias(Bias):
    """Some tokens of a bias: its rows there."""

    made_of = ("bias",)

    def __init__(self, bias: Bias, row: int | None, first: int, last: int) -> None:
        self.bias, self.row, self.first, self.last = bias, row, first, last
        self.heads, self.needs_scores = bias.heads, bias.needs_scores

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "#B H rows S"]:
        ends = self.first + first, self.first + last, self.first + keys
        block = self.bias.rows(*ends, scores, self.first + start)
        return block if self.row is None or block.shape[0] == 1 else block[self.row : self.row + 1]


class SumBias(Bias):
    """Several biases added; it has the shortcuts that all of them have and that add up."""

    made_of = ("parts",)

    def __init__(self, parts: tuple[Bias, ...]) -> None:
        self.parts, self.heads = parts, parts[0].heads
        self.needs_scores = any(part.needs_scores for part in parts)
        self.derive()

    def derive(self) -> None:
        lines = [part.toeplitz for part in self.parts]
        if all(line is not None for line in lines):
            self.toeplitz = torch.stack([line for line in lines if line is not None]).sum(0)

    def rows(
        self, first: int, last: int, keys: int, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "#B H rows S"]:
        return added([part.rows(first, last, keys, scores, start) for part in self.parts])

    def differences(
        self, first: int, last: int, keys: int, visible: Visible, scores: Tensor | None = None, start: int = 0
    ) -> Float[Tensor, "#B H rows S"]:
        return added([part.differences(first, last, keys, visible, scores, start) for part in self.parts])

    def low_rank(self, dtype: torch.dtype, scale: float) -> Channels | None:
        # Without a walrus, whose cell torch's compiler finds uninitialised.
        each = [part.low_rank(dtype, scale) for part in self.parts]
        channels_of_parts = [channels for channels in each if channels is not None]
        if len(channels_of_parts) < len(self.parts):
            return None
        return side_by_side([q for q, _ in channels_of_parts]), side_by_side([k for _, k in channels_of_parts])

    def part(self, row: int | None, first: int, last: int) -> Bias:
        return SumBias(tuple(part.part(row, first, last) for part in self.parts))

    def ordered(self, q_order: Tensor, k_order: Tensor) -> Bias:
        return self._of(tuple(part.ordered(q_order, k_order) for part in self.parts))

    def meeting(self, q: Tensor, k: Tensor, scale: float) -> Bias:
        return self._of(tuple(part.meeting(q, k, scale) for part in self.parts))

    def _of(self, parts: tuple[Bias, ...]) -> Bias:
        return self if parts == self.parts else SumBias(parts)


def _tensors(attribute: Any) -> Iterator[Tensor]:
    """The trainable tensors in an attribute."""
    if isinstance(attribute, Bias):
        yield from attribute.trainable
    elif isinstance(attribute, tuple):
        for one in attribute:
            yield from _tensors(one)
    elif isinstance(attribute, Tensor):
        yield attribute


def _exchanged(attribute: Any, given: Iterator[Tensor]) -> Any:
    """The attribute with the next of the given tensors in the place of each of its own."""
    if isinstance(attribute, Bias):
        return attribute.with_trainable(tuple(next(given) for _ in attribute.trainable))
    if isinstance(attribute, tuple):
        return tuple(_exchanged(one, given) for one in attribute)
    return next(given) if isinstance(attribute, Tensor) else attribute


def check_named(values: Tensor, name: str) -> None:
    """Refuse values that a gradient flows from although everything that ``trainable`` names was cut off."""
    if values.requires_grad:
        raise InvalidArgument(
            f"{name} computes from trainable tensors that trainable does not name, so that they would get no "
            "gradient; pass them: OffsetBias(values, heads, q_positions, k_positions, trainable=(…)), and read "
            "them from the arguments of values(offsets, …); a Bias of your own names its attributes in made_of"
        )


def offsets(
    q_positions: Tensor, k_positions: Tensor, first: int, last: int, keys: int, start: int = 0
) -> Int[Tensor, "*B rows near"]:
    """Key position − query position of a block of rows."""
    return k_positions[..., start:keys].unsqueeze(-2) - q_positions[..., first:last].unsqueeze(-1)


def check_channels(name: str, x: Float[Tensor, "B H n D"], channels: int) -> None:
    """Refuse queries or keys that a bias which reads them is not as wide as."""
    if x.shape[-1] != channels:
        raise InvalidArgument(
            f"{name} has {x.shape[-1]} channels a head and the bias reads {channels}; make the encoding with "
            f"head_dim={x.shape[-1]}, what {name} has when it enters attention"
        )


def heads_second(values: Float[Tensor, "H *shape"]) -> Float[Tensor, "#B H rows S"]:
    """``(H, rows, S)`` or ``(H, B, rows, S)`` with the batch in front."""
    return values.transpose(0, 1) if values.dim() == 4 else values.unsqueeze(0)


def added(blocks: list[Tensor]) -> Tensor:
    """The sum of blocks, whichever of them have a batch axis."""
    total = blocks[0]
    for block in blocks[1:]:
        total = total + block
    return total


def side_by_side(tensors: list[Tensor]) -> Tensor:
    """Channels side by side, whichever of them have axes for the batch and for heads."""
    batch, heads = (max(tensor.shape[axis] for tensor in tensors) for axis in (0, 1))
    return torch.cat([tensor.expand(batch, heads, -1, -1) for tensor in tensors], dim=-1)


def cut(at: Tensor, row: int | None, first: int, last: int, axes: int = 1) -> Tensor:
    """Of positions ``(T,)`` or ``(B, T)``, axes in front, those of some tokens, of one row or of all."""
    at = at[..., first:last]
    by_row = at.dim() == (2 if axes == 1 else 3)
    return at if row is None or not by_row else at.select(-2, min(row, at.shape[-2] - 1))


def climbs(q_positions: Tensor, k_positions: Tensor, span: int = SPAN) -> bool:
    """Whether no key stands past a query that comes after it, and all within ``span`` of the first.

    Looks at values on the CPU only. Where nobody may look, or looking would wait for a device, positions are taken
    to do so, and an assertion on the device holds them to it.
    """
    inside = (k_positions.cummax(-1).values == k_positions).all() & (q_positions >= k_positions).all()
    inside = inside & (q_positions.amax() - k_positions.amin() < span)
    if may_be_looked_at(q_positions, k_positions) and inside.device.type == "cpu":
        return bool(inside)
    torch._assert_async(
        inside,
        f"positions go back from one token to the next, or span {span}; attention that is compiled or on a GPU "
        "takes them not to: pass backend='blocks' to it",
    )
    return True


def consecutive(q_positions: Tensor, k_positions: Tensor) -> bool:
    """Whether keys count up by one and the queries are the last of them; looks at values on the CPU only."""
    if k_positions.device.type != "cpu" or not may_be_looked_at(q_positions, k_positions):
        return False
    if q_positions.dim() != 1 or k_positions.dim() != 1 or not 0 < len(q_positions) <= len(k_positions):
        return False
    aligned = torch.equal(k_positions[len(k_positions) - len(q_positions) :], q_positions)
    return aligned and bool((k_positions.diff() == 1).all())
