"""Listings as learners write them: right in every form, and each with one of the usual mistakes."""

from pathlib import Path

import pytest

from posenc.errors import InvalidArgument
from posenc.teaching.compare_code import Comparison, compare

TABLE = """
import math, torch

def positional_encoding(max_len, d_model):
    pe = torch.zeros(max_len, d_model)
    position = torch.arange(0, max_len).unsqueeze(1).float()
    step = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
    pe[:, 0::2] = torch.sin(position * step)
    pe[:, 1::2] = torch.cos(position * step)
    return pe
"""
ROPE = """
import numpy as np

def apply_rope(x):
    x = np.asarray(x)
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[-2])[:, None] / 10000 ** (np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)], -1)
"""
NEIGHBOURS = """
import torch

def precompute_rope_frequencies(dim, seq_len):
    freqs = torch.outer(torch.arange(seq_len).float(), 1 / 10000 ** (torch.arange(0, dim, 2).float() / dim))
    return torch.polar(torch.ones_like(freqs), freqs)

def apply_rope(x, freqs):
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * freqs).flatten(-2)
"""
ALIBI = """
import torch

def alibi_bias(n_heads, seq_len):
    slopes = torch.tensor([2.0 ** -(i + 1) for i in range(8)] + [2.0 ** -(i + 0.5) for i in range(n_heads - 8)])
    at = torch.arange(seq_len)
    return slopes[:, None, None] * (at[None, :] - at[:, None])
"""
BLOCK = (
    ("    pe[:, 0::2] = torch.sin", "    pe[:, : d_model // 2] = torch.sin"),
    ("pe[:, 1::2]", "pe[:, d_model // 2 :]"),
)
SEVEN = "[2.0 ** -(i + 1) for i in range(8)] + [2.0 ** -(i + 0.5) for i in range(n_heads - 8)]"
LAW = ("at[None, :] - at[:, None]", "-(at[None, :] - at[:, None]).abs()")


def compared(tmp_path: Path, listing: str, *changes: tuple[str, str]) -> Comparison:
    for before, after in changes:
        assert before in listing
        listing = listing.replace(before, after)
    path = tmp_path / "listing.py"
    path.write_text(listing)
    (result,) = compare(path)
    return result


@pytest.mark.parametrize(
    ("listing", "changes", "form"),
    [
        (TABLE, (), "sines and cosines interleaved, as in the paper"),
        (TABLE, BLOCK, "sines first, then cosines, as in tensor2tensor"),
        (ROPE, (), "halves paired, as checkpoints of Llama and Qwen are"),
        (NEIGHBOURS, (), "neighbours paired, as in the paper"),
        (ALIBI, (), "m·(j − i)"),
        (ALIBI, (LAW,), "−m·|j − i|"),
        (ALIBI, (("n_heads, seq_len", "seq_len, n_heads"),), "m·(j − i)"),
        (
            TABLE,
            (("(max_len, d_model):", "(d_model, max_len):"),),
            "sines and cosines interleaved, as in the paper",
        ),
    ],
)
def test_what_is_right_is_named(tmp_path: Path, listing: str, changes: tuple, form: str) -> None:
    result = compared(tmp_path, listing, *changes)
    assert (result.right, result.words) == (True, form)


@pytest.mark.parametrize(
    ("listing", "change", "words"),
    [
        (
            TABLE,
            ("arange(0, max_len)", "arange(1, max_len + 1)"),
            "it counts from position 1. (16, 8): first at [0, 0]: 0.84147",
        ),
        (
            TABLE,
            ("position * step", "(position * step).bfloat16().float()"),
            "its angles have 16 bits. (16, 8): first at ",
        ),
        (TABLE, ("(-math", "(-0.5 * math"), "its exponent is i/d, where the paper has 2i/d"),
        (
            TABLE,
            ("(max_len, d_model):", "(d, n):\n    max_len, d_model = n, d"),
            "its arguments are the other way round",
        ),
        (ROPE, ("- b * np", "+ b * np"), "no known form"),
        (ROPE, ("angles = ", "angles = -"), "its rotation is transposed: vectors turn backwards (half)"),
        (NEIGHBOURS, ("seq_len).float()", "seq_len).float() + 1"), "it counts from position 1 (interleaved)"),
        (
            ALIBI,
            (LAW[0], "at[:, None] - at[None, :]"),
            "its sign is wrong, far keys gain: m·(i − j). (8, 6): first at [0, 1, 0]",
        ),
        (ALIBI, (SEVEN, "[2.0 ** (-8 * (i + 1) / n_heads) for i in range(n_heads)]"), "its slopes are 2^(−8i/h)"),
        (ALIBI, (SEVEN, "[2.0 ** -(i + 1) for i in range(n_heads)]"), "its slopes are 1/2, 1/4, 1/8 …"),
        (ALIBI, ("torch.tensor([", "n_heads / torch.tensor(["), "no known form"),
        (ALIBI, ("    at =", "    raise KeyError('at')\n    at ="), "raises KeyError: 'at'"),
    ],
)
def test_a_mistake_is_named_with_the_first_element(
    tmp_path: Path, listing: str, change: tuple[str, str], words: str
) -> None:
    result = compared(tmp_path, listing, change)
    assert not result.right
    assert result.words.startswith(words), result.words


def test_what_cannot_be_compared_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "listing.py"
    with pytest.raises(InvalidArgument, match="is no file; give a listing with one of positional_encoding"):
        compare(path)
    path.write_text("def rope(x): ...")
    with pytest.raises(InvalidArgument, match=r"has none of positional_encoding, .*; name your function so"):
        compare(path)
    path.write_text("import torch\n1 / 0")
    with pytest.raises(InvalidArgument, match="does not run: ZeroDivisionError"):
        compare(path)
    monkeypatch.setattr("posenc.teaching.compare_code.SECONDS", 1)
    path.write_text("while True: pass")
    with pytest.raises(InvalidArgument, match="has not ended after 1 s"):
        compare(path)
