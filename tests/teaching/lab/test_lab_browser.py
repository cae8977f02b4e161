"""The page in a real browser: every room paints the library's numbers, by pointer and by key."""

import json
import math
import xml.etree.ElementTree as ElementTree
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from posenc.pictures import wire
from posenc.pictures.numbers import readout
from posenc.teaching.lab.rooms import BY_QUESTION, ROOMS, Stage, find
from support.photographs import saved, settle

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    "room",
    [
        pytest.param(r, marks=() if r.name in ("rotation", "results") else pytest.mark.slow, id=r.name)
        for r in ROOMS
    ],
)
def test_painted_readouts_are_the_librarys(visitor: Any, room: Any) -> None:
    page = visitor.open(f"/{room.name}")
    for stage in room.stages:
        answer = find(stage.question).answer(stage.guess.after if stage.guess else {})
        visitor.turn(stage.question)
        if stage.guess:
            page.locator(f"#{stage.question} .guess button").first.click()
            visitor.answered(stage.question, urlencode(stage.guess.after))
        assert visitor.readouts(stage.question) == {k: readout(v) for k, v in answer.readouts.items()}
        assert page.locator(f"#{stage.question} .answer").inner_text() == answer.title
        assert page.locator(f"#{stage.question} .panel").count() == len(answer.panels)
        assert page.locator(f"#{stage.question} .error").is_hidden()


def test_a_patch_of_the_picture_is_pointed_at(visitor: Any) -> None:
    page = visitor.open("/pictures", "picture")
    field = page.locator("#picture .heatmap .field")
    box = field.bounding_box()
    assert abs(box["width"] - box["height"]) < 1
    field.click(position={"x": 12.5 / 16 * box["width"], "y": 3.5 / 16 * box["height"]})
    visitor.answered("picture", "at_row=3&at_column=12")
    assert visitor.readouts("picture")["number in the line"] == "60"
    page.locator("#picture .matrix .cell").first.click()  # numbers beside it set nothing
    assert [
        page.locator("#picture-at_row").input_value(),
        page.evaluate(  # as a saved page tells it
            "async (panel) => (await import('/static/figure.js')).valueAt(panel, 1, 2)",
            wire.view(find("picture").answer({"at_row": "3", "at_column": "12"}))["panels"][1],
        ),
    ] == ["3", "row 3, column 13: 61"]
    page.locator("#picture-side-8").check()  # eight rows are left, and the patch stays inside
    visitor.write("#picture-at_column", "15")
    visitor.answered("picture", "side=8&at_row=3&at_column=7")


def test_an_answer_that_takes_long_is_seen_to_be_computed(visitor: Any) -> None:
    page = visitor.open("/results?length=256", "reading")
    busy = page.locator("#reading .panels[aria-busy]")
    assert busy.count() == 0
    held: list[Any] = []
    page.route("**/api/reading?*", lambda route: held.append(route))
    page.locator("#reading-text-prose").check()
    busy.wait_for()
    held[0].continue_()
    busy.wait_for(state="detached")


def test_break_it(visitor: Any) -> None:
    page = visitor.open("/order")
    page.locator("#shuffle .guess button").first.click()
    outputs = page.locator("#shuffle .matrix").nth(1)
    blind = outputs.inner_text()
    assert visitor.readouts("shuffle")["status"] == "the same vectors, moved"
    page.locator("#shuffle-remove").uncheck()
    for encoding in ("rotary", "sinusoidal", "learned"):
        page.locator("#shuffle-encoding").select_option(encoding)
        visitor.answered("shuffle", f"encoding={encoding}&remove=0" if encoding != "rotary" else "remove=0")
        assert visitor.readouts("shuffle")["status"] == "changed"
        assert outputs.inner_text() != blind
    # Distances survive a mirror, so two-sided ALiBi follows; any other order shows it.
    page.locator("#shuffle-encoding").select_option("alibi")
    visitor.answered("shuffle", "encoding=alibi&remove=0")
    assert visitor.readouts("shuffle")["status"] == "the same vectors, moved"
    page.get_by_role("button", name="man, place 1 of 3").press("ArrowRight")
    visitor.answered("shuffle", "order=1-2-0&encoding=alibi&remove=0")
    assert visitor.readouts("shuffle")["status"] == "changed"
    page.get_by_role("button", name="man, place 2 of 3").press("ArrowLeft")
    page.locator("#shuffle-remove").check()
    visitor.answered("shuffle", "encoding=alibi")
    assert outputs.inner_text() == blind
    page.locator("#shuffle-causal").check()
    visitor.answered("shuffle", "encoding=alibi&causal=1")
    assert visitor.readouts("shuffle")["status"] == "changed"
    visitor.write("#shuffle-sentence", "a dog  bites me")  # a new sentence starts reversed
    visitor.answered("shuffle", "sentence=a+dog+bites+me&order=3-2-1-0&encoding=alibi&causal=1")
    assert page.locator("#shuffle .chips").inner_text().split() == ["me", "bites", "dog", "a"]


def test_two_positions_are_picked_by_pointer_and_by_key(visitor: Any) -> None:
    page = visitor.open("/clock?width=8&length=16&first=0&second=1", "heatmap")
    field = page.locator("#heatmap .field")
    box = field.bounding_box()
    for column in (5, 6):
        field.click(position={"x": (column + 0.5) / 16 * box["width"], "y": 4})
    visitor.answered("heatmap", "first=5&second=6&width=8&length=16")
    told = find("heatmap").answer({"first": "5", "second": "6", "width": "8", "length": "16"}).readouts
    assert visitor.readouts("heatmap") == {k: readout(v) for k, v in told.items()}
    field.press("Home")
    field.press("ArrowRight")
    page.locator("#heatmap .probe", has_text="position 1:").wait_for()
    field.press("Enter")
    visitor.answered("heatmap", "first=1&second=6&width=8&length=16")
    with urlopen(f"{visitor.address}/api/heatmap/at?width=8&length=16&first=1&second=6&row=0&column=1") as reply:
        assert page.locator("#heatmap .probe").inner_text() == json.load(reply)["text"]
    dragged = [(box["x"] + (column + 0.5) / 16 * box["width"], box["y"] + 20) for column in (6, 9)]
    page.mouse.move(*dragged[0])
    page.mouse.down()
    page.mouse.move(*dragged[1], steps=5)
    page.mouse.up()
    visitor.answered("heatmap", "first=1&second=9&width=8&length=16")


def test_the_address_restores_the_state(visitor: Any) -> None:
    page = visitor.open("/rotation?m=7&turn=radian&base=500000")
    assert page.locator("#shift-both-m").input_value() == "7"
    assert page.locator("#shift-both-turn-radian").is_checked()
    assert page.locator("#every-pair-base").input_value() == page.locator("#score-base").input_value() == "500000"
    page.get_by_role("slider", name="offset n − m to “man”, slider").first.press("ArrowRight")
    visitor.answered("shift-both", "m=7&offset=3&turn=radian")
    assert "offset=3" in page.url
    before = visitor.readouts("shift-both")
    page.reload()
    visitor.answered("shift-both", "m=7&offset=3&turn=radian")
    assert visitor.readouts("shift-both") == before
    page.locator("#shift-both a.try").first.click()
    visitor.answered("shift-both", "m=3")


def test_a_state_is_linked_saved_and_undone(visitor: Any) -> None:
    visitor.context.grant_permissions(["clipboard-read", "clipboard-write"])
    for address, stage, words in (
        ("/clock?until=1000000000", "sums", "positions=1000000000 must be between 2 and 128"),
        ("/bias?some=1000000000", "weights", "heads=1000000000 must be between 1 and 16"),
    ):
        page = visitor.open(address, stage)
        assert page.locator(f"#{stage} .error").inner_text().startswith(words)
    page.locator("#weights .reset").click()
    visitor.answered("weights", "")
    page.locator("#weights a.try").first.click()
    visitor.answered("weights", "some=12")
    page.go_back()
    visitor.answered("weights", "")
    page.go_forward()
    visitor.answered("weights", "some=12")
    page.locator("#weights .copy-link").click()
    page.locator("#weights .done", has_text="It opens on this computer while the lab runs").wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()") == f"{visitor.address}/bias?some=12#weights"
    page.locator("#weights .copy-python").click()
    page.locator("#weights .done", has_text="Python copied").wait_for()
    assert "ALiBi(12" in page.evaluate("() => navigator.clipboard.readText()")
    buttons = [page.locator("#weights .actions").get_by_text(kind, exact=True) for kind in ("PNG", "SVG", "CSV")]
    files = [saved(page, button) for button in buttons]
    assert [file.suggested_filename for file in files] == [
        f"posenc-weights.{kind}" for kind in ("png", "svg", "csv")
    ]
    png, svg, csv = (file.path().read_bytes() for file in files)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert b"0.39346934028737157" in csv
    page.locator("#weights .data summary").click()
    page.locator("#weights table", has_text="0.3935").wait_for()
    page.locator("#weights a.try").last.click()
    page.locator("#weights ul.key li").nth(7).wait_for()  # names at the ends would be written over each other


def test_the_newest_position_of_a_slider_wins(visitor: Any) -> None:
    page = visitor.open("/bias", "weights")
    slider = page.locator("#weights input[type=range]").first
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/api/" in request.url else None)
    slider.evaluate(
        """(slider) => { for (let heads = 9; heads <= 16; heads += 1) {
            slider.value = heads - 1; slider.dispatchEvent(new Event("input", { bubbles: true })); } }"""
    )
    visitor.answered("weights", "some=16")
    assert visitor.readouts("weights") == {
        k: readout(v) for k, v in find("weights").answer({"some": "16"}).readouts.items()
    }
    # The first is under way when the others come; of those only the last is asked.
    assert len(asked) == 2


def test_a_page_that_comes_back_asks_anew(visitor: Any) -> None:
    """A browser may keep a page that was left, and show it again as it was."""
    page = visitor.open("/bias", "weights")
    page.evaluate("() => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    visitor.write("#weights-some", "12")
    visitor.answered("weights", "some=12")


ASKED = [(room.name, stage) for room in ROOMS for stage in room.stages if stage.guess]


@pytest.mark.parametrize(
    ("room", "stage"),
    [
        pytest.param(
            room, stage, marks=() if room in ("rotation", "table") else pytest.mark.slow, id=stage.question
        )
        for room, stage in ASKED
    ],
)
def test_every_guess_hides_the_answer_alone_is_judged_in_words_and_asked_once(
    visitor: Any, room: str, stage: Stage
) -> None:
    guess = stage.guess
    page = visitor.open(f"/{room}", stage.question)
    visitor.answered(stage.question, urlencode(guess.before))
    place = page.locator(f"#{stage.question}")
    assert place.locator(".panel").count() == len(stage.answer(guess.before).panels)
    assert place.locator(".panel").first.is_visible()
    assert not place.locator(":is(.answer, .readouts, .controls, .tries):visible").evaluate_all(
        "(all) => all.filter((e) => getComputedStyle(e).visibility !== 'hidden').length"
    )
    said = (guess.right + (stage.question != "lookup")) % len(guess.answers)
    place.locator(".guess button").nth(said).click()
    visitor.answered(stage.question, urlencode(guess.after))
    chosen, why = guess.answers[said]
    judged = "right" if said == guess.right else "wrong"
    assert place.locator(".verdict").inner_text() == f"{guess.asks} “{chosen}” is {judged}. {why}"
    assert place.locator(".answer").inner_text() == stage.answer(guess.after).title
    page = visitor.open(f"/{room}", stage.question)
    assert place.locator(".guess").count() == 0
    assert place.locator(".controls").is_visible()


def test_a_held_arrow_follows_the_pointer_and_goes_to_a_position_when_released(visitor: Any) -> None:
    """Between two positions both arrows lean alike: the arc between them keeps its span and the number stays."""
    page = visitor.open("/")
    grip = page.locator("[data-part=hands] .movable .grip").first.bounding_box()
    box = page.locator("[data-part=field]").bounding_box()
    angles = "() => [...document.querySelectorAll('[data-part=hands] .movable')].map((g) => g.style.transform)"
    middle = [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]
    start = [grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2]
    x, y = start[0] - middle[0], start[1] - middle[1]
    rest, span = page.evaluate(angles), page.locator(".arc").first.get_attribute("stroke-dasharray")
    page.mouse.move(*start)
    page.mouse.down()
    turn = math.radians(-20)  # less than half of a step: it goes back to where it was
    page.mouse.move(
        middle[0] + x * math.cos(turn) - y * math.sin(turn), middle[1] + x * math.sin(turn) + y * math.cos(turn)
    )
    held = page.evaluate(angles)
    for lean, before in zip(held, rest, strict=True):
        matrix, _, rotation = lean.partition(") ")
        cos, sin = (float(part) for part in matrix.removeprefix("matrix(").split(",")[:2])
        assert rotation == before
        assert (cos, sin) == pytest.approx((math.cos(turn), math.sin(turn)), abs=0.01)
    assert page.locator(".arc").first.get_attribute("stroke-dasharray") == span
    assert visitor.readouts("shift-both")["score (rotated q·k)"] == "−1.100"
    page.mouse.up()
    assert page.evaluate(angles) == rest


def test_a_click_while_the_scripts_are_still_coming_is_not_lost(visitor: Any) -> None:
    def late(route: Any) -> None:
        visitor.page.wait_for_timeout(400)
        route.continue_()

    visitor.page.route("**/static/lab.js", late)
    visitor.page.goto(f"{visitor.address}/rotation", wait_until="commit")
    visitor.page.get_by_role("button", name="It stays").click()
    visitor.page.locator("#shift-both .guess").wait_for(state="detached")


def test_the_cards_score_first_tries_filter_lead_to_their_stage_and_remember(visitor: Any) -> None:
    page = visitor.open("/check")
    page.get_by_role("button", name="Different vectors").click()
    page.get_by_text("No. Nothing in the layer sees the order.").wait_for()
    assert page.locator("#quiz").get_by_text("0 of 1 right").is_visible()
    page.get_by_role("button", name="The same vectors, in the new order").press("Enter")
    page.get_by_text("Right. Each word attends to the same set of words.").wait_for()
    assert page.get_by_role("link", name="Where to see it").get_attribute("href") == "/order#shuffle"
    page.goto(f"{visitor.address}/check?card=third-slope")
    page.get_by_label("Your answer").fill("about an eighth")
    page.get_by_label("Your answer").press("Enter")
    page.get_by_text("This is not a number; write it like 12345, 2/3 or -4.5").wait_for()
    for typed, judged in (
        ("1/8", "RightAs the"),
        ("2", "another number. Try again.1 of 2"),
        (".1,25", "not a number; write it like 12345"),
        ("–1/‑8", "RightAs the"),
        ("/8", "not a number; write it like 12345"),
        ("0,125", "RightAs the"),
    ):
        visitor.write("#quiz input", typed)
        page.locator(".judged", has_text=judged).wait_for()  # a wrong number does not show the answer
    page.locator("#quiz").get_by_text("1 of 2 right at the first try.").wait_for()
    page.get_by_label("kind", exact=True).select_option("derivation")
    page.get_by_label("topic", exact=True).select_option("clock")
    assert 0 < int(page.locator("#showing").inner_text().split()[1]) < 26
    page.reload()
    page.locator("#showing", has_text="1 of 2 right").wait_for()
    assert page.get_by_label("topic", exact=True).input_value() == "clock"


def test_the_first_page_plays_once_until_it_is_touched(visitor: Any) -> None:
    page = visitor.page
    page.clock.install(time=0)
    page.clock.pause_at(1000)
    page.goto(f"{visitor.address}/")
    settle(page)
    for query in ("m=2", "m=3", "m=4", "m=5", "m=4", "m=3", "m=2", "", ""):
        page.clock.run_for(750)
        visitor.answered("shift-both", query)
        assert visitor.readouts("shift-both")["score (rotated q·k)"] == "−1.100"
    page.reload()
    settle(page)
    page.clock.run_for(750)
    visitor.answered("shift-both", "m=2")
    page.keyboard.press("Shift")
    page.clock.run_for(1500)
    assert page.url.endswith("?m=2")


@pytest.mark.parametrize("visitor", [{"reduced_motion": "reduce"}], indirect=True)
def test_the_first_page_rests_when_the_system_asks(visitor: Any) -> None:
    visitor.page.goto(f"{visitor.address}/")
    visitor.page.wait_for_timeout(900)
    assert "m=" not in visitor.page.url
    duration = "() => getComputedStyle(document.querySelector('#shift-both .arrow')).transitionDuration"
    assert visitor.page.evaluate(duration) in ("0s", "")


def test_a_room_begins_with_what_it_is_about(visitor: Any) -> None:
    page = visitor.open("/bias")
    assert page.locator(".about .lead").is_visible()
    visitor.turn("weights")
    assert not page.locator(".about .lead").is_visible()
    page = visitor.open("/bias")
    page.reload()
    assert not page.locator(".about .lead").is_visible()


def test_a_word_of_the_field_says_what_it_means(visitor: Any) -> None:
    term = visitor.open("/count", "turned").locator("#turned .term", has_text="score")
    term.focus()
    shown = "(e) => getComputedStyle(e, '::after').content"
    assert "dot product of a query and a key" in term.evaluate(shown)


def test_a_wrong_guess_of_a_claim_gets_its_reason(visitor: Any) -> None:
    page = visitor.open("/claims?card=fastest-pair")
    page.locator(".card button[data-right='0']").first.click()
    reason = page.locator(".card").get_attribute("data-answer")
    assert page.locator(".judged").get_by_text(reason).is_visible()


def test_a_slider_plays_to_its_end_and_stops(visitor: Any) -> None:
    page = visitor.open("/rotation?m=14")
    page.clock.install()
    page.locator("#shift-both .play").click()
    page.clock.run_for(3000)
    visitor.answered("shift-both", "m=16")
    assert page.locator("#shift-both .play").get_attribute("aria-pressed") == "false"
    on, back = (page.get_by_role("button", name=f"position m of “dog”: {way} by one") for way in ("on", "back"))
    visitor.write("#shift-both-m", "1000")  # past every stop
    on.click()
    back.click()
    visitor.answered("shift-both", "m=16")


def test_next_walks_through_stages_and_on_to_the_next_room(visitor: Any) -> None:
    page = visitor.open("/bias")
    page.locator(".walk .next").click()
    page.locator("#weights.current").wait_for()
    page.locator(".walk .back").click()
    page.locator("#bias.current").wait_for()
    page.locator(".walk .next").click()
    page.locator(".walk .onward").wait_for()
    page.locator(".walk .next").click()  # past what lies under More
    page.wait_for_url("**/longer")
    page.go_back()
    visitor.turn("buckets")
    page.locator(".walk .next").click()
    page.wait_for_url("**/longer")


def test_the_first_page_says_what_was_seen_and_when_all_was(visitor: Any) -> None:
    page = visitor.open("/bias")
    visitor.turn("weights")
    page = visitor.open("/")
    assert page.locator(".contents li", has_text="The bias").inner_text().endswith("· seen")
    assert page.get_by_text("Tour complete").count() == 0
    page.evaluate("(all) => localStorage.setItem('posenc-seen', JSON.stringify(all))", list(BY_QUESTION))
    page = visitor.open("/")
    assert page.get_by_text("Tour complete: every main stage seen.").is_visible()
    assert page.locator(".contents li", has_text="seen").count() == len(ROOMS)


@pytest.mark.parametrize("visitor", [{"reduced_motion": "reduce"}], indirect=True)
def test_a_page_is_laid_out_a_few_times_for_a_step_not_once_for_each_panel(visitor: Any) -> None:
    page = visitor.open("/bias?few=8", "bias")
    metrics = page.context.new_cdp_session(page)
    metrics.send("Performance.enable")

    def layouts() -> int:
        found = {each["name"]: each["value"] for each in metrics.send("Performance.getMetrics")["metrics"]}
        return int(found["LayoutCount"])

    before = layouts()
    visitor.write("#bias-few", "7")
    visitor.answered("bias", "few=7")
    page.evaluate("() => new Promise(requestAnimationFrame)")
    assert layouts() - before <= 12
