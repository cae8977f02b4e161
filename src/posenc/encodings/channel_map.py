"""The channel map of a rotation: which channel is mixed with which, by which coordinate, at which frequency."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RotatedChannel:
    """How one channel rotates.

    Args:
        channel: the channel.
        partner: the one that it is mixed with.
        axis: the coordinate that it rotates by.
        frequency: radians a step of that coordinate.
    """

    channel: int
    partner: int
    axis: int
    frequency: float
