"""RoPE, rotary positions: queries and keys turn with their positions (Su et al. 2021, arXiv 2104.09864).

    (x, y) → (x·cos φ − y·sin φ,  x·sin φ + y·cos φ),   φ = p·θ_i,  θ_i = base^(−2i/d)

so that ⟨R(m)q, R(n)k⟩ = ⟨q, R(n−m)k⟩: a score sees only the offset, key − query. Which two channels form pair i
is the *pairing*: ``"interleaved"`` takes (2i, 2i+1) as the paper and GPT-J do, ``"half"`` takes (i, i+d/2) as
Llama, GPT-NeoX and most public checkpoints do. They differ by a fixed permutation of channels and are not
interchangeable on trained weights. Values are never rotated.
"""

from typing import ClassVar, Literal, final, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.clock import Clock, Phases
from posenc.encodings.encoding import (
    Encoding,
    KeyPositions,
    Placed,
    Positions,
    check_last,
    check_length,
    over_heads,
)
from posenc.errors import InvalidArgument, UnknownName
from posenc.kernels.choose import Impl, check_impl, choose
from posenc.kernels.rotary import are_few, engine_from_tables, engine_from_turns, rotate_pair, serving
from posenc.kernels.rotary_cpu import Wide, few, wide_tables
from posenc.schedules.default import Default
from posenc.schedules.schedule import Schedule

Pairing = Literal["half", "interleaved"]


def rotate(
    x: Float[Tensor, "*batch T D"],
    cos: Float[Tensor, "*table T pairs"],
    sin: Float[Tensor, "*table T pairs"],
    pairing: Pairing,
) -> Float[Tensor, "*batch T D"]:
    """Turn the first ``2 × pairs`` channels of x; the channels behind them pass bit for bit.

    ``cos`` and ``sin`` broadcast against x without its channels: ``(T, pairs)`` or ``(B, 1, T, pairs)``.
    The arithmetic runs in the tables' type and is rounded once to x's. Negate ``sin`` to turn back.
    """
    pairs = cos.shape[-1]
    turned, tail = x[..., : 2 * pairs].to(torch.promote_types(x.dtype, cos.dtype)), x[..., 2 * pairs :]
    if pairing == "half":
        a, b = turned[..., :pairs], turned[..., pairs:]
        # Each half is rounded before they are joined: one pass less over memory than joining first.
        halves = (a * cos - b * sin).to(x.dtype), (b * cos + a * sin).to(x.dtype)
        return torch.cat((*halves, tail), dim=-1)
    a, b = turned[..., ::2], turned[..., 1::2]
    both = torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2).to(x.dtype)
    return torch.cat((both, tail), dim=-1) if tail.shape[-1] else both


def rotate_complex(
    x: Float[Tensor, "*batch T D"],
    cos: Float[Tensor, "*table T pairs"],
    sin: Float[Tensor, "*table T pairs"],
    pairing: Pairing,
) -> Float[Tensor, "*batch T D"]:
    """``rotate`` as one complex multiplication, (x + iy)·e^{iφ}: the same function, kept for those who think so."""
    pairs = cos.shape[-1]
    turned, tail = x[..., : 2 * pairs].to(cos.dtype), x[..., 2 * pairs :]
    layout = (2, pairs) if pairing == "half" else (pairs, 2)
    split = turned.unflatten(-1, layout)
    split = split.transpose(-1, -2) if pairing == "half" else split
    product = torch.view_as_real(torch.complex(split[..., 0], split[..., 1]) * torch.complex(cos, sin))
    product = product.transpose(-1, -2) if pairing == "half" else product
    return torch.cat((product.flatten(-2).to(x.dtype), tail), dim=-1)


def half_from_interleaved(rotary_dim: int) -> list[int]:
    """Channel order that turns interleaved vectors into half ones: ``half = interleaved[..., order]``."""
    return [*range(0, rotary_dim, 2), *range(1, rotary_dim, 2)]


def interleaved_from_half(rotary_dim: int) -> list[int]:
    """The inverse: ``interleaved = half[..., order]``."""
    return [i // 2 + (i % 2) * (rotary_dim // 2) for i in range(rotary_dim)]


class PlacedRotary(Placed):
    """cos and sin of every pair at the queries' and keys' positions, computed when first asked for.

    A model with a cache rotates new keys at their own positions and then attends over all of them: the second
    placing never needs a table, and never pays for one.
    """

    def __init__(
        self, rotary: "Rotary", q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype
    ) -> None:
        super().__init__(q_positions, k_positions)
        self.rotary = rotary
        self.dtype = dtype
        self._q: tuple[Tensor, Tensor] | None = None
        self._k: tuple[Tensor, Tensor] | None = None
        self._wide: Wide | None = None

    @property
    def q_tables(self) -> tuple[Tensor, Tensor]:
        """cos and sin at the queries' positions, heads' axis inserted."""
        if self._q is None:
            self._q = self.rotary.tables(self.q_positions, self.dtype)
        return self._q

    @property
    def k_tables(self) -> tuple[Tensor, Tensor]:
        """cos and sin at the keys' positions, heads' axis inserted."""
        if self.k_positions is self.q_positions:
            return self.q_tables
        if self._k is None:
            self._k = self.rotary.tables(self.k_positions, self.dtype)
        return self._k

    def rotate(
        self,
        q: Float[Tensor, "B H T D"],
        k: Float[Tensor, "B K S D"],
        *,
        out: tuple[Tensor, Tensor] | None = None,
    ) -> tuple[Float[Tensor, "B H T D"], Float[Tensor, "B K S D"]]:
        """Queries and keys turned, in fresh memory or into ``out``.

        ``out=(q, k)`` rotates in place; other memory of the same shapes and types, such as a slot of a cache,
        takes the result without a detour. Autograd follows both.
        """
        for name, x, positions in (("q", q, self.q_positions), ("k", k, self.k_positions)):
            check_last(name, x, self.rotary.head_dim, "head_dim")
            check_length(name, x, positions)
        pairing = self.rotary.pairing
        served = serving(self.rotary.impl, q.device.type)
        if served == "torch":
            turned = rotate(q, *self.q_tables, pairing), rotate(k, *self.k_tables, pairing)
            return turned if out is None else (out[0].copy_(turned[0]), out[1].copy_(turned[1]))
        if served == "eager" and out is None and self._whole and are_few(q, k):
            self._wide = self._wide or wide_tables(*self.q_tables, pairing)
            return few(q, k, self._wide, pairing)
        if served == "triton" and self.rotary.clock.phases == "exact" and self.dtype != torch.float64:
            turns = self.rotary.clock.turns
            engine = engine_from_turns(self.rotary.attention_factor)
            q_phases, k_phases = (self.q_positions, turns), (self.k_positions, turns)
        else:
            engine, q_phases, k_phases = engine_from_tables(served), self.q_tables, self.k_tables
        return rotate_pair(engine, q, k, q_phases, k_phases, pairing, out)

    @property
    def _whole(self) -> bool:
        """Whether q and k share positions and turn with all their channels."""
        return self.k_positions is self.q_positions and self.rotary.rotary_dim == self.rotary.head_dim


@final
class Rotary(Encoding):
    """Rotates queries and keys in every layer; no parameters, no largest position.

    Args:
        head_dim: D, channels of one head.
        pairing: ``"half"`` or ``"interleaved"``. There is no default: a checkpoint needs the one it was
            trained with, and the other breaks it without an error.
        base: 10000 in the paper; 500 000 in Llama 3. Read a checkpoint's from its config.
        rotary_dim: channels that turn, even, at most head_dim; the rest pass bit for bit. Default all.
        schedule: how the frequencies are set; ``Default()`` is the plain ladder.
        phases: ``"exact"``, or ``"float32"`` for the angles that public checkpoints were trained with.
        impl: who computes. ``"torch"`` is the specification, ``rotate``; ``"eager"``, ``"compiled"`` and
            ``"triton"`` equal it, forward and backward; ``"auto"`` picks by device, and ``impl_reason`` says
            why. Inside ``torch.compile`` all but ``"torch"`` are one formula that the compiler fuses.
    """

    name: ClassVar[str] = "rotary"
    doors: ClassVar[tuple[str, ...]] = ("rotate",)
    relative: ClassVar[bool] = True

    def __init__(
        self,
        head_dim: int,
        *,
        pairing: Pairing,
        base: float = 10_000.0,
        rotary_dim: int | None = None,
        schedule: Schedule | None = None,
        phases: Phases = "exact",
        impl: Impl = "auto",
    ) -> None:
        super().__init__()
        check_impl(impl)
        if pairing not in get_args(Pairing):
            raise UnknownName("pairing", pairing, get_args(Pairing))
        rotary_dim = head_dim if rotary_dim is None else rotary_dim
        if rotary_dim > head_dim:
            raise InvalidArgument(f"rotary_dim={rotary_dim} is more than head_dim={head_dim}; use at most that")
        self.head_dim = head_dim
        self.rotary_dim = rotary_dim
        self.pairing: Pairing = pairing
        self.base = base
        self.impl: Impl = impl
        self.schedule = Default() if schedule is None else schedule
        if not isinstance(self.schedule, Schedule):
            raise InvalidArgument(
                f"schedule={schedule!r} has no frequencies of its own; a DynamicNTK or LongRoPE is fixed for one "
                "request first: schedule.plan(total_length)"
            )
        spectrum = self.schedule.spectrum(rotary_dim, base)
        self.attention_factor = spectrum.attention_factor
        self.clock = Clock(spectrum, phases)

    @property
    def impl_reason(self) -> str:
        """Which implementation serves the device this module is on, and why."""
        choice = choose(self.impl, self.clock.turns.device.type)
        return f"{choice.impl}: {choice.reason}"

    def tables(self, positions: Positions, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """cos and sin at these positions, times the attention factor, heads' axis inserted."""
        cos, sin = self.clock(positions, dtype)
        if self.attention_factor != 1.0:
            cos, sin = cos * self.attention_factor, sin * self.attention_factor
        return over_heads(cos), over_heads(sin)

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedRotary(self, q_positions, k_positions, dtype)

    def extra_repr(self) -> str:
        return (
            f"head_dim={self.head_dim}, pairing={self.pairing!r}, base={self.base:g}, "
            f"rotary_dim={self.rotary_dim}, schedule={self.schedule}, impl={self.impl!r}"
        )
