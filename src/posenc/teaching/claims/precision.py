"""Claims about rounding: the range in which 16- and 32-bit positions and angles are reliable."""

import torch

import posenc
from posenc.clock import Clock, Phases
from posenc.scaling import Default
from posenc.teaching.claims.claim import Evidence, Verdict, above, below, claim, refusal, same

OURS = "direct calculation; Wang et al. 2024 (arXiv 2411.13476)"


def error(positions: torch.Tensor, phases: Phases) -> float:
    """Return the largest error of cos and sin for d=128 with these ``phases``, ``"exact"`` or ``"float32"``. The
    reference values are computed in float64 from exact phases.
    """
    spectrum = Default().frequencies(128, 1e4)
    got, exact = Clock(spectrum, phases)(positions), Clock(spectrum)(positions, torch.float64)
    return max(float((a.double() - b).abs().max()) for a, b in zip(got, exact, strict=True))


@claim(
    statement="float32 is exact enough for a table of positions.",
    precise="Angles lose digits as positions grow: with 128 channels and base 10 000, cos and sin are off by up to "
    "4e-4 at 5000, 7e-3 at 100 000 and 6e-2 at a million. posenc stores phases as 64-bit integers, so its cos "
    "and sin are correct to float32's last digit at any position below 2^31.",
    verdict=Verdict.WHEN,
    source=OURS,
)
def float32_tables() -> Evidence:
    def last(limit: int) -> torch.Tensor:
        return torch.arange(limit // 2, limit, max(1, limit // 8000))

    return (
        above("error of float32 angles at 5000", error(last(5000), "float32"), 1e-4),
        above("error of float32 angles at 100 000", error(last(100_000), "float32"), 1e-3),
        above("error of float32 angles at 1 000 000", error(last(1_000_000), "float32"), 1e-2),
        # Half a unit of float32 at 1 is 3.0e-8.
        below("error of exact phases at 1 000 000", error(last(1_000_000), "exact"), 3.0e-8),
        below("error of exact phases below 2³¹", error(last(2**31), "exact"), 3.0e-8),
    )


@claim(
    statement="Positions can be stored in the model's dtype.",
    precise="The first 4096 positions have only 769 distinct values in bfloat16 and 3073 in float16, so "
    "neighbours become equal. posenc refuses float positions.",
    verdict=Verdict.FAILS,
    source=OURS,
)
def positions_in_16_bits() -> Evidence:
    at = torch.arange(4096)
    message = refusal(posenc.Rotary(8, pairing="half").at, at.to(torch.bfloat16))
    return (
        same("distinct positions in bfloat16", len(at.to(torch.bfloat16).unique()), 769),
        same("distinct positions in float16", len(at.to(torch.float16).unique()), 3073),
        same("bfloat16 positions are refused", "positions must be exact integers" in message, True),
    )


@claim(
    statement="Casting a model to bfloat16 leaves its rotary frequencies unchanged.",
    precise="The cast rounds a float buffer of frequencies, so cos is off by 0.1 at position 100 and by 0.9 at "
    "1000. Frequencies stored as integers survive any cast.",
    verdict=Verdict.FAILS,
    source=OURS,
)
def casting_a_module() -> Evidence:
    at = torch.tensor([100, 1000, 4095])
    rotary = posenc.Rotary(128, pairing="half")
    before = rotary.tables(at)[0]
    after = rotary.to(torch.bfloat16).tables(at)[0]
    rounded = torch.tensor(Default().frequencies(128, 1e4).float32).to(torch.bfloat16).double()
    off = ((at[:, None] * rounded).cos() - before.double()).abs().amax(-1)
    return (
        same("tables are bit-identical after .to(bfloat16)", torch.equal(before, after), True),
        above("error of a rounded buffer at position 100", float(off[0]), 0.05),
        above("error of a rounded buffer at position 1000", float(off[1]), 0.5),
    )
