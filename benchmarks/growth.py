"""How costs that positions cause grow with the length: L, 2L, 4L, 8L and the resized power."""

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
    """The largest power allowed; None where none is promised."""

    @property
    def exponent(self) -> float:
        return exponent(self.lengths, self.costs)


def _seconds(runs: list[Callable[[], Outputs]], rounds: int = 9) -> list[float]:
    """Median of every run, taken in turn."""
    times: list[list[float]] = [[] for _ in runs]
    for number in range(rounds + 1):
        for run, took in zip(runs, times, strict=True):
            seconds = timed(run)
            if number:
                took.append(seconds)
    return [statistics.median(took) for took in times]


@torch.no_grad()
def growths() -> list[Growth]:
    """Tables, rotation, and what ALiBi adds to attention in time of preparation and in memory."""
    found = []
    # Longer tables have float64 temporaries of a size that glibc maps anew each time: the last doubling is dearer.
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
    found.append(Growth("ALiBi, memory beside inputs and output", "bytes", lengths, _memory(_attend, lengths)))
    traced = torch.compile(_attend, backend="eager", dynamic=True)
    found.append(Growth("the same, traced by a compiler", "bytes", lengths, _memory(traced, lengths), target=None))
    return found


def _attend(q: Tensor, k: Tensor, v: Tensor, at: Tensor, alibi: posenc.ALiBi) -> Tensor:
    return posenc.attention(q, k, v, alibi.at(at), causal=True)


def _memory(attend: Callable[..., Tensor], lengths: list[int]) -> list[float]:
    """Bytes that attention under ALiBi holds at its worst beside q, k, v and its output: 8 heads, float32."""
    alibi, extra = posenc.ALiBi(8), []
    for length in lengths:
        q, k, v = torch.randn(3, 1, 8, length, 64)
        at = posenc.positions.arange(length)
        peak = peak_memory(lambda q=q, k=k, v=v, at=at: (attend(q, k, v, at, alibi),))
        extra.append(float(peak - q.numel() * q.element_size()))
    return extra
