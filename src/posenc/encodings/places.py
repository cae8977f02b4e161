"""Checks whether a size, in positions per axis, is valid, and whether an image fits into a window of this size."""

from collections.abc import Sequence

from posenc.errors import InvalidArgument


def check_size(size: Sequence[int]) -> tuple[int, ...]:
    """Return the size as a tuple; raise an error unless the size has at least two axes with at least one position
    per axis.
    """
    size = tuple(size)
    if len(size) < 2 or any(type(places) is not int or places < 1 for places in size):
        raise InvalidArgument(
            f"size={size} must be two or more whole numbers of at least 1, such as (7, 7) for rows and columns"
        )
    return size


def holds(size: tuple[int, ...], places: Sequence[int]) -> bool:
    """Return whether a window of this size covers an image with ``places`` positions per axis."""
    if len(places) != len(size):
        raise InvalidArgument(
            f"places={tuple(places)} must have {len(size)} numbers, one per axis of the table, whose size is {size}"
        )
    return all(n <= limit for n, limit in zip(places, size, strict=True))
