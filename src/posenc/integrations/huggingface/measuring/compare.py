"""Compares the reading of a config with the measurement of its model; a sentence for each difference."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.encoding import Encoding
from posenc.encodings.text import Recipe
from posenc.integrations.attention_layouts import LAYOUTS
from posenc.integrations.huggingface.families import FAMILIES
from posenc.integrations.huggingface.measuring.maps import Rotation, Scores, rotation_of
from posenc.integrations.huggingface.measuring.measured import EXACT, Measured, MeasuredLayer, Table
from posenc.integrations.huggingface.model_positions import NOPE, ModelPositions

ROUNDING = 1e-5
"""How far maps may lie apart: float32 rotated queries, fitted in float64 with at least twice as many samples as
channels, of a condition below some tens of 2^-24."""
COARSE = 2 * 2.0**-8
"""The same of a bias in bfloat16: the numbers of a key and of the query itself are rounded, each by 2^-8."""


def differences(measured: Measured, positions: ModelPositions) -> list[str]:
    """Every difference between a model and the reading of its config; none if both agree."""
    texts = []
    layers = _numbered(measured)
    at = max((p for layer, _ in layers for p in layer.positions), default=0)
    encodings = positions.encodings(at + 1, "float32")
    for layer, i in layers:
        if i >= len(positions.layer_types):
            texts.append(f"layer {i} attends, and the config has {len(positions.layer_types)} layers")
            continue
        kind = positions.layer_types[i]
        where = f"layer {i} ({kind})"
        texts += [f"{where}: {text}" for text in _layer(layer, positions, kind, encodings[kind])]
        if layer.scores is not None:
            texts += [f"{where}: {text}" for text in _window(layer.scores, positions, i)]
    attending = {i for _, i in layers}
    for i, kind in enumerate(positions.layer_types):
        if i not in attending and positions.recipes[kind] != NOPE and not positions.recipes[kind].get("width"):
            texts.append(f"layer {i} ({kind}): read {positions.recipes[kind].name}, and was not seen to attend")
    texts += _tables(measured, positions)
    return texts


def _numbered(measured: Measured) -> list[tuple[MeasuredLayer, int]]:
    """Every layer with its number in the whole model, towers one after another."""
    first: dict[str, int] = {}
    for layer in measured.layers:
        if layer.tower not in first:
            before = {one.tower: 0 for one in measured.layers if one.tower in first}
            for one in measured.layers:
                if one.tower in before:
                    before[one.tower] = max(before[one.tower], one.index + 1)
            first[layer.tower] = sum(before.values())
    return [(layer, first[layer.tower] + layer.index) for layer in measured.layers]


def _layer(layer: MeasuredLayer, positions: ModelPositions, kind: str, encoding: Encoding) -> list[str]:
    if "embeddings" in encoding.acts_on:
        return _bias(layer, encoding) + ["read a table, and its queries rotate"] * (layer.rotation is not None)
    if not layer.exact:
        return [f"queries do more than rotate with their positions (a share of {layer.residual:.1g} is left over)"]
    assert layer.maps is not None
    texts = []
    expected = _maps(encoding, positions, positions.scales.get(kind, NOPE), layer)
    if expected is None:
        return [f"read heads of more than the {layer.head_dim} channels measured"]
    off, p, nearest = largest_error(expected, layer)
    if off > ROUNDING:
        read = rotation_of(nearest, layer.positions)
        what = (
            difference_in_words(read, layer.rotation)
            if layer.places is None
            else f"measured {rotation_in_words(layer.rotation)}"
        )
        texts.append(f"queries at position {p} are off by {off:.1g} from what was read: {what}")
    texts += _axes(layer, encoding) + _factors(layer, positions, encoding)
    return texts + _bias(layer, encoding, COARSE if FAMILIES[positions.model_type].divides_alibi else ROUNDING)


def _window(scores: Scores, positions: ModelPositions, i: int) -> list[str]:
    """Windows and chunks as wide as what was shown, or wider, do not show."""
    window, chunk = positions.windows[i], positions.chunk
    window = None if window is not None and window >= scores.tokens else window
    texts = [] if scores.window == window else [f"read a window of {window}, measured {scores.window}"]
    if chunk is not None and chunk < scores.tokens and positions.layer_types[i] in positions.rotary_recipes:
        texts += [f"read chunks of {chunk}, measured none"] * (not scores.chunked)
    return texts


def _factors(layer: MeasuredLayer, positions: ModelPositions, encoding: Encoding) -> list[str]:
    """The factors of cos and sin, and of the products of queries and keys."""
    texts, family = [], FAMILIES[positions.model_type]
    if (
        layer.factor is not None
        and layer.rotation is not None
        and "queries_keys" in encoding.acts_on
        and not family.scales_before_rotation
    ):
        first = torch.zeros(1, 1, 1, getattr(encoding, "head_dim", layer.head_dim))
        first[..., 0] = 1
        read = float(encoding.at(_places(encoding, positions, layer)[..., :1]).rotate(first, first)[0].norm())
        if positions.norms_after_rotation:  # which divides the factor out
            read = 1.0
        if not math.isclose(read, layer.factor, rel_tol=EXACT):
            texts.append(f"read cos and sin times {read:.5g}, measured {layer.factor:.5g}")
    scale = getattr(encoding, "softmax_scale", None)
    if layer.scores is not None and encoding.acts_on and not layer.scores.follows_content:
        measured = layer.scores.scale * layer.head_dim**0.5
        factor = getattr(encoding, "softmax_factor", 1.0) if scale is None else scale * layer.head_dim**0.5
        stated = family.mscale_scores or scale is not None or factor != 1
        # Queries were multiplied before; or keys are, by a trained number that starts at 0 (Zaya).
        before = (not stated and math.isclose(layer.scores.scale, 1, rel_tol=EXACT)) or measured == 0
        if not before and not math.isclose(factor, measured, rel_tol=EXACT):
            texts.append(f"read scores times {factor:.5g} / √D, measured {measured:.5g} / √D")
    return texts


def _maps(
    encoding: Encoding, positions: ModelPositions, scale: Recipe, layer: MeasuredLayer
) -> list[Tensor] | None:
    """The maps that an encoding has, with its channels first in the head and last in it."""
    D, P = layer.head_dim, len(layer.positions)
    d = getattr(encoding, "head_dim", D)
    if d > D:
        return None
    at = _places(encoding, positions, layer)
    eye = torch.eye(d)[None, :, None].expand(1, d, P, d)
    rotated = encoding.at(at).rotate(eye, eye)[0] if "queries_keys" in encoding.acts_on else eye
    maps = rotated[0].permute(1, 2, 0).double()
    maps = maps @ torch.linalg.inv(maps[:1])
    rows = build(scale, ModelShape()).at(torch.tensor(layer.positions)).scale
    grown = torch.ones(P).double() if rows is None else rows.flatten().double()
    both = []
    for first in (0, D - d):
        padded = torch.eye(D, dtype=torch.float64).repeat(P, 1, 1)
        padded[:, first : first + d, first : first + d] = maps
        both.append(padded * (grown / grown[0])[:, None, None])
    return both


def _places(encoding: Encoding, positions: ModelPositions, layer: MeasuredLayer) -> Tensor:
    """The measured places, in the coordinates of the encoding."""
    at, axes = torch.tensor(layer.positions), getattr(encoding, "axes", 1)
    if layer.places is None or positions.layout is None:
        return at if axes == 1 else at.expand(axes, -1)
    layout = LAYOUTS[positions.layout]
    shape = (1,) * (len(layout.letters) - len(layer.places)) + layer.places
    return layout.positions(*shape, parts=math.lcm(*shape) if layout.in_parts else None)


def largest_error(expected: list[Tensor], layer: MeasuredLayer) -> tuple[float, int, Tensor]:
    """How far the nearer of these maps is from those measured at most, at which position, and that map."""
    assert layer.maps is not None
    best = [((one - layer.maps).abs().amax((-1, -2)), one) for one in expected]
    off, nearest = min(best, key=lambda each: float(each[0].max()))
    return float(off.max()), layer.positions[int(off.argmax())], nearest


def _axes(layer: MeasuredLayer, encoding: Encoding) -> list[str]:
    """The coordinate that each pair rotates by, in a model with several."""
    if layer.axes is None or layer.places is not None:  # maps of all places of a picture say it already
        return []
    axis_map = getattr(encoding, "axis_map", None)
    read = (0,) * len(layer.axes) if axis_map is None else axis_map.axis_of_pair
    if read == layer.axes:
        return []
    return [f"read {_counts(read)} pairs of axes 0, 1, 2 …, measured {_counts(layer.axes)}, or in another order"]


def _counts(axes: tuple[int, ...]) -> str:
    return ", ".join(str(axes.count(axis)) for axis in range(max(axes) + 1))


def difference_in_words(read: Rotation | None, measured: Rotation | None) -> str:
    """The difference of two rotations: pairs, a pair's frequency, or the factor of queries."""
    if (read and read.pairs) != (measured and measured.pairs):
        return f"read {rotation_in_words(read)}, measured {rotation_in_words(measured)}"
    both = [] if read is None or measured is None else [*zip(read.frequencies, measured.frequencies, strict=True)]
    apart = [abs(ours - theirs) / abs(ours) for ours, theirs in both]
    if max(apart, default=0) < EXACT:
        return "queries grow differently with their positions"
    i = apart.index(max(apart))
    return f"read a frequency of {both[i][0]:.5g} for pair {i}, measured {both[i][1]:.5g}"


def rotation_in_words(rotation: Rotation | None) -> str:
    return "no rotation" if rotation is None else f"{len(rotation.pairs)} {rotation.pairing} pairs"


def _bias(layer: MeasuredLayer, encoding: Encoding, rounding: float = ROUNDING) -> list[str]:
    """Fixed biases are compared, ``rounding`` being that of the model's numbers, relative to the largest; of a
    trained one which keys share a number, since those are the checkpoint's."""
    if layer.scores is not None and layer.scores.follows_content:
        return [] if encoding.uses_queries else ["what is added to its scores follows the tokens"]
    measured = None if layer.scores is None else layer.scores.bias
    if ("bias" in encoding.acts_on) != (measured is not None):
        return [
            "read no bias on scores, measured one"
            if measured is not None
            else "read a bias on scores, measured none"
        ]
    if measured is None:
        return []
    if list(encoding.parameters()):
        return _shared(measured, encoding)
    T = measured.shape[-1]
    bias = encoding.at(torch.arange(T)).bias
    assert bias is not None
    expected: Float[Tensor, "H T T"] = bias.rows(0, T, T)[0]
    expected = (expected - expected.diagonal(dim1=-2, dim2=-1)[..., None]).tril()
    off = float((expected - measured.tril()).abs().max())
    return (
        []
        if off < rounding * max(1.0, float(expected.abs().max()))
        else [f"its bias is off by {off:.1g} from what was read"]
    )


def _shared(measured: Float[Tensor, "H T T"], encoding: Encoding) -> list[str]:
    """Whether keys have equal numbers where a trained table gives them one row of its own, and others have not."""
    table, T = getattr(encoding, "weight", None), measured.shape[-1]
    if table is None or table.dim() != 2 or encoding.axes > 1:
        return []
    with torch.no_grad():
        table.copy_(torch.arange(1.0, 1 + len(table))[:, None].expand_as(table))
        bias = encoding.at(torch.arange(T)).bias
        assert bias is not None
        row = bias.rows(0, T, T)[0, 0]
    shown = (measured != 0).any(0) | torch.eye(T, dtype=torch.bool)
    near = float(measured.max() - measured.min()) * 1e-3
    numbers = [measured[:, shown & (row == one)] for one in row[shown].unique()]
    if any(float((one.amax(1) - one.amin(1)).max()) > near for one in numbers):
        return ["its bias has several numbers where one bucket was read"]
    means = torch.stack([one.mean(1) for one in numbers])
    alike = torch.cdist(means, means, p=torch.inf) < near
    return ["its bias has one number where several buckets were read"] * bool(alike.triu(1).any())


def _tables(measured: Measured, positions: ModelPositions) -> list[str]:
    every = [*positions.recipes.values(), *filter(None, [positions.added_table])]
    read = [recipe for recipe in every if recipe.get("width")]
    rotates = bool(positions.rotary_recipes)  # the table of a model that rotates is one of cos and sin
    widest = [table for table in measured.tables if table.width > 1 and (table.trained or not rotates)]
    if bool(read) != bool(widest):
        return [
            "read a table of positions, looked up none"
            if read
            else f"looks up a table of positions, {widest[0].module}"
        ]
    return [text for recipe, table in zip(read, widest, strict=False) if (text := _table(recipe, table))]


def _table(recipe: Recipe, table: Table) -> str | None:
    """The difference of a table from its reading."""
    trained, rows = recipe.name != "sinusoidal", table.rows - table.first
    if table.trained != trained:
        kinds = ("fixed", "trained")
        return f"read a {kinds[trained]} table of positions, measured a {kinds[table.trained]} one"
    if trained:
        expected = recipe.get("num_positions") * recipe.get("columns", 1)
        return None if rows == expected else f"read a table of {expected} rows, measured {rows}"
    assert table.fixed is not None
    ours = build(recipe, ModelShape()).at(torch.arange(rows)).embed(torch.zeros(1, rows, table.width))[0]
    off = float((ours - table.fixed[table.first :]).abs().max())
    rounded = rows * 2.0**-23  # of its angles, which some code takes in float32
    return None if off < rounded + ROUNDING else f"its table is off by {off:.1g} from what was read"
