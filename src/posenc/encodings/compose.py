"""Encodings that combine several other encodings."""

import copy
from functools import reduce
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn

from posenc.clock import Phases
from posenc.encodings.bias import SumBias
from posenc.encodings.encoding import E, Encoding
from posenc.encodings.placed import ContentState, KeyPositions, Keys, Placed, Positions, Queries, head_counts
from posenc.encodings.rotation import Rotation
from posenc.errors import InvalidArgument
from posenc.scaling.scaling import Scaling


class Composed(Encoding):
    """The base class of encodings that consist of other encodings. Their properties, such as ``relative`` and
    ``causal``, follow from those of their parts.
    """

    def __init__(self, parts: tuple[Encoding, ...]) -> None:
        super().__init__()
        if not parts or not all(isinstance(part, Encoding) for part in parts):
            raise InvalidArgument(
                f"{self.name} must be built from encodings; got {[type(part).__name__ for part in parts]}; pass "
                "the encodings one by one: posenc.Stack(rope, alibi)"
            )
        self._settings = {}  # ``settings`` reads the parts instead, since they may change
        self.per_layer = any(part.per_layer for part in parts)
        self._declare(parts)

    def _declare(self, parts: tuple[Encoding, ...]) -> None:
        """Store the parts, and combine the attributes in which they declare their properties."""
        self.parts = nn.ModuleList(parts)
        self.acts_on = tuple(dict.fromkeys(place for part in parts for place in part.acts_on))
        for name in ("relative", "isometric", "signed"):
            setattr(self, name, all(getattr(part, name) for part in parts))
        for name in ("needs_content", "uses_queries", "causal", "grows", "remapped"):
            setattr(self, name, any(getattr(part, name) for part in parts))
        self.axes = max(part.axes for part in parts)
        self.scaling = next((part.scaling for part in parts if part.scaling is not None), None)
        self.position_limit = min(part.position_limit for part in parts)

    @property
    def encodings(self) -> tuple[Encoding, ...]:
        """The parts, in order."""
        return tuple(self.parts)  # type: ignore[arg-type]

    @property
    def settings(self) -> dict[str, Any]:
        return {"parts": self.encodings}

    def with_settings(self: E, **changes: Any) -> E:
        """Return a new composition of the same parts, including their parameters, with these settings changed."""
        settings = {**self.settings, **changes}
        return type(self)(*settings.pop("parts", ()), **settings)

    def extra_repr(self) -> str:
        return ""

    def with_scaling(self, scaling: Scaling | None, phases: Phases | None = None) -> Encoding:
        return self._of(tuple(part.with_scaling(scaling, phases) for part in self.encodings))

    def enlarged(self, *places: int) -> Encoding:
        parts = tuple(part.enlarged(*places) for part in self.encodings)
        return self if parts == self.encodings else self._of(parts)

    def _of(self, parts: tuple[Encoding, ...]) -> Encoding:
        """Build a composition of the same class from these parts, in this order."""
        other = copy.copy(self)
        other._modules = {}
        other._declare(parts)
        return other

    @property
    def not_rerotatable(self) -> str:
        return next((f"{part.name}: {part.not_rerotatable}" for part in self.encodings if part.not_rerotatable), "")

    def check(self, positions: Positions, name: str) -> None:
        if self.axes > 1 and (positions.dim() < 2 or positions.shape[0] != self.axes):
            super().check(positions, name)  # raises an error with the expected shape
        for part in self.encodings:
            part.check(self._for(part, positions), name)

    def _placed(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> tuple[Placed, ...]:
        same = k_positions is q_positions
        at = [(part, self._for(part, q_positions)) for part in self.encodings]
        return tuple([part.placed(q, q if same else self._for(part, k_positions), dtype) for part, q in at])

    def _for(self, part: Encoding, positions: Positions) -> Positions:
        """Return the positions for a part: positions on all axes, or only on axis 0 if the part has one axis."""
        return positions[0] if self.axes > part.axes == 1 else positions


class PlacedStack(Placed):
    """Placed encodings that are applied one after the other. Their biases are added and their scales are
    multiplied.

    The states of these encodings, ``(B, n, S)``, are concatenated along axis 1, in order.
    """

    def __init__(self, parts: tuple[Placed, ...], axes: int, positions: tuple[Positions, KeyPositions]) -> None:
        super().__init__(*positions, axes)
        self.parts = parts
        self.state_size = sum(part.state_size for part in parts)
        self.awaits_content = any(part.awaits_content for part in parts)
        self.stamps = tuple(stamp for part in parts for stamp in part.stamps)
        self.causal = any(part.causal for part in parts)
        for part in parts:
            self.narrow(part.window, part.chunk)
        counts = {count for part in parts for count in head_counts(part).values()}
        if len(counts) > 1:
            raise InvalidArgument(
                f"the encodings in this stack have {' and '.join(map(str, sorted(counts)))} heads; build each "
                "encoding for the model's number of heads"
            )
        self.added = sum(part.added for part in parts)
        # No difference of sets, which torch 2.8 cannot compile.
        pairs = [(part.softmax_scale, part.softmax_factor) for part in parts]
        scales = list(dict.fromkeys(pair for pair in pairs if pair != (None, 1.0)))
        if len(scales) > 1:
            raise InvalidArgument(
                "the encodings in this stack differ in (softmax_scale, softmax_factor): "
                f"{sorted(scales, key=str)}; a layer can use only one pair: build all encodings with the same "
                "settings"
            )
        self.softmax_scale, self.softmax_factor = scales[0] if scales else (None, 1.0)
        self.remaps = tuple(remap for part in parts for remap in part.remaps)
        biases = tuple(part.bias for part in parts if part.bias is not None)
        self.bias = SumBias(biases) if len(biases) > 1 else biases[0] if biases else None
        factors = [part.scale for part in parts if part.scale is not None]
        self.scale = reduce(torch.mul, factors) if factors else None

    def with_parts(self, parts: tuple[Placed, ...]) -> Placed:
        """Return the stack with its placed encodings replaced by these."""
        other = PlacedStack(parts, self.axes, (self.q_positions, self.k_positions))
        other.narrow(self.window, self.chunk)
        return other

    def embed(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part.embed(x)
        return x

    def rotate(self, q: Queries, k: Keys) -> tuple[Queries, Keys]:
        for part in self.parts:
            q, k = part.rotate(q, k)
        return q, k

    def unrotate(self, k: Tensor) -> Tensor:
        for part in reversed(self.parts):
            k = part.unrotate(k)
        return k

    def __getitem__(self, layer: int) -> Placed:
        super().__getitem__(layer)
        parts = tuple(part[layer] for part in self.parts)
        return self if all(a is b for a, b in zip(parts, self.parts, strict=True)) else self.with_parts(parts)

    def with_content(self, x: Tensor, state: ContentState | None = None) -> tuple[Placed, ContentState | None]:
        read = [part.with_content(x, share) for part, share in zip(self.parts, self.shares(state), strict=True)]
        states = [share for _, share in read if share is not None]
        return self.with_parts(tuple(part for part, _ in read)), torch.cat(states, dim=1) if states else None

    def slice_heads(self, first: int, last: int) -> Placed:
        return self.with_parts(tuple(part.slice_heads(first, last) for part in self.parts))

    def with_state(self, state: ContentState | None) -> Placed:
        pairs = zip(self.parts, self.shares(state), strict=True)
        return self.with_parts(tuple(part.with_state(share) for part, share in pairs))

    def shares(self, state: ContentState | None) -> list[ContentState | None]:
        """Return the slice of the state that belongs to each part."""
        if state is None:
            return [None] * len(self.parts)
        if state.shape[1] != self.state_size:
            raise InvalidArgument(
                f"state has {state.shape[1]} values per key; it must have {self.state_size}, as in "
                "the state from this stack's with_content()"
            )
        pieces = iter(state.split([part.state_size for part in self.parts if part.state_size], dim=1))
        return [next(pieces) if part.state_size else None for part in self.parts]


@final
class Stack(Composed):
    """Several encodings as one encoding. Embeddings and rotations are applied in order, biases are added, and
    scales are multiplied.

    ``Stack(Rotary(64, pairing="half"), FoX(512, 8))`` is RoPE with a forget gate. If positions have several axes,
    an encoding that takes one-dimensional positions uses axis 0.
    """

    name: ClassVar[str] = "stack"

    def __init__(self, *parts: Encoding) -> None:
        super().__init__(parts)

    def _declare(self, parts: tuple[Encoding, ...]) -> None:
        super()._declare(parts)
        # A bias that uses rotated queries depends on their positions.
        self.relative = self.relative and not (self.uses_queries and "queries_keys" in self.acts_on)
        if self.remapped and (self.uses_queries or sum("queries_keys" in part.acts_on for part in parts) > 1):
            raise InvalidArgument(
                "an encoding with remapped positions rotates queries and keys inside attention, so no other "
                "encoding in the stack may rotate or read queries and keys; remove the other encoding"
            )
        if self.grows and (self.uses_queries or sum(part.grows for part in parts) > 1):
            raise InvalidArgument(
                "xPos multiplies queries and keys by factors that depend on position, so no other encoding in "
                "the stack may do the same or read queries and keys; remove the other encoding, or use rotary "
                "instead of xpos"
            )
        rotations = [part for part in parts if isinstance(part, Rotation)]
        if len({part.head_dim for part in rotations}) > 1:
            raise InvalidArgument(
                f"{' but '.join(f'{type(part).__name__} has head_dim={part.head_dim}' for part in rotations)}; "
                "all rotations in a stack must have the same head_dim"
            )

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        return PlacedStack(self._placed(q_positions, k_positions, dtype), self.axes, (q_positions, k_positions))

    def describe(self) -> str:
        return " + ".join(part.describe() for part in self.encodings)
