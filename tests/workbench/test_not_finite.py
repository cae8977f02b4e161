"""A loss that is NaN or infinite is a result: it is named, never ranked first, and ends neither runs nor pages."""

import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from posenc.scaling import Default
from posenc.teaching.lab import results
from posenc.workbench import notebook
from posenc.workbench.extension.decision import Candidate, Extension
from posenc.workbench.extension.methods import methods
from posenc.workbench.report import words
from posenc.workbench.report import write as live
from posenc.workbench.report.charts import over_lengths, over_positions
from posenc.workbench.report.extension import headline
from posenc.workbench.report.words import answer, sentence
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import Run
from posenc.workbench.run.training import build, evaluate
from posenc.workbench.study.comparison import Comparison, Outcome
from posenc.workbench.study.results import TaskResult, summarise
from posenc.workbench.study.statistics import over_seeds, paired
from posenc.workbench.tasks import Criteria, task, task_class
from support.command_line import said as said_by
from support.custom import write
from support.extensions import TEXT
from support.studies import TINY, inline, measured, plan_of, python_text

LANGUAGE = Criteria("language", task_class("language").question, "loss", 3.0, 2.9)
NAN, INF = math.nan, math.inf


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A class of one's own whose bias is the logarithm of a negative number past 200 tokens."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield write(tmp_path, "ends_at_200", "rates.view(-1, *[1] * offsets.dim()) * (1 - offsets.abs() / 200).log()")
    sys.modules.pop("ends_at_200", None)


def test_a_study_with_a_loss_that_is_nan_ends_with_a_table_a_page_and_every_run(
    own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "FIRST", 0.0)  # a page as soon as the first run has ended
    (tmp_path / "study.toml").write_text(
        "blocks = 4\nbatch = 2\nwidth = 16\nheads = 2\nlayers = 1\n[steps]\nlanguage = 8\n"
    )
    asked = f"--encodings {own},alibi --tasks language --lengths 1,2 --config study.toml --launcher in-process"
    output = said_by("compare", *asked.split())
    assert "loss not finite at 256" in output
    assert "cannot be written" not in output
    assert "loss not finite at 256" in (tmp_path / "study" / "report.html").read_text()
    assert "loss not finite at 256" in list(notebook.Opened(tmp_path / "study").verdicts["verdict"])
    monkeypatch.setitem(results._shelf, "study", tmp_path / "study")
    assert len(results.curves().panels[0].lines) == 2  # type: ignore[union-attr]


def test_what_a_page_raises_never_reaches_the_runs_and_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> Outcome:
        raise ValueError("no such colour")

    monkeypatch.setattr(live, "FIRST", 0.0)
    study, said = replace(TINY, tasks=("needle",)), list[str]()
    page = live.Live(fails)
    with Ledger(tmp_path, write=True) as ledger:
        Comparison(study, python_text(), ledger).run(inline, finished=lambda found: page.look(said.append))
        page.next = 0.0
        page.look(said.append)
        assert len(ledger.ids()) == 3
    assert said == ["the page cannot be written yet (ValueError: no such colour); the runs continue"]


def run(encoding: str, *losses: float, seed: int = 0) -> Run:
    """A run of the language task, its losses at 64, 128 and 256 tokens."""
    by_length = {n: (float(loss),) * 2 for n, loss in zip((64, 128, 256), losses, strict=True)}
    return measured(encoding, by_length, ("loss", "window_loss", "loss_by_position"), seed=seed)


def verdicts(result: TaskResult) -> dict[str, str]:
    return {row.encoding: result.verdict(row) for row in result.rows}


@pytest.mark.parametrize("lost", [NAN, INF])
def test_it_is_never_the_best_and_stands_in_nobodys_way(lost: float) -> None:
    result = summarise(
        LANGUAGE, [run("nope", 2.0, lost, lost), run("alibi", 2.0, 2.0, 2.0), run("rotary", 2, 3, 4)]
    )
    assert verdicts(result) == {
        "alibi": "holds, best at 256",
        "rotary": "worse, perplexity ×7.39",
        "nope": "loss not finite at 128",
    }
    assert [row.to_best and row.to_best.mean for row in result.rows] == [None, 2.0, None]
    assert "NoPE" not in sentence(result)
    assert answer([result]).startswith("At 4× the trained length, ALiBi holds")
    (panel,) = over_lengths(result).panels
    assert math.isnan({line.encoding: line for line in panel.lines}["nope"].values[2])  # type: ignore[union-attr]
    positions = over_positions(result)
    assert [bool(line.values.isfinite().all()) for line in positions.panels[0].lines] == [True, True, False]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("losses", "verdict"),
    [
        ([(2.0, NAN, 2.0)], "loss not finite at 128"),  # though it is finite again further on
        ([(2.0, 2.0, 2.0), (2.0, 2.0, NAN), (2.0, 2.0, 2.0)], "loss not finite at 256"),  # of one seed of three
        ([(NAN, NAN, NAN)], "loss not finite at 64"),
        ([(2.0, 2.0, 900.0)], "worse, perplexity ×∞"),
    ],
)
def test_what_lost_its_loss_somewhere_in_some_seed_holds_nothing(
    losses: list[tuple[float, ...]], verdict: str
) -> None:
    runs = [run(name, *of, seed=seed) for seed, of in enumerate(losses) for name in ("nope", "alibi")]
    steady = [replace(it, cells=run("alibi", 2, 2, 2).cells) if it.plan.encoding == "alibi" else it for it in runs]
    result = summarise(LANGUAGE, steady)
    assert verdicts(result)["nope"] == verdict
    assert [row.encoding for row in result.rows if result.standing(row) == "holds"] == ["alibi"]


def test_what_has_no_loss_at_the_trained_length_passed_no_gate() -> None:
    assert answer([summarise(LANGUAGE, [run("nope", NAN, NAN, NAN)])]).startswith(
        "At 4× the trained length, no encoding is ranked, as none passed the gate at"
    )


def test_statistics_carry_it() -> None:
    for broken in ([1.0, NAN], [1.0, INF], [INF, -INF]):
        for found in (over_seeds(broken), paired(broken, [1.0, 1.0])):
            assert [math.isnan(part) for part in (found.mean, found.low, found.high)] == [True] * 3


def test_a_perplexity_past_all_floats_is_a_sign_and_no_error() -> None:
    wide = summarise(
        LANGUAGE,
        [run("alibi", 2, 2, 2), run("nope", 2, 2, 2), run("nope", 2, 2, 650, seed=1), run("nope", 2, 2, 3, seed=2)],
    )
    (row,) = (row for row in wide.rows if row.encoding == "nope")
    assert row.values[256].high > 710  # of three seeds
    assert words.spread(wide, row.values[256]).endswith("… ∞")
    high = {line.encoding: line for line in over_lengths(wide).panels[0].lines}["nope"].high  # type: ignore[union-attr]
    assert high[2] == INF


def test_an_answer_that_is_nan_is_not_right() -> None:
    plan = plan_of("nope", width=16, heads=2, layers=1)
    needle = task("needle", python_text(), 128)
    model = build(plan, needle)
    torch.nn.init.constant_(model.embedding.weight, NAN)
    found = [cell for cell in evaluate(model, needle, (64,), 64) if cell.measure == "accuracy"]
    assert [cell.value for cell in found] == [0.0]


@pytest.mark.parametrize("where", [slice(0, 6), slice(0, 2), slice(4, 6)], ids=["all", "inside", "far"])
def test_an_extension_never_recommends_it(where: slice) -> None:
    none, linear, yarn = methods(("none", "linear", "yarn"), Default(), 16, 3.0)
    losses = torch.full((4, 6), 2.0, dtype=torch.float64) + torch.arange(4)[:, None]
    broken = losses.clone()
    broken[:, where] = NAN
    curves = (Candidate(none, broken), Candidate(linear, losses + 1), Candidate(yarn, broken))
    found = Extension("a model", "token", 16, 48, 8, curves, losses[:, :2] + 2, TEXT)
    assert found.chosen.method.name == "linear"
    assert headline(found).startswith("Use linear")
    assert headline(replace(found, window=losses[:, :2])).startswith("Do not extend")
    nothing = replace(found, curves=(Candidate(none, broken), Candidate(yarn, broken)), window=broken[:, :2] * NAN)
    assert headline(nothing).startswith("No method reads 48 tokens with a finite loss")
    assert not nothing.decided
    reach = found.effective_length(found.curves[0])
    finite = 32 if where.start else 0  # the interval reaches no length whose loss is NaN
    assert (reach.tokens, reach.low, reach.high) == (finite, finite, finite)
