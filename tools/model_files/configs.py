"""The configs that are run: published ones, and defaults of config classes, cut to two periods of layers."""

import copy
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "tests" / "data" / "published_configs.jsonl"
KEPT = ROOT / "tests" / "data" / "model_files"
LAYERS = 12
"""Two periods of the longest layer pattern."""
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
"""Architectures of types that are missing from transformers' tables."""
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768, "rope_theta": 1e6}
LONGER = {"max_position_embeddings": 131072}
LATENT = {**YARN, "factor": 40.0, "original_max_position_embeddings": 4096, "rope_theta": 1e4, "mscale": 1.0}
NTK = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}
SECTIONS = {"mrope_section": [16, 24, 24], "rope_type": "default", "rope_theta": 1e6}
DEALT = {**SECTIONS, "mrope_section": [24, 20, 20], "mrope_interleaved": True}
VARIANTS = {
    "qwen3, YaRN": ("qwen3", {"rope_parameters": YARN, **LONGER}),
    "qwen3, YaRN, factor stated": ("qwen3", {"rope_parameters": {**YARN, "attention_factor": 1.0}, **LONGER}),
    "qwen3_moe, YaRN": ("qwen3_moe", {"rope_parameters": YARN, **LONGER}),
    "cohere2, YaRN": ("cohere2", {"rope_parameters": YARN, **LONGER}),
    "glm4_moe, YaRN": (
        "glm4_moe",
        {"head_dim": 128, "rope_parameters": {**YARN, "partial_rotary_factor": 0.5}, **LONGER},
    ),
    "deepseek_v3, YaRN": ("deepseek_v3", {"rope_parameters": {**LATENT, "mscale_all_dim": 1.0}}),
    "llama, dynamic": ("llama", {"rope_parameters": NTK, "max_position_embeddings": 4096}),
    "llama, linear": ("llama", {"rope_parameters": {**NTK, "rope_type": "linear"}}),
    "llama, another name of the base": ("llama", {"rope_parameters": None, "rotary_emb_base": 500000.0}),
    "qwen2, windows": ("qwen2", {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 6}),
    "mistral, window": ("mistral", {"sliding_window": 4096, "max_position_embeddings": 32768}),
    "phi3, window": ("phi3", {"sliding_window": 2047}),
    "starcoder2, window": ("starcoder2", {"sliding_window": 4096}),
    "falcon, ALiBi": ("falcon", {"alibi": True}),
    "gpt_oss, plain": ("gpt_oss", {"rope_parameters": {"rope_type": "default", "rope_theta": 150000.0}}),
    "qwen2_vl, sections": ("qwen2_vl", {"rope_parameters": SECTIONS}),
    "qwen2_5_vl, sections": ("qwen2_5_vl", {"rope_parameters": SECTIONS}),
    "qwen2_5_vl, sections, YaRN": ("qwen2_5_vl", {"rope_parameters": {**SECTIONS, **YARN}, **LONGER}),
    "qwen3_vl, sections": ("qwen3_vl", {"rope_parameters": DEALT}),
    "qwen3_vl, sections, YaRN": ("qwen3_vl", {"rope_parameters": {**DEALT, **YARN}, **LONGER}),
    "minimax, heads of 128": ("minimax", {"head_dim": 128}),
    "ministral3, 8192": (
        "ministral3",
        {
            "rope_parameters": {
                **YARN,
                "factor": 32.0,
                "original_max_position_embeddings": 8192,
                "llama_4_scaling_beta": 0.1,
                "beta_fast": 32.0,
                "beta_slow": 1.0,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
            },
            "max_position_embeddings": 262144,
        },
    ),
}
"""Common changes to a default config, and those on which programs differ."""


def own(model_type):
    """Return the default config of transformers' class, reduced to keys about positions and sizes."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    whole = json.loads(CONFIG_MAPPING[model_type]().to_json_string(use_diff=False))
    return said(whole)


def said(config):
    """Return the keys about positions and sizes, including those of the language model."""
    from posenc.integrations.huggingface.families import FAMILIES
    from posenc.integrations.huggingface.keys import BOTH_FORMS
    from posenc.integrations.huggingface.schema import KEYS, RARE

    family = FAMILIES.get(config.get("model_type"))
    known = {*KEYS, *RARE, *BOTH_FORMS, "model_type", "layer_types", *(family.keys if family else ())}
    known |= {"num_key_value_heads", "intermediate_size", "hybrid_override_pattern", "v_head_dim", "q_lora_rank"}
    kept = {key: value for key, value in config.items() if key in known and value is not None}
    if isinstance(config.get("text_config"), dict):
        kept["text_config"] = said(config["text_config"])
    return kept


def cut(config):
    """Return the config with only its first layers; lists with one entry per layer are cut."""
    count = next((config[key] for key in ("num_hidden_layers", "n_layer", "num_layers") if key in config), None)
    if "text_config" in config:
        return {**config, "text_config": cut(config["text_config"])}
    if not isinstance(count, int) or count <= LAYERS:
        return config
    if config["model_type"].startswith(("gemma3n", "gemma4")):
        config = {**config, "num_kv_shared_layers": 0}
    return {
        key: LAYERS
        if key in ("num_hidden_layers", "n_layer", "num_layers")
        else value[:LAYERS]
        if isinstance(value, list | str) and len(value) == count
        else {layer: facts for layer, facts in value.items() if int(layer) < LAYERS}
        if key == "per_layer_config"
        else value
        for key, value in config.items()
    }


def architectures(config, known):
    """Return the class that published configs of this type name."""
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


def write():
    """Write the configs."""
    types = json.loads((KEPT / "types.json").read_text())
    found = {}
    for line in map(json.loads, PUBLISHED.open()):
        found[line["name"]] = line["config"]
    for model_type in types:
        found[f"{model_type} as its class writes it"] = own(model_type)
    for name, (model_type, changes) in VARIANTS.items():
        config = copy.deepcopy(own(model_type))
        inside = config.get("text_config", config)
        inside.pop("layer_types", None)
        inside.update(changes)
        for key in [key for key, value in changes.items() if value is None]:
            del inside[key]
        found[name] = config
    (KEPT / "configs.jsonl").write_text(
        "".join(json.dumps({"name": name, "config": cut(config)}) + "\n" for name, config in found.items())
    )
