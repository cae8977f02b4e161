"""Headlines of the lab say what their pictures show: counted again from the drawn values, at every stop."""

import pytest

from posenc.pictures.view import Lines
from posenc.teaching.lab.rooms import find


@pytest.mark.parametrize("factor", ["1", "2", "8", "32"])
@pytest.mark.parametrize("method", ["linear", "ntk", "dynamic", "yarn", "yarn-paper", "llama3"])
def test_pairs_are_counted_as_they_are_drawn(method: str, factor: str) -> None:
    view = find("scaling").answer({"method": method, "factor": factor})
    panel = view.panels[0]
    assert isinstance(panel, Lines)
    if factor == "1":
        assert view.title == "The unscaled frequencies"
        return
    unscaled, scaled = (line.values for line in panel.lines[:2])
    slowed = unscaled / scaled
    most = slowed.max()
    kept, slowest = int((slowed < 1 + 1e-9).sum()), int((slowed > most * (1 - 1e-9)).sum())
    less = len(slowed) - kept - slowest
    rest = f" and {less} by less" if less else ""
    assert view.title.endswith(f"keeps {kept} of 64 pairs, slows {slowest} by {most:.4g} times{rest}")
    assert view.readouts["pairs that keep their frequency"] == kept


@pytest.mark.parametrize("furthest", ["64", "96", "128", "192", "256", "384", "512"])
@pytest.mark.parametrize("both", ["0", "1"])
def test_the_last_bucket_begins_where_it_is_drawn(furthest: str, both: str) -> None:
    view = find("buckets").answer({"max_distance": furthest, "two_sided": both})
    panel = view.panels[0]
    assert isinstance(panel, Lines)
    buckets = panel.lines[0].values
    count = int(view.readouts["learned numbers for each head"]) // (2 if both == "1" else 1)
    assert buckets.max() == count - 1
    assert view.readouts["the last bucket begins at"] == int((buckets == count - 1).nonzero()[0])
