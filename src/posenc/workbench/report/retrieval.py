"""Needles found or not: as a sentence, a heatmap per method, a terminal table and a part of the page."""

from pathlib import Path

from jaxtyping import Float
from rich.table import Table
from torch import Tensor

from posenc.pictures.numbers import count
from posenc.pictures.view import Axis, Heatmap, View
from posenc.workbench.extend.retrieval import CHANCE, DEPTHS, SENTENCE, Retrieval
from posenc.workbench.report import blocks
from posenc.workbench.report.blocks import Part, Row, Words
from posenc.workbench.report.builder import embedded
from posenc.workbench.study.statistics import over_answers

GATE = 0.5
"""Share that the unscaled model must find within its trained length for the rest to be about scaling."""
HIDDEN = SENTENCE.format(place="Lima", number="1739").strip()


def answer(needles: Retrieval) -> str:
    """Who finds how much at the full length, or that this model is not fit to be asked."""
    trained, end = count(needles.original_length), count(needles.lengths[-1])
    plain = next(i for i, m in enumerate(needles.methods) if m.name == "none")
    inside = [i for i, n in enumerate(needles.lengths) if n <= needles.original_length]
    within = float(needles.found[plain, inside].double().mean())
    if within < GATE:
        return (
            f"Needles: {needles.model} finds {within:.0%} even within its trained {trained} tokens (chance "
            f"{CHANCE:.0%}), so this test says nothing about scaling here."
        )
    last = needles.found[:, -1].double().mean((1, 2))
    best = max(range(len(last)), key=lambda i: float(last[i]))
    bare = f"{float(last[plain]):.0%}"
    if last[best] == last[plain]:
        said = f"no scaling finds {bare} and no method more"
    else:
        said = f"{needles.methods[best].label} finds {float(last[best]):.0%}, no scaling {bare}"
    inside_too = f"within the trained {trained} no scaling finds {within:.0%}"
    return f"Needles at {end} tokens: {said}; {inside_too} (chance {CHANCE:.0%})."


def over_depth(needles: Retrieval) -> View:
    """The share found by length and depth, a heatmap per method."""
    rows = Axis(
        "length", tuple(map(float, needles.lengths)), "tokens", labels=tuple(count(n) for n in needles.lengths)
    )
    percent = tuple(100 * depth for depth in DEPTHS)
    upright = tuple(f"{value:g}" for value in percent)  # named ticks turn, and fit a panel that is one of seven
    columns = Axis("depth", percent, "% of the text", labels=upright)
    shares = needles.found.double().mean(2)
    panels = tuple(
        Heatmap(m.label, share, rows, columns, "magnitude", "share found", limit=1.0)
        for m, share in zip(needles.methods, shares, strict=True)
    )
    trained = count(needles.original_length)
    return View(f"Needles found by length and depth; trained to {trained} tokens, chance {CHANCE:.2f}", panels)


def table(needles: Retrieval) -> Table:
    """The share found by method and length, for the terminal."""
    made = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left")
    made.caption = _caption(needles)
    made.add_column("method", no_wrap=True)
    for length in needles.lengths:
        made.add_column(f"at {length}", justify="right")
    for method, cells in zip(needles.methods, needles.found, strict=True):
        made.add_row(method.label, *(f"{float(cell.double().mean()):.2f}" for cell in cells))
    return made


def part(needles: Retrieval, folder: Path) -> Part:
    """The figure, written into ``folder`` too, and the table for the page."""
    view = over_depth(needles)
    caption = "Share of needles found, by the length of the text and the depth they lie at."
    how = (
        f"“{HIDDEN}” and eight such sentences, each with its own place and number, lie in one text, one at every "
        "depth. A place's number counts as found when it is likelier than the other eight, by the first token of "
        f"the answer, in which all differ. A model that ignores the text finds {CHANCE:.2f}. "
        f"{_caption(needles).capitalize()}, with 95% Wilson intervals; the weights are not tuned."
    )
    rows = tuple(
        Row(method.label, tuple(map(_cell, cells)))
        for method, cells in zip(needles.methods, needles.found.double(), strict=True)
    )
    drawn = embedded(view, caption, "needles", folder / "figures")
    found = blocks.Table(_caption(needles), ("method", *(f"at {count(n)}" for n in needles.lengths)), rows)
    return Part(
        "What lies far back",
        "needles",
        (Words(answer(needles)), drawn, found, Words(how, quiet=True)),
    )


def _caption(needles: Retrieval) -> str:
    asked = needles.found[0, 0].numel()
    return (
        f"share of {asked} needles found at each length, chance {CHANCE:.2f}; trained to {needles.original_length}"
    )


def _cell(found: Float[Tensor, "haystacks depths"]) -> tuple[str, str]:
    share = over_answers(found.flatten().tolist())
    return f"{share.mean:.2f}", f"{share.low:.2f} … {share.high:.2f}"
