"""The clock against 200-bit arithmetic."""

import mpmath
import pytest
import torch

from posenc.clock import Clock, cos_sin_float32, phase
from posenc.schedules import Default

POSITIONS = [0, 1, 10**3, 10**6, 10**7, 2**31 - 1]


def exact(base: float, pairs: int, position: int) -> tuple[list[mpmath.mpf], list[mpmath.mpf]]:
    with mpmath.workprec(200):
        angles = [position * mpmath.mpf(base) ** (-mpmath.mpf(i) / pairs) for i in range(pairs)]
        return [mpmath.cos(a) for a in angles], [mpmath.sin(a) for a in angles]


def error(got: torch.Tensor, want: list[mpmath.mpf]) -> float:
    return max(float(abs(mpmath.mpf(g) - w)) for g, w in zip(got.tolist(), want, strict=True))


@pytest.mark.parametrize("base", [1e4, 5e5, 1e6])
@pytest.mark.parametrize("position", POSITIONS)
def test_error_of_cos_and_sin_at_any_position(base: float, position: int) -> None:
    clock = Clock(Default().spectrum(128, base))
    at = torch.tensor([position])
    cos, sin = exact(base, 64, position)
    for dtype, bound in ((torch.float32, 3e-8), (torch.float64, 4e-10)):
        got = clock(at, dtype)
        assert max(error(got[0][0], cos), error(got[1][0], sin)) <= bound
    in_float32 = cos_sin_float32(phase(at, clock.turns))
    assert max(error(in_float32[0][0], cos), error(in_float32[1][0], sin)) <= 2e-7
