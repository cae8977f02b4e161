"""Studies on a grid: positions by an encoding's axes, tables resized to larger grids, and who sees whom."""

from dataclasses import replace
from pathlib import Path

import torch

import posenc
from posenc.encodings.text import parse
from posenc.workbench.run.training import build, train_and_test
from posenc.workbench.study.study import read_study
from posenc.workbench.tasks.neighbours import Neighbours
from support.studies import TINY, plan_of, python_text, ran

TABLE, RESIZED = "learned-grid(num_positions=3)", "learned-grid(num_positions=3, resize=vit)"
GRID = replace(
    TINY,
    encodings=("nope", "rotary(axes=axial(4, 4))", "rotary(axes=chunked(2, 3, 3))", TABLE, RESIZED),
    tasks=("neighbours",),
    train_length=9,
    steps=2,
    batch=4,
    answers=2,
)


def test_tables_are_resized_to_larger_grids_or_refuse_them(tmp_path: Path) -> None:
    (found,) = ran(GRID, tmp_path).results
    rows = {row.encoding: row for row in found.rows}
    assert rows.pop(TABLE).refusal.startswith(
        "positions[0] contains 3, but this table is for pictures of 3 rows and"
    )
    assert len(rows) == 4
    assert all(set(row.values) == {9, 18} for row in rows.values())


def test_a_table_resized_for_a_test_leaves_the_model_as_it_was() -> None:
    plan = plan_of(RESIZED, task="neighbours", train_length=9, lengths=(9,), batch=2)
    model = build(plan, Neighbours(9))
    larger = model.enlarged(4, 4)
    assert larger.embedding is model.embedding
    assert larger.encoding.picture == (4, 4)
    assert model.encoding.picture == (3, 3)
    assert model.enlarged(3, 2) is model
    assert model.enlarged() is model


def test_cells_see_those_after_them() -> None:
    plan = plan_of("rotary(axes=axial(4, 4))", task="neighbours", train_length=9, lengths=(9,), steps=1, batch=2)
    model, _ = train_and_test(plan, python_text())
    batch = Neighbours(9).draw(torch.Generator(), 1, 9)
    changed = batch.tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 64
    first, then = (model(tokens, batch.positions)[:, 0] for tokens in (batch.tokens, changed))
    assert not torch.equal(first, then)


def test_the_zoo_of_grids_has_every_encoding_with_several_axes() -> None:
    study = read_study("zoo-grid")
    told = {parse(text).name for text in study.encodings}
    for name in posenc.CATALOGUE:
        axes = posenc.encoding(name, width=64, heads=4, head_dim=16, num_positions=8).axes
        assert axes == 1 or name in told, name
    for plan in study.plans(python_text()):
        build(plan, Neighbours())
