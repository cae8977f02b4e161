"""How one model family spells its positions, and what it does with them that its config does not say."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from posenc.encodings.axes import AxisMap
from posenc.encodings.rotary import Pairing

Kind = Literal["rotary", "alibi", "learned", "learned-grid", "t5", "deberta", "none"]


@dataclass(frozen=True)
class Family:
    """How one family spells its positions.

    Args:
        kind: which encoding it has.
        pairing: which channels a rotary family pairs.
        length, heads, width, layers: the config's keys for them.
        decoder: the key of the number of layers of a decoder, where ``layers`` are those of an encoder before it.
        source: the key of the rows of the encoder's table, where ``length`` are those of the decoder's.
        sinusoidal: the stacks whose table has sines and cosines instead of trained rows, ``"all"`` of a family that
            has one stack; ``spacing`` is that of their frequencies.
        spare: the key of the last row of a table before that of position 0, where the length counts such rows.
        base: the key of the rotary base where rope_parameters does not hold it.
        partial: the key of the share of channels that turn; None where every channel turns whatever is said.
        silent_partial: that share where the config is silent; None where it must be stated.
        rotary_dim: the key of the number of channels that turn, instead of a share.
        head_dim: the key of the channels per head; width / heads where it is absent, and None where its class takes
            that whatever is said.
        full_head_dim: the key of the channels per head in full layers, where they have others.
        defaults: values that hold when the config is silent, because every released model of the family has
            them; the reader states each one it uses. A value that varies within a family is not here.
        fixed_base: a base written in the family's code, which no config can change.
        local: the key of the sliding layers' own base.
        local_scaled: whether a flat rope_scaling scales them too; otherwise they stay unscaled.
        local_base: their base in transformers whatever that key says, where a flat spelling does not reach them.
        pattern: the key of the distance from one full layer to the next, where ``layer_types`` is not given.
        first_full: the first full layer under that pattern; by default the last of each group.
        fixed_pattern: that distance where it is in the family's code and no config can change it.
        derives: the keys that transformers' config class makes ``layer_types`` of, by a rule that is not read here,
            where they are not stated.
        back: how many tokens back, itself included, a token sees by a window of so many, as encoders count theirs.
        both_sides: the same, where the config says that tokens also see what comes after them
            (use_bidirectional_attention).
        still: whether full layers have no positions at all, where there are sliding ones.
        turns: the key of a list that says of every layer whether it turns; in Muse, which turns all at rope_theta,
            one of bases, of which only noughts count.
        attends: the key of a list with the numbers of the layers that attend, the others being recurrent.
        bases: the key of a list with the base of every layer, 0 for none.
        still_from_last: without that list, every so manieth layer, counted from the last, has no positions.
        switch: the key without which no layer turns, or has a table; with it those of attention do.
        scale: the rule by which it scales queries.
        beside: keys in the rope dictionary that say nothing about frequencies.
        axes: the map of its sections to pairs, where positions have several axes (M-RoPE).
        sections: pairs of every axis where the rope dictionary does not say mrope_section.
        second_factor: whether YaRN's second number multiplies the scores.
        rescales: whether its code multiplies queries before they turn, so that the factor of cos and sin does not
            show beside that.
        states_head_dim: whether transformers scales only where head_dim is stated.
        tables: how many tables of biases a stack has: ``"one"`` for all its layers, or one for ``"each"``.
        sides: the keys of the sides of a picture and of its patches, whose places positions are.
        layout: how a tower that sees turns by its rows and columns, a name of
            ``posenc.integrations.attention_layouts``.
        table: the keys of the sides of a table that such a tower adds besides, or the one of the rows of a square;
            those of ``sides`` for one with a row for every patch.
        otherwise: the newest transformers known to do something else than the configs say, as later ones do.
        extra: further keys about positions, read by the family's own rule.
    """

    kind: Kind = "rotary"
    pairing: Pairing = "half"
    length: str = "max_position_embeddings"
    heads: str = "num_attention_heads"
    width: str = "hidden_size"
    layers: str = "num_hidden_layers"
    decoder: str | None = None
    source: str | None = None
    sinusoidal: tuple[str, ...] = ()
    spacing: Literal["paper", "tensor2tensor"] = "paper"
    spare: str | None = None
    base: str = "rope_theta"
    partial: str | None = None
    silent_partial: float | None = None
    rotary_dim: str | None = None
    head_dim: str | None = "head_dim"
    full_head_dim: str | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    fixed_base: float | None = None
    local: str | None = None
    local_scaled: bool = False
    local_base: float | None = None
    pattern: str | None = None
    first_full: int | None = None
    fixed_pattern: int | None = None
    derives: tuple[str, ...] = ()
    back: Callable[[int], int | None] = int
    both_sides: Callable[[int], int] | None = None
    still: bool = False
    turns: str | None = None
    attends: str | None = None
    bases: str | None = None
    still_from_last: int | None = None
    switch: str | None = None
    scale: Literal["llama4", "ministral3", "beam"] | None = None
    beside: tuple[str, ...] = ()
    axes: Callable[..., AxisMap] | None = None
    sections: tuple[int, ...] = ()
    second_factor: bool = False
    rescales: bool = False
    states_head_dim: bool = False
    tables: Literal["one", "each"] = "one"
    sides: tuple[str, str] = ("image_size", "patch_size")
    layout: str | None = None
    table: tuple[str, ...] = ()
    otherwise: str | None = None
    extra: tuple[str, ...] = ()

    @property
    def sees(self) -> bool:
        """Whether its positions are places in a picture."""
        return self.layout is not None or self.kind == "learned-grid"
