"""What the areas share: a case that is drawn from a seed and judges itself, and the loop that runs cases."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from types import FrameType
from typing import Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

LONGEST = 120
"""Seconds after which a case counts as one that hangs."""
MOST = 400
"""Letters of an error that a finding shows; ``--only`` shows all of it."""


class Wrong(AssertionError):  # noqa: N818
    """The library's result is not the oracle's."""


class Case(Protocol):
    """Everything that one comparison depends on; its ``repr`` says all of it."""

    def judge(self) -> None:
        """Compute both results and raise ``Wrong`` where they differ."""


@dataclass(frozen=True)
class Area:
    """A subject, and how its cases are drawn."""

    name: str
    about: str
    draw: Callable[[Random], Case]

    def case(self, seed: int, number: int) -> Case:
        """Case ``number`` of this seed, which no other case has a part in."""
        return self.draw(Random(f"{self.name} {seed} {number}"))


@dataclass(frozen=True)
class Finding:
    """A case that went wrong."""

    area: str
    seed: int
    number: int
    case: str
    error: str

    def __str__(self) -> str:
        repeat = f"python -m tools.campaign {self.area} --seed {self.seed} --only {self.number}"
        return f"{repeat}\n    {self.case}\n    {self.error}"


class Hangs(BaseException):
    """A case that takes too long; no ``except Exception`` of the library swallows it."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise ``Hangs`` in the body once so many seconds are over; in the main thread alone."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hangs(f"still running after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def judge(area: Area, seed: int, number: int) -> Finding | None:
    """What is wrong with one case; None where nothing is."""
    case = area.case(seed, number)
    try:
        with time_limit(LONGEST):
            case.judge()
    except (Exception, Hangs) as error:
        message = f"{type(error).__name__}: {error}"
        return Finding(area.name, seed, number, repr(case), message[:MOST])
    return None


def run(
    area: Area, seed: int, *, minutes: float = np.inf, cases: float = np.inf, first: int = 0
) -> Iterator[Finding | None]:
    """Judge cases one after the other, from ``first`` on, until the cases or the processor's minutes end."""
    end, number = time.process_time() + 60 * minutes, first
    while number < first + cases and time.process_time() < end:
        yield judge(area, seed, number)
        number += 1


def numpy(x: Tensor) -> np.ndarray:
    """The numbers of a tensor in float64, integers as they are."""
    x = x.detach()
    return (x.double() if x.is_floating_point() else x).cpu().numpy()


def agree(what: str, got: Tensor | ArrayLike, want: ArrayLike, tolerance: ArrayLike) -> None:
    """Hold a result to the oracle's: the same shape, and nowhere further away than the tolerance.

    Raises:
        Wrong: how far they are apart, and where.
    """
    got = numpy(got) if isinstance(got, Tensor) else np.asarray(got)
    want = np.asarray(want)
    if got.shape != want.shape:
        raise Wrong(f"{what} has shape {got.shape}; expected {want.shape}")
    if got.size == 0:
        return
    with np.errstate(invalid="ignore"):
        error = np.where(got == want, 0.0, np.abs(got - want))
        excess = np.where(np.isnan(error), np.inf, error - np.broadcast_to(tolerance, error.shape))
    worst = np.unravel_index(int(np.argmax(excess)), excess.shape)
    if excess[worst] > 0:
        allowed = np.broadcast_to(tolerance, error.shape)[worst]
        index = tuple(map(int, worst))
        raise Wrong(
            f"{what} is {got[worst]!r} at {index} and should be {want[worst]!r}: off by {error[worst]:.3g}, "
            f"{allowed:.3g} allowed; {int((excess > 0).sum())} of {error.size} numbers are wrong"
        )


def normal(random: Random, *shape: int, dtype: torch.dtype = torch.float64, std: float = 1.0) -> Tensor:
    """Normal numbers that the draw decides."""
    generator = torch.Generator().manual_seed(random.getrandbits(40))
    return (torch.randn(shape, generator=generator, dtype=torch.float64) * std).to(dtype)


def eps(dtype: torch.dtype) -> float:
    """Half a unit in the last place at 1."""
    return torch.finfo(dtype).eps / 2


STEPS = (1e-3, 1e-5, 1e-7)
"""Of differences: a long one may lie across a kink or a steep bend, and a short one is rough."""


def slope(f: Callable[[float], float], got: float) -> float:
    """f'(0) by central differences of fourth order: of several steps the one whose result is nearest to ``got``."""
    wants = [(8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h) for h in STEPS]
    return min(wants, key=lambda want: abs(want - got))


def curve(f: Callable[[float], float], got: float) -> float:
    """f''(0), likewise."""
    steps = (1e-2, 3e-3, 1e-3, 3e-4)
    wants = [(16 * (f(h) + f(-h)) - (f(2 * h) + f(-2 * h)) - 30 * f(0)) / (12 * h * h) for h in steps]
    return min(wants, key=lambda want: abs(want - got))
