"""RoPE (rotary position embedding) rotates queries and keys by angles that depend on their positions (Su et al.
2021, arXiv 2104.09864).

    (x, y) → (x·cos φ − y·sin φ,  x·sin φ + y·cos φ),   φ = p·θ_i,  θ_i = base^(−2i/d)

so ⟨R(m)q, R(n)k⟩ = ⟨q, R(n−m)k⟩: a score depends only on the offset, key − query. The *pairing* decides which two
channels form pair i: (2i, 2i+1) if the pairing is ``"interleaved"``, as in the paper and GPT-J, or (i, i+d/2) if it
is ``"half"``, as in GPT-NeoX, Llama in transformers and most public checkpoints. The two pairings differ by a fixed
permutation of channels, so trained weights work only with the pairing that was used in training. Values are never
rotated.
"""

from typing import ClassVar, final

import torch
from torch import Tensor

from posenc.arguments import as_scale
from posenc.clock import Clock, Phases
from posenc.encodings.axes import AxisMap, axis_frequencies
from posenc.encodings.channel_map import RotatedChannel
from posenc.encodings.encoding import Encoding
from posenc.encodings.nope import NoPE
from posenc.encodings.placed import Positions
from posenc.encodings.rotation import Rotation
from posenc.errors import InvalidArgument
from posenc.kernels.backend import RotationBackend, check_backend, explained
from posenc.kernels.rotary import rotate as rotate
from posenc.kernels.rotary.specification import Pairing as Pairing
from posenc.scaling.default import Default
from posenc.scaling.scaling import Base, Scaling, check_dim_and_base, fixed


def half_from_interleaved(rotary_dim: int) -> list[int]:
    """Return the channel order that converts interleaved pairing to half: ``half = interleaved[..., order]``."""
    return [*range(0, rotary_dim, 2), *range(1, rotary_dim, 2)]


def interleaved_from_half(rotary_dim: int) -> list[int]:
    """Return the channel order that converts half pairing to interleaved: ``interleaved = half[..., order]``."""
    return [i // 2 + (i % 2) * (rotary_dim // 2) for i in range(rotary_dim)]


@final
class Rotary(Rotation):
    """Rotates queries and keys in every layer. Has no parameters and no maximum position.

    Args:
        head_dim: D, channels of one head.
        pairing: ``"half"`` or ``"interleaved"``. There is no default, because a checkpoint needs the pairing with
            which it was trained, and the other pairing gives wrong outputs but raises no error.
            ``posenc.encoding``, which builds encodings for new models, defaults to ``"half"``.
        base: 10000 in the paper; 500 000 in Llama 3. For a checkpoint, read it from the config.
        rotary_dim: the number of channels that rotate, even and at most head_dim; the rest pass through unchanged.
            Default: all.
        scaling: the rule that scales the frequencies; ``Default()`` does not change them.
        axes: the map from pairs to coordinates of a position, such as ``chunked(16, 24, 24)`` from
            ``posenc.encodings.axes``; positions are then ``(A, T)`` or ``(A, B, T)``. None for one-axis positions.
        signed: whether positions may be negative, such as coordinates relative to a centre.
        backwards: whether pairs rotate in the opposite direction, φ = −p·θ_i, as in nanochat.
        softmax_factor: a number that multiplies attention's 1/√D; by default the scaling's ``softmax_factor``,
            which differs from 1 only for ``YaRN(…, mscale_all_dim=…)``. Pass 1 for models whose code ignores this
            factor. The ``scale=`` argument of attention overrides this factor.
        phases: ``"exact"``, or ``"float32"`` for the angles with which public checkpoints were trained.
        backend: the implementation. ``"torch"`` is the reference implementation; ``"eager"`` and ``"native"`` give
            the same results, forward and backward. ``"auto"`` chooses one of these for the device (on the CPU, the
            native kernel if it was compiled with the package), and ``explain()`` reports the choice and its reason.
            Under ``torch.compile``, ``"torch"`` is used, and the compiler fuses it.
    """

    name: ClassVar[str] = "rotary"
    relative = True

    def __init__(
        self,
        head_dim: int,
        *,
        pairing: Pairing,
        base: Base = 10_000.0,
        rotary_dim: int | None = None,
        scaling: Scaling | None = None,
        axes: AxisMap | None = None,
        signed: bool = False,
        backwards: bool = False,
        softmax_factor: float | None = None,
        phases: Phases = "exact",
        backend: RotationBackend = "auto",
    ) -> None:
        super().__init__(head_dim, pairing)
        check_backend(backend)
        rotary_dim = head_dim if rotary_dim is None else rotary_dim
        if rotary_dim > head_dim:
            raise InvalidArgument(f"rotary_dim={rotary_dim} must be at most head_dim={head_dim}")
        check_dim_and_base(rotary_dim, base, "head_dim" if rotary_dim == head_dim else "rotary_dim")
        self.rotary_dim = rotary_dim
        self.base = base
        self.backend = backend
        self.scaling = Default() if scaling is None else fixed(scaling)
        if axes is not None and 2 * axes.pairs != rotary_dim:
            raise InvalidArgument(
                f"axes={axes} has {axes.pairs} pairs of channels, but rotary_dim={rotary_dim} must be twice the "
                "number of pairs"
            )
        self.axis_map, self.signed, self.backwards = axes, signed, backwards
        self.softmax_factor = as_scale(softmax_factor, "softmax_factor") or self.scaling.softmax_factor
        axes = axes or AxisMap((0,) * (rotary_dim // 2))
        self.axes = axes.axes
        frequencies = axis_frequencies(axes, self.scaling, self.base)
        self.attention_factor = frequencies.attention_factor
        self.isometric = frequencies.attention_factor == 1.0
        self.clock = Clock(frequencies, phases, axes.axis_of_pair)

    def explain(self) -> str:
        """Return a sentence that names the backend for this module's device and gives the reason."""
        return explained(self.backend, self.clock.turns.device.type)

    def with_scaling(self, scaling: Scaling | None, phases: Phases | None = None) -> Encoding:
        phases = phases or self.clock.phases
        return NoPE() if scaling is None else self.with_settings(scaling=scaling, phases=phases)

    def tables(self, positions: Positions, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """Return cos and sin at these positions, times the attention factor."""
        cos, sin = self.clock(positions, dtype, self.attention_factor)
        sin = -sin if self.backwards else sin
        return (cos.unsqueeze(1), sin.unsqueeze(1)) if cos.dim() == 3 else (cos, sin)

    def channel_map(self) -> tuple[RotatedChannel, ...]:
        """Return the rotation of every channel. The two channels of a pair are adjacent in the list."""
        n = self.rotary_dim // 2
        axes = (0,) * n if self.axis_map is None else self.axis_map.axis_of_pair
        pairs = [(i, i + n) if self.pairing == "half" else (2 * i, 2 * i + 1) for i in range(n)]
        angles = zip(pairs, axes, map(float, self.clock.frequencies.exact), strict=True)
        return tuple(
            RotatedChannel(*channels, axis, theta)
            for (a, b), axis, theta in angles
            for channels in ((a, b), (b, a))
        )
