"""The attention mask determines which keys each query sees. Build the mask once per forward pass.

Causality, windows and chunks depend on the *order* of tokens: their indices in the sequence. These differ from
positions, which restart in packed documents and repeat in images.
"""

from dataclasses import dataclass, field, fields, replace
from functools import reduce
from typing import Any, ClassVar, TypeVar, final

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from posenc.arguments import as_flag, form
from posenc.errors import InvalidArgument
from posenc.kernels.attention.flex import MaskMod, as_tensor, mask_mod
from posenc.kernels.memory import is_certain
from posenc.mask.tensors import (
    PER_KEY,
    PER_QUERY,
    Lengths,
    MaskType,
    Row,
    assign,
    common_names,
    copied,
    declared,
    document_lengths,
    documents_of_chunks,
    known_lengths,
    left_padding,
    on_all_axes,
    undeclared,
    whole,
)
from posenc.pytrees import Pytree, narrowed

Queries = Int[Tensor, " T"] | Int[Tensor, "#B T"]
Keys = Int[Tensor, " S"] | Int[Tensor, "#B S"]
Kind = TypeVar("Kind", bound="Mask")


@dataclass(frozen=True, eq=False)
class Mask(Pytree, metaclass=MaskType):
    """The keys that each query may see: those that meet all conditions. ``Mask()`` hides no key.

    Args:
        causal: whether a query sees only its own key and earlier keys.
        q_order: each query's index in its sequence, int64 ``(T,)`` or ``(B, T)``. By default, the last query and
            the last key are the same token, as with a growing cache, so query t has index t + (S − T). Pass
            ``q_order`` for a shard, a permuted sequence or a preallocated cache.
        k_order: each key's index in its sequence; by default ``q_order`` if that is given, else 0 … S − 1.
        window: a query sees only its own key, ``window`` − 1 keys before it and, if not causal, as many after it.
        q_segments: the document of every query, integers ``(T,)`` or ``(B, T)``; a query sees only keys of its own
            document.
        k_segments: the document of every key; by default ``q_segments``. With a cache, pass q_segments and
            k_segments.
        key_mask: bool ``(B, S)``, True for keys that may be seen, False for padding.
        document_lengths: for every row of segments, the lengths of its documents in order, such as ``((3, 5),)``.
        left_padding: for every row of the key mask, the number of hidden keys, all of which are at the row's start.
        chunk: the length of a chunk; a query sees only the keys in its own chunk (Llama 4). In every document, the
            first chunk starts at the first non-padding token; with ``q_order``, chunks start at multiples of it.
        bidirectional_groups: the group of every key, integers ``(S,)`` or ``(B, S)``; queries have the groups of
            the last T keys. Tokens in the same group (0 or above) see each other in both directions, regardless of
            causality and window, like an image's tokens in PaliGemma and Gemma 3. Tokens without a group have −1.
        dense: bool ``(B|1, H|1, T, S)``, True if the query may see the key. Use it for any other rule, such as a
            tree of draft tokens. A dense mask needs T·S bytes, and attention cannot skip blocks of keys.

    A mask is a pytree of copies of the tensors that you pass. To change it, make a new mask.

    ``document_lengths`` and ``left_padding`` only make attention faster: attention then computes documents
    separately, or skips padding, instead of masking. On the CPU, these lengths are read from tensors. On other
    devices, pass the lengths, because reading them would synchronise. ``tree_map`` drops lengths that were read.
    """

    facts: ClassVar[tuple[str, ...]] = ("document_lengths", "left_padding")

    causal: bool = False
    q_order: Queries | None = field(default=None, metadata=PER_QUERY)
    k_order: Keys | None = field(default=None, metadata=PER_KEY)
    window: int | None = None
    q_segments: Queries | None = field(default=None, metadata=PER_QUERY)
    k_segments: Keys | None = field(default=None, metadata=PER_KEY)
    key_mask: Bool[Tensor, "#B S"] | None = field(
        default=None, metadata={**PER_KEY, "truth": "true for keys that may be seen"}
    )
    document_lengths: Lengths | None = None
    left_padding: tuple[int, ...] | None = None
    chunk: int | None = None
    bidirectional_groups: Keys | None = field(default=None, metadata=PER_KEY)
    dense: Bool[Tensor, "#B #H T S"] | None = field(
        default=None,
        metadata={
            "axes": "bhqk",
            "truth": "true if the query may see the key",
            "convert": "for an additive mask, pass dense == 0",
        },
    )

    rows: ClassVar[dict[str, Row]] = declared(vars())
    """The fields that hold tensors."""

    has_own_rule: ClassVar[bool] = False
    """Whether a subclass overrides ``allows``, so that the fields alone do not determine which keys are hidden."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if cls.sees is not Mask.sees:
            raise InvalidArgument(
                f"{cls.__name__} overrides sees(); override allows() instead, which returns False for hidden keys"
            )
        cls.rows, cls.has_own_rule = cls.rows | declared(vars(cls)), cls.allows is not Mask.allows

    def __post_init__(self) -> None:
        causal = self.causal if isinstance(self.causal, bool) else as_flag(self.causal, "causal")
        assign(self, causal=causal, **whole(window=self.window, chunk=self.chunk))
        for x in fields(self):
            value = getattr(self, x.name)
            if x.name not in self.rows and isinstance(value, Tensor) and value.dim():
                raise undeclared(x.name, type(self))
        given = self.tensors()
        copies = {name: copied(name, x, self.rows[name]) for name, x in given.items()}
        for name in ("order", "segments"):
            q, k = given.get(f"q_{name}"), given.get(f"k_{name}")
            if q is None and k is not None:
                raise InvalidArgument(f"k_{name} is given without q_{name}; pass q_{name} as well")
            if q is not None and (k is None or k is q):
                copies[f"k_{name}"] = copies[f"q_{name}"]
        assign(self, **copies)
        self.look()

    def tensors(self) -> dict[str, Tensor]:
        """Return the mask's tensors, by field name."""
        return {name: x for name in self.rows if (x := getattr(self, name)) is not None}

    def look(self) -> None:
        """Read the lengths of documents and padding from the tensors, or check the declared lengths."""
        segments, keys = self.q_segments, self.k_segments
        documents = known_lengths(
            "document_lengths", self.document_lengths, "q_segments", segments, lambda x: document_lengths(x, keys)
        )
        padding = known_lengths("left_padding", self.left_padding, "key_mask", self.key_mask, left_padding)
        assign(self, document_lengths=documents, left_padding=padding)

    def derive(self) -> None:
        assign(self, **dict.fromkeys(self.facts))
        self.look()

    @classmethod
    def of(cls, mask: "Mask | None", causal: bool = False, window: int | None = None) -> "Mask":
        """Return ``mask`` or, if it is None, a mask of ``causal`` and ``window``; passing both is an error."""
        if mask is None:
            if window is None and isinstance(causal, bool):
                return CAUSAL if causal else EVERYTHING
            return cls(causal, window=window)
        if not isinstance(mask, cls):
            raise InvalidArgument(
                f"mask is {form(mask)}; expected posenc.Mask(…): use posenc.Mask(causal=True, key_mask=…) for "
                "padding, or posenc.Mask(dense=…) for a tensor (B, H, T, S); for causality alone, write causal=True"
            )
        if causal or window is not None:
            raise InvalidArgument(
                f"causal={causal} and window={window} cannot be combined with a mask; set causal and window in "
                "the mask: posenc.Mask(causal=…, window=…)"
            )
        return mask

    def within(self, window: int | None, chunk: int | None = None) -> "Mask":
        """Return a copy that also has this window and chunk. Of two windows, the narrower applies."""
        windows = [size for size in (window, self.window) if size is not None]
        window = min(windows) if windows else None  # compilers do not support min's default
        if None not in (chunk, self.chunk) and chunk != self.chunk:
            raise InvalidArgument(
                f"the mask's chunk={self.chunk} differs from the layer's chunk={chunk}; omit chunk in the mask"
            )
        chunk = chunk or self.chunk
        if (window, chunk) == (self.window, self.chunk):
            return self
        return self.become(type(self), **whole(window=window, chunk=chunk))

    def become(self, kind: type[Kind], **changes: Any) -> Kind:
        """Convert the mask to the class ``kind``, whose fields may differ, and set these attributes. Both masks
        share tensors and the lengths that were read from tensors.
        """
        known = {**{x.name: getattr(self, x.name) for x in fields(self)}, **changes}
        state = {name: x for name, x in known.items() if name in kind.__dataclass_fields__}
        if torch.compiler.is_compiling():  # a compiler needs the constructor; this avoids a T×S copy
            mask = kind(**{**state, "dense": None})
            assign(mask, dense=self.dense)
            return mask
        other = object.__new__(kind)
        vars(other).update(state)
        return other

    def without_chunks(self, T: int, S: int, device: torch.device) -> "Mask":
        """Return a copy of the mask in which every chunk is a document."""
        if self.chunk is None:
            return self
        if self.q_order is None and is_certain(self.chunk >= S):
            return replace(self, chunk=None)
        places, segments = self.places(T, S, device), (self.q_segments, self.k_segments)
        q, k = documents_of_chunks(self.chunk, places, segments, self.key_mask, self.q_order is None)
        return replace(self, chunk=None, q_segments=q, k_segments=k, document_lengths=None)

    @property
    def only_causal(self) -> bool:
        """Whether nothing but causality, in the default order, can hide keys."""
        return self.window is None and self.by_offset

    def cut(self, row: int | None = None, queries: slice | None = None, keys: slice | None = None) -> "Mask":
        """Return the mask for these queries and keys, in one row of the batch or in all rows. Every slice must
        have a start and a stop.
        """
        places = {"b": None if row is None else slice(row, row + 1), "q": queries, "k": keys}
        some = {name: narrowed(x, self.rows[name]["axes"], places) for name, x in self.tensors().items()}
        other = self.become(type(self), **some)
        other.derive()
        return other

    def part(self, row: int | None, first: int, last: int) -> "Mask":
        """Return the mask for a span of tokens that see no keys outside the span."""
        padding = {} if self.document_lengths is not None else {"key_mask": None}
        alone, tokens = self.become(type(self), q_segments=None, k_segments=None, **padding), slice(first, last)
        return alone.cut(row, tokens, tokens)

    def places(self, T: int, S: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the index of every query and key in its sequence, ``(T,)`` or ``(B, T)``."""
        if self.q_order is not None and self.k_order is not None:
            return self.q_order, self.k_order
        return torch.arange(S - T, S, device=device), torch.arange(S, device=device)

    def order(self, T: int, S: int, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return indices that sort queries and keys by document, then by order, for biases that sum over tokens."""
        q, k = self.places(T, S, device)
        # A compiled program must work for all document lengths, so it cannot skip this for contiguous documents.
        already = self.q_order is None and self.document_lengths is not None and not torch.compiler.is_compiling()
        if already or self.q_segments is None or self.k_segments is None:
            return q, k
        (q, k), (q_names, k_names) = common_names(q, k), common_names(self.q_segments, self.k_segments)
        return q + q_names * (2 * S + 1), k + k_names * (2 * S + 1)

    @property
    def by_offset(self) -> bool:
        """Whether it is certain that only causality and a window hide keys, with tokens in the default order."""
        if self.chunk is not None or self.has_own_rule:
            return False
        for name in self.rows:  # noqa: SIM110  runs in every call
            if getattr(self, name) is not None:
                return False
        return True

    def key_range(self, first: int, last: int, T: int, S: int) -> tuple[int, int]:
        """Return the start and the exclusive end of the keys that queries ``first`` to ``last`` may see: all keys,
        unless the order is the default.
        """
        if self.q_order is not None or self.bidirectional_groups is not None:
            return 0, S
        window = self.window or S + T + 1  # longer than any distance
        start = max(0, S - T + first - window + 1)
        return start, last + S - T if self.causal else min(S, last + S - T + window - 1)

    def allows(self, at: dict[str, Tensor]) -> Tensor | None:
        """Return the rule of a subclass: a boolean tensor, False for keys that the query does not see; None if the
        rule hides no key. ``at`` holds the mask's tensors and always ``q_order`` and ``k_order``, with four axes:
        (B, 1, T, 1) per query, (B, 1, 1, S) per key. The mask's other conditions hide keys too.
        """
        return None

    @final
    def sees(self, at: dict[str, Tensor]) -> Tensor | None:
        """Return a boolean tensor, True if the query sees the key; None if no key is hidden.

        ``at`` maps field names to the mask's tensors for a block of queries and keys or, in FlexAttention, for one
        query and one key. The tensors broadcast with one another. ``at`` includes the defaults of ``q_order`` and
        ``k_order``, and the queries' ``bidirectional_groups`` as ``q_groups``. Boolean fields hide the keys for
        which they are False.
        """
        conditions, window = [], at.get("nearer_than", self.window)
        if self.causal or window is not None:
            behind = at["q_order"] - at["k_order"]
            near = [behind >= 0] if self.causal else []
            near += [] if window is None else [(behind if self.causal else behind.abs()) < window]
            conditions.append(reduce(torch.logical_and, near))
            if "q_groups" in at:
                group = at["q_groups"]
                conditions[0] = conditions[0] | (group == at["bidirectional_groups"]) & (group >= 0)
        if "q_segments" in at:
            conditions.append(at["q_segments"] == at["k_segments"])
        conditions += [x for x in at.values() if x.dtype == torch.bool]
        rule = self._allowed(at) if self.has_own_rule else None
        conditions += [] if rule is None else [rule]
        return reduce(torch.logical_and, conditions) if conditions else None

    def _allowed(self, at: dict[str, Tensor]) -> Tensor | None:
        """Return the checked result of ``allows``."""
        try:
            rule = self.allows(at)
        except KeyError as error:
            raise InvalidArgument(
                f"{type(self).__name__}.allows() reads at[{error}], but this mask has no such tensor; pass "
                f"{error.args[0]}=…"
            ) from error
        if rule is not None and not (isinstance(rule, Tensor) and rule.dtype == torch.bool):
            raise InvalidArgument(
                f"{type(self).__name__}.allows() returns {form(rule)}; return a boolean tensor, which is "
                "false for hidden keys"
            )
        return rule

    def known(self, T: int, S: int, device: torch.device) -> dict[str, Tensor]:
        """Return the tensors that ``sees`` reads, by name, with axes for the batch, heads, T queries and S keys."""
        if self.chunk is not None:
            return self.without_chunks(T, S, device).known(T, S, device)
        known = {name: on_all_axes(x, self.rows[name]["axes"]) for name, x in self.tensors().items()}
        if self.q_order is None and (self.causal or self.window is not None or self.has_own_rule):
            q, k = self.places(T, S, device)
            known.update(q_order=on_all_axes(q, "q"), k_order=on_all_axes(k, "k"))
        if self.bidirectional_groups is not None:
            known["q_groups"] = on_all_axes(self.bidirectional_groups[..., S - T :], "bq")
        return known

    def visible(self, T: int, S: int, device: torch.device) -> Bool[Tensor, "#B #H #T #S"] | None:
        """Return which of S keys each of T queries sees; None if every query sees all keys."""
        return self.sees(self.known(T, S, device))

    def block(
        self, known: dict[str, Tensor], first: int, last: int, keys: int, start: int
    ) -> Bool[Tensor, "#B #H #rows seen"] | None:
        """For each of the queries ``first`` to ``last`` − 1, return which of the keys ``start`` to ``keys`` − 1 it
        sees, or None if every query sees all of these keys. ``known`` contains the tensors of all blocks.
        """
        q, k, every = slice(first, last), slice(start, keys), slice(None)
        single = every if start < keys else k  # an axis of size 1 is sliced only if the range of keys is empty
        return self.sees(
            {
                n: x[:, :, every if x.shape[2] == 1 else q, single if x.shape[3] == 1 else k]
                for n, x in known.items()
            }
        )

    def modifier(self, T: int, S: int, device: torch.device) -> MaskMod | None:
        """Return ``sees`` as a FlexAttention ``mask_mod``, for one query and one key; None if no key is hidden."""
        if self.only_causal and not self.causal:
            return None
        window = {} if self.window is None else {"nearer_than": as_tensor(self.window, device)}
        return mask_mod(self.sees, self.known(T, S, device) | window)


EVERYTHING, CAUSAL = Mask(), Mask(causal=True)
