"""The channel map of a rotation: which channel is mixed with which, by which coordinate, at which frequency."""

from collections.abc import Iterable
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


def printed(channels: Iterable[RotatedChannel], letters: str) -> str:
    """A line per pair, ``0 8  y 0.1``: its channels, then coordinate and frequency, twice where the two differ.

    ``letters`` are the coordinates' names in the order of positions, such as "yx" for rows and columns.
    """
    by_number = {channel.channel: channel for channel in channels}
    lines = []
    for channel in by_number.values():
        if channel.channel < channel.partner:
            pair = (channel, by_number[channel.partner])
            angles = dict.fromkeys(f"{letters[one.axis]} {one.frequency:.4g}" for one in pair)
            lines.append(f"{channel.channel} {channel.partner}  {'  '.join(angles)}")
    return "\n".join(lines)
