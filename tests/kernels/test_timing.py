"""What is timed runs once before it counts."""

from posenc.kernels.timing import race


def test_every_way_is_run_once_before_it_counts() -> None:
    runs = []
    seconds = race({name: lambda name=name: runs.append(name) for name in "ab"}, rounds=2)
    assert runs == ["a", "b"] * 3
    assert set(seconds) == {"a", "b"}
