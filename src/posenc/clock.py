"""Computes the exact phase of every frequency at any integer position below 2^31. Each frequency is one hand
of a clock.

A hand that rotates by θ radians per position makes θ/2π turns per position. That fraction is stored as a 64-bit
integer, F = round(θ/2π · 2^64), so the phase

    phase(p) = p · F  mod 2^64        (units of 2^−64 turn)

is one integer multiplication that wraps around. Only the error from rounding F grows with p: it is at most p ·
2^−65 turn, which is 4e-10 rad at p = 2^31. Apart from this error, cos and sin are as accurate as their dtype
allows. ``.half()`` and ``.to(torch.bfloat16)`` leave integer buffers unchanged, but would round float frequencies.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc.arguments import instance, one_of
from posenc.errors import InvalidArgument
from posenc.kernels.memory import LIMIT, floats
from posenc.scaling.frequencies import Frequencies
from posenc.scaling.scaling import TWO_PI, exact

Phases = Literal["exact", "float32"]
"""``"exact"`` computes integer turns; ``"float32"`` computes the float32 angles with which public checkpoints
were trained.
"""

RADIANS_PER_UNIT = float(TWO_PI / 2**64)


@exact
def turn_words(frequencies: tuple[Decimal, ...]) -> list[int]:
    """Return F = round(θ/2π · 2^64) for every frequency θ. F is an unsigned 64-bit integer; the result is the int64
    with the same bits.
    """
    words = [int((f / TWO_PI * 2**64).to_integral_value()) for f in frequencies]
    return [(word + 2**63) % 2**64 - 2**63 for word in words]


FASTEST_FLOAT32 = 2.0**127 / LIMIT
"""The frequency in radians per position below which angles at all positions are within the range of float32."""


class ConstantBuffers(nn.Module):
    """A module whose buffers are not saved, because they can be recomputed from its arguments."""

    constants: Mapping[str, Tensor] = {}
    """The contents of this module's own buffers, on the CPU."""

    def register_constants(self, **constants: Tensor) -> None:
        """Register these integers as buffers, which do not change when the module is cast to another float type."""
        self.constants = constants
        for name, numbers in constants.items():
            self.register_buffer(name, numbers.to(torch.get_default_device(), copy=True), persistent=False)

    def reset_buffers(self, device: torch.device | str | None = None) -> None:
        """Refill the buffers of this module and its submodules, optionally on another device. Parameters are
        unchanged.

        Pass the device if a module was built on meta and only its weights were loaded, by ``load_state_dict(…,
        assign=True)``.
        """
        for module in self.modules():
            for name, numbers in module.constants.items() if isinstance(module, ConstantBuffers) else ():
                setattr(module, name, numbers.to(device or module.get_buffer(name).device, copy=True))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "ConstantBuffers":
        """Apply ``fn`` as ``nn.Module`` does, and fill the buffers that leave the meta device."""
        empty = any(buffer.is_meta for buffer in self.buffers(recurse=False))
        super()._apply(fn, recurse)
        if empty:
            self.reset_buffers()
        return self


class Clock(ConstantBuffers):
    """Computes cos and sin of the phase of every frequency at given positions.

    Args:
        frequencies: one frequency per hand.
        phases: ``"exact"`` (64-bit fractions of a turn, accurate at any position below 2^31) or ``"float32"`` (the
            angles with which public checkpoints were trained, with errors of up to 7e-2 rad at position 1,000,000).

        axis_of_hand: the coordinate that each hand uses, if positions have a leading axis of coordinates.

    ``forward(positions)`` accepts int64 positions of any shape and returns float32 ``(cos, sin)``, multiplied by
    ``scale``, with an additional last axis that has one entry per frequency. The attention factor of a scaling such
    as YaRN is applied only if you pass it as ``scale``.
    """

    turns: Tensor
    float32_bits: Tensor
    axis_of_hand: Tensor
    reset_parameters = ConstantBuffers.reset_buffers  # FSDP calls it for every module that leaves meta

    def __init__(
        self, frequencies: Frequencies, phases: Phases = "exact", axis_of_hand: tuple[int, ...] = ()
    ) -> None:
        super().__init__()
        instance(frequencies, Frequencies, "frequencies", "Frequencies, such as scaling.frequencies(64, 1e4)")
        one_of("phases", phases, get_args(Phases))
        if len(frequencies) == 0:
            raise InvalidArgument("frequencies is empty; pass at least one frequency")
        if phases == "float32" and not max(frequencies.float32) < FASTEST_FLOAT32:
            raise InvalidArgument(
                f"a frequency of {max(frequencies.float32):g} radians per position is too large for "
                "phases='float32', because its angles would overflow; use phases='exact'"
            )
        self.frequencies, self.phases, self.by_axis = frequencies, phases, any(axis_of_hand)
        float32 = torch.tensor(frequencies.float32, dtype=torch.float32, device="cpu").view(torch.int32)
        axes = {"axis_of_hand": torch.tensor(axis_of_hand, device="cpu")} if self.by_axis else {}
        turns = torch.tensor(turn_words(frequencies.exact), dtype=torch.int64, device="cpu")
        self.register_constants(turns=turns, float32_bits=float32, **axes)

    def forward(
        self, positions: Int[Tensor, "*shape"], dtype: torch.dtype = torch.float32, scale: float = 1.0
    ) -> tuple[Float[Tensor, "*tokens pairs"], Float[Tensor, "*tokens pairs"]]:
        """Return cos and sin of every phase at ``positions``, multiplied by ``scale``, in ``dtype``.

        With exact phases, cos and sin are computed in float64 and rounded once. The error is at most half the
        distance from ``scale`` to the next smaller number in ``dtype``; for 1.0 in float32, that is 2^−25. In
        float64, the error is the error of the trigonometric functions, 2e-16, plus the error of the phase.
        """
        if self.by_axis:
            positions = positions.movedim(0, -1).index_select(-1, self.axis_of_hand)
        else:
            positions = positions.unsqueeze(-1)
        mps = positions.device.type == "mps"  # these devices lack float64
        if self.phases == "exact":
            phases = positions * self.turns
            angle = (phases.cpu() if mps else phases).double() * RADIANS_PER_UNIT
            cos, sin = angle.cos(), angle.sin()
        else:
            angle = positions.to(torch.float32) * floats(self.float32_bits, torch.float32)
            # Rounded to the type before scaling, as in public checkpoints.
            cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
        if scale != 1.0:
            cos, sin = cos * scale, sin * scale
        cos, sin = cos.to(dtype), sin.to(dtype)
        return (cos.to(positions.device), sin.to(positions.device)) if mps else (cos, sin)

    def extra_repr(self) -> str:
        return f"hands={len(self.frequencies)}, phases={self.phases!r}"
