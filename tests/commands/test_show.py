"""`posenc show` draws what it is asked for, the same bytes each time, and says what it does not know."""

from pathlib import Path

import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text
from PIL import Image

from posenc.commands.show import show
from posenc.pictures.colours import contrast, rgb
from posenc.pictures.draw import Axes, draw, rendered
from posenc.pictures.palette import DARK, LIGHT, Paper, style
from posenc.pictures.view import Lines
from posenc.teaching.three_panels import three_panels
from posenc.teaching.views import sinusoidal
from posenc.teaching.views.catalogue import VIEWS, make

TELLING = ("bias", "weights", "cat-sat", "floor", "scaling", "shift-both")
EVERY = [name if name in TELLING else pytest.param(name, marks=pytest.mark.slow) for name in VIEWS]
"""Every view; those that have gone wrong before are looked at each time."""
PAPERS = [pytest.param(LIGHT, False, marks=pytest.mark.slow), (DARK, True)]
"""A column on dark paper has less room and less contrast than a page on light paper."""


def test_a_view_is_drawn_with_its_settings_and_the_same_bytes_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    show("heatmap", ["width=8", "first=1", "second=2", "transposed=true"], tmp_path / "h.svg")
    assert "h.svg" in capsys.readouterr().out
    settings = {"width": "8", "first": "1", "second": "2", "transposed": "true"}
    assert (tmp_path / "h.svg").read_bytes() == rendered(draw(make("heatmap", settings)))


@pytest.mark.parametrize("name", ["bias", "attention"])
def test_panels_that_are_compared_share_limits(name: str) -> None:
    view = VIEWS[name]()
    figure = draw(view)
    limits: dict[str, set[tuple[float, float]]] = {}
    for panel, ax in zip(view.panels, figure.axes, strict=False):
        limits.setdefault(panel.scale, set()).add(ax.get_images()[0].get_clim())
    assert all(len(each) == 1 for each in limits.values())
    shown = [ax for ax in figure.axes if ax.get_label() == "<colorbar>"]
    assert len(shown) == len(view.panels)
    low, high = shown[0].get_ylim()
    assert low < high
    assert high == 0.0 or name != "bias"  # no values that cannot occur


@pytest.mark.parametrize(("paper", "column"), PAPERS, ids=["light page", "dark column"])
@pytest.mark.parametrize("name", EVERY)
def test_every_word_can_be_read_every_curve_is_named_and_no_title_leaves_the_figure(
    name: str, paper: Paper, column: bool
) -> None:
    view = VIEWS[name]()
    figure = draw(view, paper, column=column)
    figure.draw_without_rendering()
    assert to_hex(figure.get_facecolor()) == paper.paper
    for words in figure.findobj(Text):
        on_a_cell = isinstance(words.axes, Axes) and words.get_ha() == words.get_va() == "center"
        if words.get_text() and words.get_visible() and not on_a_cell:
            assert contrast(rgb(to_hex(words.get_color())), rgb(paper.paper)) >= 4.5, words.get_text()
    for panel, ax in zip(view.panels, figure.axes, strict=False):
        if isinstance(panel, Lines) and len(panel.lines) > 1:
            legend = ax.get_legend()
            assert {line.name or style(line.encoding).label for line in panel.lines} <= {
                text.get_text() for text in legend.get_texts()
            }
    for text in figure.texts:
        assert Text.get_window_extent(text).x1 <= figure.bbox.x1 + 2, text.get_text()


def test_an_encoding_keeps_its_colour() -> None:
    figure = draw(sinusoidal.falloff())
    assert figure.axes[0].get_lines()[0].get_color() == style("sinusoidal").colour  # on light paper


def test_the_lesson_figure_has_its_size(tmp_path: Path) -> None:
    show("lesson", output=tmp_path / "three.png")
    with Image.open(tmp_path / "three.png") as image:
        assert image.size == (2700, 750)


def test_the_lesson_figure_takes_another_width_and_length() -> None:
    code, similarity, waves = three_panels(width=32, length=20).axes[:3]
    assert code.images[0].get_array().shape == (20, 32)
    assert similarity.images[0].get_array().shape == (20, 20)
    assert waves.get_legend_handles_labels()[1] == [f"dimension {d}" for d in (0, 1, 10, 20)]  # no 50


def test_show_alone_lists_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    show()
    whole = [line for line in capsys.readouterr().out.splitlines() if line.endswith(".")]
    assert [line.split()[0] for line in whole] == [*VIEWS, "lesson"]
