"""Cases of reading a config and describing it in words."""

import importlib.metadata
import re
import sys
from unittest.mock import patch

from posenc.integrations.huggingface.config_class import class_version
from support.field.case import Case, said

REPR = (r"\w=[\w'(]", r"\bDefault\(\)")
"""Patterns of Python's repr, which descriptions must not contain."""


def by_the_hint() -> str:
    """Read Ling 2.0 as the type that posenc's error names."""
    first = said("inspect ling2.json")
    hint = re.search(r"--as-type (\w+)", first)
    return said(f"inspect ling2.json --as-type {hint[1]}") if hint else first


def versions() -> str:
    """Return the version that a note names before and after the import of transformers."""
    __import__("transformers")
    after = class_version()
    class_version.cache_clear()
    with patch.dict(sys.modules):
        del sys.modules["transformers"]
        before = class_version()
    return f"before {before}, after {after}, installed {importlib.metadata.version('transformers')}"


def sections(kind: str, *pairs: int) -> tuple[str, ...]:
    return (r"\b(axes|axis)\b", r"\D{1,5}".join(map(str, pairs)), kind)


_GEMMA_4 = "NVIDIA-NeMo/Megatron-Bridge 4195, apple/coreai-models 66, cactus 594, zml 660, pegainfer 820, larql 271"
_AXES = "AI-Hypercomputer/maxtext 4616, areal 217, hipfire 324"
_LING_3 = "vllm-project/vllm 41185"
_JAPANESE = "huggingface/transformers 48630, 48633, 48652"
_LATENT = "Rapid-MLX 1225 and ports of DeepSeek, Kimi and Ling"

CASES = tuple(
    Case(*case)
    for case in (
        (
            "F37 still pairs",
            _GEMMA_4,
            "inspect gemma4.json",
            (r"\b64\b.*\b(keep|turn|rotate)", r"\b192\b.*(stand still|not rotate|are still)", r"\(i, i\+256\)"),
            ("192 in between", r"\b0 are not rotated", "all 512 channels"),
        ),
        (
            "F37 query scale",
            _GEMMA_4,
            "inspect gemma4.json",
            # gemma4 leaves 1/√D out: times √512 on global layers, times √256 on sliding ones
            (r"full_attention.*(scale|scores).*\b(22\.6\d*|1)\b", r"sliding_attention.*(scale|scores).*\b(16|1)\b"),
            ("mscale_all_dim",),
        ),
        ("F41 Qwen 3.5", _AXES, "inspect qwen35.json", sections("interleav", 11, 11, 10)),
        ("F41 Qwen 3-VL", _AXES, "inspect qwen3vl.json", sections("interleav", 24, 20, 20)),
        ("F41 Qwen 2.5-VL", _AXES, "inspect qwen25vl.json", sections("chunk", 16, 24, 24)),
        ("F42 Ling 2.0", "vllm-project/vllm 43770, vllm-ascend 6581", "inspect ling2.json", ("first 64 of 128",)),
        ("F42 the hint", "vllm-project/vllm 43770", by_the_hint, ("first 64 of 128",)),
        (  # every sixth layer has latent attention: 64 channels of 128 + 64 rotate, in neighbours
            "F43 Ling 3.0",
            _LING_3,
            "inspect ling3.json",
            (r"\b2 layers.*\b64\b.*interleaved", r"\b10 layers.*without positional encoding", r"base 6000000"),
        ),
        (
            "F43 Ling 3.0, small",
            _LING_3,
            "inspect ling3-small.json",
            (r"\b2 layers.*\b64\b.*interleaved", r"\b6 layers.*without positional encoding", r"base 6000000"),
            ("contradicts",),
        ),
        (
            "F44 GPT-NeoX-Japanese",
            _JAPANESE,
            "inspect neox-japanese.json",
            (r"\b80 channels\b.*\(i, i\+40\).*base 10000\b",),
        ),
        (  # 20 of 40 pairs
            "F44 half of it",
            _JAPANESE,
            "inspect neox-japanese-half.json",
            (r"\b40 of 80\b.*\(i, i\+20\)",),
            ("remove it",),
        ),
        (  # the released code applies no factor to this ladder; transformers computes YaRN's own
            "F45",
            "modelscope/ms-swift 9501, vllm-project/vllm 54815",
            "inspect deepseek-v4.json",
            (r"(?s)Risks:.*1\.277",),
        ),
        (  # vLLM rotates 64 of its 256 channels, transformers all
            "F46 a partial draft",
            "vllm-project/speculators 613, 733",
            "diff partial-target.json --draft partial-draft.json",
            (r"rotate.*\b64\b.* in ours.*\b256\b.* in theirs", "first differs .* at position"),
        ),
        (
            "F46 in vLLM",
            "vllm-project/speculators 613, 733",
            "diff partial-draft.json vllm:partial-draft.json",
            (r"rotate.*\b256\b.* in ours.*\b64\b.* in theirs",),
        ),
        (
            "F52",
            "NVIDIA/TensorRT-Model-Connect 692, lablup/mlxcel 1332",
            "inspect modernbert.json",
            (r"\b64\b.*(before it and the (64 )?after|on (either|each) side|on both sides)",),
            (r"itself and the 64 before it\.",),
        ),
        ("F53 DINOv3", "timm 2692, dinov3 243", "inspect dinov3.json", (r"\baxes\b", r"base 100\b"), REPR),
        ("F53 Muse", "osaurus-ai/vmlx-swift 225", "inspect muse-vision.json", (r"\baxes\b", r"base 10000\b"), REPR),
        ("F53 T5", "huggingface/transformers", "inspect t5.json", (r"32 buckets", r"\b128\b"), REPR),
        ("F53 Whisper", "huggingface/transformers", "inspect whisper.json", (r"[Ss]inusoid", r"\b448\b"), REPR),
        ("F54 DeepSeek-V3", _LATENT, "inspect deepseek-v3.json", ("last 64 of 192",), ("all 64 channels",)),
        ("F54 Kimi K2", _LATENT, "inspect kimi-k2.json", ("last 64 of 192",), ("all 64 channels",)),
        ("F54 DeepSeek-V4", _LATENT, "inspect deepseek-v4-flat.json", ("last 64 of 512",), ("all 64 channels",)),
        (
            "F56",
            "poolside/Laguna-XS.2, Olmo 3",
            "inspect stated-factor.json",
            (r"[Ff]actor.*\b1\b.*\b1\.35",),  # 0.1·ln 32 + 1 = 1.3466
        ),
        ("F57", "turboderp-org/exllamav3 78b319e", "inspect float-length.json", (r"[Tt]rained length 32768\b",)),
        (
            "bug 7 rope_type beside the dictionary",
            "",
            "inspect loose-type.json",
            (r"rope_(parameters|scaling)",),
            (r"did you mean 'rope_theta'", "(en|de)coder_"),
        ),
        (
            "bug 7 attention_factor beside the dictionary",
            "",
            "inspect loose-factor.json",
            (r"rope_(parameters|scaling)",),
            (r"did you mean 'num_attention_heads'", "(en|de)coder_"),
        ),
        ("bug 8", "", "inspect refused-by-its-class.json", (r"error: .*intermediate_size",)),
        ("bug 9", "", versions, (r"before (\S+), after \1, installed \1$",)),
    )
)
