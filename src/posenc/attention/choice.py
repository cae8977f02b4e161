"""Which of two right ways a biased call takes on this machine: measured once a process and kind of call.

The two round differently, in the last digits. A study that must give the same bits everywhere names its way, as
``posenc.attention(…, impl="line")``; ``made`` is what was chosen so far, to be written down.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from posenc.kernels.choose import Choice
from posenc.kernels.timing import decide, race

SHORT, LONG = 1024, 2048
"""Shorter calls are not measured; longer ones count as this long."""

HEADS = 2
"""As many heads are timed: enough that keys and values of a call do not stay in the nearest cache."""


@dataclass(frozen=True)
class Kind:
    """What calls have in common that are served by one measurement on one machine."""

    dtype: torch.dtype
    channels: int
    length: int
    training: bool
    threads: int


made: dict[Kind, Choice] = {}
"""What was chosen so far in this process, and why."""

Ways = dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]]


def choice(q: Tensor, training: bool, ways: Callable[[int, int], Ways]) -> Choice:
    """The way for calls like this; ``ways(heads, length)`` makes one of each to be timed, the first by default."""
    if q.shape[2] < SHORT:
        return Choice("line", f"below {SHORT} tokens nothing is measured, and a line needs the least memory")
    kind = Kind(q.dtype, q.shape[3], SHORT if q.shape[2] < LONG else LONG, training, torch.get_num_threads())
    if kind not in made:
        with torch.device("cpu"):  # where the caller's tensors are, whatever the default is
            made[kind] = decide(race({name: _once(kind, way) for name, way in ways(HEADS, kind.length).items()}))
    return made[kind]


def _once(kind: Kind, way: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[], object]:
    """One call of a way, with its gradients where they are wanted."""
    generator = torch.Generator().manual_seed(0)
    shape = (3, 1, HEADS, kind.length, kind.channels)
    q, k, v = (x.requires_grad_(kind.training) for x in torch.randn(shape, generator=generator).to(kind.dtype))

    def run() -> object:
        with torch.set_grad_enabled(kind.training):
            y = way(q, k, v)
        return torch.autograd.grad(y, (q, k, v), y.detach()) if kind.training else y

    return run
