"""Claims on which the lessons in ``lessons.toml`` contradict each other. The verdicts come from models trained on
2026-11-23.

The precise statements contain the measured results. ``posenc verify --slow`` trains the models again, which
takes about 40 minutes on one core. A verdict stands if the losses of the retrained models differ significantly
from each other, in the direction that the precise statement gives.
"""

from dataclasses import replace
from functools import cache

import torch
from torch import Tensor

from posenc.teaching.claims import training
from posenc.teaching.claims.claim import Evidence, Verdict, above, below, claim
from posenc.workbench.run.training import train_and_test
from posenc.workbench.study.statistics import Interval, over_seeds
from posenc.workbench.tasks.text import load

SEEDS = range(5)
AT, LONG, FAR = 128, 256, 1024
"""Window lengths in bytes: in training, in the training of the long baseline, and in the longest test."""
PLAN = replace(training.PLAN, steps=600, lengths=(AT, LONG, FAR), test_count=64)
MATTERS = 0.01
"""The smallest difference that counts, in nats per byte. A difference counts if its whole interval is above this
number.
"""
SOURCE = "measured here: two layers, 600 steps, 95% intervals over five seeds"
"""The source of the precise statements."""


@cache
def losses(encoding: str, trained: int = AT) -> dict[int, Tensor]:
    """Return losses in nats per byte by test length, one per seed; all models are trained on the same number of
    bytes."""
    plan = replace(PLAN, encoding=encoding, train_length=trained, batch=PLAN.batch * AT // trained)
    runs = [train_and_test(replace(plan, seed=seed), load())[1] for seed in SEEDS]
    return {
        n: torch.tensor(
            [c.value for run in runs for c in run.cells if (c.measure, c.length) == ("loss", n)],
            dtype=torch.float64,
        )
        for n in PLAN.lengths
    }


def lost(encoding: str) -> Tensor:
    """Return the increase of the loss from the trained to the longest length, in nats per byte, for each seed."""
    return losses(encoding)[FAR] - losses(encoding)[AT]


def apart(ours: Tensor, theirs: Tensor) -> Interval:
    """Return the mean of ours − theirs over the seeds, with its confidence interval. With the same seed, all
    encodings are trained on the same batches.
    """
    return over_seeds((ours - theirs).tolist())


@claim(
    statement="RoPE extrapolates better than sinusoidal and learned encodings.",
    precise="From the trained 128 bytes to 1024, loss in nats per byte rises by 2.14 with RoPE, 1.45 with "
    "sinusoidal encodings, 0.20 with a table that repeats its last row, and 0.00 with ALiBi. The rise with RoPE "
    "is 0.70 (0.49 … 0.91) larger than with sinusoidal encodings and 1.95 (1.81 … 2.08) larger than with the "
    "table. Of RoPE, sinusoidal encodings and the table, RoPE has the lowest loss at 128 bytes; at 1024 bytes, "
    "its loss is 0.35 (0.10 … 0.61) above that of sinusoidal encodings.",
    verdict=Verdict.FAILS,
    source=SOURCE,
    slow=True,
)
def rope_extrapolates_better() -> Evidence:
    rope = lost("rotary")
    return (
        above("RoPE lost − sinusoidal lost, lower end", apart(rope, lost("sinusoidal")).low, MATTERS),
        above("RoPE lost − learned lost, lower end", apart(rope, lost("learned(past_end=clamp)")).low, MATTERS),
        below("ALiBi lost, upper end", over_seeds(lost("alibi").tolist()).high, 0.05),
    )


@claim(
    statement="Inside the trained range, learned encodings are slightly better than sinusoidal ones.",
    precise="In small models after 600 steps, a table's loss is 0.41 (0.36 … 0.46) nats per byte above that of "
    "sinusoidal encodings at 128 bytes, because every row has to be learned. The difference after long training "
    "was not measured. Another lesson and the 2017 paper find both about equally good.",
    verdict=Verdict.FAILS,
    source=f"{SOURCE}; Vaswani et al. 2017, table 3, row E",
    slow=True,
)
def learned_inside_its_range() -> Evidence:
    inside = apart(losses("learned(past_end=clamp)")[AT], losses("sinusoidal")[AT])
    return (above("learned − sinusoidal, lower end", inside.low, MATTERS),)


@claim(
    statement="At twice its trained length, ALiBi does as well as a sinusoidal model trained at the full length.",
    precise="All models are trained on the same number of bytes. Tested at 256 bytes, ALiBi trained at 128 has "
    "the lowest loss; a sinusoidal model is 0.56 (0.51 … 0.62) nats per byte worse if trained at 256, and 1.60 "
    "(1.44 … 1.75) if trained at 128.",
    verdict=Verdict.HOLDS,
    source=f"{SOURCE}; Press et al. 2022, section 4",
    slow=True,
)
def trained_short_tested_long() -> Evidence:
    alibi, long, short = losses("alibi")[LONG], losses("sinusoidal", LONG)[LONG], losses("sinusoidal")[LONG]
    return (
        above("sinusoidal at 256 − ALiBi, lower end", apart(long, alibi).low, MATTERS),
        above("sinusoidal at 128 − ALiBi, lower end", apart(short, alibi).low, MATTERS),
    )
