"""Rotation of each channel by its own angle, for checkpoints that pair channels in blocks or rotate the two
channels of a pair by different angles (V-JEPA 2).

    y_c = x_c·cos φ_c ± x_{c'}·sin φ_c,   φ_c = p[axis(c)]·ω_c

c' is the channel's partner; the sign is − for the first channel of a pair and + for the second. If both channels of
a pair have the same angle, this is a rotation, as in Gemma 4's vision tower, which applies RoPE (arXiv 2104.09864)
in two blocks. If angles are arranged for interleaved pairing but the channels are paired by half pairing, or vice
versa, the two channels of a pair have different angles. The result is then not a rotation: it changes the lengths
of vectors, and scores depend on both positions, not only on the offset. V-JEPA 2 (arXiv 2506.09985) and
ERNIE-Image were trained with such layouts, and their weights work only with these. transformers also runs HunYuanVL
with such a layout, although HunYuanVL's own code computes a rotation.
"""

from collections.abc import Callable
from typing import ClassVar, Literal, NamedTuple, cast, final

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.clock import Clock, Phases
from posenc.encodings.channel_map import RotatedChannel
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import KeyPositions, Keys, Placed, Positions, Queries
from posenc.encodings.rotation import PlacedTables
from posenc.errors import InvalidArgument
from posenc.kernels.rotary.specification import Pairing
from posenc.scaling.default import Default
from posenc.scaling.frequencies import Frequencies

Layout = Literal["gemma4-vision", "v-jepa2", "ernie-image", "hunyuan-vl"]


class Channel(NamedTuple):
    """The rotation of one channel.

    Args:
        partner: the channel with which it forms a pair.
        axis: the index of the coordinate that sets the channel's angle.
        frequency_index, pairs: the frequency of the channel is base^(−frequency_index/pairs).
    """

    partner: int
    axis: int
    frequency_index: int
    pairs: int


def _partner(i: int, size: int, pairing: Pairing) -> int:
    return (i + size // 2) % size if pairing == "half" else i ^ 1


def _blocks(size: int, axes: tuple[int, ...], laid: Pairing, paired: Pairing) -> list[Channel]:
    """Return a layout with one block of channels per axis.

    ``paired`` decides which two channels are mixed with each other, and ``laid`` decides the order of the angles.
    Both channels of a pair have the same angle if the two settings are equal.
    """
    pairs = size // 2
    return [
        Channel(block * size + _partner(i, size, paired), axis, i % pairs if laid == "half" else i // 2, pairs)
        for block, axis in enumerate(axes)
        for i in range(size)
    ]


def _ernie_image(head_dim: int) -> list[Channel]:
    """Return the layout in which three axes have 2/8, 3/8 and 3/8 of the head's channels. Angles are arranged for
    interleaved pairs, but channels are paired half a head apart.
    """
    shares = (head_dim // 8, 3 * head_dim // 16, 3 * head_dim // 16)
    angles = [(axis, index, share) for axis, share in enumerate(shares) for index in range(share)]
    return [Channel(_partner(c, head_dim, "half"), *angles[c // 2]) for c in range(2 * len(angles))]


def _hunyuan_vl(head_dim: int) -> list[Channel]:
    """Return the layout in which each of four axes has a quarter of the head's channels. The first half of the
    channels uses one list of frequencies, the second half uses the same list again, and channels are paired half a
    head apart.
    """
    half = head_dim // 2
    return [Channel(_partner(c, head_dim, "half"), c // (half // 2), c % half, half) for c in range(head_dim)]


LAYOUTS: dict[Layout, tuple[Callable[[int], list[Channel]], int, float]] = {
    # Two halves, columns first, each paired by half pairing.
    "gemma4-vision": (lambda head_dim: _blocks(2 * (head_dim // 4), (1, 0), "half", "half"), 4, 100.0),
    # Thirds for time, row and column; angles laid out for half pairing, but channels paired with neighbours.
    "v-jepa2": (lambda head_dim: _blocks(2 * (head_dim // 6), (0, 1, 2), "half", "interleaved"), 6, 10_000.0),
    "ernie-image": (_ernie_image, 16, 256.0),
    "hunyuan-vl": (_hunyuan_vl, 4, 10_000.0),
}
"""The channels, the smallest head_dim and the base of each layout. For ERNIE-Image, Gemma 4 and HunYuanVL,
head_dim must be a multiple of the smallest head_dim; V-JEPA 2 leaves the remaining channels of a head unchanged.
"""


class PlacedChannelRotary(PlacedTables):
    """The rotation of every channel at given positions, as tables of cos and signed sin."""

    def rotate(self, q: Queries, k: Keys) -> tuple[Queries, Keys]:
        both = ((q, self.q_tables), (k, self.key_tables(q, k)))
        mixed = (x if x is None else self.encoding.mix(x, *tables) for x, tables in both)
        return cast(tuple[Queries, Keys], tuple(mixed))


@final
class ChannelRotary(Encoding):
    """Rotates queries and keys with the channel layout of a named family of checkpoints. With some layouts, the
    result is not an exact rotation. Has no parameters.

    Args:
        head_dim: D, channels of one head.
        layout: ``"gemma4-vision"`` (axes row, column; a rotation), ``"v-jepa2"`` (time, row, column),
            ``"ernie-image"`` (text, row, column), ``"hunyuan-vl"`` (four axes; this is the layout in
            transformers, whereas the authors' own code computes ``Rotary(axes=chunked(16, 16, 16, 16))``).
        base: the base of the frequencies; by default that of the layout.
        signed: whether positions may be negative.
        phases: ``"exact"``, or ``"float32"`` for the angles with which the checkpoints were trained.

    ``isometric`` and ``relative`` are True if this layout is a rotation at this head_dim. For a new model, use
    ``Rotary(axes=axial(…))``, which is a rotation.
    """

    name: ClassVar[str] = "channel-rotary"
    acts_on = ("queries_keys",)
    partners: Tensor

    def __init__(
        self,
        head_dim: int,
        *,
        layout: Layout,
        base: float | None = None,
        signed: bool = False,
        phases: Phases = "exact",
    ) -> None:
        super().__init__()
        make, least, usual = LAYOUTS[layout]
        self.head_dim = head_dim
        if self.head_dim < least or (layout != "v-jepa2" and self.head_dim % least):
            fits = f"at least {least}" if layout == "v-jepa2" else f"a multiple of {least}"
            raise InvalidArgument(f"head_dim={head_dim} must be {fits} for layout={layout!r}")
        self.layout: Layout = layout
        self.base = usual if base is None else base
        self.channels = tuple(make(self.head_dim))
        self.axes = 1 + max(channel.axis for channel in self.channels)
        self.signed = signed
        # In a rotation, both partners have the same angle.
        self.isometric = self.relative = all(c[1:] == self.channels[c.partner][1:] for c in self.channels)
        by_pairs = {
            n: Default().frequencies(2 * n, self.base) for n in {channel.pairs for channel in self.channels}
        }
        self.clock = Clock(
            Frequencies(
                tuple(by_pairs[channel.pairs].exact[channel.frequency_index] for channel in self.channels),
                tuple(by_pairs[channel.pairs].float32[channel.frequency_index] for channel in self.channels),
            ),
            phases,
            tuple(channel.axis for channel in self.channels),
        )
        self.register_constants(partners=torch.tensor([c.partner for c in self.channels], device="cpu"))

    def tables(
        self, positions: Positions, dtype: torch.dtype = torch.float32
    ) -> tuple[Float[Tensor, "*table T n"], Float[Tensor, "*table T n"]]:
        """Return cos and sin of every channel's angle at these positions, with sin negated for the first channel
        of each pair.
        """
        cos, sin = self.clock(positions, dtype)
        first = self.partners > torch.arange(len(self.channels), device=self.partners.device)
        return cos, torch.where(first, -sin, sin)

    def mix(
        self, x: Float[Tensor, "B H T D"], cos: Float[Tensor, "*table T n"], sin: Float[Tensor, "*table T n"]
    ) -> Float[Tensor, "B H T D"]:
        """Mix every channel of x with its partner, in the wider of the dtypes of x and the tables, and round once
        to x's dtype.
        """
        n = len(self.channels)
        rotary = x[..., :n].to(torch.promote_types(x.dtype, cos.dtype))
        partners = self.partners.clone()  # autograd saves it, which fails for a tensor built in inference mode
        mixed = (rotary * cos + rotary[..., partners] * sin).to(x.dtype)
        return torch.cat((mixed, x[..., n:]), dim=-1) if n < self.head_dim else mixed

    def channel_map(self) -> tuple[RotatedChannel, ...]:
        """Return the rotation of every channel."""
        frequencies = map(float, self.clock.frequencies.exact)
        return tuple(
            RotatedChannel(i, channel.partner, channel.axis, frequency)
            for i, (channel, frequency) in enumerate(zip(self.channels, frequencies, strict=True))
        )

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedChannelRotary(self, q_positions, k_positions, dtype)
