"""What a study says of its runs: steps of one run, means over seeds alone, best by a paired interval."""

import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from posenc.commands.compare import _run
from posenc.workbench.report import words
from posenc.workbench.report.charts import over_lengths, over_steps
from posenc.workbench.report.write import of_results, write
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import Cell, Run
from posenc.workbench.run.settings import declared
from posenc.workbench.study.comparison import Comparison, Outcome
from posenc.workbench.study.results import summarise
from posenc.workbench.study.study import Study, read_study
from posenc.workbench.tasks import Criteria
from support.command_line import said as said_by
from support.studies import SHARED, TINY, inline, measured, plan_of, python_text, ran

LANGUAGE = Criteria("language", "predict the next byte", "loss", 3.0, 2.9)
GRID = replace(TINY, tasks=("ordering",), encodings=("nope",), learning_rate=(1e-5, 1e-2), train_length=(8, 16))


def read(encoding: str, blocks: Sequence[float], seed: int = 0, far: Sequence[float] | None = None) -> Run:
    """A run on language with these losses of blocks at both lengths."""
    return measured(encoding, {64: blocks, 512: far or blocks}, seed=seed)


SPREAD = (1.2, 1.8, 1.0, 2.1, 1.4, 1.7, 1.3, 1.9)
"""Losses of blocks of text: some are harder."""


def test_steps_are_those_of_a_run_and_not_summed_over_seeds(tmp_path: Path) -> None:
    study = replace(TINY, tasks=("ordering",), encodings=("nope",), seeds=(0, 1), steps=10, answers=2)
    page = write(ran(study, tmp_path), tmp_path, "posenc compare", study).read_text()
    (row,) = json.loads((tmp_path / "tables.json").read_text())["training"]["ordering"]
    assert (row["steps"], row["planned"]) == (10, 10)
    for words_of_page in (
        "10 of 10",
        "10 steps of 8 sequences of up to 16 tokens, at most 1280 tokens per run; learning rate 0.003",
        "; 2 scored sequences at each length",
        "those of one task differ only in encoding and seed",
        "2 small transformers",
    ):
        assert words_of_page in page


def test_runs_of_a_grid_are_never_averaged_and_never_look_alike(tmp_path: Path) -> None:
    study = replace(GRID, steps=10, answers=2)
    spoken = Console(record=True, width=200)
    outcome = _run(spoken, study, inline, tmp_path, slice(None), print)
    page = write(outcome, tmp_path, "posenc compare", study).read_text()
    rows = json.loads((tmp_path / "tables.json").read_text())["training"]["ordering"]
    losses = {plan.id: outcome.curves[plan.id].losses for plan in outcome.plans}
    assert len(losses) == 4
    last = {values[-1] for values in losses.values()}
    assert [row["loss"] in last for row in rows] == [True, True]  # of each trained length the best rate
    assert sorted(row["at"].split(",")[0] for row in rows) == ["train_length 16", "train_length 8"]
    assert "differ only in encoding, train_length and learning_rate" in page
    assert "learning rate 1e-05 or 0.01" in page
    said = [line.strip().split("  ")[0] for line in spoken.export_text().splitlines() if "nope/seed 0" in line]
    assert len(said) == len(set(said)) == 4
    assert "ordering/nope/seed 0, train_length 8, learning_rate 1e-05" in said
    assert "train_length 16, learning_rate 0.01" in said_by("runs", tmp_path)
    view = over_steps("ordering", outcome.plans, outcome.curves)
    assert len({line.name for line in view.panels[0].lines}) == 4  # type: ignore[union-attr]
    assert set(words.axes_in_words(read_study(options={"tasks": "ordering"}).plans(None)).values()) == {""}


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"text_sha256": "b" * 64}, ["text_sha256 aaaaaaaaaaaa", "text_sha256 bbbbbbbbbbbb"]),
        ({"source": "c" * 16}, ["source ", "source cccccccccccc"]),
        ({"encoding": "nope", "source": "c" * 16}, ["", ""]),
        ({"lengths": (64, 256)}, ["lengths (64, 128)", "lengths (64, 256)"]),
        ({"lengths": (32, 64), "train_length": 32, "test_count": 9}, ["train_length 64", "train_length 32"]),
        ({"device": "cuda"}, ["device cpu", "device cuda"]),
        ({"numerics": 3}, ["numerics 4", "numerics 3"]),
        ({"seed": 1}, ["", ""]),
    ],
)
def test_runs_of_one_task_are_told_apart_by_whatever_differs(other: dict[str, Any], said: list[str]) -> None:
    plan = plan_of("rotary", text_sha256="a" * 64)
    assert list(words.axes_in_words([plan, replace(plan, **other)]).values()) == said


def test_failures_of_a_grid_are_told_apart_on_the_page(tmp_path: Path) -> None:
    from posenc.workbench.run.job import Failure

    with Ledger(tmp_path, write=True) as ledger:
        comparison = Comparison(replace(GRID, answers=2), None, ledger)
        failures = [Failure(plan, "broken") for plan in comparison.plans]
        page = write(comparison.outcome(failures), tmp_path, "posenc compare", GRID).read_text()
    assert page.count("<dt>ordering/nope/seed 0, train_length") == 4
    assert len(set(re.findall("<dt>(ordering/nope/seed 0.*?)</dt>", page))) == 4


def test_best_needs_a_paired_interval() -> None:
    noise = (0.02, -0.02, 0.03, -0.03, 0.01, -0.01, 0.02, -0.02)
    near = [loss + 0.001 + off for loss, off in zip(SPREAD, noise, strict=True)]
    far = [loss + 0.05 for loss in SPREAD]
    undecided = summarise(LANGUAGE, [read("alibi", SPREAD), read("rotary", near), read("nope", far)])
    assert "Within the trained length, the best is undecided between ALiBi and RoPE." in words.answer([undecided])
    assert [undecided.verdict(row) for row in undecided.rows] == ["holds", "holds", "holds"]
    assert "best" not in over_lengths(undecided).title
    decided = summarise(LANGUAGE, [read("alibi", SPREAD), read("nope", far)])
    assert "Within the trained length, ALiBi has the lowest perplexity." in words.answer([decided])
    assert [decided.verdict(row) for row in decided.rows] == ["holds, best at 512", "holds"]
    assert "ALiBi is best at 64" in over_lengths(decided).title
    alone = summarise(LANGUAGE, [read("alibi", SPREAD)])
    assert "Within the trained" not in words.answer([alone])  # best of one says nothing


@given(st.data())
def test_whoever_is_called_best_is_surely_ahead_of_every_other(data: st.DataObject) -> None:
    loss = st.floats(0.5, 2.5, allow_nan=False)
    names = data.draw(st.permutations(["alibi", "rotary", "nope", "fire"]))[: data.draw(st.integers(2, 4))]
    shifts = {name: data.draw(st.sampled_from((0.0, 0.01, 0.3))) for name in names}
    blocks = data.draw(st.lists(loss, min_size=2, max_size=6))
    seeds = range(data.draw(st.integers(1, 3)))
    noise = st.floats(-0.05, 0.05, allow_nan=False)
    runs = [
        read(name, [block + shifts[name] + data.draw(noise) for block in blocks], seed)
        for name in names
        for seed in seeds
    ]
    result = summarise(LANGUAGE, runs)
    best = result.best(64)
    means = {row.encoding: row.values[64].mean for row in result.rows}
    if best is None:
        assert len(result.leaders(64)) > 1
        assert "has the lowest perplexity" not in words.answer([result])
        return
    assert means[best.encoding] == min(means.values())
    assert len(seeds) > 1 or len(blocks) > 1


@pytest.mark.parametrize(
    ("gate", "what", "drawn"),
    [
        (2.9, "18.17 (that of a table of byte pairs)", "guessing from the last byte alone"),
        (3.0, "20.09 (that of guessing by byte frequency)", "gate"),
    ],
)
def test_two_seeds_are_shown_as_two_values_and_judged_by_their_interval(
    gate: float, what: str, drawn: str, tmp_path: Path
) -> None:
    runs = [
        read("alibi", SPREAD),
        read("alibi", [x + 0.1 for x in SPREAD], 1),
        read("nope", [x + 1 for x in SPREAD]),
        read("nope", [x + 1.05 for x in SPREAD], 1, far=[x + 2.05 for x in SPREAD]),
    ]
    result = summarise(replace(LANGUAGE, gate=gate), runs)
    row, other = result.rows
    values = [math.exp(fmean(run.cells[0].detail)) for run in row.runs]
    assert words.spread(result, row.values[64]) == f"{values[0]:.2f} and {values[1]:.2f}"
    assert words.difference(other)[1] == "+1.000 and +1.950"
    assert result.verdict(other) == "undecided, perplexity ×1.00 and ×2.72"
    (line,) = (line for line in of_results([result]) if line["encoding"] == "nope")
    change = line["change"][512]
    assert change["low"] < math.log(1.05) < change["high"]  # therefore undecided
    page = write(
        Outcome((result,), (), None, tuple(run.plan for run in runs)), tmp_path, "posenc compare", TINY
    ).read_text()
    interval = words.ends(other.lost[512])
    assert f"undecided, perplexity ×1.00 and ×2.72<br><small>rise {interval} nats (95%)</small>" in page
    assert all(said in page for said in ("learning rate 0.001; 8 scored targets at each length", what))
    assert [words.below(result), change["mean"], *change["seeds"]] == [
        "both seeds",
        *map(pytest.approx, (0.5, 0, 1)),
    ]
    (panel,) = over_lengths(result).panels
    line = next(line for line in panel.lines if line.encoding == "alibi")  # type: ignore[union-attr]
    assert [float(line.low[0]), float(line.high[0]), panel.levels[0][1]] == [*map(pytest.approx, values), drawn]  # type: ignore[union-attr]
    three = summarise(LANGUAGE, [*runs, read("alibi", SPREAD, 2)])  # the third of nope is missing
    assert all(" … " in words.spread(three, row.values[64]) for row in three.rows)
    lows = [float(line.low[0]) for line in over_lengths(three).panels[0].lines]  # type: ignore[union-attr]
    assert lows == pytest.approx([math.exp(row.values[64].low) for row in three.rows])


def test_an_option_takes_the_place_of_a_presets_rival_setting() -> None:
    assert read_study("small-gpt", options={"steps": "100"}).tokens is None
    standard = read_study("standard", options={"tokens": "100000"})
    assert (standard.steps, standard.tokens) == (None, 100_000)
    part = read_study("standard", options={"tokens": "language=100000"})
    assert part.steps == {"ordering": 900, "needle": 300}
    whole = read_study("small-gpt", options={"steps": "language=10"})
    assert (whole.steps, whole.tokens) == ({"language": 10}, None)


def test_a_task_has_an_axis_on_the_command_line() -> None:
    rate = declared(Study)["learning_rate"]
    assert rate.read("learning_rate", "ordering=1e-3,3e-3") == {"ordering": (1e-3, 3e-3)}
    both = rate.read("learning_rate", "ordering=1e-3,3e-3,language=1e-2")
    assert both == {"ordering": (1e-3, 3e-3), "language": 1e-2}
    study = read_study(options={"tasks": "ordering", "learning_rate": "ordering=1e-3,3e-3"})
    assert len(study.points("ordering")) == 2


def test_a_ledger_holds_json_alone(tmp_path: Path) -> None:
    cell = Cell(64, "accuracy_by_depth", 0.5, 8, (1.0, math.nan, 0.0))
    with Ledger(tmp_path, write=True) as ledger:
        ledger.add(Run(plan_of("rotary"), (cell,), 1.0, 10, 0.1))
        (detail,) = ledger._db.execute("SELECT detail FROM cells").fetchone()
    assert json.loads(detail, parse_constant=pytest.fail) == [1.0, None, 0.0]


def test_tables_and_settings_are_replaced_whole(copied_study: Path) -> None:
    """What is read while the page is written again is the old file or the new one."""
    held = {name: (copied_study / name).open() for name in ("tables.json", "study.toml", "report.html")}
    before = {name: (copied_study / name).read_text() for name in held}
    with Ledger(copied_study) as ledger:
        outcome = Comparison(SHARED, python_text(), ledger).outcome()
    write(outcome, copied_study, "posenc compare again", SHARED)
    for name, file in held.items():
        with file:
            assert file.read() == before[name]
            assert os.fstat(file.fileno()).st_ino != (copied_study / name).stat().st_ino
    assert not list(copied_study.glob("*.partial"))


def test_cutting_a_text_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POSENC_CACHE", str(tmp_path / "cache"))
    book = tmp_path / "book.txt"
    book.write_text("A line of a book.\n" * 60_000)
    study, said = replace(TINY, tasks=("language",), text=book), []
    study.read_text(said.append)
    assert said == ["tokenizing book.txt (1.1 MB on disk); the tokens are cached for later runs"]
    study.read_text(said.append)
    assert len(said) == 1
