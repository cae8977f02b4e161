"""Decoding: the cost of positions in a one-token step through 32 layers with 32 query heads and 8 key heads, and
the cost of a whole attention step of one layer with a cache.

Ten consecutive steps are timed together, as in decoding.
"""

from collections.abc import Callable
from ctypes import addressof, c_void_p
from functools import partial
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Literal

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import posenc
from benchmarks.measure import Outputs, Row, Table
from benchmarks.rope import OURS, THEIRS, impls
from posenc.encodings.rotary import rotate
from posenc.kernels import native
from posenc.kernels.native import Job

LAYERS = 32
STEPS = 10
POSITION = 1000


class Calls(TorchDispatchMode):
    """Counts all operators that run, including views."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def table(dtype: torch.dtype) -> Table:
    """The cost of positions in a step; the base is transformers."""
    q, k = torch.randn(1, 32, 1, 128).to(dtype), torch.randn(1, 8, 1, 128).to(dtype)
    at = torch.tensor([POSITION])
    rows = [Row("transformers", _theirs(q, k, at), THEIRS[dtype])] if find_spec("transformers") else []
    rows.append(Row("floor: fresh memory for q and k", partial(_fresh, q, k)))
    if not native.lacking():
        rows.append(Row("floor: that, and an empty native call per layer", partial(_called, q, k)))
    for backend in impls("cpu")[1:]:
        target = 0.25 if backend == "native" else None
        rows.append(Row(f"posenc, {backend}, half", _ours(q, k, at, "half", backend), OURS[dtype], target))
        rows.append(
            Row(
                f"posenc, {backend}, interleaved",
                _ours(q, k, at, "interleaved", backend),
                OURS[dtype],
                check=partial(_same_pairs, q, k, at, backend),
            )
        )

    def exact() -> Outputs:
        cos, sin = posenc.Rotary(128, pairing="half").tables(at, torch.float64)
        return rotate(q.double(), cos, sin, "half"), rotate(k.double(), cos, sin, "half")

    counts = ", ".join(f"{row.name} {calls(row.run) // STEPS}" for row in rows if "native" not in row.name)
    title = f"Decoding, positions of {STEPS} steps, {LAYERS} layers, {str(dtype).removeprefix('torch.')}"
    return Table(title, rows, exact, note=f"Operator calls per step: {counts}; native: none.")


LAYER = {torch.float32: 2e-4, torch.bfloat16: 0.04}
CACHE = 1024
"""The number of tokens in the cache in the whole step, including the new token."""


def layer(name: Literal["rotary", "t5"], dtype: torch.dtype) -> Table:
    """One layer's rotation, cache and attention for a new token; the base is transformers."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(1, 32, 1, 128), *[(1, 8, 1, 128)] * 2, *[(1, 8, CACHE, 128)] * 2]
    q, k, v, keys, values = (torch.randn(shape, generator=generator).to(dtype) for shape in shapes)
    settings = {"pairing": "half"} if name == "rotary" else {}
    encoding = posenc.encoding(name, width=4096, heads=32, head_dim=128, **settings).requires_grad_(False)
    at = torch.arange(CACHE)
    placed = encoding.at(at[-1:], at)

    @torch.no_grad()
    def ours() -> Outputs:
        for _ in range(STEPS):
            turned, keys[:, :, -1:] = placed.rotate(q, k)
            values[:, :, -1:] = v
            y = posenc.attention(turned, keys, values, placed, causal=True)
        return (y,)

    def exact() -> Outputs:
        wide = encoding.at(at[-1:], at, dtype=torch.float64)
        turned, last = wide.rotate(q.double(), k.double())
        all_k, all_v = (torch.cat((x[:, :, :-1], y), 2).double() for x, y in ((keys, last), (values, v)))
        scores = posenc.scores(turned, all_k, wide)
        return (scores.softmax(-1) @ all_v.repeat_interleave(4, 1),)

    rows = [Row("transformers, sdpa", _their_layer(q, k, v, keys, values, placed), LAYER[dtype])]
    rows.append(Row("posenc", ours, LAYER[dtype], 0.25))
    title = f"Decoding, {STEPS} steps of one layer over {CACHE} keys, {name}, {str(dtype).removeprefix('torch.')}"
    note = "transformers' cache is concatenated, posenc's is preallocated; cos, sin and T5's bias are not timed."
    return Table(title, rows, exact, note=note)


def calls(run: Callable[[], Outputs]) -> int:
    """Return how many operators one run calls."""
    with Calls() as counter:
        run()
    return counter.count


def _fresh(q: Tensor, k: Tensor) -> Outputs:
    """Allocate the outputs that every layer needs unless it works in place."""
    for _ in range(STEPS * LAYERS):
        fresh = torch.empty_like(q), torch.empty_like(k)
    return fresh


def _called(q: Tensor, k: Tensor) -> Outputs:
    """Call the kernel in every layer without work, to measure the overhead of the call."""
    rotate_both, nothing, tables = native.load().posenc_rotate_both, (Job * 2)(), (c_void_p * 4)()
    for _ in range(STEPS * LAYERS):
        fresh = torch.empty_like(q), torch.empty_like(k)
        rotate_both(
            addressof(nothing),
            addressof(tables),
            q.data_ptr(),
            fresh[0].data_ptr(),
            k.data_ptr(),
            fresh[1].data_ptr(),
        )
    return fresh


def _theirs(q: Tensor, k: Tensor, at: Tensor) -> Callable[[], Outputs]:
    from transformers import LlamaConfig
    from transformers.models.llama import modeling_llama as llama

    embedding = llama.LlamaRotaryEmbedding(LlamaConfig(hidden_size=4096, num_attention_heads=32))

    @torch.no_grad()
    def run() -> Outputs:
        for _ in range(STEPS):
            cos, sin = embedding(q, at[None])
            for _ in range(LAYERS):
                turned = llama.apply_rotary_pos_emb(q, k, cos, sin)
        return turned

    return run


def _their_layer(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, placed: posenc.Placed
) -> Callable[[], Outputs]:
    from transformers import LlamaConfig
    from transformers.cache_utils import DynamicLayer
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.models.llama import modeling_llama as llama

    embedding = llama.LlamaRotaryEmbedding(LlamaConfig(hidden_size=4096, num_attention_heads=32))
    cos, sin = embedding(q, torch.tensor([[CACHE - 1]]))
    bias = None if placed.bias is None else placed.bias.rows(0, 1, CACHE).to(q.dtype)
    module, cache = SimpleNamespace(num_key_value_groups=4, is_causal=True), DynamicLayer()
    cache.update(keys[:, :, :-1], values[:, :, :-1])

    @torch.no_grad()
    def run() -> Outputs:
        for _ in range(STEPS):
            turned, key = llama.apply_rotary_pos_emb(q, k, cos, sin) if bias is None else (q, k)
            every = cache.update(key, v)
            y, _ = sdpa_attention_forward(module, turned, *every, None, scaling=128**-0.5, position_bias=bias)
            cache.crop(-1)
        return (y.transpose(1, 2),)

    return run


def _ours(q: Tensor, k: Tensor, at: Tensor, pairing: str, backend: str) -> Callable[[], Outputs]:
    rotary = posenc.Rotary(128, pairing=pairing, backend=backend)

    @torch.no_grad()
    def run() -> Outputs:
        for _ in range(STEPS):
            placed = rotary.at(at)
            for _ in range(LAYERS):
                turned = placed.rotate(q, k)
        return turned

    return run


def _same_pairs(q: Tensor, k: Tensor, at: Tensor, backend: str) -> Outputs:
    """Rotate reordered channels with interleaved pairs, and restore the order of ``"half"``."""
    from posenc.encodings.rotary import half_from_interleaved, interleaved_from_half

    there, back = interleaved_from_half(128), half_from_interleaved(128)
    turned = _ours(q[..., there], k[..., there], at, "interleaved", backend)()
    return tuple(x[..., back] for x in turned)
