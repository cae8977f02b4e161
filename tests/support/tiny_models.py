"""Tiny random models of transformers, one per family, with the positions of the family's real checkpoints."""

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers.models.gptj import modeling_gptj

from posenc.encodings.rotary import rotate

transformers.logging.set_verbosity_error()

SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
OLD_SIZES = {
    "vocab_size": 64,
    "n_embd": 64,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
TYPES = ["sliding_attention", "full_attention"]
LISTS = {"short_factor": [1.0 + i / 8 for i in range(8)], "long_factor": [2.0 + i for i in range(8)]}


def rope(rope_type: str, base: float, **more: Any) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": rope_type, "rope_theta": base, **more}}


MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama-2": ("LlamaForCausalLM", rope("default", 1e4)),
    "llama-2-linear": ("LlamaForCausalLM", rope("linear", 1e4, factor=4.0)),
    "llama-2-yarn": ("LlamaForCausalLM", rope("yarn", 1e4, factor=16.0, original_max_position_embeddings=64)),
    "llama-3.1": (
        "LlamaForCausalLM",
        rope(
            "llama3",
            5e5,
            factor=8.0,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
            original_max_position_embeddings=64,
        ),
    ),
    "smollm2": ("LlamaForCausalLM", rope("default", 1e5)),
    "mistral": ("MistralForCausalLM", rope("default", 1e6)),
    "qwen2": ("Qwen2ForCausalLM", rope("default", 1e6)),
    "qwen3": ("Qwen3ForCausalLM", {"head_dim": 32, **rope("default", 1e6)}),
    "mixtral": ("MixtralForCausalLM", {"num_local_experts": 2, **rope("default", 1e6)}),
    "olmo2": ("Olmo2ForCausalLM", rope("default", 5e5)),
    "starcoder2": ("Starcoder2ForCausalLM", rope("default", 1e5)),
    "granite": ("GraniteForCausalLM", rope("default", 1e4)),
    "cohere": ("CohereForCausalLM", rope("default", 1e4)),
    "phi": ("PhiForCausalLM", rope("default", 1e4, partial_rotary_factor=0.5)),
    "stablelm": ("StableLmForCausalLM", rope("default", 1e4, partial_rotary_factor=0.25)),
    "phi3": (
        "Phi3ForCausalLM",
        {"original_max_position_embeddings": 64, **rope("longrope", 1e4, **LISTS)},
    ),
    "gemma": ("GemmaForCausalLM", {"head_dim": 32, **rope("default", 1e4)}),
    "gemma2": ("Gemma2ForCausalLM", {"head_dim": 32, **rope("default", 1e4)}),
    "gemma3": (
        "Gemma3ForCausalLM",
        {
            "head_dim": 32,
            "layer_types": TYPES,
            "sliding_window": 16,
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
            },
        },
    ),
    "olmo3": (
        "Olmo3ForCausalLM",
        {
            "layer_types": TYPES,
            "sliding_window": 16,
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 5e5},
                "full_attention": {
                    "rope_type": "yarn",
                    "rope_theta": 5e5,
                    "factor": 8.0,
                    "original_max_position_embeddings": 64,
                    "attention_factor": 1.2,
                },
            },
        },
    ),
    "modernbert": (
        "ModernBertForMaskedLM",
        {
            "layer_types": TYPES,
            "local_attention": 16,
            "cls_token_id": 1,
            "sep_token_id": 2,
            "rope_parameters": {
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
                "full_attention": {"rope_type": "default", "rope_theta": 1.6e5},
            },
        },
    ),
    "glm-4": ("Glm4ForCausalLM", {"head_dim": 16, **rope("default", 1e4, partial_rotary_factor=0.5)}),
    "cohere2": ("Cohere2ForCausalLM", {"layer_types": TYPES, "sliding_window": 16, **rope("default", 5e4)}),
    "exaone-4": ("Exaone4ForCausalLM", {"layer_types": TYPES, "sliding_window": 16, **rope("default", 1e6)}),
    "qwen2-moe": ("Qwen2MoeForCausalLM", {"num_experts": 2, "num_experts_per_tok": 1, **rope("default", 1e6)}),
    "qwen3-moe": (
        "Qwen3MoeForCausalLM",
        {"head_dim": 16, "num_experts": 2, "num_experts_per_tok": 1, **rope("default", 1e6)},
    ),
    "gpt-neox": ("GPTNeoXForCausalLM", rope("default", 1e4, partial_rotary_factor=0.25)),
    "gpt-oss": (
        "GptOssForCausalLM",
        {
            "head_dim": 16,
            "layer_types": TYPES,
            "sliding_window": 16,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            **rope("yarn", 1.5e5, factor=32.0, original_max_position_embeddings=64, truncate=False),
        },
    ),
    "deepseek-v3": (
        "DeepseekV3ForCausalLM",
        {
            "qk_rope_head_dim": 16,
            "qk_nope_head_dim": 8,
            "v_head_dim": 8,
            "kv_lora_rank": 16,
            "q_lora_rank": 16,
            "first_k_dense_replace": 2,
            "num_key_value_heads": 4,
            **rope(
                "yarn",
                1e4,
                factor=40.0,
                original_max_position_embeddings=64,
                mscale=1.0,
                mscale_all_dim=1.0,
            ),
        },
    ),
    "smollm3": ("SmolLM3ForCausalLM", {"no_rope_layers": [1, 0], **rope("default", 5e6)}),
    "gptj": ("GPTJForCausalLM", {"rotary_dim": 8}),
    "falcon": ("FalconForCausalLM", {"new_decoder_architecture": True, **rope("default", 1e4)}),
    "bloom": ("BloomForCausalLM", {"n_head": 4, "n_layer": 2, "hidden_size": 64}),
    "mpt": ("MptForCausalLM", {"d_model": 64, "n_heads": 6, "n_layers": 2, "max_seq_len": 256}),
    "gpt2": ("GPT2LMHeadModel", {}),
    "bert": ("BertForMaskedLM", {}),
}


OTHER_SIZES = {"gptj": OLD_SIZES, "gpt2": OLD_SIZES, "bloom": {"vocab_size": 64}, "mpt": {"vocab_size": 64}}
BESIDE = {"mpt": {"d_model": 96}, "falcon": {"num_kv_heads": 2}}
"""Sizes that only the tiny models have, not the configs that are read."""
TABLED = {"roformer"}
"""The families that look up angles in tables, and have no rotary module that receives position ids."""
if not hasattr(modeling_gptj, "GPTJRotaryEmbedding"):  # before transformers 5.24
    TABLED |= {"codegen", "gptj"}


def tiny(family: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Create a random model whose attention is so sharp that a wrong position changes the logits."""
    name, more = MODELS[family]
    kind = getattr(transformers, name)
    if family == "olmo3" and "convert_rope_params_to_dict" not in vars(kind.config_class):
        pytest.skip("this transformers knows one rotation for all layers of olmo3")
    return sharp(kind, {**OTHER_SIZES.get(family, SIZES), **more, **BESIDE.get(family, {})}).to(dtype)


def sharp(kind: Any, settings: dict[str, Any]) -> nn.Module:
    """Create a random model of this class whose matrices are so large that a wrong position changes the logits."""
    torch.manual_seed(0)
    model = kind(kind.config_class(**settings)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(0, 2 * parameter.shape[1] ** -0.5)
    return model


def tokens(length: int = 48) -> Tensor:
    return torch.randint(3, 64, (2, length), generator=torch.Generator().manual_seed(1))


def by_plain_products(model: nn.Module) -> None:
    """Compute experts one after another, because some versions of torch lack grouped products on the CPU."""
    model.config._experts_implementation = "eager"


def logits(model: nn.Module, ids: Tensor) -> Tensor:
    by_plain_products(model)
    with torch.no_grad():
        return model(ids).logits


def turns_neighbours(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
    """Rotate interleaved pairs, in the place of a model's function that rotates half pairs."""
    cos, sin = (x[..., : x.shape[-1] // 2].unsqueeze(1) for x in (cos, sin))
    return rotate(q, cos, sin, "interleaved"), rotate(k, cos, sin, "interleaved")
