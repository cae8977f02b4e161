"""SGLang: its model registry (EntryClass), config parser and server settings."""

import ast
import functools
import importlib
import inspect
import json
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace

from tools.model_files.release import Release
from tools.model_files.stand_ins import (
    Anything,
    Embedding,
    OneProcess,
    Operator,
    Part,
    Settings,
    constant,
    layer_class,
)
from tools.model_files.vllm import Platform
from torch import nn


class Device(str):
    """The device name that selects a rotary layer; tensors stay on the CPU."""

    device = "cuda"


def layers(count, layer_fn, pp_rank=None, pp_size=None, prefix="", return_tuple=False, **_):
    """Replace make_layers, for a single rank."""
    named = "idx" in inspect.signature(layer_fn).parameters
    made = nn.ModuleList(
        layer_fn(idx=i, prefix=f"{prefix}.{i}") if named else layer_fn(i, f"{prefix}.{i}") for i in range(count)
    )
    return made if pp_rank is pp_size is None and not return_tuple else (made, 0, count)


class Sglang(Release):
    """A release of SGLang."""

    package = "sglang"
    rotary = "sglang.srt.layers.rotary_embedding"
    attention = "sglang.srt.layers.radix_attention"
    asked = (
        "sglang.srt.layers.rotary_embedding",
        "sglang.srt.models",
        "sglang.srt.utils.hf_transformers",
        "sglang.srt.utils.hf_transformers_patches",
        "sglang.srt.utils.hf_transformers_utils",
        "sglang.srt.configs",
    )
    not_asked = (
        r"sglang\.srt\.models(\.registry)?",
        r"sglang\.srt\.utils\.hf_transformers\.(tokenizer|processor|gguf_native)",
        r"sglang\.srt\.configs\.(model_config|load_config|device_config|draft_parallel|modelopt_config|update_config|utils)",
    )

    def stands_for(self, module, name):
        if name == "RadixAttention":
            return self.attention_class(name, self.attention)
        if name in self.names:
            return self.names[name]
        if re.fullmatch(r"is_[a-z0-9_]+|\w+_(supported|enabled)", name):
            return constant(False)
        found = re.fullmatch(r"get_\w+_(size|rank|group)", name)
        if found:
            return constant({"size": 1, "rank": 0, "group": OneProcess()}[found[1]])
        return layer_class(name) or Anything(f"{module}.{name}")

    @functools.cached_property
    def names(self):
        server = Settings(
            self.defaults("sglang.srt.server_args", "ServerArgs"),
            attention_backend="triton",
            tp_size=1,
            device="cpu",
        )
        return {
            "get_parallel": constant(OneProcess()),
            "add_prefix": lambda name, prefix: f"{prefix}.{name}" if prefix else name,
            "make_layers": layers,
            "make_pp_layers": lambda count, layer_fn, prefix="", **_: layers(count, layer_fn, 0, 1, prefix),
            "get_pp_indices": lambda count, *_: (0, count),
            "get_pp_group": constant(OneProcess()),
            **dict.fromkeys(("get_server_args", "get_global_server_args"), constant(server)),
            **dict.fromkeys(("BaseFusedOp", "CustomOp", "MultiPlatformOp"), Operator),
            **dict.fromkeys(("VocabParallelEmbedding", "ParallelLMHead"), Embedding),
            "publish_role": constant(None),
            "get_layer_id": lambda name: int(found[1]) if (found := re.search(r"layers\.(\d+)\.", name)) else None,
            "PPMissingLayer": nn.Identity,
            **dict.fromkeys(("get_bool_env_var", "cpu_has_amx_support"), constant(False)),
            "get_int_env_var": lambda name, default=0: default,
            "get_device": constant(Device("cpu")),
            "get_device_capability": constant((0, 0)),
            "get_device_sm": constant(0),
            "get_device_core_count": constant(1),
            "divide": lambda a, b: a // b,
            "ceil_div": lambda a, b: -(-a // b),
            "lru_cache_frozenset": lambda *_, **__: lambda function: function,
            "register_custom_op": Anything("operator"),
            "current_platform": Platform(is_cuda=constant(False)),
            "get_compiler_backend": constant("eager"),
            "get_num_fused_shared_experts": constant(0),
            "declare_ffn": lambda *_, sparse=True, **__: SimpleNamespace(sparse=sparse),
            **dict.fromkeys(("resolve_linear_parallel_group", "get_group_rank_size"), constant((0, 1))),
            "load_pointer_adapter": constant(None),
            "compute_mla_mscale_scaling": self.latent_scale,
            "append_stages": lambda *stages, **_: tuple(Part() for _ in stages),
            "apply_qk_norm": lambda q, k, *_, **__: (q, k),
            "apply_qk_norm_with_optional_rope": None,
            "register_customized_processor": lambda *_, **__: lambda cls: cls,
            "AttentionType": SimpleNamespace(
                DECODER="decoder", DECODER_BIDIRECTIONAL="both", ENCODER_ONLY="encoder"
            ),
        }

    def latent_scale(self, rope_scaling, scale):
        """Apply the released rule for the softmax scale, without importing its file, which imports the engine."""
        yarn = importlib.import_module("sglang.srt.layers.rotary_embedding.yarn")
        rule = self.function(
            "sglang.srt.configs.model_config",
            "compute_mla_mscale_scaling",
            "yarn_get_mscale",
            math=importlib.import_module("math"),
            logger=Platform(),
            yarn_get_mscale=yarn.yarn_get_mscale,
        )
        return rule(rope_scaling, scale)

    @functools.cached_property
    def registry(self):
        """Return module and class of every architecture, from EntryClass."""
        found = {}
        for file in sorted(self.root.glob("sglang/srt/models/*.py")):
            for node in ast.parse(file.read_text("utf-8-sig")).body:
                if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "EntryClass":
                    names = [name.id for name in ast.walk(node.value) if isinstance(name, ast.Name)]
                    found.update({name: (f"sglang.srt.models.{file.stem}", name) for name in names})
        return found

    def build(self, config):
        common = importlib.import_module("sglang.srt.utils.hf_transformers.common")
        parsing = importlib.import_module("sglang.srt.utils.hf_transformers.config")
        self.register(config["model_type"], common._CONFIG_REGISTRY)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "config.json").write_text(json.dumps(config))
            parsed = parsing.get_config(folder, trust_remote_code=False)
        name = next((each for each in parsed.architectures or () if each in self.registry), None)
        name, parsed = name or self.backend(parsed), self.prepared(parsed)
        module, name = self.registry[name]
        cls = getattr(importlib.import_module(module), name)
        known = inspect.signature(cls.__init__).parameters
        arguments = {"config": parsed, "quant_config": None, "prefix": ""}
        given = {key: value for key, value in arguments.items() if key in known}
        model = cls(**given) if "config" in given else cls(parsed, **given)
        return model, {"class": self.name_of(cls), "admitted": common.get_context_length(self.text)}

    def backend(self, parsed):
        """Return the class that runs transformers' models, by the released rule, which refuses some models."""
        modes = SimpleNamespace(AUTO="auto", TRANSFORMERS="transformers")
        choose = self.function(
            "sglang.srt.model_loader.utils",
            "resolve_transformers_arch",
            "_get_transformers_backend_arch",
            "_is_moe_model",
            "_is_sequence_classification_model",
            transformers=importlib.import_module("transformers"),
            logger=Platform(),
            ModelImpl=modes,
        )
        model = SimpleNamespace(
            hf_config=parsed,
            hf_text_config=parsed.get_text_config(),
            is_generation=True,
            is_multimodal=False,
            model_impl=modes.AUTO,
        )
        return choose(model, parsed.architectures or [])[0]

    def made_with(self, attention):
        made = attention.made
        window = made.get("sliding_window_size")
        return {
            "head_dim": made.get("head_dim"),
            "scale": vars(attention).get("scaling"),  # set by the transformers backend while it runs
            "window": None if window in (None, -1) else window + 1,
            "chunk": getattr(self.text, "attention_chunk_size", None) if made.get("use_irope") else None,
            "softcap": made.get("logit_cap") or None,
        }
