"""Attention for an encoding with remapped positions, as one call for each part of the keys. The outputs of these
calls are merged using their logsumexps.
"""

from dataclasses import dataclass, field

from torch import Tensor

from posenc.encodings.placed import Placed
from posenc.errors import InvalidArgument
from posenc.kernels.memory import is_concrete
from posenc.mask import PER_KEY, PER_QUERY, Keys, Mask, Queries


@dataclass(frozen=True, eq=False)
class RemappedMask(Mask):
    """The mask for one part of the keys, for an encoding with remapped positions.

    A query sees a key only if all other fields allow it and the key's ``k_positions`` is at least the query's
    ``q_from`` and below the query's ``q_until``. None means no bound.
    """

    k_positions: Keys = field(kw_only=True, metadata=PER_KEY)
    q_from: Queries | None = field(default=None, metadata=PER_QUERY)
    q_until: Queries | None = field(default=None, metadata=PER_QUERY)

    @classmethod
    def of_part(cls, mask: Mask, k_positions: Tensor, q_from: Tensor | None, q_until: Tensor | None) -> Mask | None:
        """Return the mask restricted to keys within these bounds: the mask itself if all keys are known to be
        within the bounds, None if no key is within the bounds.
        """
        if _may_be_compared(k_positions, q_from, q_until):
            first, last = k_positions.aminmax()
            if (q_from is not None and q_from.amin() > last) or (q_until is not None and q_until.amax() <= first):
                return None
            q_from = None if q_from is None or q_from.amax() <= first else q_from
            q_until = None if q_until is None or q_until.amin() > last else q_until
        if q_from is None and q_until is None:
            return mask
        return mask.become(cls, k_positions=k_positions, q_from=q_from, q_until=q_until)

    def allows(self, at: dict[str, Tensor]) -> Tensor | None:
        near = at["k_positions"] >= at["q_from"] if "q_from" in at else None
        if "q_until" not in at:
            return near
        far = at["k_positions"] < at["q_until"]
        return far if near is None else near & far

    def part(self, row: int | None, first: int, last: int) -> Mask:
        part = super().part(row, first, last)
        assert isinstance(part, RemappedMask)
        return self.of_part(part.become(Mask), part.k_positions, part.q_from, part.q_until) or part

    def key_range(self, first: int, last: int, T: int, S: int) -> tuple[int, int]:
        start, keys = super().key_range(first, last, T, S)
        if first >= last or not _may_be_compared(self.k_positions, self.q_from, self.q_until):
            return start, keys
        if self.q_until is not None:
            below = (self.k_positions < self.q_until[..., first:last].amax(-1, keepdim=True)).nonzero()[:, -1]
            keys = min(keys, int(below.amax()) + 1 if len(below) else 1)  # kernels need at least one key
        if self.q_from is not None:
            above = (self.k_positions >= self.q_from[..., first:last].amin(-1, keepdim=True)).nonzero()[:, -1]
            start = max(start, int(above.amin())) if len(above) else S
        return start, keys


def _may_be_compared(*bounds: Tensor | None) -> bool:
    """Return whether the values of these tensors can be read without waiting for a device."""
    given = [x for x in bounds if x is not None]
    return all(x.is_cpu and x.numel() for x in given) and is_concrete(*given)


Call = tuple[Tensor, Tensor, Placed, Mask]


def remapped(q: Tensor, k: Tensor, placed: Placed, mask: Mask) -> list[Call]:
    """Return, for every part of the keys, rotated q and k, the placed encoding without remapping, and the mask.

    If positions can be read without waiting for a device, parts without visible keys are omitted, but at least one
    part remains.
    """
    if placed.bias is not None and placed.bias.needs_scores:
        raise InvalidArgument(
            "the bias reads whole rows of scores, but with remapped positions each row is computed in parts; "
            "remove the bias or the remapping"
        )
    layer = placed.changed(remaps=(), window=None, chunk=None)  # the mask is already narrowed
    if type(mask) is not Mask:  # a RemappedMask lacks the fields and the rule of other subclasses
        T, S = q.shape[2], k.shape[2]
        dense = mask.visible(T, S, q.device)
        mask = mask.become(Mask, dense=None if dense is None else dense.expand(-1, -1, T, S))
    calls: list[Call] = []
    for part in placed.remaps:
        visible = RemappedMask.of_part(mask, placed.k_positions, part.q_from, part.q_until)
        if visible is not None:
            calls.append((*part.rotate(q, k), layer, visible))
    return calls or [(*placed.remaps[0].rotate(q, k), layer, mask)]
