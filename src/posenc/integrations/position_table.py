"""The position table: the positional encoding that a program computes from a file, in numbers, so that programs and
files can be compared.

from posenc.integrations import huggingface, position_table

table = position_table.of(huggingface.read("model/config.json"))
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from posenc.arguments import at_least, instance
from posenc.encodings.catalogue import ModelShape, build
from posenc.encodings.rotary import Rotary
from posenc.encodings.text import value_text
from posenc.scaling import Default, DynamicNTK, LengthScaling, LongRoPE, Scaling, to_dict

if TYPE_CHECKING:  # that package measures models as tables
    from posenc.integrations.huggingface.model_positions import ModelPositions


@dataclass(frozen=True)
class LayerTable:
    """The positional encoding of the layers of one type.

    A pair of channels rotates by p·θ at position p, and cos and sin are multiplied by the attention factor a.
    Scores are s = q·k·softmax_factor/√D, or c·tanh(s/c) with a softcap of c; in latent attention, D here is
    ``query_dim``.

    Args:
        encoding: ``"rotary"``, ``"nope"``, or the string of another encoding, as in ``posenc.encoding``.
        base: the base of the frequencies; None without rotation.
        scaling: the scaling as text; None without rotation. ``base``, ``scaling``, ``unscaled``,
            ``own_attention_factor`` and ``softmax_origin`` are used only to describe the table in words.
        frequencies: θ of every pair in radians per position, computed exactly and rounded to float64.
        float32: θ of every pair, computed in float32 as programs do.
        unscaled: θ without the scaling.
        attention_factor: the factor a of cos and sin.
        own_attention_factor: the scaling's default attention factor, if the file gives a different factor.
        softmax_factor: the factor on 1/√D, from DeepSeek's mscale_all_dim or the family's own scale.
        softmax_origin: the config key that sets ``softmax_factor``, or another origin in words; empty if there is
            none.
        softcap: the cap c of scores; None if scores are not capped.
        sinks: whether every head has a trained sink, a score without a value, in its softmax.
        pairing: which output channels of the checkpoint's query and key projections form a pair: (i, i + d/2) with
            ``"half"``, (2i, 2i + 1) with ``"interleaved"``. The pairing is None without rotation or if it is
            unknown; None counts as equal to any pairing.
        head_dim: D, the number of channels of a head or, in latent attention, of the part of a head that rotates.
        rotary_dim: d, the number of channels that rotate, which are the first of the head.
        query_dim: the number of channels of a query in latent attention, where only the last D channels rotate;
            else None.
        axes: the axis of every pair; all 0 if positions have one axis.
        backwards: whether pairs rotate by −p·θ.
        signed: whether positions may be negative.
        window: the number of tokens that a token sees, including itself; None for all tokens.
        window_after: the number of later tokens that a token sees if there is a window.
        chunk: the number of tokens per chunk, if a token sees only its own chunk.
        query_scale: a second encoding, which scales queries by their positions, as a string like ``encoding``; None
            if there is none.
        added_table: the table that a vision tower adds to its patches, as a string like ``encoding``; None if there
            is none.
    """

    encoding: str = "rotary"
    base: float | None = None
    scaling: str | None = None
    frequencies: tuple[float, ...] = ()
    float32: tuple[float, ...] = ()
    unscaled: tuple[float, ...] = ()
    attention_factor: float = 1.0
    own_attention_factor: float | None = None
    softmax_factor: float = 1.0
    softmax_origin: str = ""
    softcap: float | None = None
    sinks: bool = False
    pairing: str | None = None
    head_dim: int | None = None
    rotary_dim: int | None = None
    query_dim: int | None = None
    axes: tuple[int, ...] = ()
    backwards: bool = False
    signed: bool = False
    window: int | None = None
    window_after: int = 0
    chunk: int | None = None
    query_scale: str | None = None
    added_table: str | None = None

    @property
    def sections(self) -> tuple[int, ...]:
        """The number of pairs per axis."""
        return tuple(self.axes.count(axis) for axis in range(max(self.axes, default=-1) + 1))

    def cos(self, positions: Int[Tensor, " P"]) -> Float[Tensor, "P D"]:
        """Return cos for every channel of a head at these positions, multiplied by the attention factor."""
        frequencies = torch.tensor(self.frequencies, dtype=torch.float64)
        cos = self.attention_factor * torch.outer(positions.double(), frequencies).cos()
        rotated = cos.repeat_interleave(2, 1) if self.pairing == "interleaved" else torch.cat((cos, cos), 1)
        return nn.functional.pad(rotated, (0, max(0, (self.head_dim or 0) - rotated.shape[1])), value=1.0)

    def score(self, distance: int) -> float:
        """Return the score, in nats, of a fixed query x and an equal key at this distance before the query.

        The query is x_c = √2·sin((c + 1)²) for c = 0 … D−1, whose entries have a variance of about 1. The score is
        softmax_factor/√D · Σ_c x_c²·m_c, where m_c is a²·cos(distance·θ) for channels that rotate and 1 for others.
        In latent attention, D under the root is ``query_dim``, but the query has only the channels that rotate.
        """
        if not self.frequencies:
            return 0.0
        factors = self.cos(torch.tensor([distance]))[0]
        factors[: 2 * len(self.frequencies)] *= self.attention_factor
        squares = 2 * (torch.arange(1, len(factors) + 1, dtype=torch.float64) ** 2).sin() ** 2
        return self.softmax_factor * float(squares @ factors) / math.sqrt(self.query_dim or len(factors))


@dataclass(frozen=True)
class PositionTable:
    """The positional encoding that a program computes from a file, as returned by ``of`` and by each program's
    ``read``.

    Args:
        model_type: the family's name in Hugging Face, or the name of its architecture in llama.cpp.
        layers: one table per layer type.
        layer_types: the type of every layer, first to last.
        pretrained_length: the trained length before any scaling; None if the file does not give it.
        tuned_length: the length that the released model supports: the longest input that the config allows if
            there is a scaling, else the trained length.
        admitted_length: the longest input that the program allows or, for the file itself, that the config allows.
        encoder_length: the number of positions in an encoder's own table; None if the config does not give it.
        layout: the order of a vision tower's patches, as a name in ``attention_layouts.LAYOUTS``; empty for text.
        program: the program that computes this table, with its version; empty for the file itself.
        notes: assumptions, and keys that the program ignores.
        not_asked: the part of the program that was not checked; empty if everything was checked.
        short: the table for requests up to the original length, if a scaling depends on the length.
    """

    model_type: str
    layers: Mapping[str, LayerTable]
    layer_types: tuple[str, ...]
    pretrained_length: int | None
    tuned_length: int
    admitted_length: int
    encoder_length: int | None = None
    layout: str = ""
    program: str = field(default="", compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)
    not_asked: str = field(default="", compare=False)
    short: "PositionTable | None" = None

    def with_layers(self, change: Callable[[LayerTable], LayerTable]) -> "PositionTable":
        """Return the table with every layer changed, including the layers of ``short``."""
        return replace(
            self,
            layers={name: change(layer) for name, layer in self.layers.items()},
            short=self.short and self.short.with_layers(change),
        )


def of(
    positions: "ModelPositions",
    *,
    length: int | None = None,
    admitted: int | None = None,
    program: str = "",
    notes: Sequence[str] = (),
) -> PositionTable:
    """Return the position table of a config.

    Args:
        positions: a model's position settings, as returned by ``huggingface.read``.
        length: the length of prompt and answer together, if a scaling depends on the length. The default is
            ``admitted``.
        admitted: the longest input that the program allows. The default is the longest input that the config
            allows.
        program: the program that computes the table, with its version.
        notes: notes for the table, which follow the assumptions of ``positions``.
    """
    from posenc.integrations.huggingface.model_positions import AS_READ, ModelPositions

    instance(positions, ModelPositions, "positions", AS_READ)
    types, admitted = positions.types_by_window, admitted or positions.max_length
    longest = admitted if length is None else at_least(1)(length, "length")
    original = min(
        (
            now.original_length
            for recipe in positions.rotary_recipes.values()
            if isinstance(now := recipe.get("scaling"), LongRoPE | DynamicNTK)
        ),
        default=longest,
    )
    return PositionTable(
        model_type=positions.model_type,
        layers={
            name: _layer(positions, kind, window, longest)
            for name, kind, window in dict.fromkeys(
                zip(types, positions.layer_types, positions.windows, strict=True)
            )
        },
        layer_types=types,
        pretrained_length=positions.original_length,
        tuned_length=positions.tuned_length,
        admitted_length=admitted,
        encoder_length=positions.source.get("max_source_positions"),
        layout=positions.layout or "",
        program=program,
        notes=(*positions.assumed, *notes),
        short=of(positions, length=original, admitted=original) if original < longest else None,
    )


def _layer(positions: "ModelPositions", kind: str, window: int | None, length: int) -> LayerTable:
    from posenc.integrations.huggingface.families import FAMILIES
    from posenc.integrations.huggingface.model_positions import softmax_factor

    recipe, scale, family = positions.recipes[kind], positions.scales.get(kind), FAMILIES[positions.model_type]
    factor, added = softmax_factor(recipe), positions.added_table
    origin = "hard-coded in the model" if family.fixed_score_scale else family.score_scale or "mscale_all_dim"
    cap = family.softcap and positions.source.get("attn_logit_softcapping", family.softcap)
    others: dict[str, Any] = {
        "window": window,
        "window_after": positions.window_after if window else 0,
        "chunk": positions.chunk if kind in positions.rotary_recipes else None,
        "query_scale": scale and str(scale),
        "added_table": added and str(added),
        "softmax_factor": factor,
        "softmax_origin": "" if factor == 1 else origin,
        "softcap": float(cap) if cap else None,
        "sinks": family.sinks == "all" or (family.sinks == "windows" and window is not None),
    }
    if recipe.name != "rotary":
        return LayerTable(encoding=str(recipe), **others)
    now = recipe.get("scaling")
    states = family.rotates != "compression" and getattr(type(now), "attention_factor", 1) is None
    unstated = replace(now, attention_factor=None) if states else now
    rotary, plain, without = (
        cast(Rotary, build(recipe.with_(scaling=scaling), ModelShape(), total_length=length))
        for scaling in (now, Default(), unstated)
    )
    spectrum, a = rotary.clock.frequencies, rotary.attention_factor
    return LayerTable(
        base=rotary.base,
        scaling=briefly(now) + (f" for {length:,} tokens" if isinstance(now, LengthScaling) else ""),
        frequencies=tuple(map(float, spectrum.exact)),
        float32=tuple(spectrum.float32),
        unscaled=tuple(map(float, plain.clock.frequencies.exact)),
        attention_factor=a,
        own_attention_factor=None if without.attention_factor == a else without.attention_factor,
        pairing=rotary.pairing,
        head_dim=rotary.head_dim,
        rotary_dim=rotary.rotary_dim,
        query_dim=positions.query_dim,
        backwards=rotary.backwards,
        signed=rotary.signed,
        axes=rotary.axis_map.axis_of_pair if rotary.axis_map else (0,) * len(spectrum),
        **others,
    )


def briefly(scaling: Scaling | LengthScaling) -> str:
    """Return a scaling as text, such as ``linear(factor=4)``: its factor and the fields that differ from their
    defaults.
    """
    defaults = {f.name: f.default for f in fields(scaling) if f.name != "factor"}  # type: ignore[arg-type]
    short = {
        name: (*value[:2], "…") if isinstance(value, tuple) else value
        for name, value in vars(scaling).items()
        if value != defaults.get(name)
    }
    inside = ", ".join(f"{name}={value_text(value)}" for name, value in short.items()).replace("'…'", "…")
    return f"{to_dict(scaling)['scaling']}({inside})"
