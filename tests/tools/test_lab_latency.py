"""The measurement of the lab's latency asks every stop of every control."""

from posenc.teaching.lab.rooms import find
from tools import lab_latency


def test_every_stop_is_asked_once() -> None:
    stage = find("slopes")
    stops = sum(len(control.settable) for control in stage.controls)
    assert [len(each) for each in lab_latency.times(stage)] == [stops, stops]
    assert [len(each) for each in lab_latency.times(find("spread"))] == [1, 1]  # no controls
