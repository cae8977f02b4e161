"""Encodings whose parameters FSDP2 shards as separate groups, on two ranks with one sequence per rank."""

import copy
import warnings

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

import posenc
from posenc.errors import InvalidArgument
from posenc.positions import arange

TEXTS = ("t5(std=1)", "shaw(std=1)", "pope(start=uniform)", "learned")
H, D, T = 4, 8, 6


class Layer(nn.Module):
    """An attention layer that calls ``at`` of an encoding instead of a ``forward``."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.encoding = posenc.encoding(text, width=H * D, heads=H, head_dim=D, num_positions=16)
        self.qkv = nn.Linear(H * D, 3 * H * D)

    def forward(self, x: Tensor) -> Tensor:
        placed = self.encoding.at(arange(x.shape[1]))
        x = placed.embed(x)
        q, k, v = self.qkv(x).unflatten(-1, (3 * H, D)).transpose(1, 2).chunk(3, dim=1)
        return posenc.attention(*placed.rotate(q, k), v, placed, causal=True)


def gradients(layer: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Return the unsharded gradient of every parameter."""
    layer(x).square().sum().backward()
    grads = {name: p.grad for name, p in layer.named_parameters()}
    return {name: g.full_tensor() if hasattr(g, "full_tensor") else g for name, g in grads.items() if g is not None}


def same_as_unsharded(text: str) -> None:
    torch.manual_seed(0)
    plain = Layer(text)
    layer, xs = copy.deepcopy(plain), torch.randn(2, 2, T, H * D, generator=torch.Generator().manual_seed(1))
    mesh = init_device_mesh("cpu", (2,))
    fully_shard(layer.encoding, mesh=mesh)
    fully_shard(layer, mesh=mesh)
    x = xs[dist.get_rank()]
    with pytest.raises(InvalidArgument, match=r"register_fsdp_forward_method\(encoding, 'at'\)"):
        layer(x)
    layer = copy.deepcopy(plain)
    fully_shard(layer.encoding, mesh=mesh, reshard_after_forward=False)
    register_fsdp_forward_method(layer.encoding, "at")
    fully_shard(layer, mesh=mesh)
    for _ in range(2):  # a second step must not depend on the first
        layer.zero_grad()
        got = gradients(layer, x)
    each = [gradients(copy.deepcopy(plain), x) for x in xs]
    want = {name: (grad + each[1][name]) / 2 for name, grad in each[0].items()}
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def rank_of_two(rank: int, path: str) -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "FSDP2-wrapped module")  # at() returns views, which nothing changes
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    for text in TEXTS:
        try:
            same_as_unsharded(text)
        except Exception as error:
            raise AssertionError(f"{text}: {error}") from error
    dist.destroy_process_group()
