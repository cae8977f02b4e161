"""Cases in which posenc must name the mistake in a port or a listing."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

from posenc.integrations.doctor.call import searches
from posenc.integrations.doctor.doctor import expected as asked_of
from posenc.integrations.doctor.search import diagnosed
from posenc.integrations.vectors import Vectors, assert_vectors, vectors
from support.field import listings
from support.field.case import Case, config
from support.field.listings import changed


@cache
def expected(name: str) -> Vectors:
    return vectors(config(name))


def diagnosis(name: str, port: Callable[[Vectors], Any]) -> str:
    """Return the message of ``assert_vectors`` about a port of a config."""
    try:
        assert_vectors(port(expected(name)), expected(name))
    except AssertionError as error:
        return str(error)
    except ArithmeticError as error:  # not an answer
        return f"{type(error).__name__}: {error}"
    return "passes"


def code(listing: str) -> str:
    """Return the answer of ``posenc doctor --call`` about a listing, computed in this process."""
    names: dict[str, Any] = {}
    exec(listing, names)
    name = next(name for name in reversed(names) if not name.startswith("_") and callable(names[name]))
    model = next((model for word, model in MODELS.items() if word in name), "rotary")
    model = "rotary(base=500000)" if model == "rotary" and "500000" in listing else model
    return str(diagnosed(searches(names, name, asked_of(model)[""])))


MODELS = {"positional_encoding": "sinusoidal", "alibi": "alibi", "bucket": "t5"}
"""The encoding that a word in the name of a function stands for; functions with other names are rotations."""


def halves(query: Tensor, positions: Tensor, theta: Tensor, span: int) -> Tensor:
    """Rotate the first ``span`` channels in pairs (i, i + span/2)."""
    angles = positions.flatten()[-positions.shape[-1] :, None].double() * theta.double()
    cos, sin = angles.cos().float(), angles.sin().float()
    x = query.expand(len(angles), -1)
    a, b, rest = x[:, : span // 2], x[:, span // 2 : span], x[:, span:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin, rest), -1)


def ladder(base: float, denominator: int, pairs: int) -> Tensor:
    """Return the frequencies θ_i = base^(−2i/denominator)."""
    return base ** (-2 * torch.arange(pairs).double() / denominator)


def gemma_4(theta: Tensor | None, span: int) -> Callable[[Vectors], Any]:
    """Return a port with right sliding layers; if ``theta`` is None, full layers use the first frequencies."""

    def port(right: Vectors) -> Callable[[str, Tensor, Tensor], Tensor]:
        own = right.arrays["full_attention.inv_freq"][: span // 2] if theta is None else theta
        by_type = {
            "full_attention": (own, span),
            "sliding_attention": (right.arrays["sliding_attention.inv_freq"], 256),
        }
        return lambda layer_type, query, positions: halves(query, positions, *by_type[layer_type])

    return port


def qwen_35(theta: Tensor) -> Callable[[Vectors], Any]:
    """Return a port that rotates all channels of a head in half pairs."""
    return lambda _: lambda layer_type, query, positions: halves(query, positions, theta, 256)


def other_ladder(right: Vectors) -> Mapping[str, Tensor]:
    return {"main.inv_freq": right.arrays["compress.inv_freq"]}


ZERO_PADDED = torch.cat((ladder(1e7, 256, 32), torch.zeros(96)))
_GEMMA_4 = "NVIDIA-NeMo/Megatron-Bridge 4195, apple/coreai-models 66"
_QWEN_35 = "AI-Hypercomputer/maxtext 4616, 4742, 4764; pie 603"
_BASE = ("10000.0", "500000.0")
_EXPONENT = ("torch.arange(0, d, 2).float() / d", "torch.arange(0, d // 2).float() / d")
_PRECEDENCE = ("torch.arange(0, d, 2).float() / d", "torch.arange(0, d // 2).float() / d // 2")
_CLAMPED = ("positions[:, None].float()", "torch.clamp(positions[:, None].float() / 8.0, max=8191)")
_NTK = ("10000.0 **", "40000.0 **")
_SIXTEEN = ("positions[:, None].float() * inv", "(positions[:, None].bfloat16() * inv.bfloat16()).float()")

PORTS: tuple[tuple[Any, ...], ...] = (
    (
        "F38",
        _GEMMA_4,
        lambda: diagnosis("gemma4", gemma_4(None, 128)),
        (r"\(i, i ?\+ ?64\).*\(i, i ?\+ ?256\)",),
        ("OverflowError",),
    ),
    (  # θ^(−2i/128) in the right pairs, (i, i + 256)
        "F39",
        "pegainfer 820",
        lambda: diagnosis("gemma4", gemma_4(torch.cat((ladder(1e6, 128, 64), torch.zeros(192))), 512)),
        (r"exponent.*\b128\b.*\b512\b",),
        (r"1e\+24",),
    ),
    (
        "F40 every channel",
        _QWEN_35,
        lambda: diagnosis("qwen35", qwen_35(ladder(1e7, 256, 128))),
        (r"\b256\b.*\b64\b",),
    ),
    (
        "F40 exponent over the head",
        _QWEN_35,
        lambda: diagnosis("qwen35", qwen_35(ZERO_PADDED)),
        (r"exponent.*\b256\b.*\b64\b", r"\(i, i ?\+ ?128\)"),
    ),
    (
        "F59",
        "avarok atlas 276",
        lambda: diagnosis("deepseek-v4-flat", other_ladder),
        (r"main\.inv_freq is off.*: .*compress",),
    ),
)
LISTINGS: tuple[tuple[Any, ...], ...] = (
    ("F47", "crackedaicode, torchedup", changed(listings.ROTATION, _BASE), ("^right",), ("^wrong|differs",)),
    ("F48", "flash-attn", listings.BTHD, ("^right|swapped",)),
    ("F49 apply_rotary_pos_emb", "huggingface/transformers", listings.TABLES, ("^right",)),
    ("F49 apply_rotary_emb", "meta-llama/llama", listings.COMPLEX, ("^right",)),
    ("F49 rope", "", listings.NUMPY, ("^right",)),
    ("F49 RotaryEmbedding", "", listings.MODULE, ("^right",)),
    ("F49 t5_bucket", "", listings.BUCKETS, ("^right",)),
    ("F50", "paiml/aprender 2143", listings.ALIBI, (r"\bhead\b|a step too early",)),
    (  # positions / 8; the clamp has no effect before position 65 528
        "F51 positions",
        "rasbt/LLMs-from-scratch 939",
        changed(listings.ROTATION, _BASE, _CLAMPED),
        (r"(divided by|factor|÷|/) ?8\b|1/8|0\.125",),
    ),
    (  # x / d // 2 is 0, so every pair rotates by 1 per position
        "F51 precedence",
        "ReaLLM-Forge 35",
        changed(listings.ROTATION, _PRECEDENCE),
        (r"frequenc|exponent",),
    ),
    ("F51 minus", "theneuralbase", listings.TABLE, (r"\bminus\b|\bsign\b",)),
    ("F51 base", "", changed(listings.ROTATION, _NTK), (r"\b40.?000\b",)),
    ("F51 16 bits", "", changed(listings.ROTATION, _SIXTEEN), (r"16 bits|bfloat16",)),
    ("F51 exponent", "", changed(listings.ROTATION, _EXPONENT), (r"exponent",)),
    ("F51 a part", "", listings.QUARTER, (r"\b16 of (the )?64\b",)),
)
CASES = (
    *(Case(*port) for port in PORTS),
    *(Case(id_, source, lambda listing=listing: code(listing), *rest) for id_, source, listing, *rest in LISTINGS),
)
