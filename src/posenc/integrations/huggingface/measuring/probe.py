"""Measures the positional encoding of every layer of a model by running the model.

The model runs on the same content at several positions. If queries at position p are R·(queries at 0), least
squares over a few hundred queries gives R. The R of a layer shows which channels form pairs, how many pairs
rotate, and how fast. A model that accepts position ids gets position ids. Any other model gets one repeated token,
an image of equal patches, or audio of equal frames, and assigns the positions itself.
"""

import inspect
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from posenc.errors import InvalidArgument, first_line
from posenc.integrations.huggingface.config import mapping_of
from posenc.integrations.huggingface.config_class import class_form
from posenc.integrations.huggingface.language_model import text_config
from posenc.integrations.huggingface.measuring.evidence import EXACT, Table, keys_in_words
from posenc.integrations.huggingface.measuring.inputs import DECODED, READ, Form, TokenIds, forms
from posenc.integrations.huggingface.measuring.maps import (
    ROUNDING,
    by_axis,
    channel_order,
    least_squares,
    over_a_grid,
    rotation_of,
    scores_of,
)
from posenc.integrations.huggingface.measuring.measured import AXES, Measured, MeasuredLayer
from posenc.integrations.huggingface.measuring.record import FEWEST, Attention, Recording, recorded
from posenc.integrations.huggingface.measuring.shrink import built, shrunk

POSITIONS = (0, 1, 2, 5, 13, 34, 89, 233, 610, 1597, 4181, 10946, 28657)
"""The measured positions, so close together that no frequency below one radian per position is ambiguous."""
TEXTS, SCENES = 6, 4
"""The number of texts, and of images or audio inputs, from which windows and biases are computed."""
SQUARE = 1e-2
"""The largest entry of MᵀM − I for which a map M counts as a rotation. Rounding gives smaller entries."""


def measure(model: Any) -> Measured:
    """Measure the positional encoding of every layer of ``model``.

    Args:
        model: a loaded transformers model, with or without remote code; or a config object, a dict, or the path of
            a config.json or its folder, from which a small random model with the same number of channels per head
            is built. Only windows below 23 tokens can be measured; in a small model, windows are shortened to 5
            tokens.

    Raises:
        InvalidArgument: the model cannot be built, or cannot run on token ids, images or audio; the message says
            why.
    """
    if not hasattr(model, "forward"):  # a config
        return _measure_small(model)
    with unchanged(model):
        if model.config._attn_implementation not in ("eager", "sdpa", None):
            model.set_attn_implementation("eager")  # calls functions of torch, which the recorder observes
        probes = [Probe(model, form) for form in stacks(model)]
        layers = tuple(layer for probe in probes for layer in probe.layers())
        tables = {name: table for probe in probes for name, table in probe.tables().items()}
    return Measured(layers, tuple(tables.values()), model.config)


def stacks(model: Any) -> list[Form]:
    """Return inputs for measuring a model and, if the model has a decoder, inputs for measuring the decoder.

    Raises:
        InvalidArgument: the model accepts no known form of input.
    """
    ids = TokenIds(model)
    form = ids.form("input_ids", READ) if ids.accepted else shown(model)
    if not ids.decodes:
        return [form]
    decoder, few = ids.form("decoder_input_ids", DECODED), ids.form("decoder_input_ids", FEWEST - 1)
    return [
        replace(form, arguments=lambda rows: {**form.arguments(rows), **few.given(rows, False, 0)}),
        replace(decoder, arguments=lambda rows: form.given(rows, False, 0)),
    ]


def shown(model: Any) -> Form:
    """Return the first form of image or audio input that a model accepts.

    Raises:
        InvalidArgument: the model accepts no known form of image or audio input.
    """
    reasons, decoder = [], TokenIds(model)
    for form in forms(model):
        more = decoder.form("decoder_input_ids", FEWEST - 1).given(1, True, 0) if decoder.decodes else {}
        try:
            model(**form.given(1, False, 0), **more)
            return form
        except Exception as error:  # code may raise anything for inputs of a wrong shape
            reasons.append(f"{type(error).__name__}: {first_line(error)}")
    why = (*reasons, "forward has no argument for token ids, images or audio that posenc knows")[0]
    raise InvalidArgument(f"{type(model).__name__} cannot be run ({why[:200]})")


class Probe:
    """A model, measured on one form of input."""

    def __init__(self, model: Any, form: Form) -> None:
        self.model, self.form, self.ids = model, form, TokenIds(model)
        self.settings = {"use_cache": False} if "use_cache" in inspect.signature(model.forward).parameters else {}
        self.plain = self.record(TEXTS if form.length else SCENES)
        self.channels = max((x.q.shape[-1] / x.q.shape[1] for x in self.plain.attentions), default=0)

    def record(self, rows: int, *, alike: bool = False, position_ids: Tensor | None = None) -> Recording:
        """Record a forward pass over ``rows`` inputs, with the same content at every position if ``alike``.

        With position ids ``(…, rows·P, T)``, the inputs are repeated P times.
        """
        form, recordings = self.form, list[Recording]()
        for count, seed in [(1, seed) for seed in range(rows)] if form.alone else [(rows, rows)]:
            given: dict[str, Any] = {
                name: value.to(self.ids.device) for name, value in form.given(count, alike, seed).items()
            }
            if position_ids is not None:
                count = position_ids.shape[-2]
                given = {form.name: given[form.name].repeat(count // rows, 1), "position_ids": position_ids}
            with recorded(
                self.model,
                count,
                form.length,
                given[form.name] if form.length else None,
                without_tables=alike and form.length is None,
            ) as recording:
                self.model(**given, **self.settings)
            recordings.append(recording)
        return recordings[0] if len(recordings) == 1 else _joined(recordings)

    def layers(self) -> list[MeasuredLayer]:
        """Return the measurement of every attention layer."""
        layers = self.at_position_ids() if self.ids.takes_positions else []
        if layers and not any(layer.exact and layer.rotation is None for layer in layers):
            return layers
        # layers that ignore position ids may count tokens, as recurrent states do
        moved = self.matched(self.record(int(2 * self.channels) + 1, alike=True))
        counted = [*map(self._at_places, self.plain.attentions, moved)]
        return [
            other if layer.rotation is None and layer.exact and other.exact else layer
            for layer, other in zip(layers or counted, counted, strict=True)
        ]

    def at_position_ids(self) -> list[MeasuredLayer]:
        """Measure every layer on the same texts with different position ids, if the model accepts position ids."""
        at = tuple(p for p in POSITIONS if p < self.ids.longest)
        length = self.form.length or 1
        rows = int(2 * self.channels / length) + 1
        ids = torch.tensor(at, device=self.ids.device).repeat_interleave(rows)[:, None].repeat(1, length)
        by_axis = torch.eye(AXES, dtype=ids.dtype, device=ids.device)[:, :, None, None] * ids
        moved: list[list[list[Tensor] | None]] = []
        with suppress(Exception):  # code may raise anything for ids of a wrong shape
            for position_ids in (ids, *by_axis):
                moved.append(
                    [
                        None if x is None else [y.unflatten(0, (len(at), -1)).flatten(1, 3) for y in (x.q, x.k)]
                        for x in self.matched(self.record(rows, position_ids=position_ids))
                    ]
                )
        if not moved:
            return []
        return [
            _with_axes(layer_of(plain, later, at), along_axes)
            for plain, later, *along_axes in zip(self.plain.attentions, *moved, strict=True)
        ]

    def matched(self, recording: Recording) -> Sequence[Attention | None]:
        """Return the attentions of a recording, or a list of None if their modules are not those of the first
        recording.
        """
        names = [x.module for x in self.plain.attentions]
        return recording.attentions if [x.module for x in recording.attentions] == names else [None] * len(names)

    def _at_places(self, plain: Attention, moved: Attention | None) -> MeasuredLayer:
        """Return a layer measured on content that is the same at every position, so that the model counts positions
        itself, with its tokens in the order for which ``_uneven`` is smallest.
        """
        layers = [
            layer_of(
                plain,
                [x[:, :, order].permute(2, 0, 1, 3).flatten(1, 2) for x in (moved.q, moved.k)],
                tuple(range(len(order))),
                self.form.cells,
            )
            for order in self.form.orders(plain.q.shape[2])
            if moved is not None
        ]
        return min(layers, key=_uneven, default=layer_of(plain, None, ()))

    def tables(self) -> dict[str, Table]:
        """Return the tables of position embeddings, keyed by module. The model reads one row of a table per token
        or patch, or resizes the table for the image."""
        tables: dict[str, Table] = {}
        patches = 0 if self.form.cells is None else math.prod(self.form.cells)
        for name, weight, index in self.plain.lookups:
            row = index.reshape(-1, index.shape[-1])[0] if index.dim() else index[None]
            if len(row) > 1 and bool((row.diff() == 1).all()):
                if len(row) >= patches:  # else the rows are for other tokens, such as a class token
                    tables[name] = Table(name, weight, int(row[-patches]))
            elif patches:
                tables.setdefault(name, Table(name, weight, int(row[0]) if len(row) == 1 else 0, resized=True))
        return tables


def layer_of(
    plain: Attention, later: list[Tensor] | None, at: tuple[int, ...], cells: tuple[int, int] | None = None
) -> MeasuredLayer:
    """Measure a layer from its attention over several texts, and from queries and keys with the same content at
    every position.

    Args:
        later: queries and keys, ``(P, n, D)``, at every position of ``at``; None if there are none.
        cells: the numbers of rows and columns of patches, if ``at`` contains indices of patches in an image.
    """
    layer = MeasuredLayer(plain.module, plain.q.shape[-1], at, scores_of(plain.q, plain.k, plain.scores), cells)
    if later is None or torch.linalg.matrix_rank(later[0][0].double(), rtol=ROUNDING) < layer.channels:
        return layer  # too few different queries for a unique map
    maps, residual = least_squares(later[0][0], later[0])
    growth = maps.square().sum((-1, -2)).div(maps.shape[-1]).sqrt()
    order, lengths = channel_order(plain.q[:, 0, 0], plain.outputs)
    turns, maps = maps / growth[:, None, None], maps[:, order][:, :, order]
    plainly = maps / growth[:, None, None]
    rotation = rotation_of(plainly, at) if cells is None else over_a_grid(plainly, cells)
    bent = float((plainly.mT @ plainly - torch.eye(len(order), dtype=maps.dtype)).abs().amax())
    if residual >= EXACT or (rotation is not None and rotation.pairing == "other" and bent > SQUARE):
        return replace(layer, maps=maps)
    turning = order if rotation is None else order[[channel for pair in rotation.pairs for channel in pair]]
    return replace(
        layer,
        maps=maps,
        exact=True,
        rotation=rotation,
        growth=growth,
        factor=None if lengths is None else float(lengths[turning].mean()),
        keys=keys_in_words(plain, later[1].double(), turns, at) if bent < SQUARE else "",
    )


def _uneven(layer: MeasuredLayer) -> float:
    """Return the largest difference between the map of a patch and the product of its row map and column map."""
    if layer.maps is None or layer.places is None:
        return 0.0
    laid = layer.maps.unflatten(0, layer.places)
    return float((laid[:, :1] @ laid[:1] - laid).abs().max())


def _with_axes(layer: MeasuredLayer, moved: list[list[Tensor] | None]) -> MeasuredLayer:
    """Set the axis of each pair of a layer if each pair rotates along exactly one axis, and if this axis differs
    between pairs. Any other layer is returned unchanged.
    """
    turns = [None if x is None else rotation_of(least_squares(x[0][0], x[0])[0], layer.positions) for x in moved]
    rotation, turned = layer.rotation, by_axis(turns)
    if rotation is None or turned is None or turned.pairs != rotation.pairs or len({*(turned.axes or ())}) < 2:
        return layer
    return replace(layer, rotation=replace(rotation, axes=turned.axes))


def _joined(recordings: list[Recording]) -> Recording:
    """Join recordings of one row each into a recording of many rows."""
    return Recording(
        [
            Attention(
                alike[0].module,
                torch.cat([attention.q for attention in alike]),
                torch.cat([attention.k for attention in alike]),
                torch.cat([attention.scores for attention in alike]),
            )
            for alike in zip(*(recording.attentions for recording in recordings), strict=True)
        ],
        recordings[0].lookups,
    )


def _measure_small(config: Any) -> Measured:
    """Measure a small random model built from a config. Widths are kept if the model does not run with smaller
    ones."""
    whole = config if hasattr(config, "to_dict") else class_form(mapping_of(config))
    text = text_config(whole)
    reasons: list[str] = []
    for part, widths in product([whole] if text is whole else [whole, text], (True, False)):
        try:
            return measure(built(type(part).from_dict(shrunk(part.to_dict(), widths=widths))))
        except Exception as error:  # code may raise anything for unusual sizes
            reasons.append(f"{type(error).__name__}: {first_line(error)}")
    raise InvalidArgument(f"a small {type(whole).__name__} model cannot be built and run here ({reasons[0][:200]})")


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Run the block in evaluation mode without gradients, then restore the attributes, buffers and configs of the
    model, and the random state."""
    before = [
        *((module, {**vars(module), "_buffers": dict(module._buffers)}) for module in model.modules()),
        *((config, {**vars(config)}) for module in model.modules() if (config := getattr(module, "config", None))),
    ]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]  # some code changes their values
    with torch.no_grad(), torch.random.fork_rng(devices=[p.device for p in model.parameters() if p.is_cuda][:1]):
        try:
            model.eval()
            yield
        finally:
            for changed, attributes in before:
                changed.__dict__ = attributes
            for buffer, values in buffers:
                buffer.copy_(values)
