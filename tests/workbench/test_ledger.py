"""The ledger: what is written is read, once, whole; and what cannot be is said."""

import math
import multiprocessing as mp
import re
import sqlite3
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from posenc.commands.app import app
from posenc.errors import StudyError
from posenc.workbench import open as open_study
from posenc.workbench.run.job import Progress
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import Cell, LossCurve, Plan, Run
from support.studies import plan_of, runs_in

PLAN = plan_of("rotary")
CELLS = (
    Cell(64, "accuracy", 0.5, 8, (0.0, 1.0)),
    Cell(64, "accuracy_by_depth", 0.5, 8, (1.0, math.nan, 0.0)),
    Cell(128, "refused", math.nan, 0, note="no row"),
)
RUN = Run(PLAN, CELLS, 1.5, 1000, 0.25, versions="{}", hardware="a processor")


def test_a_run_comes_back_as_it_went_in(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        ledger.add(RUN)
    (back,) = runs_in(tmp_path)
    assert str(back) == str(RUN)  # some values are no number, which equals nothing


CHANGED: dict[str, Any] = {
    "encoding": "alibi",
    "task": "ordering",
    "lengths": (64,),
    "kv_heads": 2,
    "hidden": 3,
    "window": 5,
    "norm": "rms",
    "activation": "swiglu",
    "schedule": "constant",
    "dtype": "float64",
    "autocast": "bfloat16",
    "device": "cuda",
    "text_sha256": "a",
    "tokenizer": "c",
    "source": "b",
}
"""Other values of what is no number or switch, those being one more, or the other one."""


def other(name: str) -> Any:
    value = getattr(PLAN, name)
    return CHANGED[name] if name in CHANGED else not value if isinstance(value, bool) else value + 1


def test_a_plans_id_changes_with_every_field() -> None:
    names = [field.name for field in fields(Plan) if field.init]
    assert {"batch", "warm_up", "qk_norm", "numerics"} < set(names)
    others = [replace(PLAN, **{name: other(name)}) for name in names]
    assert len({plan.id for plan in (PLAN, *others)}) == 1 + len(names)
    for plan in (PLAN, *others):
        assert Plan.from_json(plan.to_json(), plan.id) == plan


def test_a_run_that_is_done_again_replaces_the_earlier_one(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        for seconds in (1.0, 2.0):
            ledger.add(replace(RUN, seconds=seconds))
        assert [(run.seconds, len(run.cells)) for run in ledger.runs()] == [(2.0, len(RUN.cells))]


def test_a_run_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    twice = replace(RUN, cells=(CELLS[0], CELLS[0]))  # the second cell breaks the primary key
    with Ledger(tmp_path, write=True) as ledger:
        with pytest.raises(StudyError):
            ledger.add(twice)
        assert ledger.runs() == []


def test_a_message_that_comes_after_its_run_doubles_no_curve(tmp_path: Path) -> None:
    curve = LossCurve((3.0, 2.0), 20, 1.0, (0.5, 0.25), ((0, 2.7), (1, 2.6)))
    with Ledger(tmp_path, write=True) as ledger:
        ledger.note(Progress(PLAN.id, 1, 0, LossCurve((3.0,), 10, 0.5, (0.5,), ((0, 2.7),))))
        assert ledger.curve(PLAN.id) == LossCurve((3.0,), 10, 0.5, (0.5,), ((0, 2.7),))
        ledger.note(Progress(PLAN.id, 1, 1, LossCurve((2.0,), 10, 0.5, (0.25,), ((1, 2.6),))))
        assert ledger.curve(PLAN.id) == curve
        ledger.add(RUN)
        ledger.note(Progress(PLAN.id, 1, 2, LossCurve((2.0,), 10, 0.5)))
        assert ledger.curve(PLAN.id) == curve


def test_a_newer_ledger_is_refused(tmp_path: Path) -> None:
    Ledger(tmp_path, write=True).close()
    for change, version in (
        ("UPDATE meta SET value = '99' WHERE key = 'version'", "99"),
        ("UPDATE meta SET value = 'five'", "five"),
        ("DELETE FROM meta", "unknown"),
    ):
        with closing(sqlite3.connect(tmp_path / "ledger.sqlite", isolation_level=None)) as db:
            db.execute(change)
        with pytest.raises(StudyError, match=f"version {version}, but this posenc reads version 3; use"):
            Ledger(tmp_path)
    with Ledger(tmp_path / "here", write=True) as ledger, pytest.raises(StudyError, match="posenc that wrote it"):
        ledger.merge(tmp_path)


def test_a_second_process_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    def opened() -> int:
        second = mp.get_context("fork").Process(target=lambda: Ledger(tmp_path, write=True).close())
        second.start()
        second.join()
        return second.exitcode or 0

    with Ledger(tmp_path, write=True):
        assert opened() == 1
    assert opened() == 0


def test_a_full_disk_loses_nothing_that_was_finished(tmp_path: Path) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        ledger.add(RUN)
        pages = ledger._db.execute("PRAGMA page_count").fetchone()[0]
        ledger._db.execute(f"PRAGMA max_page_count = {pages}")
        big = replace(RUN, plan=replace(PLAN, seed=1), cells=(replace(CELLS[0], detail=(0.123,) * 50_000),))
        with pytest.raises(StudyError, match="full; free some space and run the same command"):
            ledger.add(big)
        assert ledger.ids() == {PLAN.id}


def test_reading_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no ledger in"):
        Ledger(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "ledger.sqlite").touch()
    with pytest.raises(StudyError, match="no ledger in"):
        Ledger(tmp_path)
    assert (tmp_path / "ledger.sqlite").read_bytes() == b""
    with Ledger(tmp_path, write=True) as ledger:
        ledger.add(RUN)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with Ledger(tmp_path) as ledger:
        assert len(ledger.runs()) == 1
        with pytest.raises(StudyError, match="readonly"):
            ledger.add(replace(RUN, plan=replace(PLAN, seed=1)))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_damaged_page_is_said_to_whoever_reads_it(tmp_path: Path) -> None:
    with Ledger(tmp_path / "study", write=True) as ledger:
        ledger.add(RUN)
    whole = (tmp_path / "study" / "ledger.sqlite").read_bytes()
    size = int.from_bytes(whole[16:18], "big")
    for page in range(1, len(whole) // size):
        damaged = bytearray(whole)
        damaged[page * size : (page + 1) * size] = b"\xff" * size
        (tmp_path / "study" / "ledger.sqlite").write_bytes(damaged)
        for words in ((), ("--what", "runs", "--json"), ("--merge", str(tmp_path / "study"))):
            study = tmp_path / "other" if "--merge" in words else tmp_path / "study"
            result = CliRunner().invoke(app, ["runs", str(study), *words])
            if result.exit_code:
                assert isinstance(result.exception, StudyError), result.exception
                assert re.search(
                    r"study/ledger.sqlite.*damaged.*; restore (it|the file) from a backup, or",
                    str(result.exception),
                )
            assert result.exit_code or "--merge" not in words


def test_what_is_opened_is_closed_also_where_it_is_refused(tmp_path: Path, connections: list[str]) -> None:
    with Ledger(tmp_path, write=True):
        assert [Path(name).name for name in connections] == ["lock.sqlite", "ledger.sqlite?mode=rwc"]
        with pytest.raises(StudyError, match="another process is writing"):
            Ledger(tmp_path, write=True)
        assert len(connections) == 2
    assert connections == []
    (tmp_path / "ledger.sqlite").write_text("no database" * 500)
    (tmp_path / "file").touch()
    for folder, write, message in (
        (tmp_path, True, "not a database; the file is damaged"),
        (tmp_path, False, "not a database; the file is damaged"),
        (tmp_path / "file", True, "use another folder"),
    ):
        with pytest.raises(StudyError, match=message):
            Ledger(folder, write=write)
    assert connections == []


@pytest.mark.parametrize("detail", ["[0.5", "half", "7", '["half"]', "[0.5]"])
@pytest.mark.parametrize("words", [(), ("--what", "numbers", "--json")])
def test_a_value_that_was_edited_by_hand_ends_in_a_sentence(
    detail: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    with Ledger(tmp_path, write=True) as ledger:
        ledger.add(RUN)
        ledger.add(replace(RUN, plan=replace(PLAN, seed=1)))
        ledger._db.execute("UPDATE cells SET detail = ? WHERE run = ? AND length = 64", (detail, PLAN.id))
    with pytest.raises(StudyError, match=r"has an invalid value|different numbers of test sequences"):
        print(open_study(tmp_path).verdicts)
    result = CliRunner().invoke(app, ["runs", str(tmp_path), *words])
    assert result.exception is None or isinstance(result.exception, StudyError), result.exception


def test_a_damaged_lock_is_not_called_a_damaged_ledger(tmp_path: Path) -> None:
    Ledger(tmp_path, write=True).close()
    (tmp_path / "lock.sqlite").write_text("no database" * 500)
    with pytest.raises(StudyError, match=r"lock.sqlite' cannot be locked \(file is not a database\); delete this"):
        Ledger(tmp_path, write=True)
    Ledger(tmp_path).close()
