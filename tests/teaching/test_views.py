"""Views answer with the numbers of the lessons and papers, and refuse what nobody could look at."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import posenc
from posenc.errors import InvalidArgument
from posenc.pictures.palette import style
from posenc.pictures.view import Heatmap, View
from posenc.teaching.lab.rooms import find
from posenc.teaching.views import attention, counter, order_blind, scores, sinusoidal
from posenc.teaching.views.catalogue import make
from support.custom import was_imported, write
from support.lab import reply
from support.views import only


def test_two_clicked_positions_are_compared_and_marked() -> None:
    view = sinusoidal.heatmap(width=4, length=10, first=5, second=6)
    assert only(view, Heatmap).marked_columns == (5, 6)
    assert view.readouts["dot product"] == pytest.approx(1.540252306, abs=1e-9)
    assert view.readouts["cosine of the two encodings"] == pytest.approx(0.770126153, abs=1e-9)


def test_transposing_and_reordering_move_values_and_change_none() -> None:
    settings: tuple[dict[str, Any], ...] = ({}, {"transposed": True}, {"order": "block"})
    plain, turned, block = (sinusoidal.heatmap(width=6, length=5, **given).panels[0] for given in settings)
    assert torch.equal(plain.values, turned.values.T)  # type: ignore[union-attr]
    assert torch.equal(plain.values[[0, 2, 4, 1, 3, 5]], block.values)  # type: ignore[union-attr]
    assert (plain.scale, plain.limit) == (turned.scale, turned.limit)  # type: ignore[union-attr]


def test_rotary_scores_by_content() -> None:
    values = scores.scores(*scores.contents("aligned", 64, 0, 0, 1e4), 1024)
    at = [round(float(values[d]), 1) for d in (0, 1, 2, 4, 128, 256, 512, 1024)]
    assert at == [64.0, 61.8, 56.6, 47.9, 18.2, 22.6, 11.9, 16.8]
    q, k = scores.contents("peaked", 64, 300, 0, 1e4)
    assert int(scores.scores(q, k, 1000).argmax()) == 300


def test_repeated_words_look_alike_only_without_positions() -> None:
    without, placed = (panel.values for panel in attention.maps("cat ate cat", encoding="rotary").panels)
    assert torch.allclose(without[0], without[2], atol=1e-12)
    assert (placed[0] - placed[2]).abs().max() > 0.01


@pytest.mark.parametrize("name", [*posenc.CATALOGUE, "stack(rotary, fox)", "layers(t5 + nope)"])
def test_a_layer_is_shown_with_every_encoding(name: str) -> None:
    shuffled = order_blind.shuffle(encoding=name, causal=True)
    assert style(name).label in attention.maps(encoding=name, causal=True).title
    assert shuffled.readouts["status"] == "changed"


def test_no_two_encodings_that_the_lab_lists_look_alike() -> None:
    words = ["the", "cat", "saw", "the", "cat"]

    def seen(name: str) -> torch.Tensor:
        return attention.weights(words, name, True, 0).nan_to_num()

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


@pytest.mark.parametrize(
    ("view", "settings", "message"),
    [
        (sinusoidal.waves, {"width": 7, "dimensions": (0,)}, "width=7 must be even"),
        (scores.distance, {"content": "alinged"}, "unknown content 'alinged'; did you mean 'aligned'"),
        (attention.maps, {"words": ""}, "number of words=0 must be between 1 and 24"),
        (counter.bits_and_hands, {"frequencies": "halfing"}, "did you mean 'halving'"),
    ],
)
def test_what_nobody_could_look_at_is_refused(
    view: Callable[..., View], settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        view(**settings)
