"""``Layers`` holds the encodings of all layers of a model."""

import copy
import re
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any, ClassVar, final

import torch
from torch import Tensor

from posenc.arguments import at_least, instance, one_of, refused, shown, such_that
from posenc.clock import Phases
from posenc.encodings.compose import Composed
from posenc.encodings.encoding import Encoding
from posenc.encodings.placed import KeyPositions, Placed, Positions
from posenc.errors import InvalidArgument
from posenc.scaling.default import Default
from posenc.scaling.scaling import Scaling


class PlacedLayers(Placed):
    """The placed encodings of all layers; each module is placed once. ``placed[layer]`` is the placed encoding of a
    layer. Call ``embed`` on this object, and ``with_content`` and ``rotate`` on the placed encoding of a layer.
    """

    unready = "these are the placed encodings of all layers; use the placed encoding of one layer: placed[layer]"
    with_content = rotate = refused(unready)

    def __init__(
        self,
        by_name: dict[str, Placed],
        name_of_layer: Sequence[str],
        axes: int,
        positions: tuple[Positions, KeyPositions],
        layers: int | None,
    ) -> None:
        super().__init__(*positions, axes)
        self.by_name, self.name_of_layer, self.layers = by_name, name_of_layer, layers
        self.awaits_content = True

    def __getitem__(self, layer: int) -> Placed:
        return self.by_name[_name(self.name_of_layer, layer, self.layers)]

    def embed(self, x: Tensor) -> Tensor:
        """Apply every encoding that acts on embeddings, once, before the first layer."""
        for placed in self.by_name.values():
            x = placed.embed(x)
        return x


def _lengths(value: Any, name: str) -> dict[str, int]:
    """Return numbers of tokens by layer type; raise an error unless each is an integer of at least 1."""
    instance(value, Mapping, name, "a dict from layer types to numbers of tokens, such as {'local': 4096}")
    return {layer_type: at_least(1)(n, f"{name}[{layer_type!r}]") for layer_type, n in value.items()}


@final
class Layers(Composed):
    """One encoding per layer type, and the type of every layer, as in the ``layer_types`` of transformers' configs.

    Args:
        encodings: one encoding per layer type; for a layer without positional encoding pass ``NoPE()``, not None.
            An encoding that declares ``per_layer`` is copied, so that every layer has its own parameters: the first
            layer of the type keeps the parameters that you pass, and every other layer gets newly initialised
            parameters. Other encodings are shared between layers and placed once.
        layer_types: the type of every layer, first to last; the list is repeated if the model has more layers.
        windows: the window of each layer type with sliding-window attention; see ``Mask.window``.
            ``placed[layer]`` stores the window, and attention applies it.
        chunks: for layer types whose tokens see only their own chunk, the chunk's length; see ``Mask.chunk``.
        layers: the number of layers of the model; required if an encoding is ``per_layer``. If it is given,
            ``placed[i]`` raises an error for i ≥ ``layers``; if not, the types repeat indefinitely.

    ``by_name`` holds every module by its layer type, or by ``"type_i"`` if layer i has its own module.
    ``Layers({"rope": rope, "nope": NoPE()}, ("rope", "rope", "rope", "nope"))`` is SmolLM3; with
    ``chunks={"rope": 8192}``, and ``QueryScale`` in place of ``NoPE``, it is Llama 4.
    """

    name: ClassVar[str] = "layers"

    def __init__(
        self,
        encodings: Annotated[
            Mapping[str, Encoding],
            such_that(
                lambda given: (
                    isinstance(given, Mapping) and given and all(isinstance(x, Encoding) for x in given.values())
                ),
                "be a dict of one encoding per layer type, NoPE() for none; write Layers({'rope': rope}, "
                "('rope',), layers=n)",
            ),
        ],
        layer_types: Annotated[
            Sequence[str],
            such_that(
                lambda given: isinstance(given, Sequence) and given and not isinstance(given, str),
                "be a list of the type of every layer, such as ('rope', 'rope', 'rope', 'nope')",
            ),
        ],
        *,
        windows: Annotated[Mapping[str, int] | None, _lengths] = None,
        chunks: Annotated[Mapping[str, int] | None, _lengths] = None,
        layers: Annotated[int | None, at_least(1)] = None,
    ) -> None:
        windows, chunks = dict(windows or {}), dict(chunks or {})
        for layer_type in (*layer_types, *windows, *chunks):
            one_of("layer type", layer_type, encodings)
        per_layer = [layer_type for layer_type, encoding in encodings.items() if encoding.per_layer]
        if per_layer and layers is None:
            raise InvalidArgument(
                f"layers=None, but {per_layer[0]} has its own parameters in every layer; pass layers=n, the "
                "number of layers"
            )
        type_of_layer = [layer_types[i % len(layer_types)] for i in range(layers or len(layer_types))]
        names = [f"{name}_{i}" if name in per_layer else name for i, name in enumerate(type_of_layer)]
        modules = {name: encoding for name, encoding in encodings.items() if name not in per_layer}
        for i, layer_type in enumerate(type_of_layer):
            if layer_type in per_layer:
                if names[i] in modules:
                    raise InvalidArgument(
                        f"encodings has the layer type {names[i]!r}, but this is also the name of layer {i}, of "
                        f"type {layer_type!r}, in by_name; rename one of these layer types"
                    )
                modules[names[i]] = copy.deepcopy(encodings[layer_type])
                if i != layer_types.index(layer_type):
                    modules[names[i]].reset_parameters()
        super().__init__(tuple(modules.values()))
        self.per_layer = False
        self.names, self.name_of_layer = tuple(modules), tuple(names)
        self.type_of = {name: name for name in modules} | dict(zip(names, type_of_layer, strict=True))
        self.layer_types, self.layers, self.windows, self.chunks = tuple(layer_types), layers, windows, chunks
        scalings = [self.by_name[name].scaling for name in self.stretched]
        self.scaling = next(iter([scaling for scaling in scalings if scaling != Default()] + scalings), None)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments from which this object can be rebuilt. If every layer of a type has its own module,
        ``encodings`` contains the module of the first of these layers.
        """
        first = {self.type_of[name]: part for name, part in reversed(self.by_name.items())}
        return {
            "encodings": dict(reversed(first.items())),
            "layer_types": self.layer_types,
            "windows": self.windows,
            "chunks": self.chunks,
            "layers": self.layers,
        }

    def with_settings(self, **changes: Any) -> "Layers":
        other = super().with_settings(**changes)
        current = {} if "encodings" in changes else self.by_name
        return other._of(tuple(current.get(name, part) for name, part in other.by_name.items()))  # type: ignore[return-value]

    @property
    def by_name(self) -> dict[str, Encoding]:
        """Every module by its layer type, or by type and layer if layers have their own modules."""
        return dict(zip(self.names, self.encodings, strict=True))

    @property
    def stretched(self) -> tuple[str, ...]:
        """The names of the modules that the function ``stretched`` selects for scaling to a longer context."""
        rotating = [name for name, part in self.by_name.items() if part.scaling is not None]
        return stretched(rotating, {name for name in rotating if self.type_of[name] in self.windows})

    def layer(self, index: int) -> Encoding:
        return self.by_name[_name(self.name_of_layer, index, self.layers)]

    def with_scaling(self, scaling: Scaling | None, phases: Phases | None = None) -> Encoding:
        """Apply ``Encoding.with_scaling`` to the modules in ``stretched``. If ``scaling`` equals the attribute
        ``scaling`` of this object, every module keeps its own scaling, and only ``phases`` changes.
        """
        scaled = {
            name: part.with_scaling(part.scaling if scaling == self.scaling else scaling, phases)
            for name, part in self.by_name.items()
            if name in self.stretched
        }
        other = self._of(tuple((self.by_name | scaled).values()))
        other.scaling = scaling
        return other

    def _of(self, parts: tuple[Encoding, ...]) -> Encoding:
        other = super()._of(parts)
        other.scaling = self.scaling
        return other

    @property
    def not_rerotatable(self) -> str:
        return "every layer has its own encoding; move the keys of layer i with encoding.layer(i)"

    def place(self, q_positions: Positions, k_positions: KeyPositions, dtype: torch.dtype) -> Placed:
        placed = dict(zip(self.names, self._placed(q_positions, k_positions, dtype), strict=True))
        for name, part in placed.items():
            part.narrow(self.windows.get(self.type_of[name]), self.chunks.get(self.type_of[name]))
        return PlacedLayers(placed, self.name_of_layer, self.axes, (q_positions, k_positions), self.layers)

    def describe(self) -> str:
        """Return one line for each run of identical layers, with their indices, type, encoding and window."""
        lines = []
        for layer_type, run in groupby(enumerate(self.name_of_layer), lambda layer: self.type_of[layer[1]]):
            (first, _), *others = run
            which = f"layers {first}–{others[-1][0]}" if others else f"layer {first}"
            window = f", window {self.windows[layer_type]}" if layer_type in self.windows else ""
            window += f", chunk {self.chunks[layer_type]}" if layer_type in self.chunks else ""
            what = self.layer(first).describe()
            name = re.split(r"[(,]", layer_type.removeprefix("local("))[0]
            named = what if name == what.split(":")[0] else f"{layer_type}: {what}"
            lines.append(f"{which}: {named}{window}")
        return "\n".join(lines)

    def extra_repr(self) -> str:
        return ", ".join(
            f"{name}={self.settings[name]}" for name in ("layer_types", "windows", "chunks") if self.settings[name]
        )


def _name(name_of_layer: Sequence[str], layer: int, layers: int | None) -> str:
    """Return the name of the module for a layer."""
    if not hasattr(layer, "__index__"):
        raise InvalidArgument(
            f"layer={shown(layer)} must be the index of a layer, such as 0; by_name holds encodings by layer type"
        )
    if layers is not None and not -layers <= layer < layers:
        raise InvalidArgument(
            f"layer={layer} is not a layer of this encoding, which was built for layers={layers}; build the "
            "encoding for the model's number of layers"
        )
    return name_of_layer[layer % len(name_of_layer)]


def stretched(rotating: Sequence[str], windowed: Collection[str]) -> tuple[str, ...]:
    """Return the layer types that are scaled for a longer context: those that rotate and have no window, or all
    that rotate if each of them has a window."""
    return tuple(name for name in rotating if name not in windowed) or tuple(rotating)


def for_layers(encoding: Encoding, layers: int | None) -> Encoding:
    """Return the encoding for a model with this many layers: ``Layers`` with one module per layer if the encoding
    declares ``per_layer``, or else the encoding itself.
    """
    separate = layers is not None and encoding.per_layer
    return Layers({encoding.name: encoding}, (encoding.name,), layers=layers) if separate else encoding
