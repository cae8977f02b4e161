"""The page in a real browser: every room paints the library's numbers, by pointer and by key."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from posenc.workbench.lab.questions import QUESTIONS
from posenc.workbench.lab.rooms import ROOMS
from posenc.workbench.numbers import readout

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_painted_readouts_are_the_librarys(visitor: Any, room: Any) -> None:
    page = visitor.open(f"/{room.name}")
    for stage in room.stages:
        answer = QUESTIONS[stage.question].answer({})
        if stage.guesses:
            page.locator(f"#{stage.question} .guess button").first.click()
        assert visitor.readouts(stage.question) == {k: readout(v) for k, v in answer.readouts.items()}
        assert page.locator(f"#{stage.question} .answer").inner_text() == answer.title
        assert page.locator(f"#{stage.question} .panel").count() == len(answer.panels)
        assert page.locator(f"#{stage.question} .error").is_hidden()


def test_moving_both_keeps_the_score(visitor: Any) -> None:
    page = visitor.open("/rotation")
    on, back = (page.get_by_role("button", name=f"move both: {way} by 1") for way in ("on", "back"))
    seen = []
    for button, query in ((on, "m=2"), (on, "m=3"), (back, "m=2"), (back, ""), (back, "m=0"), (back, "m=0")):
        button.click()
        visitor.answered("shift-both", query)
        told = visitor.readouts("shift-both")
        assert (told["rotated q·k"], told["reference, m = 0"], told["offset n − m"]) == ("−1.100", "−1.100", "2")
        seen.append(told["positions m, n"])
    assert seen == ["2, 4", "3, 5", "2, 4", "1, 3", "0, 2", "0, 2"]


def test_break_it(visitor: Any) -> None:
    page = visitor.open("/order")
    outputs = page.locator("#shuffle .matrix").nth(1)
    blind = outputs.inner_text()
    assert visitor.readouts("shuffle")["outputs"] == "the same vectors, moved"
    for encoding in ("rotary", "sinusoidal", "learned"):
        page.locator("#shuffle-encoding").select_option(encoding)
        visitor.answered("shuffle", f"encoding={encoding}")
        assert visitor.readouts("shuffle")["outputs"] == "changed"
        assert outputs.inner_text() != blind
    # Distances survive a mirror, so two-sided ALiBi follows; any other order shows it.
    page.locator("#shuffle-encoding").select_option("alibi")
    visitor.answered("shuffle", "encoding=alibi")
    assert visitor.readouts("shuffle")["outputs"] == "the same vectors, moved"
    page.get_by_role("button", name="fish, place 1 of 3").press("ArrowRight")
    visitor.answered("shuffle", "order=1-2-0&encoding=alibi")
    assert visitor.readouts("shuffle")["outputs"] == "changed"
    page.get_by_role("button", name="fish, place 2 of 3").press("ArrowLeft")
    page.locator("#shuffle-encoding").select_option("nope")
    page.locator("#shuffle-causal").check()
    visitor.answered("shuffle", "causal=1")
    assert visitor.readouts("shuffle")["outputs"] == "changed"


def test_words_are_rearranged_by_key_and_a_new_sentence_starts_reversed(visitor: Any) -> None:
    page = visitor.open("/order")
    page.get_by_role("button", name="fish, place 1 of 3").press("ArrowRight")
    visitor.answered("shuffle", "order=1-2-0")
    assert page.locator("#shuffle .chips").inner_text().split() == ["ate", "fish", "cat"]
    page.locator("#shuffle-sentence").fill("a dog  bites me")
    page.locator("#shuffle-sentence").press("Enter")
    visitor.answered("shuffle", "sentence=a+dog+bites+me&order=3-2-1-0")
    assert page.locator("#shuffle .chips").inner_text().split() == ["me", "bites", "dog", "a"]


def test_two_positions_are_picked_by_pointer_and_by_key(visitor: Any) -> None:
    page = visitor.open("/clock?width=8&length=16&first=0&second=1")
    field = page.locator("#heatmap .field")
    box = field.bounding_box()
    for column in (5, 6):
        field.click(position={"x": (column + 0.5) / 16 * box["width"], "y": 4})
    visitor.answered("heatmap", "first=5&second=6&width=8&length=16")
    told = QUESTIONS["heatmap"].answer({"first": "5", "second": "6", "width": "8", "length": "16"}).readouts
    assert visitor.readouts("heatmap") == {k: readout(v) for k, v in told.items()}
    field.press("Home")
    field.press("ArrowRight")
    page.locator("#heatmap .probe", has_text="position 1:").wait_for()
    field.press("Enter")
    visitor.answered("heatmap", "first=1&second=6&width=8&length=16")
    with urlopen(f"{visitor.address}/api/heatmap/at?width=8&length=16&first=1&second=6&row=0&column=1") as reply:
        assert page.locator("#heatmap .probe").inner_text() == json.load(reply)["text"]


def test_the_address_restores_the_state(visitor: Any) -> None:
    page = visitor.open("/rotation?m=7&turn=radian&base=500000")
    assert page.locator("#shift-both-m").input_value() == "7"
    assert page.locator("#shift-both-turn-radian").is_checked()
    assert page.locator("#every-pair-base").input_value() == page.locator("#phases-base").input_value() == "500000"
    slider = page.get_by_role("slider", name="offset n − m, slider").first
    slider.press("ArrowRight")
    visitor.answered("shift-both", "m=7&offset=3&turn=radian")
    assert "offset=3" in page.url
    before = visitor.readouts("shift-both")
    page.reload()
    visitor.answered("shift-both", "m=7&offset=3&turn=radian")
    assert visitor.readouts("shift-both") == before
    page.locator("#shift-both a.try").first.click()
    visitor.answered("shift-both", "m=3")


def test_a_link_is_copied_with_its_state(visitor: Any) -> None:
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visitor.open("/bias?heads=12")
    page.locator("#slopes .copy-link").click()
    page.locator("#slopes .done", has_text="Link copied").wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()") == f"{visitor.address}/bias?heads=12#slopes"
    page.locator("#slopes .python summary").click()
    page.locator("#slopes .copy-python").click()
    page.locator("#slopes .done", has_text="Python copied").wait_for()
    assert "slopes(12" in page.evaluate("() => navigator.clipboard.readText()")


@pytest.mark.parametrize("kind", ["png", "svg", "csv"])
def test_exports_are_files_of_this_state(visitor: Any, kind: str, tmp_path: Path) -> None:
    page = visitor.open("/bias?heads=12")
    with page.expect_download() as download:
        page.locator(f'#slopes a[data-kind="{kind}"]').click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    content = path.read_bytes()
    assert path.name == f"posenc-slopes.{kind}"
    if kind == "png":
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
    elif kind == "svg":
        assert ElementTree.fromstring(content).tag.endswith("svg")
    else:
        assert b"0.08838834764831845" in content


def test_the_table_says_what_the_picture_shows(visitor: Any) -> None:
    page = visitor.open("/order")
    page.locator("#cat-sat-step-4").check()
    visitor.answered("cat-sat", "step=4")
    page.locator("#cat-sat .data summary").click()
    table = page.locator("#cat-sat table", has_text="outputs")
    table.wait_for()
    rows = [row.split() for row in table.inner_text().splitlines()]
    assert ["cat", "0.4701", "0.4414", "0.6885", "0.2943"] in rows
    assert ["sat", "0.4022", "0.4705", "0.7273", "0.3137"] in rows


def test_a_refusal_is_shown_and_passes(visitor: Any) -> None:
    page = visitor.open("/bias?heads=1000000000")
    assert page.locator("#slopes .error").inner_text().startswith("heads=1000000000 is out of bounds")
    page.locator("#slopes-heads").fill("8")
    page.locator("#slopes-heads").press("Enter")
    visitor.answered("slopes", "")
    assert page.locator("#slopes .error").is_hidden()


def test_the_newest_position_of_a_slider_wins(visitor: Any) -> None:
    page = visitor.open("/bias")
    slider = page.get_by_role("slider", name="heads, slider").nth(1)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/api/" in request.url else None)
    slider.evaluate(
        """(slider) => { for (let heads = 9; heads <= 108; heads += 1) {
            slider.value = heads; slider.dispatchEvent(new Event("input", { bubbles: true })); } }"""
    )
    visitor.answered("slopes", "heads=108")
    assert visitor.readouts("slopes") == {
        k: readout(v) for k, v in QUESTIONS["slopes"].answer({"heads": "108"}).readouts.items()
    }
    # The first is under way when the others come; of those only the last is asked.
    assert len(asked) == 2


def test_a_guess_comes_before_the_answer(visitor: Any) -> None:
    page = visitor.open("/clock")
    assert page.locator("#falloff .bench").is_hidden()
    page.get_by_role("button", name="It falls with every step").click()
    assert page.locator("#falloff .bench").is_visible()
    assert "You said: It falls with every step." in page.locator("#falloff .guess").inner_text()


def test_the_quiz_scores_first_tries_and_filters(visitor: Any) -> None:
    page = visitor.open("/check")
    page.get_by_role("button", name="Different vectors").click()
    page.get_by_text("No. Nothing in the layer sees the order.").wait_for()
    assert page.get_by_text("0 of 1 right").is_visible()
    page.get_by_role("button", name="The same vector for each word").press("Enter")
    page.get_by_text("Right. Each word meets the same set.").wait_for()
    assert page.get_by_text("0 of 1 right").is_visible()
    page.get_by_label("topic", exact=True).select_option("bias")
    page.get_by_label("difficulty", exact=True).select_option("1")
    assert page.locator("#showing").inner_text() == "Showing 1 of 29"
    page.get_by_label("Your answer").fill("0.125")
    page.get_by_label("Your answer").press("Enter")
    page.get_by_text("1 of 2 right at the first try.").wait_for()
    page.get_by_label("topic", exact=True).select_option("length")
    page.get_by_label("difficulty", exact=True).select_option("3")
    page.reload()
    page.get_by_text("Showing").wait_for()
    assert page.get_by_label("topic", exact=True).input_value() == "length"


@pytest.mark.parametrize("visitor", [{"reduced_motion": "reduce"}], indirect=True)
def test_motion_stops_when_the_system_asks(visitor: Any) -> None:
    page = visitor.open("/rotation")
    duration = "() => getComputedStyle(document.querySelector('#shift-both .arrow')).transitionDuration"
    assert page.evaluate(duration) in ("0s", "")
