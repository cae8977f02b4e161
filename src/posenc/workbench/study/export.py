"""Exports a study's language model as a Hugging Face folder, for transformers and for `posenc extend`."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posenc.encodings.rotary import Rotary
from posenc.errors import StudyError
from posenc.scaling import Default
from posenc.workbench.run.plan import Plan
from posenc.workbench.run.transformer import Transformer
from posenc.workbench.study.study import source_of
from posenc.workbench.study.trained_weights import plans_of, trained_model

CLOSE = 1e-3
"""The limit for the difference between float32 logits of the exported model and of the study's model."""


def export(study: Path, folder: Path, encoding: str = "rotary", seed: int = 0) -> Path:
    """Write the model of a run on the task ``language`` to a folder for ``AutoModelForCausalLM.from_pretrained``.

    A model with RMSNorm and SwiGLU becomes a ``LlamaForCausalLM``, and a model with LayerNorm and GELU becomes a
    ``GPTNeoXForCausalLM``. Before any file is written, the logits in transformers are compared with the study's
    logits.

    Args:
        study: the study's folder, with weights and ``study.toml``.
        folder: the folder to write, which must not exist.
        encoding: the run's encoding, written as in the ledger. It must be rotary without scaling.
        seed: the run's seed.

    Raises:
        StudyError: the folder exists, the study does not have exactly one such run, neither class can express the
            model, or the logits differ.
    """
    if folder.exists():
        raise StudyError(f"{str(folder)!r} exists already; choose a new folder")
    from posenc.integrations.huggingface.folder import from_config

    plans = plans_of(study)
    chosen = [plan for plan in plans if (plan.encoding, plan.seed) == (encoding, seed)]
    if not chosen:
        known = ", ".join(dict.fromkeys(f"{plan.encoding} with seed {plan.seed}" for plan in plans)) or "none"
        raise StudyError(
            f"{str(study)!r} has no run of {encoding} with seed {seed} on the task 'language'; it has {known}"
        )
    if len(chosen) > 1:
        raise StudyError(
            f"{str(study)!r} has {len(chosen)} runs of {encoding} with seed {seed} on the task 'language', with "
            "different settings; to export one of them, train it alone in a new study"
        )
    (plan,) = chosen
    text = source_of(study).load()
    model = trained_model(study, plan, text).float()
    config, weights = _expressed(plan, model)
    exported = from_config(config)
    exported.load_state_dict(weights, strict=False)  # the comparison of logits would show a missing weight
    with torch.no_grad():  # the names of these change between versions of transformers
        exported.get_input_embeddings().weight.copy_(model.embedding.weight)
        exported.get_output_embeddings().weight.copy_(model.head.weight)
    tokens = text.validation[: plan.train_length].long()[None]
    with torch.inference_mode():
        gap = float((exported(tokens).logits - model(tokens)).abs().max())
    if not gap < CLOSE:
        raise StudyError(
            f"{plan.name} is not exported, because its logits in transformers differ from the study's by {gap:.2g}"
        )
    exported.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(text.tokens.json, encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}),
        encoding="utf-8",
    )
    return folder


def _expressed(plan: Plan, model: Transformer) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return the config and the weights, with the names that transformers uses."""
    encoding, why = model.encoding, ""
    if not isinstance(encoding, Rotary) or encoding.pairing != "half" or not isinstance(encoding.scaling, Default):
        why = f"its encoding {plan.encoding}, which is not rotary without scaling"
    elif plan.window or plan.qk_norm:
        why = f"its settings window={plan.window} and qk_norm={plan.qk_norm}"
    elif (plan.norm, plan.activation) == ("rms", "swiglu"):
        return _llama(plan, model, encoding)
    elif (plan.norm, plan.activation) == ("layer", "gelu") and plan.kv_heads in (None, plan.heads):
        return _gpt_neox(plan, model, encoding)
    else:
        why = f"its settings norm={plan.norm}, activation={plan.activation} and kv_heads={plan.kv_heads}"
    raise StudyError(
        f"{plan.name} cannot be exported to transformers because of {why}; export a run of rotary with "
        "either norm=rms and activation=swiglu or norm=layer and activation=gelu"
    )


def _common(plan: Plan, model: Transformer) -> dict[str, Any]:
    return {
        "vocab_size": model.embedding.num_embeddings,
        "hidden_size": plan.width,
        "intermediate_size": plan.hidden or 4 * plan.width,
        "num_hidden_layers": plan.layers,
        "num_attention_heads": plan.heads,
        "max_position_embeddings": plan.train_length,
        "tie_word_embeddings": plan.tied,
        "bos_token_id": None,
        "eos_token_id": None,
    }


def _llama(plan: Plan, model: Transformer, encoding: Rotary) -> tuple[dict[str, Any], dict[str, Tensor]]:
    config = {
        **_common(plan, model),
        "model_type": "llama",
        "rope_parameters": {"rope_type": "default", "rope_theta": float(encoding.base)},
        "num_key_value_heads": plan.kv_heads or plan.heads,
        "rms_norm_eps": 1e-5,
        "attention_bias": plan.biases,
        "mlp_bias": plan.biases,
    }
    width, hidden = plan.width, plan.hidden or 4 * plan.width
    rows: list[tuple[str, torch.nn.Module, dict[str, int]]] = [("model", model.norm, {"norm": width})]
    for i, block in enumerate(model.layers):
        q, k, v = (heads * plan.head_dim for heads in block.attention.split)
        rows += [
            (f"model.layers.{i}", block.attention_norm, {"input_layernorm": width}),
            (f"model.layers.{i}", block.feedforward_norm, {"post_attention_layernorm": width}),
            (f"model.layers.{i}.self_attn", block.attention.qkv, {"q_proj": q, "k_proj": k, "v_proj": v}),
            (f"model.layers.{i}.self_attn", block.attention.out, {"o_proj": width}),
            (f"model.layers.{i}.mlp", block.feedforward.inner, {"gate_proj": hidden, "up_proj": hidden}),
            (f"model.layers.{i}.mlp", block.feedforward.outer, {"down_proj": width}),
        ]
    return config, {
        f"{place}.{name}.{part}": theirs
        for place, module, sizes in rows
        for part, tensor in module.named_parameters()
        for name, theirs in zip(sizes, tensor.split([*sizes.values()]), strict=True)
    }


def _gpt_neox(plan: Plan, model: Transformer, encoding: Rotary) -> tuple[dict[str, Any], dict[str, Tensor]]:
    config = {
        **_common(plan, model),
        "model_type": "gpt_neox",
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": float(encoding.base),
            "partial_rotary_factor": 1.0,
        },
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
        "use_parallel_residual": False,
        "hidden_dropout": 0.0,
        "attention_dropout": 0.0,
    }
    modules: dict[str, torch.nn.Module] = {"gpt_neox.final_layer_norm": model.norm}
    for i, block in enumerate(model.layers):
        layer = f"gpt_neox.layers.{i}"
        modules |= {
            f"{layer}.input_layernorm": block.attention_norm,
            f"{layer}.post_attention_layernorm": block.feedforward_norm,
            f"{layer}.attention.dense": block.attention.out,
            f"{layer}.mlp.dense_h_to_4h": block.feedforward.inner,
            f"{layer}.mlp.dense_4h_to_h": block.feedforward.outer,
            f"{layer}.attention.query_key_value": block.attention.qkv,
        }
    # transformers starts biases at 0, which is right for those that this model lacks
    return config, {
        f"{name}.{part}": (
            tensor.unflatten(0, (3, plan.heads, -1)).transpose(0, 1).flatten(0, 2)  # q, k and v head by head
            if name.endswith("query_key_value")
            else tensor
        )
        for name, module in modules.items()
        for part, tensor in module.named_parameters()
    }
