"""Asks one vLLM what it does with a config and overrides: `python ask_vllm.py FOLDER < cases.json > answers.json`.

Its own code answers: the rotary files as released, and out of files that load too much the functions that lay
overrides over a config, derive the length, and rename DeepSeek's scaling. Everything else of it is a stand-in, so
that a CPU and a plain torch are enough.
"""

import ast
import builtins
import copy
import importlib
import importlib.machinery
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
from transformers import AutoConfig

ROTARY = "vllm.model_executor.layers.rotary_embedding"
SERVED = SimpleNamespace(max_model_len=0)


class Layer(torch.nn.Module):
    """In the place of vLLM's CustomOp, which chooses kernels."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    @classmethod
    def register(cls, *_: Any, **__: Any) -> Any:
        return lambda one: one

    @classmethod
    def enabled(cls) -> bool:
        return False


class StandIn(ModuleType):
    """A module in which any name stands for something."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock()


class Finder:
    """Makes every vllm module a stand-in but the rotary ones, which come from the folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(self, name: str, *_: Any) -> importlib.machinery.ModuleSpec | None:
        if name.split(".")[0] != "vllm" or name.startswith(ROTARY):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module: Any = StandIn(spec.name)
        module.__path__ = [str(self.folder.joinpath(*spec.name.split(".")))]
        module.CustomOp = module.PluggableLayer = Layer
        module.get_current_vllm_config = lambda: SimpleNamespace(model_config=SERVED)
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


def functions(file: Path, names: Sequence[str], known: dict[str, Any]) -> dict[str, Any]:
    """These functions and methods of a file, as functions; what else they name stands for something."""
    tree = ast.parse(file.read_text())
    chosen: list[Any] = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name in names]
    return run(chosen, known)


def run(nodes: list[ast.stmt], known: dict[str, Any]) -> dict[str, Any]:
    """What these statements leave behind."""
    module = ast.Module(body=[ast.ImportFrom("__future__", [ast.alias("annotations")], 0), *nodes], type_ignores=[])
    code = compile(ast.fix_missing_locations(module), "vllm", "exec")
    named = {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)} - set(dir(builtins))
    space = {**{name: MagicMock() for name in named}, **known}
    exec(code, space)
    return space


def renames(file: Path) -> list[ast.stmt]:
    """What DeepSeek's attention does by the type of scaling, when it is built."""
    classes = [n for n in ast.walk(ast.parse(file.read_text())) if isinstance(n, ast.ClassDef)]
    (attention,) = [n for n in classes if n.name == "DeepseekV2MLAAttention"]
    (init,) = [n for n in attention.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
    return [n for n in init.body if isinstance(n, ast.If) and "rope_type" in ast.unparse(n.test)]


def main(folder: Path) -> None:
    """Answer every case."""
    sys.meta_path.insert(0, Finder(folder))  # type: ignore[arg-type]
    rotary: Any = importlib.import_module(ROTARY)
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
    scaling = importlib.import_module(f"{ROTARY}.deepseek_scaling_rope")
    deepseek = renames(inside / "model_executor" / "models" / "deepseek_v2.py")

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
        admitted = length(text, arch, None, None, False, None)
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

    json.dump([answer(case) for case in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
