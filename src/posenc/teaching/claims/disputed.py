"""Claims in which lessons contradict each other, settled by training; the sentences are made of kept numbers.

With ``--slow`` the whole grid is trained anew, about 40 minutes of a core, and the signs must come out again.
"""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from posenc.teaching.claims.claim import Evidence, Verdict, above, below, claim
from posenc.teaching.claims.verdicts import Losses, differences_over_seeds, measure, stored

MATTERS = 0.01
"""Nats a byte that a difference must have at least, at the near end of its interval."""


@cache
def anew() -> Losses:
    """The grid trained now, once for all claims."""
    from posenc.workbench.tasks.text import load

    with TemporaryDirectory() as folder:
        return measure(load(), Path(folder))


SENTENCES: dict[str, str] = stored()["sentences"]
"""The precise sentences, as the kept numbers make them."""
SOURCE = "measured here, intervals of 95% over five seeds: two layers of 64 channels, 600 steps of 2048 bytes"
"""Where the sentences come from."""


@claim(
    statement="RoPE extrapolates better than sinusoidal and learned positions.",
    precise=SENTENCES["rope-extrapolates-better"],
    verdict=Verdict.FAILS,
    source=SOURCE,
    slow=True,
)
def rope_extrapolates_better() -> Evidence:
    by = differences_over_seeds(anew())
    return (
        above("RoPE lost − sinusoidal lost, lower end", by["RoPE lost − sinusoidal lost"].low, MATTERS),
        above("RoPE lost − learned lost, lower end", by["RoPE lost − learned lost"].low, MATTERS),
        below("ALiBi lost, upper end", by["ALiBi lost"].high, 0.05),
    )


@claim(
    statement="Inside the trained range learned positions are slightly better than sinusoidal ones.",
    precise=SENTENCES["learned-inside-its-range"],
    verdict=Verdict.FAILS,
    source=f"{SOURCE}; Vaswani et al. 2017, table 3, row E",
    slow=True,
)
def learned_inside_its_range() -> Evidence:
    return (
        above(
            "learned − sinusoidal, lower end",
            differences_over_seeds(anew())["learned − sinusoidal, inside"].low,
            MATTERS,
        ),
    )


@claim(
    statement="ALiBi trained at one length does as well at twice that length as a sinusoidal model trained there.",
    precise=SENTENCES["trained-short-tested-long"],
    verdict=Verdict.HOLDS,
    source=f"{SOURCE}; Press et al. 2022, section 4",
    slow=True,
)
def trained_short_tested_long() -> Evidence:
    by = differences_over_seeds(anew())
    return (
        above("sinusoidal at 256 − ALiBi, lower end", by["sinusoidal trained long − ALiBi"].low, MATTERS),
        above("sinusoidal at 128 − ALiBi, lower end", by["sinusoidal trained short − ALiBi"].low, MATTERS),
    )
