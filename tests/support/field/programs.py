"""Cases about the way in which other programs read a config."""

from posenc.integrations.programs import llama_cpp, mlx, sglang
from support.field.case import Case, config, refusal, said


def gguf_type() -> str:
    """Return the family whose rules apply to a GGUF file of Qwen 2."""
    fields = {
        "general.architecture": "qwen2",
        "qwen2.embedding_length": 512,
        "qwen2.attention.head_count": 4,
        "qwen2.block_count": 2,
        "qwen2.context_length": 32768,
        "qwen2.rope.freq_base": 1e6,
    }
    return llama_cpp.positions_of(llama_cpp.Fields(fields)).model_type


def both_spellings() -> str:
    """Compare dynamic scaling with vLLM in the spellings of transformers 4 and 5."""
    older, newer = (said(f"diff {name}.json vllm:{name}.json") for name in ("dynamic", "dynamic-nested"))
    return f"{older}\n{'the same' if older == newer else newer}"


_KIMI = "PaddlePaddle/PaddleFleet 678; deepseek_v2.py of vLLM 0.33.0"
_RAMP = "rotary_embedding/mrope.py of vLLM 0.33.0; NVIDIA/TensorRT-LLM 9059"
_SCALE = ("1/√D is multiplied",)
_PROGRAM = (r"(?i)posenc vectors|^{0} \d",)
_ANOTHER = (r"did you mean '(transformers|llama_cpp|vllm)'",)

CASES = (
    *(
        Case(*case)
        for case in (
            ("F33 vLLM", _KIMI, "diff kimi-k2.json vllm:kimi-k2.json", ("no differences",), _SCALE),
            ("F33 SGLang", _KIMI, "diff kimi-k2.json sglang:kimi-k2.json", ("no differences",), _SCALE),
            ("F33 to type", _KIMI, "inspect kimi-k2.json --for vllm", ("vllm serve",)),
            (  # this type is in its MODEL_REMAPPING
                "F33 mlx-lm",
                _KIMI,
                "diff kimi-k2.json mlx:kimi-k2.json",
                (r"no differences| in ours, ",),
                ("has no model_type",),
            ),
            (
                "F34",
                _RAMP,
                "diff qwen25vl-yarn.json vllm:qwen25vl-yarn.json",
                (r"frequencies of 23 of 64 pairs differ, by factors up to 2\.2[34]",),
                ("no differences",),
            ),
            ("F34 to type", _RAMP, "inspect qwen25vl-yarn.json --for vllm", ("refused|--hf-overrides|differ",)),
            (
                "F36",
                "internlm3 and other files of transformers 4",
                both_spellings,
                (r"(?s)196608 in theirs.*the same",),
            ),
            (
                "F36 HunYuan",
                "onnxruntime/mobius 293",
                "diff hunyuan.json vllm:hunyuan.json",
                ("no differences| in ours, ",),
                ("has no 'rope_theta'",),
            ),
            (
                "F10 to type",
                "onnxruntime/mobius 293",
                "inspect hunyuan.json --for vllm --scaling yarn(4)",
                (r"refused: YaRN\(.*would replace the model's own NTK\(factor=1000.*rope_theta = 11158839\.9",),
                ("--hf-overrides",),
            ),
            (
                "F07 to type",
                "layer_rope_theta in transformers/models/muse_glimmer",
                "inspect muse-glimmer.json --for vllm --scaling yarn(2)",
                ("note: all rotary layers have windows within the trained length, so scaling cannot",),
            ),
            *(
                (
                    f"F55 {name}",
                    source,
                    f"inspect llama3.json --for {name}",
                    tuple(pattern.format(name) for pattern in _PROGRAM),
                    _ANOTHER,
                )
                for name, source in {
                    "tensorrt-llm": "NVIDIA/TensorRT-LLM 16379",
                    "exllamav3": "turboderp-org/exllamav3 259",
                    "ollama": "",
                    "mlc-llm": "mlc-ai/mlc-llm 3202",
                }.items()
            ),
            (
                "F58",
                "sgl-project/SpecForge 702, mini-sglang 13",
                "diff two-bases.json transformers@4.57.6:two-bases.json",
                (r"base 1000000\b.* in ours, base 10000\b.* in theirs",),
            ),
            (
                "bug 10 SGLang",
                "",
                lambda: refusal(lambda: sglang.write(config("ministral3"))),
                ("SGLang",),
                ("vLLM", "mlx"),
            ),
            (
                "bug 10 mlx-lm",
                "",
                lambda: refusal(lambda: mlx.write(config("smollm3"))),
                ("mlx-lm",),
                ("vLLM",),
            ),
            ("bug 11", "", gguf_type, ("qwen2",), ("llama",)),
            (  # its file is a subclass of llama.py, which uses rope_utils
                "F07 mlx-lm",
                "models/smollm3.py of mlx-lm 0.32.2",
                "diff smollm3.json mlx:smollm3.json",
                ("model_type 'smollm3' was not checked in mlx-lm 0.32.2",),
                ("has no model_type",),
            ),
            *(  # the class calls the length model_max_length, and the files call it max_position_embeddings
                (
                    f"F43 Ling 3.0 in {program}",
                    "sgl-project/sglang 33882",
                    f"diff ling3.json {program}:ling3.json",
                    ("no differences",),
                    ("contradicts", "model_max_length"),
                )
                for program in ("vllm", "sglang")
            ),
            (
                "F43 Ling 3.0 with YaRN in sglang",
                "sgl-project/sglang 33882",
                "diff ling3.json sglang:ling3-yarn.json",
                (r"longest allowed input is 131072 in ours, 262144 in theirs", r"yarn\(factor=2"),
                ("contradicts", "model_max_length"),
            ),
        )
    ),
)
