"""What the areas share: a case that is drawn from a seed and judges itself, and the loop that runs cases."""

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from types import FrameType, SimpleNamespace

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from posenc.laws.law import near

LONGEST = 120
"""Seconds after which a case counts as one that hangs."""
MOST = 400
"""Letters of an error that a finding shows; ``--only`` shows all of it."""


class Case(SimpleNamespace):
    """Everything that one comparison depends on; its ``repr`` says all of it."""

    def judge(self) -> None:
        """Compute both results, and raise where they differ."""
        raise NotImplementedError


@dataclass(frozen=True)
class Area:
    """A subject, and how its cases are drawn."""

    name: str
    about: str
    draw: Callable[[Random], Case]

    def case(self, seed: int, number: int) -> Case:
        """Case ``number`` of this seed, which no other case has a part in."""
        return self.draw(Random(f"{self.name} {seed} {number}"))

    def finding(self, seed: int, number: int) -> str | None:
        """What is wrong with one case, and the line that repeats it; None where nothing is."""
        case = self.case(seed, number)
        signal.signal(signal.SIGALRM, hang)
        signal.alarm(LONGEST)
        try:
            case.judge()
        except (Exception, Hangs) as error:
            repeat = f"python -m tools.campaign {self.name} --seed {seed} --only {number}"
            return f"{repeat}\n    {case}\n    " + f"{type(error).__name__}: {error}"[:MOST]
        finally:
            signal.alarm(0)
        return None

    def run(self, seed: int, *, minutes: float = np.inf, cases: float = np.inf) -> Iterator[str | None]:
        """Judge cases one after the other until the cases or the processor's minutes end."""
        end, number = time.process_time() + 60 * minutes, 0
        while number < cases and time.process_time() < end:
            yield self.finding(seed, number)
            number += 1


class Hangs(BaseException):
    """A case that takes too long; no ``except Exception`` of the library swallows it."""


def hang(number: int, frame: FrameType | None) -> None:
    raise Hangs(f"still running after {LONGEST} s")


def numpy(x: Tensor) -> np.ndarray:
    """The numbers of a tensor in float64, integers as they are."""
    x = x.detach()
    return (x.double() if x.is_floating_point() else x).cpu().numpy()


def agree(what: str, got: Tensor | ArrayLike, want: ArrayLike, tolerance: ArrayLike) -> None:
    """Hold a result to the oracle's: the same shape, and nowhere further away than the tolerance."""
    near(torch.as_tensor(got), torch.as_tensor(want), torch.as_tensor(np.asarray(tolerance)), what)


def normal(random: Random, *shape: int, std: float = 1.0) -> Tensor:
    """Normal numbers in float64 that the draw decides."""
    generator = torch.Generator().manual_seed(random.getrandbits(40))
    return torch.randn(shape, generator=generator, dtype=torch.float64) * std
