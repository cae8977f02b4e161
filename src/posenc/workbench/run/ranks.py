"""One training over several processes, a device each: which process holds which part of batch and model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

import posenc
from posenc.errors import InvalidArgument
from posenc.workbench.run.checkpoint import State
from posenc.workbench.run.transformer import Transformer, wide
from posenc.workbench.tasks import IGNORE, Batch

WAYS = ("ddp", "fsdp", "context")
"""The batch is shared out: every rank holds the model, or a part of it. Or each sequence is, in a zig-zag."""


class Alone:
    """A training in one process."""

    first = True
    """Whether this process reports, tests and writes the run."""
    every: ClassVar[int] = 1
    """Steps after which all processes meet: losses are added up, and the clock is looked at."""

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

    def loss(self, model: nn.Module, batch: Batch, device: str) -> Tensor:
        """The part of the batch's mean loss that this process adds to it, at least in float32."""
        batch = batch.to(device)
        return _loss(model(batch.tokens, **batch.inputs()), batch.targets)

    def validation(self, model: Transformer, batch: Batch, device: str) -> Tensor:
        """The loss of the whole batch, which every process takes by itself."""
        return ALONE.loss(model, batch, device)

    def synchronise(self, model: nn.Module, last: bool) -> None:
        """Share gradients out with the next batch, the ``last`` of a step, or add them up here until then."""

    def total(self, losses: Tensor) -> Tensor:
        """The losses of whole batches, from this process's parts of them."""
        return losses

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """For each flag, whether any process has it."""
        return flags


ALONE = Alone()


def _loss(outputs: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
    """The cross-entropy, at least in float32: of 16-bit logits it would have 8 bits."""
    outputs, targets = outputs.flatten(0, 1), targets.flatten()
    return F.cross_entropy(outputs.to(wide(outputs.dtype)), targets, ignore_index=IGNORE, reduction=reduction)


@dataclass(frozen=True)
class Ranks(Alone):
    """A training in all processes of the process group.

    Args:
        way: one of ``WAYS``.
        device: of this process.
    """

    way: str
    device: str
    every: ClassVar[int] = 16

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
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        mesh = dist.init_device_mesh(torch.device(self.device).type, (dist.get_world_size(),))
        dtype = model.head.weight.dtype
        # Tables of positions go into blocks, and stay as they are.
        policy = MixedPrecisionPolicy(param_dtype=dtype, cast_forward_inputs=False)
        model.to(wide(dtype))
        for block in model.blocks:
            fully_shard(block, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)  # in place: the same model, its parameters now parts
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

    def loss(self, model: nn.Module, batch: Batch, device: str) -> Tensor:
        """Every process draws the whole batch, and so knows its number of targets without asking."""
        if self.way == "context" and batch.positions is not None:
            raise InvalidArgument(
                "parallel='context' shares out tokens that follow one another, and these stand on a grid or in "
                "documents of their own; choose ddp or fsdp"
            )
        rank, ranks, rows = dist.get_rank(), dist.get_world_size(), len(batch.tokens)
        batch = batch.to(self.device)
        if self.way == "context":
            positions, keywords = _shard(batch.tokens.shape[1], rank, ranks, self.device)
            part = replace(batch, tokens=batch.tokens[:, positions], targets=batch.targets[:, positions])
        else:
            if rows % ranks:
                raise InvalidArgument(f"batch={rows} must be a multiple of devices={ranks} to be shared out")
            part = batch.part(rank, ranks)
            keywords = part.inputs()
        total = _loss(model(part.tokens, **keywords), part.targets, "sum")
        return total * (ranks / (batch.targets != IGNORE).sum())  # gradients are averaged over ranks

    def validation(self, model: Transformer, batch: Batch, device: str) -> Tensor:
        loss = ALONE.loss(model, batch, self.device)
        if self.way == "fsdp":
            model.reshard()  # type: ignore[operator]  # a gathered weight would outlive the next step
        return loss

    def synchronise(self, model: nn.Module, last: bool) -> None:
        if isinstance(model, nn.parallel.DistributedDataParallel):
            model.require_backward_grad_sync = last  # as its no_sync() has it
        else:
            model.set_requires_gradient_sync(last)  # type: ignore[operator]

    def total(self, losses: Tensor) -> Tensor:
        dist.all_reduce(losses)
        return losses / dist.get_world_size()

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
