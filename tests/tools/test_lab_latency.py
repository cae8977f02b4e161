"""The measurement of the lab's latency asks every stop of every control."""

from posenc.teaching.lab.rooms import find
from tools import lab_latency


def test_every_stop_is_asked_once() -> None:
    stage = find("slopes")
    assert len(lab_latency.times(stage)) == sum(len(control.settable) for control in stage.controls)
    assert len(lab_latency.times(find("spread"))) == 1  # no controls
