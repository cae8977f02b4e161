"""Numbers wherever they are read: signs, thin spaces, powers of ten, fractions."""

import math
from collections.abc import Callable

import pytest

from posenc.pictures.numbers import count, fixed, fraction, plain, readout, short, signed

WRITTEN: dict[Callable[[float], str], dict[float | str, str]] = {
    fixed: {
        -1.1: "−1.100",
        1.7: "1.700",
        -0.00001: "−1.0 × 10⁻⁵",
        2.384e-7: "2.4 × 10⁻⁷",
        60611.477: "60\u202f611.477",
        0.0: "0.000",
        math.nan: "–",
        -math.inf: "−∞",
    },
    short: {0: "0", 1000: "1000", 12000: "12\u202f000", 1e6: "10⁶", 0.25: "0.25", 1e-9: "10⁻⁹", -2: "−2"},
    readout: {0.00390625: "0.00391", -1.1: "−1.100", 0.5: "0.500", 2.4e-7: "2.4 × 10⁻⁷", 11: "11", "8": "8"},
    signed: {-0.0001: "0.000", 0.0001: "0.000", 0.25: "+0.250", -1234.5: "−1234.500"},
    fraction: {1.0: "1/1", 0.5: "1/2", 1 / 256: "1/256", 2**-0.5: "1/1.41", 2**-12: "1/4096"},
    count: {0: "0", 1000: "1000", 1234567: "1\u202f234\u202f567", -12000: "−12\u202f000"},
}


@pytest.mark.parametrize("function", WRITTEN, ids=lambda function: function.__name__)
def test_numbers_are_written(function: Callable[[float], str]) -> None:
    assert {value: function(value) for value in WRITTEN[function]} == WRITTEN[function]


def test_nothing_is_written_with_a_sign() -> None:
    assert [plain(v, 2) for v in (-0.004, 0.004, -0.0, -0.006)] == ["0.00", "0.00", "0.00", "−0.01"]
    assert fixed(-0.0) == "0.000"
