"""The size of a window in places per axis: its check, and whether it holds another size."""

from collections.abc import Sequence

from posenc.errors import InvalidArgument


def check_size(size: Sequence[int]) -> tuple[int, ...]:
    """The number of places along every axis; refused unless there are at least two axes with at least one place
    each."""
    size = tuple(size)
    if len(size) < 2 or any(type(places) is not int or places < 1 for places in size):
        raise InvalidArgument(f"size={size} must be two whole numbers of at least 1, rows and columns: (7, 7)")
    return size


def holds(size: tuple[int, ...], places: Sequence[int]) -> bool:
    """Whether a window of this size has every place of an image of ``places``."""
    if len(places) != len(size):
        raise InvalidArgument(
            f"places={tuple(places)} must be {len(size)} numbers, one per axis, as the table's {size}"
        )
    return all(n <= limit for n, limit in zip(places, size, strict=True))
