"""The baseline lists every answer that came, went or changed, by its path."""

from dataclasses import dataclass

import torch

from tools import baseline


@dataclass
class Reading:
    base: float
    layers: tuple[object, ...]


def test_differences_name_what_came_went_and_changed() -> None:
    before = {"a": {"x": [1, 2], "y": {}}, "gone": 1, "same": [None, {"z": "t"}]}
    after = {"a": {"x": [1, 3, 4], "y": {}}, "new": 1, "same": [None, {"z": "t"}]}
    assert list(baseline.differences(before, after)) == [
        "a /x/1: 2 -> 3",
        "a /x/2: 'nothing' -> 4",
        "only before: gone",
        "only after: new",
    ]
    assert list(baseline.differences(before, before)) == []


def test_a_recipe_is_written_by_its_fields() -> None:
    reading = Reading(1e4, (Reading(2.0, ()), {"a": torch.Size([2])}))
    nested = {"": "Reading", "base": 2.0, "layers": []}
    assert baseline.plain(reading) == {"": "Reading", "base": 1e4, "layers": [nested, {"a": [2]}]}


def test_a_command_is_answered_with_its_status() -> None:
    answer = baseline.posenc("inspect", "/no/such/config.json")
    assert answer["status"] != 0
    assert any("/no/such/config.json" in line for line in answer["err"])
