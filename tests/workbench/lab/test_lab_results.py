"""The results room reads the study it was given, and says what is missing where nothing is there."""

from pathlib import Path

import pytest

from posenc.errors import StudyError
from posenc.workbench.lab import results
from posenc.workbench.lab.questions import QUESTIONS, TASKS
from posenc.workbench.lab.replies import reply
from posenc.workbench.runs.ledger import Ledger
from posenc.workbench.tasks import TASKS as KNOWN
from posenc.workbench.views.view import Lines


def test_the_tasks_offered_are_those_there_are() -> None:
    assert set(TASKS) == set(KNOWN)


def test_curves_are_the_ledgers_numbers(study: Path) -> None:
    panel = results.curves("needle").panels[0]
    assert isinstance(panel, Lines)
    with Ledger(study) as ledger:
        runs = [run for run in ledger.runs() if run.plan.task == "needle"]
    for line in panel.lines:
        (run,) = (run for run in runs if run.plan.encoding == line.encoding)
        cells = [run.cell(length, "accuracy") for length in run.plan.lengths]
        assert line.values.tolist() == pytest.approx([cell.value for cell in cells if cell])
        assert line.hollow  # two steps teach nobody


def test_what_is_missing_is_said(study: Path, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"no recent run in .* yet; type: posenc compare --tasks recent"):
        QUESTIONS["curves"].answer({"task": "recent"})
    results.use(tmp_path / "nowhere")
    try:
        refused = reply("/api/curves")
    finally:
        results.use(study)
    assert refused.status == 400
    assert b"starts one" in refused.body
