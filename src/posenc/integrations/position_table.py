"""The effective position table: all that a program makes of a file about positions, as plain numbers to compare.

    from posenc.integrations import huggingface, position_table

    ours = position_table.of(huggingface.read("model/config.json"))
    theirs = vllm.read(config, "0.33.0")
    for difference in position_table.differences(ours, theirs):
        print(difference)

Two programs that run one checkpoint with different tables compute different scores: by nothing at position 0, and
by more the further apart two tokens are, so that no short text shows it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc.encodings.text import value_text
from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.model_positions import ModelPositions, softmax_factor
from posenc.scaling import LengthScaling, Scaling, planned, to_dict

BLOCK = 8192
"""Positions of two tables that are compared at a time."""
CLOSE = 2.0**-21
"""Eight roundings of float32, which a frequency may have behind it in a file or a program."""


@dataclass(frozen=True)
class LayerTable:
    """What the layers of one type do with positions.

    A pair of channels turns by p·θ at position p, and cos and sin are multiplied by the attention factor a. Scores
    are q·k·softmax_factor/√D.

    Args:
        encoding: ``"rotary"``, ``"nope"``, or the text of another encoding, by the grammar of ``posenc.encoding``.
        base, scaling: where the frequencies come from, for words alone; None without rotation.
        frequencies: θ of every pair in radians a position, exact and then rounded to float64.
        float32: the same as programs compute them in float32.
        attention_factor: a.
        softmax_factor: what 1/√D is multiplied by: DeepSeek's second number.
        pairing: ``"half"`` for pairs (i, i + d/2), ``"interleaved"`` for (2i, 2i + 1), by the checkpoint's rows;
            None without rotation, or where it is not known, which differs from nothing.
        head_dim: D, channels of a head, or of the part of it that rotates in latent attention.
        rotary_dim: d, channels that rotate, the first of the head.
        axes: the axis of every pair, all 0 where positions have one axis.
        window: how many tokens a token sees, itself included; None for all.
        chunk: tokens of a chunk, where a token sees its own alone.
        query_scale: the text of the scale of queries that acts besides.
    """

    encoding: str = "rotary"
    base: float | None = None
    scaling: str | None = None
    frequencies: tuple[float, ...] = ()
    float32: tuple[float, ...] = ()
    attention_factor: float = 1.0
    softmax_factor: float = 1.0
    pairing: str | None = None
    head_dim: int | None = None
    rotary_dim: int | None = None
    axes: tuple[int, ...] = ()
    backwards: bool = False
    window: int | None = None
    chunk: int | None = None
    query_scale: str | None = None

    @property
    def sections(self) -> tuple[int, ...]:
        """How many pairs rotate by every axis."""
        return tuple(self.axes.count(axis) for axis in range(max(self.axes, default=-1) + 1))

    def cos(self, positions: Int[Tensor, " P"]) -> Float[Tensor, "P D"]:
        """What cos multiplies every channel of a head by at these positions, the attention factor included."""
        frequencies = torch.tensor(self.frequencies, dtype=torch.float64)
        cos = self.attention_factor * torch.outer(positions.double(), frequencies).cos()
        rotated = cos.repeat_interleave(2, 1) if self.pairing == "interleaved" else torch.cat((cos, cos), 1)
        return nn.functional.pad(rotated, (0, max(0, (self.head_dim or 0) - rotated.shape[1])), value=1.0)

    def score(self, distance: int) -> float:
        """The score of a fixed query and the same key so many tokens before it, in nats.

        x_c = √2·sin((c + 1)²) for c = 0 … D−1, whose entries have a variance of about 1:
        softmax_factor/√D · Σ_c x_c²·m_c, where m_c is a²·cos(distance·θ) for channels that rotate, 1 for others.
        """
        if not self.frequencies:
            return 0.0
        cos: list[float] = self.cos(torch.tensor([distance]))[0].tolist()
        turned = [self.attention_factor * one for one in cos[: 2 * len(self.frequencies)]]
        each = [*turned, *cos[len(turned) :]]
        total = sum(2 * math.sin((c + 1) ** 2) ** 2 * one for c, one in enumerate(each))
        return self.softmax_factor * total / math.sqrt(len(each))


@dataclass(frozen=True)
class PositionTable:
    """What a program makes of a file about positions; made by ``of`` and by each program's ``read``.

    Args:
        model_type: the family's name in Hugging Face, or llama.cpp's of its architecture.
        layers: one table per layer type.
        layer_types: the type of every layer, first to last.
        pretrained_length: the trained length before any scaling; None where a file does not say it.
        tuned_length: the length that the model was released for.
        admitted_length: the longest input that is let in.
        program: who computes this, with its version; empty for what the file itself says.
        notes: what was assumed, and what the program passes over.
    """

    model_type: str
    layers: Mapping[str, LayerTable]
    layer_types: tuple[str, ...]
    pretrained_length: int | None
    tuned_length: int
    admitted_length: int
    program: str = field(default="", compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)


def of(
    positions: ModelPositions,
    *,
    length: int | None = None,
    admitted: int | None = None,
    program: str = "",
    notes: Sequence[str] = (),
) -> PositionTable:
    """The table of what was read of a config.

    Args:
        positions: what ``huggingface.read`` returned.
        length: prompt and answer together, where a scaling depends on it; default the longest input let in.
        admitted: the longest input let in; default what the config allows.
        program, notes: of the table; to the notes comes what was assumed.
    """
    types, admitted = positions.types_by_window, admitted or positions.max_length
    windows = dict(zip(types, positions.windows, strict=True))
    kinds = dict(zip(types, positions.layer_types, strict=True))
    return PositionTable(
        model_type=positions.model_type,
        layers={name: _layer(positions, kind, windows[name], length or admitted) for name, kind in kinds.items()},
        layer_types=types,
        pretrained_length=positions.original_length,
        tuned_length=positions.tuned_length,
        admitted_length=admitted,
        program=program,
        notes=(*positions.assumed, *notes),
    )


def _layer(positions: ModelPositions, kind: str, window: int | None, length: int) -> LayerTable:
    recipe, scale = positions.recipes[kind], positions.scales.get(kind)
    chunk = positions.chunk if kind in positions.rotary_recipes else None
    others: dict[str, Any] = {"window": window, "chunk": chunk, "query_scale": scale and str(scale)}
    if kind not in positions.rotary_recipes:
        return LayerTable(encoding=str(recipe), softmax_factor=softmax_factor(recipe), **others)
    rotary_dim, base, axes, now = (recipe.get(name) for name in ("rotary_dim", "base", "axes", "scaling"))
    spectrum = planned(now, length).frequencies(rotary_dim, base)
    return LayerTable(
        base=base,
        scaling=briefly(now) + (f" for {length:,} tokens" if isinstance(now, LengthScaling) else ""),
        frequencies=tuple(float(theta) for theta in spectrum.exact),
        float32=tuple(spectrum.float32),
        attention_factor=spectrum.attention_factor,
        softmax_factor=softmax_factor(recipe),
        pairing=recipe.get("pairing"),
        head_dim=recipe.get("head_dim"),
        rotary_dim=rotary_dim,
        backwards=bool(recipe.get("backwards")),
        axes=(0,) * len(spectrum.exact) if axes is None else tuple(axes.axis_of_pair),
        **others,
    )


def briefly(scaling: Scaling | LengthScaling) -> str:
    """The text of a scaling without what it has by default."""
    stated = {f.name: getattr(scaling, f.name) for f in fields(scaling)}  # type: ignore[arg-type]
    short = {f.name for f in fields(scaling) if f.default != stated[f.name]}  # type: ignore[arg-type]
    stated |= {name: (*value[:2], "…") for name, value in stated.items() if isinstance(value, tuple)}
    inside = ", ".join(f"{name}={value_text(stated[name])}" for name in stated if name in short)
    return f"{to_dict(scaling)['scaling']}({inside})"


@dataclass(frozen=True)
class Error:
    """How far two tables are apart at a position.

    Args:
        position: where a token stands, or how far behind its query.
        cos: the largest error of cos over the channels of a head, attention factor included.
        score: the difference of ``LayerTable.score``, in nats.
    """

    position: int
    cos: float
    score: float


@dataclass(frozen=True)
class Difference:
    """One thing in which two tables differ.

    Args:
        what: a field of ``LayerTable`` or ``PositionTable``.
        layer_type: where; None for the whole model.
        ours, theirs: both values.
        text: the difference in a sentence.
        errors: what it does to cos and scores at the positions that were asked for, together with what else
            differs in this layer type; empty where it does nothing to them.
    """

    what: str
    layer_type: str | None
    ours: Any
    theirs: Any
    text: str
    errors: tuple[Error, ...] = ()

    def __str__(self) -> str:
        worst = max(self.errors, key=lambda error: error.cos, default=None)
        apart = f"; cos off by {worst.cos:.2g} at position {worst.position}" if worst else ""
        return f"{self.layer_type}: {self.text}{apart}" if self.layer_type else f"{self.text}{apart}"


LENGTHS = {
    "pretrained_length": "the pretrained length is",
    "tuned_length": "the length that it was tuned to is",
    "admitted_length": "the longest input let in is",
}
FIELDS = {
    "encoding": "the encoding is",
    "attention_factor": "cos and sin are multiplied by",
    "softmax_factor": "1/√D is multiplied by",
    "pairing": "pairs are",
    "head_dim": "channels of a head:",
    "rotary_dim": "channels that rotate:",
    "axes": "the axis of every pair:",
    "backwards": "pairs turn backwards:",
    "window": "tokens that a token sees, itself included:",
    "chunk": "tokens of a chunk:",
    "query_scale": "the scale of queries is",
}


def differences(
    ours: PositionTable,
    theirs: PositionTable,
    positions: Sequence[int] | None = None,
    names: tuple[str, str] = ("ours", "theirs"),
) -> list[Difference]:
    """All in which two tables differ, layer types first, then lengths; none for equal ones.

    Layers are compared by their number, whatever their types are called. Frequencies differ where they are further
    apart than eight roundings of float32.

    Args:
        positions: where errors are asked for; default 0, L/2, L and 4·L for our pretrained length L.
        names: what the sentences call the two.
    """
    length = ours.pretrained_length or ours.admitted_length
    at = (0, length // 2, length, 4 * length) if positions is None else tuple(positions)
    if any(p < 0 for p in at):
        raise InvalidArgument(f"positions={list(at)} must be 0 or more; leave the others out")
    result: list[Difference] = []

    def add(what: str, layer_type: str | None, values: tuple[Any, Any], text: str, errors: Any = ()) -> None:
        sentence = f"{text} {_words(values[0])} in {names[0]}, {_words(values[1])} in {names[1]}"
        result.append(Difference(what, layer_type, *values, sentence, errors))

    both = list(dict.fromkeys(zip(ours.layer_types, theirs.layer_types, strict=False)))
    for one, other in both:
        first, second = ours.layers[one], theirs.layers[other]
        errors = _errors(first, second, at)
        if text := _frequencies(first, second):
            values = (_origin(first), _origin(second))
            add("frequencies", one, values, text, errors)
        for what, text in FIELDS.items():
            values = (getattr(first, what), getattr(second, what))
            pairs = (len(first.frequencies), len(second.frequencies))
            if (what in ("pairing", "axes", "rotary_dim") and not all(pairs)) or (
                what == "axes" and len(set(pairs)) > 1
            ):
                continue
            if what == "pairing" and None in values:
                continue
            if not _same(*values):
                add(what, one, values, text, errors if what in TURNING else ())
    if len(ours.layer_types) != len(theirs.layer_types):
        add("layer_types", None, (len(ours.layer_types), len(theirs.layer_types)), "layers:")
    for what, text in LENGTHS.items():
        values = (getattr(ours, what), getattr(theirs, what))
        if values[0] != values[1] and None not in values:
            add(what, None, values, text)
    return result


def parting(target: PositionTable, draft: PositionTable, above: float = 0.01) -> str:
    """Where a draft model's positions part from those of the model that it drafts for, in a sentence.

    Args:
        above: the difference of cos, over the channels of a head, from which on they are called apart.
    """
    both = [
        (layer, other)
        for name, layer in target.layers.items()
        for other in ([draft.layers[name]] if name in draft.layers else draft.layers.values())
    ]
    pairs = [(one, other) for one, other in both if one != other and _turn(one, other)]
    reach = min(target.admitted_length, draft.admitted_length)
    for at in torch.arange(reach).split(BLOCK):
        apart = [(one.cos(at) - other.cos(at)).abs().amax(1) > above for one, other in pairs]
        if apart and bool((anywhere := torch.stack(apart).any(0)).any()):
            first = int(at[anywhere][0])
            return f"they part at position {first:,}, where cos differs by more than {above:g}"
    if draft.admitted_length < target.admitted_length:
        return f"the draft has no position {reach:,}, and its target has {target.admitted_length:,}"
    return f"cos differs by at most {above:g} up to position {reach - 1:,}"


TURNING = ("attention_factor", "softmax_factor", "pairing", "rotary_dim")
"""The fields that change cos or scores of a text."""


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=CLOSE)
    return bool(one == other)


def _frequencies(first: LayerTable, second: LayerTable) -> str:
    """How many frequencies differ and by how much, in words; empty where they are the same."""
    if not first.frequencies or not second.frequencies:
        return ""
    if len(first.frequencies) != len(second.frequencies):
        return "" if _origin(first) == _origin(second) else "frequencies are those of"
    pairs = list(zip(first.frequencies, second.frequencies, strict=True))
    off = [(one, other) for one, other in pairs if not math.isclose(one, other, rel_tol=CLOSE)]
    if not off:
        return ""
    most = max(max(one, other) / min(one, other) if min(one, other) else math.inf for one, other in off)
    return f"frequencies of {len(off)} of {len(pairs)} pairs differ, by up to {most:.4g} times:"


def _origin(layer: LayerTable) -> str:
    return f"base {layer.base:.10g}, {layer.scaling}" if layer.base else f"{layer.scaling}"


def _turn(first: LayerTable, second: LayerTable) -> bool:
    """Whether both rotate, in heads of one size, so that their channels may be compared."""
    return bool(first.frequencies and second.frequencies) and first.head_dim == second.head_dim


def _errors(first: LayerTable, second: LayerTable, at: Sequence[int]) -> tuple[Error, ...]:
    if not _turn(first, second):
        return ()
    pairing = first.pairing or second.pairing  # that of the other, where one is not known
    first, second = (
        replace(first, pairing=first.pairing or pairing),
        replace(second, pairing=second.pairing or pairing),
    )
    positions = torch.tensor(at, dtype=torch.int64)
    apart = (first.cos(positions) - second.cos(positions)).abs().amax(1).tolist()
    return tuple(Error(p, off, abs(first.score(p) - second.score(p))) for p, off in zip(at, apart, strict=True))


def _words(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.7g}"
    text = "none" if value is None else f"{value:,}" if type(value) is int else str(value)
    return text if len(text) <= 100 else f"{text[:99]}…"
