"""The built site: search answers in its first three hits, the first picture moves, and every page can be read."""

import json
from pathlib import Path
from typing import Any

import pytest

from support.aloud import RULES, WINDOWS, hindrances, violations
from support.places import ROOT
from support.processes import python

pytestmark = [pytest.mark.slow, pytest.mark.browser]

ANSWERS = {
    "yarn llama": "scaling",
    "rope scaling vllm": "one-config",
    "vllm wrong output long context": "one-config",
    "model repeats after 4k tokens": "one-config",
    "long context fine-tune": "extending",
    "extend context length": "extending",
    "length generalisation": "choosing",
    "length extrapolation": "choosing",
    "which encoding": "choosing",
    "rope or alibi": "choosing",
    "write my own": "exercises/own",
    "custom encoding": "exercises/own",
    "custom bias": "exercises/own",
    "pack sequences": "integrating",
    "cu_seqlens": "recipes/flash",
    "left padding": "integrating",
    "kv cache": "integrating",
    "gqa": "integrating",
    "grouped-query attention": "integrating",
    "static cache": "recipes/static-cache",
    "attention mask float": "errors",
    "error message": "errors",
    "torch.compile": "integrating",
    "context parallel": "integrating",
    "speculative decoding tree": "integrating",
    "softmax scale": "integrating",
    "bfloat16": "integrating",
    "attention sinks": "integrating",
    "streaming llm": "remap",
    "self-extend": "remap",
    "sliding window": "from-transformers",
    "rotate_half": "from-transformers",
    "rope_theta": "from-transformers",
    "position_ids": "from-transformers",
    "interleaved vs half": "from-transformers",
    "convert gguf": "one-config",
    "export onnx": "one-config",
    "flex attention": "recipes/flex",
    "flash attention": "recipes/flash",
    "mrope": "encodings/mrope",
    "qwen vl": "encodings/mrope",
    "alibi slopes": "encodings/alibi",
    "supported models": "models",
    "quick start": "index",
    "install": "index",
    "benchmark speed": "speed",
    "reference vectors": "vectors",
    "day 13": "lessons",
    "context shift": "moving-keys",
    "prefix reuse": "moving-keys",
    "right padding": "padding",
    "custom rotation": "custom-rotation",
    "128k": "long-context",
    "tensor parallel": "integrating",
    "convert pairing": "from-transformers",
    "wrong port": "my-port-is-wrong",
}
"""What is typed, and the page that answers."""

WORKER = """async ([docs, config, questions]) => {
  const replies = [];
  self.postMessage = (data) => replies.push(data);
  await self.listener({ data: { type: 0, data: { config, docs, options: { suggest: false } } } });
  const hits = {};
  for (const question of questions) {
    await self.listener({ data: { type: 2, data: question } });
    const first = replies.at(-1).data.items.slice(0, 3);
    hits[question] = first.map((sections) => sections[0].location.split(".html")[0]);
  }
  return hits;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly."""
    pytest.importorskip("material", reason="needs the extra docs: make docs installs it")
    built = tmp_path_factory.mktemp("docs") / "site"
    environment = {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    python("-m", "mkdocs", "build", "--strict", "-q", "-d", built, cwd=ROOT, **environment)
    return built


def test_search_answers_in_its_first_three_hits(site: Path, browser: Any) -> None:
    index = json.loads((site / "search/search_index.json").read_text("utf-8"))
    page = browser.new_page()
    page.evaluate(
        "self.addEventListener = (name, listener) => { if (name === 'message') self.listener = listener; }"
    )
    page.add_script_tag(path=next((site / "assets/javascripts/workers").glob("search.*.js")))
    hits = page.evaluate(WORKER, [index["docs"], index["config"], list(ANSWERS)])
    assert {question: first for question, first in hits.items() if ANSWERS[question] not in first} == {}


def test_the_first_picture_moves_and_rests_where_motion_is_reduced(site: Path, browser: Any) -> None:
    home = (site / "index.html").as_uri()
    moving, resting = browser.new_page(reduced_motion="no-preference"), browser.new_page(reduced_motion="reduce")
    for page in (moving, resting):
        page.goto(home)
    moving.wait_for_function("document.querySelector('.turning').transform.baseVal[0]?.angle < -1")
    assert resting.evaluate("document.querySelector('.turning').transform.baseVal.length") == 0
    resting.locator(".arrows input").fill("3")
    assert resting.locator(".arrows figcaption").inner_text().startswith("−1.100")
    assert [resting.locator(f".arrows .{name}").inner_text() for name in "mn"] == ["3", "5"]
    assert resting.evaluate("document.querySelector('.turning').transform.baseVal[0].angle") == -135
    moving.click(".arrows button")
    assert moving.locator(".arrows button").inner_text() == "Play"


def test_the_search_finds_from_files(site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    left = []
    page.on("request", lambda request: left.append(request.url) if not request.url.startswith("file:") else None)
    page.goto((site / "encodings" / "rotary.html").as_uri())
    assert page.locator("math").count()
    page.locator("input.md-search__input").click()
    page.keyboard.type("kerple")
    page.locator(".md-search-result__link[href*='encodings/kerple.html']").first.wait_for()
    assert left == []
    page.close()


@pytest.mark.parametrize("paper", ["light", "dark"])
def test_every_page_can_be_read(site: Path, browser: Any, paper: str) -> None:
    """The page for addresses that do not exist is left out: it finds its style on a server only."""
    found = {}
    page = browser.new_page(color_scheme=paper)
    for path in sorted({*site.rglob("*.html")} - {site / "404.html"}):
        page.set_viewport_size({"width": 1280, "height": 800})
        page.goto(path.as_uri())
        wrong = violations(page, RULES)
        for width, height in WINDOWS:
            page.set_viewport_size({"width": width, "height": height})
            wrong += hindrances(page)
        if wrong:
            found[path.relative_to(site).as_posix()] = wrong
    page.close()
    assert found == {}


@pytest.mark.parametrize(
    ("clicks", "end", "answer"),
    [
        (["Is a loaded model right?"], "extending.html#check", "positions that count padding"),
        (["Configs and programs", "Refused scalings, and why"], "one-config.html#refused", "YaRN beyond factor"),
        (["Day 13", "13.5 ALiBi", "slopes-by-head-count"], "claims.html#slopes-by-head-count", "12 heads"),
        (["Day 13", "13.5 ALiBi", "alibi"], "encodings/alibi.html", "the slopes of 4 heads are 1/4, 1/16"),
        (["Error messages"], "errors.html", "key_mask is … expected bool"),
        (["Supported models"], "models.html", "gpt_neox_japanese"),
    ],
)
def test_an_answer_is_three_clicks_from_home(
    site: Path, browser: Any, clicks: list[str], end: str, answer: str
) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto((site / "index.html").as_uri())
    for text in clicks:
        page.get_by_role("link", name=text, exact=True).locator("visible=true").first.click()
    assert page.url == (site / end.partition("#")[0]).as_uri() + "#" * ("#" in end) + end.partition("#")[2]
    assert answer in page.inner_text("article")
