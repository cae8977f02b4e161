"""The subject of a law: a function that builds an encoding, and the shape of the encoding's model."""

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
"""The number of rows of learned tables in checks. Laws for all encodings use only positions below this number."""


@dataclass(frozen=True)
class Subject:
    """An encoding as part of a model.

    Args:
        name: the name in reports.
        make: a function that builds the encoding.
        width, heads, kv_heads, head_dim, layers: the shape of the model.
        constructs: whether ``make`` constructs a new encoding instead of copying an instance.
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
        """Return the subject for an encoding, for a class whose arguments are sizes of the model, or for a string.

        Missing sizes are taken from the encoding, or are small default values.
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
                f"encoding={encoding!r} must be a posenc.Encoding, its class, or a string such as "
                "'rotary(base=500000)'"
            )
        return cls(name, make, width, heads, kv_heads, head_dim, layers, given is None)

    def build(self) -> Encoding:
        """Build the encoding for the model; every call creates equal parameters."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(1)  # torch.manual_seed would also keep the stack trace, for CUDA
            return for_layers(self.make(), self.layers)

    def trained(self) -> Encoding:
        """Return the encoding with changed parameters, as after training, because initial values of 0 or 1 hide the
        errors of many formulas.
        """
        encoding = self.build()
        for x in encoding.parameters():
            x.detach().mul_(1.07).add_(0.03)
        return encoding

    @cached_property
    def declared(self) -> Encoding:
        """An instance of the encoding, from which laws read what its class declares, such as ``relative``."""
        return self.build()

    @property
    def period(self) -> int:
        """The smallest number n such that the first n layers include every layer type."""
        return min(self.layers, len(getattr(self.declared, "layer_types", (self.name,))))

    @cached_property
    def needs_scores(self) -> bool:
        """Whether a bias reads whole rows of scores, which makes attention over parts of the keys impossible."""
        x, placed = torch.zeros(1, 1, self.width), self.declared.at(self.plain(1))
        biases = (here.bias for _, here, _ in read_layers(placed, self.period, x))
        return any(bias is not None and bias.needs_scores for bias in biases)

    @property
    def rounded(self) -> bool:
        """Whether the encoding computes angles in float32, as the code of some models does. The errors of such
        angles grow with the position.
        """
        return any(getattr(module, "phases", "exact") == "float32" for module in self.declared.modules())

    def longest(self, length: int) -> int:
        """Return the smaller of ``length`` and the number of valid positions."""
        return min(length, self.declared.position_limit)

    def plain(self, length: int, offset: int = 0) -> Tensor:
        """Return the positions of ``length`` tokens after ``offset`` other tokens."""
        return self.along(positions_module.arange(length, offset=offset))

    def along(self, places: Tensor) -> Tensor:
        """Return positions with ``places`` on axis 0. If the encoding has several axes,
        the positions on axis a ≥ 1 are (a + 2)·``places`` mod 31.
        """
        others = [(places * (axis + 2)) % 31 for axis in range(1, self.declared.axes)]
        return torch.stack([places, *others]) if others else places


def shifted(positions: Tensor, axes: int, shift: int) -> Tensor:
    """Shift positions by ``shift`` along the first axis, and by larger amounts along the other axes."""
    return positions + (torch.arange(1, axes + 1) * shift).view(-1, *[1] * (positions.dim() - 1))


def each_layer(placed: Placed, layers: int) -> list[tuple[int, Placed]]:
    """Return the placed encodings of the layers, without duplicates, with their layer numbers."""
    layers_apart: list[tuple[int, Placed]] = []
    for layer in range(layers):
        here = placed[layer]
        if not any(here is other for _, other in layers_apart):
            layers_apart.append((layer, here))
    return layers_apart


def read_layers(placed: Placed, layers: int, x: Tensor) -> list[tuple[int, Placed, ContentState | None]]:
    """Return, for each layer, its index, its encoding after reading the content, and the state of its keys."""
    return [(layer, *awaiting.with_content(x)) for layer, awaiting in each_layer(placed, layers)]


def _fact(encoding: Encoding | None, name: str) -> int | None:
    """Return the first integer setting with this name, such as ``heads``, in the encoding or its parts; None if
    there is none.
    """
    modules = () if encoding is None else encoding.modules()
    return next((fact for module in modules if type(fact := getattr(module, name, None)) is int), None)
