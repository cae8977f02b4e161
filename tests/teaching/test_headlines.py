"""Headlines of the lab say what their pictures show: counted again from the drawn values, at every stop."""

import json
import math
import re
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
import torch
from scipy.stats import spearmanr

from posenc.errors import StudyError
from posenc.pictures import wire
from posenc.pictures.numbers import short
from posenc.pictures.view import Heatmap, Lines, Plane, View
from posenc.teaching.lab import results
from posenc.teaching.lab.rooms import BY_QUESTION, find
from posenc.teaching.lessons.example import EXAMPLE
from support.views import only


def maps(view: View) -> list[torch.Tensor]:
    """The values of its heatmaps."""
    return [panel.values.double() for panel in view.panels if isinstance(panel, Heatmap)]


def drawn(view: View) -> list[torch.Tensor]:
    """The curves of its charts."""
    return [line.values for panel in view.panels if isinstance(panel, Lines) for line in panel.lines]


def stops(stage: str, name: str) -> list[str]:
    (control,) = (c for c in find(stage).controls if c.name == name)
    return list(control.settable)


@pytest.mark.parametrize("factor", ["1", "2", "8", "32", "256"])
@pytest.mark.parametrize("method", ["linear", "ntk", "dynamic", "yarn", "yarn-paper", "llama3"])
def test_pairs_are_counted_as_they_are_drawn(method: str, factor: str) -> None:
    view = find("scaling").answer({"method": method, "factor": factor})
    if factor == "1":
        assert (view.title, len(view.readouts)) == ("The unscaled frequencies", 3)
        return
    unscaled, scaled = drawn(view)
    slowed = scaled / unscaled
    most = slowed.max()
    kept, slowest = int((slowed < 1 + 1e-9).sum()), int((slowed > most * (1 - 1e-9)).sum())
    less = len(slowed) - kept - slowest
    rest = f" and {less} by less" if less else ""
    assert view.title.endswith(
        f"keeps {kept} of 64 pairs, slows {slowest} by {short(round(float(most), 2))} times{rest}"
    )
    assert view.readouts["pairs that keep their frequency"] == kept


@pytest.mark.parametrize("furthest", ["64", "96", "128", "192", "256", "384", "512"])
@pytest.mark.parametrize("both", ["0", "1"])
def test_the_last_bucket_begins_where_it_is_drawn(furthest: str, both: str) -> None:
    view = find("buckets").answer({"max_distance": furthest, "two_sided": both})
    buckets, *_ = drawn(view)
    count = int(view.readouts["learned numbers for each head"]) // (2 if both == "1" else 1)
    assert buckets.max() == count - 1
    assert view.readouts["the last bucket begins at"] == int((buckets == count - 1).nonzero()[0])


PAIRS = ("neighbours from row 2 on", "other pairs from row 2 on")


@pytest.mark.parametrize("task", ["ordering", "language", "needle"])
def test_neighbours_in_a_trained_table_are_compared_without_its_first_two_rows(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(results._shelf, "study", EXAMPLE)
    view = find("trained-table").answer({"of_task": task})
    _, after = maps(view)
    rows = after[2:, 2:]
    others = rows[torch.ones_like(rows).triu(2).bool()]
    means = [float(pairs.mean()) for pairs in (rows.diagonal(1), others)]
    if task == "ordering":
        assert [round(mean, 2) for mean in means] == [0.42, 0.28]
    assert [float(str(view.readouts[f"{pairs}, after"]).replace("−", "-")) for pairs in PAIRS] == [
        round(mean, 2) for mean in means
    ]
    split = "splits" in view.title
    assert split == (task == "ordering")
    first = float(after[:2, 2:].mean())
    assert told(view) == [2, *(round(mean, 2) for mean in ([first] if split else means))]


@pytest.mark.parametrize("width", stops("sums", "sum"))
def test_what_a_linear_layer_recovers_is_where_the_curves_end(width: str) -> None:
    view = find("sums").answer({"sum": width, "at": "5"})
    words, positions = (float(curve[-1]) for curve in drawn(view))
    assert view.title == (
        f"At width {width} a linear layer recovers {words:.0%} of 200 words and {positions:.0%} of 64 positions"
    )
    assert (view.readouts["words by chance"], view.readouts["positions by chance"]) == ("1 in 200", "1 in 64")
    (rows,) = maps(view)
    torch.testing.assert_close(rows[2], rows[0] + rows[1])


@pytest.mark.parametrize("order", ["0-1-2", "1-0-2", "2-1-0", "2-0-1"])
@pytest.mark.parametrize("causal", ["0", "1"])
@pytest.mark.parametrize(
    ("encoding", "remove"), [(n, "0") for n in stops("shuffle", "encoding")] + [("rotary", "1")]
)
def test_outputs_follow_the_words_where_the_tables_say_so(
    encoding: str, remove: str, causal: str, order: str
) -> None:
    view = find("shuffle").answer({"encoding": encoding, "causal": causal, "order": order, "remove": remove})
    plain, *moved = maps(view)
    if order == "0-1-2":
        assert (view.title, view.readouts["status"], moved) == (
            "One output vector for each word",
            "nothing moved",
            [],
        )
        return
    places = [int(at) for at in order.split("-")]
    changed = int(((moved[0] - plain[places]).abs() >= 1e-5).sum())
    values = plain.numel()
    assert view.title.startswith(
        f"Order counts: {changed} of {values}" if changed else "Nothing changes: each output"
    )
    assert view.readouts["status"] == ("changed" if changed else "the same vectors, moved")
    assert view.readouts["output values changed"] == f"{changed} of {values}"


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
    correlation = float(spearmanr(values.numpy().round(9), range(len(values))).statistic)
    assert view.readouts["rank correlation of score and distance"] == pytest.approx(correlation, abs=1e-9)
    if content == "random":
        assert told(view) == [round(correlation, 2)]
        assert ("hardly" in view.title) == (abs(correlation) < 0.5)


def told(view: View) -> list[float]:
    """The numbers of a headline, in their order."""
    return [float(n.replace("−", "-")) for n in re.findall(r"−?\d+(?:\.\d+)?", view.title)]


def heatmap(view: View, state: dict[str, str]) -> None:
    panel = only(view, Heatmap)
    codes = panel.values if panel.rows.name == "position" else panel.values.T
    at = [min(int(state.get(name, start)), len(codes) - 1) for name, start in (("first", 3), ("second", 20))]
    assert told(view) == [*at, pytest.approx(float(torch.cosine_similarity(*codes[at], dim=0)), abs=6e-3)]


def hands(view: View, state: dict[str, str]) -> None:
    panel = only(view, Plane)
    width, position = int(state.get("hands", 8)), int(state.get("position", 100))
    assert view.readouts["turns of the fastest hand"] == pytest.approx(position / (2 * math.pi))
    assert told(view) == [width // 2, position] == [len(panel.arrows), position]
    for i, arrow in enumerate(panel.arrows[:4]):
        angle = math.fmod(position * 10_000 ** (-2 * i / width), 2 * math.pi)
        length = math.hypot(arrow.x, arrow.y)
        assert arrow.x / length == pytest.approx(math.cos(angle), abs=1e-5)
        assert arrow.y / length == pytest.approx(math.sin(angle), abs=1e-5)
        sin, cos = (float(n.replace("−", "-")) for n in re.findall(r"−?\d\.\d+", arrow.text))
        assert (sin, cos) == pytest.approx((math.sin(angle), math.cos(angle)), abs=6e-4), "said as the code has it"


def counter(view: View, state: dict[str, str]) -> None:
    bits = maps(view)[0]
    bits = bits if bits.shape[0] == int(state.get("bits", 4)) else bits.T
    flips = bits.diff(dim=1).abs().sum(1)
    assert int(flips[0]) == bits.shape[1] - 1, "the first flips at every step"
    assert all(slower < faster or slower == 0 for faster, slower in pairwise(flips.tolist()))


def falloff(view: View, state: dict[str, str]) -> None:
    (panel,) = view.panels
    alike = panel.lines[0].values if isinstance(panel, Lines) else panel.values[0]  # type: ignore[union-attr]
    rise = next((k for k, (near, far) in enumerate(pairwise(alike.tolist())) if far > near), None)
    assert told(view) == ([len(alike) - 1] if rise is None else [rise])
    if rise is not None and isinstance(panel, Lines):
        gain = float(alike[rise + 1] - alike[rise])
        assert panel.marks == ((rise, f"{rise} → {rise + 1}: +{gain:.2f}"),)
    assert ("at every step" in view.title) == (rise is None)
    assert view.readouts.get("first rise after distance") == rise


def shift(view: View, state: dict[str, str]) -> None:
    rotation, codes = maps(view)
    torch.testing.assert_close(rotation @ codes[0], codes[2])
    torch.testing.assert_close(codes[1], codes[2])
    assert not torch.equal(codes[0], codes[2]) or state.get("by") == "0"
    torch.testing.assert_close(rotation @ rotation.T, torch.eye(len(rotation), dtype=torch.float64))
    # Float64 sums of 8 products of numbers below 1; least squares over 32 rows loses a few digits more.
    assert float(view.readouts["error of 32 moved encodings, at most"]) <= 1e-9
    assert told(view) == [float(state.get("by", 5))]
    assert float(rotation[0, 0]) == pytest.approx(math.cos(float(state.get("by", 5))), abs=1e-6)


def counting(view: View, state: dict[str, str]) -> None:
    way, length = state.get("way", "number"), int(state.get("length", 100))
    curves = drawn(view)
    if way == "number":
        assert view.title.startswith(
            f"At position {length - 1}{',' if curves[0][-1] >= 5 else ' the number drowns'}"
        )
        assert told(view)[1] == pytest.approx(float(curves[0][-1]), rel=0.05)
    elif way == "share":
        assert [*told(view), len(curves)] == [
            pytest.approx(1 / (length - 1), rel=0.006),
            *([11, 1] if length == 11 else [length, 0.1, 11, 2]),
        ]
        assert float(curves[-1][1] - curves[-1][0]) == pytest.approx(1 / (length - 1))
    else:
        flips = [(p ^ (p + 1)).bit_count() for p in range(length)]
        assert told(view)[:2] == [1, max(flips)]
        assert [round(step**2) for step in curves[0].tolist()] == flips
        assert float(curves[1].max() - curves[1].min()) < 1e-6
        assert told(view)[2] == pytest.approx(float(curves[1][0]), abs=5e-4)


def turned(view: View, state: dict[str, str]) -> None:
    added, rotated = drawn(view)
    assert told(view)[0] == float(state.get("apart", 2))
    assert told(view)[1] == pytest.approx(float(rotated[0]), abs=5e-4)
    assert float(rotated.max() - rotated.min()) < 1e-5 < float(added.max() - added.min())


def attention(view: View, state: dict[str, str]) -> None:
    plain, placed = (each.nan_to_num() for each in maps(view))
    torch.testing.assert_close(plain.sum(1), torch.ones(len(plain), dtype=torch.float64))
    changed = float((plain - placed).abs().max())
    assert (changed >= 5e-3) == ("weights differ" in view.title) == (state.get("words") != "dog")
    assert state.get("with") != "alibi" or float(placed.tril(1).triu(-1).sum(1).min()) > 0.5, (
        "itself and neighbours"
    )
    assert view.readouts["largest change of a weight"] == pytest.approx(changed)
    assert told(view)[-1] == pytest.approx(changed, abs=6e-3)


def cat_sat(view: View, state: dict[str, str]) -> None:
    x, weights, outputs = maps(view)
    torch.testing.assert_close(weights, (x @ x.T / 2).softmax(1), atol=1e-5, rtol=0)
    torch.testing.assert_close(outputs, weights @ x, atol=1e-5, rtol=0)
    if state.get("swap") == "1":
        torch.testing.assert_close(outputs, maps(find("cat-sat").answer({}))[2].flip(0), atol=1e-6, rtol=0)


def lookup(view: View, state: dict[str, str]) -> None:
    table, *row = maps(view)
    position, past = int(state.get("position", 8)), state.get("past_end", "error")
    if position >= len(table) and past == "error":
        assert view.title == f"Position {position} has no row: the library raises an error"
        assert row[0].isnan().all()
    else:
        at = min(position, len(table) - 1)
        assert view.title == f"Position {position} is row {at}"
        said = "its own row" if position == at else f"the last row again, row {at}"
        assert view.readouts["answer"] == said
        assert torch.equal(row[0][0], table[at])


def shift_both(view: View, state: dict[str, str]) -> None:
    q, _, reference, q_m, k_n = ((arrow.x, arrow.y) for arrow in only(view, Plane).arrows)
    moved = q_m[0] * k_n[0] + q_m[1] * k_n[1]
    assert moved == pytest.approx(q[0] * reference[0] + q[1] * reference[1], abs=1e-6)
    assert view.readouts["score (rotated q·k)"] == pytest.approx(moved)
    assert told(view) == [float(state.get("offset", 2))]


def every_pair(view: View, state: dict[str, str]) -> None:
    planes = [panel for panel in view.panels if isinstance(panel, Plane)]
    score = sum(q.x * k.x + q.y * k.y for q, k in (panel.arrows[2:] for panel in planes))
    assert told(view) == [len(planes), pytest.approx(score, abs=6e-4)]


def pairings(view: View, state: dict[str, str]) -> None:
    (rows,) = maps(view)
    torch.testing.assert_close(rows[3], rows[4])
    apart = [float((rows[i] - rows[i + 1]).abs().max()) for i in (1, 3)]
    different, same = list(view.readouts.values())
    assert (different, same) == pytest.approx(apart, abs=1e-6)
    assert apart[0] > 1e-3 or state.get("place") == "0"


def floor(view: View, state: dict[str, str]) -> None:
    assert told(view)[-4:-2] == [int((drawn(view)[0] > 1e-3).sum()), len(drawn(view)[0])]


def bias(view: View, state: dict[str, str]) -> None:
    for panel in maps(view):
        down = torch.arange(len(panel), dtype=torch.float64)
        distance = (down[:, None] - down).abs()
        slope = -float(panel[1, 0])
        seen = distance.tril() if state.get("causal") == "1" else distance
        torch.testing.assert_close(panel.nan_to_num(), -slope * seen, atol=1e-5, rtol=0)
        assert bool(panel[0, 1:].isnan().all()) == (state.get("causal") == "1") == view.title.endswith("no future")


def weights(view: View, state: dict[str, str]) -> None:
    curves = drawn(view)
    shares = [round(100 * float(curve[:8].sum())) for curve in curves]
    near = [shares[0], shares[-1]]
    assert [line.name.rpartition(": ")[2] for line in only(view, Lines).lines] == [f"{share}%" for share in shares]
    assert told(view) == [min(8, int(state.get("context", 64))), *near[: len(curves)]]
    assert all(name.startswith(f"nearest {told(view)[0]:.0f}, slope") for name in view.readouts)
    assert near[0] >= near[1]


def remapped(view: View, state: dict[str, str]) -> None:
    plain, used = maps(view)
    blank = int(used.isnan().tril().sum())
    assert view.readouts["pairs at untrained distances"] == str(blank)
    assert view.readouts["pairs at untrained distances with RoPE"] == str(int(plain.isnan().tril().sum()))
    assert ("untrained distances" in view.title) == bool(blank)
    assert not blank or told(view) == [blank]


def cache(view: View, state: dict[str, str]) -> None:
    (was, now), off = maps(view)
    stale = int((off > 0).any(0).sum())
    assert stale == (0 if state.get("rerotate") == "1" else int((was != now).sum()))
    assert view.title.endswith(f"{stale} of {len(was)} keys are stale" if stale else "no key is stale")


def picture(view: View, state: dict[str, str]) -> None:
    side = int(state.get("side", 16))
    row, column = (min(int(state.get(name, start)), side - 1) for name, start in (("at_row", 7), ("at_column", 5)))
    number = row * side + column
    below = [] if row == side - 1 else [number + side]
    assert told(view) == [row, column, number, side * side, *below]


def patches(view: View, state: dict[str, str]) -> None:
    before, row, column, *here = told(view)
    panels = [panel for panel in view.panels if isinstance(panel, Heatmap)]
    assert here == [float(panel.values[panel.marked_rows[0], panel.marked_columns[0]]) for panel in panels]
    assert before == int(state.get("before", 3))
    assert all((panel.marked_rows, panel.marked_columns) == ((row,), (column,)) for panel in panels)
    frame = min(int(state.get("frame", 0)), int(state.get("frames", 1)) - 1)
    assert here == [before + frame, before + row, before + column]


def misread(view: View, state: dict[str, str]) -> None:
    distance, *ends = told(view)
    assert distance == float(state.get("distance", 1000))
    lowest, *cosines = (v for v in view.readouts.values() if isinstance(v, float))
    assert lowest == min(cosines)
    assert (ends[0], ends[-1]) == (round(min(cosines), 2), round(max(cosines), 2))
    panel = only(view, Lines)
    at = panel.x.values.index(distance)
    assert cosines == [float(line.values[at]) for line in panel.lines], "said and drawn at the mark"


def reading(view: View, state: dict[str, str]) -> None:
    losses = maps(view)[0]
    assert told(view)[:3] == [128, 64, float(state.get("length", 1024))]
    assert told(view)[3] == pytest.approx(float(losses[:, 0].min()), abs=6e-3)


def looks(view: View, state: dict[str, str]) -> None:
    length = int(state.get("length", 1024))
    shares = {}
    for panel in view.panels:
        name, _, share = panel.name.partition(": ")
        shares[name] = float(share.rstrip("%")) / 100
        width = length // len(panel.values)
        rows, behind = 64 // width, 128 // width
        last = range(len(panel.values) - rows, len(panel.values))
        far, near = (
            sum(float(panel.values[i, : max(0, i - by)].sum()) for i in last) for by in (behind, behind - 1)
        )
        assert far / rows - 0.006 <= shares[name] <= near / rows + 0.006
    least, most = min(shares.values()), max(shares.values())
    assert told(view)[:3] == [int(state.get("layer", 1)), int(state.get("head", 1)), 64]
    assert told(view)[3:] == (
        [round(100 * least), round(100 * most)] if view.readouts["RoPE, beyond 128 bytes"] else []
    )
    assert all(share in (least, most) for name, share in shares.items() if f"with {name}" in view.title)


def depths(view: View, state: dict[str, str]) -> None:
    found, missed = [], []
    for panel in view.panels:
        shares = [share for row in panel.values.tolist() for share in row if not math.isnan(share)]
        share = f"{panel.name} ({1 - panel.values[-1].double().nanmean():.1%})"
        found.append(panel.name) if min(shares) >= 0.95 else missed.append(share)
    assert found == ["NoPE", "learned (clamped)"]
    places = f"missed at 512 tokens, averaged over depths, by {', '.join(missed[:-1])} and {missed[-1]}"
    assert view.title == f"Needle: found at every depth by {' and '.join(found)}; {places}"


def curves(view: View, state: dict[str, str]) -> None:
    panel = only(view, Lines)
    ends = {line.name: [float(line.values[i]) for i in (0, -1)] for line in panel.lines if not line.hollow}
    changes = {name: round(abs(end - start), 2) for name, (start, end) in ends.items()}
    named = [name for extreme in (max, min) for name in ends if changes[name] == extreme(changes.values())]
    lengths = [panel.x.values[0], panel.x.values[-1]]
    assert told(view) == pytest.approx([*lengths, *(end for name in named for end in ends[name])], abs=6e-3)
    assert re.findall(r"([\w-]+(?: \(\D+\))?) \(\d", view.title) == named


CHECKS: dict[str, Callable[[View, dict[str, str]], None]] = {
    "heatmap": heatmap,
    "hands": hands,
    "counter": counter,
    "falloff": falloff,
    "shift": shift,
    "counting": counting,
    "turned": turned,
    "attention": attention,
    "cat-sat": cat_sat,
    "lookup": lookup,
    "shift-both": shift_both,
    "every-pair": every_pair,
    "pairings": pairings,
    "floor": floor,
    "bias": bias,
    "weights": weights,
    "remapped": remapped,
    "cache": cache,
    "picture": picture,
    "patches": patches,
    "misread": misread,
    "reading": reading,
    "looks": looks,
    "depths": depths,
    "curves": curves,
}
ABOVE = {"scaling", "buckets", "trained-table", "sums", "shuffle", "score"}
"""Stages whose claims have tests of their own above."""
ELSEWHERE = {"layers"}
"""Answers about a config, which tests of inspections hold."""


def test_every_stages_headline_is_counted_again() -> None:
    assert {*CHECKS} | ABOVE | ELSEWHERE == set(BY_QUESTION)


def moved(question: str, every: bool) -> Iterator[dict[str, str]]:
    """The state that a stage opens in, those to try, and a control's other choices; of sliders 3 or all stops."""
    stage = find(question)
    yield {}
    yield from (dict(state) for _, state in stage.tries)
    for control in stage.controls:
        held = control.settable
        few = {held[0], held[len(held) // 2], held[-1]} if control.kind == "number" and not every else held
        yield from ({control.name: text} for text in few if text != control.default)
    yield from {
        "counting": [{"way": way, "length": text} for way in ("share", "bits") for text in ("5", "11", "200")],
        "score": [{"content": "random", "reach": "200"}],
        "weights": [{"context": "4"}],
        "attention": [{"words": "dog"}],
    }.get(question, ())


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["ends", "every stop"])
@pytest.mark.parametrize(
    "question", [pytest.param(name, marks=pytest.mark.slow if name == "looks" else ()) for name in BY_QUESTION]
)
def test_a_headline_says_what_is_drawn_and_json_can_hold_it(
    question: str, every: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(results._shelf, "study", EXAMPLE)
    stage = find(question)
    colours: dict[str, str] = {}
    for state in moved(question, every):
        try:
            view = stage.answer(state)
        except StudyError:
            assert stage.fresh, state  # the example has not every task
            assert state
            continue
        try:
            CHECKS.get(question, passed)(view, state)
            json.dumps(wire.view(view), allow_nan=False)
        except (AssertionError, ValueError) as wrong:
            raise AssertionError(f"{state}: {view.title}: {wrong}") from wrong
        for line in (line for panel in view.panels if isinstance(panel, Lines) for line in panel.lines):
            assert colours.setdefault(line.name, line.encoding) == line.encoding, (state, line.name)


def passed(view: View, state: dict[str, str]) -> None:
    """Of a stage whose headline other tests hold."""
