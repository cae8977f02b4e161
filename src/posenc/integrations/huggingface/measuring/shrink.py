"""Builds a small random model with the positional encoding of a large model.

The config of the large model is shrunk by rules that match the names of its keys. Everything that determines the
encoding is kept: channels per head, bases, factors, lengths, and the order of layer types. Widths and numbers of
heads shrink together, depth shrinks to a few layers that include every layer type, and experts, vocabularies and
windows shrink to small numbers.
"""

import importlib
import inspect
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from posenc.errors import InvalidArgument

VOCABULARY, LAYERS, HEADS, WINDOW = 384, 8, 4, 5
LARGEST = 400_000_000
"""The largest number of parameters with which a small model is built."""

QUERY_HEADS = (
    *("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads", "decoder_attention_heads"),
    *("encoder_attention_heads", "num_query_heads", "num_encoder_attention_heads"),
)
CAPS = (
    (r"codebook_size$", 256),  # a power of two, as some codebooks need
    (
        r"intermediate_size(_\w+)?$|ffn_(dim|hidden_size|embed_dim)$|^(d_ff|n_inner|mlp_dim|inner_dim|ffn_dim)$",
        64,
    ),
    (r"(^|_)(num_|n_)(routed_|local_)?experts$|^moe_num_experts$", 4),
    (r"experts_per_tok(en)?$|^moe_k$|^moe_topk$|^top_k_experts$|^num_selected_experts$", 2),
    (r"^num_kv_shared_layers$", 0),
    (r"^n_group$|^topk_group$|^num_expert_groups?$", 1),
    (r"^sliding_window(_size)?$", WINDOW),
    (r"^local_attention$", 2 * WINDOW),
    (r"^(attention_chunk_size|floor_scale)$", WINDOW),
    (r"(^|_)(d_state|state_size|chunk_size)$|^linear_(\w+_)?head_dim$", 16),  # for recurrent layers
    (r"^(image|img|input)_size$|^max_(source_positions|length)$", 64),
)
"""Patterns of keys and the largest value for each; the first matching pattern applies."""

DEPTH = r"^(num_(hidden_|decoder_|encoder_|text_)?layers|(n|decoder|encoder)_layers?|num_blocks|depth)$"
OF_STAGES = ("out_features", "out_indices", "stage_names")
"""Keys that list stages, some of which do not exist at a smaller depth."""
PERIODIC = r"layer_types|layers_block_type|pattern|period|interval|every_n|no_rope|freq|step|layer_rope"


TO_TEXT = {"out_hidden_size", "text_hidden_size", "projection_dim"}
"""Keys of a tower's config that give the text model's width. If the config has embed_dim, only its hidden_size
gives this width.
"""


def shrunk(config: Mapping[str, Any], *, widths: bool = True) -> dict[str, Any]:
    """Return a copy of the config with smaller sizes. If ``widths`` is False, widths and heads are kept."""
    heads = next((config[key] for key in QUERY_HEADS if type(config.get(key)) is int and config[key] > 0), 1)
    few = min(HEADS, heads) if widths else heads
    depths = {v for k, v in config.items() if re.search(DEPTH, k) and type(v) is int}
    depth = _ended(config, LAYERS if any(re.search(PERIODIC, key) and config[key] for key in config) else 2)
    config = {key: value for key, value in config.items() if key not in OF_STAGES}
    if config.get("head_dim", 0) is None and type(config.get("hidden_size")) is int:
        config["head_dim"] = config["hidden_size"] // heads  # as in every released config of these types
    smaller = {key: _smaller(key, value, few / heads, depth, depths) for key, value in config.items()}
    inner = {
        key: shrunk(value, widths=widths)
        for key, value in smaller.items()
        if isinstance(value, dict) and (key.endswith("_config") or "model_type" in value)
    }
    for tower in inner.values():
        for key in (TO_TEXT if "embed_dim" not in tower else {"hidden_size"}) & {*tower}:
            tower[key] = inner.get("text_config", {}).get("hidden_size", tower[key])
    return smaller | inner


def _ended(config: Mapping[str, Any], depth: int) -> int:
    """Return a depth that is large enough for a layer of each type. If the config has ``per_layer_config``, reduce
    the depth until the last layer has the same type as the last layer of the whole model.
    """
    kinds = config.get("layer_types") or config.get("layers_block_type") or [None]
    depth = 1 + max(depth - 1, min(config.get("attn_layer_indices") or [0]), *map(kinds.index, kinds))
    ends = [i + 1 for i, kind in enumerate(kinds[:depth]) if kind == kinds[-1]]
    return ends[-1] if ends and config.get("per_layer_config") else depth


def _smaller(key: str, value: Any, ratio: float, depth: int, depths: set[int]) -> Any:
    if isinstance(value, (list, tuple)):
        return [_capped(key, item) for item in (value[:depth] if len(value) in depths else value)]
    numbers = {int(name) for name in value if str(name).isdigit()} if isinstance(value, dict) else set()
    if numbers and len(numbers) == len(value) and max(numbers) < max(depths, default=0) and "label" not in key:
        return {name: setting for name, setting in value.items() if int(name) < depth}  # settings by layer
    if type(value) is not int:
        return value
    sizes = (
        (r"token_(id|index|idx)$|_idx$|^(\w+_)?token_ids$", value if value < 4 else 4 + value % (VOCABULARY // 4)),
        (DEPTH, min(value, depth)),
        # with few distinct tokens, layers could not be told apart
        (r"vocab_size(_\w+)?$|^n_?vocab$", VOCABULARY if value > 0 else value),
        (r"(^|_)((n|num)_(\w+_)?head|heads)$", max(1, int(value * ratio)) if value > 0 else value),
        (
            r"^((\w+_)?(hidden_(size|dim)|d_model|emb(ed|edding)?_(dim|size))|n_embd|lru_width|mamba_d_ssm)$",
            max(8, int(value * ratio)),
        ),
    )
    return next((size for pattern, size in sizes if re.search(pattern, key)), _capped(key, value))


def _capped(key: str, value: Any) -> Any:
    most = next((most for pattern, most in CAPS if re.search(pattern, key)), value)
    return min(value, most) if type(value) is int else value


def built(config: Any) -> nn.Module:
    """Build a random model from a transformers config.

    Raises:
        InvalidArgument: the config has no model class, or its model is too large to run here; the message says why.
    """
    model_type = model_class(config)
    size = 0
    with suppress(Exception), torch.device("meta"):  # some constructors fill tables, which fails on meta
        size = sum(p.numel() for p in model_type(config).parameters())
    if size > LARGEST:
        raise InvalidArgument(
            f"even with a shrunken config, {model_type.__name__} has {size:,} parameters, which is too many to run "
            "here"
        )
    torch.manual_seed(0)
    model: nn.Module = model_type(config).eval().float()
    config._experts_implementation = "eager"  # not every torch has the functions that the default needs
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if (
                parameter.dim() >= 2
                and parameter.requires_grad
                and parameter.numel()
                and "Sinusoidal" not in type(model.get_submodule(name.rpartition(".")[0])).__name__  # FSMT's table
            ):
                parameter.normal_(0, parameter[0].numel() ** -0.5)
        for module in model.modules():
            if isinstance(module, nn.LayerNorm) and module.bias is not None:
                module.bias.normal_(0, 0.1)  # with no bias, outputs add up to 0, and maps of them are not unique
    return model


def model_class(config: Any) -> Any:
    """Return the model class of a config: the base model, or else the first class that accepts the config."""
    import transformers

    mapping = transformers.models.auto.modeling_auto.MODEL_MAPPING
    if type(config) in mapping:
        return classes if isinstance(classes := mapping[type(config)], type) else classes[0]
    place = type(config).__module__.replace("configuration_", "modeling_")
    models = [
        value
        for value in vars(importlib.import_module(place)).values()
        if isinstance(value, type) and issubclass(value, transformers.PreTrainedModel)
        if value.__module__ == place and "forward" in vars(value)
        # transformers 5.20 states the config class of Aimv2's text model only in an annotation
        if type(config)
        in (
            vars(value).get("config_class"),
            inspect.get_annotations(vars(value).get("__init__", value)).get("config"),
        )
    ]
    if not models:
        raise InvalidArgument(f"{type(config).__name__} has no model class in {place}")
    return models[0]
