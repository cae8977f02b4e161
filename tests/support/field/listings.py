"""Listings of rotations, a table and biases as people write them, some with mistakes."""

ROTATION = """
import torch

def apply_rope(x, positions):
    d = x.shape[-1]
    inv = 1.0 / (10000.0 ** (torch.arange(0, d, 2).float() / d))
    angles = positions[:, None].float() * inv
    c, s = angles.cos(), angles.sin()
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return torch.cat((a * c - b * s, b * c + a * s), dim=-1)
"""
BTHD = """
import torch

def apply_rope(x, base=10000.0):
    B, T, H, D = x.shape
    angles = torch.arange(T)[:, None] * base ** (-torch.arange(0, D, 2).float() / D)
    c, s = angles.cos()[None, :, None], angles.sin()[None, :, None]
    a, b = x[..., : D // 2], x[..., D // 2 :]
    return torch.cat((a * c - b * s, b * c + a * s), dim=-1)
"""
QUARTER = """
import torch

def apply_rope(x, positions):
    d = x.shape[-1]
    r = d // 4
    inv = 1.0 / (10000.0 ** (torch.arange(0, r, 2).float() / d))
    angles = positions[:, None].float() * inv
    a, b, rest = x[..., : r // 2], x[..., r // 2 : r], x[..., r:]
    c, s = angles.cos(), angles.sin()
    return torch.cat((a * c - b * s, b * c + a * s, rest), dim=-1)
"""
TABLE = """
import math, torch

def positional_encoding(length, width):
    at = torch.arange(length).float()[:, None]
    step = torch.exp(torch.arange(0, width, 2).float() * (math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(at * step)
    table[:, 1::2] = torch.cos(at * step)
    return table
"""
ALIBI = """
import torch

def alibi_bias(heads, length):
    slopes = torch.tensor([2.0 ** (-8.0 * h / heads) for h in range(heads)])
    at = torch.arange(length)
    return slopes[:, None, None] * (at[None, None, :] - at[None, :, None])
"""

TABLES = """
import torch

def rotate_half(x):
    h = x.shape[-1] // 2
    return torch.cat((-x[..., h:], x[..., :h]), -1)

def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
"""
COMPLEX = """
import torch

def precompute_freqs_cis(dim, end, theta=10000.0):
    f = 1.0 / (theta ** (torch.arange(0, dim, 2)[: dim // 2].float() / dim))
    return torch.polar(torch.ones(end, dim // 2), torch.outer(torch.arange(end).float(), f))

def apply_rotary_emb(xq, xk, freqs_cis):
    q = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    k = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    f = freqs_cis.view(1, q.shape[1], 1, q.shape[-1])
    return torch.view_as_real(q * f).flatten(3), torch.view_as_real(k * f).flatten(3)
"""
NUMPY = """
import numpy as np

def rope(x, positions):
    n, d = x.shape
    angles = positions[:, None] / 10000.0 ** (np.arange(0, d, 2) / d)
    out = np.empty_like(x)
    out[:, 0::2] = x[:, 0::2] * np.cos(angles) - x[:, 1::2] * np.sin(angles)
    out[:, 1::2] = x[:, 0::2] * np.sin(angles) + x[:, 1::2] * np.cos(angles)
    return out
"""
MODULE = """
import torch

class RotaryEmbedding(torch.nn.Module):
    def __init__(self, dim, base=10000):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / base ** (torch.arange(0, dim, 2).float() / dim))

    def forward(self, x, seq_dim=1):
        f = torch.outer(torch.arange(x.shape[seq_dim]).float(), self.inv_freq)
        e = torch.cat((f, f), -1)
        return e.cos(), e.sin()
"""
BUCKETS = """
import math, torch

def t5_bucket(relative, buckets=32, max_distance=128):
    n = torch.clamp(-relative, min=0)
    half = buckets // 2
    far = torch.log(n.clamp(min=1).float() / half) / math.log(max_distance / half) * (buckets - half)
    return torch.where(n < half, n, torch.clamp(half + far.long(), max=buckets - 1))
"""


def changed(listing: str, *changes: tuple[str, str]) -> str:
    """Return a listing in which each change replaces its first string by its second string."""
    for before, after in changes:
        assert before in listing, before
        listing = listing.replace(before, after)
    return listing
