"""`posenc show` draws what it is asked for, the same bytes each time, and says what it does not know."""

from itertools import combinations
from pathlib import Path

import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.text import Text
from PIL import Image

from posenc import CATALOGUE
from posenc.commands.show import show
from posenc.errors import InvalidArgument, UnknownName
from posenc.pictures import mpl
from posenc.pictures.colours import contrast, rgb
from posenc.pictures.draw import draw, paint
from posenc.pictures.palette import DARK, LIGHT, Paper, style
from posenc.pictures.view import Axis, Heatmap, View
from posenc.teaching.three_panels import three_panels
from posenc.teaching.views import alibi, sinusoidal
from posenc.teaching.views.catalogue import VIEWS, make
from posenc.teaching.views.four import NAMES

TELLING = ("bias", "weights", "cat-sat", "floor", "scaling", "shift-both")
EVERY = [name if name in TELLING else pytest.param(name, marks=pytest.mark.slow) for name in VIEWS]
"""Every view; those that have gone wrong before are looked at each time."""
TWICE = TELLING[:2]


@pytest.mark.parametrize("name", TWICE)
def test_a_view_is_drawn_twice_with_the_same_bytes(name: str, tmp_path: Path) -> None:
    show(name, output=tmp_path / "view.svg")
    assert (tmp_path / "view.svg").read_bytes() == mpl.rendered(draw(make(name, {})))


def test_painters_paint_on_the_axes_they_are_given() -> None:
    with mpl.styled():
        axes = mpl.sheet(3)
    for ax, name in zip(axes, ("heatmap", "waves", "hands"), strict=True):
        assert paint(VIEWS[name]().panels[0], ax) is ax
        assert ax.has_data()


def test_hidden_keys_are_left_as_paper() -> None:
    image = paint(alibi.bias(heads=1, length=4, causal=True).panels[0]).get_images()[0]
    assert image.get_array().mask.sum() == 6  # type: ignore[union-attr]


def bars(figure: mpl.Figure) -> list[mpl.Axes]:
    return [ax for ax in figure.axes if ax.get_label() == "<colorbar>"]


@pytest.mark.parametrize(("name", "count"), [("bias", 1), ("lookup", 1), ("cat-sat", 3), ("attention", 1)])
def test_panels_that_share_limits_share_a_bar_and_others_have_their_own(name: str, count: int) -> None:
    figure = draw(VIEWS[name]())
    images = [image for ax in figure.axes if ax not in bars(figure) for image in ax.get_images()]
    limits = {image.get_clim() for image in images}
    assert len(bars(figure)) == count
    assert len(limits) == 1 or len(bars(figure)) == len(images)


def test_a_bar_shows_no_values_that_cannot_occur() -> None:
    low, high = bars(draw(VIEWS["bias"]()))[0].get_ylim()
    assert low < high == 0.0


@pytest.mark.parametrize("paper", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("name", EVERY)
def test_every_word_can_be_read_on_its_paper(name: str, paper: Paper) -> None:
    figure = draw(VIEWS[name](), paper)
    assert to_hex(figure.get_facecolor()) == paper.paper
    for words in figure.findobj(Text):
        on_a_cell = isinstance(words.axes, mpl.Axes) and words.get_ha() == words.get_va() == "center"
        if words.get_text() and words.get_visible() and not on_a_cell:
            assert contrast(rgb(to_hex(words.get_color())), rgb(paper.paper)) >= 4.5, words.get_text()


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", EVERY)
def test_no_two_words_overprint_and_none_leaves_the_figure(name: str, narrow: bool) -> None:
    check_words(draw(VIEWS[name](), narrow=narrow))


@pytest.mark.parametrize("narrow", [False, True], ids=["wide", "narrow"])
def test_a_catalogue_of_twice_as_many_encodings_has_room(narrow: bool) -> None:
    """As many rows as the figure of the four properties has, and as many again."""
    count = 2 * len(CATALOGUE)
    rows = Axis("encoding", tuple(range(count)), labels=tuple(f"Encoding {i} (of {count})" for i in range(count)))
    columns = Axis("property", tuple(range(4)), labels=NAMES)
    values = torch.arange(4.0 * count).view(count, 4) % 2
    panel = Heatmap("has it", values, rows, columns, "magnitude", limit=1.0)
    check_words(draw(View("All four: rotary", (panel,), {"growth": 1.0}), narrow=narrow))


def check_words(figure: mpl.Figure) -> None:
    """No two words overprint, and none leaves the figure."""
    figure.draw_without_rendering()
    edge = figure.bbox
    boxes = [
        (t.get_text(), Text.get_window_extent(t)) for t in figure.findobj(Text) if t.get_text() and t.get_visible()
    ]
    for words, box in boxes:
        assert edge.x0 - 2 <= box.x0, words
        assert box.x1 <= edge.x1 + 2, words
    for (one, a), (other, b) in combinations(boxes, 2):
        wide, high = min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0)
        assert wide <= 2 or high <= 2, f"{one!r} and {other!r}"


def test_an_encoding_keeps_its_colour() -> None:
    panel = sinusoidal.falloff().panels[0]
    assert paint(panel).get_lines()[0].get_color() == style("sinusoidal").colour  # on light paper


def test_the_lesson_figure_has_its_size(tmp_path: Path) -> None:
    show("lesson", output=tmp_path / "three.png")
    with Image.open(tmp_path / "three.png") as image:
        assert image.size == (2700, 750)


def test_the_lesson_figure_takes_another_width_and_length() -> None:
    code, similarity, waves = three_panels(width=32, length=20).axes[:3]
    assert code.images[0].get_array().shape == (20, 32)
    assert similarity.images[0].get_array().shape == (20, 20)
    assert {text.get_text() for text in waves.texts} == {f"dimension {d}" for d in (0, 1, 10, 20)}  # no 50


def test_show_writes_a_figure_with_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show("heatmap", ["width=8", "first=1", "second=2", "transposed=true"], tmp_path / "h.svg")
    assert "h.svg" in capsys.readouterr().out
    assert (tmp_path / "h.svg").stat().st_size > 1000


def test_show_alone_lists_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    show()
    out = capsys.readouterr().out
    assert all(name in out for name in VIEWS)


def test_what_show_does_not_know() -> None:
    with pytest.raises(UnknownName, match="unknown figure 'heatmpa'; did you mean 'heatmap'"):
        show("heatmpa")
    with pytest.raises(UnknownName, match="unknown setting of heatmap 'widht'; did you mean 'width'"):
        show("heatmap", ["widht=3"])
    with pytest.raises(InvalidArgument, match="width='wide' is not a whole number"):
        show("heatmap", ["width=wide"])
    with pytest.raises(InvalidArgument, match="causal='yes' is not true or false"):
        show("bias", ["causal=yes"])
    with pytest.raises(InvalidArgument, match="has no '='; type: --set name=value"):
        show("bias", ["causal"])
    with pytest.raises(InvalidArgument, match="length=100000 must be between 2 and 4096"):
        show("heatmap", ["length=100000"])
