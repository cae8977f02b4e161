"""Tiny random checkpoints with mixed layers, as saved by transformers, with a tokenizer of characters."""

from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

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
GEMMA = {**SIZES, **NEAR, "head_dim": 8}
MISTRAL = {"model_type": "mistral", **SIZES, "head_dim": 8, "sliding_window": None}
MIXED: dict[str, dict[str, Any]] = {
    "gemma3": {"text_config": GEMMA, "vision_config": IMAGE},
    "gemma3_text": GEMMA,
    "cohere2": {**SIZES, **NEAR},
    "smollm3": {**SIZES, "no_rope_layer_interval": 2},
    "mistral3": {"text_config": MISTRAL, "vision_config": {"model_type": "pixtral", **IMAGE}},
}
"""The models by name. Some have two bases and windows, alone or with a vision tower. Some rotate only in layers
with a window, or in every second layer. The class of one model also accepts images."""


def save(family: str, folder: Path, **how: Any) -> Any:
    """Save a model to the folder, and return the model."""
    torch.manual_seed(0)
    config = CONFIG_MAPPING[family](**MIXED[family])
    composite = "text_config" in MIXED[family]
    kind = transformers.AutoModelForImageTextToText if composite else transformers.AutoModelForCausalLM
    model = kind.from_config(config).eval()
    for parameter in model.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.2)
    model.save_pretrained(folder, **how)
    save_tokenizer(folder)
    return model
