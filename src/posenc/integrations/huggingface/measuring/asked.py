"""Measures one model on tokens: the same tokens at position 0 and at positions p, and their differences.

Queries at p are R·queries at 0, and least squares over a few hundred of them give R whole: which channels pair, how
many rotate, how fast, which layers do not.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.language_model import text_config
from posenc.integrations.huggingface.measuring.maps import Rotation, least_squares, rotation_of, scores_of, source
from posenc.integrations.huggingface.measuring.measured import AXES, EXACT, Measured, MeasuredLayer, Table
from posenc.integrations.huggingface.measuring.record import Attention, Recording, recorded

POSITIONS = (0, 1, 2, 5, 13, 34, 89, 233, 610, 1597, 4181, 10946, 28657)
"""The measured positions: close enough together that no frequency below one radian is ambiguous."""
TOKENS, DECODED = 13, 11
"""Tokens of a text, and of a decoder's, of different lengths, so that self-attention can be recognised."""
READ = 23
"""Tokens of the texts that windows and biases are read from."""
SQUARE = 1e-2
"""The largest deviation of a rotation from keeping angles: above rounding, below any other map."""


class Asked:
    """One model, measured on tokens; ``given`` makes pictures or sounds in place of texts, for some rows."""

    def __init__(self, model: Any, given: Callable[[int], dict[str, Tensor]] | None = None) -> None:
        self.model, self.config, self.given = model, model.config, given
        self.device = next(model.parameters()).device
        takes = inspect.signature(model.forward).parameters
        if "input_ids" not in takes and given is None:
            raise InvalidArgument(f"{type(model).__name__} takes {next(iter(takes), 'nothing')}, no token ids")
        self.decodes = "decoder_input_ids" in takes
        self.takes_positions = "position_ids" in takes and not self.decodes
        text = text_config(self.config)
        self.longest = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None) or 512
        self.vocabulary = min(int(getattr(text, "vocab_size", None) or 64), 300)

    def run(self, ids: Tensor, positions: Tensor | None, length: int) -> Recording:
        given: dict[str, Any] = {"input_ids": ids.to(self.device)} if self.given is None else self.given(len(ids))
        if self.decodes:
            given["decoder_input_ids"] = ids[:, :DECODED].to(self.device)
        if positions is not None:
            given["position_ids"] = positions.to(self.device)
        elif "use_cache" in inspect.signature(self.model.forward).parameters:
            given["use_cache"] = False
        tokens = given["decoder_input_ids" if length == DECODED else "input_ids"]
        with recorded(self.model, len(ids), length, tokens) as recording:
            self.model(**given)
        return recording

    def result(self) -> Measured:
        layers: list[MeasuredLayer] = []
        tables: dict[str, Table] = {}
        lengths = (TOKENS, DECODED) if self.decodes else (TOKENS,)
        for length in lengths if self.given is None else (DECODED,):
            long = READ if length == TOKENS else TOKENS
            plain = self.run(self.tokens(6, long), None, READ if length == TOKENS else length)
            here = self.layers(plain, *self.moved(plain, length))
            if self.takes_positions and any(layer.exact and layer.rotation is None for layer in here):
                here = self.counted(plain, here)
            layers += self.by_axis(plain, here) if self.takes_positions else here
            tables |= {table.module: table for table, _ in tables_of(plain)}
        return Measured(tuple(layers), tuple(tables.values()), self.config)

    def layers(self, plain: Recording, moved: list[Attention], at: tuple[int, ...]) -> list[MeasuredLayer]:
        fits = [one.module for one in moved] == [one.module for one in plain.attentions]
        twins: list[Attention | None] = [*moved] if fits else [None] * len(plain.attentions)
        return [layer_of(one, twin, at) for one, twin in zip(plain.attentions, twins, strict=True)]

    def counted(self, plain: Recording, here: list[MeasuredLayer]) -> list[MeasuredLayer]:
        """Layers that ignore position ids may still count tokens; they are measured by counting."""
        others = self.layers(plain, *self.running(plain, TOKENS))
        return [b if a.rotation is None and b.exact else a for a, b in zip(here, others, strict=True)]

    def by_axis(self, plain: Recording, here: list[MeasuredLayer]) -> list[MeasuredLayer]:
        """Layers with the axis of every pair, if the model accepts a row of position ids per axis."""
        rows = int(2 * max((x.q.shape[-1] / (x.q.shape[1] * TOKENS) for x in plain.attentions), default=0)) + 1
        at = tuple(p for p in POSITIONS if p < self.longest)
        ids = self.tokens(rows, TOKENS).repeat(len(at), 1)
        where = torch.tensor(at).repeat_interleave(rows)[:, None].expand(-1, TOKENS)
        moved: list[list[Attention]] = []
        try:
            for axis in range(AXES):
                rest = torch.zeros(AXES, *where.shape, dtype=torch.int64)
                rest[axis] = where
                moved.append([_by_row(x, len(at)) for x in self.run(ids, rest, TOKENS).attentions])
        except Exception:  # whatever a model's code raises for position ids of one axis too many
            return here
        if any(len(attentions) != len(here) for attentions in moved):
            return here
        return [_with_axes(layer, [attentions[i] for attentions in moved], at) for i, layer in enumerate(here)]

    def tokens(self, rows: int, length: int) -> Tensor:
        draw = torch.Generator().manual_seed(rows)
        return torch.randint(4, self.vocabulary, (rows, length), generator=draw).to(self.device)

    def moved(self, plain: Recording, length: int) -> tuple[list[Attention], tuple[int, ...]]:
        """The same tokens at every position, as attentions whose rows are positions."""
        if not plain.attentions:
            return [], ()
        most = max(x.q.shape[-1] / (x.q.shape[1] * length) for x in plain.attentions)
        rows = int(2 * most) + 1
        if self.takes_positions:
            at = tuple(p for p in POSITIONS if p < self.longest)
            ids = self.tokens(rows, length).repeat(len(at), 1)
            where = torch.tensor(at).repeat_interleave(rows)[:, None].expand(-1, length)
            try:
                recording = self.run(ids, where.contiguous(), length)
                return [_by_row(x, len(at)) for x in recording.attentions], at
            except Exception:  # position ids are taken in another form than it says
                pass
        return self.running(plain, length)

    def running(self, plain: Recording, length: int) -> tuple[list[Attention], tuple[int, ...]]:
        """One token repeated, at positions counted by the model."""
        rows = int(2 * max(x.q.shape[-1] / x.q.shape[1] for x in plain.attentions)) // length + 1
        each = torch.randperm(self.vocabulary - 4, generator=torch.Generator().manual_seed(0))[: rows * length] + 4
        ids = each[:, None].expand(-1, TOKENS).contiguous()
        recording = self.run(ids, None, length)
        return [_by_token(x) for x in recording.attentions], tuple(range(length))


def _by_row(one: Attention, count: int) -> Attention:
    """Rows are positions; all tokens and heads of a row are samples."""
    q, k = (x.unflatten(0, (count, -1)).permute(0, 2, 1, 3, 4).flatten(2, 3) for x in (one.q, one.k))
    return Attention(one.module, q, k, one.scores, one.inputs)


def _by_token(one: Attention) -> Attention:
    """A repeated token has every position in turn; rows and heads are samples."""
    q, k = (x.permute(2, 1, 0, 3) for x in (one.q, one.k))
    return Attention(one.module, q, k, one.scores, ())


def _with_axes(layer: MeasuredLayer, moved: list[Attention], at: tuple[int, ...]) -> MeasuredLayer:
    """A layer with the axis that rotates each pair; exactly one does."""
    if layer.rotation is None or not layer.exact:
        return layer
    of_pair: dict[tuple[int, int], int] = {}
    for axis, one in enumerate(moved):
        q = one.q.flatten(1, 2)
        rotation = rotation_of(least_squares(q[0], q)[0], at)
        of_pair |= dict.fromkeys(() if rotation is None else rotation.pairs, axis)
    known = [of_pair.get(pair) for pair in layer.rotation.pairs]
    axes = tuple(axis for axis in known if axis is not None)
    return replace(layer, axes=axes) if len(axes) == len(known) and len({*axes}) > 1 else layer


def layer_of(
    plain: Attention,
    moved: Attention | None,
    at: tuple[int, ...],
    find: Callable[[Tensor, tuple[int, ...]], Rotation | None] = rotation_of,
) -> MeasuredLayer:
    """A layer, from how it attends to several texts and to the same content at every position ``at``.

    ``find`` finds the pairs that rotate in the maps from the first position to each.
    """
    scores = scores_of(plain.q, plain.k, plain.scores)
    maps, residual, rotation, factor = None, float("inf"), None, None
    growth: tuple[float, ...] = ()
    if moved is not None:
        q = moved.q.flatten(1, 2)
        maps, residual = least_squares(q[0], q)
        growth = tuple(float(x) for x in maps.square().sum((-1, -2)).div(maps.shape[-1]).sqrt())
    if maps is not None and residual < EXACT:
        plainly = maps / torch.tensor(growth)[:, None, None]
        order, factor = _source(plain, find(plainly, at))
        back = torch.tensor(order).argsort()
        maps = maps[:, back][:, :, back]
        plainly = plainly[:, back][:, :, back]
        rotation = find(plainly, at)
        bent = (plainly.mT @ plainly - torch.eye(len(order), dtype=maps.dtype)).abs().amax()
        if rotation is not None and rotation.pairing == "other" and bent > SQUARE:  # no pairs, and so no rotation
            rotation, residual = None, float(bent)
    tower, index = _place(plain.module)
    heads, head_dim = plain.q.shape[1], plain.q.shape[-1]
    return MeasuredLayer(
        plain.module, tower, index, heads, head_dim, at, maps, residual, rotation, growth, factor, scores
    )


def _source(plain: Attention, rotation: Rotation | None) -> tuple[list[int], float | None]:
    """The order in which a layer pairs its channels for rotation, and its factor if it can be measured."""
    B, H, T, D = plain.q.shape
    rotated = [] if rotation is None else [channel for pair in rotation.pairs for channel in pair]
    first = plain.q[:, :, 0].flatten(0, 1)
    for x in reversed(plain.inputs):
        rows = x.reshape(B, T, -1)[:, 0]
        forms = [rows[:, : H * D].unflatten(-1, (H, D))]  # alone, or before keys and values
        if x.numel() == plain.q.numel():
            forms.append(x.reshape(B, H, T, D)[:, :, 0])
        elif rows.shape[-1] % H == 0:  # joined head by head
            forms.append(rows.unflatten(-1, (H, -1))[..., :D])
        for before in forms:
            known = source(first, before.flatten(0, 1).float(), rotated)
            if known is not None:
                return known
    return list(range(D)), None


def _place(module: str) -> tuple[str, int]:
    """The tower that a module belongs to and its index in it, from its path."""
    match = re.match(r"(.*?)\.?(?:\w*(?:layers?|blocks?|h|groups?|stages?))\.(\d+)\b", module)
    return (match[1], int(match[2])) if match else (module, 0)


def tables_of(plain: Recording) -> list[tuple[Table, Tensor]]:
    """Tables whose rows were read in order, one per token, with the rows read."""
    tables = []
    for name, table, index in plain.lookups:
        row = index.reshape(-1, index.shape[-1])[0] if index.dim() else index
        if row.numel() == 1 or not bool((row.diff() == 1).all()) or table.dim() != 2:
            continue
        fixed = None if table.requires_grad else table.detach().float()
        tables.append((Table(name, len(table), table.shape[1], int(row[0]), table.requires_grad, fixed=fixed), row))
    return tables
