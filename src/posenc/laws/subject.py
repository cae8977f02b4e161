"""What laws are held against: how an encoding is made, and the shape of the model that it serves."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from posenc import positions as positions_module
from posenc.encodings.catalogue import Entry, ModelShape, build, fresh
from posenc.encodings.encoding import Encoding
from posenc.encodings.layers import for_layers
from posenc.encodings.placed import ContentState, Placed
from posenc.encodings.text import parse
from posenc.errors import InvalidArgument

ROWS = 64
"""Rows of a learned table here; no law that all encodings owe leaves them."""


@dataclass(frozen=True)
class Subject:
    """One encoding as one model would use it.

    Args:
        name: what reports call it.
        make: builds it.
        width, heads, kv_heads, head_dim, layers: of the model.
        constructs: whether ``make`` builds anew, rather than copying what somebody built.
    """

    name: str
    make: Callable[[], Encoding]
    width: int = 32
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 8
    layers: int = 2
    constructs: bool = True

    @classmethod
    def of(
        cls,
        encoding: "Encoding | type[Encoding] | str",
        *,
        width: int | None = None,
        heads: int | None = None,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        num_positions: int = ROWS,
        layers: int | None = None,
    ) -> "Subject":
        """The subject of an encoding, of a class that takes facts of the model by name, or of a text.

        What is left out of the shape is taken from the encoding, or is small.
        """
        given = encoding if isinstance(encoding, Encoding) else None
        heads = heads or _fact(given, "heads") or 4
        head_dim = head_dim or _fact(given, "head_dim") or 8
        width = width or _fact(given, "width") or heads * head_dim
        kv_heads = kv_heads or (heads // 2 if heads % 2 == 0 else heads)
        if heads % kv_heads:
            raise InvalidArgument(f"kv_heads={kv_heads} must divide heads={heads}")
        recipe = parse(encoding) if isinstance(encoding, str) else None
        pattern = (
            getattr(given, "layer_types", ()) if recipe is None else recipe.parts if recipe.name == "layers" else ()
        )
        layers = layers or max(2, sum(part[1] if recipe else 1 for part in pattern))
        shape = ModelShape(width, heads, head_dim, num_positions, layers)
        if isinstance(encoding, Encoding):
            name, make = encoding.name, lambda: copy.deepcopy(encoding)
        elif recipe is not None:
            name, make = str(encoding), lambda: build(recipe, shape)
        elif isinstance(encoding, type) and issubclass(encoding, Encoding):
            name, make = encoding.__name__, lambda: fresh(Entry(encoding), {}, shape)
        else:
            raise InvalidArgument(
                f"encoding={encoding!r} is none; pass an instance or a class of posenc.Encoding, or a text such as "
                "'rotary(base=500000)'"
            )
        return cls(name, make, width, heads, kv_heads, head_dim, layers, given is None)

    def build(self) -> Encoding:
        """The encoding as the model holds it, with the same parameters every time."""
        with torch.random.fork_rng():
            torch.manual_seed(1)
            return for_layers(self.make(), self.layers)

    @cached_property
    def declared(self) -> Encoding:
        """One of them, to ask what it declares."""
        return self.build()

    @property
    def period(self) -> int:
        """How many layers, from the first on, show every layer type."""
        return min(self.layers, len(getattr(self.declared, "layer_types", (self.name,))))

    @cached_property
    def needs_scores(self) -> bool:
        """Whether a bias reads the scores of a row, which therefore cannot be attended to in parts."""
        x, placed = torch.zeros(1, 1, self.width), self.declared.at(self.plain(1))
        biases = (here.bias for _, here, _ in read_layers(placed, self.period, x))
        return any(bias is not None and bias.needs_scores for bias in biases)

    @property
    def rounded(self) -> bool:
        """Whether it reproduces the rounded angles that some checkpoints were trained with, which grow wrong."""
        return any(getattr(module, "phases", "exact") == "float32" for module in self.declared.modules())

    def longest(self, length: int) -> int:
        """This many tokens, or as many as there are positions for."""
        return min(length, self.declared.position_limit)

    def plain(self, length: int, offset: int = 0) -> Tensor:
        """Positions of ``length`` tokens after ``offset`` others."""
        return self.along(positions_module.arange(length, offset=offset))

    def along(self, places: Tensor) -> Tensor:
        """Positions of the tokens at these places: the places themselves, and a coordinate more for every axis."""
        axes = range(1, self.declared.axes)
        if not axes:
            return places
        return torch.stack([places, *((places * (axis + 2)) % 31 for axis in axes)])


def shifted(positions: Tensor, axes: int, shift: int) -> Tensor:
    """Positions moved by ``shift`` along the first axis, and by more along every further one."""
    if axes == 1:
        return positions + shift
    steps = torch.arange(1, axes + 1) * shift
    return positions + steps.view(-1, *[1] * (positions.dim() - 1))


def each_layer(placed: Placed, layers: int) -> list[tuple[int, Placed]]:
    """What every layer has, equal ones once."""
    layers_apart: list[tuple[int, Placed]] = []
    for layer in range(layers):
        here = placed[layer]
        if not any(here is other for _, other in layers_apart):
            layers_apart.append((layer, here))
    return layers_apart


def read_layers(placed: Placed, layers: int, x: Tensor) -> list[tuple[int, Placed, ContentState | None]]:
    """The same once they have read their content: of each its number, itself, and the state of its keys."""
    return [(layer, *awaiting.with_content(x)) for layer, awaiting in each_layer(placed, layers)]


def _fact(encoding: Encoding | None, name: str) -> int | None:
    """A fact of the model's shape that the encoding, or a part of it, was made with."""
    modules = () if encoding is None else encoding.modules()
    facts = (getattr(module, name, None) for module in modules)
    return next((fact for fact in facts if type(fact) is int), None)
