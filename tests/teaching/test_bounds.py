"""Bounds of settings stand in signatures: views keep them, their defaults and the lab's controls lie within."""

import contextlib
import inspect

import pytest

from posenc.errors import InvalidArgument
from posenc.pictures.view import View
from posenc.teaching.lab.rooms import BY_QUESTION, find
from posenc.teaching.views.bounds import arguments, bounds
from posenc.teaching.views.catalogue import VIEWS, make

BOUNDS = {name: bounds(view) for name, view in VIEWS.items()}


@pytest.mark.parametrize("name", VIEWS)
def test_every_setting_that_is_a_number_has_bounds_and_nothing_else_has(name: str) -> None:
    parameters = inspect.signature(VIEWS[name]).parameters.values()
    numbers = {p.name for p in parameters if not isinstance(p.default, bool | str) and p.name != "order"}
    assert numbers == BOUNDS[name].keys()


@pytest.mark.parametrize("name", BY_QUESTION)
def test_sliders_stay_within_them(name: str) -> None:
    stage = find(name)
    for control in (control for control in stage.controls if control.kind == "number"):
        limit = bounds(stage.function)[control.argument]
        first, last = (float(control.settable[end]) for end in (0, -1))
        assert limit.low <= first < last <= limit.high, control.name


CORNERS = [
    (name, setting, end)
    for name, settings in BOUNDS.items()
    for setting, limit in settings.items()
    for end in (limit.low, limit.high)
    if not limit.below
]


def at(name: str, setting: str, value: float) -> View:
    default = inspect.signature(VIEWS[name]).parameters[setting].default
    return VIEWS[name](**{setting: type(default)(value)})


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_every_end_of_every_setting_is_answered_or_refused(view: str) -> None:
    for name, setting, end in CORNERS:
        if name == view:
            with contextlib.suppress(InvalidArgument):  # where another setting's default does not fit it
                assert at(name, setting, end).title, (setting, end)


def test_past_every_end_it_is_refused() -> None:
    for name, setting, end in CORNERS:
        past = end - 1 if end == BOUNDS[name][setting].low else end * 2
        with pytest.raises(InvalidArgument, match=f"{setting}=.* must be between"):
            pytest.fail(f"{name} takes {setting}={past}: {at(name, setting, past).title}")


def test_one_setting_may_end_where_another_does() -> None:
    assert VIEWS["score"](furthest=200).title, "no key is built to peak at 300"
    with pytest.raises(InvalidArgument, match="dimensions=8 must be between 0 and 7; width is 8"):
        VIEWS["waves"](width=8, dimensions=(0, 8))


@pytest.mark.parametrize(
    ("view", "settings", "message"),
    [
        ("heatmap", {"width": "9" * 400}, "width='9999.*' must be a whole number"),
        ("heatmap", {"width": "1e999"}, "width='1e999' must be a whole number"),
        ("heatmap", {"width": "64.5"}, "width='64.5' must be a whole number"),
        ("heatmap", {"width": "nan"}, "must be a whole number"),
        ("heatmap", {"width": ""}, "must be a whole number"),
        ("heatmap", {"width": "__import__('os')"}, "must be a whole number"),
        ("heatmap", {"base": "nan"}, "base=nan must be between"),
        ("heatmap", {"length": "64", "first": "64"}, "first=64 must be between 0 and 63; length is 64"),
        ("score", {"content": "peaked", "furthest": "200"}, "peak=300 must be between 0 and 199; furthest is 200"),
        (
            "remapped",
            {"method": "dca", "window": "20"},
            "window=20 must be between 2 and 16; with DCA, at most half",
        ),
        ("bias", {"causal": "yes"}, "causal='yes' must be true or false"),
        ("shift-both", {"turn": "quarter"}, "unknown turn 'quarter'; known: eighth, radian"),
    ],
)
def test_a_text_of_another_kind_or_past_its_bounds_is_refused(
    view: str, settings: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        make(view, settings)


def test_words_become_what_the_signature_takes() -> None:
    asked = {"width": "1E+02", "base": "5e5", "transposed": "1", "first": "3", "order": "block"}
    read = arguments("heatmap", VIEWS["heatmap"], asked)
    assert read == {"width": 100, "base": 500_000.0, "transposed": True, "first": 3, "order": "block"}
    assert arguments("shuffle", VIEWS["shuffle"], {"order": "1-0"}) == {"order": (1, 0)}
