"""The channel map of a rotation: which channel is mixed with which, by which coordinate, at which frequency."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Turned:
    """How one channel turns.

    Args:
        channel: the channel.
        partner: the one that it is mixed with.
        axis: the coordinate that it turns by.
        frequency: radians a step of that coordinate.
    """

    channel: int
    partner: int
    axis: int
    frequency: float


def printed(channels: Iterable[Turned], letters: str) -> str:
    """A line per pair, ``0 8  y 0.1``: its channels, then coordinate and frequency, twice where the two differ.

    ``letters`` are the coordinates' names in the order of positions, such as "yx" for rows and columns.
    """
    by_number = {turned.channel: turned for turned in channels}
    lines = []
    for turned in by_number.values():
        if turned.channel < turned.partner:
            pair = (turned, by_number[turned.partner])
            angles = dict.fromkeys(f"{letters[one.axis]} {one.frequency:.4g}" for one in pair)
            lines.append(f"{turned.channel} {turned.partner}  {'  '.join(angles)}")
    return "\n".join(lines)
