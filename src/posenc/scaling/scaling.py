"""Scalings are immutable objects that compute frequencies from ``rotary_dim`` and ``base``."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import lru_cache, wraps
from typing import Annotated, ParamSpec, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from posenc.arguments import as_integer, is_number, such_that
from posenc.errors import InvalidArgument
from posenc.scaling.checks import Checked
from posenc.scaling.frequencies import Frequencies

P = ParamSpec("P")
R = TypeVar("R")

TWO_PI = Decimal("6.28318530717958647692528676655900576839433879875021164194988918")

DIGITS = 50
"""The number of digits of exact frequencies. A phase in units of 2^−64 turn needs 20 digits, and multiplying it
by positions up to 2^31 needs 10 more digits.
"""


class Scaling(Checked, ABC):
    """A rule that sets the frequencies of a rotation, usually to extend the context beyond the trained length.

    A scaling is a frozen dataclass of plain numbers, which is independent of modules, layouts and caches.
    Pairing, partial rotation and dtype are chosen separately.
    """

    @abstractmethod
    def frequencies(self, rotary_dim: int, base: float) -> Frequencies:
        """Return the frequencies for ``rotary_dim`` channels (``rotary_dim / 2`` pairs) and this ``base``."""

    @property
    def softmax_factor(self) -> float:
        """The factor by which attention's 1/√D is multiplied: 1, except for YaRN with ``mscale_all_dim``."""
        return 1.0


class LengthScaling(Checked, ABC):
    """A rule whose frequencies depend on the length of a request. ``plan`` fixes the frequencies for one
    request.

    Frequencies are set once, from the length of prompt plus answer, before the first key is cached. Frequencies
    do not change as the request grows, and do not depend on other rows of the batch.
    """

    @abstractmethod
    def plan(self, total_length: int) -> Scaling:
        """Return the fixed scaling for a request of ``total_length`` tokens."""

    def stale(self, planned_length: int, total_length: int) -> bool:
        """Return whether keys that were cached with the plan for one length are stale with the plan for another."""
        return self.plan(planned_length) != self.plan(total_length)


def planned(scaling: Scaling | LengthScaling, total_length: int | None) -> Scaling:
    """Return the scaling or, if it depends on the length of the request, its plan for ``total_length`` tokens."""
    if isinstance(scaling, Scaling):
        return scaling
    if total_length is None:
        raise InvalidArgument(
            f"{type(scaling).__name__} depends on the length of the request; pass total_length=, the length of "
            "prompt and answer together, or use a fixed scaling, such as ntk(4) or yarn(4, 4096)"
        )
    return scaling.plan(total_length)


def fixed(scaling: object) -> Scaling:
    """Return the scaling itself. Raise an error if ``scaling`` is not a ``Scaling``, for example because it
    depends on a length.
    """
    if not isinstance(scaling, Scaling):
        raise InvalidArgument(
            f"scaling={scaling!r} must be a Scaling"
            + (
                "; for DynamicNTK or LongRoPE, pass the scaling for one request, scaling.plan(total_length)"
                if isinstance(scaling, LengthScaling)
                else ", such as posenc.scaling.YaRN(4, 4096); as a string, write "
                "posenc.encoding('rotary(scaling=yarn(4, 4096))')"
            )
        )
    return scaling


def check_dim_and_base(rotary_dim: int, base: Decimal | float, name: str = "rotary_dim") -> None:
    """Raise an error if the width is odd or too small, or the base is invalid. ``name`` is the caller's name for
    the width.
    """
    if as_integer(rotary_dim, name) < 2 or rotary_dim % 2:
        raise InvalidArgument(
            f"{name}={rotary_dim} must be even and at least 2, because channels rotate in pairs; use "
            f"{max(2, rotary_dim + rotary_dim % 2)}"
        )
    check_base(base, "base")


check_base = such_that(
    lambda base: (is_number(base) or isinstance(base, Decimal)) and 1 < base < math.inf,
    "be finite and above 1; 10000 is the usual value",
)
Base = Annotated[float, check_base]
"""The base of the frequencies of a rotation."""


def exact(formula: Callable[P, R]) -> Callable[P, R]:
    """Decorate a formula so that its Decimals have 50 digits in any decimal context, and its tensors have values
    even under a fake-tensor mode.
    """

    @wraps(formula)
    def at_full_precision(*args: P.args, **kwargs: P.kwargs) -> R:
        with localcontext() as context, unset_fake_temporarily():
            context.prec = DIGITS
            return formula(*args, **kwargs)

    return at_full_precision


@lru_cache
@exact
def falling(base: Decimal | float, indices: range, divisor: int) -> tuple[Decimal, ...]:
    """Return base^(−i/divisor) for every index i, correctly rounded to 50 digits. The function computes powers of
    base^(−1/divisor) with extra digits, and then rounds them.
    """
    with localcontext() as context:
        context.prec = DIGITS + 10
        ratio = (-Decimal(base).ln() / divisor).exp()
        powers = [ratio**i for i in indices]
    return tuple(+power for power in powers)


def unscaled_frequencies(rotary_dim: int, base: Decimal | float) -> tuple[Decimal, ...]:
    """Return the exact frequencies θ_i = base^(−2i/d) for i = 0 … d/2−1.

    Raises:
        InvalidArgument: the width is odd or too small, or the base is invalid.
    """
    check_dim_and_base(rotary_dim, base)
    return falling(base, range(0, rotary_dim, 2), rotary_dim)


def powers_float32(rotary_dim: int, base: float, pairs: int | None = None) -> Float[Tensor, " pairs"]:
    """Return base^(2i/d) in float32 for all pairs, or the first ``pairs`` pairs. Every float32 computation of
    frequencies starts with these powers.

    The last bit of a power depends on the length of the vector in which it is computed, because torch uses
    different instructions for the elements that fill SIMD registers and for the elements that are left over. To
    reproduce the bits of code that computes only n pairs, pass ``pairs=n``.
    """
    stop = rotary_dim if pairs is None else 2 * pairs
    exponents = torch.arange(0, stop, 2, dtype=torch.int64, device="cpu").to(torch.float32) / rotary_dim
    return base**exponents


def unscaled_float32(rotary_dim: int, base: float) -> Float[Tensor, " pairs"]:
    """Return the unscaled frequencies in float32. The operations and their order are those with which public
    checkpoints were trained.
    """
    return 1.0 / powers_float32(rotary_dim, base)


def rounded(frequencies: tuple[Decimal, ...]) -> tuple[float, ...]:
    """Round exact frequencies to float32, for scalings whose float32 bits do not have to match other code."""
    return tuple(torch.tensor([float(f) for f in frequencies], dtype=torch.float32, device="cpu").tolist())
