"""Functions of signatures and results that ports have are called, and what they compute is named."""

from collections.abc import Sequence
from typing import Any

import pytest

from posenc.integrations.doctor.call import UNTESTED, answered, by_layers, together
from posenc.integrations.doctor.doctor import expected
from posenc.integrations.huggingface import read
from posenc.integrations.huggingface.model_positions import ModelPositions
from support.places import CONFIGS

MODULE = """
import torch

class Rope(torch.nn.Module):
    def __init__(self, head_dim, max_seq_len, base=10000):
        super().__init__()
        self.theta = base ** (-torch.arange(0, head_dim, 2) / head_dim)

    def forward(self, q, k, position_ids):
        angles = position_ids[:, None, :, None].float() * self.theta
        cos, sin = torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()
        half = q.shape[-1] // 2
        turned = lambda x: torch.cat((-x[..., half:], x[..., :half]), -1)
        return q * cos + turned(q) * sin, k * cos + turned(k) * sin
"""
OFFSET = """
import numpy as np

def rope(x, dims, base=10000.0, scale=1.0, offset=0):
    angles = (np.arange(x.shape[-2]) + offset)[:, None] * scale * base ** (-np.arange(0, dims, 2) / dims)
    even, odd = x[..., ::2], x[..., 1::2]
    pair = (even * np.cos(angles) - odd * np.sin(angles), odd * np.cos(angles) + even * np.sin(angles))
    return np.stack(pair, -1).reshape(x.shape)
"""
CACHE = """
import torch

def build_rope_cache(seq_len, n_elem):
    angles = torch.outer(torch.arange(seq_len).float(), 10000.0 ** (-torch.arange(0, 64, 2) / 64))
    return torch.stack((angles.cos(), angles.sin()), -1)

def apply_rope(x, rope_cache):
    pairs = x.unflatten(-1, (-1, 2))
    cos, sin = rope_cache.view(1, pairs.shape[1], 1, pairs.shape[3], 2).unbind(-1)
    a, b = pairs.unbind(-1)
    return torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(3)
"""
START = """
import torch

def rope(x, start_pos):
    length, width = x.shape[-2:]
    at = torch.arange(start_pos + 1, start_pos + 1 + length)
    angles = at[:, None] * 10000.0 ** (-torch.arange(0, width, 2) / width)
    a, b = x[..., : width // 2], x[..., width // 2 :]
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)
"""
PICTURES = """
import torch

def rope(x, position_ids):
    theta = 1e6 ** (-torch.arange(0, 128, 2) / 128)
    angles = position_ids[..., None].float() * theta
    if angles.ndim == 4:
        parts = angles.split((16, 24, 24), -1)
        angles = torch.cat([parts[order][axis] for order, axis in enumerate(AXES)], -1)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    a, b = x[..., :64], x[..., 64:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
"""
MEGATRON = """
import torch

def rope(q, k):
    angles = torch.arange(len(q))[:, None] * 10000.0 ** (-torch.arange(0, 64, 2) / 64)
    cos, sin = angles.cos()[:, None, None], angles.sin()[:, None, None]
    turn = lambda x: torch.cat((x[..., :32] * cos - x[..., 32:] * sin, x[..., 32:] * cos + x[..., :32] * sin), -1)
    return turn(q), turn(k)
"""
HALVES = """
import torch

def rope(q_pe, k_pe):
    angles = torch.arange(q_pe.shape[-2])[:, None] * 10000.0 ** (-torch.arange(0, 64, 2) / 64)
    cos, sin = angles.cos(), angles.sin()
    turn = lambda a, b: torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    return turn(q_pe[..., ::2], q_pe[..., 1::2]), turn(k_pe[..., ::2], k_pe[..., 1::2])
"""
MADE = """
import numpy as np

def make_tables(layer_idx, positions):
    return None

def rope(q, k, cos, sin):
    turned = [np.concatenate((-x[..., 32:], x[..., :32]), -1) for x in (q, k)]
    return q * cos + turned[0] * sin, k * cos + turned[1] * sin
"""
OF_A_LENGTH = MADE.replace("layer_idx, positions", "head_dim, length, base=20000.0").replace(
    "return None",
    """angles = np.tile(np.arange(length)[:, None] * base ** (-np.arange(0, head_dim, 2) / head_dim), 2)
    return np.cos(angles), np.sin(angles)""",
)
OF_POSITIONS = MADE.replace("layer_idx, ", "").replace(
    "return None",
    """at = np.asarray(positions)[:, None]
    angles = np.tile(at * 20000.0 ** (-np.arange(0, 64, 2) / 64), 2)
    return np.cos(angles), np.sin(angles)""",
)
OF_A_BATCH = """
import torch

def get_cos_sin(position_ids):
    angles = (position_ids[..., None] * 20000.0 ** (-torch.arange(0, 64, 2) / 64)).tile(2)
    return angles.cos(), angles.sin()

def rope(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    turned = [torch.cat((-x[..., 32:], x[..., :32]), -1) for x in (q, k)]
    return q * cos + turned[0] * sin, k * cos + turned[1] * sin
"""
OF_A_CLASS = """
import torch

def compute_inv_freq(head_dim, base=10000.0):
    return base ** (-torch.arange(0, head_dim, 2) / head_dim)

class LlamaRotaryEmbedding(torch.nn.Module):
    def __init__(self, dim, max_position_embeddings=2048):
        super().__init__()
        self.register_buffer("inv_freq", compute_inv_freq(dim, 20000.0))

    def forward(self, x, position_ids):
        angles = (position_ids[..., None] * self.inv_freq).tile(2)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

def apply_rotary_pos_emb(q, k, cos, sin):
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    turned = [torch.cat((-x[..., 32:], x[..., :32]), -1) for x in (q, k)]
    return q * cos + turned[0] * sin, k * cos + turned[1] * sin
"""
LATENT = """
import torch

def rope(q, positions):
    parts = list(q.split(SIZES, -1))
    a, b = parts[TURNS][..., ::2], parts[TURNS][..., 1::2]
    angles = positions[..., None] * 10000.0 ** (-torch.arange(0, 64, 2) / 64)
    cos, sin = angles.cos(), angles.sin()
    parts[TURNS] = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    return torch.cat(parts, -1)
"""
EVERY_TWO = """
import torch

def turned(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)

def rope(q, k, cos, sin, position_ids):
    cos, sin = cos[position_ids][:, None], sin[position_ids][:, None]
    return q * cos + turned(q) * sin, k * cos + turned(k) * sin
"""
TWO_MAKERS = MADE.replace(
    "def make_tables(layer_idx, positions):\n    return None",
    """def local_tables(head_dim, length):
    return tables(20000.0, head_dim, length)

def global_tables(head_dim, length):
    return tables(10000.0, head_dim, length)

def broken_tables(config):
    return None

def tables(base, head_dim, length):
    angles = np.tile(np.arange(length)[:, None] * base ** (-np.arange(0, head_dim, 2) / head_dim), 2)
    return np.cos(angles), np.sin(angles)""",
)
BY_LAYER = """
import numpy as np

def make_cos_sin(positions, layer_idx=0):
    full = layer_idx % 6 == FULL
    theta = (1e6 if full else 1e4) ** (-np.arange(0, 256, 2) / 256) / (8 if full else 1)
    angles = np.tile(np.asarray(positions)[..., None] * theta, 2)
    return np.cos(angles), np.sin(angles)

def rope(q, k, cos, sin):
    turned = [np.concatenate((-x[..., 128:], x[..., :128]), -1) for x in (q, k)]
    return q * cos + turned[0] * sin, k * cos + turned[1] * sin

def placed(x, positions, layer_type):
    cos, sin = make_cos_sin(positions, FULL * (layer_type == "full_attention"))
    return rope(x, x, cos, sin)[0]
"""
"""A port of Gemma 3, with its own rule of which layers are full: every sixth."""
SLOPES = """
def get_slopes(n):
    return [2 ** (-8 * (i + 1) / n) for i in range(n)]
"""
BUCKETS = """
import torch

def relative_position_bucket(relative_position, bidirectional=True, num_buckets=32, max_distance=128):
    first = 0
    if bidirectional:
        num_buckets //= 2
        first = (relative_position > 0) * num_buckets
        distance = relative_position.abs()
    else:
        distance = -relative_position.clamp(max=0)
    exact = num_buckets // 2
    further = torch.log(distance.clamp(min=1) / exact) / torch.tensor(max_distance / exact).log()
    far = (exact + (further * (num_buckets - exact)).long()).clamp(max=num_buckets - 1)
    return first + torch.where(distance < exact, distance, far)
"""
OF_A_MASK = """
import torch
def build_alibi_tensor(attention_mask, num_heads, dtype):
    slopes = torch.tensor([2.0 ** -(i + 1) for i in range(8)] + [2.0 ** -(i + 0.5) for i in range(4)])
    positions = ((attention_mask.cumsum(dim=-1) - 1) * attention_mask)[:, None, :]
    return (slopes[:, None] * positions).reshape(len(attention_mask) * num_heads, 1, -1).to(dtype)
"""
ADDED = """
import math, torch
class Codes(torch.nn.Module):
    def __init__(self, d_model, dropout=0.1, max_len=512):
        super().__init__()
        frequencies = torch.exp(-math.log(10000.0) * torch.arange(0, d_model, 2) / d_model)
        angles = torch.arange(max_len)[:, None] * frequencies
        self.pe = torch.stack((angles.sin(), angles.cos()), -1).flatten(1)[None]
        self.dropout = torch.nn.Dropout(dropout)
    def forward(self, x):
        return self.dropout(x + self.pe[:, :x.size(1)])
"""
ADDED_BY_TOKEN = ADDED.replace("flatten(1)[None]", "flatten(1)[:, None]").replace("[:, :x.size(1)]", "[:x.size(0)]")
CODES = """
import numpy as np

def positional_encoding(length, depth):
    angles = np.arange(length)[:, None] / 10000 ** (np.arange(depth) / depth)
    return np.where(np.arange(depth) % 2, np.cos(angles), np.sin(angles))
"""
ENDING = """
import torch

def tables(dim=64, end=ROWS, base=500000.0):
    angles = torch.outer(torch.arange(end), base ** (-torch.arange(0, dim, 2) / dim)).tile(2)
    return angles.cos(), angles.sin()

def rope(x, positions):
    cos, sin = tables(x.shape[-1])
    return x * cos[positions] + torch.cat((-x[..., 32:], x[..., :32]), -1) * sin[positions]
"""
"""A port whose own table of cos and sin ends."""


TURN = """
import torch

def turned(x):
    return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1)

def angles(x, positions, base=500000.0):
    theta = base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    return torch.as_tensor(positions)[..., None].float() * theta
"""
"""Rotation of half pairs, for ports of the mistakes below."""
PORTS = {
    "keys that mix in queries": """
def rope(q, k, positions):
    cos, sin = angles(q, positions).tile(2).cos(), angles(q, positions).tile(2).sin()
    return q * cos + turned(q) * sin, k * cos + turned(q) * sin
""",
    "keys that stay": """
def rope(q, k, positions):
    at = angles(q, positions).tile(2)
    return q * at.cos() + turned(q) * at.sin(), k
""",
    "queries alone": """
def rope(q, k, positions):
    at = angles(q, positions).tile(2)
    return q * at.cos() + turned(q) * at.sin(), None
""",
    "a start that is ignored": """
def rope(x, start_pos=0):
    at = angles(x, torch.arange(x.shape[-2])).tile(2)
    return x * at.cos() + turned(x) * at.sin()
""",
    "a start": """
def rope(x, start_pos=0):
    at = angles(x, torch.arange(start_pos, start_pos + x.shape[-2])).tile(2)
    return x * at.cos() + turned(x) * at.sin()
""",
    "a start that is needed": """
def rope(x, start_pos):
    at = angles(x, start_pos + torch.arange(x.shape[-2])).tile(2)
    return x * at.cos() + turned(x) * at.sin()
""",
    "another start": """
def rope(x, start_pos=0):
    at = angles(x, torch.arange(5, 5 + x.shape[-2])).tile(2)
    return x * at.cos() + turned(x) * at.sin()
""",
    "the start for every token": """
def rope(x, start_pos):
    at = angles(x, torch.full((x.shape[-2],), start_pos)).tile(2)
    return x * at.cos() + turned(x) * at.sin()
""",
    "positions backwards": """
def rope(x, positions):
    at = angles(x, positions.flip(-1)).tile(2)
    return x * at.cos() + turned(x) * at.sin()
""",
    "the last row for every token": """
def rope(x, positions):
    at = angles(x, positions).tile(2)
    return x * at.cos()[-1:] + turned(x) * at.sin()[-1:]
""",
    "two minus signs": """
def rope(x, positions):
    at, (a, b) = angles(x, positions), x.chunk(2, -1)
    return torch.cat((a * at.cos() - b * at.sin(), b * at.cos() - a * at.sin()), -1)
""",
    "repeated angles": """
def rope(x, positions):
    at = angles(x, positions).repeat_interleave(2, -1)
    return x * at.cos() + turned(x) * at.sin()
""",
    "an overwritten half": """
def rope(x, positions):
    at, half = angles(x, positions), x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    a[:] = a * at.cos() - b * at.sin()
    b[:] = b * at.cos() + a * at.sin()
    return x
""",
    "another default": """
def rope(x, positions, theta=10000.0):
    at = angles(x, positions, theta).tile(2)
    return x * at.cos() + turned(x) * at.sin()
""",
    "functions of torch": """
from torch import arange, cat, outer

def rope(x, positions):
    at = outer(positions.float(), 500000.0 ** (-arange(0, 64, 2) / 64)).tile(2)
    return x * at.cos() + cat((-x[..., 32:], x[..., :32]), -1) * at.sin()
""",
    "values too": """
def rope(q, k, v, positions):
    at = angles(q, positions).tile(2)
    return tuple(x * at.cos() + turned(x) * at.sin() for x in (q, k, v))
""",
    "values that stay": """
def rope(q, k, v, positions):
    at = angles(q, positions).tile(2)
    return *(x * at.cos() + turned(x) * at.sin() for x in (q, k)), v
""",
    "an exponent over nothing of the model": """
def rope(x, positions):
    at = torch.outer(positions.float(), 500000.0 ** (-torch.arange(0, 64, 2) / 40)).tile(2)
    return x * at.cos() + turned(x) * at.sin()
""",
    "an exponent over the width": """
def rope(x, positions):
    at = torch.outer(positions.float(), 500000.0 ** (-torch.arange(0, 64, 2) / 4096)).tile(2)
    return x * at.cos() + turned(x) * at.sin()
""",
    "positions divided as integers": """
def rope(x, positions):
    at = angles(x, positions // 4).tile(2)
    return x * at.cos() + turned(x) * at.sin()
""",
    "a reshape for a transpose": """
def rope(x, positions):
    B, H, T, D = x.shape
    at, y = angles(x, positions).tile(2), x.transpose(1, 2).reshape(B, H, T, D)
    return (y * at.cos() + turned(y) * at.sin()).view(B, T, H, D).transpose(1, 2)
""",
    "a length of the cache that is ignored": """
def rope(query, key, past_key_values_length=0):
    at = angles(query, torch.arange(query.shape[-2])).tile(2)
    return tuple(x * at.cos() + turned(x) * at.sin() for x in (query, key))
""",
    "a helper's own default": """
def rope(x, positions):
    at = make_angles(positions).tile(2)
    return x * at.cos() + turned(x) * at.sin()

def make_angles(positions, theta=10000.0):
    return torch.outer(positions.float(), theta ** (-torch.arange(0, 64, 2) / 64))
""",
    "tokens before heads, two at a position": """
def rope(x, cos, sin):
    tokens, heads, width = x.shape
    at = torch.arange(tokens) // 2
    return x * cos[at][:, None] + turned(x) * sin[at][:, None]
""",
    "a table as long as the model": """
def precompute(seqlen):
    theta = 500000.0 ** (-torch.arange(0, 64, 2) / 64)
    at = torch.outer(torch.arange(seqlen), theta if seqlen >= 4096 else 2 * theta)
    return at.tile(2).cos(), at.tile(2).sin()

def rope(x, cos, sin):
    return x * cos + turned(x) * sin
""",
}


HALF, NEIGHBOURS = (f"rotary(base=10000, pairing={pairing})" for pairing in ("half", "interleaved"))
WRITTEN = "writes a rotated pair to channels (i, i+32): scores stay right if it does so for both queries and keys"


def answer(model: str | ModelPositions, name: str, listing: str, *, layers: Sequence[str] = ()) -> str:
    names: dict[str, Any] = {}
    exec(listing, names)
    types = expected(model)
    tried = {layer: answered(by_layers(names, name, types[layer])) for layer in layers or types}
    return str(together(dict.fromkeys(types, UNTESTED) | tried))


@pytest.mark.parametrize(
    ("model", "name", "listing", "said", "tables"),
    [
        ("rotary", "Rope", MODULE, "right; ", ""),
        ("rotary(base=500000)", "rope", OFFSET, "right; ", "; accepted: rotates channels (2i, 2i+1)"),
        ("rotary(base=10000)", "rope", OFFSET.replace("base ", "20000 "), "its base is 20000 ", "(2i, 2i+1)"),
        ("rotary", "rope", OFFSET.replace("base ", "500000 "), "right: its base is 500000; ", "(2i, 2i+1)"),
        ("rotary(pairing=half)", "apply_rope", CACHE, "rotates channels (2i, 2i+1) instead of (i, i+32); ", ""),
        ("rotary", "rope", START, "its positions are off by +1", ""),
        (HALF, "rope", MEGATRON, "right; ", ""),
        (HALF, "rope", MEGATRON.replace("(q", "(query_layer"), "right; ", ""),
        (NEIGHBOURS, "rope", HALVES, "right; ", f"; accepted: {WRITTEN}"),
        (
            NEIGHBOURS,
            "rope",
            HALVES.replace("10000.0", "20000.0"),
            "its base is 20000 instead of 10000; ",
            f"; accepted: {WRITTEN}",
        ),
        (
            "rotary(base=10000, pairing=interleaved, head_dim=128, rotary_dim=64)",
            "rope",
            LATENT.replace("(q, ", "(q, rotary_dim, ").replace("SIZES", "(rotary_dim, 64)").replace("TURNS", "0"),
            "right; ",
            "",
        ),
        (  # a table of angles
            HALF,
            "rope",
            MADE.replace("cos, sin):", "freqs):\n    cos, sin = np.cos(freqs), np.sin(freqs)"),
            "right; ",
            ", with posenc's angles; make_tables was not tested: the function needs layer_idx",
        ),
        (HALF, "rope", OF_POSITIONS, "its base is 20000 instead of 10000", ""),
        *(
            (
                HALF,
                "rope",
                OF_A_LENGTH.replace("head_dim", dim).replace("length", length).replace("base", base),
                said,
                tables,
            )
            for dim, length, base, said, tables in (
                (
                    "d_k",
                    "context_len",
                    "max_wavelength",
                    "right; ",
                    " max_wavelength=10000 instead of its default 20000",
                ),
                ("n_elem", "seq_len", "rope_base", "right; ", " rope_base=10000 instead of its default 20000"),
                ("hs", "T", "fixed", "its base is 20000 instead of 10000; ", ", with make_tables"),
                ("n_embd_head", "N", "fixed", "its base is 20000 instead of 10000; ", ", with make_tables"),
            )
        ),
        (  # a function that takes vectors to make tables
            HALF,
            "rope",
            OF_A_LENGTH.replace("head_dim, length, base", "x, fixed")
            .replace("base", "fixed")
            .replace("length", "x.shape[-2]")
            .replace("head_dim", "64"),
            "its base is 20000 instead of 10000; ",
            ", with make_tables",
        ),
        (
            HALF,
            "rope",
            OF_A_BATCH,
            "its base is 20000 instead of 10000; ",
            ", x as (B, H, T, D), with get_cos_sin",
        ),
        (
            HALF,
            "apply_rotary_pos_emb",
            OF_A_CLASS,
            "its base is 20000 instead of 10000; ",
            ", x as (B, H, T, D), with LlamaRotaryEmbedding",
        ),
        (  # a function that computes no tables
            HALF,
            "apply_rotary_pos_emb",
            OF_A_CLASS.replace("LlamaRotaryEmbedding", "Llama"),
            "right; ",
            ", with posenc's cos and sin",
        ),
        (  # a name without a verb
            HALF,
            "rope",
            OF_A_BATCH.replace("get_cos_sin", "rotary_emb"),
            "its base is 20000 instead of 10000; ",
            ", with rotary_emb",
        ),
        (
            HALF,
            "rope",
            OF_A_BATCH.replace("get_cos_sin", "precompute"),
            "its base is 20000 instead of 10000; ",
            ", with precompute",
        ),
        (
            HALF,
            "rope",
            MADE,
            "right; ",
            ", with posenc's cos and sin; make_tables was not tested: the function needs layer_idx",
        ),
        (
            HALF,
            "rope",
            TWO_MAKERS,
            "right; ",
            ", with global_tables; broken_tables was not tested: the function needs config",
        ),
        (  # a function of the channels that rotate
            "rotary(base=10000, pairing=half, head_dim=128, rotary_dim=64)",
            "rope",
            OF_A_BATCH,
            "its base is 20000 instead of 10000; ",
            ", x as (B, H, T, D), with get_cos_sin, if it gets only the 64 channels that rotate",
        ),
        (  # a function and a class that also work with all channels
            "rotary(base=10000, pairing=half, head_dim=128, rotary_dim=64)",
            "apply_rotary_pos_emb",
            OF_A_CLASS.replace("32", "x.shape[-1] // 2").replace("20000", "10000"),
            "right; ",
            ", with LlamaRotaryEmbedding, if it gets only the 64 channels that rotate",
        ),
        ("alibi", "get_slopes", SLOPES, "its slopes are the single series 2^(−8i/h)", ""),
        (  # MPT's shape
            "alibi",
            "get_slopes",
            SLOPES.replace("[", "__import__('torch').tensor([").replace("]", "]).view(1, n, 1, 1)"),
            "its slopes are the single series 2^(−8i/h)",
            "",
        ),
        ("t5(two_sided=False)", "relative_position_bucket", BUCKETS, "right; ", ""),
        (
            "t5",
            "relative_position_bucket",
            BUCKETS,
            "right; ",
            "it is two-sided: later keys have buckets of their own",
        ),
        (
            "t5",
            "relative_position_bucket",
            BUCKETS.replace("> 0", "< 0"),
            "the sign of its offsets is wrong",
            "; accepted: it is two-sided: later keys have buckets of their own",
        ),
        ("t5", "relative_position_bucket", BUCKETS.replace("=True", ""), "right; ", ""),
        ("sinusoidal", "positional_encoding", CODES, "every channel has its own frequency", ""),
        ("alibi(heads=12)", "build_alibi_tensor", OF_A_MASK, "right; ", ""),
        ("sinusoidal", "Codes", ADDED, "right; ", ", x as (H, T, D)"),
        ("sinusoidal", "Codes", ADDED.replace("10000", "1000"), "its base is 1000 instead of 10000; ", ""),
        ("sinusoidal", "Codes", ADDED.replace("(x +", "(8 * x +"), "right; ", ", x as (H, T, D)"),
        ("sinusoidal", "Codes", ADDED.replace("x.size(1)", "x.size(0)"), "nothing that was tried gives these", ""),
        ("sinusoidal", "Codes", ADDED.replace(":x.size(1)", ":1"), "every token has the row of position 0; ", ""),
        (
            "sinusoidal",
            "Codes",
            ADDED.replace("-math.log(10000.0) * ", "-1 / torch.arange(1, 1 + d_model // 2) * "),
            "nothing that was tried gives these numbers, x as (H, T, D): ",
            "",
        ),
        ("sinusoidal", "Codes", ADDED_BY_TOKEN, "right; ", ", x as (T, H, D)"),
    ],
)
def test_a_signature_of_the_field_is_called(model: str, name: str, listing: str, said: str, tables: str) -> None:
    """An answer says whose tables it used, and which function was not tested."""
    text = answer(model, name, listing)
    assert text.startswith(said)
    assert text.endswith(tables)


@pytest.mark.parametrize(
    ("listing", "said", "text_alone"),
    [
        (PICTURES.replace("AXES", "(0, 1, 2)"), "right; ", False),
        (
            PICTURES.replace("AXES", "(0, 2, 1)"),
            "its pairs use 3 axes, in chunked sections of 16, 24, 24, of axes (0, 2, 1)",
            False,
        ),
        (
            PICTURES.replace("AXES", "(0, 2, 1)")
            .replace("rope(x, ", "get_cos_sin(")
            .replace("cos, sin =", "return angles.cos(), angles.sin()\n\ndef rope(x, cos, sin):\n    cos, sin =")
            .replace("angles.cos()[:", "cos[:")
            .replace("angles.sin()[:", "sin[:"),
            "its pairs use 3 axes, in chunked sections of 16, 24, 24, of axes (0, 2, 1)",
            False,
        ),
        (PICTURES.replace("[..., None].float()", ".reshape(2, -1, 1).float()"), "right; ", True),
    ],
    ids=["right", "axes", "tables", "one axis"],
)
def test_positions_have_as_many_axes_as_the_model(listing: str, said: str, text_alone: bool) -> None:
    text = answer(read(CONFIGS / "qwen2-vl-7b.json"), "rope", listing)
    assert text.startswith(said)
    assert ("for text; pictures were not tried" in text) is text_alone


@pytest.mark.parametrize(("rows", "reached"), [("80000", ""), ("32768", "30,000"), ("1024", "1,000"), ("16", "10")])
def test_a_port_whose_table_ends_is_called_before_its_end(rows: str, reached: str) -> None:
    """Neither its count of positions is taken for the position, nor is the limit of the test left out."""
    text = answer("rotary(base=500000, pairing=half)", "rope", ENDING.replace("ROWS", rows))
    assert text.startswith("right; ")
    only = f"at positions up to {reached} only; positions up to 70,000 raise an error"
    assert text.endswith(only if reached else "x as (B, H, T, D)")


@pytest.mark.parametrize(
    ("port", "said"),
    [
        ("keys that mix in queries", "nothing that was tried gives these numbers, of the keys, x as"),
        (
            "keys that stay",
            "it does not rotate at all; this reproduces all 7,040 numbers exactly, of the keys, "
            "x as (B, H, T, D); the queries are right",
        ),
        ("queries alone", "right; "),
        (
            "a start that is ignored",
            "counts rows 0, 1, 2 … and ignores the positions; this reproduces",
        ),
        ("a start", "right; "),
        ("a start that is needed", "right; "),
        ("another start", "counts rows 0, 1, 2 … and ignores the positions, and its positions are off by +5; "),
        ("the start for every token", "every token has the position of the first; "),
        ("positions backwards", "its positions are in the reverse order: the first token has the last position; "),
        ("the last row for every token", "every token has the position of the last; "),
        ("two minus signs", "the second channel of each pair has a minus sign too: "),
        ("repeated angles", "its angles are repeated (0, 0, 1, 1, …), as for interleaved pairs"),
        ("an overwritten half", "the second channel of each pair is computed from the first one, which was"),
        ("another default", "right; "),
        ("values too", "rotated, although the model does not rotate them; this reproduces all 7,040 numbers"),
        ("values that stay", "right; "),
        ("an exponent over nothing of the model", "its exponent is divided by 40 instead of 64; "),
        ("an exponent over the width", "its exponent is divided by 4096 instead of 64; "),
        ("positions divided as integers", "its positions are divided by 4, and rounded down; "),
        ("a reshape for a transpose", "heads and length are swapped by a reshape instead of a transpose; "),
        ("a length of the cache that is ignored", "counts rows 0, 1, 2 … and ignores the positions; "),
        ("a helper's own default", "its base is 10000 instead of 500000; "),
        ("tokens before heads, two at a position", "its positions are divided by 2, and rounded down; "),
        ("functions of torch", "right; "),
        ("a table as long as the model", "right; "),
    ],
)
def test_what_strangers_planted_is_named(port: str, said: str) -> None:
    text = answer("rotary(base=500000, pairing=half)", "rope", TURN + PORTS[port])
    assert text.startswith(said)
    assert ("if it is called with theta=500000 instead of its default 10000" in text) is (port == "another default")


LONGROPE = """
import json
from pathlib import Path

import torch

CONFIG = json.loads(Path(FILE).read_text())

def rope(x, positions):
    name = "long_factor" if WHEN else "short_factor"
    theta = 10000.0 ** (-torch.arange(0, 96, 2) / 96) / torch.tensor(CONFIG["rope_scaling"][name])
    at = positions[:, None] * theta
    cos, sin = ((1 + 5 / 12) ** 0.5 * table for table in (at.cos(), at.sin()))  # log 32 / log 4096 = 5/12
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
"""


@pytest.mark.parametrize(
    ("when", "said", "length"),
    [
        ("positions.max() >= 4096", "right; ", "131,072"),
        ("False", "it has LongRoPE's factors for another length: 1.05, 1.05 … instead of 1.03, 1.05 …", "131,072"),
        ("True", "it has LongRoPE's factors for another length: 1.03, 1.05 … instead of 1.05, 1.05 …", "11"),
    ],
    ids=["by length", "short", "long"],
)
def test_longrope_is_called_for_long_and_for_short_inputs(when: str, said: str, length: str) -> None:
    """A port that uses the long factors for every input differs only at short inputs."""
    config = CONFIGS / "phi-3-mini-128k.json"
    text = answer(read(config), "rope", LONGROPE.replace("FILE", repr(str(config))).replace("WHEN", when))
    assert text.startswith(said)
    assert text.endswith(f", for inputs of {length} tokens")


def test_layers_without_positions_are_called_too() -> None:
    smollm3 = read(CONFIGS / "smollm3-3b.json")
    rotates = "def rope(x, positions, layer_idx):\n    at = angles(x, positions, 5e6).tile(2)\n"
    whole = rotates + "    return x * at.cos() + turned(x) * at.sin()\n"
    text = answer(smollm3, "rope", TURN + whole)
    assert text.startswith("layers 3, 7, 11 … 35: rotated, although the model does not rotate them; ")
    assert "; layers 0 to 2, 4 to 6, 8 to 10 … 32 to 34: right; " in text
    kept = whole.replace("    return", "    if layer_idx % 4 == 3:\n        return x\n    return")
    assert answer(smollm3, "rope", TURN + kept).startswith("right; ")


def test_every_layout_of_tables_is_tried() -> None:
    """One in which columns are doubled side by side, read at positions, is the last that is tried but one."""
    text = answer("rotary(base=10000, pairing=interleaved)", "rope", EVERY_TWO)
    assert text.startswith("right; ")
    assert text.endswith(", with posenc's cos and sin")
    reflected = EVERY_TWO.replace("-x[..., 1::2]", "x[..., 1::2]")
    wrong = answer("rotary(base=10000, pairing=interleaved)", "rope", reflected)
    assert wrong.startswith("the first channel of each pair lacks its minus sign")


DEEPSEEK = {"model_type": "deepseek_v3", "max_position_embeddings": 4096, "rope_theta": 10000.0}


@pytest.mark.parametrize(
    ("listing", "said"),
    [
        (
            LATENT.replace("SIZES", "(128, 64)").replace("TURNS", "1"),
            "right; this reproduces all 21,120 numbers",
        ),
        (
            LATENT.replace("SIZES", "(64, 128)").replace("TURNS", "0"),
            "rotates channels (2i, 2i+1) instead of (128 + 2i, 128 + 2i+1); ",
        ),
        (HALVES, "right; "),
        (
            HALVES.replace("(q_pe, k_pe)", "(q_pe)").replace(", turn(k_pe[..., ::2], k_pe[..., 1::2])", ""),
            "right; ",
        ),
        (
            HALVES.replace("turn(k_pe[..., ::2], k_pe[..., 1::2])", "mixed(turn(k_pe[..., ::2], k_pe[..., 1::2]))")
            + "mixed = lambda x: torch.stack(x.chunk(2, -1), -1).flatten(-2)",
            WRITTEN,
        ),
    ],
    ids=["last channels", "first channels", "halves", "halves of queries", "halves, keys mixed"],
)
def test_channels_of_latent_attention(listing: str, said: str) -> None:
    """A query may be whole. Pairs may be written elsewhere, if queries and keys agree or only one is known."""
    text = answer(read(DEEPSEEK), "rope", listing)
    assert text.startswith(said)


def test_the_error_of_a_query_of_latent_attention_is_that_of_its_first_call() -> None:
    """The message around it states the channels that rotate, with which the port is called first."""
    with pytest.raises(ValueError, match=r"^64 channels do not fit"):
        answer(read(DEEPSEEK), "rope", 'def rope(q):\n    raise ValueError(f"{q.shape[-1]} channels do not fit")\n')


@pytest.fixture(scope="module")
def gemma() -> ModelPositions:
    return read(CONFIGS / "gemma-3-4b.json")


@pytest.mark.parametrize("name", ["rope", "placed"])
def test_every_layer_type_is_tested(gemma: ModelPositions, name: str) -> None:
    """Also of a port that chooses the frequencies of a layer by its own rule."""
    near, full = answer(gemma, name, BY_LAYER.replace("FULL", "5")).split("\n")
    assert near.startswith("sliding_attention: right; ")
    assert full.startswith("full_attention: right; ")


def test_a_wrong_rule_of_layers_is_named_by_layer_type(gemma: ModelPositions) -> None:
    wrong = answer(gemma, "rope", BY_LAYER.replace("FULL", "4"), layers=["full_attention"])
    assert wrong.startswith("sliding_attention: not tested\nfull_attention: ")
    assert "frequencies belong to layer type 'sliding_attention'" in wrong


@pytest.mark.parametrize("name", ["rope", "placed", "make_cos_sin"])
def test_layers_that_differ_from_others_of_their_type_are_named(gemma: ModelPositions, name: str) -> None:
    """A rule that is right for the first layer of each type, and wrong for later ones, with its cause."""
    listing = BY_LAYER.replace("layer_idx % 6 == FULL", "layer_idx == 5").replace("FULL", "5")
    near, full = answer(gemma, name, listing).split("\n")
    assert near.startswith("sliding_attention: right; ")
    assert "layers" not in near
    assert full.startswith("full_attention: layer 5: right; ") is (name != "placed")
    cause = "; layers 11, 17, 23, 29: its frequencies belong to layer type 'sliding_attention' (base 10000); this"
    assert (cause in full) is (name != "placed")


def test_tables_are_not_longer_than_a_scaling_asks_for(gemma: ModelPositions) -> None:
    """They are made for every layer; gemma's 131,072 rows each took most of the process's minute."""
    maker = "def make_cos_sin(length, layer_idx=0):\n    assert length <= 4096\n    positions = np.arange(length)"
    listing = BY_LAYER.replace("FULL", "5").replace("def make_cos_sin(positions, layer_idx=0):", maker)
    for line in answer(gemma, "rope", listing).split("\n"):
        assert "_attention: right; " in line
        assert line.endswith(", with make_cos_sin")


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("3", "the port's arrays cannot be compared; got result; pass positions and x and rotated"),
        ("None", "the function returns None; return the vectors, also if they are rotated in place"),
    ],
)
def test_what_is_no_array_of_a_port_is_refused(returned: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        answer("rotary", "f", f"def f(x):\n    return {returned}\n")
