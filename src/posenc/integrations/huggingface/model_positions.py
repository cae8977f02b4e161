"""What a config says about positions, in our words: a recipe per kind of layer, and the kind of every layer."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from posenc.clock import Phases
from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.compose import Stack
from posenc.encodings.encoding import Encoding
from posenc.encodings.layers import Layers, stretched
from posenc.encodings.text import Recipe
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.schema import NEAR
from posenc.scaling import Default, LengthScaling, Scaling

STILL = Recipe("nope")
"""Layers without positions."""

TROUBLES = {
    "alibi": "ALiBi stays flat past the trained length but fades out far tokens; in 16 bit, transformers' "
    "slope·key form loses the bias of near keys at a few thousand positions"
}
"""What is known to go wrong with an encoding in transformers, by its name."""


def turns(recipe: Recipe) -> bool:
    """Whether it has frequencies that a scaling sets."""
    return recipe.get("scaling") is not None


@dataclass(frozen=True)
class ModelPositions:
    """What a model does with positions.

    Args:
        model_type: the family's name in Hugging Face.
        kinds: one recipe per kind, by name: ``"all"``, or the names that the config has for its layer types.
        layers: the kind of every layer, first to last.
        windows: how many tokens back every layer sees, itself included; None for all.
        original_length: the trained length, before any scaling, where the config states it; else max_length.
        max_length: the longest input that the config allows.
        scales: the scale of queries of every kind that has one; ``as_layers`` stacks it on the kind.
        softmax_factor: what attention's 1/√D is multiplied by (DeepSeek's second number); 1 elsewhere.
        assumed: each value that the config leaves out and every released model of the family has, and what of it
            ``as_layers`` cannot say.
        layout: of a tower that turns by rows and columns, the name in ``posenc.integrations.attention_layouts``
            whose ``positions`` its encoding takes.
        otherwise: the newest transformers known to do something else with such a config, where newer ones do this.
        added: the table that such a tower adds to its patches besides; ``as_layers`` stacks it on the kind.
        source: the config that was read, of a composite model its language model's part.
        path: the keys under which that part stands in the whole config, such as ``("text_config",)``.
    """

    model_type: str
    kinds: Mapping[str, Recipe]
    layers: tuple[str, ...]
    windows: tuple[int | None, ...]
    original_length: int
    max_length: int
    scales: Mapping[str, Recipe] = field(default_factory=dict)
    softmax_factor: float = 1.0
    assumed: tuple[str, ...] = ()
    layout: str | None = None
    otherwise: str | None = None
    added: Recipe | None = None
    source: Mapping[str, Any] = field(default_factory=dict, repr=False)
    path: tuple[str, ...] = field(default=(), compare=False)

    @property
    def turning(self) -> dict[str, Recipe]:
        """The rotary kinds."""
        return {name: recipe for name, recipe in self.kinds.items() if turns(recipe)}

    @property
    def tuned_length(self) -> int:
        """The length that the model was released for: the longest input under a scaling that its config states."""
        scaled = bool(self.turning) and self.rotary.get("scaling") != Default()
        return max(self.max_length, self.original_length) if scaled else self.original_length

    @property
    def troubles(self) -> tuple[str, ...]:
        """What is known to go wrong with such positions in transformers."""
        found = tuple(TROUBLES[recipe.name] for recipe in self.kinds.values() if recipe.name in TROUBLES)
        if self.otherwise is None:
            return found
        return (
            *found,
            f"transformers {self.otherwise} does something else than this config says; a newer one does it",
        )

    @property
    def alike(self) -> bool:
        """Whether every layer that turns has the same scaling, so that one flat rope dictionary says it."""
        return set(self.kinds) <= {"all", "rotary", "nope"}

    @property
    def stretched(self) -> tuple[str, ...]:
        """The rotary kinds that a longer context stretches: not those that see a window, unless all do."""
        if not self.turning:
            raise InvalidArgument(f"model_type {self.model_type!r} has no rotary layers, and so nothing to rescale")
        return stretched(tuple(self.turning), {name for name in self.turning if self._near(name)})

    @property
    def rotary(self) -> Recipe:
        """The rotary kind that is stretched; of several the one that is scaled, or else with the largest base."""
        found = [self.kinds[name] for name in self.stretched]
        return max(found, key=lambda recipe: (recipe.get("scaling") != Default(), recipe.get("base")))

    def with_scaling(self, scaling: Scaling | LengthScaling | None) -> "ModelPositions":
        """The same model with another scaling in the kinds that are stretched, or no rotation there for None.

        With the scaling that it has it stays as it is, each kind with its own.
        """
        if scaling == self.rotary.get("scaling"):
            return self
        kinds = dict(self.kinds)
        for name in self.stretched:
            kinds[name] = STILL if scaling is None else kinds[name].with_(scaling=scaling)
        original = getattr(scaling, "original_length", self.original_length)
        return replace(self, kinds=kinds, original_length=original)

    def encodings(self, total_length: int | None = None, phases: Phases = "exact") -> dict[str, Encoding]:
        """A fresh encoding per kind of layer; tables start untrained, their rows are the checkpoint's business.

        Args:
            total_length: prompt and answer together, where a scaling depends on it.
            phases: ``"float32"`` for the angles that transformers computes.
        """
        recipes = {name: recipe.with_(phases=phases) for name, recipe in self.turning.items()}
        return {
            name: build(recipes.get(name, recipe), ModelShape(), total_length=total_length)
            for name, recipe in self.kinds.items()
        }

    def as_layers(self, total_length: int | None = None, phases: Phases = "exact") -> Encoding:
        """The whole model as one encoding: ``Layers`` by kind and window, or the one encoding that it has."""
        made = {
            name: self._stacked(name, encoding) for name, encoding in self.encodings(total_length, phases).items()
        }
        if len(made) == 1 and not any(self.windows):
            return next(iter(made.values()))
        several = {name for name in made if len({window for _, window in self._of(name)}) > 1}
        layer_types = [
            f"{kind} within {window}" if kind in several and window else kind
            for kind, window in zip(self.layers, self.windows, strict=True)
        ]
        encodings = {name: made[kind] for name, kind in zip(layer_types, self.layers, strict=True)}
        windows = {name: window for name, window in zip(layer_types, self.windows, strict=True) if window}
        return Layers(encodings, layer_types, windows=windows)

    def _stacked(self, name: str, encoding: Encoding) -> Encoding:
        """A kind's encoding with what acts beside it: a table before, a scale of queries after."""
        beside = [build(one, ModelShape()) for one in (self.added, self.scales.get(name)) if one is not None]
        return Stack(encoding, *beside) if beside else encoding

    def _near(self, name: str) -> bool:
        return name == NEAR or all(window for _, window in self._of(name))

    def _of(self, name: str) -> list[tuple[int, int | None]]:
        """Every layer of a kind, with its window."""
        each = zip(self.layers, self.windows, strict=True)
        return [(i, window) for i, (kind, window) in enumerate(each) if kind == name]
