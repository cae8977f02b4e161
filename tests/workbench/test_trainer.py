"""The trainer: goes on mid-way with the same numbers, says every loss, and breaks off what is lost."""

import math
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from posenc.errors import StudyError
from posenc.workbench.run import checkpoint, trainer
from posenc.workbench.run.job import Progress
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import LossCurve, Plan
from posenc.workbench.run.settings import Training
from posenc.workbench.run.trainer import factor
from posenc.workbench.run.training import build, learn, task_of
from posenc.workbench.study.comparison import Comparison
from posenc.workbench.study.study import Study
from support.studies import TINY, KilledError, inline, plan_of, python_text

PLAN = plan_of("rotary", steps=8, train_length=16, lengths=(16,))
MAPS = ("attention.qkv", "attention.out", "feedforward.inner", "feedforward.outer")


def trained(
    plan: Plan, state: Path | None = None, *, killed_at: int = 0, firsts: list[int] | None = None
) -> tuple[dict[str, torch.Tensor], LossCurve]:
    """Weights and losses of a plan's training, which may be stopped after so many steps.

    ``firsts`` has the number of losses in each report.
    """
    made = task_of(plan, python_text())
    model = build(plan, made)

    def report(progress: Progress) -> None:
        if firsts is not None:
            firsts.append(len(progress.curve.losses))
        if killed_at and progress.first + len(progress.curve.losses) >= killed_at:
            raise KilledError

    done = learn(model, made, plan, report, state)
    return {name: value.clone() for name, value in model.state_dict().items()}, done


@pytest.mark.usefixtures("every_step")
def test_a_training_killed_mid_way_ends_in_the_same_numbers(tmp_path: Path) -> None:
    plan = replace(PLAN, accumulate=2, qk_norm=True)
    weights, whole = trained(plan)
    for at in (3, 7):
        with pytest.raises(KilledError):
            trained(plan, tmp_path / "a.state", killed_at=at)
    again, done = trained(plan, tmp_path / "a.state")
    assert (done.losses, done.norms) == (whole.losses, whole.norms)
    assert done.validation == whole.validation
    assert all((again[name] == value).all() for name, value in weights.items())


@cache
def plain() -> LossCurve:
    """Losses of the plan that tests change."""
    return trained(PLAN)[1]


@pytest.mark.usefixtures("every_step")
def test_a_state_that_is_damaged_or_of_another_torch_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.state").write_bytes(b"PK\x03\x04 cut short")
    assert trained(PLAN, tmp_path / "a.state")[1].losses == plain().losses
    for version, resumes in (("1", False), ("2", False), ("2", True)):
        monkeypatch.setattr(checkpoint, "versions", lambda now=version: now)
        firsts: list[int] = []
        with pytest.raises(KilledError):
            trained(PLAN, tmp_path / "b.state", killed_at=4, firsts=firsts)
        assert (firsts[0] > 1) == resumes


def test_a_loss_that_is_no_number_ends_the_run_with_a_verdict(tmp_path: Path) -> None:
    wild = replace(TINY, encodings=("nope",), tasks=("needle",), steps=40, learning_rate=10.0, clip=0.0)
    with Ledger(tmp_path, write=True) as ledger:
        outcome = Comparison(wild, python_text(), ledger).run(inline)
        runs = ledger.runs()
        assert not outcome.failures
        assert all(run.verdict.startswith("diverged: at step ") for run in runs)
        assert all(run.cells == () and math.isinf(run.final_loss) for run in runs)
        assert all(len(ledger.curve(run.plan.id).losses) < 40 for run in runs)
    assert {outcome.results[0].verdict(row) for row in outcome.results[0].rows} == {"diverged in 1 of 1 runs"}


@pytest.mark.parametrize("lost", [math.inf, math.nan])
def test_a_loss_that_is_infinite_or_nan_ends_a_training_at_its_step(lost: float) -> None:
    """Tokens and validations of later steps, which ran before the loss was fetched, are not of the run."""
    watch = trainer._Watch(lambda first, curve: None, LossCurve())
    watch.waiting = [(torch.tensor(loss), torch.ones(()), 5) for loss in (1.0, lost, 1.0)]
    watch.validation = [(step, torch.ones(())) for step in range(3)]
    watch.report()
    assert [len(each) for each in (watch.curve.losses, watch.curve.norms, watch.curve.validation)] == [2, 2, 2]
    assert (watch.curve.tokens, watch.curve.verdict) == (10, "diverged: at step 1 the loss is NaN or infinite")


def test_the_loss_of_every_step_is_in_the_ledger_with_the_rate(shared_study: Path) -> None:
    with Ledger(shared_study) as ledger:
        run = ledger.runs()[0]
        curve = ledger.curve(run.plan.id)
        assert len(curve.losses) == run.plan.steps == 2
        assert curve.losses[-1] == pytest.approx(run.final_loss)
        assert len(curve.norms) == 2
        assert [step for step, _ in curve.validation] == [0, 1]
        steps = ledger.steps(ledger.rows("SELECT * FROM settings LIMIT 1"))
        assert [row["validation_loss"] for row in steps] == [loss for _, loss in curve.validation]
        assert curve.tokens > 0 < curve.seconds


def test_the_norm_is_that_of_the_gradient_before_it_is_clipped(monkeypatch: pytest.MonkeyPatch) -> None:
    stepped: list[float] = []

    class Seen(torch.optim.AdamW):
        def step(self, *given: object) -> None:  # type: ignore[override]
            gradients = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
            stepped.append(float(torch.nn.utils.get_total_norm(gradients)))
            super().step(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(torch.optim, "AdamW", Seen)
    norms = [trained(replace(PLAN, steps=1, clip=clip))[1].norms[0] for clip in (0.0, 1e-3)]
    assert norms[0] == norms[1] > 0.1
    assert stepped == [pytest.approx(norms[0]), pytest.approx(1e-3, rel=1e-2)]


def test_validation_is_the_loss_on_tests_at_the_trained_length_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = replace(PLAN, task="copying", steps=9, train_length=16, batch=3)
    weights, done = trained(plan)
    assert [step for step, _ in done.validation] == list(range(9))
    made = task_of(plan, python_text())
    model = build(plan, made)
    model.load_state_dict(weights)
    (tests,) = made.test_batches(16, 8)
    wanted = torch.nn.functional.cross_entropy(model(tests.tokens).mT, tests.targets)
    assert done.validation[-1][1] == pytest.approx(float(wanted.detach()), rel=1e-6)
    for count in (1, 2, 5, 8, 20):  # as many as the page says, and always after the last step
        monkeypatch.setattr(trainer, "VALIDATIONS", count)
        again, fewer = trained(plan)
        assert len(fewer.validation) == min(count, 9)
        assert {*fewer.validation} <= {*done.validation}
        assert fewer.validation[-1] == done.validation[-1]
        assert fewer.losses == done.losses
        assert all((again[name] == value).all() for name, value in weights.items())


def test_schedules_rise_over_the_warm_up_and_fall_to_their_floor() -> None:
    how = Training(warm_up=0.1, floor=0.2)
    rates = [factor(step, 100, how) for step in range(100)]
    assert rates[:10] == [pytest.approx((step + 1) / 10) for step in range(10)]
    assert max(rates) == 1.0
    assert 0.2 < rates[-1] < 0.26
    assert {factor(step, 100, replace(how, schedule="constant")) for step in range(10, 100)} == {1.0}


def test_accumulated_batches_read_as_much() -> None:
    _, halves = trained(replace(PLAN, batch=2, accumulate=2))
    assert len(halves.losses) == len(plain().losses)
    assert halves.tokens == plain().tokens


def test_bfloat16_by_autocast_keeps_its_parameters_in_float32() -> None:
    weights, done = trained(replace(PLAN, autocast="bfloat16"))
    assert {value.dtype for value in weights.values() if value.is_floating_point()} == {torch.float32}
    assert done.losses != plain().losses


@pytest.mark.parametrize("tied", [False, True])
def test_only_weights_of_maps_decay(tied: bool) -> None:
    """Counted in names: no bias, no gain of a norm, no embedding, tied or not, and nothing of an encoding."""
    plan = replace(PLAN, encoding="layers(t5 + learned)", biases=True, tied=tied, task="language")
    model = build(plan, task_of(plan, python_text()))
    names = {p: name for name, p in model.named_parameters()}
    groups = trainer._optimiser(model, plan, 0.1).param_groups
    assert [group["weight_decay"] for group in groups] == [plan.weight_decay, 0.0]
    decayed, others = ({names[p] for p in group["params"]} for group in groups)
    maps = {f"blocks.{i}.{part}.weight" for i in (0, 1) for part in MAPS}
    assert decayed == (maps if tied else maps | {"head.weight"})
    assert decayed | others == set(names.values())
    assert sum("encoding" in name for name in others) == 2


def test_what_memory_or_disk_cannot_hold_is_said_with_its_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(study: Study, devices: list[str]) -> None:
        with Ledger(tmp_path, write=True) as ledger:
            Comparison(study, python_text(), ledger).check(devices)

    large = replace(TINY, width=16384, layers=32, heads=128, tasks=("needle",), encodings=("nope",))
    with pytest.raises(StudyError, match=r"needs about [\d.]+ GiB of memory, but only [\d.]+ GiB is free"):
        check(large, ["", ""])
    check(TINY, ["", ""])
    check(large, [])
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2**15))
    alone = replace(TINY, tasks=("needle",), encodings=("nope",), seeds=1)  # type: ignore[arg-type]
    with pytest.raises(
        StudyError, match=r"1 run may write up to [\d.]+ MiB to '.*', but only 0\.0 MiB is free there; free"
    ):
        check(alone, [""])
