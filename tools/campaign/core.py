"""The code that all areas share: cases, which are drawn from a seed and check themselves, and their loop."""

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
"""The number of seconds after which a case counts as hanging."""
MOST = 400
"""The number of characters of an error that a finding shows; ``--only`` shows the whole error."""


class Case(SimpleNamespace):
    """All data on which a comparison depends; the ``repr`` is complete."""

    def judge(self) -> None:
        """Compute both results, and raise an error if they differ."""
        raise NotImplementedError


@dataclass(frozen=True)
class Area:
    """A subject of the campaign, with a function that draws its cases."""

    name: str
    draw: Callable[[Random], Case]

    def case(self, seed: int, number: int) -> Case:
        """Draw case ``number`` of this seed, independently of other cases."""
        return self.draw(Random(f"{self.name} {seed} {number}"))

    def finding(self, seed: int, number: int) -> str | None:
        """Return the error of a case and the command that repeats the case, or None."""
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
        """Check cases in turn, up to a number of cases or minutes of processor time."""
        end, number = time.process_time() + 60 * minutes, 0
        while number < cases and time.process_time() < end:
            yield self.finding(seed, number)
            number += 1


class Hangs(BaseException):
    """The error of a case that takes too long; it is a BaseException, which ``except Exception`` does not catch."""


def hang(number: int, frame: FrameType | None) -> None:
    raise Hangs(f"the case was still running after {LONGEST} s")


def numpy(x: Tensor) -> np.ndarray:
    """Convert a tensor to NumPy: floats to float64, integers unchanged."""
    x = x.detach()
    return (x.double() if x.is_floating_point() else x).cpu().numpy()


def agree(what: str, got: Tensor | ArrayLike, want: ArrayLike, tolerance: ArrayLike) -> None:
    """Check that a result has the shape of the oracle's result and differs by at most the tolerance everywhere."""
    near(torch.as_tensor(got), torch.as_tensor(want), torch.as_tensor(np.asarray(tolerance)), what)


def normal(random: Random, *shape: int, std: float = 1.0) -> Tensor:
    """Draw normal numbers in float64, determined by ``random``."""
    generator = torch.Generator().manual_seed(random.getrandbits(40))
    return torch.randn(shape, generator=generator, dtype=torch.float64) * std
