"""The page of a study is there while it goes on: what has ended, what is being learnt, and how fast."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from posenc.pictures.numbers import count
from posenc.workbench.report import charts
from posenc.workbench.report import write as live
from posenc.workbench.report.write import write
from posenc.workbench.run.job import Progress, Report
from posenc.workbench.run.ledger import Ledger
from posenc.workbench.run.plan import LossCurve
from posenc.workbench.study.comparison import Comparison
from support.studies import TINY, inline, plan_of, python_text

STUDY = replace(TINY, tasks=("needle",), encodings=("nope", "alibi"))


def test_a_page_written_while_runs_go_on_says_how_far_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "FIRST", 0.0)
    text, pages = python_text(), []
    with Ledger(tmp_path, write=True) as ledger:
        page = live.Live(
            lambda: live.write(Comparison(STUDY, text, ledger).outcome(), tmp_path, "posenc compare", STUDY)
        )
        second = STUDY.plans(text)[1]

        def look(result: object) -> None:
            if not pages:
                ledger.note(Progress(second.id, 1, 0, LossCurve((3.0,), 640, 0.5)))
            page.look(pages.append)
            pages.append((tmp_path / "report.html").read_text())
            assert page.next > 0

        Comparison(STUDY, text, ledger).run(inline, finished=look)
    assert "Under way: 1 of 2 runs have ended; load this page again" in pages[0]
    assert pages[1] == pages[0]  # just written
    assert "<h2>Training</h2>" in pages[0]
    assert count(1280) in pages[0]  # tokens a second of the run under way
    assert 'id="figure-needle-steps"' in pages[0]


def test_the_guide_says_when_the_page_comes() -> None:
    guide = " ".join((Path(__file__).parents[3] / "docs" / "studies.md").read_text().split())
    assert "The report is first written five minutes into a study, then updated as runs end" in guide
    assert live.FIRST == 5 * 60


def test_curves_of_seeds_that_have_come_less_far_count_where_they_are() -> None:
    plans = [plan_of("nope", seed=seed, steps=100) for seed in range(3)]
    curves = {plans[0].id: LossCurve((1.0,) * 100), plans[1].id: LossCurve((3.0,) * 50)}
    (line,) = charts.over_steps("needle", plans, curves).panels[0].lines  # type: ignore[union-attr]
    assert line.values.tolist() == [2.0] * 25 + [1.0] * 25


def test_a_study_that_has_told_nothing_has_no_such_part(tmp_path: Path) -> None:
    def nothing(jobs: Sequence[object], done: object, report: Report) -> None:
        pass

    with Ledger(tmp_path, write=True) as ledger:
        found = Comparison(STUDY, python_text(), ledger).run(nothing)
    assert "<h2>Training</h2>" not in write(found, tmp_path, "posenc compare", STUDY).read_text()
    assert (found.results, len(found.plans)) == ((), 2)
