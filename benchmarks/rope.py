"""Rotary embedding of q and k with 32 heads, 4096 positions and 128 channels, compared with peers and with a copy.

``python -m benchmarks.rope`` only measures preallocated buffers, and needs only posenc and torch.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

import posenc
from benchmarks.measure import Outputs, Row, Table, measure
from posenc.encodings.rotary import rotate
from posenc.kernels import native
from posenc.teaching.claims.rotary import rotate_complex

SHAPE = (1, 32, 4096, 128)
Turn = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]

OURS = {torch.float32: 2e-6, torch.bfloat16: 2**-8, torch.float16: 2**-11}
"""Tolerance: one rounding to the dtype, plus in float32 four rounding errors of values up to 6."""

THEIRS = {torch.float32: 2e-3, torch.bfloat16: 0.04, torch.float16: 5e-3}
"""Tolerance of peers: float32 angles are off by 2e-4 rad at position 4095; peers rotate in the input's dtype."""

FRESH = {torch.float32: 1.15, torch.bfloat16: 1.25}
"""Target ratios of the native kernel into new memory, relative to ``clone``."""

AT_HAND = {
    (torch.float32, "half"): 1.3,
    (torch.float32, "interleaved"): 1.4,
    (torch.bfloat16, "half"): 1.7,
    (torch.bfloat16, "interleaved"): 1.7,
}
"""Target ratios into a preallocated buffer or in place, relative to ``copy_``, if memory limits the speed."""

IN_CACHE = 1.6
"""The target ratio of the same writes for shorter sequences, which partly fit into the last-level cache."""


def impls(device: str) -> tuple[str, ...]:
    """Return the backends to measure on this device. Only ``native`` has targets."""
    if device != "cpu":
        return ("torch",)
    return ("torch", "eager") if native.lacking() else ("torch", "eager", "native")


def peers(pairing: str, length: int, channels: int, dtype: torch.dtype, device: str) -> dict[str, Turn]:
    """Return all installed peers with this pairing, by name, ready for tensors of this length and dtype."""
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


class Cloned(torch.autograd.Function):
    """A function that only copies, forward and backward, to measure the overhead of autograd."""

    @staticmethod
    def forward(q: Tensor, k: Tensor) -> Outputs:
        return q.clone(), k.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, q_grad: Tensor, k_grad: Tensor) -> Outputs:
        return q_grad.clone(), k_grad.clone()


def table(
    pairing: str,
    dtype: torch.dtype,
    backward: bool,
    shape: tuple[int, int, int, int] = SHAPE,
    device: str = "cpu",
    with_peers: bool = True,
) -> Table:
    """One task: this pairing and dtype, forward or forward and backward."""
    generator = torch.Generator().manual_seed(0)
    q, k, q_grad, k_grad = (torch.randn(shape, generator=generator).to(device, dtype) for _ in range(4))
    at = posenc.positions.arange(shape[2], device=device)
    if backward:
        q.requires_grad_()
        k.requires_grad_()

    def whole(turn: Turn) -> Callable[[], Outputs]:
        """Return a run of a rotation: forward, or forward and backward."""

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

    moved = (q.detach(), k.detach(), q_grad, k_grad) if backward else (q, k)
    rows = [Row("clone", lambda: tuple(x.clone() for x in moved))]
    if backward:
        rows.append(Row("floor: clone, as a function with its own gradient", whole(Cloned.apply)))
    for backend in impls(device):
        placed = posenc.Rotary(shape[3], pairing=pairing, backend=backend).to(device).at(at)
        target = FRESH.get(dtype) if backend == "native" else None
        rows.append(Row(f"posenc, {backend}", whole(placed.rotate), OURS[dtype], target))
    if device != "cpu":
        placed = posenc.Rotary(shape[3], pairing=pairing).to(device).at(at)
        compiled = torch.compile(lambda q, k: placed.rotate(q, k))
        rows.append(Row("posenc, compiled", whole(compiled), OURS[dtype]))
    for name, turn in (peers(pairing, shape[2], shape[3], dtype, device) if with_peers else {}).items():
        rows.append(Row(name, whole(turn), THEIRS[dtype]))
    size = 2 * 2 * q.numel() * q.element_size() * (2 if backward else 1)
    kind = "forward and backward" if backward else "forward"
    sizes = "×".join(str(n) for n in shape)
    title = f"RoPE {sizes}, {pairing}, {str(dtype).removeprefix('torch.')}, new memory, {kind}"
    return Table(title, rows, exact, size)


def at_hand(
    pairing: str, dtype: torch.dtype, shape: tuple[int, int, int, int] = SHAPE, device: str = "cpu"
) -> Table:
    """Rotation without allocation: into a preallocated buffer and in place, relative to a copy into a buffer."""
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(shape, generator=generator).to(device, dtype) for _ in range(2))
    spare, at = (q.clone(), k.clone()), posenc.positions.arange(shape[2], device=device)
    rows = [Row("copy_", lambda: (spare[0].copy_(q), spare[1].copy_(k)))]
    for backend in impls(device)[1:]:
        placed = posenc.Rotary(shape[3], pairing=pairing, backend=backend).to(device).at(at)
        for where, sources in (("preallocated", (q, k)), ("in place", spare)):
            target = None
            if backend == "native":
                target = AT_HAND[dtype, pairing] if shape[2] >= SHAPE[2] else IN_CACHE
            rows.append(_written(f"posenc, {backend}, {where}", placed, sources, spare, dtype, target))

    def exact() -> Outputs:
        cos, sin = posenc.Rotary(shape[3], pairing=pairing).to(device).tables(at, torch.float64)
        return tuple(rotate(x.double(), cos, sin, pairing) for x in (q, k))

    size = 2 * 2 * q.numel() * q.element_size()
    sizes = "×".join(str(n) for n in shape)
    return Table(f"RoPE {sizes}, {pairing}, {str(dtype).removeprefix('torch.')}, preallocated", rows, exact, size)


def _written(
    name: str, placed: posenc.Placed, sources: Outputs, spare: Outputs, dtype: torch.dtype, target: float | None
) -> Row:
    """Rotation into ``spare``. In place, every run rotates further, so the check uses new copies."""

    def turn(q: Tensor, k: Tensor, out: Outputs) -> Outputs:
        with torch.no_grad():
            return placed.rotate(q, k, out=out)

    def check() -> Outputs:
        copies = tuple(x.clone() for x in sources)
        return turn(*copies, copies)

    return Row(name, lambda: turn(*sources, spare), OURS[dtype], target, check)


def main() -> None:
    """Measure every table with preallocated buffers, on one thread."""
    from benchmarks import page

    torch.set_num_threads(1)
    print(posenc.Rotary(128, pairing="half").explain(), end="\n\n")
    short, narrow = (*SHAPE[:2], SHAPE[2] // 4, SHAPE[3]), (*SHAPE[:2], SHAPE[2] // 4, 80)
    jobs = [(shape, torch.float32) for shape in (SHAPE, short, narrow)] + [(SHAPE, torch.bfloat16)]
    for shape, dtype in jobs:
        for pairing in ("half", "interleaved"):
            job = at_hand(pairing, dtype, shape)
            print("\n".join(page.lines(measure(job), job)), flush=True)


if __name__ == "__main__":
    main()
