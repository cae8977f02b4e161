"""How the costs of positions grow with the length: at L, 2L, 4L and 8L, with the fitted exponent."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

import posenc
from benchmarks.measure import Outputs, exponent, peak_memory, timed

TARGET = 1.05


@dataclass(frozen=True)
class Growth:
    """A cost at growing lengths."""

    name: str
    unit: str
    lengths: list[int]
    costs: list[float]
    target: float | None = TARGET
    """The largest exponent allowed; None if there is no target."""

    @property
    def exponent(self) -> float:
        return exponent(self.lengths, self.costs)


def _seconds(runs: list[Callable[[], Outputs]], rounds: int = 9) -> list[float]:
    """Return the median time of every run; the runs take turns."""
    times: list[list[float]] = [[] for _ in runs]
    for number in range(rounds + 1):
        for run, took in zip(runs, times, strict=True):
            seconds = timed(run)
            if number:
                took.append(seconds)
    return [statistics.median(took) for took in times]


@torch.no_grad()
def growths() -> list[Growth]:
    """Measure tables, rotation, and the preparation time and memory that ALiBi adds to attention."""
    found = []
    # For longer tables, glibc maps the float64 temporaries again on each call, so the last doubling is slower.
    long = [1 << n for n in (13, 14, 15, 16)]
    rotary, alibi = posenc.Rotary(64, pairing="half"), posenc.ALiBi(8)
    at = {length: posenc.positions.arange(length) for length in long}
    tables = [lambda length=length: rotary.tables(at[length]) for length in long]
    found.append(Growth("RoPE, cos and sin tables", "s", long, _seconds(tables)))
    qk = {length: torch.randn(2, 1, 8, length, 64) for length in long}
    placed = {length: rotary.at(at[length]) for length in long}
    turns = [
        lambda length=length: placed[length].rotate(*qk[length], out=(qk[length][0], qk[length][1]))
        for length in long
    ]
    found.append(Growth("RoPE, q and k in place", "s", long, _seconds(turns)))
    lines = [lambda length=length: (alibi.at(at[length]).bias.toeplitz,) for length in long]
    found.append(Growth("ALiBi, preparation", "s", long, _seconds(lines)))
    lengths = [1024, 2048, 4096, 8192]
    found.append(
        Growth("ALiBi, memory in addition to inputs and output", "bytes", lengths, _memory(_attend, lengths))
    )
    traced = torch.compile(_attend, backend="eager", dynamic=True)
    found.append(Growth("the same, traced by a compiler", "bytes", lengths, _memory(traced, lengths), target=None))
    return found


def _attend(q: Tensor, k: Tensor, v: Tensor, at: Tensor, alibi: posenc.ALiBi) -> Tensor:
    return posenc.attention(q, k, v, alibi.at(at), causal=True)


def _memory(attend: Callable[..., Tensor], lengths: list[int]) -> list[float]:
    """Peak memory of attention with ALiBi in bytes, without q, k, v and the output: 8 heads, float32."""
    alibi, extra = posenc.ALiBi(8), []
    for length in lengths:
        q, k, v = torch.randn(3, 1, 8, length, 64)
        at = posenc.positions.arange(length)
        peak = peak_memory(lambda q=q, k=k, v=v, at=at: (attend(q, k, v, at, alibi),))
        extra.append(float(peak - q.numel() * q.element_size()))
    return extra
