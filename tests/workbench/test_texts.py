"""Studies name encodings by text: with settings, composed, by layer; ids hold all of it, screens what differs."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import posenc
from posenc.errors import InvalidArgument
from posenc.scaling import NTK
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import NUMERICS, Plan
from posenc.workbench.run.training import encoding
from posenc.workbench.study.comparison import Comparison
from support.command_line import said
from support.studies import TINY, inline, plan_of, python_text, ran, runs_in

SHORT = replace(TINY, tasks=("needle",), steps={"needle": 2}, train_length=16)


def test_every_encoding_of_the_catalogue_trains(tmp_path: Path) -> None:
    every = replace(SHORT, encodings=tuple(posenc.CATALOGUE), steps=1, batch=2, answers=2, width=16)
    assert not ran(every, tmp_path).failures
    assert len(runs_in(tmp_path)) == len(posenc.CATALOGUE)


def test_a_schedule_of_the_length_is_planned_for_the_longest_test(tmp_path: Path) -> None:
    """Dynamic NTK at factor 1 is NTK by the growth; a command line can say no length of its own."""
    text = "rotary(scaling=dynamic(1, 16))"
    (plan,) = replace(SHORT, encodings=(text,), lengths=(1, 4)).plans(python_text())
    assert encoding(plan).scaling == NTK(plan.lengths[-1] / 16)
    assert not ran(replace(SHORT, encodings=(text,)), tmp_path).failures
    with pytest.raises(InvalidArgument, match=r"or use a fixed scaling, such as ntk\(4\)"):
        posenc.encoding(text, head_dim=8)
    assert posenc.encoding(text, head_dim=8, total_length=64).scaling == NTK(4.0)


def test_equal_texts_are_one_plan_and_every_setting_makes_another() -> None:
    same = ("rope", "rotary", "rotary(base=10000)", "rotary(pairing=half, base=1e4)")
    assert {plan_of(text).id for text in same} == {plan_of("rotary").id}
    assert {plan_of(text).name for text in same} == {"needle/rotary/seed 0"}
    others = (
        "rotary(base=500000)",
        "rotary(pairing=interleaved)",
        "rotary(phases=float32)",
        "rotary(rotary_dim=8)",
    )
    assert len({plan_of(text).id for text in ("rotary", *others)}) == 5


def test_a_plan_comes_back_word_for_word_though_its_encoding_has_gone() -> None:
    then = {**json.loads(plan_of("rotary").to_json()), "encoding": "a text of tomorrow ["}
    back = Plan.from_json(json.dumps(then), "its id")
    assert (back.encoding, back.id) == (then["encoding"], "its id")
    assert Plan.from_json(back.to_json(), back.id) == back


def test_runs_of_other_numerics_and_fewer_settings_are_shown_and_never_handed_out(tmp_path: Path) -> None:
    one = replace(SHORT, encodings=("rotary",))
    ran(one, tmp_path)
    (run,) = runs_in(tmp_path)
    before = {**json.loads(run.plan.to_json()), "numerics": NUMERICS - 1}
    del before["window"], before["autocast"]  # as of a posenc that had no such settings
    before["devices"] = 2  # which there was, and is no more
    old = Plan.from_json(json.dumps(before), replace(run.plan, numerics=NUMERICS - 1).id)
    assert old.id != run.plan.id
    assert (old.numerics, old.window, old.autocast) == (NUMERICS - 1, None, "none")
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as db, db:
        db.execute("UPDATE runs SET id = ?, plan = ?", (old.id, json.dumps(before, sort_keys=True)))
        db.execute("UPDATE cells SET run = ?", (old.id,))
    with Ledger(tmp_path, write=True) as ledger:
        assert [r.plan.id for r in ledger.runs()] == [old.id]
        assert [p.encoding for p in Comparison(one, python_text(), ledger).missing] == ["rotary"]
    assert old.id[:8] in said("runs", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("alibi(slopes=(1, 0))", "must be a list of 4 finite numbers"),
        ("rotary(base=0.5)", r"base=0\.5 must be finite and above 1"),
        ("rotary(rotary_dim=64)", "rotary_dim=64 must be at most head_dim=16"),
        ("nowhere:Mine", "module 'nowhere' was not found; run in the folder that contains it"),
    ],
)
def test_what_cannot_be_built_is_refused_before_anything_trains(text: str, message: str, tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger, pytest.raises(InvalidArgument, match=message):
        Comparison(replace(SHORT, encodings=("nope", text)), python_text(), ledger).run(inline)
    assert runs_in(tmp_path) == []
