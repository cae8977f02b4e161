"""Where one position, two, or a head of eight channels cannot tell two mistakes apart, the answer says so."""

from collections.abc import Callable

import numpy as np
import pytest

from integrations.doctor.models import Array, inverse_frequencies
from posenc.integrations.doctor import diagnose

THETA = inverse_frequencies(1e4, 4, 8)


def turned(x: Array, at: Array, theta: Array = THETA, sign: float = 1.0, neighbours: bool = False) -> Array:
    """A head of eight channels, pairs (i, i + 4) or (2i, 2i + 1)."""
    cos, sin = np.cos(at[:, None] * theta), sign * np.sin(at[:, None] * theta)
    a, b = (x[:, ::2], x[:, 1::2]) if neighbours else (x[:, :4], x[:, 4:])
    both = (a * cos - b * sin, b * cos + a * sin)
    return np.stack(both, -1).reshape(x.shape) if neighbours else np.concatenate(both, -1)


MISTAKES: dict[str, Callable[[Array, Array], Array]] = {
    "channels (2i, 2i+1)": lambda x, at: turned(x, at, neighbours=True),
    "rotates backwards": lambda x, at: turned(x, at, sign=-1),
    "base is 1000000": lambda x, at: turned(x, at, inverse_frequencies(1e6, 4, 8)),
    "divided by 16 instead of 8": lambda x, at: turned(x, at, inverse_frequencies(1e4, 4, 16)),
    "reverse order": lambda x, at: turned(x, at, THETA[::-1]),
    "off by +1": lambda x, at: turned(x, at + 1),
    "off by -1": lambda x, at: turned(x, at - 1),
    "multiplied by 2": lambda x, at: turned(x, 2 * at),
    "linear(factor=2)": lambda x, at: turned(x, at / 2),
    "does not rotate": lambda x, at: x,
    "clamped at 4,095": lambda x, at: turned(x, np.minimum(at, 4095)),
    "restart every 4,096": lambda x, at: turned(x, at % 4096),
    "rows 0, 1, 2": lambda x, at: turned(x, np.arange(len(at))),
}
"""Ports by the words that name their mistake."""


@pytest.mark.parametrize("at", [[0], [1], [2], [4096], [0, 1], [0, 4096], [1, 2], [4096, 8192]], ids=str)
def test_mistakes_that_give_the_same_numbers_are_all_named(at: list[int]) -> None:
    positions, x = np.array(at), np.random.default_rng(0).standard_normal((len(at), 8))
    numbers = {name: port(x, positions) for name, port in MISTAKES.items()}
    right = turned(x, positions)
    for name, rotated in numbers.items():
        answer = diagnose("rotary(base=10000, pairing=half)", {"positions": positions, "x": x, "rotated": rotated})
        same = [other for other, values in numbers.items() if np.abs(values - rotated).max() < 1e-9]
        text = str(answer)
        if np.abs(right - rotated).max() < 1e-9:
            assert answer.right, text
            assert "do not show here" in text or positions.any(), text
        elif len(same) > 1:
            assert "fit several mistakes" in text, text
        else:
            assert not answer.right
            assert name in text or "or others" in text, text
        if "fit several mistakes" in text or "do not show here" in text:
            assert "Pass positions 0, 1, 2" in text, text
            assert all(other in text for other in same) or "or others" in text or answer.right, (same, text)
