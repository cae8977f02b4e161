"""The hand that draws: same bytes twice, labels that never touch, errors that say what to type."""

import builtins
import importlib
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from matplotlib.text import Text

from posenc.errors import InvalidArgument, MissingExtra
from posenc.pictures import mpl


def drawing() -> mpl.Axes:
    with mpl.styled():
        ax = mpl.sheet()[0]
        ax.plot([0, 1], [0, 1])
        mpl.mark(ax, 0.5, 0.5, "trained to here")
        mpl.label_ends(ax, [(1.0, "up", "black"), (0.99, "nearly up", "blue"), (0.0, "down", "red")])
    return ax


@pytest.mark.parametrize("kind", mpl.FORMATS)
def test_identical_input_gives_identical_bytes(kind: str) -> None:
    first, second = mpl.rendered(drawing(), kind), mpl.rendered(drawing(), kind)
    assert first == second
    assert len(first) > 1000


def test_labels_at_line_ends_keep_their_distance_and_their_order() -> None:
    places = mpl._spread([0.1, 0.5, 0.52, 0.53, 0.9], 0.05)
    assert all(b - a >= 0.05 - 1e-12 for a, b in pairwise(places))
    assert places[0] == 0.1
    assert places[-1] == 0.9


def test_lines_that_lead_to_names_end_before_them() -> None:
    with mpl.styled():
        ax = mpl.sheet()[0]
        mpl.label_ends(
            ax, [(0.02, name, "black") for name in ("NoPE", "learned (clamped)", "ALiBi", "RoPE", "sinusoidal")]
        )
        ax.figure.draw_without_rendering()
        led = [text for text in ax.texts if text.arrow_patch is not None]
        ends = [text.arrow_patch.get_window_extent().x1 for text in led]
        names = [Text.get_window_extent(text).x0 for text in ax.texts]
    assert len(led) >= 4
    assert max(ends) <= min(names)


def test_a_format_that_is_not_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"a.gif' must end in \.svg, \.png, \.pdf"):
        mpl.write(drawing(), tmp_path / "a.gif")


def test_writing_makes_the_folder(tmp_path: Path) -> None:
    assert mpl.write(drawing(), tmp_path / "new" / "a.svg").read_bytes().startswith(b"<?xml")


def test_without_matplotlib_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: object) -> object:
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)  # type: ignore[arg-type]

    monkeypatch.delitem(sys.modules, "posenc.pictures.mpl")
    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtra, match=r"matplotlib is not installed; type: pip install 'posenc\[plot\]'"):
        importlib.import_module("posenc.pictures.mpl")
