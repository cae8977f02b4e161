"""The calls of attention that a remapped encoding is made of: one for each part, merged by their logsumexps."""

import copy

from torch import Tensor

from posenc.encodings.placed import Placed
from posenc.errors import InvalidArgument
from posenc.mask import Mask

Call = tuple[Tensor, Tensor, Placed, Mask]


def remapped(q: Tensor, k: Tensor, placed: Placed, mask: Mask) -> list[Call]:
    """Queries and keys rotated for every part, what is placed besides, and what each query sees in that part.

    Parts in which nobody sees any key are left out where that may be looked at; one is left of none.
    """
    if placed.bias is not None and placed.bias.needs_scores:
        raise InvalidArgument(
            "the bias reads the scores of a row, and remapped positions attend to its keys in parts; leave one out"
        )
    layer = copy.copy(placed)
    layer.remaps, layer.window, layer.chunk = (), None, None  # the mask has been narrowed
    calls: list[Call] = []
    for part in placed.remaps:
        visible = mask.between(placed.k_positions, part.q_from, part.q_until)
        if visible is not None:
            calls.append((*part.rotate(q, k), layer, visible))
    return calls or [(*placed.remaps[0].rotate(q, k), layer, mask)]
