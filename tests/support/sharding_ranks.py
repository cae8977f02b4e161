"""What one rank of a sharded attention layer does, and a way to run it in as many processes as there are ranks.

Every rank holds its tokens of two sequences. The whole is computed beside it, so that each rank can compare what it
has: outputs of its tokens, and the gradients of inputs and of the encoding's parameters summed over ranks.
"""

import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

import posenc
from posenc import Mask
from posenc.positions import arange, sharded

B, H, K, D, C = 2, 8, 4, 8, 64
LENGTH = 32
BOUND = 1e-12
"""float64: some hundred roundings of 1e-16 of numbers of order one, in another order than the whole's."""

TEXTS = {
    "nope": "nope",
    "rotary": "rotary",
    "alibi": "alibi",
    "t5": "t5(std=1)",
    "fox": "fox(bias=1)",
    "stack": "stack(rotary, t5(std=1), fox(bias=1))",
    "heads": "heads(alibi*4, rotary*4)",
    "query-scale": "stack(rotary, query-scale(floor=3))",
}


def made(name: str) -> posenc.Encoding:
    """The encoding of this name, with the same parameters on every rank."""
    torch.manual_seed(1)
    return posenc.encoding(TEXTS[name], width=C, heads=H, head_dim=D).double()


def tensors() -> list[Tensor]:
    """x, q, k, v of the whole, and the weights of a loss; the same on every rank."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(B, LENGTH, C), (B, H, LENGTH, D), (B, K, LENGTH, D), (B, K, LENGTH, D), (B, H, LENGTH, D)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


class Gather(torch.autograd.Function):
    """All ranks' pieces side by side; the gradient of a piece is the sum of what every rank made of it."""

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


def whole(name: str) -> tuple[Tensor, list[Tensor]]:
    """Output of the unsharded layer, and gradients of x, q, k, v and the parameters."""
    encoding = made(name)
    x, q, k, v, weight = tensors()
    given = [t.requires_grad_() for t in (x, q, k, v)]
    at = arange(LENGTH)
    here, _ = encoding.at(at, dtype=torch.float64).with_content(x)
    y = posenc.attention(*here.rotate(q, k), v, here, causal=True)
    return y.detach(), _gradients((y * weight).sum(), given, encoding)


def _gradients(loss: Tensor, given: list[Tensor], encoding: posenc.Encoding) -> list[Tensor]:
    wanted = [*given, *encoding.parameters()]
    found = torch.autograd.grad(loss, wanted, allow_unused=True)
    return [torch.zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)]


def gathered(name: str, zigzag: bool) -> None:
    """Queries stay where they are, keys and values of all ranks come to them."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    own = sharded(LENGTH, rank, ranks, zigzag=zigzag)
    everyone = torch.cat([sharded(LENGTH, r, ranks, zigzag=zigzag) for r in range(ranks)])
    encoding = made(name)
    x, q, k, v, weight = tensors()
    local = [x[:, own].clone().requires_grad_(), *(t[:, :, own].clone().requires_grad_() for t in (q, k, v))]
    here, state = encoding.at(own, everyone, dtype=torch.float64).with_content(local[0])
    turned_q, turned_k = here.rotate(local[1], local[2])
    if state is not None:
        here = here.with_state(Gather.apply(state, 2))
    mask = Mask(causal=True, q_order=own, k_order=everyone)
    y = posenc.attention(turned_q, Gather.apply(turned_k, 2), Gather.apply(local[3], 2), here, mask)
    want, gradients = whole(name)
    _near(y, want[:, :, own])
    got = _gradients((y * weight[:, :, own]).sum(), local, encoding)
    _compare(got, gradients, own)


def ring(name: str, zigzag: bool) -> None:
    """Keys and values travel around; what each piece gives is put together by its logsumexp."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    own = sharded(LENGTH, rank, ranks, zigzag=zigzag)
    encoding = made(name)
    _, q, k, v, _ = tensors()
    with torch.no_grad():
        turned_q, turned_k = encoding.at(own, dtype=torch.float64).rotate(q[:, :, own], k[:, :, own])
        held, values, parts = turned_k.contiguous(), v[:, :, own].contiguous(), []
        for step in range(ranks):
            theirs = sharded(LENGTH, (rank - step) % ranks, ranks, zigzag=zigzag)
            placed = encoding.at(own, theirs, dtype=torch.float64)
            mask = Mask(causal=True, q_order=own, k_order=theirs)
            parts.append(posenc.attention(turned_q, held, values, placed, mask, return_logsumexp=True))
            held, values = _passed_on(held), _passed_on(values)
        y, _ = posenc.merge(parts)
    _near(y, whole(name)[0][:, :, own])


def heads_apart(name: str, zigzag: bool) -> None:
    """Every rank has some heads, and of the encoding what belongs to them."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    first, last = rank * H // ranks, (rank + 1) * H // ranks
    encoding = made(name)
    local = posenc.SomeHeads(encoding, first, last)
    x, q, k, v, weight = tensors()
    mine, shared = slice(first, last), slice(first * K // H, last * K // H)
    given = [x.requires_grad_(), *(t.clone().requires_grad_() for t in (q[:, mine], k[:, shared], v[:, shared]))]
    here, _ = local.at(arange(LENGTH), dtype=torch.float64).with_content(given[0])
    y = posenc.attention(*here.rotate(given[1], given[2]), given[3], here, causal=True)
    want, gradients = whole(name)
    _near(y, want[:, mine])
    got = _gradients((y * weight[:, mine]).sum(), given, encoding)
    for g, w, part in zip(got[1:4], gradients[1:4], (mine, shared, shared), strict=True):
        _near(g, w[:, part])
    for g, w in zip([got[0], *got[4:]], [gradients[0], *gradients[4:]], strict=True):
        dist.all_reduce(g)
        _near(g, w)


def _passed_on(piece: Tensor) -> Tensor:
    """To the next rank, and from the one before."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    received = torch.empty_like(piece)
    work = [dist.isend(piece, (rank + 1) % ranks), dist.irecv(received, (rank - 1) % ranks)]
    for one in work:
        one.wait()
    return received


def _compare(got: list[Tensor], want: list[Tensor], own: Tensor) -> None:
    """A rank's tokens' gradients are its own; parameters' are summed over ranks."""
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
    """ContentState out jobs, each a way, an encoding and whether to zig-zag, on so many real processes."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    mp.spawn(_rank, (ranks, port, jobs), nprocs=ranks)


def _rank(rank: int, ranks: int, port: int, jobs: list[tuple[str, str, bool]]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    for way, name, zigzag in jobs:
        try:
            {"gathered": gathered, "ring": ring, "heads": heads_apart}[way](name, zigzag)
        except Exception as error:
            raise AssertionError(f"{way}, {name}, zigzag={zigzag}: {error}") from error
    dist.destroy_process_group()
