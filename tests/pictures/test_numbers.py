"""Numbers wherever they are read: signs, thin spaces, powers of ten, fractions."""

import math

import pytest

from posenc.pictures.numbers import count, fixed, fraction, plain, readout, short, signed


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-1.1, "−1.100"),
        (1.7, "1.700"),
        (-0.00001, "−1.0 × 10⁻⁵"),
        (2.384e-7, "2.4 × 10⁻⁷"),
        (60611.477, "60\u202f611.477"),
        (0.0, "0.000"),
        (-0.0, "0.000"),
        (math.nan, "–"),
        (-math.inf, "−∞"),
    ],
)
def test_fixed(value: float, text: str) -> None:
    assert fixed(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1000, "1000"), (12000, "12\u202f000"), (1e6, "10⁶"), (0.25, "0.25"), (1e-9, "10⁻⁹"), (-2, "−2")],
)
def test_short(value: float, text: str) -> None:
    assert short(value) == text


def test_readouts_keep_three_digits_of_what_is_small() -> None:
    assert [readout(v) for v in (0.00390625, -1.1, 0.5, 2.4e-7, 11, "8")] == [
        "0.00391",
        "−1.100",
        "0.500",
        "2.4 × 10⁻⁷",
        "11",
        "8",
    ]


def test_nothing_is_written_with_a_sign() -> None:
    assert [plain(v, 2) for v in (-0.004, 0.004, -0.0, -0.006)] == ["0.00", "0.00", "0.00", "−0.01"]
    assert [signed(v) for v in (-0.0001, 0.0001, 0.25, -1234.5)] == ["0.000", "0.000", "+0.250", "−1234.500"]


def test_slopes_are_fractions_and_whole_numbers_have_thin_spaces() -> None:
    assert [fraction(v) for v in (1.0, 0.5, 1 / 256, 2**-0.5, 2**-12)] == [
        "1/1",
        "1/2",
        "1/256",
        "1/1.41",
        "1/4096",
    ]
    assert [count(v) for v in (0, 1000, 1234567, -12000)] == [
        "0",
        "1000",
        "1\u202f234\u202f567",
        "−12\u202f000",
    ]
