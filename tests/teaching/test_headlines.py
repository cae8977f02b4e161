"""Headlines of the lab say what their pictures show: counted again from the drawn values, at every stop."""

import pytest
import torch

from posenc.pictures.view import Heatmap, Lines, View
from posenc.teaching.lab import results
from posenc.teaching.lab.rooms import find
from posenc.teaching.lessons.example import EXAMPLE


def maps(view: View) -> list[torch.Tensor]:
    """The values of its heatmaps."""
    return [panel.values.double() for panel in view.panels if isinstance(panel, Heatmap)]


def drawn(view: View) -> list[torch.Tensor]:
    """The curves of its charts."""
    return [line.values for panel in view.panels if isinstance(panel, Lines) for line in panel.lines]


def stops(stage: str, name: str) -> list[str]:
    (control,) = (c for c in find(stage).controls if c.name == name)
    return list(control.settable)


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


@pytest.mark.parametrize("task", ["ordering", "language", "needle"])
def test_neighbours_in_a_trained_table_are_compared_without_its_first_three_rows(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(results._shelf, "study", EXAMPLE)
    view = find("trained-table").answer({"of_task": task})
    _, after = maps(view)
    near: list[float] = []
    other: list[float] = []
    for i in range(3, len(after)):
        for j in range(i + 1, len(after)):
            (near if j == i + 1 else other).append(float(after[i, j]))
    means = [sum(each) / len(each) for each in (near, other)]
    if task == "ordering":
        assert [round(mean, 2) for mean in means] == [0.44, 0.33]
    assert view.title.endswith("a cosine of {:.2f}, other pairs of {:.2f}".format(*means))


@pytest.mark.parametrize("width", stops("sums", "sum"))
def test_what_a_linear_layer_recovers_is_where_the_curves_end(width: str) -> None:
    view = find("sums").answer({"sum": width, "at": "5"})
    words, positions = (float(curve[-1]) for curve in drawn(view))
    assert view.title == (
        f"At width {width} a linear layer recovers {words:.0%} of the words and {positions:.0%} of the positions"
    )
    (rows,) = maps(view)
    torch.testing.assert_close(rows[2], rows[0] + rows[1])


@pytest.mark.parametrize("causal", ["0", "1"])
@pytest.mark.parametrize("encoding", stops("shuffle", "encoding"))
def test_outputs_follow_the_words_where_the_tables_say_so(encoding: str, causal: str) -> None:
    for order in ("0-1-2", "1-0-2", "2-1-0", "2-0-1"):
        view = find("shuffle").answer({"encoding": encoding, "causal": causal, "order": order})
        plain, *moved = maps(view)
        if order == "0-1-2":
            assert (view.title, moved) == ("One output vector for each word", [])
            continue
        places = [int(at) for at in order.split("-")]
        changed = sum(int(((moved[0][t] - plain[at]).abs() >= 1e-5).sum()) for t, at in enumerate(places))
        assert view.title.startswith("Yes: the same word now gets another" if changed else "No: the outputs follow")
        assert view.readouts["outputs"] == ("changed" if changed else "the same vectors, moved")
        assert view.readouts["values changed"] == changed


@pytest.mark.parametrize("channels", stops("score", "channels"))
@pytest.mark.parametrize("content", stops("score", "content"))
def test_a_score_falls_wanders_or_peaks_as_its_headline_says(content: str, channels: str) -> None:
    view = find("score").answer({"content": content, "channels": channels})
    (values,) = drawn(view)
    steps = values.diff()
    if content == "aligned":
        assert float(steps[0]) < 0
        assert int((steps > 0).sum()) > 0
    elif content == "peaked":
        assert view.title.endswith(f"at distance {int(values.argmax())}")
    told = [round(value, 9) for value in values.tolist()]
    places: dict[float, list[int]] = {}
    for place, value in enumerate(sorted(told)):
        places.setdefault(value, []).append(place)
    ranks = torch.tensor([sum(places[value]) / len(places[value]) for value in told], dtype=torch.float64)
    both = torch.stack((ranks, torch.arange(len(told), dtype=torch.float64)))
    correlation = float(torch.corrcoef(both)[0, 1])
    assert view.readouts["rank correlation of score and distance"] == pytest.approx(correlation, abs=1e-9)
    if content == "random":
        assert view.title.endswith(f"{correlation:.2f}")
