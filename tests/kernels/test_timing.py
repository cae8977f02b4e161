"""What is decided from measured seconds, without a clock."""

import pytest
import torch

from posenc.attention import choice
from posenc.kernels.choose import Choice
from posenc.kernels.timing import decide, race


def test_the_first_way_is_kept_unless_another_clearly_wins() -> None:
    kept = decide({"line": 0.0100, "channels": 0.0086})
    assert kept == Choice(
        "line", "measured here: line 10.0 ms, channels 8.6 ms; line stays, as nothing wins by 15%"
    )
    won = decide({"line": 0.0100, "channels": 0.0084})
    assert won == Choice("channels", "measured here: line 10.0 ms, channels 8.4 ms")


def test_every_way_is_run_once_before_it_counts() -> None:
    runs = []
    found = race({name: lambda name=name: runs.append(name) for name in "ab"}, rounds=2)
    assert runs == ["a", "b"] * 3
    assert set(found) == {"a", "b"}


def test_a_kind_of_call_is_measured_once_and_short_calls_never(monkeypatch: pytest.MonkeyPatch) -> None:
    raced = []

    def racing(ways: dict) -> dict[str, float]:
        raced.append(sorted(ways))
        return {"line": 2.0, "channels": 1.0}

    monkeypatch.setattr(choice, "race", racing)
    monkeypatch.setattr(choice, "made", {})
    ways = {"line": torch.add, "channels": torch.sub}

    def ask(length: int, training: bool) -> str:
        return choice.choice(torch.empty(1, 2, length, 4), training, lambda heads, length: ways).impl

    assert ask(choice.SHORT - 1, False) == "line"
    assert not raced
    assert [ask(n, False) for n in (choice.LONG, 2 * choice.LONG)] == ["channels", "channels"]
    assert len(raced) == 1
    ask(choice.LONG, True)
    ask(choice.SHORT, True)
    assert len(raced) == len(choice.made) == 3
    assert "channels 1000.0 ms" in next(iter(choice.made.values())).reason
