"""The result of ``measure``, as a position table to compare with the table of the config.

A value that was not measured, or that the measurement cannot distinguish from the config's, is copied from the
config's table. ``differences`` of the two tables therefore lists only measured differences.
"""

import math
import re
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.encoding import Encoding
from posenc.encodings.text import parse
from posenc.integrations import differences as tables
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.family import Family
from posenc.integrations.huggingface.measuring.evidence import (
    COARSE,
    EXACT,
    Table,
    bias_in_words,
    growth_of,
    is_decoder,
    maps_of,
)
from posenc.integrations.huggingface.measuring.maps import ROUNDING, MeasuredRotation, Scores
from posenc.integrations.huggingface.model_positions import ModelPositions
from posenc.integrations.position_table import LayerTable, PositionTable, of
from posenc.integrations.words import layers_in_words, sentences

AXES = 3
"""The number of axes of position ids in released models with several axes: text, rows and columns."""
WITHOUT = LayerTable(encoding="nope")


@dataclass(frozen=True)
class MeasuredLayer:
    """The measurement of an attention layer.

    Args:
        module: the path of its module in the model.
        channels: the number of channels of the queries that are multiplied by keys.
        positions: the measured positions.
        scores: scale, bias and mask.
        places: the numbers of rows and columns of patches, if positions are indices of patches; None for text.
        maps: the map from queries at the first position to those at each position, ``(P, D, D)``; None if it could
            not be measured.
        exact: whether one map per position explains all queries.
        rotation: the pairs that rotate; None if none rotates.
        growth: the query scale, measured as the norm of queries at each position relative to the first.
        factor: the factor on the channels that rotate, or on all if none rotates; None if it cannot be measured.
        keys: how positions change keys differently from queries, in words; empty if they do not.
    """

    module: str
    channels: int
    positions: tuple[int, ...]
    scores: Scores
    places: tuple[int, int] | None = None
    maps: Float[Tensor, "P D D"] | None = None
    exact: bool = False
    rotation: MeasuredRotation | None = None
    growth: Float[Tensor, " P"] = field(default_factory=Tensor)
    factor: float | None = None
    keys: str = ""

    @property
    def place(self) -> tuple[str, int]:
        """The tower to which the layer belongs, and the layer's number in this tower."""
        match = re.match(r"(.*?)\.?(?:\w*(?:layers?|blocks?|h|groups?|stages?))\.(\d+)\b", self.module)
        return (match[1], int(match[2])) if match else (self.module, 0)

    def beside(self, like: LayerTable, family: Family, layout: str = "") -> LayerTable:
        """Return the layer's table as measured, with the values of ``like`` for everything that was not measured.

        Args:
            family, layout: the family and the layout of the table that contains ``like``.
        """
        encoding = None if like.encoding == "rotary" else build(parse(like.encoding), ModelShape())
        values: dict[str, Any] = {}
        further: list[str] = []  # differences to state in the encoding's string
        if encoding is not None and "embeddings" in encoding.acts_on:  # it changes tokens, and so their queries
            values = {} if self.rotation is None else self._rotary(like)
        elif self.maps is None or not self.exact:
            further = [
                "positions that could not be measured"
                if self.maps is None
                else "queries that depend on positions, but not through a rotation"
            ]
        else:
            expected = maps_of(like, self.positions, self.channels, self.places, layout)
            off = torch.tensor([math.inf]) if expected is None else (expected - self.maps).abs().amax((-1, -2))
            values = self._rotary(like) if off.max() > ROUNDING else {}
            is_measured = like.frequencies and like.scaling is None  # known only to within EXACT
            if off.max() > ROUNDING and not is_measured and replace(like, **values) == like:
                further = [
                    f"queries that are off by {float(off.max()):.1g} from the expected queries at position "
                    f"{self.positions[int(off.argmax())]}"
                ]
        values |= self._factors(like, encoding, family) | self._mask(like)
        axes = self.rotation and self.rotation.axes  # of the first pairs, which rotate fast enough to be seen
        if axes and self.places is None:  # in images, the maps of all patches were compared above
            values["axes"] = axes + like.axes[len(axes) :]
        further += self._bias(encoding, COARSE if family.divides_alibi else ROUNDING)
        # after a norm, trained factors of keys may differ from those of queries
        further += [self.keys] * bool(self.keys and not family.norm_after_rotation)
        if further:
            values["encoding"] = " and ".join([*filter(None, [values.get("encoding")]), *further])
        return replace(like, **values)

    def _rotary(self, like: LayerTable) -> dict[str, Any]:
        """Return the fields about rotation and query scale, with frequencies only if ``like`` has others."""
        rotation, before, last = self.rotation, like.frequencies, self.positions[-1]
        values: dict[str, Any] = {}
        if not torch.allclose(self.growth, growth_of(like, self.positions), rtol=EXACT, atol=0):
            grows = float(self.growth.max()) > 1 + EXACT and f"{float(self.growth[-1]):.4g}" != "1"
            values["query_scale"] = f"{float(self.growth[-1]):.4g} at position {last}" if grows else None
        if rotation is None:
            return values | ({"encoding": "nope", "frequencies": ()} if before else {})
        if rotation.bend:
            return {"encoding": f"angles that are not proportional to positions ({rotation.bend})"}
        (a, b), is_half = rotation.pairs[0], rotation.pairing == "half"
        start = 0 if self.places else a
        at = [channel - start if is_half else (channel - start) // 2 for channel, _ in rotation.pairs]
        count = b - a if is_half else at[-1] + 1
        if rotation.pairing == like.pairing == "interleaved":
            count = max(count, len(before))  # the slowest pairs may turn too little to be seen
        seen, axes = (
            dict(zip(at, numbers, strict=True))
            for numbers in (rotation.frequencies, rotation.axes or [0] * len(at))
        )
        theta = [abs(seen.get(i, 0.0)) for i in range(count)]
        same = count == len(before) and all(
            math.isclose(ours, other, rel_tol=EXACT) or abs(ours - other) * last < EXACT
            for ours, other in zip(theta, before, strict=True)
        )
        values |= {
            "encoding": "rotary",
            "pairing": rotation.pairing,
            "backwards": all(frequency < 0 for frequency in rotation.frequencies),
            "rotary_dim": 2 * count,
            "head_dim": self.channels - (start if like.query_dim or not before else 0),
            "query_dim": self.channels if start and not before else like.query_dim,  # the last channels rotate
        }
        if not same:
            values |= {
                **dict.fromkeys(("frequencies", "float32", "unscaled"), tuple(theta)),
                **dict.fromkeys(("base", "scaling")),
                "axes": tuple(axes.get(i, 0) for i in range(count)),
            }
        return values

    def _factors(self, like: LayerTable, encoding: Encoding | None, family: Family) -> dict[str, Any]:
        """Return the factors on cos and sin and on scores, each only if it differs from that of ``like``."""
        hidden = (
            family.scales_before_rotation
            or family.norm_after_rotation
            or self.rotation is None
            or not like.frequencies
        )
        a = like.attention_factor if hidden or self.factor is None else self.factor
        scale, root = getattr(encoding, "softmax_scale", None), self.channels**0.5
        expected = like.softmax_factor if scale is None else scale * root
        stated = family.mscale_scores or scale is not None or expected != 1
        # The scale is unknown if queries were scaled earlier, or keys by a trained number that starts at 0 (Zaya).
        is_plain = self.factor is not None and math.isclose(self.factor, a, rel_tol=EXACT)
        known = stated or is_plain or not math.isclose(self.scores.scale, 1, rel_tol=EXACT)
        unknown = self.scores.scale == 0 or not known or like.encoding == "nope" or self.scores.follows_content
        both = {
            "attention_factor": (like.attention_factor, a),
            "softmax_factor": (expected, expected if unknown else self.scores.scale * root),
        }
        return {
            name: float(f"{seen:.5g}")
            for name, (read, seen) in both.items()
            if not math.isclose(read, seen, rel_tol=EXACT)
        }

    def _mask(self, like: LayerTable) -> dict[str, Any]:
        """Return windows and chunks that are narrower than the inputs and differ from ``like``."""
        seen = {"window": self.scores.window, "chunk": self.scores.chunk}
        read = {name: getattr(like, name) or math.inf for name in seen}
        return {
            name: width
            for name, width in seen.items()
            if width != (read[name] if read[name] < self.scores.tokens else None)
        }

    def _bias(self, encoding: Encoding | None, rounding: float) -> list[str]:
        """Return the measured bias in words if it differs from the encoding's bias."""
        bias = self.scores.bias
        if self.scores.follows_content:
            return [] if encoding is not None and encoding.uses_queries else ["a bias that reads tokens"]
        if encoding is None or "bias" not in encoding.acts_on:
            return [] if bias is None else ["a bias on scores"]
        return ["no bias on scores"] if bias is None else bias_in_words(bias, encoding, rounding)


@dataclass(frozen=True)
class Measured:
    """The measurement of a model, with its config."""

    layers: tuple[MeasuredLayer, ...]
    tables: tuple[Table, ...]
    config: Any = field(repr=False)

    @property
    def numbers(self) -> list[int]:
        """The index of every layer in the whole model; the count continues from one tower to the next."""
        places = [layer.place for layer in self.layers]
        depths = {tower: 1 + max(i for other, i in places if other == tower) for tower, _ in places}
        first = dict(zip(depths, accumulate(depths.values(), initial=0), strict=False))
        return [first[tower] + i for tower, i in places]

    def table(self, like: PositionTable | None = None) -> PositionTable:
        """Return the measurement as a table. Values that were not measured, such as lengths, come from ``like``.

        Layers that differ from their type in ``like`` become separate types, named by their layer numbers.
        """
        numbers = self.numbers
        if like is None:
            towers = {i: layer.place[0] for layer, i in zip(self.layers, numbers, strict=True)}
            names = towers if len({*towers.values()}) > 1 else {}
            types = tuple(names.get(i, "").rpartition(".")[2] for i in range(max(numbers, default=-1) + 1))
            like = PositionTable(self.config.model_type, dict.fromkeys(types, WITHOUT), types, None, 0, 0)
        family, tables = FAMILIES.get(like.model_type, Family()), self._tables(like)
        both: list[tuple[str, LayerTable]] = []
        for i in range(max(len(like.layer_types), *(n + 1 for n in numbers), 0)):
            layer_type = like.layer_types[i] if i < len(like.layer_types) else "further"
            read = like.layers.get(layer_type, WITHOUT)
            here = [layer for layer, n in zip(self.layers, numbers, strict=True) if n == i]
            asked = [_laid_out(layer, read, [layer for _, layer in both], family, like.layout) for layer in here]
            if not here and read.encoding != "nope" and not parse(read.encoding).get("width"):
                asked = [replace(read, encoding="no recorded attention")]
            layer = next((layer for layer in asked if layer != read), read)
            layer = replace(
                layer,
                encoding=tables.get(read.encoding, layer.encoding),
                added_table=tables.get(read.added_table, layer.added_table),
            )
            both.append((layer_type, layer))
        return _table_of(like, both)

    def _tables(self, like: PositionTable) -> dict[str | None, str]:
        """Return a description of each measured table that differs from the table in ``like``.

        Each key is the description of the corresponding table in ``like``, or None if ``like`` has no table.
        """
        layers = like.layers.values()
        texts = [*(layer.encoding for layer in layers), *dict.fromkeys(layer.added_table for layer in layers)]
        read = [text for text in texts if text and parse(text).get("width")]
        rotates = any(layer.frequencies for layer in layers)  # a fixed table in such a model holds cos and sin
        rows = [
            table
            for table in self.tables
            if table.weight.shape[1] > 1 and (table.weight.requires_grad or not rotates)
        ]
        if not read:
            return {None: " and ".join(f"{table.describe()} ({table.module})" for table in rows)} if rows else {}
        if not rows:
            return dict.fromkeys(read, "no table that was looked up")
        return {
            text: other for text, table in zip(read, rows, strict=False) if (other := table.beside(text)) != text
        }

    def describe(self) -> str:
        """Describe the layers in words."""
        return " ".join(text[0].upper() + text[1:] for text in sentences(self.table()))


def carried(measured: PositionTable, small: PositionTable, whole: PositionTable) -> PositionTable:
    """Return the position table of the whole model, with the differences that were measured in a shrunk model.

    Layers of the shrunk model represent the first layers of the same type in the whole model.

    Args:
        measured: the position table that was measured in the shrunk model.
        small: the position table that was read from the config of the shrunk model.
    """
    layers = [(name, whole.layers[name]) for name in whole.layer_types]
    kinds = [name.partition(" within ")[0] for name in whole.layer_types]
    for name, read in zip(measured.layer_types, small.layer_types, strict=False):
        changed = dict(vars(measured.layers[name]).items() - vars(small.layers[read]).items())
        i = kinds.index(read.partition(" within ")[0])
        kinds[i] = ""  # the next layer of this type represents the next one in the whole model
        layers[i] = (layers[i][0], replace(layers[i][1], **changed))
    return replace(
        _table_of(whole, layers),
        program="the measured model",
        not_asked="lengths, windows wider than a shrunk model's, and layers beyond the first of every type",
    )


def _table_of(like: PositionTable, both: list[tuple[str, LayerTable]]) -> PositionTable:
    """Return a table of these layers. If layers of a type differ, their types' names include layer numbers."""
    names = {typed: _named(typed, both) for typed in both}
    return replace(
        like,
        layers={name: layer for (_, layer), name in names.items()},
        layer_types=tuple(names[typed] for typed in both),
    )


def _laid_out(
    layer: MeasuredLayer, read: LayerTable, before: list[LayerTable], family: Family, layout: str
) -> LayerTable:
    """Return the table of a measured layer, or the first rotary layer of ``before`` that fits the measurement."""
    measured = layer.beside(read, family, layout)
    rotary = [other for other in before if measured != read and other.encoding == measured.encoding == "rotary"]
    return next(
        (
            other
            for other in rotary
            if replace(
                layer.beside(other, family, layout),
                attention_factor=measured.attention_factor,
                softmax_factor=measured.softmax_factor,
            )
            == other
        ),
        measured,
    )


def _named(typed: tuple[str, LayerTable], both: list[tuple[str, LayerTable]]) -> str:
    """Return the name of a layer type, with numbers if its layers differ: ``rotary in layers 0 to 2, 4``."""
    name = typed[0]
    numbers = [i for i, other in enumerate(both) if other == typed]
    if name and len(numbers) == sum(layer_type == name for layer_type, _ in both):
        return name
    return f"{name}{' in ' * bool(name)}{layers_in_words(numbers)}"


def differences(measured: Measured, positions: ModelPositions) -> list[str]:
    """Return all differences between a measured model and the settings read from its config, as sentences."""
    read, names = of(positions), ("what was read", "the measured model")
    return [
        *map(str, tables.differences(read, measured.table(read), names=names)),
        *["a token sees no later token in what was read, but does in the measured model"]
        * (is_decoder(positions) and any(layer.scores.sees_later for layer in measured.layers)),
    ]
