"""The size of a window, in places per axis: checks of a size, and whether an image fits into it."""

from collections.abc import Sequence

from posenc.errors import InvalidArgument


def check_size(size: Sequence[int]) -> tuple[int, ...]:
    """Return the size as a tuple; raise an error unless it has at least two axes with at least one place each."""
    size = tuple(size)
    if len(size) < 2 or any(type(places) is not int or places < 1 for places in size):
        raise InvalidArgument(f"size={size} must be two whole numbers of at least 1, rows and columns: (7, 7)")
    return size


def holds(size: tuple[int, ...], places: Sequence[int]) -> bool:
    """Whether a window of this size contains every place of an image with ``places`` places per axis."""
    if len(places) != len(size):
        raise InvalidArgument(
            f"places={tuple(places)} must be {len(size)} numbers, one per axis, as the table's {size}"
        )
    return all(n <= limit for n, limit in zip(places, size, strict=True))
