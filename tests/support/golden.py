"""Computes numbers of encodings from the papers' formulas with 200 bits for ``make.py``, without posenc."""

import mpmath
from mpmath import mpf

DISTANCES = (0, 1, 7, 100, 1024, 65_537)
GATES = (0.9, 0.5, 0.99, 0.75, 0.6)
QUERY = (0.5, -1.25, 2.0, 0.75)
KEY = (-0.5, 1.5, 0.25, 1.0)
BUCKETS = ((32, 128, True), (32, 128, False), (64, 128, False), (320, 800, True))
DEBERTA = ((256, 512), (32, 100))
ROWS = ((10, 5), (511, 511), (2000, 1000))
"""Positions of queries, and distances to their keys, on both sides of FIRE's threshold 512."""
OFFSETS = (-100, -3, -1, 0, 1, 5)
TABLE = ((1.0, 0.5, -0.5, 0.25), (0.75, -1.0, 2.0, 0.5), (-0.25, 0.5, 1.5, -2.0))
LATE = 1_048_575
"""A position past Inkling's floor of 128 000."""

EVEN = mpf(10) ** -40
"""The tolerance for the last bits of a logarithm whose exact value is a whole number of steps."""


def softplus(x: mpf) -> mpf:
    return mpmath.log1p(mpmath.exp(x))


def t5() -> list[dict[str, object]]:
    """Compute the first distance of every logarithmic bucket: the least n with ln(n/e)/ln(M/e)·(N − e) ≥ j."""
    made = []
    for buckets, furthest, two_sided in BUCKETS:
        side = buckets // 2 if two_sided else buckets
        exact = side // 2
        firsts: list[int] = []
        n = exact
        for j in range(1, side - exact):
            least = j * mpmath.log(mpf(furthest) / exact) / (side - exact) - EVEN
            while mpmath.log(mpf(n) / exact) < least:
                n += 1
            firsts.append(n)
        made.append({"buckets": buckets, "max_distance": furthest, "two_sided": two_sided, "firsts": firsts})
    return made


def kerple() -> dict[str, list[float]]:
    """−r₁·ln(1 + r₂·n) with r₁ = 3/2 and r₂ = 1/2, and −a·n^p with a = p = 1/2."""
    return {
        "log": [float(-mpf(1.5) * mpmath.log(1 + mpf(0.5) * n)) for n in DISTANCES],
        "power": [float(-mpf(0.5) * mpmath.sqrt(n)) for n in DISTANCES],
    }


def sandwich() -> list[float]:
    """Σ_{i=1…32} cos(n/10000^{2i/64}) − 32, for the last head of eight, whose divisor is 8."""
    return [
        float((sum(mpmath.cos(n / mpf(10_000) ** (mpf(2 * i) / 64)) for i in range(1, 33)) - 32) / 8)
        for n in DISTANCES
    ]


def fox() -> list[float]:
    """Sums of ln f from after each key to the last query."""
    return [float(sum(mpmath.log(mpf(f)) for f in GATES[j + 1 :])) for j in range(len(GATES))]


def pope() -> list[float]:
    """Σ softplus(q)·softplus(k)·cos(n·10000^{−c/4}): four channels, δ of zero, not yet divided by √4."""
    return [
        float(
            sum(
                softplus(mpf(q)) * softplus(mpf(k)) * mpmath.cos(n * mpf(10_000) ** (-mpf(c) / 4))
                for c, (q, k) in enumerate(zip(QUERY, KEY, strict=True))
            )
        )
        for n in DISTANCES
    ]


def xpos() -> list[float]:
    """Σ ζ^{n/512}·Re(q·k̄·e^{inθ}) over two pairs of neighbours, ζ_i = (2i/D + 2/5)/(7/5)."""
    made = []
    for n in DISTANCES:
        total = mpf(0)
        for i in range(2):
            a, b, c, d = QUERY[2 * i], QUERY[2 * i + 1], KEY[2 * i], KEY[2 * i + 1]
            angle = n * mpf(10_000) ** (-mpf(i) / 2)
            fades = ((mpf(2 * i) / 4 + mpf(2) / 5) / (mpf(7) / 5)) ** (mpf(n) / 512)
            total += fades * ((a * c + b * d) * mpmath.cos(angle) + (a * d - b * c) * mpmath.sin(angle))
        made.append(float(total))
    return made


def cope() -> list[float]:
    """Five keys with score 1/3, and products of a query with rows of 0, 10, 20, 30; gates sum from the end."""
    gate = 1 / (1 + mpmath.exp(-mpf(1) / 3))
    return [float(10 * min(gate * (5 - j), mpf(3))) for j in range(5)]


def deberta() -> list[dict[str, object]]:
    """Buckets of distances behind the query: m + ⌈ln(n/m)/ln((M − 1)/m)·(m − 1)⌉ past m."""
    made = []
    for buckets, furthest in DEBERTA:
        middle, found = buckets // 2, []
        for n in DISTANCES:
            size = mpf(n)
            if n > middle:
                steps = mpmath.log(size / middle) / mpmath.log(mpf(furthest - 1) / middle) * (middle - 1)
                size = middle + mpmath.ceil(steps - EVEN)
            found.append(min(int(size) + buckets, 2 * buckets - 1))
        made.append({"buckets": buckets, "max_distance": furthest, "rows": found})
    return made


def fire() -> list[float]:
    """The network's input, ln(n/10 + 1)/(ln(max(p, 512)/10 + 1) + 10⁻⁶)."""
    tenth, least = mpf(1) / 10, mpf(10) ** -6
    return [float(mpmath.log(n * tenth + 1) / (mpmath.log(max(p, 512) * tenth + 1) + least)) for p, n in ROWS]


def shaw() -> list[float]:
    """q·A[offset] with a table of the offsets −1, 0 and 1."""
    rows = (TABLE[max(-1, min(offset, 1)) + 1] for offset in OFFSETS)
    return [float(sum(mpf(q) * mpf(a) for q, a in zip(QUERY, row, strict=True))) for row in rows]


def inkling() -> list[float]:
    """(1 + ln((p + 1)/128000)/10)·r·P[:, n] at four distances and one beyond the extent, where r = W x."""
    said = [sum(mpf(w) * mpf(x) for w, x in zip(row, QUERY, strict=True)) for row in TABLE[:2]]
    grown = 1 + mpmath.log(mpf(LATE + 1) / 128_000) / 10
    curves = [[mpf(1) / (n + 1), mpf(n) / 2] for n in range(4)]
    return [float(grown * sum(r * p for r, p in zip(said, curve, strict=True))) for curve in curves] + [0.0]


def transformer_xl() -> list[float]:
    """u·k + (q + v)·W s(n) with two channels; s has sines and cosines of n and n/100; u and v are rows of TABLE."""
    q, k, (u, v) = QUERY[:2], KEY[:2], (TABLE[0][:2], TABLE[1][:2])
    made = []
    for n in DISTANCES:
        s = [wave(n * rate) for rate in (mpf(1), mpf(1) / 100) for wave in (mpmath.sin, mpmath.cos)]
        moved = [sum(mpf(w) * x for w, x in zip(row, s, strict=True)) for row in TABLE[1:]]
        of_keys = sum(mpf(a) * mpf(b) for a, b in zip(u, k, strict=True))
        made.append(float(of_keys + sum((mpf(a) + mpf(b)) * c for a, b, c in zip(q, v, moved, strict=True))))
    return made


def query_scales() -> dict[str, float]:
    """Factors at position 10⁶: Llama 4 and Ministral 3 with floor 8192, and Beam with floor 2048; amount 1/10."""
    p = mpf(10**6)
    return {
        "llama4": float(1 + mpmath.log(1 + mpmath.floor((p + 1) / 8192)) / 10),
        "ministral3": float(1 + mpmath.log(1 + mpmath.floor(p / 8192)) / 10),
        "beam": float((1 + (p + 1) / 2048) ** (mpf(1) / 10)),
    }


def numbers() -> dict[str, object]:
    return {
        "t5": t5(),
        "kerple": kerple(),
        "sandwich": sandwich(),
        "fox": fox(),
        "pope": pope(),
        "xpos": xpos(),
        "cope": cope(),
        "deberta": deberta(),
        "fire": fire(),
        "shaw": shaw(),
        "inkling": inkling(),
        "transformer_xl": transformer_xl(),
        "query_scales": query_scales(),
    }
