"""Claims about sinusoidal encodings: wavelengths, rotation, and how dot products depend on distance."""

import math
from decimal import Decimal
from itertools import pairwise

import torch

import posenc
from posenc.teaching.claims.claim import Evidence, Verdict, above, below, claim, near, refusal, same
from posenc.teaching.claims.order import VASWANI
from posenc.teaching.views.sinusoidal import falloff, rotation_matrix, table, wavelength_by_pair


@claim(
    statement="The longest wavelength is 2π·10 000 = 62 832.",
    precise="The longest wavelength is 2π·10000^((d−2)/d), or 60 611 at d=512. In the authors' code, it is 62 832.",
    verdict=Verdict.FAILS,
    source=VASWANI,
)
def slowest_wavelength() -> Evidence:
    code = posenc.Sinusoidal(512, spacing="tensor2tensor").clock.frequencies.exact[-1]
    by_width = [(512, 60611.477), (128, 54410.143), (64, 47117.243), (8, 6283.185), (4, 628.319)]
    return (
        *(near(f"d={width}", wavelength_by_pair(width)[-1], expected, 1e-3) for width, expected in by_width),
        near("authors' code, d=512", 2 * math.pi / float(code), 62831.853, 1e-3),
    )


@claim(
    statement="The fastest pair makes one turn per position.",
    precise="The pair turns 1 radian per position, so one turn takes 6.28 positions.",
    verdict=Verdict.FAILS,
    source=VASWANI,
)
def fastest_pair() -> Evidence:
    return (near("positions per turn", wavelength_by_pair(512)[0], 2 * math.pi, 1e-9),)


@claim(
    statement="Frequencies span 2π to 10 000·2π, one for each dimension i.",
    precise="2π to 10 000·2π are wavelengths; frequencies span 1 to about 1/10000, and i counts pairs, not "
    "dimensions.",
    verdict=Verdict.FAILS,
    source=VASWANI,
)
def frequencies_are_not_wavelengths() -> Evidence:
    frequencies = [float(f) for f in posenc.scaling.Default().frequencies(512, 1e4).exact]
    ratios = [b / a for a, b in pairwise(frequencies)]
    return (
        same("frequencies at d=512", len(frequencies), 256),
        near("largest frequency (radians per position)", max(frequencies), 1.0, 1e-12),
        near("smallest frequency", min(frequencies), 1.0366e-4, 1e-8),
        below("spread of the ratios of neighbours", max(ratios) - min(ratios), 1e-12),
    )


@claim(
    statement="PE(0) is all zeros.",
    precise="PE(0) is 0, 1, 0, 1, …: its sines are 0 and its cosines are 1.",
    verdict=Verdict.FAILS,
    source=VASWANI,
)
def first_rows() -> Evidence:
    zero, one = table(8, [0, 1])
    wanted = torch.tensor([0.84, 0.54, 0.10, 1.00, 0.01, 1.00, 0.00, 1.00], dtype=torch.float64)
    cat = torch.tensor([0.32, -0.71, 0.55, 0.18], dtype=torch.float64)
    placed = posenc.Sinusoidal(4).at(torch.tensor([0])).embed(cat.view(1, 1, 4)).flatten()
    return (
        same("PE(0) is 0, 1, 0, 1 …", zero.tolist() == [0.0, 1.0] * 4, True),
        below("error of PE(1) in two digits", float((one - wanted).abs().max()), 5e-3),
        near("second channel of cat + PE(0)", float(placed[1]), 0.29, 1e-12),
        near("fourth channel of cat + PE(0)", float(placed[3]), 1.18, 1e-12),
    )


@claim(
    statement="Each dimension has its own speed.",
    precise="Dimensions 2i and 2i+1, counted from 0, are the sine and cosine of one frequency.",
    verdict=Verdict.FAILS,
    source=VASWANI,
)
def pairs_share_a_frequency() -> Evidence:
    code = table(16, range(500))
    radius = code.view(500, 8, 2).square().sum(-1)
    return (
        same("columns at d=16", code.shape[1], 16),
        # Only sine and cosine of one angle lie on the unit circle at every position.
        below("largest distance of a pair from the unit circle", float((radius - 1).abs().max()), 1e-12),
    )


@claim(
    statement="PE(p+k) is a fixed linear map of PE(p).",
    precise="The map is block-diagonal with blocks [[cos kθ, sin kθ], [−sin kθ, cos kθ]]: a rotation, the same "
    "for all p.",
    verdict=Verdict.HOLDS,
    source=VASWANI,
)
def shift_is_a_rotation() -> Evidence:
    at, rotation = [0, 1, 7, 50_000], rotation_matrix(64, 5)
    errors = {
        by: table(64, at) @ rotation_matrix(64, by).T - table(64, [p + by for p in at]) for by in (1, 5, 1000)
    }
    return (
        *(below(f"error of R({by})", float(error.abs().max()), 1e-12) for by, error in errors.items()),
        below("R·Rᵀ − 1", float((rotation @ rotation.T - torch.eye(64)).abs().max()), 1e-12),
    )


@claim(
    statement="The geometric spacing of frequencies is what makes a shift linear.",
    precise="With any frequencies, a shift is a rotation. Geometric spacing provides different scales; with only "
    "one frequency, positions collide.",
    verdict=Verdict.FAILS,
    source="direct calculation",
)
def any_spacing_rotates() -> Evidence:
    def code(frequencies: list[str], positions: list[int]) -> torch.Tensor:
        exact = tuple(Decimal(f) for f in frequencies)
        spectrum = posenc.scaling.Frequencies(exact, tuple(float(f) for f in exact))
        return torch.view_as_complex(
            torch.stack(posenc.Clock(spectrum)(torch.tensor(positions), torch.float64), -1).contiguous()
        )

    odd = ["0.9123", "0.7001", "0.0313", "0.2718"]
    error = code(odd, [0, 3, 999]) * code(odd, [12]) - code(odd, [12, 15, 1011])
    collide, apart = code(["1"] * 4, [0, 710]).diff(dim=0), table(8, [0, 710]).diff(dim=0)
    return (
        below("error of the rotation", float(error.abs().max()), 1e-12),
        # 710 is 113 · 2π to within 6e-5, so if all frequencies are 1, both have the same encoding.
        below("equal frequencies: PE(0) − PE(710)", float(collide.abs().max()), 1e-4),
        above("geometric frequencies: PE(0) − PE(710)", float(apart.abs().max()), 0.5),
    )


@claim(
    statement="The product-to-sum formula shows that PE(p+k) is linear in PE(p).",
    precise="The angle-sum formulas show linearity. The product-to-sum formula gives the dot product: PE(p)·PE(q) "
    "= Σ cos(θ_i (p−q)).",
    verdict=Verdict.FAILS,
    source="trigonometry",
)
def dot_product_sees_the_difference() -> Evidence:
    frequencies = torch.tensor([float(f) for f in posenc.scaling.Default().frequencies(64, 1e4).exact])
    # The formula uses float32 frequencies: 32 terms, each with an angle error of up to 100 · 6e-8.
    errors = {
        (p, q): torch.dot(*table(64, [p, q])) - (frequencies.double() * (p - q)).cos().sum()
        for p, q in ((0, 1), (5, 6), (1000, 1100))
    }
    return tuple(near(f"PE({p})·PE({q}) − Σ cos", float(error), 0.0, 2e-4) for (p, q), error in errors.items())


@claim(
    statement="Nearer positions always have a larger dot product.",
    precise="The decrease is only a trend: its first exception is the rise from distance 3 to 4 if d is 4 or 8, "
    "from 11 to 12 if d is 128, and from 43 to 44 if d is 512.",
    verdict=Verdict.FAILS,
    source="direct calculation",
)
def nearer_is_more_alike() -> Evidence:
    four = table(4, [0, 6])
    known = [(4, 3), (8, 3), (128, 11), (512, 43)]
    return (
        *(
            same(f"first rise after, d={d}", float(falloff(d).readouts["first rise after distance"]), k)
            for d, k in known
        ),
        near("dot product at d=4, distance 6", float(four[0] @ four[1]), 1.958, 5e-4),
    )


@claim(
    statement="The encoding is unique for every position, bounded, and aware of distance.",
    precise="Every row has norm √(d/2) and entries between −1 and 1, and the dot product of two rows depends only "
    "on their distance. At d=128, no two of the first 5000 rows are closer than 1.95.",
    verdict=Verdict.HOLDS,
    source=VASWANI,
)
def unique_and_bounded() -> Evidence:
    code = table(128, range(5000))
    some = torch.arange(0, len(code), 7)
    gaps = torch.cdist(code[some], code).index_put_(
        (torch.arange(len(some)), some), torch.tensor(math.inf).double()
    )
    return (
        below("largest entry", float(code.abs().max()), 1.0),
        below("norm² − d/2", float((code.square().sum(-1) - 64).abs().max()), 1e-10),
        above("closest two rows", float(gaps.min()), 1.95),
    )


@claim(
    statement="There is no particular reason for the base 10 000.",
    precise="With base 100, every pair turns at least once in 617 positions, and the cosine of rows 617 to 5000 "
    "apart stays within ±0.1. With base 10 000, 75 of 256 pairs complete no turn in 4096 positions, and this "
    "cosine falls from 0.26 to −0.02.",
    verdict=Verdict.FAILS,
    source="direct calculation",
)
def base_buys_range() -> Evidence:
    cosines = {base: table(512, range(617, 5001), base) @ table(512, [0], base)[0] / 256 for base in (100.0, 1e4)}
    return (
        near("longest wavelength, base 100", wavelength_by_pair(512, 100.0)[-1], 617.1168, 1e-3),
        *(
            same(f"pairs without a full turn in 4096, base {base}", sum(w > 4096 for w in waves), count)
            for base, waves, count in (
                ("100", wavelength_by_pair(512, 100.0), 0),
                ("10 000", wavelength_by_pair(512), 75),
            )
        ),
        below("largest cosine of rows 617 to 5000 apart, base 100", float(cosines[100.0].abs().max()), 0.1),
        *(
            near(f"cosine of rows {distance} apart, base 10 000", float(cosines[1e4][distance - 617]), cosine, 5e-3)
            for distance, cosine in ((617, 0.26), (5000, -0.02))
        ),
    )


@claim(
    statement="PE(0)·PE(1) is similar to PE(5)·PE(6).",
    precise="The two are equal: both are 1.540252. PE(0)·PE(5) and PE(1)·PE(6) are both 1.282412.",
    verdict=Verdict.FAILS,
    source="by hand, d=4",
)
def by_hand() -> Evidence:
    code = dict(zip((0, 1, 5, 6), table(4, [0, 1, 5, 6]), strict=True))
    rows = {
        1: [0.841471, 0.540302, 0.010000, 0.999950],
        5: [-0.958924, 0.283662, 0.049979, 0.998750],
        6: [-0.279415, 0.960170, 0.059964, 0.998201],
    }
    dots = [((0, 1), 1.540252), ((5, 6), 1.540252), ((0, 5), 1.282412), ((1, 6), 1.282412)]
    off = {p: float((code[p] - torch.tensor(row, dtype=torch.float64)).abs().max()) for p, row in rows.items()}
    return (
        *(below(f"error of PE({p})", error, 5.1e-7) for p, error in off.items()),
        *(near(f"PE({a})·PE({b})", float(code[a] @ code[b]), value, 5e-7) for (a, b), value in dots),
    )


@claim(
    statement="A sinusoidal module has a maximum length of 5000.",
    precise="5000 is the size of a buffer. The formula has a value at every position, and posenc.Sinusoidal "
    "computes it on demand.",
    verdict=Verdict.FAILS,
    source=VASWANI,
)
def no_maximum_length() -> Evidence:
    encoding = posenc.Sinusoidal(8)
    far = encoding.table(torch.tensor([10_000_000]), torch.float64)[0]
    return (
        same("parameters", sum(p.numel() for p in encoding.parameters()), 0),
        near("sin(10⁷)", float(far[0]), math.sin(1e7), 1e-9),
        near("cos(10⁷)", float(far[1]), math.cos(1e7), 1e-9),
    )


@claim(
    statement="The width must be even.",
    precise="A sinusoidal encoding of odd width leaves out its last cosine, but RoPE rotates pairs and needs an "
    "even width.",
    verdict=Verdict.WHEN,
    source="docstrings of Sinusoidal and Rotary",
)
def odd_widths() -> Evidence:
    message = refusal(posenc.Rotary, 7, pairing="half")
    return (
        same("columns of an encoding of odd width", posenc.Sinusoidal(7).table(torch.arange(3)).shape[-1], 7),
        same("an odd rotary width is refused", "head_dim=7 must be even" in message, True),
    )
