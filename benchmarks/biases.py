"""Causal attention with every one-axis bias, relative to attention without a bias, and the cost of a window."""

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

import posenc
from benchmarks.alibi import inputs, runs, said
from benchmarks.measure import Row, Table

LINE = 1.3
"""The target ratio for a Toeplitz or low-rank bias, relative to no bias."""

HEADS, HEAD_DIM = 8, 64

WINDOW = 128
WINDOWED = {"nope": 0.10, "alibi": 0.10, "t5": 0.15}
"""The target ratios of a window over 8192 keys, relative to attention to all keys."""

TARGETS = dict.fromkeys(("alibi", "t5", "kerple", "sandwich", "fire", "fox"), LINE)
"""The target ratios. Biases that compute as many numbers as q·kᵀ have no target."""


def texts() -> list[str]:
    """Return the encodings of the catalogue that are only a bias and have one axis."""
    sizes = {"width": HEADS * HEAD_DIM, "heads": HEADS, "head_dim": HEAD_DIM, "num_positions": 8}
    encodings = {name: posenc.encoding(name, **sizes) for name in posenc.CATALOGUE}
    return [name for name, each in encodings.items() if each.acts_on == ("bias",) and each.axes == 1]


def table(
    length: int, dtype: torch.dtype, backward: bool, device: str = "cpu", batch: int = 1, formula: bool = False
) -> Table:
    """Causal attention with every bias, forward or forward and backward; the base has no bias.

    With ``formula``, trained biases are also computed as softmax(scores)·v.
    """
    alone = inputs(length, dtype, backward, (HEADS, HEADS, HEAD_DIM), device)
    q, k, v, grad = (t.detach().repeat(batch, 1, 1, 1).requires_grad_(t.requires_grad) for t in alone)
    x = torch.randn(batch, length, HEADS * HEAD_DIM, generator=torch.Generator().manual_seed(1)).to(device, dtype)
    at = posenc.positions.arange(length, device=device)
    whole = runs(q, k, v, grad, backward)

    rows = [Row("no bias, SDPA", whole(lambda: sdpa(q, k, v, is_causal=True)))]
    for text in texts():
        made = posenc.encoding(text, width=HEADS * HEAD_DIM, heads=HEADS, head_dim=HEAD_DIM).to(device)

        def ours(made: posenc.Encoding = made) -> Tensor:
            return posenc.attention(q, k, v, made.at(at).with_content(x)[0], causal=True)

        def by_formula(made: posenc.Encoding = made) -> Tensor:
            scores = posenc.scores(q, k, made.at(at).with_content(x)[0], causal=True)
            return scores.softmax(-1).to(v.dtype) @ v

        rows.append(Row(text, whole(ours), target=TARGETS.get(text)))
        if formula and (list(made.parameters()) or text == "fox"):
            rows.append(Row(f"{text}, softmax(scores)·v", whole(by_formula)))
    size = f"{batch} sequences, " if batch > 1 else ""
    title = f"every bias, {size}{HEADS} heads of {HEAD_DIM}, L={length}, {said(dtype, backward)}"
    note = "Ratios are relative to causal attention without a bias. Times include computing a bias from tokens."
    return Table(title, rows, tuple, note=note)


def windows(length: int, dtype: torch.dtype, backward: bool, device: str = "cpu") -> Table:
    """Causal attention with a window; the base attends to all earlier keys."""
    q, k, v, grad = inputs(length, dtype, backward, (HEADS, HEADS, HEAD_DIM), device)
    at = posenc.positions.arange(length, device=device)
    whole = runs(q, k, v, grad, backward)
    rows = [Row("every key, SDPA", whole(lambda: sdpa(q, k, v, is_causal=True)))]
    for name, target in WINDOWED.items():
        encoding = posenc.encoding(name, width=HEADS * HEAD_DIM, heads=HEADS, head_dim=HEAD_DIM).to(device)
        placed = encoding.requires_grad_(False).at(at)
        under = partial(posenc.attention, q, k, v, placed, causal=True, window=WINDOW)
        rows.append(Row(name, whole(under), target=target))
    title = f"A window of {WINDOW}, {HEADS} heads of {HEAD_DIM}, L={length}, {said(dtype, backward)}"
    return Table(title, rows, tuple, note="Ratios are relative to causal attention without a window or a bias.")
