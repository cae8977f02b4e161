"""``measure``: what every layer of a model does with positions, found by asking the model.

The same tokens are given at position 0 and at positions p; queries at p are then R·queries at 0, and least squares
over a few hundred of them give R whole: which channels pair, how many turn, how fast, which layers do not.
"""

import copy
import inspect
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.measuring.maps import Scores, Turning, fitted, scores_of, source, turning
from posenc.integrations.huggingface.measuring.record import Attention, Recording, recorded
from posenc.integrations.huggingface.measuring.shrink import NoTokens, built, opened, shrunk
from posenc.integrations.huggingface.tower import text_config

POSITIONS = (0, 1, 2, 5, 13, 34, 89, 233, 610, 1597, 4181, 10946, 28657)
"""Where rotations are asked for: close enough together that no frequency below one radian can be mistaken."""
TOKENS, DECODED = 13, 11
"""Tokens of a text, and of a decoder beside it, so that one attends over itself and not over the other."""
EXACT = 1e-4
"""The share of queries that rounding may leave over where a map explains them."""
READ = 23
"""Tokens of the texts that windows and biases are read from."""


@dataclass(frozen=True)
class MeasuredLayer:
    """One attention layer.

    Args:
        module: where it is in the model.
        tower, index: the part of the model that it belongs to, and its number there.
        heads, head_dim: of the queries as they are multiplied.
        positions: those that ``maps`` are of.
        maps: how queries at every position come from those at the first, ``(P, D, D)``; None where the model could
            not be asked.
        residual: the share of the queries that no map explains.
        turning: the pairs that turn; None where none does.
        growth: what the length of what turns or stands still is multiplied by at every position: a query scale.
        factor: what cos and sin are multiplied by; None where it does not show.
        scores: scale, bias and sight.
    """

    module: str
    tower: str
    index: int
    heads: int
    head_dim: int
    positions: tuple[int, ...]
    maps: Float[Tensor, "P D D"] | None
    residual: float
    turning: Turning | None
    growth: tuple[float, ...]
    factor: float | None
    scores: Scores | None

    @property
    def exact(self) -> bool:
        """Whether one map per position explains the queries, so that nothing else of them depends on it."""
        return self.maps is not None and self.residual < EXACT

    @property
    def has_positions(self) -> bool:
        """Whether positions do anything in this layer itself; what was added to its tokens is not its own."""
        bias = self.scores is not None and (self.scores.bias is not None or self.scores.follows_content)
        return bias or (self.exact and self.turning is not None)

    def describe(self) -> str:
        """What it does, in a few words."""
        told = []
        if self.maps is None:
            told.append("not asked")
        elif not self.exact:
            told.append("queries depend on positions in another way than by turning")
        elif self.turning is not None:
            own = self.turning
            how = f"{len(own.pairs)} {own.pairing} pairs of {self.head_dim} channels turn"
            told.append(f"{how} by {own.frequencies[0]:.4g} to {own.frequencies[-1]:.4g}")
        if self.exact and max(self.growth) > 1 + 1e-4:
            told.append("queries grow with their positions")
        if self.factor is not None and abs(self.factor - 1) > 1e-4:
            told.append(f"factor {self.factor:.4g}")
        scores = self.scores
        if scores is not None:
            told += ["a bias on scores"] * (scores.bias is not None)
            told += ["a bias that reads tokens"] * scores.follows_content
            told += [f"a window of {scores.window}"] * (scores.window is not None) + ["chunks"] * scores.chunked
        return ", ".join(told) or "no positions"


@dataclass(frozen=True)
class Table:
    """A table of positions that was looked up: where, its rows, and the row of position 0."""

    module: str
    rows: int
    width: int
    first: int
    trained: bool

    def describe(self) -> str:
        return f"a {'trained' if self.trained else 'fixed'} table of {self.rows - self.first} rows"


@dataclass(frozen=True)
class Measured:
    """What was measured, and the config of the model that it was measured in."""

    layers: tuple[MeasuredLayer, ...]
    tables: tuple[Table, ...]
    config: Any = field(repr=False)

    @property
    def has_positions(self) -> bool:
        return bool(self.tables) or any(layer.has_positions or not layer.exact for layer in self.layers)

    def describe(self) -> str:
        """What it has, kinds of layers with how many of each, in one line."""
        kinds = Counter(f"{layer.tower.rpartition('.')[2]}: {layer.describe()}" for layer in self.layers)
        alone = len({layer.tower for layer in self.layers}) < 2
        told = [f"{count} × {kind.partition(': ')[2] if alone else kind}" for kind, count in kinds.items()]
        return "; ".join([*(table.describe() for table in self.tables), *told])


def measure(model: Any) -> Measured:
    """The positions of every layer of ``model``, measured.

    Args:
        model: a loaded transformers model, also one of remote code; or a config, or the path of one or of its
            folder, of which a small random model with the same heads is built. Windows show up to 23 tokens, and
            those of a config are shrunk to 5.

    Raises:
        InvalidArgument: the model cannot be built or run on token ids, and why.
    """
    if not isinstance(model, nn.Module):
        model = _random(model)
    with torch.no_grad(), _Stepwise(model):
        return _Asked(model).result()


def _random(config: Any) -> nn.Module:
    """A small random model of a config; widths stay where shrinking them breaks it."""
    if isinstance(config, str | Path):
        config = opened(config)
    if isinstance(config, Mapping) or not hasattr(config, "to_dict"):
        raise InvalidArgument(f"config is a {type(config).__name__}; load it first: AutoConfig.from_pretrained(…)")
    text = text_config(config)
    attempts = [(config, True), (config, False)] + [(text, True), (text, False)] * (text is not config)
    reasons: list[str] = []
    for own, widths in attempts:
        try:
            model = built(type(own).from_dict(shrunk(copy.deepcopy(own.to_dict()), widths=widths)))
            with torch.no_grad():
                _Asked(model).run(torch.arange(4, 4 + TOKENS)[None], None, TOKENS)
            return model
        except NoTokens as error:
            if own is text:
                raise InvalidArgument(f"{type(config).__name__}: {error}") from error
        except Exception as error:  # whatever a model's code raises for sizes that it was not made for
            reasons.append(f"{type(error).__name__}: {(str(error).strip() or '-').splitlines()[0]}")
    why = reasons[0][:200] if reasons else "no part of it takes token ids"
    raise InvalidArgument(f"{type(config).__name__} cannot be built small and run here ({why})")


class _Stepwise:
    """Inside, attention is computed by torch's own functions, which the recorder stands at."""

    def __init__(self, model: Any) -> None:
        self.model, self.before = model, getattr(getattr(model, "config", None), "_attn_implementation", None)

    def __enter__(self) -> None:
        if self.before not in ("eager", "sdpa", None):
            self.model.set_attn_implementation("eager")

    def __exit__(self, *_: object) -> None:
        if self.before not in ("eager", "sdpa", None):
            self.model.set_attn_implementation(self.before)


class _Asked:
    """One model being asked."""

    def __init__(self, model: Any) -> None:
        self.model, self.config = model, model.config
        self.device = next(model.parameters()).device
        takes = inspect.signature(model.forward).parameters
        if "input_ids" not in takes:
            raise InvalidArgument(f"{type(model).__name__} takes {next(iter(takes), 'nothing')}, no token ids")
        self.decodes = "decoder_input_ids" in takes
        self.told = "position_ids" in takes and not self.decodes
        text = text_config(self.config)
        self.longest = getattr(text, "max_position_embeddings", None) or getattr(text, "n_positions", None) or 512
        self.vocabulary = min(int(getattr(text, "vocab_size", None) or 64), 300)

    def run(self, ids: Tensor, positions: Tensor | None, length: int) -> Recording:
        given: dict[str, Any] = {"input_ids": ids.to(self.device)}
        if self.decodes:
            given["decoder_input_ids"] = ids[:, :DECODED].to(self.device)
        if positions is not None:
            given["position_ids"] = positions.to(self.device)
        elif "use_cache" in inspect.signature(self.model.forward).parameters:
            given["use_cache"] = False
        tokens = given["decoder_input_ids"] if length == DECODED else given["input_ids"]
        with recorded(self.model, len(ids), length, tokens) as found:
            self.model(**given)
        return found

    def result(self) -> Measured:
        layers: list[MeasuredLayer] = []
        tables: dict[str, Table] = {}
        for length in (TOKENS, DECODED) if self.decodes else (TOKENS,):
            long = READ if length == TOKENS else TOKENS
            plain = self.run(self.tokens(6, long), None, READ if length == TOKENS else length)
            here = self.layers(plain, *self.moved(plain, length))
            if self.told and any(layer.exact and layer.turning is None for layer in here):
                here = self.counted(plain, here)
            layers += here
            tables |= {table.module: table for table in _tables(plain)}
        return Measured(tuple(layers), tuple(tables.values()), self.config)

    def layers(self, plain: Recording, moved: list[Attention], at: tuple[int, ...]) -> list[MeasuredLayer]:
        fits = [one.module for one in moved] == [one.module for one in plain.attentions]
        twins: list[Attention | None] = [*moved] if fits else [None] * len(plain.attentions)
        return [_layer(one, twin, at) for one, twin in zip(plain.attentions, twins, strict=True)]

    def counted(self, plain: Recording, here: list[MeasuredLayer]) -> list[MeasuredLayer]:
        """Layers that do not follow position ids may still count tokens: those are asked that way."""
        others = self.layers(plain, *self.running(plain, TOKENS))
        return [b if a.turning is None and b.exact else a for a, b in zip(here, others, strict=True)]

    def tokens(self, rows: int, length: int) -> Tensor:
        draw = torch.Generator().manual_seed(rows)
        return torch.randint(4, self.vocabulary, (rows, length), generator=draw)

    def moved(self, plain: Recording, length: int) -> tuple[list[Attention], tuple[int, ...]]:
        """The same tokens at every position, as attentions whose rows are positions."""
        if not plain.attentions:
            return [], ()
        most = max(x.q.shape[-1] / (x.q.shape[1] * length) for x in plain.attentions)
        rows = int(2 * most) + 1
        if self.told:
            at = tuple(p for p in POSITIONS if p < self.longest)
            ids = self.tokens(rows, length).repeat(len(at), 1)
            where = torch.tensor(at).repeat_interleave(rows)[:, None].expand(-1, length)
            try:
                found = self.run(ids, where.contiguous(), length)
                return [_by_row(x, len(at)) for x in found.attentions], at
            except Exception:  # position ids are taken in another form than it says
                pass
        return self.running(plain, length)

    def running(self, plain: Recording, length: int) -> tuple[list[Attention], tuple[int, ...]]:
        """One token repeated, at positions counted by the model."""
        rows = int(2 * max(x.q.shape[-1] / x.q.shape[1] for x in plain.attentions)) // length + 1
        each = torch.randperm(self.vocabulary - 4, generator=torch.Generator().manual_seed(0))[: rows * length] + 4
        ids = each[:, None].expand(-1, TOKENS).contiguous()
        found = self.run(ids, None, length)
        return [_by_token(x) for x in found.attentions], tuple(range(length))


def _by_row(one: Attention, count: int) -> Attention:
    """Rows are positions already; all tokens and heads of one are samples."""
    q, k = (x.unflatten(0, (count, -1)).permute(0, 2, 1, 3, 4).flatten(2, 3) for x in (one.q, one.k))
    return Attention(one.module, q, k, one.scores, one.inputs)


def _by_token(one: Attention) -> Attention:
    """A token repeated stands at every position in turn; rows and heads are samples."""
    q, k = (x.permute(2, 1, 0, 3) for x in (one.q, one.k))
    return Attention(one.module, q, k, one.scores, ())


def _layer(plain: Attention, moved: Attention | None, at: tuple[int, ...]) -> MeasuredLayer:
    scores = scores_of(plain.q, plain.k, plain.scores)
    maps, residual, found, factor = None, float("inf"), None, None
    growth: tuple[float, ...] = ()
    if moved is not None:
        q = moved.q.flatten(1, 2)
        maps, residual = fitted(q[0], q)
        growth = tuple(float(x) for x in maps.square().sum((-1, -2)).div(maps.shape[-1]).sqrt())
    if maps is not None and residual < EXACT:
        plainly = maps / torch.tensor(growth)[:, None, None]
        order, factor = _source(plain, turning(plainly, at))
        back = torch.tensor(order).argsort()
        maps = maps[:, back][:, :, back]
        found = turning(plainly[:, back][:, :, back], at)
    tower, index = _place(plain.module)
    heads, head_dim = plain.q.shape[1], plain.q.shape[-1]
    return MeasuredLayer(
        plain.module, tower, index, heads, head_dim, at, maps, residual, found, growth, factor, scores
    )


def _source(plain: Attention, found: Turning | None) -> tuple[list[int], float | None]:
    """The order in which a layer takes its channels up before it turns them, and its factor where that shows."""
    B, H, T, D = plain.q.shape
    turned = [] if found is None else [channel for pair in found.pairs for channel in pair]
    first = plain.q[:, :, 0].flatten(0, 1)
    for x in reversed(plain.inputs):
        for before in (x.reshape(B, T, H, D)[:, 0], x.reshape(B, H, T, D)[:, :, 0]):
            known = source(first, before.flatten(0, 1).float(), turned)
            if known is not None:
                return known
    return list(range(D)), None


def _place(module: str) -> tuple[str, int]:
    """The tower of a module and its number there, from its path."""
    match = re.match(r"(.*?)\.?(?:\w*(?:layers?|blocks?|h|groups?|stages?))\.(\d+)\b", module)
    return (match[1], int(match[2])) if match else (module, 0)


def _tables(plain: Recording) -> list[Table]:
    """Tables whose rows were read in order, one a token."""
    found = []
    for name, table, index in plain.lookups:
        row = index.reshape(-1, index.shape[-1])[0] if index.dim() else index
        if row.numel() == 1 or not bool((row.diff() == 1).all()) or table.dim() != 2:
            continue
        found.append(Table(name, len(table), table.shape[1], int(row[0]), table.requires_grad))
    return found
