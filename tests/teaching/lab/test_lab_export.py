"""Pages that need no server: they open from files, ask nobody, and hold what they say."""

import base64
import gzip
import itertools
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from posenc.pictures import assets
from posenc.teaching.lab import export, page, results, rooms
from posenc.teaching.lab.page import Site
from posenc.teaching.lab.rooms import Stage, find
from posenc.teaching.lessons.card import DECK
from posenc.teaching.lessons.example import EXAMPLE
from support.lab import reply
from support.photographs import reveal, saved

EXPORTED = [stage for _, stage in rooms.BY_QUESTION.values()]

FIRST_PICTURE = 300_000
"""Most bytes of a page, its script, its style and its first stage's answers."""


def unpacked(pack: str) -> Any:
    parts: list[Any] = []
    for line in gzip.decompress(base64.b64decode(pack)).decode().split("\n"):
        parts.append(json.loads(line, object_hook=lambda part: parts[part["#"]] if "#" in part else part))
    return parts[-1]


def test_a_pack_holds_what_the_server_answers() -> None:
    content = unpacked(export.packed(rooms.find("scaling"))[0])
    for state in ("", "method=linear", "method=ntk"):
        answered = json.loads(reply("/api/scaling", state).body)
        probes = [panel.pop("probe") for panel in content[state]["panels"]]
        assert content[state] == answered
        assert probes[0][0].startswith("pair 0: ")


def test_the_first_page_holds_every_state_of_its_controls() -> None:
    held = unpacked((page.STATIC / "first.js").read_text("utf-8").split('"')[-2])
    controls = find(page.HERO).controls
    moved = [[(c.name, text) for text in c.settable] for c in controls]
    defaults = {(c.name, c.default) for c in controls}
    every = {urlencode([pair for pair in state if pair not in defaults]) for state in itertools.product(*moved)}
    assert held.keys() == every


@pytest.mark.parametrize("stage", EXPORTED, ids=lambda s: s.question)
def test_every_stage_holds_the_state_that_it_opens_in_and_those_of_its_guess(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sliders do not move here; the states are held whatever they do."""
    monkeypatch.setattr(export, "_reached", lambda stage, control: (control.default,))
    content = unpacked(export.packed(replace(stage, tries=()))[0])
    guessed = (stage.guess.before, stage.guess.after) if stage.guess else ()
    assert content.keys() == {"", *map(urlencode, guessed)}
    assert content[""]["panels"]


def test_what_a_saved_page_cannot_answer_is_no_field() -> None:
    alone = replace(rooms.BY_QUESTION["layers"][0], stages=(find("layers"),))
    fixed, live = (page.room_page(alone, {}, site) for site in (Site(saved=True), Site()))
    assert "<textarea" in live
    assert "<textarea" not in fixed
    assert "only in <code>posenc lab</code>." in fixed
    assert "disabled" not in fixed


@pytest.mark.parametrize("name", ["picture", "patches"])
def test_every_cell_that_is_pointed_at_is_held(name: str) -> None:
    stage = find(name)
    stops = {c.name: [str(i) for i in range(4)] for c in stage.controls if c.name in stage.picks}
    held = [dict(state) for state in export.states(stage, stops, tries=False)]
    default = {c.name: c.default for c in stage.controls}
    cells = {tuple((default | state)[pick] for pick in stage.picks) for state in held}
    assert set(itertools.product(*stops.values())) <= cells


def test_one_control_of_a_stage_with_cells_to_point_at_is_weighed_alone() -> None:
    assert {(), (("length", "8"),)} <= {*export.states(find("heatmap"), {"length": ["8"]}, tries=False)}


def test_choices_that_a_page_does_not_hold_are_not_offered() -> None:
    alone = replace(rooms.BY_QUESTION["shuffle"][0], stages=(find("shuffle"),))
    held = Site(saved=True, stops={"shuffle": {"encoding": ["learned", "rotary"]}})
    choices = re.findall(r'value="(\w+)"[^>]*>\s*<label', page.room_page(alone, {}, held))
    assert [name for name in choices if name != "1"] == ["learned", "rotary"]


LONG = "longer than a reference to it"


@pytest.mark.parametrize("content", [{}, [], LONG, [LONG], {"": {"a": LONG}}, {"": [LONG, [LONG]], "a": [LONG]}])
def test_what_is_packed_is_unpacked_whole(content: Any) -> None:
    assert unpacked(export.pack(content)) == content


@pytest.mark.slow
def test_a_stage_that_is_too_much_gives_up_the_stops_that_weigh_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every column that can be dragged to is kept; tables of other lengths are not."""
    monkeypatch.setattr(export, "MOST", 110_000)
    pack, stops = export.packed(rooms.find("heatmap"))
    assert len(pack) <= export.MOST
    assert stops["first"] == stops["second"] == [str(column) for column in range(64)]
    assert {"8", "64", "512"} <= set(stops["length"])
    assert len(stops["length"]) < 10


@pytest.mark.parametrize("entry", [page.STATIC / "lab.js", assets.STATIC / "report.js"], ids=lambda path: path.name)
def test_the_bundle_defines_every_name_once(entry: Path) -> None:
    script = assets.bundle(entry)
    names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", script, re.M)
    assert len(names) == len(set(names))
    assert not re.search(r"^(import|export) ", script, re.M)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of the lab below its documentation, by name, with the answers of one stage."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "index.html").write_text("docs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export, "packed", lambda stage: PACKED(stage) if stage == find("shift-both") else ("", {}))
        return {path.name: path for path in export.write(folder / "lab")}


def test_a_page_opens_from_a_file_in_a_state_and_saves_its_pictures(offline: Any, written: dict[str, Path]) -> None:
    html = written["rotation.html"].read_text("utf-8")
    assert "http://127" not in html
    assert '<a href="../index.html">Docs</a>' in html
    page = offline.open(f"{written['rotation.html'].as_uri()}?m=3", "shift-both")
    assert "−1.100" in page.locator("#shift-both .readouts").inner_text()
    assert page.locator("#shift-both .tip").all_text_contents() == ["dog 3", "man 5"]
    for link in page.locator("#shift-both a.try").all():
        link.click()
        page.locator("#shift-both .error").wait_for(state="hidden")
    offline.write("#shift-both-m", "900")
    page.locator("#shift-both .tip", has_text="dog 16").wait_for()  # the nearest that it holds
    assert page.locator("#shift-both-m").input_value() == "16"
    assert page.locator("#shift-both .error").is_hidden()
    page.locator("#theme").click()
    png, svg = (
        saved(page, page.locator(f'#shift-both button[data-kind="{kind}"]')).path().read_bytes()
        for kind in ("png", "svg")
    )
    assert png.startswith(b"\x89PNG")
    picture = ElementTree.fromstring(svg)
    assert picture.get("data-theme") == "dark", "a picture has the paper that its reader chose"


def test_results_in_a_page_are_those_of_the_study_and_name_no_path_of_this_machine(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, _ = export.packed(export.answerable(find("curves")))
    monkeypatch.setitem(results._shelf, "study", EXAMPLE)
    example, stops = export.packed(export.answerable(find("curves")))
    assert own != example
    assert stops == {"task": ["language", "ordering", "needle"]}
    held = unpacked(example)[""]
    monkeypatch.setitem(results._shelf, "study", EXAMPLE / "twice")  # it has language alone
    assert export.states(export.answerable(find("trained-table")), {}, tries=False) == [
        ()
    ]  # the default is language
    assert held["readouts"][0]["text"].startswith("the example that comes with posenc")
    assert "import EXAMPLE as study" in held["python"]
    assert str(Path(export.__file__).parents[3]) not in json.dumps(unpacked(example))


def test_every_card_leads_to_its_stage() -> None:
    held = {f"{room.name}.html#{stage.question}" for room in rooms.ROOMS for stage in room.stages}
    led = set(re.findall(r'href="([a-z-]+\.html#[^"]*)"', page.cards(Site(saved=True))))
    assert led == {"{}.html#{}".format(*card.stage.split("/")) for card in DECK} <= held


def test_saved_cards_hold_the_numbers_that_live_ones_ask_for() -> None:
    assert page.cards(Site(saved=True)).count("data-number=") == sum(bool(card.number) for card in DECK) > 0
    assert "data-number=" not in page.cards()


@pytest.fixture(scope="module")
def exported(study: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, float]:
    """The whole lab, exported, and the seconds of processor time that this took."""
    folder: Path = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "posenc", "lab", "--study", study, "--export", folder]
    before = os.times()
    run = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    after = os.times()
    assert run.returncode == 0, run.stderr
    assert "Computing stages" in run.stderr
    return folder, sum(after[2:4]) - sum(before[2:4])


PACKED = export.packed


DRAWN = """() => [...document.querySelectorAll(".stage.current .panel :is(.field, .grid, svg)")]
  .map((e) => e.checkVisibility() && e.getBoundingClientRect())
  .filter((box) => box && box.width > 40 && box.height > 40).length"""
"""How many pictures the stage on show has drawn."""


def test_the_card_is_what_a_space_reads_and_pages_say_what_they_show(written: dict[str, Path]) -> None:
    paths = {name: path.read_text("utf-8") for name, path in written.items()}
    _, front, words = paths["README.md"].split("---\n", 2)
    keys = dict(line.split(": ", 1) for line in front.splitlines())
    assert (keys["sdk"], keys["license"]) == ("static", "apache-2.0")
    assert keys["app_file"] in paths
    assert paths["LICENSE"] == (Path(__file__).parents[3] / "LICENSE").read_text("utf-8")
    assert page.ABOUT in words
    previews = {
        name: re.findall(r'<meta property="og:(title|description)" content="([^"]+)">', text)
        for name, text in paths.items()
        if name.endswith(".html")
    }
    assert all([key for key, _ in each] == ["title", "description"] for each in previews.values())
    assert len({each[0] for each in previews.values()}) == len(previews)


@pytest.mark.slow
def test_the_whole_site_takes_a_minute_of_a_processor_and_is_small_and_so_is_every_first_picture(
    exported: tuple[Path, float],
) -> None:
    site, seconds = exported
    assert seconds <= 60
    sizes = {path.relative_to(site).as_posix(): path.stat().st_size for path in site.rglob("*.*")}
    assert sum(sizes.values()) <= 10_000_000
    for room in rooms.ROOMS:
        assert sizes[f"{room.name}.html"] + sizes[f"data/{room.stages[0].question}.js"] <= FIRST_PICTURE


EVERY_STOP = """async () => {
  const stage = document.querySelector(".stage.current"), wrong = [];
  let moved = 0;
  const check = async (what) => {
    for (let i = 0; i < 4; i += 1) await new Promise((done) => setTimeout(done)); // what is asked is painted
    moved += 1;
    const error = stage.querySelector(".error");
    if (error.checkVisibility()) wrong.push(`${what}: ${error.innerText}`);
  };
  const set = (input, value, kind) => {
    input.value = value;
    input.dispatchEvent(new Event(kind));
  };
  stage.querySelector(".reset").click(); // a large stage holds no states around those to try
  const right = () => new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true });
  for (let i = 0; i < 9 && stage.querySelector(".arrow.movable"); i += 1) {
    stage.querySelector(".arrow.movable").dispatchEvent(right());
    await check(`an arrow, step ${i}`);
  }
  stage.querySelector(".reset").click();
  for (const control of stage.querySelectorAll("[data-kind][data-name]")) {
    const { name, kind } = control.dataset;
    const slider = control.querySelector("[type=range]");
    for (let i = 0; slider && i <= Number(slider.max); i += 1) {
      set(slider, i, "input");
      await check(`${name}, stop ${i}`);
    }
    for (const option of control.querySelectorAll("option:enabled")) {
      set(option.parentElement, option.value, "change");
      await check(`${name} ${option.value}`);
    }
    for (const box of control.querySelectorAll(":is([type=radio], [type=checkbox]):enabled")) {
      box.click();
      await check(`${name} ${box.value}`);
    }
    for (const i of control.querySelectorAll(".chips button").keys()) {
      control.querySelectorAll(".chips button")[i].click();
      await check(`${name}, word ${i}`);
    }
    stage.querySelector(".reset").click();
    await check("reset");
  }
  return [wrong, moved];
}"""
"""Moves every control of the stage on show to every stop that the page gives it, one after the other."""


@pytest.mark.slow
def test_every_stage_and_try_opens_from_a_file_and_every_control_moves(
    offline: Any, exported: tuple[Path, float]
) -> None:
    """A stage has its title and its picture, and says nothing of an error."""
    moved, unanswered, page, site = 0, {}, offline.page, exported[0].as_uri()
    for room in rooms.ROOMS:
        for stage in room.stages:
            page.goto("about:blank")
            offline.open(f"{site}/{room.name}.html", stage.question)
            state = stage.guess.after if stage.guess and reveal(page) else {}
            page.locator(f"#{stage.question}.current").wait_for()
            assert page.locator(".current .error").inner_text() == "", stage.question
            assert page.locator(".current .answer").inner_text() == stage.answer(state).title
            assert page.evaluate(DRAWN), stage.question
            for link in page.locator(".current a.try").all():
                link.click()
                page.wait_for_timeout(30)
                assert page.locator(".current .error").is_hidden(), (stage.question, link.inner_text())
            wrong, stops = page.evaluate(EVERY_STOP)
            unanswered |= {stage.question: wrong} if wrong else {}
            moved += stops
    assert unanswered == {}
    assert moved > 1000
    offline.open(f"{site}/index.html")
    page.goto(f"{site}/check.html")
    page.locator("#quiz .card").wait_for()
