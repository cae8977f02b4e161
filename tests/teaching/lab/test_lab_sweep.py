"""All corners of the controls of a stage are answered in what JSON can state."""

import itertools
import json
from pathlib import Path

import pytest

from posenc.teaching.lab.controls import Control
from posenc.teaching.lab.rooms import BY_QUESTION, Stage
from support.lab import reply

STAGES = [stage for _, stage in BY_QUESTION.values()]
FRESH = {stage.question for stage in STAGES if stage.fresh}


def ends(control: Control) -> tuple[str, ...]:
    """Where its slider ends, or every choice where there are few."""
    held = control.settable
    return held if len(held) <= 5 else (held[0], held[-1])


def answered(stage: Stage, state: dict[str, str]) -> None:
    query = "&".join(f"{name}={text}" for name, text in state.items())
    found = reply(f"/api/{stage.question}", query)
    # A study may lack what a stage shows; it says so, and nothing else is refused.
    lacks = (b"type: posenc compare", b"have no accuracy by depth; choose needle, recent or flip-flop")
    missing = stage.question in FRESH and any(words in found.body for words in lacks)
    assert found.status == 200 or missing, (query, found.body)
    json.loads(found.body)


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.question)
def test_every_corner_is_answered(study: Path, stage: Stage) -> None:
    """Headlines are tested at every stop of one control alone."""
    names = [control.name for control in stage.controls if control.settable]
    sides = [ends(control)[:: max(1, len(ends(control)) - 1)] for control in stage.controls if control.settable]
    for corner in itertools.product(*sides):
        answered(stage, dict(zip(names, corner, strict=True)))
