"""`posenc show` draws what it is asked for, the same bytes each time, and says what it does not know."""

from pathlib import Path

import pytest
from PIL import Image

from posenc.errors import InvalidArgument, UnknownName
from posenc.workbench.commands.show import show
from posenc.workbench.figures import ink
from posenc.workbench.figures.draw import _number, draw, paint
from posenc.workbench.figures.heatmap import heatmap, limits
from posenc.workbench.figures.lines import lines
from posenc.workbench.figures.plane import plane
from posenc.workbench.palette import NEGATIVE, POSITIVE, style
from posenc.workbench.views import alibi, sinusoidal
from posenc.workbench.views.catalogue import VIEWS, make
from posenc.workbench.views.view import Heatmap, Lines, Plane


@pytest.fixture(scope="module")
def gallery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gallery")
    show("all", output=folder)
    return folder


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_is_drawn_twice_with_the_same_bytes(name: str, gallery: Path) -> None:
    assert (gallery / f"{name}.svg").read_bytes() == ink.rendered(draw(make(name, {})))


def test_painters_paint_on_the_axes_they_are_given() -> None:
    axes = ink.sheet(3)
    for ax, name, kind, painter in zip(
        axes, ("heatmap", "waves", "hands"), (Heatmap, Lines, Plane), (heatmap, lines, plane), strict=True
    ):
        panel = VIEWS[name]().panels[0]
        assert isinstance(panel, kind)
        assert painter(panel, ax) is ax  # type: ignore[operator]
        assert ax.has_data()


def test_signed_colours_are_centred_and_blue_below_zero() -> None:
    panel = alibi.bias(heads=1, length=4).panels[0]
    assert isinstance(panel, Heatmap)
    low, high = limits(panel, panel.values.numpy())
    assert low == -high < 0
    colours = ink.signed()
    assert ink.matplotlib.colors.to_hex(colours(0.0)) == NEGATIVE
    assert ink.matplotlib.colors.to_hex(colours(1.0)) == POSITIVE


def test_hidden_keys_are_left_as_paper() -> None:
    panel = alibi.bias(heads=1, length=4, causal=True).panels[0]
    assert isinstance(panel, Heatmap)
    image = heatmap(panel).get_images()[0]
    assert image.get_array().mask.sum() == 6  # type: ignore[union-attr]


def test_an_encoding_keeps_its_colour() -> None:
    panel = sinusoidal.falloff().panels[0]
    assert paint(panel).get_lines()[0].get_color() == style("sinusoidal").colour


def test_the_lesson_figure_has_its_size(tmp_path: Path) -> None:
    show("lesson", output=tmp_path / "three.png")
    with Image.open(tmp_path / "three.png") as image:
        assert image.size == (2700, 750)


def test_show_writes_a_figure_with_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show("heatmap", ["width=8", "first=1", "second=2", "transposed=true"], tmp_path / "h.svg")
    assert "h.svg" in capsys.readouterr().out
    assert (tmp_path / "h.svg").stat().st_size > 1000


def test_show_alone_lists_the_names(capsys: pytest.CaptureFixture[str]) -> None:
    show()
    out = capsys.readouterr().out
    assert all(name in out for name in VIEWS)


def test_the_gallery_has_every_figure_and_nothing_from_elsewhere(gallery: Path) -> None:
    page = (gallery / "index.html").read_text()
    assert all(f'src="{name}.svg"' in page for name in VIEWS)
    assert "http" not in page


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


def test_numbers_under_figures() -> None:
    assert [_number(v) for v in (60611.477, 1.540252306, -0.5, 0.0, 5.1e-16, "all")] == [
        "60\u2009611.5",
        "1.54025",
        "−0.5",
        "0",
        "5.1e−16",
        "all",
    ]
