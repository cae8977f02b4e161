"""Ids of plans: what has its first value is left out, so that a new setting, or one less, trains nothing again."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from posenc.encodings.alibi import ALiBi
from posenc.encodings.catalogue import CATALOGUE, Entry
from posenc.errors import StudyError
from posenc.teaching.lessons.example import EXAMPLE
from posenc.workbench.extension.scoring import Scoring
from posenc.workbench.run.checkpoint import path_of
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import NUMERICS, Plan, Run
from posenc.workbench.run.training import encoding
from posenc.workbench.study.study import Study
from support.first_values import FILE, changed, now
from support.studies import plan_of


@dataclass(frozen=True, kw_only=True)
class Later(Plan):
    """A plan of a posenc that has one setting more."""

    rate_of_experts: float = 0.5
    switch: bool = False


PLAIN = {"steps": 10, "batch": 4, "learning_rate": 1e-3, "train_length": 64, "lengths": (64,), "test_count": 8}


def test_a_setting_more_or_less_changes_no_id() -> None:
    here, later = (kind(encoding="rotary", task="needle", seed=0, **PLAIN) for kind in (Plan, Later))
    assert later.id == here.id
    assert replace(later, rate_of_experts=0.25).id != here.id
    assert replace(later, switch=True).id != here.id
    assert replace(here, numerics=NUMERICS + 1).id != here.id  # though it is that plan's default


def test_a_ledger_of_a_posenc_with_more_settings_keeps_its_ids(tmp_path: Path) -> None:
    plan = Later(encoding="rotary", task="needle", seed=0, **PLAIN)
    other = replace(plan, switch=True)
    with Ledger(tmp_path, write=True) as ledger:
        for known in (plan, other):
            ledger.add(Run(known, (), 0.0, 0, 0.0))
        assert [run.plan.id for run in ledger.runs()] == [plan.id, other.id]
        assert plan_of("rotary", **PLAIN).id in ledger.ids()


def test_an_encoding_with_a_new_setting_keeps_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_slopes(heads: int, max_exponent: float = 8.0, slopes: str | None = None, far: int = 7) -> ALiBi:
        return ALiBi(heads, max_exponent)

    texts = ("alibi", "alibi(max_exponent=4)", "stack(alibi, rotary)", "layers(alibi*2 + nope)")
    before = [plan_of(text).id for text in texts]
    monkeypatch.setitem(CATALOGUE, "alibi", Entry(with_slopes))
    assert [plan_of(text).id for text in texts] == before
    assert plan_of("alibi(far=9)").id != before[0]
    assert plan_of("alibi(far=7)").id == before[0]


def test_of_a_scaling_too_an_id_holds_what_differs_alone() -> None:
    brief = "rotary(scaling=yarn(factor=4, original_length=4096))"
    assert plan_of("rotary(scaling=yarn(4, 4096, beta_fast=32))").encoding == brief
    assert "beta_fast=16" in plan_of("rotary(scaling=yarn(4, 4096, beta_fast=16))").encoding


def test_plans_of_a_scoring_leave_first_values_out_too() -> None:
    known = {"model": "m", "method": "none", "scaling": "", "text_sha256": "", "documents": (0,)}
    scoring = Scoring(**known, length=8, buckets=2, dtype="float32")
    assert replace(scoring, steps=0, device="cpu").id == scoring.id != replace(scoring, steps=1).id


def test_a_default_is_changed_with_the_numerics_or_not_at_all() -> None:
    kept = json.loads(FILE.read_text())
    assert changed(kept, now(), NUMERICS) == [], "raise NUMERICS, or leave the default as it came"
    new = now().keys() - kept["first"].keys()
    assert not new, "run python tests/support/first_values.py, which adds what is new"
    assert kept["numerics"] == NUMERICS
    assert changed(kept, {**now(), "Plan.beta2": "0.95", "alibi.max_exponent": "4.0"}, NUMERICS) == [
        "Plan.beta2",
        "alibi.max_exponent",
    ]
    assert changed(kept, {**now(), "Plan.beta2": "0.95"}, NUMERICS + 1) == []


def test_a_model_of_other_numerics_is_not_built_with_defaults_of_today() -> None:
    with pytest.raises(
        StudyError, match=rf"version {NUMERICS - 1} of.*version {NUMERICS}; run posenc compare again"
    ):
        encoding(plan_of("rotary", numerics=NUMERICS - 1))


def test_the_example_is_known_by_the_ids_of_today() -> None:
    with Ledger(EXAMPLE) as ledger:
        assert {plan.id for plan in Study(tasks=("ordering", "needle")).plans(None)} < ledger.ids()
        kept = [run.plan for run in ledger.runs() if run.plan.task == "language"]
    for plan in kept:
        assert path_of(EXAMPLE, plan).exists()
        assert replace(plan).id == plan.id
