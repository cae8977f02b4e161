"""Every link to try and every end of every control is answered in what JSON can state; so are all corners."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from posenc.teaching.lab.controls import Control
from posenc.teaching.lab.rooms import Stage, find, stages
from support.lab import reply

STAGES = [stage for _, stage in stages().values()]
FRESH = {stage.question for stage in STAGES if stage.fresh}


def ends(control: Control) -> tuple[str, ...]:
    """Where its slider ends, or every choice where there are few."""
    held = control.settable
    return held if len(held) <= 5 else (held[0], held[-1])


def asked(stage: Stage) -> Iterator[dict[str, str]]:
    yield from (dict(t.state) for t in stage.tries)
    yield from ({control.name: text} for control in stage.controls for text in ends(control))


def answered(stage: Stage, state: dict[str, str]) -> None:
    query = "&".join(f"{name}={text}" for name, text in state.items())
    found = reply(f"/api/{stage.question}", query)
    # A study may lack what a stage shows; it says so, and nothing else is refused.
    missing = stage.question in FRESH and b"type: posenc compare" in found.body
    missing = missing or (stage.question in FRESH and b"measured nothing by place" in found.body)
    assert found.status == 200 or missing, (query, found.body)
    json.loads(found.body)


@pytest.mark.parametrize(
    "stage",
    [pytest.param(s, id=s.question, marks=pytest.mark.slow if s.question == "looks" else ()) for s in STAGES],
)
def test_every_try_and_every_end_of_every_control_is_answered(study: Path, stage: Stage) -> None:
    for state in asked(stage):
        answered(stage, state)


def test_every_encoding_that_a_stage_offers_is_drawn() -> None:
    """Some encodings refuse a layer without a mask; a stage whose mask is a switch does not offer them."""
    for name, control in (("shuffle", "encoding"), ("attention", "with")):
        stage = find(name)
        offered = next(c.settable for c in stage.controls if c.name == control)
        for encoding in offered:
            answered(stage, {control: encoding})


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.question)
def test_every_stop_and_every_corner_is_answered(study: Path, stage: Stage) -> None:
    for control in stage.controls:
        for text in control.settable:
            answered(stage, {control.name: text})
    names = [control.name for control in stage.controls if control.settable]
    sides = [ends(control)[:: max(1, len(ends(control)) - 1)] for control in stage.controls if control.settable]
    for corner in itertools.product(*sides):
        answered(stage, dict(zip(names, corner, strict=True)))


def test_softmax_that_underflows_is_drawn(study: Path) -> None:
    """Steep slopes leave weights below the smallest number; a logarithmic axis leaves them out."""
    found = json.loads(reply("/api/weights", "some=16&context=4096").body)
    lines = found["panels"][0]["lines"]
    assert any(None in line["y"] for line in lines)
