"""The allowed values of each config key, for all code that reads or refuses values."""

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from posenc.errors import InvalidArgument

MOST_LAYERS = 10_000
"""The largest allowed number of layers, which no model reaches."""
LAST_POSITION = 2**31 - 1
"""The largest allowed length."""
LARGEST = 1e18
"""The limit for numbers, which is larger than any real base or factor and fits into a 64-bit integer."""


@dataclass(frozen=True)
class Values:
    """A set of allowed values: its description and its membership test."""

    expected: str
    holds: Callable[[Any], bool]

    def check(self, key: str, value: Any) -> Any:
        """Return the value if it is allowed. Do not pass null, which means the same as a missing key.

        Raises:
            InvalidArgument: the value is not allowed; the message names key, value and allowed values.
        """
        if not self.holds(value):
            raise InvalidArgument(f"{key}={reprlib.repr(value)} must be {self.expected}; correct it")
        return value


def whole(least: int, most: int) -> Values:
    """Allow whole numbers in a range. As in transformers, True and 8.0 are not whole numbers."""
    return Values(
        f"a whole number from {least} to {most}", lambda value: type(value) is int and least <= value <= most
    )


def _finite(value: object) -> bool:
    return type(value) in (int, float) and abs(value) < LARGEST  # type: ignore[arg-type]


def listed(of: Values) -> Values:
    """Allow lists of the given values."""
    return Values(
        f"a list in which each entry is {of.expected}",
        lambda value: isinstance(value, list | tuple) and all(map(of.holds, value)),
    )


SIZE = whole(1, 2**24)
LENGTH = whole(1, LAST_POSITION)
WINDOW = whole(0, LAST_POSITION)
DEPTH = whole(1, MOST_LAYERS)
LAYER = whole(0, MOST_LAYERS)
NUMBER = Values("a number below 10^18", _finite)
POSITIVE = Values("a number above 0 and below 10^18", lambda value: _finite(value) and value > 0)

SHARE = Values("a number above 0 and at most 1", lambda value: _finite(value) and 0 < value <= 1)
FLAG = Values("true or false", lambda value: type(value) is bool)
SWITCH = Values("true or false", lambda value: type(value) in (bool, int) and value in (0, 1))
TEXT = Values("a name", lambda value: isinstance(value, str))


def _of(values: Values, keys: str) -> dict[str, Values]:
    """Return a mapping from each of these keys to the allowed values."""
    return dict.fromkeys(keys.split(), values)


SHAPES: dict[str, Values] = {
    **_of(SIZE, "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads"),
    **_of(SIZE, "num_key_value_heads hidden_size n_embd n_embed d_model"),
    **_of(DEPTH, "num_hidden_layers n_layer n_layers num_layers encoder_layers num_decoder_layers decoder_layers"),
    "pad_token_id": WINDOW,
}
"""The keys of sizes that may be in the config of a whole model and also in the configs of its parts."""

KEYS: dict[str, Values] = {
    **SHAPES,
    **_of(LENGTH, "max_position_embeddings model_max_length n_positions max_seq_len seq_length"),
    **_of(LENGTH, "original_max_position_embeddings original_max_length local_attention attention_chunk_size"),
    **_of(POSITIVE, "rotary_emb_base global_rope_theta compress_rope_theta"),
    "rope_theta": Values(
        "a number above 0 and below 10^18", lambda value: POSITIVE.holds(value) or listed(POSITIVE).holds(value)
    ),
    **_of(POSITIVE, "rope_local_base_freq local_rope_theta swa_rope_theta"),
    **_of(POSITIVE, "alibi_bias_max attn_scale floor_scale llama_4_scaling_beta position_id_per_seconds"),
    **_of(SHARE, "partial_rotary_factor rotary_pct"),
    **_of(
        Values("a dictionary", lambda value: isinstance(value, Mapping)),
        "rope_scaling rope_parameters per_layer_config attn_config",
    ),
    **_of(
        Values(
            "a number, or a string of the letters L (a window) and G (all tokens)",
            lambda value: LAYER.holds(value) or (isinstance(value, str) and value != "" and {*value} <= {*"LG"}),
        ),
        "sliding_window_pattern global_attn_every_n_layers",
    ),
    **_of(SWITCH, "rotary use_rope use_rotary_pos_emb use_position_ids attn_temperature_tuning"),
    **_of(NUMBER, "factor scaling_factor attention_factor"),
    **_of(listed(POSITIVE), "short_factor long_factor"),
    **_of(
        SIZE, "head_dim global_head_dim kv_channels qk_rope_head_dim qk_nope_head_dim rotary_dim attn_rotary_emb"
    ),
    "relative_attention_num_buckets": Values(
        "an even number of at least 4", lambda value: SIZE.holds(value) and value >= 4 and value % 2 == 0
    ),
    "relative_attention_max_distance": SIZE,
    **_of(FLAG, "rope_interleave rope_interleaved learned_pos_emb alibi use_alibi logn_attn use_logn_attn"),
    **_of(FLAG, "use_sliding_window relative_attention mla_use_nope use_mrope"),
    **_of(listed(TEXT), "layer_types layers_block_type"),
    **_of(WINDOW, "sliding_window sliding_window_size"),
    **_of(listed(SWITCH), "hybrid_layer_pattern no_rope_layers"),
    **_of(listed(LAYER), "rope_scaling_layers cross_attention_layers attn_layer_indices"),
    "compress_ratios": listed(Values("0, 4 or 128", lambda value: value in (0, 4, 128))),
    "position_embedding_type": TEXT,
    "offset_alibi": Values("a number or a boolean", lambda value: type(value) in (bool, int, float)),
    "use_bidirectional_attention": Values(
        "true, false, 'all' or 'vision'", lambda value: value in (True, False, "all", "vision")
    ),
    "max_window_layers": LAYER,
    "no_rope_layer_interval": DEPTH,
    "layer_rope_theta": listed(
        Values("a number from 0 to 10^18, where 0 means no rotation", lambda value: _finite(value) and value >= 0)
    ),
}
"""Every key about positions or related sizes that a family reads or that a user may misspell."""

IDLE: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("partial_rotary_factor", "rotary_pct"), (1,)),
    **dict.fromkeys(("rope_scaling", "rope_parameters"), ({},)),
    "position_embedding_type": ("absolute", "rope", "rope_gptj"),
    "use_bidirectional_attention": ("all", "vision"),
}
"""Values that have no effect in a family without the key, in addition to null and False."""

RARE: dict[str, Values] = {
    **_of(
        Values(
            "a size, or one for each side",
            lambda value: SIZE.holds(value) or (listed(SIZE).holds(value) and len(value) == 2),
        ),
        "image_size patch_size",
    ),
    **_of(SIZE, "position_buckets window_size pos_emb_height pos_emb_width num_position_embeddings"),
    **_of(SIZE, "encoder_num_attention_heads decoder_num_attention_heads embed_dim dim"),
    **_of(DEPTH, "depth encoder_num_hidden_layers decoder_num_hidden_layers"),
    **_of(DEPTH, "full_attention_interval layer_group_size"),
    **_of(LENGTH, "max_source_positions max_target_positions"),
    **_of(POSITIVE, "attention_multiplier query_pre_attn_scalar attn_logit_softcapping"),
    **_of(FLAG, "position_biased_input use_absolute_position_embeddings static_position_embeddings"),
    "max_relative_positions": whole(-1, LAST_POSITION),
    "pos_att_type": Values(
        "a name, or a list of names", lambda value: TEXT.holds(value) or listed(TEXT).holds(value)
    ),
    "full_attn_idxs": listed(LAYER),
    "partial_rotary_factors": listed(SHARE),
    "yarn_only_types": listed(TEXT),
}
"""Keys of a few families, mostly towers, that have no effect in other models."""

BESIDE: dict[str, Values] = {
    **_of(TEXT, "rope_type type"),
    **_of(NUMBER, "factor beta_fast beta_slow mscale mscale_all_dim low_freq_factor high_freq_factor"),
    **_of(POSITIVE, "attention_factor alpha"),
    **_of(FLAG, "truncate finetuned mrope_interleaved"),
    **_of(listed(POSITIVE), "short_factor long_factor"),
    "mrope_section": listed(SIZE),
}
"""Keys of rope dictionaries that have no effect outside a rope dictionary."""

ROPE: dict[str, Values] = {
    **BESIDE,
    **_of(POSITIVE, "rope_theta llama_4_scaling_beta"),
    **_of(LENGTH, "original_max_position_embeddings max_position_embeddings"),
    "partial_rotary_factor": SHARE,
}
"""Every key that a rope dictionary of some type or family may have."""

FULL, NEAR = "full_attention", "sliding_attention"
RECURRENT = frozenset(("conv", "linear_attention", "mamba"))
"""Layer types without attention."""
