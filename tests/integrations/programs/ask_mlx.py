"""Asks mlx-lm what it does with a config.json: `python ask_mlx.py FOLDER`, a line of cases each.

Its own attention layers are built from the config and turn vectors of ones; the rest of it is not loaded, so that
mlx alone is enough.
"""

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import mlx.core as mx

from support.answering import answer_lines

package: Any = ModuleType("mlx_lm")
package.__path__ = [str(Path(sys.argv[1]) / "mlx_lm")]
sys.modules["mlx_lm"] = package

ATTENTION = {"deepseek_v3": "DeepseekV3Attention", "glm4": "Glm4Attention", "mixtral": "MixtralAttention"}


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """A pair's cos and sin, and by how much scores are multiplied."""
    config = case["given"]
    model = importlib.import_module(f"mlx_lm.models.{config['model_type']}")
    attention = getattr(model, ATTENTION.get(config["model_type"], "Attention"))
    numbered = {"layer_idx": 0} if "layer_idx" in inspect.signature(attention.__init__).parameters else {}
    layer = attention(model.ModelArgs.from_dict(config), **numbered)
    pairs = case["rotary_dim"] // 2
    half = case.get("half", config["model_type"] not in ATTENTION)
    first = mx.arange(2 * pairs) < pairs if half else mx.arange(2 * pairs) % 2 == 0
    turned = []
    for position in case["positions"]:
        vector = first.astype(mx.float32)[None, None, None]  # a new one, because mlx-lm 0.28.4 overwrites it
        turned.append(layer.rope(vector, offset=position)[0, 0, 0].tolist())
    tables = turned if half else [row[::2] + row[1::2] for row in turned]
    return {"scores": layer.scale * case["head_dim"] ** 0.5, "tables": tables}


if __name__ == "__main__":
    answer_lines(answer)
