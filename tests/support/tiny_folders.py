"""Tiny random checkpoints with mixed layers, as saved by transformers, with a tokenizer of characters."""

from pathlib import Path
from typing import Any

import torch
import transformers

from support.pretrained import save_tokenizer

SIZES: dict[str, Any] = {
    "vocab_size": 32,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
NEAR = {"sliding_window": 16, "layer_types": ["sliding_attention", "full_attention"] * 2}
SIGHT = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
IMAGE = {**SIGHT, "image_size": 28, "patch_size": 14}
MIXED = ("gemma3", "gemma3_text", "cohere2", "smollm3", "mistral3")
"""The models by name. Some have two bases and windows, alone or with a vision tower. Some rotate only in layers
with a window, or in every second layer. The class of one model also accepts images."""


def _config(family: str) -> Any:
    if family == "cohere2":
        return transformers.Cohere2Config(**SIZES, **NEAR)
    if family == "smollm3":
        return transformers.SmolLM3Config(**SIZES, no_rope_layer_interval=2)
    if family == "mistral3":
        text = transformers.MistralConfig(**SIZES, head_dim=8, sliding_window=None)
        return transformers.Mistral3Config(text_config=text, vision_config={"model_type": "pixtral", **IMAGE})
    text = {**SIZES, **NEAR, "head_dim": 8}
    if family == "gemma3_text":
        return transformers.Gemma3TextConfig(**text)
    return transformers.Gemma3Config(text_config=text, vision_config=IMAGE)


def save(family: str, folder: Path, **how: Any) -> Any:
    """Save a model to the folder, and return the model."""
    torch.manual_seed(0)
    config = _config(family)
    composite = family in ("gemma3", "mistral3")
    kind = transformers.AutoModelForImageTextToText if composite else transformers.AutoModelForCausalLM
    model = kind.from_config(config).eval()
    for parameter in model.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder, **how)
    save_tokenizer(folder)
    return model
