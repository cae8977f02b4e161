"""A model family: its config keys for positions, and what its model does beyond its config."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from posenc.encodings.axes import AxisMap, chunked, first_last, strided
from posenc.encodings.rotary import Pairing

Kind = Literal["rotary", "alibi", "learned", "learned-grid", "t5", "deberta", "none"]
Count = Literal["back", "neighbours", "both sides", "both sides, ends out", "both sides, ends in", "ignored"]

SEEN: Mapping[Count, Callable[[int], tuple[int | None, int]]] = {
    "back": lambda window: (window, 0),
    "neighbours": lambda window: (window + 1, window),
    "both sides": lambda window: ((window + 1) // 2, window // 2),
    "both sides, ends out": lambda window: (window // 2 + 1, window // 2),
    "both sides, ends in": lambda window: (window // 2 + 2, window // 2 + 1),  # Gemma 4: Gemma 3's, and both ends
    "ignored": lambda window: (None, 0),
}
"""Tokens back, itself included, that a token sees by a window that counts in this way, and tokens after it."""
MAPS: Mapping[str, Callable[..., AxisMap]] = {
    "chunked": chunked,
    "strided": strided,
    "first_last": lambda rows, columns, time: first_last(time, rows, columns),
}


@dataclass(frozen=True)
class Windows:
    """The width of windows, and which layers have one if ``layer_types`` does not say.

    Args:
        counts: what the config's number counts; ``"back"`` is tokens back, itself included.
        two_sided: the same, if ``use_bidirectional_attention`` is on.
        before: a key, used instead of the window, for how many tokens before itself a token sees.

        flags: the key of a list of numbers, one per layer, 1 for a layer with a window and 0 for another, which the
            class does not read; numbers of further layers, for prediction, have no effect.
    """

    counts: Count = "back"
    two_sided: Count | None = None
    before: str | None = None

    flags: str | None = None


@dataclass(frozen=True)
class Rotates:
    """Which layers rotate, if not all do.

    Args:
        by: the rule. ``"compression"``: all do; those whose entry under ``key`` is not 0 have another base and
            scaling. ``"windows"``: sliding layers, if there are any. ``"flags"``: ``key`` has a list, nonzero
            for a layer that rotates. ``"indices"``: ``key`` lists the layers that attend (the others are
            recurrent). ``"others"``: it lists those that do not rotate, since they attend to pictures. ``"bases"``:
            ``key``
            lists every layer's base, 0 for none. ``"scaled"``: all do; those that ``key`` lists use the scaling.
            ``"switch"``: without ``key`` no layer rotates or has a table; with it, attention layers rotate.
        key: the key that the rule reads.
    """

    by: Literal["all", "windows", "flags", "indices", "others", "bases", "scaled", "switch", "compression"] = "all"
    key: str | None = None


@dataclass(frozen=True)
class Axes:
    """Positions of several axes (M-RoPE).

    Args:
        map: the layout of sections over the pairs, a name in ``MAPS``.
        sections: pairs of every axis, if the rope dictionary has no mrope_section.
    """

    map: Literal["chunked", "strided", "first_last"]
    sections: tuple[int, ...]


@dataclass(frozen=True)
class Products:
    """The factor on products of queries and keys, if it is not 1/√D.

    Args:
        key: the config's key for it.
        power: the exponent of that key's number.
        fixed: the factor, if it is in the family's code.
    """

    key: str | None = None
    power: float = 1.0
    fixed: float | None = None


@dataclass(frozen=True)
class Tables:
    """Tables of rows or of biases.

    Args:
        encoder_length: the key of the rows of the encoder's table, if ``length`` is the decoder's.
        sinusoidal: the stacks whose table has sines and cosines instead of trained rows, ``"all"`` for a family of
            one stack; ``spacing`` is that of their frequencies.
        padding_rows: the key of the last row before that of position 0, if the length counts such rows.
        per_layer: whether every layer has a table of biases, not one per stack.
    """

    encoder_length: str | None = None
    sinusoidal: tuple[str, ...] = ()
    spacing: Literal["paper", "tensor2tensor"] = "paper"
    padding_rows: str | None = None
    per_layer: bool = False


@dataclass(frozen=True)
class Tower:
    """Positions in a picture.

    Args:
        layout: how a vision tower rotates by rows and columns, a name of ``posenc.integrations.attention_layouts``.
        sides: the keys of the sides of a picture and of its patches.
        table: the keys of the sides of a table that such a tower also adds, or one key for the rows of a square;
            those of ``sides`` for a row per patch.
    """

    layout: str | None = None
    sides: tuple[str, ...] = ("image_size", "patch_size")
    table: tuple[str, ...] = ()


@dataclass(frozen=True)
class Family:
    """The facts about one family.

    Args:
        kind: which encoding it has.
        pairing: which channels a rotary family pairs.
        length, heads, width, layers: the config's keys for them.
        decoder: the key of the number of decoder layers, if ``layers`` is the encoder's.
        base: the key of the rotary base outside rope_parameters.
        fixed_base: a base in the family's code, which no config can change.
        local_base: the key of the base of sliding layers, if older configs have one.
        partial: the key of the share of channels that rotate; None if all rotate whatever is stated.
        rotary_dim: the key of the number of channels that rotate, instead of a share or beside one.
        head_dim: the key of the channels per head; width / heads if it is absent. Empty if the class uses
            width / heads whatever is stated.
        full_head_dim: the key of the channels per head in full layers, if different.
        defaults: values for keys that the config leaves out, the same in every released model of the family;
            ``ModelPositions.assumed`` names each one used.
        windows: the width of windows, and which layers have one.
        rotates: which layers rotate, if not all do.
        backwards: whether pairs rotate the other way.
        query_scale: the rule by which it scales queries.
        ignored: keys about positions that its released configs have and transformers does not read.
        ntk_alpha: whether ``alpha`` in a rope dictionary of type dynamic multiplies the base as NTK's factor does.
        ignored_rope_keys: keys in the rope dictionary that say nothing about frequencies.
        axes: how positions of several axes share the pairs.
        products: the factor on products of queries and keys, if it is not 1/√D.
        softcap: c in c·tanh(score/c), applied by its code if attn_logit_softcapping is missing.
        sinks: the layers with a trained sink per head in their softmax.
        mscale_scores: whether YaRN's second number, mscale_all_dim, multiplies the scores.
        divides_alibi: whether its code rounds ALiBi to bfloat16 and adds it to q·k before both are divided by √D.
        scales_before_rotation: whether its code multiplies queries before they rotate, which hides the factor of
            cos and sin.
        norm_after_rotation: the key that says whether its code normalises queries and keys after rotation, which
            cancels a factor of cos and sin; or ``"always"``.
        tables: tables of rows or of biases.
        tower: positions in a picture.
        wrong_up_to_version: the newest transformers known to compute other positions than the config says.
        extra: further keys about positions that its class accepts and drops, or that its code reads.
        by_rule: whether this is Llama's rule, for a type without an entry in families.toml.
    """

    kind: Kind = "rotary"
    pairing: Pairing = "half"
    length: str = "max_position_embeddings"
    heads: str = "num_attention_heads"
    width: str = "hidden_size"
    layers: str = "num_hidden_layers"
    decoder: str | None = None
    base: str = "rope_theta"
    fixed_base: float | None = None
    local_base: str | None = None
    partial: str | None = None
    rotary_dim: str | None = None
    head_dim: str = "head_dim"
    full_head_dim: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    windows: Windows = Windows()
    rotates: Rotates = Rotates()
    backwards: bool = False
    query_scale: Literal["llama4", "ministral3", "beam"] | None = None
    ignored: tuple[str, ...] = ()
    ntk_alpha: bool = False
    ignored_rope_keys: tuple[str, ...] = ()
    axes: Axes | None = None
    products: Products = Products()
    softcap: float | None = None
    sinks: Literal["none", "all", "windows"] = "none"
    mscale_scores: bool = False
    divides_alibi: bool = False
    scales_before_rotation: bool = False
    norm_after_rotation: str | None = None
    tables: Tables = Tables()
    tower: Tower = Tower()
    wrong_up_to_version: str | None = None
    extra: tuple[str, ...] = ()
    by_rule: bool = False

    @property
    def sees(self) -> bool:
        """Whether its positions are places in a picture."""
        return self.tower.layout is not None or self.kind == "learned-grid"

    @property
    def keys(self) -> frozenset[str]:
        """Every key about positions that its code or class reads without listing it."""
        keys = (self.length, self.base, self.local_base, self.partial, self.rotary_dim, self.head_dim)
        others = (self.full_head_dim, self.windows.before, self.windows.flags, self.rotates.key)
        return frozenset(filter(None, (*keys, *others, *self.ignored, *self.extra, *self.defaults)))
