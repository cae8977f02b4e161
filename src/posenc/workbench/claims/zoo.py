"""Claims about what all encodings side by side have shown; each trains small models, and runs with --slow only."""

from dataclasses import replace
from functools import cache

from posenc.workbench.claims.claim import Evidence, Verdict, above, below, claim
from posenc.workbench.experiments.presets import preset
from posenc.workbench.experiments.training import teach


@cache
def right(encoding: str, study: str = "zoo", task: str = "ordering") -> tuple[float, ...]:
    """Shares of right answers at eight times the trained length, one for every seed of the study."""
    asked = replace(preset(study), encodings=(encoding,), tasks=(task,), lengths=(1.0, 8.0))
    text, found = asked.source.load(), []
    for plan in asked.plans(text):
        cells = teach(plan, text).cells
        found.append(next(c.value for c in cells if (c.length, c.measure) == (plan.lengths[-1], "accuracy")))
    return tuple(found)


def beside(encoding: str) -> tuple[float, ...]:
    """Shares of sides that cells of a grid name rightly, on grids of eight times as many cells."""
    return right(encoding, "zoo-grid", "neighbours")


@claim(
    told="Past the trained length every encoding loses order.",
    precise="FoX and KERPLE, which fade by gates and by the logarithm of the distance, judge sequences of eight "
    "times the trained length as well as short ones, with every seed; RoPE does not.",
    verdict=Verdict.FAILS,
    source="measured here: trained for 300 steps at 16 symbols, tested at 128, three seeds",
    settles=("b18",),
    slow=True,
)
def order_is_kept_by_what_fades() -> Evidence:
    return (
        above("FoX: least share of right answers", min(right("fox")), 0.95),
        above("KERPLE: least share of right answers", min(right("kerple")), 0.95),
        below("RoPE: least share of right answers", min(right("rotary")), 0.8),
    )


@claim(
    told="One seed shows which encoding keeps order past the trained length.",
    precise="RoPE's share of right answers at eight times the length differs by more than 0.3 between three seeds.",
    verdict=Verdict.FAILS,
    source="measured here: the same models as above",
    settles=("b18",),
    slow=True,
)
def one_seed_is_no_verdict() -> Evidence:
    shares = right("rotary")
    return (above("RoPE: most less least share", max(shares) - min(shares), 0.3),)
