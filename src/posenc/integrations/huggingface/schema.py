"""The meaning and the allowed values of each config key, for all code that reads or refuses values."""

import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from posenc.errors import InvalidArgument

MOST_LAYERS = 10_000
"""More layers than any model has, and few enough to list."""
LAST_POSITION = 2**31 - 1
"""The largest length that positions allow."""
LARGEST = 1e18
"""Above any real base or factor, and a whole number of 64 bits."""


@dataclass(frozen=True)
class Values:
    """A set of values: its name in words, and the test of membership."""

    expected: str
    holds: Callable[[Any], bool]


def whole(least: int, most: int) -> Values:
    """Whole numbers; as in transformers, True and 8.0 are not."""
    return Values(
        f"a whole number from {least} to {most}", lambda value: type(value) is int and least <= value <= most
    )


def _finite(value: object) -> bool:
    return type(value) in (int, float) and abs(value) < LARGEST  # type: ignore[arg-type]


def _listed(of: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, Sequence) and not isinstance(value, str | bytes) and all(of(entry) for entry in value)
    )


SIZE = whole(1, 2**24)
LENGTH = whole(1, LAST_POSITION)
WINDOW = whole(0, LAST_POSITION)
DEPTH = whole(1, MOST_LAYERS)
START = whole(0, MOST_LAYERS)
TOKEN = whole(0, 2**24)
NUMBER = Values("a number below 10^18", _finite)
POSITIVE = Values("a number above 0 and below 10^18", lambda value: _finite(value) and value > 0)
SHARE = Values("a number above 0 and at most 1", lambda value: _finite(value) and 0 < value <= 1)
FLAG = Values("true or false", lambda value: type(value) is bool)
SWITCH = Values("true or false", lambda value: type(value) in (bool, int) and value in (0, 1))
SETTING = Values("a number or a flag", lambda value: type(value) in (bool, int, float))
TEXT = Values("a name", lambda value: isinstance(value, str))
NAMES = Values("a list of names", _listed(lambda entry: isinstance(entry, str)))
ANY = Values("a name, or a list of names", lambda value: TEXT.holds(value) or NAMES.holds(value))
NUMBERS = Values("a list of numbers above 0 and below 10^18", _listed(lambda entry: _finite(entry) and entry > 0))
SIZES = Values("a list of whole numbers above 0", _listed(lambda entry: SIZE.holds(entry)))
BASES = Values("a list of numbers below 10^18, 0 for none", _listed(lambda entry: _finite(entry) and entry >= 0))
SIDES = Values(
    "a size, or one for each side", lambda value: SIZE.holds(value) or (SIZES.holds(value) and len(value) == 2)
)
SWITCHES = Values("a list of 0 and 1", _listed(lambda entry: type(entry) in (bool, int) and entry in (0, 1)))
NUMBERED = Values(
    "a list of layers' numbers", _listed(lambda entry: type(entry) is int and 0 <= entry < MOST_LAYERS)
)
BOTH = Values("true, false, 'all' or 'vision'", lambda value: value in (True, False, "all", "vision"))
DICTIONARY = Values("a dictionary", lambda value: isinstance(value, Mapping))
PATTERN = Values(
    "a number, or letters L (sees a window) and G (sees all)",
    lambda value: (
        (type(value) is int and 0 <= value <= MOST_LAYERS)
        or (isinstance(value, str) and value != "" and not set(value) - set("LG"))
    ),
)


@dataclass(frozen=True)
class Key:
    """One key of a config.

    Args:
        values: the allowed values; null, if allowed, means the same as leaving the key out.
        meaning: its meaning, to follow "it is".
        idle: values without effect in a family that does not have the key; null and False always are.
    """

    values: Values
    meaning: str
    idle: tuple[object, ...] = ()

    def check(self, name: str, value: Any) -> Any:
        """The value, if it is allowed.

        Raises:
            InvalidArgument: it is not; the message has name, value, allowed values and meaning.
        """
        if not self.values.holds(value):
            raise InvalidArgument(
                f"{name}={reprlib.repr(value)} must be {self.values.expected}: it is {self.meaning}; correct it"
            )
        return value


_LENGTH = Key(LENGTH, "the longest input in tokens")
_HEADS = Key(SIZE, "the number of query heads")
_WIDTH = Key(SIZE, "the model's width")
_DEPTH = Key(DEPTH, "the number of layers")
_BASE = Key(POSITIVE, "the base of rotary frequencies")
_NEAR_BASE = Key(POSITIVE, "the rotary base of layers that see a window")
_ROTATED_SHARE = Key(SHARE, "the share of a head's channels that rotate", idle=(1,))
_ROPE = Key(DICTIONARY, "how rotary frequencies are scaled, see transformers' rope_parameters", idle=({},))
_PATTERN = Key(PATTERN, "the distance from one full layer to the next, or a pattern of letters")
_ON = Key(SWITCH, "whether queries and keys are rotated", idle=(True,))
_BESIDE = Key(NUMBER, "part of a rope dictionary, and has no effect outside it")

_COUNTS = Values("a list of whole numbers", _listed(lambda entry: type(entry) is int and 0 <= entry < MOST_LAYERS))

KEYS: dict[str, Key] = {
    **dict.fromkeys(
        ("max_position_embeddings", "model_max_length", "n_positions", "max_seq_len", "seq_length"), _LENGTH
    ),
    **dict.fromkeys(
        (
            "num_attention_heads",
            "n_head",
            "n_heads",
            "num_heads",
            "encoder_attention_heads",
            "decoder_attention_heads",
        ),
        _HEADS,
    ),
    **dict.fromkeys(("hidden_size", "n_embd", "d_model"), _WIDTH),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"), _DEPTH),
    **dict.fromkeys(("num_decoder_layers", "decoder_layers"), Key(DEPTH, "the number of layers of the decoder")),
    **dict.fromkeys(("rope_theta", "rotary_emb_base", "global_rope_theta", "compress_rope_theta"), _BASE),
    **dict.fromkeys(("rope_local_base_freq", "local_rope_theta", "swa_rope_theta"), _NEAR_BASE),
    **dict.fromkeys(("partial_rotary_factor", "rotary_pct"), _ROTATED_SHARE),
    **dict.fromkeys(("rope_scaling", "rope_parameters"), _ROPE),
    **dict.fromkeys(("sliding_window_pattern", "global_attn_every_n_layers"), _PATTERN),
    **dict.fromkeys(("rotary", "use_rope", "use_rotary_pos_emb", "use_position_ids"), _ON),
    **dict.fromkeys(("factor", "scaling_factor", "attention_factor"), _BESIDE),
    **dict.fromkeys(("short_factor", "long_factor"), Key(NUMBERS, _BESIDE.meaning)),
    "num_key_value_heads": Key(SIZE, "the number of key heads"),
    "head_dim": Key(SIZE, "the channels of a head"),
    "global_head_dim": Key(SIZE, "the channels of a head in full layers"),
    "per_layer_config": Key(DICTIONARY, "settings of single layers"),
    "kv_channels": Key(SIZE, "the channels of a head"),
    "qk_rope_head_dim": Key(SIZE, "the channels of a head that rotate"),
    "qk_nope_head_dim": Key(SIZE, "the channels of a head that do not rotate"),
    "rotary_dim": Key(SIZE, "the channels of a head that rotate"),
    "original_max_position_embeddings": Key(LENGTH, "the trained length"),
    "original_max_length": Key(LENGTH, "the trained length"),
    "rope_interleave": Key(FLAG, "whether stored weights have neighbours as pairs"),
    "rope_interleaved": Key(FLAG, "whether neighbours are pairs"),
    "position_embedding_type": Key(TEXT, "the kind of positions", idle=("absolute", "rope", "rope_gptj")),
    "learned_pos_emb": Key(FLAG, "whether there is a table of positions"),
    "alibi": Key(FLAG, "whether scores are biased by distance"),
    "use_alibi": Key(FLAG, "whether scores are biased by distance"),
    "offset_alibi": Key(SETTING, "a convention of the training code"),
    "alibi_bias_max": Key(POSITIVE, "the exponent of the last slope"),
    "attn_config": Key(DICTIONARY, "MPT's settings of attention"),
    "layer_types": Key(NAMES, "the type of every layer"),
    "layers_block_type": Key(NAMES, "the type of every layer"),
    "sliding_window": Key(WINDOW, "how many tokens back a layer sees, 0 for all"),
    "use_sliding_window": Key(FLAG, "whether any layer sees a window"),
    "use_bidirectional_attention": Key(BOTH, "which tokens see later ones", idle=(True, "all", "vision")),
    "max_window_layers": Key(START, "the first layer that sees a window"),
    "local_attention": Key(LENGTH, "how many tokens a layer sees, on both sides together"),
    "sliding_window_size": Key(WINDOW, "how many tokens before itself a token sees"),
    "compress_ratios": Key(_COUNTS, "how many tokens a layer compresses into one, 0 for none"),
    "hybrid_layer_pattern": Key(SWITCHES, "for every layer whether it sees a window, 1, or all, 0"),
    "no_rope_layers": Key(SWITCHES, "for every layer whether it rotates, 1, or not, 0"),
    "no_rope_layer_interval": Key(DEPTH, "the distance from one layer that does not rotate to the next"),
    "rope_scaling_layers": Key(NUMBERED, "the layers with the scaling"),
    "cross_attention_layers": Key(NUMBERED, "the layers that attend to pictures, without positions"),
    "attn_layer_indices": Key(NUMBERED, "the layers that attend, the others being recurrent"),
    "layer_rope_theta": Key(BASES, "the base of every layer"),
    "attention_chunk_size": Key(LENGTH, "how many tokens a chunk of attention has"),
    "attn_temperature_tuning": Key(SWITCH, "whether layers without positions scale their queries"),
    "attn_scale": Key(POSITIVE, "the factor of the query scale"),
    "floor_scale": Key(POSITIVE, "the position from which queries are scaled"),
    "llama_4_scaling_beta": Key(POSITIVE, "the factor of the query scale"),
    "logn_attn": Key(FLAG, "whether queries are scaled by the logarithm of their position"),
    "use_logn_attn": Key(FLAG, "whether queries are scaled by the logarithm of their position"),
    "relative_attention_num_buckets": Key(SIZE, "the number of buckets of distances"),
    "relative_attention_max_distance": Key(SIZE, "the distance from which on all share a bucket"),
    "pad_token_id": Key(TOKEN, "the id of padding"),
    "relative_attention": Key(FLAG, "whether scores know the distance"),
    "position_id_per_seconds": Key(POSITIVE, "positions per second of sound"),
    "mla_use_nope": Key(FLAG, "whether full layers do not rotate their rotary channels"),
    "use_mrope": Key(FLAG, "whether positions have three axes"),
}
"""Every key about positions or the sizes that they need, which a family reads or a user may misspell."""

RARE: dict[str, Key] = {
    "image_size": Key(SIDES, "the sides of a picture"),
    "patch_size": Key(SIDES, "the sides of a patch of it"),
    "position_buckets": Key(SIZE, "the number of buckets of distances on either side"),
    "max_relative_positions": Key(whole(-1, LAST_POSITION), "the distance from which on all share a bucket"),
    "position_biased_input": Key(FLAG, "whether there is also a table of positions"),
    "pos_att_type": Key(ANY, "whether queries, keys or both are multiplied with a table of distances"),
    "use_absolute_position_embeddings": Key(FLAG, "whether there is a table of places"),
    "window_size": Key(SIZE, "the side of the tiles that most layers attend within, in pixels"),
    **dict.fromkeys(("pos_emb_height", "pos_emb_width"), Key(SIZE, "a side of a table of places")),
    "num_position_embeddings": Key(SIZE, "the rows of a table of places"),
    **dict.fromkeys(("depth", "encoder_num_hidden_layers", "decoder_num_hidden_layers"), _DEPTH),
    **dict.fromkeys(("encoder_num_attention_heads", "decoder_num_attention_heads"), _HEADS),
    **dict.fromkeys(("embed_dim", "dim"), _WIDTH),
    **dict.fromkeys(("attention_multiplier", "query_pre_attn_scalar"), Key(POSITIVE, "the scale of the scores")),
    "attn_logit_softcapping": Key(POSITIVE, "the cap of scores"),
    **dict.fromkeys(
        ("full_attention_interval", "layer_group_size"), Key(DEPTH, "the distance from one full layer to the next")
    ),
    "full_attn_idxs": Key(NUMBERED, "the layers that see all"),
    "max_source_positions": Key(LENGTH, "the longest sound in frames"),
    "max_target_positions": _LENGTH,
}
"""Keys of a few families, mostly towers, which have no effect in other models."""

ROPE: dict[str, Key] = {
    "rope_type": Key(TEXT, "the kind of scaling"),
    "type": Key(TEXT, "the kind of scaling"),
    "rope_theta": _BASE,
    "partial_rotary_factor": _ROTATED_SHARE,
    "factor": Key(NUMBER, "target length over trained length"),
    "original_max_position_embeddings": KEYS["original_max_position_embeddings"],
    "max_position_embeddings": _LENGTH,
    "attention_factor": Key(POSITIVE, "the factor of cos and sin"),
    "beta_fast": Key(NUMBER, "the rotations above which a pair is kept"),
    "beta_slow": Key(NUMBER, "the rotations below which a pair is interpolated"),
    "mscale": Key(NUMBER, "DeepSeek's first number"),
    "mscale_all_dim": Key(NUMBER, "DeepSeek's second number"),
    "truncate": Key(FLAG, "whether the ends of YaRN's ramp are rounded"),
    "finetuned": Key(FLAG, "a remark of YaRN's authors"),
    "short_factor": Key(NUMBERS, "a factor for every pair"),
    "long_factor": Key(NUMBERS, "a factor for every pair beyond the trained length"),
    "low_freq_factor": Key(NUMBER, "the rotations below which a pair is interpolated"),
    "high_freq_factor": Key(NUMBER, "the rotations above which a pair is kept"),
    "llama_4_scaling_beta": KEYS["llama_4_scaling_beta"],
    "alpha": Key(POSITIVE, "by how much NTK stretches the slowest pair"),
    "mrope_section": Key(SIZES, "the pairs of every axis of positions"),
    "mrope_interleaved": Key(FLAG, "whether axes are interleaved; the family's code decides"),
}
"""Every key that a rope dictionary may hold, in some type or family."""

FULL, NEAR = "full_attention", "sliding_attention"
LAYER_TYPES = frozenset(
    [
        "full_attention",
        "sliding_attention",
        "chunked_attention",
        "window_attention",
        "indexed_attention",
        "compressed_sparse_attention",
        "heavily_compressed_attention",
        "minimax_m3_sparse",
        "conv",
        "moe",
        "hybrid",
        "hybrid_sliding",
        "reference_sliding_attention",
        "linear_attention",
        "mamba",
        "attention",
        "deepseek_sparse_attention",
        "qwen_sparse_attention",
    ]
)
"""The values of ``layer_types`` in transformers 5.23, older spellings included."""
RECURRENT = frozenset(("conv", "linear_attention", "mamba"))
"""Those of them without attention."""
