"""The configs that the releases run, and the classes that run them.

tests/data/model_files/configs.jsonl has one config per line, with at most two periods of its layers. The configs
are published, written by config classes, or edited, with changes that people make or that programs treat
differently. Add a line to ask about another config.
"""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests" / "data" / "model_files"
ARCHITECTURES = {
    "baichuan": "BaichuanForCausalLM",
    "chatglm": "ChatGLMModel",
    "deepseek": "DeepseekForCausalLM",
    "deepseek_v32": "DeepseekV32ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "hunyuan": "HunYuanMoEV1ForCausalLM",
    "internlm": "InternLMForCausalLM",
    "internlm2": "InternLM2ForCausalLM",
    "kimi_k2": "DeepseekV3ForCausalLM",
    "kimi_k25": "KimiK25ForConditionalGeneration",
    "kimi_k3": "KimiK3ForConditionalGeneration",
    "mimo": "MiMoForCausalLM",
    "mimo_v2_flash": "MiMoV2FlashForCausalLM",
    "minicpm": "MiniCPMForCausalLM",
    "minicpmv": "MiniCPMV",
    "minicpmv4_6": "MiniCPMV4_6ForConditionalGeneration",
    "minimax_m3": "MiniMaxM3SparseForConditionalGeneration",
    "molmo": "MolmoForCausalLM",
    "nemotron-nas": "DeciLMForCausalLM",
    "orion": "OrionForCausalLM",
    "phi-msft": "PhiForCausalLM",
    "qwen": "QWenLMHeadModel",
    "qwen2_5_omni": "Qwen2_5OmniForConditionalGeneration",
    "qwen3_asr": "Qwen3ASRForConditionalGeneration",
}
"""The architectures of model types that are missing from transformers' tables."""


def architectures(config, known):
    """Return the class that published configs of this type state."""
    from transformers.models.auto import modeling_auto as auto

    kind = config["model_type"]
    if config.get("architectures") or kind in ARCHITECTURES:
        return config.get("architectures") or [ARCHITECTURES[kind]]
    names = ("MODEL_FOR_CAUSAL_LM", "MODEL_FOR_IMAGE_TEXT_TO_TEXT", "MODEL_FOR_MULTIMODAL_LM", "MODEL")
    tables = [getattr(auto, f"{name}_MAPPING_NAMES", {}) for name in names]
    if "text_config" in config:
        tables = [*tables[1:], tables[0]]
    found = [table[kind] if isinstance(table[kind], str) else table[kind][0] for table in tables if kind in table]
    return sorted(found, key=lambda name: name not in known)[:1]


def configs():
    """Return all configs by name."""
    return {line["name"]: line["config"] for line in map(json.loads, (KEPT / "configs.jsonl").open())}
