"""vLLM: its model registry, config parser and settings."""

import ast
import copy
import functools
import importlib
import json
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace

import torch
from tools.model_files.release import Release
from tools.model_files.stand_ins import (
    Anything,
    Base,
    Embedding,
    Norm,
    OneProcess,
    Operator,
    Part,
    Settings,
    constant,
    layer_class,
)

YES = ("is_cuda", "is_cuda_alike")
NO = (
    *("is_rocm", "is_xpu", "is_cpu", "is_tpu", "is_out_of_tree", "is_zen_cpu", "has_device_capability"),
    *("is_device_capability", "is_device_capability_family", "supports_fp8", "opaque_attention_op"),
    *("is_arch_support_pdl", "is_fp8_fnuz", "seed_everything", "support_static_graph_mode"),
)
PARALLEL = (
    *("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "decode_context_parallel_size"),
    *("prefill_context_parallel_size", "world_size"),
)


class Platform(Settings):
    """A CUDA platform with one device."""

    def __getattr__(self, name):
        return Anything(f"platform.{name}")


def stated(config, name):
    """Return a number from a config, or None if it differs by layer."""
    try:
        return getattr(config, name, None)
    except Exception:
        return None


class Vllm(Release):
    """A release of vLLM."""

    package = "vllm"
    rotary = "vllm.model_executor.layers.rotary_embedding"
    attention = "vllm.model_executor.layers.attention"
    asked = (
        "vllm.model_executor.layers.rotary_embedding",
        "vllm.model_executor.layers.mla",
        "vllm.model_executor.models",
        "vllm.models",
        "vllm.transformers_utils",
        "vllm.utils.math_utils",
        "vllm.utils.collection_utils",
        "vllm.envs",
        "vllm.config.model_arch",
    )
    not_asked = (
        r"vllm\.model_executor\.models(\.registry|\.config)?",
        r"vllm\.models\..*\.ops(\..*)?",
        r"vllm\.transformers_utils\.(processors?|runai_utils|s3_utils)(\..*)?",
    )

    def stands_for(self, module, name):
        if module.startswith(self.attention) and re.fullmatch(r"\w*Attention", name):
            return self.attention_class(name, self.attention)
        return self.names.get(name) or layer_class(name) or Anything(f"{module}.{name}")

    @functools.cached_property
    def names(self):
        platform = Platform(
            **dict.fromkeys(YES, constant(True)),
            **dict.fromkeys(NO, constant(False)),
            simple_compile_backend="eager",
            device_type="cpu",
            device_name="cpu",
            check_max_model_len=lambda length: length,
            get_device_capability=constant(None),
            fp8_dtype=constant(torch.float8_e4m3fn),
            num_compute_units=constant(1),
            current_device=constant("cpu"),
        )
        groups = ("pp", "tp", "ep", "dp", "dcp", "pcp", "world", "eplb")
        engine = ("get_current_vllm_config", "get_current_vllm_config_or_none")
        sizes = ("tensor_model_parallel", "decode_context_model_parallel")
        return {
            **{f"get_{name}_group": constant(OneProcess()) for name in groups},
            **{name: lambda *_, **__: self.engine for name in engine},
            **{f"get_{name}_world_size": constant(1) for name in sizes},
            **{f"get_{name}_rank": constant(0) for name in sizes},
            "get_pp_indices": lambda layers, *_: (0, layers),
            "get_offloader": constant(
                SimpleNamespace(wrap_modules=lambda each, **_: list(each), supports_tower_offload=False)
            ),
            "init_logger": constant(Platform()),
            "current_platform": platform,
            **dict.fromkeys(("CustomOp", "PluggableLayer"), Operator),
            **dict.fromkeys(("VocabParallelEmbedding", "ParallelLMHead"), Embedding),
            **dict.fromkeys(("FusedMoE", "SharedFusedMoE"), Part),
            "MiniMaxText01RMSNormTP": Norm,
            "divide": lambda a, b: a // b,
            "ensure_divisibility": constant(0),
            "get_act_fn": lambda *_, **__: Part(),
            "getattr_iter": self.first_of,
            "AttentionLayerBase": Base,
            "aux_stream": constant(None),
            "split_tensor_along_last_dim": lambda x, parts, **_: x.chunk(parts, -1),
            **dict.fromkeys(
                ("tensor_model_parallel_all_gather", "tensor_model_parallel_all_reduce"), lambda x, *_, **__: x
            ),
            "is_vit_use_data_parallel": constant(False),
            "compute_fp8_einsum_recipe": constant((None, None)),
            "initialize_model": self.part,
        }

    def first_of(self, owner, names, default=None, default_factory=None, warn=False):
        """Return the first of these attributes that is not None."""
        values = (getattr(owner, name, None) for name in names)
        found = next((value for value in values if value is not None), None)
        return found if found is not None else default_factory() if default_factory else default

    @functools.cached_property
    def registry(self):
        """Return module and class of every architecture."""
        found = {}
        for node in ast.parse(self.file("vllm.model_executor.models.registry").read_text("utf-8-sig")).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
                for key, value in zip(node.value.keys, node.value.values, strict=True):
                    if isinstance(key, ast.Constant) and isinstance(value, ast.Tuple):
                        found.setdefault(key.value, tuple(ast.literal_eval(value)))
        return found

    def class_of(self, architectures):
        """Return the class of an architecture, or the class of the transformers backend."""
        name = next((each for each in architectures or () if each in self.registry), None)
        if name is None:
            experts = ("num_experts", "num_local_experts", "n_routed_experts")
            moe = any(getattr(self.text, key, None) for key in experts)
            name = "TransformersMoEForCausalLM" if moe else "TransformersForCausalLM"
        module, cls = self.registry[name]
        module = module if module.startswith("vllm.") else f"vllm.model_executor.models.{module}"
        return getattr(importlib.import_module(module), cls)

    def build(self, config):
        parsing = importlib.import_module("vllm.transformers_utils.config")
        self.register(config["model_type"], parsing._CONFIG_REGISTRY)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "config.json").write_text(json.dumps(config))
            parsed = self.prepared(parsing.get_config(folder, False, config_format="hf"))
            if getattr(self.text, "sliding_window", None) == 0:  # as in ModelConfig
                self.text.sliding_window = None
            admitted, arch = self.longest(parsed, parsing)
        self.engine = self.engine_of(parsed, admitted, arch)
        cls = self.class_of(parsed.architectures)
        return cls(vllm_config=self.engine, prefix=""), {"class": self.name_of(cls), "admitted": admitted}

    def longest(self, parsed, parsing):
        """Return the longest input by the released rule without a tokenizer file, and the derived config values."""
        module = importlib.import_module("vllm.transformers_utils.model_arch_config_convertor")
        classes = getattr(module, "MODEL_ARCH_CONFIG_CONVERTORS", {})
        made = classes.get(parsed.model_type, module.ModelArchConfigConvertorBase)(parsed, self.text)
        try:
            arch = made.convert()
        except Exception:  # keys that copies omit
            arch = None
        rule = self.function(
            "vllm.config.model",
            "_get_and_verify_max_len",
            logger=Platform(),
            envs=Anything("envs"),
            current_platform=self.names["current_platform"],
            **{
                name: getattr(parsing, name, None) for name in ("iter_rope_parameters", "is_rope_parameters_nested")
            },
        )
        derived = SimpleNamespace(derived_max_model_len_and_key=made.derive_max_model_len_and_key())
        return rule(self.text, derived, None, None, False, getattr(self.text, "sliding_window", None)), arch

    def settings(self, module, name, **given):
        return Settings(self.defaults(f"vllm.config.{module}", name), **given)

    def engine_of(self, parsed, admitted, arch):
        """Return the settings of an engine that serves this config."""
        text, types = self.text, getattr(self.text, "layer_types", None)
        alone = types is None or set(types) == {"sliding_attention"}  # as in create_engine_config
        heads, shared, channels = (
            stated(text, f"num_{name}" if name.endswith("heads") else name)
            for name in ("attention_heads", "key_value_heads", "head_dim")
        )
        pictures = self.settings(
            "multimodal",
            "MultiModalConfig",
            get_limit_per_prompt=constant(0),
            get_video_pruning_spec=constant(None),
        )
        model = self.settings(
            "model",
            "ModelConfig",
            **dict.fromkeys(("is_deepseek_mla", "use_mla"), "kv_lora_rank" in text.to_dict()),
            **dict.fromkeys(
                ("is_mm_prefix_lm", "is_multimodal_model", "is_hybrid", "uses_mrope", "quantization"), False
            ),
            hf_config=parsed,
            hf_text_config=text,
            max_model_len=admitted,
            dtype=torch.float32,
            model="model",
            get_num_kv_heads=constant(shared or heads),
            get_num_attention_heads=constant(heads),
            get_hidden_size=constant(text.hidden_size),
            get_vocab_size=constant(getattr(text, "vocab_size", 4096)),
            get_head_size=constant(channels),
            multimodal_config=pictures,
            get_multimodal_config=constant(pictures),
            model_arch_config=arch,
            pooler_config=Anything("pooler"),
            try_get_generation_config=dict,
            get_diff_sampling_param=dict,
            override_generation_config={},
            attention_chunk_size=getattr(text, "attention_chunk_size", None),
            runner_type="generate",
            architecture=(parsed.architectures or [""])[0],
        )
        cache = self.settings(
            "cache",
            "CacheConfig",
            **dict.fromkeys(("cache_dtype", "mamba_cache_dtype"), "auto"),
            sliding_window=getattr(text, "sliding_window", None) if alone else None,
            block_size=16,
            kv_sharing_fast_prefill=False,
        )
        compiling = self.settings(
            "compilation",
            "CompilationConfig",
            **dict.fromkeys(("fast_moe_cold_start", "static_all_moe_layers"), False),
            static_forward_context={},
            custom_ops=["none"],
            pass_config=Settings(),
            mode=0,
            cudagraph_capture_sizes=[],
            splitting_ops=[],
        )
        scheduling = {"max_num_batched_tokens": 2048, "max_num_seqs": 8, "max_model_len": admitted}
        plain = {"quant_config": None, "lora_config": None, "speculative_config": None, "kv_transfer_config": None}
        engine = self.settings(
            "vllm",
            "VllmConfig",
            **plain,
            model_config=model,
            cache_config=cache,
            compilation_config=compiling,
            parallel_config=self.settings(
                "parallel",
                "ParallelConfig",
                **dict.fromkeys(PARALLEL, 1),
                eplb_config=Settings(num_redundant_experts=0),
            ),
            scheduler_config=self.settings("scheduler", "SchedulerConfig", **scheduling),
            kernel_config=self.settings("kernel", "KernelConfig"),
            device_config=Settings(device=torch.device("cpu")),
            attention_config=self.settings("attention", "AttentionConfig"),
            load_config=self.settings("load", "LoadConfig"),
            observability_config=Settings(),
            additional_config={},
            instance_id="one",
        )
        return self.serving(engine)

    def serving(self, engine):
        """Add a method to the engine's config that rebuilds it for a part of the model's config."""

        def with_hf_config(part, architectures=None, **_):
            from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

            part, inner, model = copy.deepcopy(part), copy.copy(engine), copy.copy(engine.model_config)
            inner.__dict__, model.__dict__ = dict(vars(engine)), dict(vars(engine.model_config))
            named = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.get(part.model_type)
            part.architectures = architectures or part.architectures or ([named] if named else [])
            if not hasattr(part, "tie_word_embeddings"):
                part.tie_word_embeddings = False
            model.hf_config, model.hf_text_config, inner.model_config = part, part.get_text_config(), model
            return self.serving(inner)

        engine.with_hf_config = with_hf_config
        return engine

    def part(self, vllm_config, *, prefix="", model_class=None, model_config=None):
        """Return the language model inside a composite model."""
        cls = model_class or self.class_of(vllm_config.model_config.hf_config.architectures)
        return cls(vllm_config=vllm_config, prefix=prefix)

    def made_with(self, attention):
        made = attention.made
        window = made.get("per_layer_sliding_window")
        if window is None and made.get("cache_config") is not None:
            window = made["cache_config"].sliding_window
        slopes = made.get("alibi_slopes")
        facts = {
            "head_dim": made.get("head_size"),
            "scale": made.get("scale"),
            "window": window if window not in (-1, 0) else None,
            "chunk": made.get("attention_chunk_size"),
            "softcap": made.get("logits_soft_cap") or None,
            "sinks": made.get("sinks") is not None,
            "alibi": None if slopes is None else [float(slope) for slope in slopes],
        }
        if "qk_rope_head_dim" in made:
            facts["latent"] = [made.get("qk_nope_head_dim"), made["qk_rope_head_dim"]]
        return facts
