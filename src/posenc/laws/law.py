"""A law: a sentence that every encoding or model owes, the function that holds it, and when it does not apply."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

ROUNDING = 1e-12
"""float64 through a few small layers: some thousand roundings of 1e-16 each."""


class Broken(AssertionError):  # noqa: N818 - says what it is without the suffix
    """A law does not hold; says where, what came out, what was wanted, and how far off it may be."""

    law: str = ""
    """The name of the law, once it is known."""


Holds = Callable[[Any], None]
"""Of a subject of the kind that its laws are about: an encoding, or a loaded model."""
WhyNot = Callable[[Any], str]


class NotAsked(str):
    """Why a law that may apply could not be asked of this subject, or was not, as you chose."""


def everywhere(subject: object) -> str:
    """Why a law that always applies does not apply: never."""
    return ""


@dataclass(frozen=True)
class Law:
    """One law; called with a subject it returns, or raises ``Broken`` with a counterexample.

    Args:
        holds: the function; its name is the law's, its first line says what is owed.
        why_not: why it does not apply to a subject, or why it is ``NotAsked``; empty where it is.
        traces: whether it runs the compiler, which cannot trace annotations that are checked at run time.
    """

    holds: Holds
    why_not: WhyNot = everywhere
    traces: bool = False

    @property
    def name(self) -> str:
        return self.holds.__name__

    @property
    def says(self) -> str:
        return (self.holds.__doc__ or self.name).splitlines()[0]

    @property
    def remedy(self) -> str:
        """How it is kept: what stands below the first line of the function's description."""
        return " ".join((self.holds.__doc__ or "").split()).removeprefix(" ".join(self.says.split())).strip()

    def __call__(self, subject: Any) -> None:
        try:
            self.holds(subject)
        except Broken as broken:
            broken.law = self.name
            raise

    def __str__(self) -> str:
        return self.name


def law(why_not: WhyNot = everywhere, *, traces: bool = False) -> Callable[[Holds], Law]:
    """Makes a function a law."""
    return lambda holds: Law(holds, why_not, traces)


def owed(holds: bool, complaint: str) -> None:
    """Broken, with this complaint, unless it is kept."""
    if not holds:
        raise Broken(complaint)


def near(got: Tensor, want: Tensor, bound: float | Tensor = ROUNDING, what: str = "") -> None:
    """|got − want| ≤ bound everywhere, equal infinities aside, and nothing is NaN."""
    owed(got.shape == want.shape, f"{what}: shape {tuple(got.shape)}, wanted {tuple(want.shape)}")
    if not got.numel():
        return
    got, want = got.detach().double(), want.detach().double()
    off = (got - want).abs().masked_fill(got == want, 0.0)
    excess = (off - bound).nan_to_num(math.inf)
    if bool((excess <= 0).all()):
        return
    at = tuple(int(i) for i in torch.unravel_index(excess.argmax(), excess.shape))
    allowed = torch.as_tensor(bound, dtype=torch.float64).expand(off.shape)[at].item()
    raise Broken(
        f"{what} at {at}: got {got[at].item():.9g}, wanted {want[at].item():.9g}, off by {off[at].item():.2g} "
        f"where {allowed:.2g} is allowed"
    )


def same(got: dict[str, Tensor], want: dict[str, Tensor], what: str = "") -> None:
    """Equal bit for bit, and of equal types."""
    owed(got.keys() == want.keys(), f"{what}: {sorted(got)} instead of {sorted(want)}")
    for name in want:
        owed(got[name].dtype == want[name].dtype, f"{what}: {name} is {got[name].dtype}, wanted {want[name].dtype}")
        near(got[name], want[name], 0.0, f"{what}: {name}")
