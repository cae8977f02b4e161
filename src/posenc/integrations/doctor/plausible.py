"""Rejects most of the possible mistakes in a rotation early, by comparing predictions of a few pairs for many
mistakes at once.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from posenc.errors import InvalidArgument
from posenc.integrations.doctor.rotation import Rotation
from posenc.integrations.doctor.search import Array, Change, Rows, Search

FREQUENCIES = frozenset(("span", "base", "scaling", "lists", "ladder", "series"))
POSITIONS = frozenset(("counted", "shift", "multiple", "rounded_down", "last", "period"))
"""The fields of a ``Rotation`` that change only its frequencies, or only its positions."""
PAIRS, AT_ONCE = 8, 256
"""The number of pairs that are compared, and the number of changes that are compared at once."""
Fields = tuple[tuple[str, Any], ...]


def plausible(search: Search, changes: Sequence[Change]) -> list[Change]:
    """Return the changes with which the right rotation reproduces a sample of the port's numbers: a few pairs in
    two rows.

    Changes are grouped by their fields other than ``FREQUENCIES`` and ``POSITIONS``. Within a group, each list of
    frequencies and each list of positions is computed only once, and angles are their products.
    """
    vectors = [rows for rows in search.rows if "x" in rows]
    if not vectors:  # frequencies alone are compared quickly
        return list(changes)
    rows = {name: values[[len(values) // 2, -1]] for name, values in vectors[0].items()}
    groups = defaultdict[Fields, list[int]](list)
    for i, change in enumerate(changes):
        groups[part(change, change.keys() - FREQUENCIES - POSITIONS)].append(i)
    kept = (
        agreeing(replace(search.right, **dict(fields)), changes, group, rows) for fields, group in groups.items()
    )
    return [changes[i] for i in sorted(chain.from_iterable(kept))]


def part(change: Change, names: Set[str]) -> Fields:
    """Return the fields of a change that have these names."""
    return tuple(field for field in change.items() if field[0] in names)


def agreeing(port: Rotation, changes: Sequence[Change], group: Iterable[int], rows: Rows) -> Iterator[int]:
    """Yield the indices of the changes that make ``port`` agree with these rows.

    The changes in ``group`` differ only in frequencies and positions; ``port`` already has the fields that they
    share.
    """

    @cache
    def turns(fields: Fields) -> tuple[Array, Array] | None:
        with suppress(InvalidArgument):  # the library refuses to compute these frequencies
            return replace(port, **dict(fields)).turns
        return None

    positions = cache(lambda fields: replace(port, **dict(fields)).positions(rows))
    some = slice(None, None, 1 + port.pairs // PAIRS)
    with suppress(InvalidArgument):  # the pairs do not fit into the head
        read, written = port.both_channels
        x, y = rows["x"][:, read[:, some]], rows["y"][:, written[:, some]]
        computed = [
            (i, *pairs, positions(part(changes[i], POSITIONS)))
            for i in group
            if (pairs := turns(part(changes[i], FREQUENCIES)))
        ]
        for start in range(0, len(computed), AT_ONCE):
            indices, axes, theta, where = zip(*computed[start : start + AT_ONCE], strict=True)
            angles = port.angles(np.stack(where), axes[0][:, some], np.stack(theta)[:, None, :, some])
            ours, room = port.rotate(x, angles, rows["step"])
            yield from np.array(indices)[~(np.abs(y - ours) > room).any((1, 2, 3))]  # keeps NaN
