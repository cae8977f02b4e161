"""A law is a requirement that every encoding or model must meet, together with a function that tests it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

ROUNDING = 1e-12
"""The tolerance for float64 results of a few small layers: a few thousand rounding errors of 1e-16."""


class Broken(AssertionError):  # noqa: N818 - the name is clear without the suffix
    """The error for a broken law; its message contains the location, the result, the expected result and the
    tolerance.
    """


Holds = Callable[[Any], str | None]
"""The function of a law. The argument of the function is a subject: an encoding or a loaded model. The function may
return a note about what it did not test."""
WhyNot = Callable[[Any], str]


class NotAsked(str):
    """The reason why a law was not tested on a subject: the test is impossible, or it was not requested."""


@dataclass(frozen=True)
class Law:
    """A law. Calling the law with a subject that breaks it raises ``Broken`` with a counterexample.

    Args:
        holds: the function that tests the law. Its name is the law's name, and the first line of its docstring is
            the requirement.
        why_not: a function that returns the reason why the law does not apply to a subject, or a ``NotAsked``;
            the reason is empty if the law applies.
        traces: whether the test runs a compiler, for which run-time checks of type annotations must be off.
    """

    holds: Holds
    why_not: WhyNot
    traces: bool

    @property
    def name(self) -> str:
        return self.holds.__name__

    @property
    def says(self) -> str:
        return (self.holds.__doc__ or self.name).splitlines()[0]

    @property
    def remedy(self) -> str:
        """Advice on how to keep the law: the function's docstring without its first line."""
        return " ".join((self.holds.__doc__ or "").split()).removeprefix(" ".join(self.says.split())).strip()

    def __call__(self, subject: Any) -> str | None:
        return self.holds(subject)


def law(why_not: WhyNot = lambda subject: "", *, traces: bool = False) -> Callable[[Holds], Law]:
    """Return a decorator that turns a function into a law."""
    return lambda holds: Law(holds, why_not, traces)


def owed(holds: bool, complaint: str) -> None:
    """Raise ``Broken`` with this message unless ``holds`` is True."""
    if not holds:
        raise Broken(complaint)


def near(got: Tensor, want: Tensor, bound: float | Tensor = ROUNDING, what: str = "") -> None:
    """Require that |got − want| ≤ bound in every element, that infinities are equal, and that there are no NaNs."""
    owed(got.shape == want.shape, f"{what}: shape {tuple(got.shape)}, expected {tuple(want.shape)}")
    got, want = got.detach().double(), want.detach().double()
    off = (got - want).abs().masked_fill(got == want, 0.0)
    excess = (off - bound).nan_to_num(math.inf)
    if bool((excess <= 0).all()):
        return
    at = tuple(int(i) for i in torch.unravel_index(excess.argmax(), excess.shape))
    allowed = torch.as_tensor(bound, dtype=torch.float64).expand(off.shape)[at].item()
    raise Broken(
        f"{what} at {at}: got {got[at].item():.9g}, expected {want[at].item():.9g}; the error "
        f"{off[at].item():.2g} must be at most {allowed:.2g}"
    )


def same(got: dict[str, Tensor], want: dict[str, Tensor], what: str = "") -> None:
    """Require that both dicts have the same keys, and that their tensors have the same dtypes and values."""
    owed(got.keys() == want.keys(), f"{what}: got results for {sorted(got)}, expected {sorted(want)}")
    for name in want:
        owed(
            got[name].dtype == want[name].dtype, f"{what}: {name} is {got[name].dtype}, expected {want[name].dtype}"
        )
        near(got[name], want[name], 0.0, f"{what}: {name}")
