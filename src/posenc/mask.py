"""Who may see whom: a value made once a forward, like a placed encoding, and read by attention.

A query sees a key unless something hides it: the key comes later in the sequence (causal), lies outside the
window, belongs to another document, or is padding. Causality and windows compare *order*, a token's place in its
sequence, and never its position: positions restart in packed documents and repeat in pictures.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.errors import InvalidArgument
from posenc.kernels.attention.flex import MaskMod, visible_mask_mod
from posenc.kernels.memory import may_be_looked_at
from posenc.pytrees import Pytree

Queries = Int[Tensor, " T"] | Int[Tensor, "#B T"]
Keys = Int[Tensor, " S"] | Int[Tensor, "#B S"]
Lengths = tuple[tuple[int, ...], ...]
"""Of the documents in every row, which lie end to end; one row where all have the same."""

Spans = tuple[tuple[tuple[int, bool], ...], ...]
"""Every row of the batch, or all in one, cut into (length, whether its tokens see anything)."""

SHORT_DOCUMENT, SHORT_ROW, SHORT_PLAIN_ROW = 32, 256, 2048
"""Shorter documents, and padded rows of fewer tokens (more without a bias), on average, are left to one call with a
mask. Documents hide most of what a mask would compute, so that many calls win soon; padding hides little, and a
mask without a bias is made once for all heads."""


@dataclass(frozen=True, eq=False)
class Mask(Pytree):
    """What queries may see of the keys; a pytree of its tensors. ``Mask()`` is everything.

    Args:
        causal: a query sees itself and what comes before it in order.
        q_order: int64 ``(T,)`` or ``(B, T)``, each query's place in its sequence. By default both
            sequences end at the same token, as with a cache that grows: query t stands at t + (S − T). A shard, a
            permuted sequence, a preallocated cache pass their own.
        k_order: the keys', likewise; without it keys have the queries'.
        window: a query sees the keys less than this many places before it in order, and, where not causal,
            after it.
        q_segments: integers of the same shapes, the document of every query; nobody sees another document.
        k_segments: the keys'; without them they are ``q_segments``. With a cache give both.
        key_mask: bool ``(B, S)``, true at keys that may be seen, false at padding.
        document_lengths: of every row of segments the lengths of its documents, end to end: ``((3, 5),)``.
        left_padding: of every row of the key mask how many keys it hides, all of them at its start.

    Tensors are copied: one that is changed in place afterwards changes nothing here, so a loop that fills its mask
    makes a mask for every step.

    The last two say nothing new. They are what attention needs to go document by document, or past the padding,
    instead of masking: found by looking where segments and mask are on the CPU, and yours to declare where they are
    not, since looking would wait for the device.

    A query that may see no key attends to nothing and returns zeros.
    """

    facts: ClassVar[tuple[str, ...]] = ("document_lengths", "left_padding")

    causal: bool = False
    q_order: Queries | None = None
    k_order: Keys | None = None
    window: int | None = None
    q_segments: Queries | None = None
    k_segments: Keys | None = None
    key_mask: Bool[Tensor, "#B S"] | None = None
    document_lengths: Lengths | None = None
    left_padding: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.causal, bool):
            raise InvalidArgument(f"causal={self.causal!r} must be True or False")
        _check_window(self.window)
        for name in ("order", "segments"):
            q, k = getattr(self, f"q_{name}"), getattr(self, f"k_{name}")
            if q is None and k is not None:
                raise InvalidArgument(f"k_{name} is given without q_{name}; the queries need theirs too")
            for side, row in (("q", q), ("k", k)):
                if row is not None and (row.is_floating_point() or row.is_complex() or row.dtype == torch.bool):
                    raise InvalidArgument(
                        f"{side}_{name} is {row.dtype}; expected integers: pass {side}_{name}.long()"
                    )
            if q is not None:  # in narrower integers, differences of places would come round
                queries = q.to(torch.int64, copy=True)
                keys = queries if k is None or k is q else k.to(torch.int64, copy=True)
                object.__setattr__(self, f"q_{name}", queries)
                object.__setattr__(self, f"k_{name}", keys)
        if self.key_mask is not None and (self.key_mask.dtype != torch.bool or self.key_mask.dim() != 2):
            raise InvalidArgument(
                f"key_mask is {self.key_mask.dtype} with shape {tuple(self.key_mask.shape)}; expected bool (B, S), "
                "true at keys that may be seen: pass key_mask.bool()"
            )
        if self.key_mask is not None:
            object.__setattr__(self, "key_mask", self.key_mask.clone())
        self._learn("document_lengths", "q_segments", lambda segments: _documents(segments, self.k_segments))
        self._learn("left_padding", "key_mask", _padding)

    def _learn(self, fact: str, source: str, look: Callable[[Tensor], tuple | None]) -> None:
        """Find what a tensor says, or hold what was declared of it to that."""
        tensor, declared = getattr(self, source), getattr(self, fact)
        if tensor is None and declared is not None:
            raise InvalidArgument(f"{fact}={declared} is given without {source}, which it describes; give both")
        if tensor is None or tensor.device.type != "cpu" or not may_be_looked_at(tensor):
            return
        lengths = look(tensor)
        if declared is not None and declared != lengths:
            raise InvalidArgument(f"{fact}={declared} is not what {source} says, {lengths}; leave {fact} out")
        object.__setattr__(self, fact, lengths)

    @classmethod
    def of(cls, mask: "Mask | None", causal: bool = False, window: int | None = None) -> "Mask":
        """The mask itself, or the one that ``causal`` and ``window`` say in short; both at once are refused."""
        if mask is None:
            if window is None and isinstance(causal, bool):
                return CAUSAL if causal else EVERYTHING
            return cls(causal, window=window)
        if isinstance(mask, Tensor):
            raise InvalidArgument(
                f"mask is a tensor of shape {tuple(mask.shape)}; expected posenc.Mask(…), such as "
                "posenc.Mask(causal=True, key_mask=…) where it says which keys are padding"
            )
        if not isinstance(mask, cls):
            raise InvalidArgument(
                f"mask={mask!r} is {type(mask).__name__}; expected posenc.Mask(…), or causal=True by name"
            )
        if causal or window is not None:
            raise InvalidArgument(
                f"causal={causal} and window={window} stand beside a mask; say them in it: "
                "posenc.Mask(causal=…, window=…)"
            )
        return mask

    def within(self, window: int | None) -> "Mask":
        """The same, within this window besides; the narrower of two windows holds."""
        if window is None or (self.window is not None and self.window <= window):
            return self
        if torch.compiler.is_compiling():  # which is given the constructor, as compilers know it
            return replace(self, window=window)
        _check_window(window)
        narrower = copy.copy(self)  # shares tensors, which nobody else holds, and what was found in them
        vars(narrower).update(window=window)
        return narrower

    @property
    def only_causal(self) -> bool:
        """Whether nothing hides keys but causality in the default order, or nothing at all."""
        return self.window is None and self.by_offset

    def spans(self, T: int, S: int, biased: bool = True) -> Spans | None:
        """How a batch falls into stretches of tokens that see nobody outside theirs; None where not known."""
        if T != S or self.q_order is not None:
            return None
        rows: Spans | None = None
        row = SHORT_ROW if biased else SHORT_PLAIN_ROW
        short = row if self.document_lengths is None else SHORT_DOCUMENT
        if self.document_lengths is not None:
            rows = tuple(tuple((length, True) for length in row) for row in self.document_lengths)
        elif (
            self.left_padding is not None and self.q_segments is None and self.causal and max(self.left_padding) < T
        ):
            each = self.left_padding[:1] if len(set(self.left_padding)) == 1 else self.left_padding
            rows = tuple(((n, False), (T - n, True)) if n else ((T, True),) for n in each)
        if rows is None or any(sum(length for length, _ in row) != T for row in rows):
            return None
        lengths = [length for row in rows for length, sees in row if sees]
        return rows if sum(lengths) >= short * len(lengths) else None

    def part(self, row: int | None, first: int, last: int) -> "Mask":
        """What one span may see: its own tokens, within the window."""
        keys = self.key_mask if self.document_lengths is not None else None
        if keys is not None:
            keys = (keys if row is None or keys.shape[0] == 1 else keys[row : row + 1])[:, first:last]
        return Mask(self.causal, window=self.window, key_mask=keys)

    def places(self, T: int, S: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """The place of every query and key in its sequence, ``(T,)`` or ``(B, T)``."""
        if self.q_order is not None and self.k_order is not None:
            return self.q_order, self.k_order
        keys = torch.arange(S, device=device)
        return keys[S - T :], keys

    def order(self, T: int, S: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """The same with documents one after the other, for what sums along it and must not mix them."""
        q, k = self.places(T, S, device)
        # A compiled program serves documents of any lengths, and is given no shortcut for some.
        already = self.q_order is None and self.document_lengths is not None and not torch.compiler.is_compiling()
        if already or self.q_segments is None or self.k_segments is None:
            return q, k
        (q, k), (q_names, k_names) = _ranks(q, k), _ranks(self.q_segments, self.k_segments)
        return q + q_names * (S + 1), k + k_names * (S + 1)

    @property
    def by_offset(self) -> bool:
        """Whether nothing hides keys but causality and a window, in the default order."""
        return all(x is None for x in (self.q_order, self.q_segments, self.key_mask))

    def keys_before(self, last: int, T: int, S: int) -> int:
        """How many of the first keys the first ``last`` queries can see at most; all, in another order."""
        if self.q_order is not None or not (self.causal or self.window is not None):
            return S
        return last + S - T if self.causal else min(S, last + S - T + (self.window or 1) - 1)

    def keys_from(self, first: int, T: int, S: int) -> int:
        """How many of the first keys no query from ``first`` on can see, out of its window."""
        return 0 if self.window is None or self.q_order is not None else max(0, S - T + first - self.window + 1)

    def rows(self, first: int, last: int, T: int, S: int, device: torch.device) -> "Mask":
        """What the queries ``first`` to ``last`` (excluded) of T see of S keys."""
        q_order, k_order = self.places(T, S, device)
        segments = None if self.q_segments is None else self.q_segments[..., first:last]
        return replace(
            self,
            q_order=q_order[..., first:last],
            k_order=k_order,
            q_segments=segments,
            document_lengths=None,
            left_padding=None,
        )

    def visible(
        self, first: int, last: int, keys: int, T: int, S: int, device: torch.device, start: int = 0
    ) -> Bool[Tensor, "#B 1 #rows seen"] | None:
        """Which keys from ``start`` to ``keys`` (excluded) queries ``first`` to ``last`` may see; None for all."""
        parts = []
        if self.causal or self.window is not None:
            q, k = self.places(T, S, device)
            ahead = k[..., None, start:keys] - q[..., first:last, None]
            parts += [ahead <= 0] if self.causal else []
            parts += [ahead > -self.window] if self.window is not None else []
            parts += [ahead < self.window] if self.window is not None and not self.causal else []
        if self.q_segments is not None and self.k_segments is not None:
            parts.append(self.q_segments[..., first:last, None] == self.k_segments[..., None, start:keys])
        parts = [part[None, None] if part.dim() == 2 else part[:, None] for part in parts]
        if self.key_mask is not None:
            parts.append(self.key_mask[:, None, None, start:keys])
        if not parts:
            return None
        visible = parts[0]
        for part in parts[1:]:
            visible = visible & part
        return visible

    def modifier(self, T: int, S: int, device: torch.device) -> MaskMod | None:
        """``visible`` as a function of one query and one key, as FlexAttention takes it; None for all."""
        if not self.causal and self.window is None and self.q_segments is None and self.key_mask is None:
            return None
        orders = self.places(T, S, device)
        return visible_mask_mod(self.causal, self.window, orders, (self.q_segments, self.k_segments), self.key_mask)

    def check(self, B: int, T: int, S: int, device: torch.device) -> None:
        """Refuse what does not fit B sequences of T queries and S keys on this device."""
        lengths = {"q_order": T, "k_order": S, "q_segments": T, "k_segments": S, "key_mask": S}
        for name, length in lengths.items():
            row = getattr(self, name)
            if row is None:
                continue
            fits = row.dim() in (1, 2) and row.shape[-1] == length
            if not fits or (row.dim() == 2 and row.shape[0] not in (1, B)):
                raise InvalidArgument(
                    f"{name} has shape {tuple(row.shape)}; expected ({length},) or (B, {length}) with B={B}: one "
                    + ("per query" if length == T and name.startswith("q") else "per key")
                )
            if row.device != device:
                raise InvalidArgument(f"{name} is on {row.device} and q on {device}; move it: .to({str(device)!r})")
        if self.q_order is None and T > S and (self.causal or self.window is not None):
            raise InvalidArgument(
                f"{T} queries and {S} keys cannot end at the same token; pass q_order and k_order"
            )


def _check_window(window: int | None) -> None:
    if window is not None and (type(window) is not int or window < 1):
        raise InvalidArgument(f"window={window!r} must be a whole number of at least 1, or None for no window")


def _ranks(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    """Of every number how many keys have none above it: at most S of any int64, in the same order and as equal."""
    rows = torch.broadcast_shapes(q.shape[:-1], k.shape[:-1])
    q, k = (x.expand(*rows, -1).contiguous() for x in (q, k))
    ascending = k.sort().values
    return torch.searchsorted(ascending, q, right=True), torch.searchsorted(ascending, k, right=True)


def _documents(segments: Tensor, of_keys: Tensor | None) -> Lengths | None:
    """The lengths of documents in every row, if none is torn apart and the keys are the queries' own."""
    if of_keys is not None and of_keys is not segments:
        comparable = of_keys.device == segments.device and may_be_looked_at(of_keys)
        if not comparable or not torch.equal(segments, of_keys):
            return None
    rows = []
    for row in segments.reshape(-1, segments.shape[-1]) if segments.numel() else ():
        names, lengths = row.unique_consecutive(return_counts=True)
        if len(names.unique()) < len(names):
            return None
        rows.append(tuple(lengths.tolist()))
    return tuple(rows) or None


def _padding(key_mask: Tensor) -> tuple[int, ...] | None:
    """How many keys every row hides, if all of them are at its start."""
    hidden = key_mask.shape[1] - key_mask.sum(-1)
    at_start = torch.arange(key_mask.shape[1], device=key_mask.device) >= hidden[:, None]
    if not key_mask.numel() or not torch.equal(key_mask, at_start):
        return None
    return tuple(hidden.tolist())


EVERYTHING, CAUSAL = Mask(), Mask(causal=True)
