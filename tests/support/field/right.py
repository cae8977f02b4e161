"""Cases that posenc answered correctly when they were first tried."""

from collections.abc import Callable

import torch
from torch import Tensor

import posenc
from posenc.positions import Text, Video, arange, multimodal
from support.field import doctor, listings
from support.field.case import Case, config, refusal
from support.field.listings import changed

_UNROPED = "pytorch/executorch 22043, timtoole02/Camelid 535, litert-torch 1087, antonellof/ferrox 193"
_TO_TYPE = "inspect llama1.json --for llama.cpp --scaling 'linear(1.5)' --max-length 3048"
_SERIES = ("for h in range(heads)", "for h in range(1, heads + 1)")


def video() -> str:
    """Return the positions of the first frame, the second frame, and the text after eight frames of two seconds."""
    at, after = multimodal([Text(15), Video(8, 24, 28, seconds=2.0), Text(10)], "qwen2.5-vl")
    starts = (15, 15 + 12 * 14, at.shape[1] - 10)
    return " ".join(str(int(at[0, start])) for start in starts) + f" next {after}"


def squared() -> str:
    """Return a port that multiplies by YaRN's attention factor twice."""

    def port(right: doctor.Vectors) -> dict[str, Tensor]:
        factor = right.header["layers"]["all"]["attention_factor"]
        return {key: factor * right.arrays[f"all.{key}"] for key in ("cos", "sin")}

    return doctor.diagnosis("qwen3-yarn", port)


def unscaled(name: str, base: float) -> Callable[[], str]:
    """Return a port that omits the scaling."""
    return lambda: doctor.diagnosis(name, lambda _: {"all.inv_freq": doctor.ladder(base, 128, 64)})


def everywhere() -> str:
    """Return a port of ModernBERT that uses the base of global layers in all layers."""
    return doctor.diagnosis(
        "modernbert", lambda right: {"sliding_attention.inv_freq": right.arrays["full_attention.inv_freq"]}
    )


def falcon() -> str:
    """Return the number that the first of eight heads with 64 channels adds to the score of the previous token."""
    (encoding,) = config("falcon-alibi").encodings(2048).values()
    nothing = torch.zeros(1, 8, 2, 64)
    scores = posenc.scores(nothing, nothing, encoding.at(arange(2)), causal=True)
    return f"{scores[0, 0, 1, 0].item():.6g}"


CASES = tuple(
    Case(*case)
    for case in (
        ("F03", "huggingface/transformers 45381", video, ("^15 19 44 next 54$",)),
        (
            "F04",
            "huggingface/transformers 44474, QwenLM/Qwen3.5 58",
            lambda: refusal(lambda: multimodal([Text(2), Video(8, 24, 28)], "qwen3-vl")),
            ("each frame as Image.* as Text",),
        ),
        (
            "F07",
            _UNROPED,
            "inspect smollm3.json",
            (r"\b27 layers with RoPE", r"\b9 layers without positional encoding"),
        ),
        ("F07 in Llama", _UNROPED, "inspect llama-no-rope.json", (r"unknown key.*'no_rope_layer_interval'",)),
        (
            "F08",
            "pytorch/torchtitan 3787",
            "inspect swapped-betas.json",
            (r"beta_fast=1\.0 must be above beta_slow=32\.0.*32 and 1",),
        ),
        ("F09", "huggingface/transformers 48217, 48101", "inspect odd-head.json", ("=65 must be even.*66",)),
        ("F10", "onnxruntime/mobius 293", "inspect hunyuan.json", ("NTK scaling by 1000",)),
        (
            "F10 a port",
            "onnxruntime/mobius 293",
            unscaled("hunyuan", 1e4),
            (r"omits the model's ntk\(.*1000",),
        ),
        ("F11", "lablup/mlxcel 1324, 1389", "inspect dynamic.json", ("64 unchanged",)),
        (
            "F12",
            "NVIDIA/TensorRT-Model-Connect 692",
            "inspect modernbert.json",
            (r"\b2 layers.*base 160000\b.*4 layers.*base 10000\b",),
        ),
        ("F12 a port", "NVIDIA/TensorRT-Model-Connect 692", everywhere, (r"full_attention' \(base 160000\)",)),
        ("F13", "sgl-project/sglang 33558", squared, (r"factor is 1\.29648 instead of 1\.13863",)),
        ("F14", "Blaizzy/mlx-vlm 1709, 1927", "diff gemma3.json gemma3-nested.json", ("no differences",)),
        (
            "F14 mlx-lm",
            "lablup/mlxcel 1340",
            "diff gemma3-nested.json mlx:gemma3-nested.json",
            (r"by factors up to 8", "rope_parameters is not read"),
        ),
        (
            "F15",
            "unslothai/unsloth 11192",
            "inspect gemma3-nested.json",
            (r"base 1000000, every frequency divided by 8", r"base 10000, no scaling"),
        ),
        (
            "F16",
            "vllm-project/vllm 46280",
            "diff stated-factor.json vllm@0.29.0:stated-factor.json",
            (r"multiplied by 1 in ours, 1\.346574 in theirs; cos off by 0\.35 at position 0",),
        ),
        (
            "F17",
            "sgl-project/SpecForge 265, 702, NVIDIA-NeMo/Automodel 2920",
            "diff qwen3-target.json --draft other-base-draft.json",
            ("at position 1",),
        ),
        (
            "F18",
            "NVIDIA-NeMo/RL 3960",
            "diff qwen3-target.json --draft eagle-draft.json",
            ("the draft model allows only 2048 tokens, but its target allows 262144",),
        ),
        (
            "F19",
            "baichuan-inc/Baichuan2 225",
            lambda: doctor.code(changed(listings.ALIBI, _SERIES)),
            (r"slopes are the single series 2\^\(−8i/h\).*power of two",),
        ),
        (
            "F21",
            "LostRuins/koboldcpp 1847",
            _TO_TYPE,
            (r"--rope-scaling linear .*--rope-scale 1\.5 .*llama\.context_length=int:3048",),
        ),
        ("F23", "mlc-ai/mlc-llm 3202", "inspect llama3.json", (r"Trained length 8192\b", "beyond 8192 tokens")),
        ("F24", "ml-explore/mlx-lm 5", "diff qwen25-coder.json mlx:qwen25-coder.json", ("no differences",)),
        (
            "F26",
            "guoqingbao/xinfer 329",
            "inspect qwen3-yarn.json",
            (r"[Ff]actor 1\.139: scores are multiplied by 1\.296", r"is 131072, but the config allows 40960"),
        ),
        (
            "F27",
            "trymirai/lalamo 325, mlxcel 1358",
            "diff phi3-long.json vllm:phi3-long.json",
            ("131072 in ours, 4096 in theirs",),
        ),
        (
            "F27 the length of a list",
            "trymirai/lalamo 325, mlxcel 1358",
            "inspect phi3-short-list.json",
            ("has 48 numbers.*must have 64",),
        ),
        (
            "F28",
            "lablup/mlxcel 1355, 1389",
            "inspect both-keys.json",
            ("'yarn' contradicts type='dynamic'; keep one",),
        ),
        ("F29", "osaurus-ai/vmlx-swift 225", lambda: str(config("muse-vision").rotary), (r"order=\(1, 0\)",)),
        ("F30", "jingyaogong/minimind", "inspect minimind.json", ("--as-type llama",)),
        ("F30 the hint", "jingyaogong/minimind", "inspect minimind.json --as-type llama", ("YaRN scaling by 16",)),
        (
            "F31",
            "modelscope/ms-swift 9501, vllm-project/vllm 54815, huggingface/transformers 45910",
            "inspect deepseek-v4-flat.json",
            (r"compress: Scaling yarn\(factor=16,",),
            ("Attention factor",),
        ),
        (
            "F32",
            "jquesnelle/yarn 40",
            "inspect misspelt.json",
            ("'original_max_position_embedding'; did you mean 'original_max_position_embeddings'",),
        ),
        (
            "F35",
            "keras-team/keras-hub 2861, modeling_falcon.py",
            falcon,
            (r"^-0\.0625$",),  # like q·k, the slope of 1/2 is divided by √64
        ),
        ("F34 SGLang", "", "diff qwen25vl-yarn.json sglang:qwen25vl-yarn.json", ("no differences",)),
    )
)
