"""The result of ``measure``: the positions of every layer of a model, and the tables that it looks up."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Float
from torch import Tensor

from posenc.integrations.huggingface.measuring.maps import Rotation, Scores

AXES = 3
"""Rows of position ids of models that place text, rows and columns of pictures: no released one has others."""
EXACT = 1e-4
"""The share of queries that rounding may leave over where a map explains them."""


@dataclass(frozen=True)
class MeasuredLayer:
    """One attention layer.

    Args:
        module: where it is in the model.
        tower, index: the part of the model that it belongs to, and its number there.
        heads, head_dim: of the queries as they are multiplied.
        positions: those that ``maps`` are of.
        maps: how queries at every position come from those at the first, ``(P, D, D)``; None if the model could
            not be asked.
        residual: the share of the queries that no map explains.
        rotation: the pairs that rotate; None if none does.
        growth: the factor on the norm of queries at every position: a query scale.
        factor: the factor of cos and sin; None if it cannot be measured.
        axes: the axis of positions that every pair rotates by; None in a model whose positions have one.
        scores: scale, bias and mask.
        places: rows and columns of the picture whose places, row by row, ``positions`` counts; None elsewhere.
    """

    module: str
    tower: str
    index: int
    heads: int
    head_dim: int
    positions: tuple[int, ...]
    maps: Float[Tensor, "P D D"] | None
    residual: float
    rotation: Rotation | None
    growth: tuple[float, ...]
    factor: float | None
    scores: Scores | None
    axes: tuple[int, ...] | None = None
    places: tuple[int, int] | None = None

    @property
    def exact(self) -> bool:
        """Whether one map per position explains the queries, so that nothing else of them depends on it."""
        return self.maps is not None and self.residual < EXACT

    @property
    def has_positions(self) -> bool:
        """Whether positions act in this layer itself, not in the tokens that enter it."""
        bias = self.scores is not None and (self.scores.bias is not None or self.scores.follows_content)
        return bias or (self.exact and self.rotation is not None)

    def describe(self) -> str:
        """Its positions, in a few words."""
        words = []
        if self.maps is None:
            words.append("not asked")
        elif not self.exact:
            words.append("queries depend on positions in another way than by rotation")
        elif self.rotation is not None:
            rotation = self.rotation
            how = f"{len(rotation.pairs)} {rotation.pairing} pairs of {self.head_dim} channels rotate"
            words.append(f"{how} by {rotation.frequencies[0]:.4g} to {rotation.frequencies[-1]:.4g}")
            if self.axes is not None:
                count = AXES if self.places is None else len(self.places)
                shares = (str(self.axes.count(axis)) for axis in range(count))
                words.append(f"{', '.join(shares)} of them by {count} axes")
        if self.exact and max(self.growth) > 1 + 1e-4:
            words.append("queries grow with their positions")
        if self.factor is not None and abs(self.factor - 1) > 1e-4:
            words.append(f"factor {self.factor:.4g}")
        scores = self.scores
        if scores is not None:
            words += ["a bias on scores"] * (scores.bias is not None)
            words += ["a bias that reads tokens"] * scores.follows_content
            words += [f"a window of {scores.window}"] * (scores.window is not None) + ["chunks"] * scores.chunked
        return ", ".join(words) or "no positions"


@dataclass(frozen=True)
class Table:
    """A table of positions that was looked up: where, its rows, and the row of position 0.

    ``resized`` says that rows were mixed, to serve a picture of another size; ``fixed`` are its numbers where they
    are not trained.
    """

    module: str
    rows: int
    width: int
    first: int
    trained: bool
    resized: bool = False
    fixed: Float[Tensor, "N C"] | None = field(default=None, compare=False, repr=False)

    def describe(self) -> str:
        kind = f"a {'trained' if self.trained else 'fixed'} table of {self.rows - self.first} rows"
        return f"{kind}, resized" if self.resized else kind


@dataclass(frozen=True)
class Measured:
    """The measurement, and the config of the measured model."""

    layers: tuple[MeasuredLayer, ...]
    tables: tuple[Table, ...]
    config: Any = field(repr=False)

    @property
    def has_positions(self) -> bool:
        return bool(self.tables) or any(layer.has_positions or not layer.exact for layer in self.layers)

    def describe(self) -> str:
        """The layer types and their numbers, in one line."""
        kinds = Counter(f"{layer.tower.rpartition('.')[2]}: {layer.describe()}" for layer in self.layers)
        alone = len({layer.tower for layer in self.layers}) < 2
        words = [f"{count} × {kind.partition(': ')[2] if alone else kind}" for kind, count in kinds.items()]
        return "; ".join([*(table.describe() for table in self.tables), *words])
