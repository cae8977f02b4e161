"""The channel map of a rotation lists the partner, the coordinate and the frequency of each channel."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RotatedChannel:
    """The rotation of one channel.

    Args:
        channel: the index of the channel.
        partner: the channel with which it forms a pair.
        axis: the index of the coordinate that sets the channel's angle.
        frequency: radians per step of that coordinate.
    """

    channel: int
    partner: int
    axis: int
    frequency: float
