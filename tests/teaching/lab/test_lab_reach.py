"""Whatever can be clicked gets the click: nothing lies over a link, a button, a control or an arrow."""

from typing import Any

import pytest

from posenc.teaching.lab.rooms import ROOMS
from support.photographs import resize, reveal

pytestmark = pytest.mark.browser

WINDOWS = {
    "1280x720": (1280, 720),
    "1280x800": (1280, 800),
    "1440x900": (1440, 900),
    "1920x1080": (1920, 1080),
    "2560x1440": (2560, 1440),
    "768x1024": (768, 1024),
    "390x844": (390, 844),
    "1280x800 at 150 %": (853, 533),
    "1440x900 at 150 %": (960, 600),
    "1920x1080 at 150 %": (1280, 720),
    "1280x800 at 200 %": (640, 400),
    "1440x900 at 200 %": (720, 450),
    "1920x1080 at 200 %": (960, 540),
}
"""Windows in CSS pixels: laptops, screens, a tablet, a phone, and pages that a browser enlarges."""

COVERED = """(within) => {
  const found = [];
  const parts = "a:not(.skip), button, input, select, textarea, summary, [tabindex='0'], [role=slider]";
  const clips = (e) => getComputedStyle(e).overflow !== "visible";
  const seen = ([left, top, right, bottom], box) => [Math.max(left, box.left), Math.max(top, box.top),
    Math.min(right, box.right), Math.min(bottom, box.bottom)];
  for (const e of document.querySelectorAll(parts)) {
    if (within && !e.closest(within)) continue;
    if (!e.checkVisibility({ visibilityProperty: true })) continue;
    e.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
    const holders = [];
    for (let up = e.parentElement; up; up = up.parentElement) {
      if (clips(up)) holders.push(up.getBoundingClientRect());
    }
    const gets = (hit) => hit && (e.contains(hit) || e.closest("svg[data-part=field]")?.contains(hit));
    const over = new Set();
    const round = getComputedStyle(e).borderRadius === "50%";
    let asked = 0, missed = 0;
    for (const box of (e.querySelector(":scope > .grip") ?? e).getClientRects()) {
      const [left, top, right, bottom] = holders.reduce(seen, seen([0, 0, innerWidth, innerHeight], box));
      for (let i = 0; right > left && bottom > top && i < 49; i += 1) {
        const x = left + (right - left) * (i % 7 + 0.5) / 7, y = top + (bottom - top) * (~~(i / 7) + 0.5) / 7;
        if (round && Math.hypot((x - box.x) / box.width - 0.5, (y - box.y) / box.height - 0.5) > 0.48) continue;
        asked += 1;
        const hit = document.elementFromPoint(x, y);
        if (gets(hit)) continue;
        missed += 1;
        over.add(hit ? `${hit.tagName} ${hit.getAttribute("class") ?? ""}` : "nothing");
      }
    }
    const name = (e.getAttribute("aria-label") || e.textContent.trim() || e.id || e.tagName).slice(0, 40);
    if (!asked) found.push(`${name}: out of reach`);
    if (missed) found.push(`${name}: ${missed} of ${asked} points under ${[...over].join(", ")}`);
  }
  scrollTo(0, 0);
  return found; }"""
"""What does not get a click at each of 7 by 7 points of it, of all or within a part, and what gets it instead."""

FIXED = """() => [...document.querySelectorAll("body *")].filter((e) => e.checkVisibility()
  && ["sticky", "fixed"].includes(getComputedStyle(e).position) && !e.closest(".scroll")).map((e) => e.className)"""
"""What stays in its place while the page moves; the head of a table stays within its table."""


def in_every_window(page: Any, where: str) -> None:
    for window, (width, height) in WINDOWS.items():
        resize(page, width, height)
        assert page.evaluate(COVERED) == [], (where, window)
        assert height >= 600 or page.evaluate(FIXED) == [], (where, window)


@pytest.mark.parametrize(
    "path", ["/", *(pytest.param(p, marks=pytest.mark.slow) for p in ("/check", "/lessons", "/claims"))]
)
def test_nothing_lies_over_what_can_be_clicked(visitor: Any, path: str) -> None:
    in_every_window(visitor.open(path), path)


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS, ids=[room.name for room in ROOMS])
def test_nothing_lies_over_what_can_be_clicked_in_a_room(visitor: Any, room: Any) -> None:
    page = visitor.open(f"/{room.name}")
    for stage in room.stages:
        visitor.turn(stage.question)
        if stage.guess:
            in_every_window(page, f"{stage.question}, asked")
            reveal(page)
        page.locator(".current details, .about").evaluate_all(
            "(all) => all.forEach((each) => { each.open = true; })"
        )
        in_every_window(page, stage.question)


def test_the_way_to_start_is_seen_without_scrolling(visitor: Any) -> None:
    page = visitor.open("/")
    for window, (width, height) in WINDOWS.items():
        page.set_viewport_size({"width": width, "height": height})
        box = page.locator(".start .button").bounding_box()
        assert box["y"] + box["height"] <= height, window


@pytest.mark.parametrize("path", ["/", "/rotation"])
def test_the_open_list_of_rooms_lies_over_the_page(visitor: Any, path: str) -> None:
    page = visitor.open(path)
    reveal(page)
    page.locator(".rooms summary").click()
    for window, (width, height) in WINDOWS.items():
        resize(page, width, height)
        assert page.evaluate(COVERED, ".rooms") == [], window


PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.mark.parametrize("visitor", [PHONE], indirect=True, ids=["phone"])
def test_a_thumb_turns_an_arrow_and_scrolls_the_page_beside_it(visitor: Any) -> None:
    page = visitor.open("/")
    touch = page.context.new_cdp_session(page)

    def swipe(x: float, y: float, by: tuple[float, float]) -> None:
        for step in range(9):
            at = {"x": x + by[0] * step / 8, "y": y + by[1] * step / 8}
            kind = "touchMove" if step else "touchStart"
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [at]})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    tip = page.locator(".plane .arrow.query .grip").bounding_box()
    swipe(tip["x"] + tip["width"] + 8, tip["y"] + tip["height"], (40, 60))  # a thumb is no needle
    visitor.answered("shift-both", "m=0")
    assert page.evaluate("scrollY") == 0
    box = page.locator(".plane > svg").bounding_box()
    swipe(box["x"] + box["width"] - 20, box["y"] + box["height"] - 20, (0, -200))
    page.wait_for_function("() => scrollY > 50")
    assert page.url.endswith("?m=0")


QUICK = ("1280x720", "390x844", "1440x900 at 200 %")


@pytest.mark.parametrize("window", [pytest.param(w, marks=() if w in QUICK else pytest.mark.slow) for w in WINDOWS])
def test_both_arrows_are_dragged_by_a_mouse(visitor: Any, window: str) -> None:
    """On the first page, by whole positions of π/4: to where the other arrow was not."""
    width, height = WINDOWS[window]
    visitor.page.set_viewport_size({"width": width, "height": height})
    page = visitor.open("/")
    page.locator(".plane").scroll_into_view_if_needed()
    for arrow, query in (("query", "m=2"), ("key", "m=2&offset=3")):
        page.locator(".plane svg.held").wait_for(state="detached")
        page.wait_for_timeout(320)  # it has turned to its position
        start, middle = (
            page.locator(f".plane svg {part}").evaluate(
                "(e) => { const box = e.getBoundingClientRect();"
                " return [box.x + box.width / 2, box.y + box.height / 2]; }"
            )
            for part in (f".arrow.{arrow}.movable .grip", ".arc:not(.reference)")
        )
        x, y = start[0] - middle[0], start[1] - middle[1]
        page.mouse.move(*start)
        page.mouse.down()
        page.mouse.move(middle[0] + (x + y) / 2**0.5, middle[1] + (y - x) / 2**0.5, steps=4)
        page.mouse.up()
        visitor.answered("shift-both", query)
    page.locator(".plane svg .arrow.query.movable").focus()
    page.keyboard.press("ArrowRight")
    visitor.answered("shift-both", "m=3&offset=3")
    asked = "() => performance.getEntriesByType('resource').filter((e) => e.name.includes('/api/')).length"
    assert page.evaluate(asked) == 0, "the first page holds what it shows"


def test_the_check_of_what_is_covered_can_fail(visitor: Any) -> None:
    """An invisible box over the buttons, as wide as a drawing that was enlarged beyond its own."""
    page = visitor.open("/")
    page.evaluate(
        "() => { const { style } = document.querySelector('.plane > svg');"
        " style.cssText = 'transform: scale(1.6); overflow: visible'; }"
    )
    assert any(found.startswith("Start: a 15-minute tour: ") and "svg" in found for found in page.evaluate(COVERED))
    page.evaluate("() => { document.querySelector('.side').style.position = 'sticky'; }")
    assert page.evaluate(FIXED) == ["side"]
