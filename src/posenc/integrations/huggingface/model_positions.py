"""The position settings of a config: one recipe per layer type, and the type of every layer."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from posenc.arguments import instance, one_of
from posenc.clock import Phases
from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.compose import Stack
from posenc.encodings.encoding import Encoding
from posenc.encodings.layers import Layers, stretched
from posenc.encodings.text import Recipe, parse
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.schema import NEAR
from posenc.scaling import Default, LengthScaling, LongRoPE, Scaling
from posenc.scaling.registry import SCALINGS, make

AS_READ = "ModelPositions; pass huggingface.read(config)"
"""What functions expect as position settings, in their error messages."""
NOPE = Recipe("nope")
"""The recipe of layers without positional encoding."""
ROUNDED_ALIBI = {
    None: "; in 16-bit types, transformers' bias, slope·(key position), no longer distinguishes neighbouring keys "
    "beyond a few thousand positions",
    "bfloat16": "; transformers' bias, slope·(key position), is always rounded to bfloat16, and no longer "
    "distinguishes neighbouring keys beyond a few hundred positions",
    "float32": "",
}
"""For each ``Family.alibi_dtype``, what happens to ALiBi's bias at far positions."""


def softmax_factor(recipe: Recipe) -> float:
    """Return the factor by which layers with this recipe multiply 1/√D; 1 if there is none. DeepSeek models, for
    example, compute this factor from mscale_all_dim.
    """
    return float(recipe.get("softmax_factor") or getattr(recipe.get("scaling"), "softmax_factor", 1.0))


def with_softmax_factor(recipe: Recipe, factor: float) -> Recipe:
    """Return a copy of a recipe with this factor on 1/√D. The copy states the factor only if the scaling does not
    already imply it.
    """
    unstated = recipe.with_(softmax_factor=None)
    return unstated if math.isclose(factor, softmax_factor(unstated)) else recipe.with_(softmax_factor=factor)


def scaling_of(stated: Scaling | LengthScaling | str | None, length: int) -> Scaling | LengthScaling | None:
    """Build a scaling from text such as ``yarn(4)`` or ``yarn(4, 8192, beta_fast=16)``; return anything else
    unchanged.

    ``length`` is the original length for text that does not give one.

    Raises:
        UnknownName, InvalidArgument: the name of the scaling or of a field is unknown, or a value is out of range.
    """
    if not isinstance(stated, str):
        instance(
            stated, Scaling | LengthScaling | None, "scaling", "a scaling, such as 'yarn(4)' or YaRN(4.0, 8192)"
        )
        return stated
    recipe = parse(stated)
    given, by_name = recipe.arguments
    names = [field.name for field in fields(SCALINGS[one_of("scaling", recipe.name, SCALINGS)])]  # type: ignore[arg-type]
    known = {"original_length": length} if "original_length" in names[len(given) :] else {}
    return make(recipe.name, *given, **{**known, **by_name})


@dataclass(frozen=True)
class ModelPositions:
    """The position settings of a model.

    Args:
        model_type: the name of the family in transformers.
        recipes: one recipe per layer type, keyed by ``"all"`` or by the names in the config.
        layer_types: the type of every layer, first to last.
        windows: for each layer, the number of tokens that a token sees up to and including itself; None for no
            limit.
        window_after: how many later tokens a token sees in a window, as in encoders.
        query_dim: the number of channels of a query in latent attention, where only the last channels rotate; None
            in other models.
        chunk: the number of tokens per chunk, if a token in rotating layers sees only its own chunk (Llama 4).
        original_length: the trained length before any scaling, if it is in the config; else max_length.
        max_length: the longest input that the config allows.
        scales: the query scales by layer type; ``as_layers`` stacks a scale on the encoding of its type.
        assumed: notes on each value that the config leaves out and that therefore comes from the defaults of the
            class or the family, and on anything that ``as_layers`` cannot express.
        layout: for an image tower that rotates queries and keys, the name of the layout in
            ``posenc.integrations.attention_layouts`` whose ``positions`` must be passed to the encoding.
        added_table: a table of position embeddings that such a tower also adds to its patches; ``as_layers`` stacks
            the table on the encoding.
        source: the config that was read; for a composite model, its language model's part.
        path: the keys that lead to ``source`` in the whole config, such as ``("text_config",)``.
    """

    model_type: str
    recipes: Mapping[str, Recipe]
    layer_types: tuple[str, ...]
    windows: tuple[int | None, ...]
    original_length: int
    max_length: int
    scales: Mapping[str, Recipe] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    layout: str | None = None
    added_table: Recipe | None = None
    chunk: int | None = None
    window_after: int = 0
    query_dim: int | None = None
    source: Mapping[str, Any] = field(default_factory=dict, repr=False)
    path: tuple[str, ...] = field(default=(), compare=False)

    @property
    def rotary_recipes(self) -> dict[str, Recipe]:
        """The recipes of the rotary layer types."""
        return {name: recipe for name, recipe in self.recipes.items() if recipe.get("scaling") is not None}

    @property
    def length_key(self) -> str:
        """The key of the longest input: the name in the config, or the family's own if the config has neither."""
        return FAMILIES[self.model_type].length_key(self.source)

    @property
    def tuned_length(self) -> int:
        """The length that the model was released for: the longest input that the config allows if there is a
        scaling, else original_length.
        """
        scaled = bool(self.rotary_recipes) and self.rotary.get("scaling") != Default()
        return max(self.max_length, self.original_length) if scaled else self.original_length

    @property
    def known_issues(self) -> tuple[str, ...]:
        """Known problems with this positional encoding in transformers."""
        family, rotary = FAMILIES[self.model_type], self.rotary_recipes.values()
        alibi = [recipe for recipe in self.recipes.values() if recipe.name == "alibi"]
        normalises = family.norm_after_rotation and self.source.get(family.norm_after_rotation, True)
        cancelled = (
            {getattr(x, "attention_factor", 1.0) for x in self.encodings(1).values()} if normalises else set()
        )
        return (
            *(
                "ALiBi's loss stays flat past the trained length, but " * (not family.table_ends)
                + f"ALiBi fades out far tokens{ROUNDED_ALIBI[family.alibi_dtype]}"
                for _ in alibi
            ),
            *(
                f"transformers ignores alibi_bias_max={recipe.get('max_exponent'):g} and uses 8, so all slopes "
                "differ from the config's"
                for recipe in alibi
                if recipe.get("max_exponent") not in (None, 8)
            ),
            *(
                "eager attention of transformers 5 adds this bias twice; load the model with "
                "attn_implementation='sdpa'"
                for _ in alibi
                if family.divides_alibi
            ),
            *(
                "the model's code normalises queries and keys after they rotate, which cancels the attention "
                f"factor of {factor:.6g}"
                for factor in sorted(cancelled - {1.0})
            ),
            *(
                "DeepSeek-V4's released code applies no attention factor, but transformers applies "
                f"{recipe.get('scaling').scale:.4g} with this config; set attention_factor = 1"
                for recipe in rotary
                if family.rotates == "compression" and getattr(recipe.get("scaling"), "scale", 1.0) != 1.0
            ),
            *(
                "transformers' code uses the short list of factors at every length, but the authors' code uses the "
                "long list beyond the original length"
                for recipe in rotary
                if family.mscale_by_length and isinstance(recipe.get("scaling"), LongRoPE)
            ),
            *(
                f"transformers up to {version} does not follow this config; newer versions do"
                for version in [family.wrong_up_to_version]
                if version
            ),
        )

    @property
    def alike(self) -> bool:
        """Whether all rotary layers have the same scaling, so that one flat rope dictionary can express it."""
        return set(self.recipes) <= {"all", "rotary", "nope"}

    @property
    def types_by_window(self) -> tuple[str, ...]:
        """The type of every layer. If the windows of a type have different widths, each width is a separate type.
        Layers of an encoder or decoder that differ only in their bias tables still count as one type.
        """
        several = {name for name in self.recipes if len(self.windows_of(name)) > 1}
        return tuple(
            f"{kind} within {window}" if kind in several and window else kind.partition(" layer ")[0]
            for kind, window in zip(self.layer_types, self.windows, strict=True)
        )

    @property
    def stretched(self) -> tuple[str, ...]:
        """The rotary layer types that a longer context affects: the types without a window or, if all have one,
        all types."""
        if not self.rotary_recipes:
            raise InvalidArgument(f"model_type {self.model_type!r} has no rotary layers to rescale")
        return stretched(
            tuple(self.rotary_recipes),
            windowed={
                name
                for name in self.rotary_recipes
                if name in (NEAR, "main") or (name != "compress" and all(self.windows_of(name)))
            },
        )

    @property
    def rotary(self) -> Recipe:
        """The rotary recipe that a longer context changes: if there are several, one with a scaling, or else the
        one with the largest base.
        """
        return max(
            (self.recipes[name] for name in self.stretched),
            key=lambda recipe: (recipe.get("scaling") != Default(), recipe.get("base")),
        )

    def with_scaling(self, scaling: Scaling | LengthScaling | str | None) -> "ModelPositions":
        """Return these settings with ``scaling`` in the layer types of ``stretched``. None removes not only the
        scaling but the rotation: these layer types then have no positional encoding.

        For text such as ``"yarn(4)"``, the original length is the model's. If ``scaling`` is the model's own,
        nothing changes, and each layer type keeps its scaling.
        """
        scaling = scaling_of(scaling, self.original_length)
        if scaling == self.rotary.get("scaling"):
            return self
        recipes = dict(self.recipes)
        for name in self.stretched:
            factor = (
                scaling.softmax_factor  # type: ignore[union-attr]
                if FAMILIES[self.model_type].mscale_scores and getattr(scaling, "mscale_all_dim", None)
                else softmax_factor(recipes[name])
            )
            recipes[name] = with_softmax_factor(recipes[name].with_(scaling=scaling), factor) if scaling else NOPE
        return replace(
            self, recipes=recipes, original_length=getattr(scaling, "original_length", self.original_length)
        )

    def encodings(self, total_length: int | None = None, phases: Phases = "exact") -> dict[str, Encoding]:
        """Return a new encoding for each layer type. Learned tables are untrained; their rows must be loaded from
        the checkpoint.

        Args:
            total_length: the length of prompt and answer together, if a scaling depends on the length.
            phases: ``"float32"`` for the angles that transformers computes.
        """
        return {
            name: build(
                recipe.with_(phases=phases) if name in self.rotary_recipes else recipe,
                ModelShape(),
                total_length=total_length,
            )
            for name, recipe in self.recipes.items()
        }

    def as_layers(self, total_length: int | None = None, phases: Phases = "exact") -> Encoding:
        """Return the model's only encoding, or ``Layers`` if there are windows, chunks or several layer types."""
        encodings = {
            name: self._stacked(name, encoding) for name, encoding in self.encodings(total_length, phases).items()
        }
        if len(encodings) == 1 and not any(self.windows) and not self.chunk:
            return next(iter(encodings.values()))
        types = self.types_by_window
        kinds = dict(zip(types, self.layer_types, strict=True))
        by_type = {name: encodings[kind] for name, kind in kinds.items()}
        return Layers(
            by_type,
            types,
            windows={name: window for name, window in zip(types, self.windows, strict=True) if window},
            chunks={name: self.chunk for name in kinds if kinds[name] in self.rotary_recipes}
            if self.chunk
            else None,
            layers=len(types) if any(encoding.per_layer for encoding in by_type.values()) else None,
        )

    def _stacked(self, name: str, encoding: Encoding) -> Encoding:
        """Return the encoding of a layer type, stacked with its table and its query scale."""
        recipes = [recipe for recipe in (self.added_table, self.scales.get(name)) if recipe is not None]
        return Stack(encoding, *(build(recipe, ModelShape()) for recipe in recipes)) if recipes else encoding

    def windows_of(self, name: str) -> set[int | None]:
        """Return the windows of the layers of a type."""
        return {window for kind, window in zip(self.layer_types, self.windows, strict=True) if kind == name}
