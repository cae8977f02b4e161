"""Views answer with the numbers of the lessons and papers, and refuse what nobody could look at."""

import math
from pathlib import Path

import pytest
import torch

import posenc
from posenc.errors import InvalidArgument, UnknownName
from posenc.pictures.palette import style
from posenc.pictures.view import Heatmap, Lines, Plane
from posenc.teaching.lab.rooms import find
from posenc.teaching.views import alibi, attention, order_blind, scores, sinusoidal
from posenc.teaching.views.catalogue import VIEWS, make
from support.custom import was_imported, write
from support.lab import reply


def test_every_view_is_whole() -> None:
    for name, make_view in VIEWS.items():
        view = make_view()
        assert view.title, name
        for panel in view.panels:
            if isinstance(panel, Heatmap):
                assert panel.values.shape == (len(panel.rows.values), len(panel.columns.values)), name
                for axis in (panel.rows, panel.columns):
                    assert not axis.labels or len(axis.labels) == len(axis.values), name
            elif isinstance(panel, Lines):
                assert all(len(line.values) == len(panel.x.values) for line in panel.lines), name
                for line in panel.lines:  # NaN is no point; infinity would be a mistake
                    assert torch.isfinite(line.values).any(), name
                    assert not torch.isinf(line.values).any(), name
            else:
                assert isinstance(panel, Plane), name
                assert all(math.hypot(a.x, a.y) <= panel.limit for a in panel.arrows), name


def test_two_clicked_positions_are_compared_and_marked() -> None:
    view = sinusoidal.heatmap(width=4, length=10, first=5, second=6)
    panel = view.panels[0]
    assert isinstance(panel, Heatmap)
    assert panel.marked_columns == (5, 6)
    assert view.readouts["dot product"] == pytest.approx(1.540252306, abs=1e-9)
    assert view.readouts["cosine of the two codes"] == pytest.approx(0.770126153, abs=1e-9)


def test_transposing_and_reordering_move_values_and_change_none() -> None:
    plain = sinusoidal.heatmap(width=6, length=5).panels[0]
    turned = sinusoidal.heatmap(width=6, length=5, transposed=True).panels[0]
    block = sinusoidal.heatmap(width=6, length=5, order="block").panels[0]
    assert isinstance(plain, Heatmap)
    assert isinstance(turned, Heatmap)
    assert isinstance(block, Heatmap)
    assert torch.equal(plain.values, turned.values.T)
    assert torch.equal(plain.values[[0, 2, 4, 1, 3, 5]], block.values)
    assert (plain.scale, plain.limit) == (turned.scale, turned.limit)


@pytest.mark.parametrize(("width", "turn"), [(4, 3), (8, 3), (128, 11), (512, 43)])
def test_closer_means_larger_fails_where_it_is_said_to(width: int, turn: int) -> None:
    assert sinusoidal.falloff(width).readouts["first rise after distance"] == turn


@pytest.mark.parametrize("by", [0, 1, 1000])
def test_one_rotation_moves_every_code(by: int) -> None:
    # Float64 sums of 8 products of numbers below 1; least squares over 32 rows loses a few digits more.
    for error in sinusoidal.shift(by=by).readouts.values():
        assert float(error) <= 1e-9


def test_hands_point_where_the_position_says() -> None:
    readouts = sinusoidal.hands(position=5).readouts
    assert readouts["turns of the fastest hand"] == pytest.approx(5 / (2 * math.pi), abs=1e-12)
    assert readouts["slowest hand at width 512 (positions)"] == 60611


def test_rotary_scores_by_content() -> None:
    values = scores.scores(*scores.contents("aligned", 64, 0, 0, 1e4), 1024)
    at = [round(float(values[d]), 1) for d in (0, 1, 2, 4, 128, 256, 512, 1024)]
    assert at == [64.0, 61.8, 56.6, 47.9, 18.2, 22.6, 11.9, 16.8]
    q, k = scores.contents("peaked", 64, 300, 0, 1e4)
    assert int(scores.scores(q, k, 1000).argmax()) == 300


def test_alibi_maps_hide_the_future_only_when_causal() -> None:
    two_sided, causal = alibi.bias(heads=2, length=4), alibi.bias(heads=2, length=4, causal=True)
    for panel, masked in zip(two_sided.panels, causal.panels, strict=True):
        assert isinstance(panel, Heatmap)
        assert isinstance(masked, Heatmap)
        assert torch.equal(panel.values, panel.values.T)
        assert masked.values.isnan().sum() == 6
        assert panel.limit == masked.limit


def test_repeated_words_look_alike_only_without_positions() -> None:
    view = attention.maps("cat ate cat", encoding="rotary")
    without, with_positions = view.panels
    assert isinstance(without, Heatmap)
    assert isinstance(with_positions, Heatmap)
    assert torch.allclose(without.values[0], without.values[2], atol=1e-12)
    assert (with_positions.values[0] - with_positions.values[2]).abs().max() > 0.01


@pytest.mark.parametrize("name", [*posenc.CATALOGUE, "stack(rotary, fox)", "layers(t5 + nope)"])
def test_a_layer_is_shown_with_every_encoding(name: str) -> None:
    shuffled = order_blind.shuffle(encoding=name, causal=True)
    shown = attention.maps(encoding=name, causal=True)
    assert style(name).label in shown.title
    assert shuffled.readouts["status"] == "changed"


def test_no_two_encodings_that_the_lab_lists_look_alike() -> None:
    words = ["the", "cat", "saw", "the", "cat"]

    def seen(name: str) -> torch.Tensor:
        return attention.weights(words, attention.fitting(name, 0), True, 0).nan_to_num()

    (offered,) = (c for c in find("shuffle").controls if c.kind == "choice")
    listed = [seen(name) for name in offered.shown]
    for i, one in enumerate(listed):
        assert all((one - other).abs().max() > 1e-3 for other in listed[:i])


def test_figures_import_nobodys_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    own = write(tmp_path)
    for view in ("attention", "shuffle"):
        with pytest.raises(InvalidArgument, match="is a custom class, which figures do not import"):
            make(view, {"encoding": own})
    assert reply("/api/attention", f"with={own}").status == 400
    assert not was_imported(tmp_path)


def test_what_nobody_could_look_at_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="length=5000 must be between 2 and 4096"):
        sinusoidal.heatmap(length=5000)
    with pytest.raises(InvalidArgument, match="second=50 must be between 0 and 49; length is 50"):
        sinusoidal.heatmap(first=0, second=50)
    with pytest.raises(InvalidArgument, match="width=7 must be even here"):
        sinusoidal.waves(width=7, dimensions=(0,))
    with pytest.raises(UnknownName, match="unknown content 'alinged'; did you mean 'aligned'"):
        scores.distance(content="alinged")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="number of words=0 must be between 1 and 24"):
        attention.maps("")
