"""Exact frequencies against 200-bit arithmetic, and the numbers that the formulas are known by."""

from collections.abc import Callable

import mpmath
import pytest

from posenc.scaling import (
    NTK,
    Default,
    Linear,
    Llama3,
    PerPair,
    Proportional,
    Scaling,
    YaRN,
)

D, BASE = 64, 10_000.0
Pair = Callable[[int], mpmath.mpf]


def plain(i: int, base: float | mpmath.mpf = BASE) -> mpmath.mpf:
    return mpmath.mpf(base) ** (-mpmath.mpf(2 * i) / D)


def turns(i: int, length: int) -> mpmath.mpf:
    return length * plain(i) / (2 * mpmath.pi)


def blend(i: int, keep: mpmath.mpf, factor: int) -> mpmath.mpf:
    keep = min(max(keep, mpmath.mpf(0)), mpmath.mpf(1))
    return (1 - keep) * plain(i) / factor + keep * plain(i)


GOLDEN: list[tuple[Scaling, Pair]] = [
    (Default(), plain),
    (Linear(8), lambda i: plain(i) / 8),
    (NTK(8), lambda i: plain(i, BASE * mpmath.mpf(8) ** (mpmath.mpf(D) / (D - 2)))),
    (NTK(8, form="fixed"), lambda i: plain(i, BASE * 8) / mpmath.mpf(8) ** (mpmath.mpf(2) / D)),
    (NTK(8, form="abf"), lambda i: plain(i, BASE * 50)),
    (NTK(64, form="abf"), lambda i: plain(i, BASE * 2500)),
    (YaRN(8, 4096), lambda i: blend(i, 1 - mpmath.mpf(i - 10) / (23 - 10), 8)),
    (YaRN(8, 4096, ramp="rotations"), lambda i: blend(i, (turns(i, 4096) - 1) / 31, 8)),
    (PerPair(tuple(1 + i / 4 for i in range(D // 2))), lambda i: plain(i) / (1 + mpmath.mpf(i) / 4)),
    (Llama3(), lambda i: blend(i, (turns(i, 8192) - 1) / 3, 8)),
    (Proportional(0.25, 2), lambda i: plain(i) / 2 if i < 8 else mpmath.mpf(0)),
]


@pytest.mark.parametrize(("scaling", "formula"), GOLDEN, ids=lambda v: type(v).__name__)
def test_exact_to_forty_digits(scaling: Scaling, formula: Pair) -> None:
    with mpmath.workprec(200):
        for i, frequency in enumerate(scaling.frequencies(D, BASE).exact):
            want = formula(i)
            assert abs(mpmath.mpf(str(frequency)) - want) <= want * mpmath.mpf(10) ** -40


def test_known_bases_and_ends() -> None:
    """The papers' examples: b' = 82 684.6 under NTK, and the pairs between which YaRN blends."""
    assert round(NTK(8).base(128, 1e4), 1) == 82_684.6
    assert YaRN(16, 4096).ends(128, 1e4) == (20, 46)
    assert YaRN(16, 4096, truncate=False).ends(128, 1e4) == pytest.approx((20.94, 45.03), abs=0.01)


def test_yarn_clamps_high_to_the_last_channel_not_the_last_pair() -> None:
    """The authors' code clamps a pair index to d−1; with d/2−1 the slowest pair would be fully interpolated."""
    assert YaRN(4, 8192).ends(16, 1e2) == (6, 13)
