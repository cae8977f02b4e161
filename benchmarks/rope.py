"""Rotary embedding: q and k of 32 heads, 4096 positions, 128 channels, against peers and the copy floor."""

from collections.abc import Callable
from importlib.util import find_spec

import torch
from torch import Tensor

import posenc
from benchmarks.measure import Outputs, Row, Table
from posenc.encodings.rotary import rotate, rotate_complex

SHAPE = (1, 32, 4096, 128)
Turn = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

OURS = {torch.float32: 2e-6, torch.bfloat16: 2**-8, torch.float16: 2**-11}
"""One rounding to the type, and in float32 the four of the arithmetic on values up to 6."""

THEIRS = {torch.float32: 2e-3, torch.bfloat16: 0.04, torch.float16: 5e-3}
"""float32 angles are off by 2e-4 rad at position 4095; peers also rotate in the input's type."""

TARGETS = {
    ("compiled", torch.float32): 1.3,
    ("compiled", torch.bfloat16): 1.45,
    ("eager half", torch.float32): 2.4,
    ("eager half", torch.bfloat16): 3.1,
    ("eager interleaved", torch.float32): 1.35,
    ("in place", torch.float32): 0.5,
    ("in place", torch.bfloat16): 0.5,
}
"""Ratios to clone that the project asks for, forward and (but in place) forward and backward."""


def peers(pairing: str, length: int, channels: int, dtype: torch.dtype, device: str) -> dict[str, Turn]:
    """Every installed peer of this pairing, by name, ready for tensors of this length and type."""
    found: dict[str, Turn] = {}
    at = torch.arange(length, device=device)
    if pairing == "half" and find_spec("transformers"):
        from transformers import LlamaConfig
        from transformers.models.llama import modeling_llama as llama

        table = llama.LlamaRotaryEmbedding(LlamaConfig(hidden_size=32 * channels, num_attention_heads=32)).to(
            device
        )
        cos, sin = table(torch.empty(1, dtype=dtype, device=device), at[None])
        found["transformers, eager"] = lambda q, k: llama.apply_rotary_pos_emb(q, k, cos, sin)
        compiled = torch.compile(llama.apply_rotary_pos_emb, dynamic=True)
        found["transformers, compiled"] = lambda q, k: compiled(q, k, cos, sin)
    if pairing == "interleaved":
        tables = posenc.Rotary(channels, pairing="interleaved").to(device).tables(at)

        def by_complex(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
            return rotate_complex(q, *tables, "interleaved"), rotate_complex(k, *tables, "interleaved")

        found["complex multiplication"] = by_complex
    if pairing == "interleaved" and find_spec("x_transformers"):
        from x_transformers import x_transformers as xt

        freqs, scale = xt.RotaryEmbedding(channels).to(device).forward_from_seq_len(length)
        found["x-transformers"] = lambda q, k: (
            xt.apply_rotary_pos_emb(q, freqs, scale),
            xt.apply_rotary_pos_emb(k, freqs, scale),
        )
    if pairing == "interleaved" and dtype == torch.float32 and find_spec("rotary_embedding_torch"):
        from rotary_embedding_torch import RotaryEmbedding

        embedding = RotaryEmbedding(channels).to(device)
        found["rotary-embedding-torch"] = lambda q, k: (
            embedding.rotate_queries_or_keys(q),
            embedding.rotate_queries_or_keys(k),
        )
    return found


def table(
    pairing: str,
    dtype: torch.dtype,
    backward: bool,
    shape: tuple[int, int, int, int] = SHAPE,
    device: str = "cpu",
    with_peers: bool = True,
) -> Table:
    """One job: this pairing and type, forward or forward and backward."""
    generator = torch.Generator().manual_seed(0)
    q, k, q_grad, k_grad = (torch.randn(shape, generator=generator).to(device, dtype) for _ in range(4))
    at = posenc.positions.plain(shape[2], device=device)
    spare = q.clone(), k.clone()
    if backward:
        q.requires_grad_()
        k.requires_grad_()

    def whole(turn: Turn) -> Callable[[], Outputs]:
        """Forward, or forward and backward, of a way to turn."""

        def run() -> Outputs:
            with torch.set_grad_enabled(backward):
                turned = turn(q, k)
            return (*turned, *torch.autograd.grad(turned, (q, k), (q_grad, k_grad))) if backward else turned

        return run

    def exact() -> Outputs:
        cos, sin = posenc.Rotary(shape[3], pairing=pairing).to(device).tables(at, torch.float64)
        turned = [rotate(x.detach().double(), cos, sin, pairing) for x in (q, k)]
        back = [rotate(g.double(), cos, -sin, pairing) for g in (q_grad, k_grad)] if backward else []
        return (*turned, *back)

    placed = {
        impl: posenc.Rotary(shape[3], pairing=pairing, impl=impl).to(device).at(at)
        for impl in (("torch", "eager", "compiled") if device == "cpu" else ("torch", "compiled", "triton"))
    }
    moved = (q.detach(), k.detach(), q_grad, k_grad) if backward else (q, k)
    rows = [Row("clone", lambda: tuple(x.clone() for x in moved))]
    if not backward:
        rows.append(Row("copy_ into memory at hand", lambda: (spare[0].copy_(q), spare[1].copy_(k))))
    for impl, at_positions in placed.items():
        target = TARGETS.get((impl, dtype), TARGETS.get((f"{impl} {pairing}", dtype)))
        rows.append(Row(f"posenc, {impl}", whole(at_positions.rotate), OURS[dtype], target))
    if not backward:
        for impl in ("eager", "compiled") if device == "cpu" else ("triton",):
            rows.append(_in_place(f"posenc, {impl}, in place", placed[impl], q, k, spare, dtype))
    for name, turn in (peers(pairing, shape[2], shape[3], dtype, device) if with_peers else {}).items():
        rows.append(Row(name, whole(turn), THEIRS[dtype]))
    size = 2 * 2 * q.numel() * q.element_size() * (2 if backward else 1)
    kind = "forward and backward" if backward else "forward"
    return Table(f"RoPE, {pairing}, {str(dtype).removeprefix('torch.')}, {kind}", rows, exact, size)


def _in_place(
    name: str, placed: posenc.Placed, q: Tensor, k: Tensor, spare: tuple[Tensor, Tensor], dtype: torch.dtype
) -> Row:
    """Rotation of memory at hand. It turns further with every run, so a copy of q and k is checked."""

    def turn(pair: tuple[Tensor, Tensor]) -> Outputs:
        with torch.no_grad():
            return placed.rotate(*pair, out=pair)

    return Row(
        name,
        lambda: turn(spare),
        OURS[dtype],
        TARGETS.get(("in place", dtype)),
        check=lambda: turn((q.clone(), k.clone())),
    )
