"""Pages that need no server: they open from files, ask nobody, and hold what they say."""

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from posenc.workbench.lab import export, rooms
from posenc.workbench.lab.replies import reply
from workbench.lab.photographs import reveal, settle

FIRST_PICTURE = 300_000
"""Most bytes of a page, its script, its style and its first stage's answers."""


def unpacked(pack: str) -> Any:
    held = json.loads(gzip.decompress(base64.b64decode(pack)))

    def whole(value: Any) -> Any:
        if isinstance(value, list):
            return [whole(part) for part in value]
        if isinstance(value, dict):
            return whole(held["parts"][value["#"]]) if "#" in value else {k: whole(v) for k, v in value.items()}
        return value

    return whole(held["content"])


def test_a_pack_holds_what_the_server_answers() -> None:
    stage = rooms.find("slopes")
    content = unpacked(export.packed(stage, {})[0])
    for state in ("", "heads=12", "heads=112"):
        answered = json.loads(reply("/api/slopes", state).body)
        probes = [panel.pop("probe") for panel in content[state]["panels"]]
        assert content[state] == answered
        assert probes[0][0].startswith("head 1: slope 0.")


def test_every_try_and_every_stop_of_a_slider_is_held() -> None:
    for name in ("shift-both", "hands", "shuffle"):
        stage = rooms.find(name)
        pack, stops = export.packed(stage, {})
        assert len(pack) <= export.MOST
        content = unpacked(pack)
        for t in stage.tries:
            assert "&".join(f"{k}={v}" for k, v in export._state(stage, t.state)) in content, (name, t.words)
        for control, texts in stops.items():
            for text in texts:
                assert "&".join(f"{k}={v}" for k, v in export._state(stage, {control: text})) in content


def test_the_bundle_defines_every_name_once() -> None:
    names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", export.bundle(), re.M)
    assert len(names) == len(set(names))
    assert not re.search(r"^(import|export) ", export.bundle(), re.M)


@pytest.fixture
def offline(browser: Any) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, offline=True)
    page = context.new_page()
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda m: page.complaints.append(m.text) if m.type == "error" else None)
    yield page
    assert page.complaints == []
    context.close()


def test_a_stage_is_saved_as_one_page_that_opens_from_a_file(offline: Any, tmp_path: Path) -> None:
    saved = reply("/save/shift-both.html", "m=3")
    assert saved.filename == "posenc-shift-both.html"
    assert len(saved.body) < FIRST_PICTURE
    assert b"http://127" not in saved.body
    path = tmp_path / saved.filename
    path.write_bytes(saved.body)
    offline.goto(path.as_uri())  # it begins in the state in which it was saved
    settle(offline)
    reveal(offline)
    told = offline.locator("#shift-both .readouts").inner_text()
    assert "−1.100" in told
    assert "3, 5" in told
    for link in offline.locator("a.try").all():
        link.click()
        offline.locator("#shift-both .error").wait_for(state="hidden")
    offline.locator("#shift-both-m").fill("900")
    offline.locator("#shift-both-m").press("Enter")
    offline.locator("#shift-both .error", has_text="and not this one").wait_for()
    offline.locator("#shift-both .reset").click()
    offline.locator("#shift-both .error").wait_for(state="hidden")
    with offline.expect_download() as download:
        offline.locator('a.export[data-kind="png"]').click()
    assert download.value.path().read_bytes().startswith(b"\x89PNG")


def test_the_cards_are_held_with_their_judgements() -> None:
    for card in export._cards():
        assert card["judged"]
        assert card["form"] != "number" or card["judged"][0]["right"]
        assert card["form"] != "choice" or sum(judged["right"] for judged in card["judged"]) == 1


@pytest.mark.slow
def test_the_whole_site_opens_from_files(offline: Any, tmp_path: Path) -> None:
    made = export.write(tmp_path)
    sizes = {path.relative_to(tmp_path).as_posix(): path.stat().st_size for path in made}
    assert sum(sizes.values()) <= 10_000_000
    for room in rooms.ROOMS:
        first = next((stage for stage in room.stages if not stage.fresh), None)
        if first is None:
            continue
        assert sizes[f"{room.name}.html"] + sizes[f"data/{first.question}.js"] <= FIRST_PICTURE
        for stage in room.stages:
            if stage.fresh:
                continue
            offline.goto("about:blank")
            offline.goto(f"{(tmp_path / room.name).as_uri()}.html#{stage.question}")
            settle(offline)
            reveal(offline)
            for link in offline.locator(".current a.try").all():
                link.click()
                offline.wait_for_timeout(30)
                assert offline.locator(".current .error").is_hidden(), (stage.question, link.inner_text())
    offline.goto(f"{(tmp_path / 'index.html').as_uri()}")
    settle(offline)
    offline.goto(f"{(tmp_path / 'check.html').as_uri()}")
    offline.locator("#quiz .card").wait_for()
