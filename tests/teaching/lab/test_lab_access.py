"""Everyone can use the page: names, roles, contrast, keys, and no sideways scrolling."""

from typing import Any

import pytest
from tools.contact_sheet import FAULTS, SIZES

from posenc.teaching.lab.rooms import ROOMS
from support.aloud import HINDRANCES, WINDOWS, hindrances, violations
from support.photographs import resize, reveal

pytestmark = pytest.mark.browser

PAGES = ["/", "/check", "/lessons", "/claims", *(f"/{room.name}" for room in ROOMS)]
TELLING = ("/", "/rotation", "/results")
"""The first page, a room of pictures, and one of numbers that somebody measured."""

NAMELESS = """() => [...document.querySelectorAll(
    "a, button, input, select, textarea, summary, [tabindex='0'], [role=img]")]
  .filter((e) => e.checkVisibility() && !(
    e.getAttribute("aria-label") || e.textContent.trim() || [...(e.labels ?? [])].some((l) => l.textContent.trim())
    || document.getElementById(e.getAttribute("aria-labelledby"))))
  .map((e) => e.outerHTML.slice(0, 120))"""

DOUBLE = """() => { const seen = [...document.querySelectorAll("[id]")].map((e) => e.id);
  return seen.filter((id, i) => seen.indexOf(id) !== i); }"""

SMALL = """() => [...document.querySelectorAll("button, select, input, nav a, summary")]
  .filter((e) => e.checkVisibility()).filter((e) => {
    const box = (e.labels?.[0]?.closest(".option, .switch") ?? e).getBoundingClientRect();
    return box.width < 24 || box.height < 24; })
  .map((e) => e.outerHTML.slice(0, 120))"""

UNREACHED = """() => {
  const wanted = [...document.querySelectorAll("a, button, input, select, textarea, summary, [tabindex='0']")]
    .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.disabled && e.tabIndex >= 0);
  // Of a group of radio buttons one is reached; arrow keys do the rest.
  const grouped = (e) => e.type === "radio" && document.querySelector(`[name="${e.name}"][data-reached]`);
  return wanted.filter((e) => !e.matches("[data-reached]") && !grouped(e))
    .map((e) => e.outerHTML.slice(0, 120));
}"""


WIDEN = """() => { const sheet = new CSSStyleSheet();
  sheet.replaceSync("* { letter-spacing: 0.06em !important; }");
  document.adoptedStyleSheets = [sheet]; }"""

WIDE = "() => [document.documentElement.scrollWidth].filter((width) => width > innerWidth)"
"""How wide a page is that must be scrolled sideways."""


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=() if path in TELLING else pytest.mark.slow) for path in PAGES]
)
def test_names_sizes_contrast_and_a_narrow_window(visitor: Any, path: str) -> None:
    """Contrast by day and by night; the window is 320 px, to which WCAG 1.4.10 asks a page to reflow.

    Letters are spaced there as no font of the page's is.
    """
    page = visitor.open(path)
    for summary in page.locator(".current details.python summary:visible").all():
        summary.click()
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(DOUBLE) == []
    assert page.evaluate(SMALL) == []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert hindrances(page) == [], scheme
    assert page.locator("h1").count() == 1
    assert page.locator("html").get_attribute("lang") == "en"
    levels = page.evaluate("() => [...document.querySelectorAll('h1, h2, h3')].map((h) => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert max(levels) <= 2
    page.set_viewport_size({"width": 320, "height": 740})
    page = visitor.open(path)
    page.evaluate(WIDEN)
    assert page.evaluate(WIDE) == []


@pytest.mark.parametrize("visitor", [{"color_scheme": "dark"}], indirect=True, ids=["dark"])
def test_a_page_that_opens_at_night_is_as_readable(visitor: Any) -> None:
    assert hindrances(visitor.open("/rotation")) == []


@pytest.mark.parametrize(
    "path", ["/rotation", *(pytest.param(p, marks=pytest.mark.slow) for p in ("/order", "/check"))]
)
def test_tab_reaches_everything(visitor: Any, path: str) -> None:
    page = visitor.open(path)
    count = page.evaluate("() => document.querySelectorAll('*').length")
    for _ in range(count):
        page.keyboard.press("Tab")
        if page.evaluate(
            """() => { const e = document.activeElement;
                 const again = e === document.body || e.hasAttribute("data-reached");
                 e.setAttribute("data-reached", ""); return again; }"""
        ):
            break
    assert page.evaluate(UNREACHED) == []


@pytest.mark.parametrize("visitor", [{"viewport": {"width": 1024, "height": 768}}], indirect=True, ids=["1024"])
def test_the_bar_stands_on_one_line_and_opens_the_rooms(visitor: Any) -> None:
    page = visitor.open("/rotation")
    entries = page.locator(".top nav > ol > li > a, .top nav summary")
    assert [words.partition(":")[0] for words in entries.all_inner_texts()] == [
        "Tour",
        "Rooms",
        "Lessons",
        "Claims",
        "Check",
    ]
    middles = entries.evaluate_all(
        "(all) => all.map((e) => e.getBoundingClientRect()).map((b) => b.top + b.height / 2)"
    )
    assert max(middles) - min(middles) < 3
    page.locator(".top nav summary").click()
    page.get_by_role("link", name="Why not simply count?").click()
    page.wait_for_url("**/count")
    assert page.get_by_role("img", name="Room 2 of 10").inner_text() == "●●○○○○○○○○"


def test_the_first_page_has_no_fault_of_a_contact_sheet(visitor: Any) -> None:
    page = visitor.open("/")
    for width, height in SIZES.values():
        resize(page, width, height)
        assert page.evaluate(FAULTS) == [], width


@pytest.mark.parametrize("visitor", [{"viewport": {"width": 360, "height": 740}}], indirect=True, ids=["360"])
def test_a_phone_shows_which_room_this_is(visitor: Any) -> None:
    box = visitor.open("/results").locator(".top [aria-current]").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360


CUT = """() => { const svg = document.querySelector(".plane > svg"), box = svg.getBoundingClientRect();
  const [left, right] = getComputedStyle(svg).overflow === "visible" ? [0, innerWidth] : [box.left, box.right];
  return [...svg.querySelectorAll(".tip")].map((e) => e.getBoundingClientRect())
    .filter((tip) => tip.left < left || tip.right > right).length; }"""


@pytest.mark.parametrize("visitor", [{"viewport": {"width": 390, "height": 844}}], indirect=True, ids=["390"])
@pytest.mark.parametrize("state", ["m=12&offset=0", "m=16&offset=0"])
def test_a_phone_shows_the_words_of_both_arrows_whole(visitor: Any, state: str) -> None:
    page = visitor.open(f"/?{state}")
    for width in (390, 320):
        page.set_viewport_size({"width": width, "height": 740})
        assert page.evaluate(CUT) == 0, width


@pytest.mark.parametrize("visitor", [{"java_script_enabled": False}], indirect=True, ids=["no script"])
def test_the_page_can_be_read_before_any_script(visitor: Any) -> None:
    page = visitor.page
    page.goto(f"{visitor.address}/rotation")
    assert page.locator("h1").inner_text() == "Why does RoPE see only the offset?"
    assert page.locator("math").count() >= 1
    assert page.locator("#shift-both-m").input_value() == "1"


BEYOND = """() => [...document.querySelectorAll(".stage.current *, .walk *")]
  .filter((e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest("svg, math, noscript"))
  .filter((e) => { const box = e.getBoundingClientRect();
    return box.width && (box.bottom > innerHeight + 1 || box.right > innerWidth + 1 || box.left < -1); })
  .map((e) => `${e.className || e.tagName} ${Math.round(e.getBoundingClientRect().bottom)}`)"""

HIDDEN = """() => [...document.querySelectorAll(".stage.current *")]
  .filter((e) => e.checkVisibility() && !e.matches("textarea, pre, .scroll"))
  .filter((e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowY) && e.scrollHeight > e.clientHeight + 1)
  .map((e) => `${e.className} ${e.scrollHeight} in ${e.clientHeight}`)"""
"""What must be scrolled inside a stage before it is seen."""

ON_A_PHONE = """() => {
  const found = [];
  const box = (name) => document.querySelector(name)?.getBoundingClientRect();
  const [strip, here] = ["nav.stages", "nav.stages [aria-current]"].map(box);
  const share = (e, floor) => { const box = e.getBoundingClientRect();
    return (Math.min(box.bottom, floor) - Math.max(box.top, 0)) / Math.min(box.height, 260); };
  const picture = share(document.querySelector(".current .panel :is(.field, .grid, svg)"), innerHeight);
  if (picture < 0.75) found.push(`${Math.round(100 * picture)} % of the picture`);
  for (const name of [".control :is(input, select, textarea, button)", ".readouts:not(:has(.words)) dd"]) {
    const first = document.querySelector(`.current ${name}`);
    if (first && share(first, innerHeight) < 1) found.push(`no ${name}`);
  }
  if (here.width && (here.left < strip.left - 1 || here.right > strip.right + 1)) found.push("no place");
  const named = (plane) => plane.querySelector(".tip") || plane.querySelector("ul.key li")?.checkVisibility();
  if (![...document.querySelectorAll(".current .plane")].every(named)) found.push("no names of arrows");
  const told = [...document.querySelectorAll(".current ul.key li")].filter((e) => e.checkVisibility()).length;
  const faint = ".current .panels:not(.many) svg[role] .arrow:is(.ghost, .reference)";
  const drawn = document.querySelectorAll(faint).length;
  if (told < drawn) found.push(`${drawn} dashed or yellow arrows, ${told} explained`);
  return found; }"""
"""What of these is not in mask: the picture, a control of it, a number that it tells, where one is, names."""

ROOMS_SHOWN = [room.name for room in ROOMS]


@pytest.mark.parametrize(
    "room", [pytest.param(name, marks=() if name == "bias" else pytest.mark.slow) for name in ROOMS_SHOWN]
)
def test_every_stage_is_whole_in_a_window_and_no_words_overlap(visitor: Any, room: str) -> None:
    page = visitor.open(f"/{room}")
    for stage in next(each for each in ROOMS if each.name == room).stages:
        visitor.turn(stage.question)
        reveal(page)
        page.wait_for_timeout(320)
        assert page.evaluate(BEYOND) == [], stage.question
        assert page.evaluate(HIDDEN) == [], stage.question
        for width, height in WINDOWS:
            resize(page, width, height)
            assert hindrances(page) == [], (stage.question, width)
        page.evaluate("() => dispatchEvent(new HashChangeEvent('hashchange'))")  # as somebody who arrives
        assert page.evaluate(ON_A_PHONE) == [], stage.question
        for width, height in reversed(SIZES.values()):
            resize(page, width, height)
            assert page.evaluate(FAULTS) == [], (stage.question, width)
        page.set_viewport_size({"width": 1280, "height": 800})


def styled(css: str) -> str:
    """A script that gives the page this style besides its own."""
    return f"() => {{ const s = new CSSStyleSheet(); s.replaceSync('{css}'); document.adoptedStyleSheets = [s]; }}"


STRIKE = """() => { const [curve, name] = [".curve", ".name-end"].map((e) => document.querySelector("#weights "+e));
  const { x, y } = curve.getPointAtLength(curve.getTotalLength() / 2);
  name.setAttribute("x", x - 10);
  name.setAttribute("y", y); }"""
RENAME = "() => { document.querySelector('nav.stages a').textContent = '1'; }"
ONE_END = """() => { const [one, other] = document.querySelectorAll("#weights .leader");
  other.setAttribute("d", one.getAttribute("d")); }"""
OVER_EACH_OTHER = "() => document.querySelectorAll('#weights svg text').forEach((e) => e.setAttribute('x', 40))"
SMALLER_NUMBER = "() => { document.querySelector('#shift-both .readouts .number').className = ''; }"

BREAKS = {
    "narrow": (320, "/rotation", "", [(styled(".stage-head { min-width: 400px; }"), WIDE, "")]),
    "first page": (
        1280,
        "/",
        "",
        [("() => { document.querySelector('h1').style.color = '#bbbbbb'; }", HINDRANCES, "contrast")],
    ),
    "contact sheet": (
        1280,
        "/rotation",
        "pairings",
        [
            (styled(".grid .row { flex-basis: 1rem !important; }"), FAULTS, "of the panel's height"),
            (styled(".panels .panel { width: 40%; }"), FAULTS, "off-centre"),
        ],
    ),
    "contact sheet of a phone": (
        390,
        "/rotation",
        "pairings",
        [
            (styled(".stage-head { height: 36rem; }"), FAULTS, "of the picture is in view"),
            (
                styled(".bench { position: static !important; } .controls { padding-top: 40rem; }"),
                FAULTS,
                "not in view with the picture: position",
            ),
        ],
    ),
    "tall picture of a phone": (
        390,
        "/rotation",
        "pairings",
        [(styled("#room .panels { height: 50rem !important; }"), FAULTS, "not in view with the picture: position")],
    ),
    "numbers": (
        1280,
        "/rotation?m=2",
        "shift-both",
        [
            (styled("#shift-both .readouts .number { width: 3rem; }"), FAULTS, "cut off: −1.100"),
            (SMALLER_NUMBER, FAULTS, "no number is larger than the others"),
        ],
    ),
    "names and window": (
        1280,
        "/bias",
        "weights",
        [
            (RENAME, FAULTS, "a stage is named 1"),
            (ONE_END, FAULTS, "lines that end at the same place have separate names"),
            (styled("#weights .tries { margin-top: 60rem; }"), BEYOND, ""),
            (STRIKE, HINDRANCES, "struck through"),
            (OVER_EACH_OTHER, HINDRANCES, "over each other"),
            (styled("#weights .readouts { height: 2rem; overflow: auto; }"), HIDDEN, ""),
            (styled("#weights .answer { margin-left: 80rem; }"), HINDRANCES, "beyond the window"),
        ],
    ),
}
"""A window's width, a page, a stage, and what breaks it: a script, the check that finds it, and what that says."""


@pytest.mark.parametrize("case", BREAKS)
def test_the_checks_can_fail(visitor: Any, case: str) -> None:
    width, path, stage, faults = BREAKS[case]
    visitor.page.set_viewport_size({"width": width, "height": 844 if width < 1280 else 800})
    page = visitor.open(path, stage)
    for script, check, said in faults:
        assert not [found for found in page.evaluate(check) if said in str(found)], said
        page.evaluate(script)
        page.wait_for_timeout(60)
        assert [found for found in page.evaluate(check) if said in str(found)], said


A4 = {"viewport": {"width": 718, "height": 1000}}
"""Its width between margins of 1 cm, at 96 pixels an inch."""


@pytest.mark.parametrize("visitor", [A4], indirect=True, ids=["A4"])
@pytest.mark.parametrize(
    "stage",
    ["rotation/shift-both", *(pytest.param(s, marks=pytest.mark.slow) for s in ("bias/bias", "models/layers"))],
)
def test_on_paper_are_the_picture_and_its_numbers_without_controls(visitor: Any, stage: str) -> None:
    page = visitor.open(*f"/{stage}".rsplit("/", 1))
    reveal(page)
    page.emulate_media(media="print")
    page.wait_for_timeout(320)
    for shown in ("h1", ".current h2", ".current .answer", ".current .panel", ".current .readouts"):
        assert page.locator(shown).first.is_visible(), shown
    for hidden in ("button", "input", "textarea", "select", "nav", "summary", "a:not(.mark)", ".verdict"):
        assert not page.locator(f"{hidden}:visible").count(), hidden
    assert hindrances(page) == []
    boxes = page.locator(".current :is(.panels, .readouts)").evaluate_all(
        "(all) => all.map((e) => e.getBoundingClientRect().bottom)"
    )
    assert boxes[0] < boxes[1] < 1000


@pytest.mark.parametrize(
    ("address", "control", "chosen"),
    [("longer", "cache-capacity", "cache-event-push"), ("order?remove=0", "shuffle-encoding", "shuffle-remove")],
)
def test_what_a_choice_does_not_use_is_not_offered(visitor: Any, address: str, control: str, chosen: str) -> None:
    page = visitor.open(f"/{address}", control.partition("-")[0])
    assert page.locator(f"#{control}").is_visible()
    page.locator(f"#{chosen}").check()
    assert not page.locator(f"#{control}").is_visible()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing(visitor: Any, path: str, scheme: str) -> None:
    page = visitor.open(path)
    page.emulate_media(color_scheme=scheme)
    room = next((room for room in ROOMS if path == f"/{room.name}"), None)
    for stage in room.stages if room else ("",):
        if stage:
            visitor.turn(stage.question)
        page.locator(".current details").evaluate_all("(all) => all.forEach((each) => { each.open = true; })")
        for width, height in (WINDOWS[0], WINDOWS[-1]):
            page.set_viewport_size({"width": width, "height": height})
            assert violations(page) == [], (stage, width)
