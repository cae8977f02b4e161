"""The reader's own words, on a page that asks nobody: what it computes is what the library computes."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import torch

from posenc.pictures import wire
from posenc.teaching.lab import export, page
from posenc.teaching.lab.rooms import BY_NAME, find
from posenc.teaching.views.order_blind import attend

pytestmark = pytest.mark.browser

LETTERS = "abcdefghijklmnopqrstuvwxyzäöüßéñçøåαβγδжзийкл日本語中文字한국어😀🐕"
COMPUTED = ("nope", "sinusoidal", "rotary", "alibi")


def drawn_texts(count: int) -> list[tuple[list[str], str, bool]]:
    """Sentences of 2 to 8 words of 1 to 12 letters, an encoding that pages compute, and whether a mask is on."""
    draw = random.Random(0)
    return [
        (
            ["".join(draw.choices(LETTERS, k=draw.randint(1, 12))) for _ in range(draw.randint(2, 8))],
            draw.choice(COMPUTED),
            draw.random() < 0.5,
        )
        for _ in range(count)
    ]


def saved_page(folder: Path) -> str:
    """The room of the stage alone, with the one answer that it opens with; its address."""
    stage = find("shuffle")
    site = replace(export.saved(), answers_file=lambda each: f"{each.question}.js")
    room = replace(BY_NAME["order"], stages=(stage,))
    (folder / "order.html").write_text(page.room_page(room, {}, site), encoding="utf-8")
    script = export.script_of("shuffle", export.pack({"": export._answer(stage, ())}))
    (folder / "shuffle.js").write_text(script, encoding="utf-8")
    return f"file://{folder}/order.html"


@torch.no_grad()
@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_drawn_texts_give_the_librarys_numbers(visitor: Any, count: int) -> None:
    texts = drawn_texts(count)
    visitor.open("/check")
    computed = visitor.page.evaluate(
        "async (texts) => { const { attended } = await import('/static/own_words.js');"
        " return texts.map((text) => attended(...text)); }",
        texts,
    )
    for (words, name, causal), outputs in zip(texts, computed, strict=True):
        want = attend(words, name, causal=causal)
        assert float((torch.tensor(outputs) - want).abs().max()) <= 1e-5, words


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"remove": "0"},
        {"encoding": "alibi", "remove": "0", "causal": "1"},
        {"order": "1-0-2", "encoding": "sinusoidal", "remove": "0"},
        {"order": "0-1-2", "encoding": "rotary", "remove": "0"},
    ],
)
def test_a_saved_page_paints_a_sentence_as_the_library_does(
    offline: Any, tmp_path: Path, state: dict[str, str]
) -> None:
    asked, opened = state | {"sentence": "I love you"}, offline.page
    opened.goto(f"{saved_page(tmp_path)}?{urlencode(asked)}")
    opened.locator("#shuffle .cell").first.wait_for()
    want = find("shuffle").answer(asked)
    legends = ["".join(text for _, text in panel["legend"]) for panel in wire.view(want)["panels"]]
    assert opened.locator("#shuffle .matrix .ends").all_text_contents() == legends
    for i, panel in enumerate(want.panels):
        rows = opened.locator("#shuffle .matrix").nth(i).locator(".row:not(.head)").all()
        assert [row.locator(".key").inner_text() for row in rows] == list(panel.rows.labels)  # type: ignore[union-attr]
        cells = [[float(n.replace("−", "-")) for n in row.locator(".number").all_inner_texts()] for row in rows]
        torch.testing.assert_close(torch.tensor(cells), panel.values, atol=5.1e-3, rtol=0)  # type: ignore[union-attr]
    said = {
        ".answer": want.title,
        ".number dd": want.readouts["output values changed"],
        ".readouts > div:last-child dd": want.readouts["status"],
    }
    assert {part: opened.locator(f"#shuffle {part}").inner_text() for part in said} == said
    offline.write("#shuffle-sentence", "a dog bites the man")
    opened.locator("#shuffle .key", has_text="the").first.wait_for()


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sentence=I+love+you&encoding=cope&remove=0", "posenc lab computes all"),
        ("sentence=alone&order=0", "has 1 word; write 2 to 8"),
    ],
)
def test_what_a_saved_page_cannot_compute_is_said(offline: Any, tmp_path: Path, query: str, said: str) -> None:
    offline.page.goto(f"{saved_page(tmp_path)}?{query}")
    offline.page.locator("#shuffle .error", has_text=said).wait_for()
