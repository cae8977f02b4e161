"""The grid of small models that settles what lessons dispute: what is trained, and the sentences it makes.

All models are trained on as many bytes of the standard text and score the same 64 places of its validation part.
``verdicts.json`` holds what came out, when and by which command, and the sentences made of it.
"""

import json
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

from posenc.pictures.numbers import MINUS
from posenc.workbench.launch.local import Local
from posenc.workbench.run.job import Failure
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import Plan, Run
from posenc.workbench.study.comparison import Comparison
from posenc.workbench.study.statistics import Interval, over_seeds
from posenc.workbench.study.study import Study
from posenc.workbench.tasks import Text

SEEDS = tuple(range(5))
AT, LONG, FAR = 128, 256, 1024
"""Bytes: trained at, trained at by the baseline, tested at."""
COMMON: dict[str, Any] = {"tasks": ("language",), "seeds": SEEDS, "steps": 600, "learning_rate": 4e-3, "blocks": 64}
STUDIES = (
    Study(
        encodings=("sinusoidal", "learned-clamped", "rotary", "alibi"),
        train_length=AT,
        batch=16,
        lengths=(1, 2, 4, 8),
        **COMMON,
    ),
    Study(encodings=("sinusoidal",), train_length=LONG, batch=8, lengths=(1, 2, 4), **COMMON),
)
"""What is trained at 128 bytes, and the baseline that is trained at 256: as many bytes a step, as many steps."""

Tested = tuple[str, int, int]
"""An encoding, the length that it was trained at, and the length that it is tested at."""
Losses = dict[str, dict[str, list[float]]]
"""By ``encoding@trained length``, then by test length: nats per byte, one for each seed."""


def measure(text: Text, folder: Path, finished: Callable[[Run[Plan] | Failure], None] = lambda run: None) -> Losses:
    """Train and test the whole grid in this folder, where a stopped one goes on: about 40 minutes of one core.

    Raises:
        RuntimeError: a run failed; the message has its reason.
    """
    losses: Losses = {}
    with Ledger(folder, write=True) as ledger:
        for study in STUDIES:
            for failure in Comparison(study, text, ledger).run(Local(), finished=finished).failures:
                raise RuntimeError(f"{failure.plan}: {failure.reason}")
            plans = {plan.id: plan for plan in sorted(study.plans(text), key=lambda plan: plan.seed)}
            runs = {run.plan.id: run for run in ledger.runs(plans)}
            for id, plan in plans.items():
                by_length = losses.setdefault(f"{plan.encoding}@{plan.train_length}", {})
                for cell in runs[id].cells:
                    if cell.measure == "loss":
                        by_length.setdefault(str(cell.length), []).append(round(cell.value, 6))
    return losses


def stored() -> dict[str, Any]:
    """What ``verdicts.json`` holds: date, command, hardware, versions, losses, and a sentence for every claim."""
    text = (files("posenc.teaching.claims") / "verdicts.json").read_text(encoding="utf-8")
    read: dict[str, Any] = json.loads(text)
    return read


def lost(losses: Losses, encoding: str) -> list[float]:
    """Nats lost from the trained length to the longest, seed by seed."""
    return apart(losses, (encoding, AT, FAR), (encoding, AT, AT))


def apart(losses: Losses, ours: Tested, theirs: Tested) -> list[float]:
    """ours − theirs, seed by seed: a seed gives every encoding the same batches."""
    a, b = (losses[f"{encoding}@{trained}"][str(length)] for encoding, trained, length in (ours, theirs))
    return less(a, b)


def less(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """ours − theirs, seed by seed."""
    return [a - b for a, b in zip(ours, theirs, strict=True)]


def differences_over_seeds(losses: Losses) -> dict[str, Interval]:
    """The differences that decide, each with its interval over seeds."""
    rope = lost(losses, "rotary")
    differences = {
        "RoPE lost − sinusoidal lost": less(rope, lost(losses, "sinusoidal")),
        "RoPE lost − learned lost": less(rope, lost(losses, "learned-clamped")),
        "RoPE − sinusoidal, far": apart(losses, ("rotary", AT, FAR), ("sinusoidal", AT, FAR)),
        "ALiBi lost": lost(losses, "alibi"),
        "learned − sinusoidal, inside": apart(losses, ("learned-clamped", AT, AT), ("sinusoidal", AT, AT)),
        "sinusoidal trained long − ALiBi": apart(losses, ("sinusoidal", LONG, LONG), ("alibi", AT, LONG)),
        "sinusoidal trained short − ALiBi": apart(losses, ("sinusoidal", AT, LONG), ("alibi", AT, LONG)),
    }
    return {name: over_seeds(values) for name, values in differences.items()}


def sentences(losses: Losses) -> dict[str, str]:
    """The precise sentence of each claim, made of the numbers."""
    by = differences_over_seeds(losses)
    rope, sines, table, alibi = (
        f"{fmean(lost(losses, name)):.2f}" for name in ("rotary", "sinusoidal", "learned-clamped", "alibi")
    )
    return {
        "rope-extrapolates-better": (
            f"Lessons 0 and 2 say so, lesson 4 says ALiBi does best. Trained at {AT} bytes and asked at {FAR}, "
            f"RoPE loses {rope} nats a byte, sinusoidal {sines}, a table that repeats its last row {table}, ALiBi "
            f"{alibi}. RoPE loses {shown(by['RoPE lost − sinusoidal lost'])} more than sinusoidal and "
            f"{shown(by['RoPE lost − learned lost'])} more than the table. It was the best of the three before, "
            f"and ends {shown(by['RoPE − sinusoidal, far'])} from sinusoidal."
        ),
        "learned-inside-its-range": (
            "One lesson says slightly better, another says equal, as the 2017 paper's table of variants "
            f"does. After {COMMON['steps']} steps of small models the loss of a table is "
            f"{shown(by['learned − sinusoidal, inside'])} nats a byte above that of sinusoidal codes at "
            f"{AT} bytes: every row has to be learned first. What long training leaves of it was not "
            "measured."
        ),
        "trained-short-tested-long": (
            f"Tested at {LONG} bytes, a sinusoidal model trained at {LONG} lies "
            f"{shown(by['sinusoidal trained long − ALiBi'])} nats a byte above ALiBi trained at {AT} on as "
            f"many bytes, and one trained at {AT} lies {shown(by['sinusoidal trained short − ALiBi'])} above it."
        ),
    }


def shown(interval: Interval) -> str:
    """A mean with its interval, as a sentence has it."""
    numbers = (f"{x:.2f}".replace("-", MINUS) for x in (interval.mean, interval.low, interval.high))
    return "{} ({} … {})".format(*numbers)
