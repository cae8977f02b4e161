"""Measures one model on pictures or sounds: the same content at every place, and the differences.

A picture of equal patches, or a constant sound, gives queries that differ only by position. Tables that are added
to tokens are recorded, and left out while rotations are measured.
"""

import inspect
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.measuring.asked import layer_of, tables_of
from posenc.integrations.huggingface.measuring.maps import Rotation, over_a_grid, uneven
from posenc.integrations.huggingface.measuring.measured import Measured, MeasuredLayer, Table
from posenc.integrations.huggingface.measuring.record import Attention, Recording, recorded
from posenc.integrations.huggingface.measuring.senses import Form, forms

SCENES = 4
"""Pictures or sounds that windows and biases are read from."""
EDGE, HEARD = 3, 24
"""Frames at the start of a sound that convolutions mix with its edge, and the measured frames after them."""


class Shown:
    """One model, measured on pictures or sounds.

    Raises:
        InvalidArgument: it runs on none of the forms that its arguments allow.
    """

    def __init__(self, model: Any) -> None:
        self.model, self.config = model, model.config
        reasons = []
        for form in forms(model):
            self.form = form
            try:
                self.record(1, alike=False)
                return
            except Exception as error:  # whatever a model's code raises for a shape that it is not made for
                reasons.append(f"{type(error).__name__}: {(str(error).strip() or '-').splitlines()[0]}")
        why = reasons[0] if reasons else "it takes neither pictures nor sounds that are known here"
        raise InvalidArgument(f"{type(model).__name__} cannot be shown anything ({why[:200]})")

    def record(self, count: int, *, alike: bool) -> Recording:
        """The recording of this many pictures or sounds, each a row."""
        parts = [(1, seed) for seed in range(count)] if self.form.alone else [(count, count)]
        recordings: list[Recording] = []
        for rows, seed in parts:
            given: dict[str, Tensor] = self.form.given(rows, alike, seed)
            if "decoder_input_ids" in _takes(self.model):
                given["decoder_input_ids"] = torch.full((rows, 2), 4)
            with recorded(self.model, rows, None, None, without_tables=alike) as recording:
                self.model(**given)
            recordings.append(recording)
        return _together(recordings)

    def result(self) -> Measured:
        plain = self.record(SCENES, alike=False)
        most = max((x.q.shape[-1] / x.q.shape[1] for x in plain.attentions), default=0)
        moved = self.record(int(2 * most) + 1, alike=True)
        fits = [one.module for one in moved.attentions] == [one.module for one in plain.attentions]
        twins = moved.attentions if fits else [None] * len(plain.attentions)
        layers = [self._layer(one, twin) for one, twin in zip(plain.attentions, twins, strict=True)]
        return Measured(tuple(layers), tuple(self._tables(plain)), self.config)

    def _layer(self, plain: Attention, moved: Attention | None) -> MeasuredLayer:
        orders = _orders(self.form, plain.q.shape[2])
        if moved is None or not orders:
            return layer_of(plain, None, ())
        layers = [self._ordered(plain, moved, order) for order in orders]
        cells = self.form.cells
        if cells is None or len(layers) == 1:
            return layers[0]
        return min(layers, key=lambda one: 0.0 if one.maps is None else uneven(one.maps, cells))

    def _ordered(self, plain: Attention, moved: Attention, order: list[int]) -> MeasuredLayer:
        """A layer whose tokens of a picture, or of a sound, are at these places, first to last."""
        q, k = (x[:, :, order].permute(2, 0, 1, 3) for x in (moved.q, moved.k))
        ordered, at, cells = (
            Attention(moved.module, q, k, moved.scores, ()),
            tuple(range(len(order))),
            self.form.cells,
        )
        if cells is None:
            return layer_of(plain, ordered, at)
        axes: list[tuple[int, ...] | None] = [None]

        def find(maps: Tensor, _: object) -> Rotation | None:
            rotation = over_a_grid(maps, cells)
            axes[0] = None if rotation is None else rotation[1]
            return None if rotation is None else rotation[0]

        return replace(layer_of(plain, ordered, at, find), axes=axes[0], places=cells)

    def _tables(self, plain: Recording) -> list[Table]:
        """Tables with the row of the first patch, without rows of earlier tokens; and resized tables."""
        if self.form.cells is None:
            return [table for table, _ in tables_of(plain)]
        count = self.form.cells[0] * self.form.cells[1]
        tables = [(replace(one, first=one.first + len(at) - count), at) for one, at in tables_of(plain)]
        known = {one.module for one, _ in tables}
        mixed = [
            Table(name, len(table), table.shape[1], _start(at), table.requires_grad, resized=True)
            for name, table, at in plain.lookups
            if name not in known and table.dim() == 2
        ]
        return [*(one for one, at in tables if len(at) >= count), *{one.module: one for one in mixed}.values()]


def _orders(form: Form, tokens: int) -> list[list[int]]:
    """Which tokens stand at the places of a picture, row by row, in every way they may be laid out, or in a sound.

    Tokens of no place come first in a picture; at the ends of a sound some have other content.
    """
    if form.cells is None:
        return [[*range(EDGE, min(EDGE + HEARD, tokens - EDGE))]] if tokens > 2 * EDGE + 1 else []
    rows, columns = form.cells
    front, m = tokens - rows * columns, form.merge
    if not 0 <= front <= rows * columns:
        return []
    plain = torch.arange(rows * columns).unflatten(0, form.cells)
    orders = [plain]
    if m > 1 and not rows % m and not columns % m:
        orders.append(plain.reshape(rows // m, columns // m, m, m).transpose(1, 2).reshape(rows, columns))
    return [(one.flatten() + front).tolist() for one in orders]


def _start(at: Tensor) -> int:
    """The row where a table that was resized as a whole begins; 0 where rows were picked."""
    return int(at) if at.numel() == 1 else 0


def _takes(model: Any) -> set[str]:
    return {*inspect.signature(model.forward).parameters}


def _together(recordings: list[Recording]) -> Recording:
    """Recordings of one row each as one of many rows."""
    if len(recordings) == 1:
        return recordings[0]
    rows = []
    for each in zip(*(one.attentions for one in recordings), strict=True):
        q, k, scores = (torch.cat([getattr(one, name) for one in each]) for name in ("q", "k", "scores"))
        rows.append(Attention(each[0].module, q, k, scores, ()))
    return Recording(rows, recordings[0].lookups)
