"""What each of two processes does that train one model together, and what one process makes of the same plan."""

import json
import warnings
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from posenc.workbench.run import trainer
from posenc.workbench.run.plan import Plan
from posenc.workbench.run.ranks import ALONE, WAYS, Alone, Ranks
from posenc.workbench.run.training import build, learn, task_of
from support.studies import plan_of, python_text

BOUND = 1e-11
"""float64: a gradient is a sum of some 10⁵ products of order one, each rounded by 1e-16; four steps of rate 0.1 in
another order of summing keep within a tenth of that each."""

PLAN = plan_of(
    "layers(rotary + alibi)",
    task="language",
    text_sha256=python_text().sha256,
    steps=4,
    learning_rate=0.1,
    lengths=(64,),
    test_count=4,
    width=16,
    heads=2,
    dtype="float64",
    optimiser="sgd",
)


ADAM = replace(PLAN, optimiser="adamw", learning_rate=1e-3)
ADAM_BOUND = PLAN.steps * ADAM.learning_rate * 1e-14 / 1e-8
"""A mean gradient of 256 targets is off by at most 1e-14 in another order of summing. Adam divides it by its own
size and 1e-8 more: where a gradient is nothing but rounding, as that of the keys' bias, a step is off by the rate
times 1e-14 / 1e-8."""


def trained(
    way: str, state: Path | None, ranks: Alone = ALONE, plan: Plan = PLAN
) -> tuple[dict[str, Tensor], list[float]]:
    """Weights and losses of the plan."""
    plan = replace(plan, devices=1 if ranks is ALONE else 2, parallel=way)
    made = task_of(plan, python_text())
    model = build(plan, made)
    found = learn(model, made, plan, state=state, ranks=ranks)
    return dict(ranks.unsharded(model, lambda: build(plan, made)).state_dict()), found.losses


def gap(one: dict[str, Tensor], other: dict[str, Any]) -> float:
    return max(float((one[name] - other[name]).abs().max()) for name in one if one[name].is_floating_point())


def rank(number: int, folder: Path) -> None:
    """Every way in turn, against what this process makes of it alone; a state is left at every step."""
    torch.set_num_threads(1)
    want, losses = trained("ddp", None)
    adam, _ = trained("ddp", None, plan=ADAM)
    warnings.simplefilter("error")
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meet'}", rank=number, world_size=2)
    trainer.STATE_EVERY, Ranks.every = 0.0, 1
    for way in WAYS:
        got, said = trained(way, folder / f"{way}.state", Ranks(way, "cpu"))
        assert torch.allclose(torch.tensor(said), torch.tensor(losses), rtol=2**-23, atol=0), (way, said, losses)
        if number == 0 or way != "fsdp":
            assert gap(want, got) <= BOUND, (way, gap(want, got))
        got, _ = trained(way, None, Ranks(way, "cpu"), ADAM)
        if number == 0 or way != "fsdp":
            assert gap(adam, got) <= ADAM_BOUND, (way, gap(adam, got))
    Ranks.every = 4
    for way in ("ddp", "fsdp"):
        with torch.profiler.profile() as profile:
            trained(way, None, Ranks(way, "cpu"), replace(PLAN, accumulate=4))
        calls = Counter(
            event.name for event in profile.events() if event.name.startswith("c10d::") and "reduce" in event.name
        )
        (folder / f"{way}.{number}.calls").write_text(json.dumps(calls))
    dist.destroy_process_group()
