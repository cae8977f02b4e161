"""``measure``: the positions of every layer of a model, measured by running it.

It is run on the same content at several positions. Queries at p are R·queries at 0, and least squares over a few
hundred of them give R whole: which channels pair, how many rotate, how fast, which layers do not. A model that
takes position ids is given them; any other is given rows of one repeated token, pictures of equal patches or
constant sounds, whose positions it counts itself.
"""

import copy
import inspect
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.language_model import text_config
from posenc.integrations.huggingface.measuring.evidence import EXACT
from posenc.integrations.huggingface.measuring.inputs import DECODED, READ, Form, TokenIds, forms
from posenc.integrations.huggingface.measuring.maps import (
    channel_order,
    least_squares,
    over_a_grid,
    rotation_of,
    scores_of,
    uneven,
)
from posenc.integrations.huggingface.measuring.measured import AXES, Measured, MeasuredLayer, Table
from posenc.integrations.huggingface.measuring.record import Attention, Recording, recorded
from posenc.integrations.huggingface.measuring.shrink import NoTokens, built, load_config, shrunk

POSITIONS = (0, 1, 2, 5, 13, 34, 89, 233, 610, 1597, 4181, 10946, 28657)
"""The measured positions: close enough together that no frequency below one radian is ambiguous."""
TEXTS, SCENES = 6, 4
"""Texts, and pictures or sounds, that windows and biases are read from."""
SQUARE = 1e-2
"""The largest deviation of a rotation from keeping angles: above rounding, below any other map."""


def measure(model: Any) -> Measured:
    """The positions of every layer of ``model``, measured.

    Args:
        model: a loaded transformers model, also one of remote code; or a config, or the path of one or of its
            folder, of which a small random model with the same heads is built. Windows show up to 23 tokens, and
            those of a config are shrunk to 5.

    Raises:
        InvalidArgument: the model cannot be built or run on token ids, pictures or sounds, and why.
    """
    if not isinstance(model, nn.Module):
        model = _random(model)
    with torch.no_grad(), _stepwise(model):
        probes = [Probe(model, form) for form in stacks(model)]
        layers = tuple(layer for probe in probes for layer in probe.layers())
        tables = {table.module: table for probe in probes for table in probe.tables()}
    return Measured(layers, tuple(tables.values()), model.config)


def stacks(model: Any) -> list[Form]:
    """Inputs for a model, and if it has a decoder those for the decoder.

    Raises:
        InvalidArgument: it runs on nothing that is known here.
    """
    ids = TokenIds(model)
    form = ids.form("input_ids", READ) if ids.accepted else shown(model)
    if not ids.decodes:
        return [form]
    decoder = ids.form("decoder_input_ids", DECODED)
    encoder = replace(form, arguments=lambda rows: {**form.arguments(rows), **decoder.given(rows, False, 0)})
    return [encoder, replace(decoder, arguments=lambda rows: form.given(rows, False, 0))]


def shown(model: Any) -> Form:
    """The first form of pictures or sounds that a model runs on.

    Raises:
        InvalidArgument: it runs on none.
    """
    reasons = []
    decoder = TokenIds(model)
    for form in forms(model):
        more = decoder.form("decoder_input_ids", 2).given(1, True, 0) if decoder.decodes else {}
        try:
            model(**form.given(1, False, 0), **more)
            return form
        except Exception as error:  # whatever a model's code raises for a shape that it is not made for
            reasons.append(f"{type(error).__name__}: {(str(error).strip() or '-').splitlines()[0]}")
    why = reasons[0] if reasons else "it takes neither token ids nor pictures nor sounds that are known here"
    raise InvalidArgument(f"{type(model).__name__} cannot be run ({why[:200]})")


class Probe:
    """A model, measured on one form of input."""

    def __init__(self, model: Any, form: Form) -> None:
        self.model, self.form, self.ids = model, form, TokenIds(model)
        self.plain = self.record(TEXTS if form.length else SCENES)
        self.channels = max((x.q.shape[-1] / x.q.shape[1] for x in self.plain.attentions), default=0)

    def record(self, rows: int, *, alike: bool = False, position_ids: Tensor | None = None) -> Recording:
        """The recording of this many inputs, ``alike`` at every place or not; repeated for all position ids."""
        form, parts = self.form, [(1, seed) for seed in range(rows)] if self.form.alone else [(rows, rows)]
        recordings: list[Recording] = []
        for count, seed in parts:
            given: dict[str, Any] = {
                name: value.to(self.ids.device) for name, value in form.given(count, alike, seed).items()
            }
            if position_ids is not None:
                count = position_ids.shape[-2]
                given = {form.name: given[form.name].repeat(count // rows, 1), "position_ids": position_ids}
            elif "use_cache" in inspect.signature(self.model.forward).parameters:
                given["use_cache"] = False
            tokens = given[form.name] if form.length else None
            left_out = alike and tokens is None
            with recorded(self.model, count, form.length, tokens, without_tables=left_out) as recording:
                self.model(**given)
            recordings.append(recording)
        return recordings[0] if len(recordings) == 1 else _joined(recordings)

    def layers(self) -> list[MeasuredLayer]:
        """Every attention layer."""
        layers = self.at_position_ids() if self.ids.takes_positions else None
        if layers is not None and not any(layer.exact and layer.rotation is None for layer in layers):
            return layers
        counted = self.at_places()  # layers that ignore position ids may still count tokens
        both = zip(counted if layers is None else layers, counted, strict=True)
        return [other if layer.rotation is None and layer.exact else layer for layer, other in both]

    def at_position_ids(self) -> list[MeasuredLayer] | None:
        """Every layer at the same texts with different position ids; None if the model refuses them."""
        at = tuple(p for p in POSITIONS if p < self.ids.longest)
        rows = int(2 * self.channels / (self.form.length or 1)) + 1
        ids = torch.tensor(at, device=self.ids.device).repeat_interleave(rows)[:, None]
        ids = ids.expand(-1, self.form.length or 1).contiguous()
        try:
            moved = self.queries(self.record(rows, position_ids=ids), len(at))
        except Exception:  # whatever a model's code raises for position ids of another form
            return None
        layers = [layer_of(x, q, at) for x, q in zip(self.plain.attentions, moved, strict=True)]
        try:
            axes = torch.eye(AXES, dtype=ids.dtype, device=ids.device)[:, :, None, None] * ids
            by_axis = [self.queries(self.record(rows, position_ids=rotating), len(at)) for rotating in axes]
        except Exception:  # a row of position ids per axis is none of the model's forms
            return layers
        return [_with_axes(layer, [axis[i] for axis in by_axis]) for i, layer in enumerate(layers)]

    def queries(self, recording: Recording, count: int) -> list[Tensor | None]:
        """The queries of every layer, a row per position; rows, heads and tokens are samples."""
        return self.matched(recording, [x.q.unflatten(0, (count, -1)).flatten(1, 3) for x in recording.attentions])

    def matched(self, recording: Recording, moved: list[Any]) -> list[Any]:
        """As many as the plain attentions; none if another recording has other attentions."""
        names = [x.module for x in self.plain.attentions]
        return moved if [x.module for x in recording.attentions] == names else [None] * len(names)

    def at_places(self) -> list[MeasuredLayer]:
        """Every layer at content that is the same at every place, which the model counts itself."""
        if not self.plain.attentions:
            return []
        recording = self.record(int(2 * self.channels) + 1, alike=True)
        both = zip(self.plain.attentions, self.matched(recording, recording.attentions), strict=True)
        return [self._at_places(plain, moved) for plain, moved in both]

    def _at_places(self, plain: Attention, moved: Attention | None) -> MeasuredLayer:
        cells = self.form.cells
        orders = [] if moved is None else self.form.orders(plain.q.shape[2])
        if moved is None or not orders:
            return layer_of(plain, None, ())
        queries = [moved.q[:, :, order].permute(2, 0, 1, 3).flatten(1, 2) for order in orders]
        layers = [layer_of(plain, q, tuple(range(len(q))), cells) for q in queries]
        return min(
            layers, key=lambda layer: 0.0 if layer.maps is None or cells is None else uneven(layer.maps, cells)
        )

    def tables(self) -> list[Table]:
        """Tables whose rows were read in order, one per token or patch, and those that were resized."""
        tables = []
        patches = self.form.cells and self.form.cells[0] * self.form.cells[1]
        in_order: set[str] = set()
        for name, table, index in self.plain.lookups:
            if table.dim() != 2:
                continue
            row = index.reshape(-1, index.shape[-1])[0] if index.dim() else index
            size, trained = (len(table), table.shape[1]), table.requires_grad
            fixed = None if trained else table.detach().float()
            if row.numel() > 1 and bool((row.diff() == 1).all()):
                in_order.add(name)
                if len(row) >= (patches or 0):  # rows of earlier tokens are no positions
                    first = int(row[0]) + (len(row) - patches if patches else 0)
                    tables.append(Table(name, *size, first, trained, fixed=fixed))
            elif patches:
                first = int(row) if row.numel() == 1 else 0
                tables.append(Table(name, *size, first, trained, resized=True))
        return [table for table in tables if not table.resized or table.module not in in_order]


def layer_of(
    plain: Attention, later: Tensor | None, at: tuple[int, ...], cells: tuple[int, int] | None = None
) -> MeasuredLayer:
    """A layer, from how it attends to several texts, and from queries of the same content at every position.

    Args:
        later: ``(P, n, D)``, a row for every position ``at``; None if there are none.
        cells: rows and columns of the picture whose places ``at`` counts.
    """
    maps, residual, rotation, factor = None, float("inf"), None, None
    growth: tuple[float, ...] = ()
    if later is not None:
        maps, residual = least_squares(later[0], later)
        growth = tuple(float(x) for x in maps.square().sum((-1, -2)).div(maps.shape[-1]).sqrt())
    if maps is not None and residual < EXACT:
        order, lengths = channel_order(plain.q[:, 0, 0], plain.outputs)
        back = torch.tensor(order).argsort()
        maps = maps[:, back][:, :, back]
        plainly = maps / torch.tensor(growth)[:, None, None]
        rotation = rotation_of(plainly, at) if cells is None else over_a_grid(plainly, cells)
        bent = float((plainly.mT @ plainly - torch.eye(len(order), dtype=maps.dtype)).abs().amax())
        if rotation is not None and rotation.pairing == "other" and bent > SQUARE:  # no pairs, and so no rotation
            rotation, residual = None, bent
        if lengths is not None and rotation is not None:
            factor = float(lengths[back[[channel for pair in rotation.pairs for channel in pair]]].mean())
    match = re.match(r"(.*?)\.?(?:\w*(?:layers?|blocks?|h|groups?|stages?))\.(\d+)\b", plain.module)
    tower, index = (match[1], int(match[2])) if match else (plain.module, 0)
    scores, channels = scores_of(plain.q, plain.k, plain.scores), plain.q.shape[-1]
    return MeasuredLayer(
        plain.module, tower, index, channels, at, maps, residual, rotation, growth, factor, scores, cells
    )


def _with_axes(layer: MeasuredLayer, moved: list[Tensor | None]) -> MeasuredLayer:
    """A layer with the axis that rotates each pair; exactly one does."""
    if layer.rotation is None or not layer.exact:
        return layer
    of_pair: dict[tuple[int, int], int] = {}
    for axis, q in enumerate(moved):
        rotation = None if q is None else rotation_of(least_squares(q[0], q)[0], layer.positions)
        of_pair |= dict.fromkeys(() if rotation is None else rotation.pairs, axis)
    axes = tuple(of_pair[pair] for pair in layer.rotation.pairs if pair in of_pair)
    known = len(axes) == len(layer.rotation.pairs) and len({*axes}) > 1
    return replace(layer, rotation=replace(layer.rotation, axes=axes)) if known else layer


def _joined(recordings: list[Recording]) -> Recording:
    """Recordings of one row each as one of many rows."""
    rows = []
    for attentions in zip(*(recording.attentions for recording in recordings), strict=True):
        q, k, scores = (torch.cat([getattr(x, name) for x in attentions]) for name in ("q", "k", "scores"))
        rows.append(Attention(attentions[0].module, q, k, scores))
    return Recording(rows, recordings[0].lookups)


def _random(config: Any) -> nn.Module:
    """A small random model of a config; widths stay where shrinking them breaks it."""
    if isinstance(config, str | Path):
        config = load_config(config)
    if isinstance(config, Mapping) or not hasattr(config, "to_dict"):
        raise InvalidArgument(f"config is a {type(config).__name__}; load it first: AutoConfig.from_pretrained(…)")
    text = text_config(config)
    attempts = [(config, True), (config, False)] + [(text, True), (text, False)] * (text is not config)
    reasons: list[str] = []
    for candidate, widths in attempts:
        try:
            model = built(type(candidate).from_dict(shrunk(copy.deepcopy(candidate.to_dict()), widths=widths)))
            with torch.no_grad():
                Probe(model, stacks(model)[0])
            return model
        except NoTokens as error:
            if candidate is text:
                raise InvalidArgument(f"{type(config).__name__}: {error}") from error
        except Exception as error:  # whatever a model's code raises for sizes that it was not made for
            reasons.append(f"{type(error).__name__}: {(str(error).strip() or '-').splitlines()[0]}")
    why = reasons[0][:200] if reasons else "no part of it takes token ids"
    raise InvalidArgument(f"{type(config).__name__} cannot be built small and run here ({why})")


@contextmanager
def _stepwise(model: Any) -> Iterator[None]:
    """Inside the block attention uses torch's own functions, which the recorder observes, without dropout."""
    training = [module for module in model.modules() if module.training]
    before = getattr(getattr(model, "config", None), "_attn_implementation", None)
    switched = before not in ("eager", "sdpa", None)
    model.eval()
    if switched:
        model.set_attn_implementation("eager")
    try:
        yield
    finally:
        for module in training:
            module.training = True
        if switched:
            model.set_attn_implementation(before)
