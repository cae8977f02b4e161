"""Runs a sharded attention layer, with one process per rank.

Every rank holds a part of the tokens of two sequences. Each rank also computes the whole layer, and compares the
outputs of its tokens, the gradients of its inputs, and the gradients of the encoding's parameters summed over
ranks. Sharding by heads sends nothing between ranks, and is tested by a law.
"""

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import posenc
from posenc import Mask
from posenc.errors import InvalidArgument
from posenc.positions import arange, sharded

B, H, K, D, C = 2, 8, 4, 8, 64
LENGTH = 32
BOUND = 1e-12
"""The tolerance in float64: a few hundred roundings of 1e-16, for sums of numbers of order one in any order."""

TEXTS = {
    "nope": "nope",
    "rotary": "rotary",
    "alibi": "alibi",
    "t5": "t5(std=1)",
    "fox": "fox(bias=1)",
    "stack": "stack(rotary, t5(std=1), fox(bias=1))",
    "half": "alibi(slopes=(0.25, 0.0625, 0.015625, 0.00390625, 0, 0, 0, 0))",
    "shaw": "shaw(std=1)",
    "ssmax": "stack(rotary, ssmax)",
    "xpos": "stack(xpos, t5(std=1))",
    "query-scale": "stack(rotary, query-scale(floor=3))",
}


PADDING, SEGMENTS = torch.arange(LENGTH) >= torch.tensor([[5], [0]]), torch.arange(LENGTH) // 20
DENSE = torch.rand(B, 1, LENGTH, LENGTH, generator=torch.Generator().manual_seed(4)) < 0.7
KINDS: dict[str, dict[str, Any]] = {
    "causal": {},
    "padding": {"key_mask": PADDING},
    "documents": {"q_segments": SEGMENTS},
    "window": {"window": 9},
    "chunks": {"chunk": 7},
    "dense": {"dense": DENSE},
}
"""The arguments of a mask for the whole sequence."""


def made(name: str) -> posenc.Encoding:
    """Create the encoding of this name, with the same parameters on every rank."""
    torch.manual_seed(1)
    return posenc.encoding(TEXTS[name], width=C, heads=H, head_dim=D).double()


def tensors() -> list[Tensor]:
    """Return x, q, k, v of the whole layer and the weights of a loss, which are the same on every rank."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(B, LENGTH, C), (B, H, LENGTH, D), (B, K, LENGTH, D), (B, K, LENGTH, D), (B, H, LENGTH, D)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


class Gather(torch.autograd.Function):
    """Concatenates the pieces of all ranks, and sums the gradient of a piece over ranks."""

    @staticmethod
    def forward(ctx, piece: Tensor, axis: int) -> Tensor:
        ctx.axis, ctx.size = axis, piece.shape[axis]
        pieces = [torch.empty_like(piece) for _ in range(dist.get_world_size())]
        dist.all_gather(pieces, piece.contiguous())
        return torch.cat(pieces, dim=axis)

    @staticmethod
    def backward(ctx, grad: Tensor):
        grad = grad.contiguous()
        dist.all_reduce(grad)
        return grad.narrow(ctx.axis, dist.get_rank() * ctx.size, ctx.size), None


def settings_of(kind: str) -> dict[str, Any]:
    """Return the softcap and the sinks of attention with this kind of mask."""
    sinks = torch.linspace(-1, 2, H, dtype=torch.float64, requires_grad=True)
    return {"softcap": 1.5, "sinks": sinks} if kind in ("padding", "window") else {}


def sharded_kind(kind: str, own: Tensor, everyone: Tensor) -> dict[str, Any]:
    """Return the arguments of a mask for the queries of one rank and the keys of all ranks."""
    of_tensors = {
        "padding": {"key_mask": PADDING[:, everyone]},
        "documents": {"q_segments": SEGMENTS[own], "k_segments": SEGMENTS[everyone]},
        "dense": {"dense": DENSE[:, :, own][..., everyone]},
    }
    return of_tensors.get(kind, KINDS[kind])


def whole(name: str, kind: str) -> tuple[Tensor, list[Tensor]]:
    """Return the output of the unsharded layer, and the gradients of x, q, k, v, the parameters and the sinks."""
    encoding, settings = made(name), settings_of(kind)
    x, q, k, v, weight = tensors()
    given = [t.requires_grad_() for t in (x, q, k, v)]
    here, _ = encoding.at(arange(LENGTH), dtype=torch.float64).with_content(x)
    y = posenc.attention(*here.rotate(q, k), v, here, Mask(causal=True, **KINDS[kind]), **settings)
    return y.detach(), _gradients((y * weight).sum(), given, encoding, settings)


def _gradients(
    loss: Tensor, given: list[Tensor], encoding: posenc.Encoding, settings: dict[str, Any]
) -> list[Tensor]:
    wanted = [*given, *encoding.parameters(), *([settings["sinks"]] if settings else [])]
    return list(torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True))


def shard(zigzag: bool) -> tuple[Tensor, Tensor]:
    """Return the tokens of this rank, and the tokens of all ranks from rank 0 on."""
    ranks = dist.get_world_size()
    shards = [sharded(LENGTH, r, ranks, zigzag=zigzag) for r in range(ranks)]
    return shards[dist.get_rank()], torch.cat(shards)


def compared(
    name: str,
    zigzag: bool,
    attend: Callable[..., Tensor],
    watched: AbstractContextManager,
    kind: str = "causal",
) -> None:
    """Compare a rank's share of a layer, forward and backward, with the whole layer."""
    own, everyone = shard(zigzag)
    encoding, settings = made(name), settings_of(kind)
    x, q, k, v, weight = tensors()
    local = [x[:, own].clone().requires_grad_(), *(t[:, :, own].clone().requires_grad_() for t in (q, k, v))]
    here, state = encoding.at(own, everyone, dtype=torch.float64).with_content(local[0])
    rotated = here.rotate(local[1], local[2])
    if state is not None:
        here = here.with_state(Gather.apply(state, 2))
    mask = Mask(causal=True, q_order=own, k_order=everyone, **sharded_kind(kind, own, everyone))
    weight = weight[:, :, own]
    with watched:
        y = attend(*rotated, local[3], here, mask, **settings)
        got = _gradients((y * weight).sum(), local, encoding, settings)
    want, gradients = whole(name, kind)
    _near(y, want[:, :, own])
    _compare(got, gradients, own)


def gathered(name: str, zigzag: bool) -> None:
    """Test attention in which queries stay on their rank, and keys and values of all ranks are gathered."""

    def attend(q: Tensor, k: Tensor, v: Tensor, *here: Any) -> Tensor:
        return posenc.attention(q, Gather.apply(k, 2), Gather.apply(v, 2), *here)

    compared(name, zigzag, attend, nullcontext())


def ring(name: str, zigzag: bool) -> None:
    """Test attention in which keys, values and their gradients travel around a ring."""
    # In other encodings, stacked heads of one group have the same shape by chance.
    compared(name, zigzag, posenc.ring_attention, NoWholeKeys() if name == "rotary" else nullcontext())


class NoWholeKeys(TorchDispatchMode):
    """A mode that refuses tensors as large as the keys or values of all ranks."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, list | tuple) else [out]:
            if isinstance(x, Tensor) and x.shape in ((B, K, LENGTH, D), (B, H, LENGTH, D)):
                assert x.untyped_storage().nbytes() < x.numel() * x.element_size(), (func.name(), x.shape)
        return out


def refused(_: str, zigzag: bool) -> None:
    """Check that an unsupported ring raises an error on every rank before any tensor is sent."""
    own, everyone = shard(zigzag)
    q, k, v = torch.randn(3, 1, H, len(own), D)
    placed, mask = posenc.NoPE().at(own, everyone), Mask(causal=True, q_order=own, k_order=everyone)
    cope = posenc.CoPE(D, H).at(own, everyone)[0]
    for here, seen, message in (
        (posenc.NoPE().at(own), mask, "place it at the keys of all ranks: encoding.at"),
        (placed, Mask(causal=True), "needs the order of the tokens"),
        (cope, mask, "reads the scores of all keys, which no rank has; gather the keys"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            posenc.ring_attention(q, k, v, here, seen)


def masked(kind: str, zigzag: bool) -> None:
    """Test a ring with padding, documents, a window, chunks or a dense mask, softcap and sinks, for rotary."""
    compared("rotary", zigzag, posenc.ring_attention, nullcontext(), kind)


def _compare(got: list[Tensor], want: list[Tensor], own: Tensor) -> None:
    """Compare the gradients of a rank's own tokens, and the gradients of parameters summed over ranks."""
    _near(got[0], want[0][:, own])
    for g, w in zip(got[1:4], want[1:4], strict=True):
        _near(g, w[:, :, own])
    for g, w in zip(got[4:], want[4:], strict=True):
        dist.all_reduce(g)
        _near(g, w)


def _near(got: Tensor, want: Tensor) -> None:
    scale = max(1.0, want.abs().max().item())
    gap = (got - want).abs().max().item()
    assert gap <= BOUND * scale, f"rank {dist.get_rank()} is off by {gap:.1e}"


def run(ranks: int, jobs: list[tuple[str, str, bool]]) -> None:
    """Run jobs in ``ranks`` processes. A job has a way, an encoding, and whether the order is a zig-zag."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    mp.spawn(_rank, (ranks, port, jobs), nprocs=ranks)


WAYS = {
    "gathered": gathered,
    "ring": ring,
    "masks": masked,
    "refused": refused,
}


def _rank(rank: int, ranks: int, port: int, jobs: list[tuple[str, str, bool]]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    for way, name, zigzag in jobs:
        try:
            WAYS[way](name, zigzag)
        except Exception as error:
            raise AssertionError(f"{way}, {name}, zigzag={zigzag}: {error}") from error
    dist.destroy_process_group()
