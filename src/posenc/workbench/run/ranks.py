"""One training over several processes, a device each: which process holds which part of batch and model."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

import posenc
from posenc.errors import InvalidArgument
from posenc.workbench.run.checkpoint import State
from posenc.workbench.run.transformer import Transformer
from posenc.workbench.tasks import IGNORE, Batch

WAYS = ("ddp", "fsdp", "context")
"""The batch is shared out: every rank holds the model, or a part of it. Or each sequence is, in a zig-zag."""


class Alone:
    """A training in one process."""

    first = True
    """Whether this process reports, tests and writes the run."""

    def state(
        self, path: Path | None, model: nn.Module, optimiser: torch.optim.Optimizer, generator: torch.Generator
    ) -> State:
        """The state of a training that goes on from ``path``."""
        return State(path, model, optimiser, generator)

    def unsharded(self, model: Transformer, again: Callable[[], Transformer]) -> Transformer:
        """The trained model in one piece, in the first process; ``again`` builds an untrained one."""
        return model

    def wrapped(self, model: Transformer) -> nn.Module:
        """The model that training calls."""
        return model

    def outputs(self, model: nn.Module, batch: Batch, device: str) -> tuple[Tensor, Tensor]:
        """The model's outputs for this process's part of the batch, ``(N, V)``, and the targets of that part."""
        batch = batch.to(device)
        return model(batch.tokens, batch.positions).flatten(0, 1), batch.targets.flatten()

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of the whole batch; its gradient is that of this process's part."""
        return F.cross_entropy(outputs, targets, ignore_index=IGNORE)

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """For each flag, whether any process has it."""
        return flags


ALONE = Alone()


@dataclass(frozen=True)
class Ranks(Alone):
    """A training in all processes of the process group.

    Args:
        way: one of ``WAYS``.
        device: of this process.
    """

    way: str
    device: str

    @property
    def first(self) -> bool:  # type: ignore[override]
        return dist.get_rank() == 0

    def wrapped(self, model: Transformer) -> nn.Module:
        if self.way == "context" and model.encoding.needs_content:
            raise InvalidArgument(
                "parallel='context' cannot share sequences out under an encoding that reads content along them, "
                "such as fox; choose ddp or fsdp"
            )
        if self.way != "fsdp":
            return nn.parallel.DistributedDataParallel(model)
        from torch.distributed.fsdp import fully_shard

        mesh = dist.init_device_mesh(torch.device(self.device).type, (dist.get_world_size(),))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)  # in place: the same model, its parameters now parts
        return model

    def state(
        self, path: Path | None, model: nn.Module, optimiser: torch.optim.Optimizer, generator: torch.Generator
    ) -> State:
        from posenc.workbench.run.sharded import ShardedState

        return ShardedState(path, model, optimiser, generator, self.first)

    def unsharded(self, model: Transformer, again: Callable[[], Transformer]) -> Transformer:
        if self.way != "fsdp":
            return model
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

        values = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        unsharded = again()
        if self.first:
            unsharded.load_state_dict(values)
        return unsharded

    def outputs(self, model: nn.Module, batch: Batch, device: str) -> tuple[Tensor, Tensor]:
        if self.way == "context" and batch.positions is not None:
            raise InvalidArgument(
                "parallel='context' shares out tokens that follow one another, and these stand on a grid; choose "
                "ddp or fsdp"
            )
        rank, ranks, rows = dist.get_rank(), dist.get_world_size(), len(batch.tokens)
        batch = batch.to(self.device)
        tokens, targets, keywords = batch.tokens, batch.targets, dict[str, Any](positions=batch.positions)
        if self.way == "context":
            positions, keywords = _shard(tokens.shape[1], rank, ranks, self.device)
            tokens, targets = tokens[:, positions], targets[:, positions]
        else:
            if rows % ranks:
                raise InvalidArgument(f"batch={rows} must be a multiple of devices={ranks} to be shared out")
            tokens, targets = tokens.chunk(ranks)[rank], targets.chunk(ranks)[rank]
        return model(tokens, **keywords).flatten(0, 1), targets.flatten()

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Ranks' gradients are averaged, so that each gives its sum over the mean number of targets."""
        total = F.cross_entropy(outputs, targets, ignore_index=IGNORE, reduction="sum")
        both = torch.stack((total.detach(), (targets != IGNORE).sum().to(total.dtype)))
        dist.all_reduce(both)
        mean = both[0] / both[1]
        part = total * (dist.get_world_size() / both[1])
        return part + (mean - part).detach()

    def any(self, *flags: bool) -> tuple[bool, ...]:
        highest = torch.tensor(flags, dtype=torch.int32, device=self.device)
        dist.all_reduce(highest, dist.ReduceOp.MAX)
        return tuple(map(bool, highest.tolist()))


def _shard(length: int, rank: int, ranks: int, device: str) -> tuple[Tensor, dict[str, Any]]:
    """The positions of this rank's tokens, and the model's keywords for them; keys come from all ranks."""
    positions = posenc.positions.sharded(length, rank, ranks, zigzag=True, device=device)
    everyone = torch.cat(
        [posenc.positions.sharded(length, r, ranks, zigzag=True, device=device) for r in range(ranks)]
    )
    mask = posenc.Mask(causal=True, q_order=positions, k_order=everyone)
    return positions, {"positions": positions, "mask": mask, "cache": Gathered(everyone)}


class _Gather(torch.autograd.Function):
    """All ranks' ``(B, H, T, D)`` along T; the gradient of a part is the sum of all ranks' gradients of it."""

    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        parts = [
            torch.empty_like(part, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size())
        ]
        dist.all_gather(parts, part.contiguous())
        return torch.cat(parts, dim=2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        gradient = gradients[0].contiguous()
        dist.all_reduce(gradient)
        return gradient.chunk(dist.get_world_size(), dim=2)[dist.get_rank()]


class Gathered:
    """In place of a cache: keys and values of all ranks, in the order of ranks, with their gradients."""

    def __init__(self, everyone: Tensor) -> None:
        self.everyone = everyone
        self.states: dict[int, Tensor | None] = {}

    def advance(self, positions: Tensor) -> Tensor:
        """The positions of all keys; the model's positions are this rank's."""
        return posenc.positions.on_axes(self.everyone, 1 if positions.dim() == 1 else len(positions))

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """All ranks' keys and values."""
        both = _Gather.apply(torch.cat((k, v), dim=-1))
        return both[..., : k.shape[-1]], both[..., k.shape[-1] :]
