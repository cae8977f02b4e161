"""What a config says about positions, in our words: one value per kind of layer, each builds its encoding."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from posenc.clock import Phases
from posenc.encodings import ALiBi, Encoding, Learned, NoPE, Rotary
from posenc.encodings.rotary import Pairing
from posenc.errors import InvalidArgument
from posenc.schedules import Default, LengthSchedule, Schedule


@dataclass(frozen=True)
class RotaryLayer:
    """Rotary positions: everything that ``posenc.Rotary`` needs."""

    head_dim: int
    rotary_dim: int
    pairing: Pairing
    base: float
    schedule: Schedule | LengthSchedule = field(default_factory=Default)

    def plan(self, total_length: int | None) -> Schedule:
        """The schedule itself, or its plan for a request of ``total_length`` tokens."""
        if isinstance(self.schedule, Schedule):
            return self.schedule
        if total_length is None:
            raise InvalidArgument(
                f"{type(self.schedule).__name__} depends on the length of the request; pass total_length=, "
                "prompt and answer together"
            )
        return self.schedule.plan(total_length)

    def encoding(self, total_length: int | None = None, phases: Phases = "exact") -> Rotary:
        """A fresh ``Rotary``; ``phases="float32"`` for the angles that transformers computes."""
        return Rotary(
            self.head_dim,
            pairing=self.pairing,
            base=self.base,
            rotary_dim=self.rotary_dim,
            schedule=self.plan(total_length),
            phases=phases,
        )


@dataclass(frozen=True)
class NoPELayer:
    """No positions at all."""

    def encoding(self, total_length: int | None = None, phases: Phases = "exact") -> Encoding:
        return NoPE()


@dataclass(frozen=True)
class ALiBiLayer:
    """A penalty on scores that grows with distance."""

    heads: int
    max_exponent: float = 8.0

    def encoding(self, total_length: int | None = None, phases: Phases = "exact") -> Encoding:
        return ALiBi(self.heads, max_exponent=self.max_exponent)


@dataclass(frozen=True)
class LearnedLayer:
    """A trained table, added to the token embeddings once, before the first layer."""

    num_positions: int
    width: int

    def encoding(self, total_length: int | None = None, phases: Phases = "exact") -> Encoding:
        """A fresh table; its rows are the checkpoint's business."""
        return Learned(self.num_positions, self.width)


Layer = RotaryLayer | NoPELayer | ALiBiLayer | LearnedLayer


@dataclass(frozen=True)
class ModelPositions:
    """What a model does with positions.

    Args:
        model_type: the family's name in Hugging Face.
        kinds: one layer per kind, by name: ``"all"``, or the names that the config has for its layer types.
        layers: the kind of every layer, first to last.
        original_length: the trained length, before any scaling, where the config states it; else max_length.
        max_length: the longest input that the config allows.
        softmax_factor: what attention's 1/√D is multiplied by (DeepSeek's second number); 1 elsewhere.
        assumed: each value that the config leaves out and every released model of the family has.
        source: the config that was read.
    """

    model_type: str
    kinds: Mapping[str, Layer]
    layers: tuple[str, ...]
    original_length: int
    max_length: int
    softmax_factor: float = 1.0
    assumed: tuple[str, ...] = ()
    source: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def rotary(self) -> RotaryLayer:
        """The rotary kind; of several the one that is scaled, or else the one with the largest base."""
        found = [layer for layer in self.kinds.values() if isinstance(layer, RotaryLayer)]
        if not found:
            raise InvalidArgument(f"model_type {self.model_type!r} has no rotary layers, and so nothing to rescale")
        return max(found, key=lambda layer: (layer.schedule != Default(), layer.base))

    def encodings(self, total_length: int | None = None, phases: Phases = "exact") -> dict[str, Encoding]:
        """A fresh encoding per kind of layer."""
        return {name: layer.encoding(total_length, phases) for name, layer in self.kinds.items()}
