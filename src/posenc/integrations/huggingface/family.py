"""A model family: its config keys for positions, and the behaviour of its code that no config key controls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from posenc.encodings.axes import AxisMap, chunked, first_last, strided
from posenc.encodings.rotary import Pairing

Count = Literal["back", "neighbours", "both sides", "both sides, ends out", "both sides, ends in", "ignored"]

SEEN: Mapping[Count, Callable[[int], tuple[int | None, int]]] = {
    "back": lambda window: (window, 0),
    "neighbours": lambda window: (window + 1, window),
    "both sides": lambda window: ((window + 1) // 2, window // 2),
    "both sides, ends out": lambda window: (window // 2 + 1, window // 2),
    "both sides, ends in": lambda window: (window // 2 + 2, window // 2 + 1),  # Gemma 4: as Gemma 3, plus both ends
    "ignored": lambda window: (None, 0),
}
"""For each meaning of a window size, a function of the size. It returns the number of tokens that a token sees up
to and including itself, and the number of later tokens that it sees."""
MAPS: Mapping[str, Callable[..., AxisMap]] = {
    "chunked": chunked,
    "strided": strided,
    "first_last": lambda rows, columns, time: first_last(time, rows, columns),
}


@dataclass(frozen=True)
class Family:
    """The facts about a family of models.

    Args:
        kind: the encoding of the family.
        pairing: how a rotary family pairs channels.
        length, heads, width, layers: the config keys of these sizes.
        decoder: the key for the number of decoder layers, if ``layers`` is for the encoder.
        base: the key for the rotary base outside rope_parameters.
        fixed_base: a base in the family's code, which no config can change.
        local_base: the key for the base of sliding layers in older configs.
        partial: the key whose value is the share of channels that rotate; None if all channels rotate in every
            config.
        rotary_dim: the key whose value is the number of channels that rotate. A family may have this key instead of
            a share, or both.
        head_dim: the key for the number of channels per head, which is width / heads if the config lacks the key.
            ``head_dim`` is empty if the class always uses width / heads.
        full_head_dim: the key for the number of channels per head in full layers, if it differs.
        defaults: the default values, set in transformers' class or in the model's code, of keys that a config may
            leave out. ``ModelPositions.assumed`` names each default that was used.
        window_counts: what the window size in the config counts, as a key of ``SEEN`` in this module. ``"back"``
            means the query's own token and earlier tokens.
        windowed: the layer type that has the window, in a family with layer types.
        two_sided_counts: what the window size counts instead if ``use_bidirectional_attention`` is on; None for no
            change.
        rotates: the rule that determines which layers rotate. ``"compression"``: all layers rotate, and layers
            with a nonzero entry under ``rotates_key`` have a different base and scaling. ``"windows"``: if the
            config has a window size, only sliding layers rotate; if not, all layers rotate. ``"flags"``: the key
            is a list with a nonzero entry for each rotating layer. ``"indices"``: the key lists the attention
            layers, and other layers are recurrent. ``"others"``: the key lists the layers that do not rotate,
            because they attend to images. ``"bases"``: the key lists the base of every layer, 0 for no rotation.
            ``"scaled"``: all layers rotate, and the scaling applies only to the layers that the key lists.
            ``"switch"``: attention layers rotate if the value of the key is ``"rope"``; in an image model, patches
            have position embeddings if the value is true. ``"base"``: the key, in the rope dictionary,
            holds the base, and attention layers rotate unless the base is null.
        rotates_key: the key that this rule reads.
        backwards: whether pairs rotate in the opposite direction.
        query_scale: the rule for scaling queries.
        ignored: position keys in the family's released configs that transformers does not read.
        ntk_alpha: whether ``alpha`` in a rope dictionary of type dynamic scales the base as NTK's factor does.
        ignored_rope_keys: keys in the rope dictionary that do not affect frequencies.
        axes: how the pairs are divided among several position axes (M-RoPE), as a name in ``MAPS``; None for one
            axis.
        sections: the number of pairs of each axis, if the rope dictionary has no mrope_section.
        score_scale: the config key that determines the factor on q·k. If the key is query_pre_attn_scalar, its
            value n means the factor 1/√n; for any other key, the value is the factor. If there is neither this key
            nor ``fixed_score_scale``, the factor is 1/√D.
        fixed_score_scale: a factor on q·k in the family's code.
        softcap: c in c·tanh(score/c), which the family's code applies if attn_logit_softcapping is missing.
        sinks: the layers with a trained sink per head in their softmax.
        mscale_scores: whether transformers' code scales scores by YaRN's mscale_all_dim.
        mscale_served: whether other programs then do so too, with the code that they have for DeepSeek.
        mscale_by_length: whether cos and sin are multiplied by short_mscale up to the original length and by
            long_mscale beyond it.
        divides_alibi: whether the code rounds ALiBi to bfloat16 and adds it to q·k before both are divided by √D.
        alibi_dtype: the dtype of ALiBi's bias in transformers' code; None for the model's own dtype.
        table_ends: whether transformers' code has a table for positions, or for ALiBi, with ``length`` entries, so
            that a longer input fails, although the encoding itself has no longest position.
        scales_before_rotation: whether the code scales queries before they rotate. The factor on cos and sin then
            cannot be measured, because both the factor and the scale change the norms of queries.
        norm_after_rotation: the key that says whether the code normalises queries and keys after rotation, which
            cancels any factor on cos and sin; or ``"always"``.
        sinusoidal: the stacks (encoder or decoder) whose position table is sinusoidal instead of trained. The only
            stack of a family counts as an encoder.
        spacing: the spacing of the frequencies of a sinusoidal table, as in ``posenc.Sinusoidal``.
        first_position: the config key whose value plus 1 is the position of the first token in a sinusoidal table;
            None if that position is 0.
        padding_rows: the config key, such as pad_token_id, whose value is the index of the last padding row of the
            position table. The key is given only if padding rows precede the row of position 0 and ``length``
            counts them.
        bias_per_layer: whether every layer has its own table of biases; if not, the layers of a stack share one
            table.
        layout: for an image tower, which pairs rotate by the row of a patch and which by its column, as a name in
            ``posenc.integrations.attention_layouts``; None in other families.
        added_table: for a tower that rotates queries and keys, and also adds a table of position embeddings: the
            config keys of the height and width of the table's grid, or, for a square grid, one key that gives the
            number of embeddings. If the keys are ``image_size`` and ``patch_size``, the table has one embedding per
            patch of the image.
        wrong_up_to_version: the newest version of transformers known not to follow the config.
        extra: other position keys that the config class accepts and drops, or that the code reads.
    """

    kind: Literal["rotary", "alibi", "learned", "learned-grid", "t5", "deberta", "none"] = "rotary"
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
    window_counts: Count = "back"
    windowed: str = "sliding_attention"
    two_sided_counts: Count | None = None
    rotates: Literal[
        "all", "windows", "flags", "indices", "others", "bases", "scaled", "switch", "base", "compression"
    ] = "all"
    rotates_key: str | None = None
    backwards: bool = False
    query_scale: Literal["llama4", "ministral3", "beam"] | None = None
    ignored: tuple[str, ...] = ()
    ntk_alpha: bool = False
    ignored_rope_keys: tuple[str, ...] = ()
    axes: Literal["chunked", "strided", "first_last"] | None = None
    sections: tuple[int, ...] = ()
    score_scale: str | None = None
    fixed_score_scale: float | None = None
    softcap: float | None = None
    sinks: Literal["none", "all", "windows"] = "none"
    mscale_scores: bool = False
    mscale_served: bool = True
    mscale_by_length: bool = False
    divides_alibi: bool = False
    alibi_dtype: Literal["float32", "bfloat16"] | None = None
    table_ends: bool = False
    scales_before_rotation: bool = False
    norm_after_rotation: str | None = None
    sinusoidal: tuple[str, ...] = ()
    spacing: Literal["paper", "tensor2tensor"] = "paper"
    first_position: str | None = None
    padding_rows: str | None = None
    bias_per_layer: bool = False
    layout: str | None = None
    added_table: tuple[str, ...] = ()
    wrong_up_to_version: str | None = None
    extra: tuple[str, ...] = ()

    def length_key(self, config: Mapping[str, Any]) -> str:
        """Return the key under which a config has the longest input: the family's own, or the usual one if the
        config has only that one.
        """
        return self.length if config.get(self.length) or not config.get(Family.length) else Family.length
