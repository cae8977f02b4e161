"""Layers: which kind of positions every layer of a model has, as one value."""

import copy
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import ClassVar, final

import torch
from torch import Tensor

from posenc.clock import Phases
from posenc.encodings.compose import Composed
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import ContentState, KeyPositions, Placed, Positions
from posenc.errors import InvalidArgument, UnknownName
from posenc.scaling.checks import at_least_one
from posenc.scaling.default import Default
from posenc.scaling.scaling import Scaling

_NO_LAYER = "these are the positions of all layers; pass what this layer has: placed[layer]"


class PlacedLayers(Placed):
    """Every kind placed once; a layer has what its index gives, and nothing has the whole but embeddings."""

    def __init__(
        self,
        kinds: dict[str, Placed],
        of_layer: Sequence[str],
        axes: int,
        positions: tuple[Positions, KeyPositions],
        layers: int | None,
    ) -> None:
        super().__init__(*positions, axes)
        self.kinds, self.of_layer, self.layers = kinds, of_layer, layers
        self.awaits_content = True

    def __getitem__(self, layer: int) -> Placed:
        return self.kinds[_named(self.of_layer, layer, self.layers)]

    def with_content(self, x: Tensor, state: ContentState | None = None) -> tuple[Placed, ContentState | None]:
        raise InvalidArgument(_NO_LAYER)

    def rotate(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        raise InvalidArgument(_NO_LAYER)

    def embed(self, x: Tensor) -> Tensor:
        """Every kind that embeds does so once, before the first layer."""
        for placed in self.kinds.values():
            x = placed.embed(x)
        return x


@final
class Layers(Composed):
    """Kinds of positions by name, and which kind every layer has.

    Args:
        kinds: encodings by name; NoPE is one, not None. A kind that declares ``per_layer`` is the pattern of which
            every layer of that kind gets a copy, with parameters of its own: the first layer those of the pattern,
            every other layer a draw of its own. The others are shared and placed once.
        pattern: the kind of every layer, first to last; shorter than the model, it is repeated.
        layers: how many layers the model has; needed where a kind is ``per_layer``. A layer beyond them is an
            error; where nothing is said, the pattern goes on.
        axis: for kinds of one axis beside kinds of more, which of them they take; 0 where nothing is said.
        windows: for kinds whose layers see only so many tokens back, how many; see ``Mask.window``. They travel in
            ``placed[layer]``, and attention heeds them.

    ``Layers({"rope": rope, "nope": NoPE()}, ("rope", "rope", "rope", "nope"))`` is SmolLM3 and Llama 4.
    """

    name: ClassVar[str] = "layers"

    def __init__(
        self,
        kinds: Mapping[str, Encoding],
        pattern: Sequence[str],
        *,
        layers: int | None = None,
        windows: Mapping[str, int] | None = None,
        axis: Mapping[str, int] | None = None,
    ) -> None:
        windows, axis = dict(windows or {}), dict(axis or {})
        for kind in (*pattern, *windows, *axis):
            if kind not in kinds:
                raise UnknownName("kind of layer", kind, kinds)
        if not pattern:
            raise InvalidArgument("pattern is empty; name the kind of every layer")
        own = [kind for kind in kinds if kinds[kind].per_layer]
        if own and layers is None:
            raise InvalidArgument(f"layers=None; {own[0]} has parameters in every layer: say how many there are")
        count = len(pattern) if layers is None else layers
        at_least_one(layers=count)
        of_layer = [pattern[i % len(pattern)] for i in range(count)]
        modules = {kind: encoding for kind, encoding in kinds.items() if not encoding.per_layer}
        for i, kind in enumerate(of_layer):
            if kinds[kind].per_layer:
                of_layer[i] = f"{kind}_{i}"
                modules[of_layer[i]] = copy.deepcopy(kinds[kind])
                if i != pattern.index(kind):
                    modules[of_layer[i]].reset_parameters()
        super().__init__(tuple(modules.values()))
        self.per_layer = False
        self.names = tuple(modules)
        self.kind_of = {name: pattern[i % len(pattern)] for i, name in enumerate(of_layer)}
        self.axis_of_part = tuple(axis.get(self.kind_of.get(name, name), 0) for name in modules)
        for kind, own_axis in axis.items():
            if not 0 <= own_axis < self.axes:
                raise InvalidArgument(f"axis={own_axis} of {kind} must lie between 0 and {self.axes - 1}")
        self.pattern = tuple(pattern)
        self.of_layer, self.layers = tuple(of_layer), layers
        self.windows = windows
        far = [self.kinds[name].scaling for name in self.far]
        self.scaling = next((scaling for scaling in far if scaling != Default()), far[0] if far else None)

    @property
    def kinds(self) -> dict[str, Encoding]:
        """Every module by its kind, and by its layer too where layers have their own."""
        return dict(zip(self.names, self.encodings, strict=True))

    @property
    def far(self) -> tuple[str, ...]:
        """The kinds that a longer context stretches: those that turn, where windows keep some near the others."""
        turning = [name for name, part in self.kinds.items() if part.scaling is not None]
        return stretched(turning, {name for name, kind in self.kind_of.items() if kind in self.windows})

    def layer(self, index: int) -> Encoding:
        return self.kinds[_named(self.of_layer, index, self.layers)]

    def with_scaling(self, scaling: Scaling | None, phases: Phases = "exact") -> Encoding:
        """As everywhere, in the kinds of ``far``; with the scaling that it has, each of them keeps its own."""
        parts = self.kinds
        for name in self.far:
            own = parts[name].scaling if scaling == self.scaling else scaling
            parts[name] = parts[name].with_scaling(own, phases)
        again = self._of(tuple(parts.values()))
        again.scaling = scaling
        return again

    @property
    def not_rerotatable(self) -> str:
        return "every layer has its own; move those of layer i with encoding.layer(i)"

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        placed = dict(zip(self.names, self._placed(q_positions, k_positions, dtype), strict=True))
        for name, part in placed.items():
            window = self.windows.get(self.kind_of.get(name, name))
            if window is not None:
                part.narrow(window)
        return PlacedLayers(placed, self.of_layer, self.axes, (q_positions, k_positions), self.layers)

    def describe(self) -> str:
        """One line a run of equal layers: which, what kind, what it does, its window."""
        lines = []
        for kind, run in groupby(
            enumerate(self.of_layer), key=lambda pair: self.pattern[pair[0] % len(self.pattern)]
        ):
            own = list(run)
            first, last = own[0][0], own[-1][0]
            which = f"layer {first}" if first == last else f"layers {first}–{last}"
            window = f", window {self.windows[kind]}" if kind in self.windows else ""
            what = self.kinds[own[0][1]].describe()
            named = what if kind.split("(")[0] == what.split(":")[0] else f"{kind}: {what}"
            lines.append(f"{which}: {named}{window}")
        return "\n".join(lines)

    def extra_repr(self) -> str:
        return f"pattern={self.pattern}" + (f", windows={self.windows}" if self.windows else "")


def _named(of_layer: Sequence[str], layer: int, layers: int | None) -> str:
    """The name of what a layer has."""
    if layers is not None and not -layers <= layer < layers:
        raise InvalidArgument(
            f"layer={layer} is beyond layers={layers}, which these positions were made for; make them for as many "
            "as the model has"
        )
    return of_layer[layer % len(of_layer)]


def stretched(turning: Sequence[str], near: Collection[str]) -> tuple[str, ...]:
    """Which of the kinds that turn a longer context stretches: those beyond any window; all where all have one."""
    return tuple(kind for kind in turning if kind not in near) or tuple(turning)


def for_layers(encoding: Encoding, layers: int | None) -> Encoding:
    """The encoding as a model of so many layers holds it: a module a layer where it declares ``per_layer``."""
    if layers is None or not encoding.per_layer:
        return encoding
    return Layers({encoding.name: encoding}, (encoding.name,), layers=layers)
