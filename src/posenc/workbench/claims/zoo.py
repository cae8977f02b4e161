"""Claims about what all encodings side by side have shown; each trains small models, and runs with --slow only."""

from functools import cache

from posenc.workbench.claims.claim import Evidence, Verdict, above, below, claim
from posenc.workbench.experiments.plan import Plan
from posenc.workbench.experiments.training import teach
from posenc.workbench.tasks.text import load

SEEDS = (0, 1, 2)


@cache
def right(encoding: str) -> tuple[float, ...]:
    """Shares of right answers about order at eight times the trained length, one for every seed."""
    found = []
    for seed in SEEDS:
        plan = Plan(
            encoding=encoding,
            task="ordering",
            seed=seed,
            steps=300,
            batch=64,
            learning_rate=3e-3,
            train_length=16,
            lengths=(16, 128),
            test_count=128,
        )
        found.append(next(c.value for c in teach(plan, load()).cells if c.length == 128))
    return tuple(found)


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
