"""The base class of encodings that rotate queries and keys by tables of cos and sin."""

from abc import abstractmethod
from typing import Any, ClassVar, cast, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.arguments import at_least, form, one_of
from posenc.clock import RADIANS_PER_UNIT
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import KeyPositions, Keys, Placed, Positions, Queries, insert_head_axis
from posenc.encodings.wide import widest
from posenc.errors import InvalidArgument
from posenc.kernels.backend import RotationBackend
from posenc.kernels.rotary import Step, Tables, rotate_both, step
from posenc.kernels.rotary.by_native import Pair
from posenc.kernels.rotary.specification import Pairing


class Rotation(Encoding):
    """Rotates pairs of channels of queries and keys by the angles whose cos and sin ``tables`` returns.

    (x, y) → (x·cos φ − y·sin φ,  x·sin φ + y·cos φ) for every pair of channels. A subclass implements ``tables``
    and declares ``relative``; the base class supports caches, gradients, 16-bit dtypes and ``rerotate``. For
    example, this class learns its frequencies:

        class LearnedFrequencies(posenc.Rotation):
            name, relative = "learned-frequencies", True

            def __init__(self, head_dim):
                super().__init__(head_dim, pairing="half")
                self.frequencies = torch.nn.Parameter(torch.empty(head_dim // 2))
                self.reset_parameters()

            def reset_parameters(self):
                torch.nn.init.uniform_(self.frequencies, 0.001, 1.0)

            def tables(self, positions, dtype=torch.float32):
                angles = self.angles(positions, self.frequencies)
                return angles.cos().to(dtype), angles.sin().to(dtype)

    If you compute frequencies from parameters, use float64, as in ``self.a.double().exp()``, so that casting
    the model to 16 bits rounds only the parameters.

    Args:
        head_dim: D, channels of one head; channels beyond the pairs of ``tables`` pass through unchanged.
        pairing: ``"half"`` or ``"interleaved"``, as in ``Rotary``.
    """

    acts_on = ("queries_keys",)
    not_rerotatable = ""

    attention_factor: float = 1.0
    """The factor by which the tables of cos and sin are multiplied."""

    groups: int = 1
    """The number of groups of consecutive heads, each with its own tables; a divisor of the number of key heads."""

    heads: int | None = None
    """H, query heads; ``slice_heads`` requires this number if there are several groups."""

    softmax_factor: float = 1.0
    """The factor by which attention's 1/√D is multiplied."""

    backend: RotationBackend = "auto"
    """The implementation of the rotation."""

    def __init__(self, head_dim: int, pairing: Pairing) -> None:
        super().__init__()
        one_of("pairing", pairing, get_args(Pairing))
        self.head_dim = at_least(1)(head_dim, "head_dim")
        self.pairing: Pairing = pairing

    @abstractmethod
    def tables(self, positions: Positions, dtype: torch.dtype = torch.float32) -> Pair:
        """Return cos and sin at these positions, ``(T, pairs)``, ``(B, T, pairs)`` or ``(#B, groups, T,
        pairs)``.
        """

    def angles(
        self, positions: Positions, frequencies: Float[Tensor, "*shape pairs"]
    ) -> Float[Tensor, "#B groups T pairs"]:
        """Return the angle Σ_a p_a·F[a, g, i] of every group g and pair i, in radians; a runs over the axes.

        Angles are exact at any position and differentiable with respect to the frequencies F.

        Args:
            positions: in a shape that ``at`` accepts. To get the angles of only one of several axes, pass
                ``positions[axis]`` and frequencies of the shape ``(pairs,)``.
            frequencies: F, in radians per position: ``(pairs,)`` or ``(groups, pairs)`` for one axis, ``(axes,
                groups, pairs)`` for several. Each frequency is rounded to the nearest 64-bit fraction of a turn.
        """
        compute_dtype = widest(positions.device)
        axes = 1 if frequencies.dim() == 1 else self.axes
        F = frequencies.to(compute_dtype).reshape(axes, -1, frequencies.shape[-1])
        at = positions[None] if axes == 1 else positions
        at = (at[:, None] if at.dim() == 2 else at)[:, :, None, :, None]  # (A, B, 1, T, 1)
        fractions = F.detach() / (RADIANS_PER_UNIT * 2.0**64)
        words = ((fractions - (fractions + 0.5).floor()) * 2.0**64).round().to(torch.int64)
        phases = (at * words[:, None, :, None]).sum(0)
        # The second term is zero but has the gradient of p·F; the value comes from the exact integers.
        return phases.to(compute_dtype) * RADIANS_PER_UNIT + (
            at.to(compute_dtype) * (F - F.detach())[:, None, :, None]
        ).sum(0)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedRotation(self, q_positions, k_positions, dtype)


class PlacedTables(Placed):
    """Tables of cos and sin at the queries' positions. Tables for keys at other positions are built only when such
    keys are rotated, because a model that caches rotated keys never needs these tables.
    """

    channels: ClassVar[int] = 1
    """The number of a head's channels that share a column of the tables."""

    def __init__(
        self, encoding: Any, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype
    ) -> None:
        super().__init__(q_positions, k_positions, encoding.axes)
        self.encoding, self.dtype = encoding, dtype
        self.q_tables = self.tables(q_positions)

    def tables(self, positions: Positions, *settings: int) -> Tables:
        made: Any = self.encoding.tables(positions, self.dtype, *settings)
        if not self._fit(made, positions):
            parts = map(form, made if isinstance(made, tuple | list) else (made,))
            raise InvalidArgument(
                f"{type(self.encoding).__name__}.tables() must return cos and sin, both {self.dtype} on "
                f"{positions.device}, of shape (T, pairs), (B, T, pairs) or (#B, groups, T, pairs), with "
                f"T={positions.shape[-1]} and at most {self.encoding.head_dim // self.channels} pairs; got "
                f"{', '.join(parts)}"
            )
        return Tables(*[insert_head_axis(table) for table in made])

    def _fit(self, made: Any, positions: Positions) -> bool:
        """Return whether ``made`` consists of two tensors, cos and sin, whose shape, dtype and device fit these
        positions and the kernels.
        """
        cos, sin = made if isinstance(made, (tuple, list)) and len(made) == 2 else (None, None)
        batch = positions.shape[-2] if positions.dim() == (2 if self.axes == 1 else 3) else 1
        return (
            isinstance(cos, Tensor)
            and isinstance(sin, Tensor)
            and cos.shape == sin.shape
            and cos.dtype == sin.dtype == self.dtype
            and cos.device == sin.device == positions.device
            and 2 <= cos.dim() <= 4
            and cos.shape[-2] == positions.shape[-1]
            and cos.shape[-1] * self.channels <= self.encoding.head_dim
            and (cos.dim() == 2 or cos.shape[0] in (1, batch))
            and getattr(self.encoding, "groups", 1) == (cos.shape[1] if cos.dim() == 4 else 1)
        )

    def key_tables(self, q: Queries, k: Keys) -> Tables:
        """Return the tables for the keys; raise an error if queries or keys do not fit the placed encoding."""
        at_queries = self.keys_at_queries(q, k, self.encoding.head_dim)
        return self.q_tables if at_queries else self.tables(self.k_positions)


class PlacedRotation(PlacedTables):
    """cos and sin of every pair's angle, ``(T, pairs)``, ``(B, 1, T, pairs)`` or ``(#B, groups, T, pairs)``."""

    channels = 2
    transient: ClassVar[dict[str, Any]] = {"_step": None}

    def __init__(
        self, encoding: Rotation, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype
    ) -> None:
        super().__init__(encoding, q_positions, k_positions, dtype)
        self.softmax_factor, self.of_groups = encoding.softmax_factor, slice(0, encoding.groups)
        self.of_heads = slice(0, encoding.heads)
        self._step: Step | None = None

    def slice_heads(self, first: int, last: int) -> Placed:
        groups, heads = self.encoding.groups, self.encoding.heads
        sliced = cast(PlacedRotation, super().slice_heads(first, last))
        if groups == 1:
            return sliced
        if heads is None or heads % groups:
            raise InvalidArgument(
                f"slice_heads needs the model's number of query heads, a multiple of groups={groups}, but the "
                f"encoding has heads={heads}; pass heads= when you build the encoding"
            )
        size, start = heads // groups, self.of_heads.start
        begin, end = start + first, start + last
        if end > self.of_heads.stop:
            raise InvalidArgument(
                f"first={first} and last={last} must be within the {self.of_heads.stop - start} heads of the "
                "rotation; count heads from 0, and build the encoding for all heads of the model"
            )
        if (begin % size or end % size) and begin // size != (end - 1) // size:
            raise InvalidArgument(
                f"first={first} and last={last} split groups of {size} heads; slice whole groups, or heads "
                "within one group"
            )
        sliced.of_heads, sliced.of_groups = slice(begin, end), slice(begin // size, (end - 1) // size + 1)
        return sliced

    def rotate(
        self, q: Queries, k: Keys, *, out: tuple[Tensor | None, Tensor | None] | None = None
    ) -> tuple[Queries, Keys]:
        """Rotate queries and keys, into new tensors or into ``out``. If q or k is None, so is its result.

        ``out=(q, k)`` rotates in place. ``out`` can also be other tensors of the same shapes and dtypes, such as
        parts of a cache, even if they overlap q or k. Autograd supports both uses.

        Args:
            out: tensors for the queries and for the keys; None for new ones.

        Raises:
            InvalidArgument: ``out`` does not fit q and k.
        """
        if self.stamps:
            self.check_current()
        plain: tuple[Any, Any] | None = None
        if out is None and not (q is None or k is None or torch.compiler.is_compiling()):
            plain = q, k
            again = None if self._step is None else self._step(q, k)
            if again is not None:
                return again
        q_tables, k_tables, encoding = self.q_tables, self.key_tables(q, k), self.encoding
        if encoding.groups > 1:  # if q or k is None, its tables are not read
            q_tables = q_tables if q is None else self._tables_for_heads(q_tables, q.shape[1])
            k_tables = k_tables if k is None else self._tables_for_heads(k_tables, k.shape[1])
        if plain is not None:
            self._step = step(*plain, q_tables, k_tables, encoding.pairing, encoding.backend)
            if self._step is not None:
                return cast(tuple[Queries, Keys], self._step(*plain))
        rotated = rotate_both(q, k, q_tables, k_tables, encoding.pairing, encoding.backend, out)
        return cast(tuple[Queries, Keys], rotated)

    def unrotate(self, k: Float[Tensor, "B K S D"]) -> Float[Tensor, "B K S D"]:
        """Undo the rotation of keys that are at ``q_positions``: ``unrotate(rotate(None, x)[1])`` is x, up to
        rounding.

        DeepSeek-V4 also unrotates the outputs of attention, because its values are its rotated keys. Unrotated
        outputs depend on positions only through the offsets between queries and keys. Only the last 64 of a head's
        512 channels rotate, so for outputs y, call ``unrotate(y[..., -64:])``.

        Raises:
            InvalidArgument: k does not fit the queries' positions.
        """
        self.check_heads("k", k, self.q_positions, self.encoding.head_dim)
        cos, sin = self._tables_for_heads(self.q_tables, k.shape[1]) if self.encoding.groups > 1 else self.q_tables
        scale = self.encoding.attention_factor**-2
        tables = Tables(cos * scale, sin * -scale)
        return rotate_both(k, None, tables, tables, self.encoding.pairing, self.encoding.backend)[0]  # type: ignore[return-value]

    def _tables_for_heads(self, tables: Tables, heads: int) -> Tables:
        """Repeat the tables for this many heads; each group consists of consecutive heads."""
        groups = self.of_groups.stop - self.of_groups.start
        if heads % groups:
            raise InvalidArgument(
                f"q or k has {heads} heads; the number of heads must be a multiple of groups={groups}"
            )
        return Tables(*(x[:, self.of_groups].repeat_interleave(heads // groups, dim=1) for x in tables))
