"""Asks one vLLM what it does with a config and overrides: `python ask_vllm.py FOLDER`, a line of cases each.

Its own code answers: the rotary files as released, and out of files that load too much the functions that lay
overrides over a config, derive the length, and rename DeepSeek's scaling. Everything else of it is a stand-in, so
that a CPU and a plain torch are enough.
"""

import ast
import copy
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from transformers import AutoConfig

from support.answering import answer_lines
from support.released import Layer, functions, released, run, statements

ROTARY = "vllm.model_executor.layers.rotary_embedding"
SERVED = SimpleNamespace(max_model_len=0)
NAMES = {
    "CustomOp": Layer,  # which chooses kernels
    "PluggableLayer": Layer,
    "get_current_vllm_config": lambda: SimpleNamespace(model_config=SERVED),
}


def main(folder: Path) -> None:
    """Answer every case."""
    rotary = released(folder, ROTARY, NAMES)
    inside = folder / "vllm"
    known = functions(
        inside / "transformers_utils" / "config.py",
        ("is_rope_parameters_nested", "iter_rope_parameters"),
        {"ALLOWED_LAYER_TYPES": ("full_attention",), "Iterator": list},
    )
    platform = SimpleNamespace(check_max_model_len=lambda length: length)
    length = functions(
        inside / "config" / "model.py", ("_get_and_verify_max_len",), {**known, "current_platform": platform}
    )["_get_and_verify_max_len"]
    laying = functions(inside / "config" / "model.py", ("_update_nested", "_apply_dict_overrides"), {})
    model_config = SimpleNamespace()
    model_config._update_nested = lambda *given: laying["_update_nested"](model_config, *given)
    scaling = import_module(f"{ROTARY}.deepseek_scaling_rope")
    deepseek = [
        node
        for node in statements(
            inside / "model_executor" / "models" / "deepseek_v2.py", "DeepseekV2MLAAttention", "rope_type"
        )
        if isinstance(node, ast.If) and "rope_type" in ast.unparse(node.test)
    ]

    def answer(case: dict[str, Any]) -> dict[str, Any]:
        config = AutoConfig.for_model(**case["config"])
        nested = {key: value for key, value in case["overrides"].items() if isinstance(value, dict)}
        config.update({key: value for key, value in case["overrides"].items() if key not in nested})
        laying["_apply_dict_overrides"](model_config, config, copy.deepcopy(nested))
        text: Any = config
        for key in case["path"]:
            text = getattr(text, key)
        longest = text.max_position_embeddings
        arch = SimpleNamespace(derived_max_model_len_and_key=(longest, "max_position_embeddings"))
        admitted = length(text, arch, None, case.get("max_model_len"), False, None)
        SERVED.max_model_len = case["served"]
        attention = SimpleNamespace(scaling=1.0)
        if case["deepseek"]:
            run(deepseek, {"config": text, "self": attention, "yarn_get_mscale": scaling.yarn_get_mscale})
        layer = rotary.get_rope(case["head_dim"], longest, case["half"], dict(text.rope_parameters), torch.float32)
        long = hasattr(layer, "long_short_cos_sin_cache")
        table = layer.long_short_cos_sin_cache if long else layer.cos_sin_cache
        first = layer.original_max_position_embeddings if long and layer.use_long_rope else 0
        return {
            "admitted": admitted,
            "rows": len(table) - first,
            "scores": attention.scaling,
            "tables": [table[first + position].tolist() for position in case["positions"]],
        }

    answer_lines(answer)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
