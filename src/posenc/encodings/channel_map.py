"""The channel map of a rotation: each channel's partner, coordinate and frequency."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RotatedChannel:
    """The rotation of one channel.

    Args:
        channel: the index of the channel.
        partner: the channel that it rotates with.
        axis: the coordinate that it rotates by.
        frequency: radians per step of that coordinate.
    """

    channel: int
    partner: int
    axis: int
    frequency: float
