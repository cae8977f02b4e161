"""Makes numbers.json with 200-bit arithmetic and nothing of posenc: ``PYTHONPATH=tests python -m golden.make``.

Run it again only when a number is added; a number that changes is a bug here or there.
"""

import json
from pathlib import Path

import mpmath
from mpmath import mpf

from support import golden

PATH = Path(__file__).with_name("numbers.json")
BASES = (10_000, 500_000, 1_000_000)
POSITIONS = (0, 1, 1000, 10**6, 10**7, 2**31 - 1)
PAIRS = (0, 1, 17, 40, 63)
VECTOR = (0.5, -1.25, 2.0, 0.75, -0.5, 1.5, -2.25, 1.0)
HEADS = (1, 2, 3, 4, 6, 8, 12, 16, 20, 32, 40, 71, 112, 128)


def theta(base: int, i: int, channels: int) -> mpf:
    return mpf(base) ** (-mpf(2 * i) / channels)


def clock() -> list[dict[str, object]]:
    """cos and sin of five of 64 hands."""
    return [
        {
            "base": base,
            "position": position,
            "cos": [float(mpmath.cos(position * theta(base, i, 128))) for i in PAIRS],
            "sin": [float(mpmath.sin(position * theta(base, i, 128))) for i in PAIRS],
        }
        for base in BASES
        for position in POSITIONS
    ]


def turns() -> dict[str, list[str]]:
    """round(θ/2π · 2^64) of the same five hands, in hexadecimal."""
    return {
        str(base): [f"{int(mpmath.nint(theta(base, i, 128) / (2 * mpmath.pi) * 2**64)):016x}" for i in PAIRS]
        for base in BASES
    }


def rotations() -> list[dict[str, object]]:
    """VECTOR at three positions in both pairings."""
    made = []
    for position in (3, 1000, 10**6):
        for pairing in ("half", "interleaved"):
            out = [mpf(0)] * 8
            for i in range(4):
                a, b = (i, i + 4) if pairing == "half" else (2 * i, 2 * i + 1)
                c, s = mpmath.cos(position * theta(10_000, i, 8)), mpmath.sin(position * theta(10_000, i, 8))
                out[a], out[b] = VECTOR[a] * c - VECTOR[b] * s, VECTOR[a] * s + VECTOR[b] * c
            made.append({"position": position, "pairing": pairing, "turned": [float(x) for x in out]})
    return made


def sinusoids() -> list[dict[str, object]]:
    """Rows of widths 7 and 8 in the paper's order, and of width 8 with the authors' spacing in blocks."""
    made = []
    for position in (1, 100, 10**6):
        for width in (7, 8):
            pairs = [(mpmath.sin, mpmath.cos)[j % 2](position * theta(10_000, j // 2, width)) for j in range(width)]
            made.append(
                {"position": position, "width": width, "spacing": "paper", "row": [float(x) for x in pairs]}
            )
        ladder = [mpf(10_000) ** (-mpf(i) / 3) for i in range(4)]
        block = [f(position * frequency) for f in (mpmath.sin, mpmath.cos) for frequency in ladder]
        made.append(
            {"position": position, "width": 8, "spacing": "tensor2tensor", "row": [float(x) for x in block]}
        )
    return made


def slopes() -> dict[str, list[float]]:
    """ALiBi's: 2^(−8h/n) for a power of two; the odd ones of twice the largest below it appended otherwise."""
    made = {}
    for heads in HEADS:
        power = 2 ** (heads.bit_length() - 1)
        exact = [mpf(2) ** (-mpf(8 * h) / power) for h in range(1, power + 1)]
        odd = [mpf(2) ** (-mpf(8 * h) / (2 * power)) for h in range(1, 2 * power, 2)]
        made[str(heads)] = [float(slope) for slope in exact + odd[: heads - power]]
    return made


def alibi_attention() -> list[float]:
    """Weights of the first of four heads: slope 1/4, query at 5, keys at 0 … 7, scores VECTOR[j]/2, two-sided."""
    scores = [mpf(VECTOR[j]) / 2 - mpf(abs(j - 5)) / 4 for j in range(8)]
    weights = [mpmath.exp(score) for score in scores]
    return [float(weight / sum(weights)) for weight in weights]


def numbers() -> dict[str, object]:
    with mpmath.workprec(200):
        return {
            "clock": clock(),
            "turns": turns(),
            "rotations": rotations(),
            "sinusoids": sinusoids(),
            "slopes": slopes(),
            "alibi_attention": alibi_attention(),
            **golden.numbers(),
        }


if __name__ == "__main__":
    PATH.write_text(json.dumps(numbers(), indent=1) + "\n")
