"""Needles found or not: a sentence, a heatmap per method, a table for the terminal and the page's context."""

from pathlib import Path

from rich.table import Table

from posenc.pictures.numbers import count
from posenc.pictures.view import Axis, Heatmap, View
from posenc.workbench.extend.methods import Method
from posenc.workbench.extend.retrieval import CHANCE, DEPTHS, NUMBERS, PLACES, SENTENCE, Retrieval
from posenc.workbench.report.page import embedded
from posenc.workbench.study.statistics import Interval, over_answers

GATE = 0.5
"""Share that the unscaled model must find within its trained length for the rest to be about scaling."""


def answer(needles: Retrieval) -> str:
    """The best method's share and the unscaled model's at the full length, or why the test says nothing."""
    trained, end = count(needles.original_length), count(needles.lengths[-1])
    plain = next(i for i, m in enumerate(needles.methods) if m.name == "none")
    inside = [i for i, n in enumerate(needles.lengths) if n <= needles.original_length]
    within = float(needles.correct[plain, inside].double().mean())
    if within < GATE:
        return (
            f"Needles: {needles.model} finds {within:.0%} even within its trained {trained} tokens (chance "
            f"{CHANCE:.0%}), so this test says nothing about scaling here."
        )
    last = needles.correct[:, -1].double().mean((1, 2))
    best = max(range(len(last)), key=lambda i: float(last[i]))
    bare = f"{float(last[plain]):.0%}"
    if last[best] == last[plain]:
        far = f"no scaling finds {bare} and no method more"
    else:
        far = f"{needles.methods[best].label} finds {float(last[best]):.0%}, no scaling {bare}"
    near = f"within the trained {trained} no scaling finds {within:.0%}"
    return f"Needles at {end} tokens: {far}; {near} (chance {CHANCE:.0%})."


def over_depth(needles: Retrieval) -> View:
    """The share found by length and depth, a heatmap per method."""
    rows = Axis(
        "length", tuple(map(float, needles.lengths)), "tokens", labels=tuple(count(n) for n in needles.lengths)
    )
    percent = tuple(100 * depth for depth in DEPTHS)
    upright = tuple(f"{value:g}" for value in percent)  # named ticks turn, and fit a panel that is one of seven
    columns = Axis("depth", percent, "% of the text", labels=upright)
    shares = needles.correct.double().mean(2)
    panels = tuple(
        Heatmap(m.label, share, rows, columns, "magnitude", "share found", limit=1.0)
        for m, share in zip(needles.methods, shares, strict=True)
    )
    trained = count(needles.original_length)
    return View(f"Needles found by length and depth; trained to {trained} tokens, chance {CHANCE:.2f}", panels)


def table(needles: Retrieval) -> Table:
    """The share found by method and length, for the terminal."""
    rows = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left")
    rows.caption = caption(needles)
    rows.add_column("method", no_wrap=True)
    for length in needles.lengths:
        rows.add_column(f"at {length}", justify="right")
    for method, intervals in shares(needles):
        rows.add_row(method.label, *(f"{share.mean:.2f}" for share in intervals))
    return rows


def shares(needles: Retrieval) -> list[tuple[Method, list[Interval]]]:
    """By method and length, the share found with Wilson's interval."""
    return [
        (method, [over_answers(cell.flatten().tolist()) for cell in cells])
        for method, cells in zip(needles.methods, needles.correct.double(), strict=True)
    ]


def context(needles: Retrieval, folder: Path) -> dict[str, object]:
    """The variables of the page's template; writes the figure into ``folder`` too."""
    return {
        "answer": answer(needles),
        "caption": caption(needles),
        "lengths": needles.lengths,
        "picture": embedded(over_depth(needles), "needles", folder),
        "shares": shares(needles),
        "sentence": SENTENCE.format(place=PLACES[0], number=NUMBERS[0]).strip(),
        "chance": CHANCE,
    }


def caption(needles: Retrieval) -> str:
    """The caption of both tables."""
    asked = needles.correct[0, 0].numel()
    return (
        f"share of {asked} needles found at each length, chance {CHANCE:.2f}; trained to {needles.original_length}"
    )
