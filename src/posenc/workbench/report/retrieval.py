"""Answers right or not: a sentence, a heatmap per method, a table for the terminal and the page's context."""

from functools import partial
from pathlib import Path

from rich.table import Table

from posenc.pictures.numbers import count, signed
from posenc.pictures.view import Axis, Heatmap, View
from posenc.workbench.extend.forced_choice import SENTENCES, TASKS, Sheet
from posenc.workbench.extend.methods import Method
from posenc.workbench.extend.retrieval import Retrieval
from posenc.workbench.report.page import embedded
from posenc.workbench.report.terminal import grid
from posenc.workbench.report.words import ends
from posenc.workbench.study.statistics import Interval, over_answers

GATE = 0.5
"""Share that the unscaled model must get right within its trained length for the rest to be about scaling; two
thirds of the way from all to chance where that is more."""


def answer(asked: Retrieval) -> str:
    """The best method's share and the unscaled model's at the full length, or why the test says nothing."""
    trained, end = count(asked.original_length), count(asked.lengths[-1])
    plain = next(i for i, m in enumerate(asked.methods) if m.name == "none")
    inside = [i for i, n in enumerate(asked.lengths) if n <= asked.original_length]
    within = float(asked.correct[plain, inside].double().mean())
    if within < max(GATE, (1 + 2 * asked.chance) / 3):
        return (
            f"Task {asked.task}: {asked.model} answers {within:.0%} right even within its trained {trained} tokens "
            f"(chance {asked.chance:.0%}), so this task says nothing about scaling here."
        )
    last = asked.correct[:, -1].double().mean((1, 2))
    best = max(range(len(last)), key=lambda i: float(last[i]))
    bare = f"{float(last[plain]):.0%}"
    if last[best] == last[plain]:
        far = f"no scaling answers {bare} right and no method more"
    else:
        far = f"{asked.methods[best].label} answers {float(last[best]):.0%} right, no scaling {bare}"
    near = f"within the trained {trained} no scaling answers {within:.0%}"
    return f"Task {asked.task} at {end} tokens: {far}; {near} (chance {asked.chance:.0%})."


def over_depth(asked: Retrieval) -> View:
    """The share right by length and depth, a heatmap per method."""
    rows = Axis("length", tuple(map(float, asked.lengths)), "tokens", labels=tuple(count(n) for n in asked.lengths))
    percent = tuple(100 * depth for depth in asked.depths)
    upright = tuple(f"{value:g}" for value in percent)  # named ticks turn, and fit a panel that is one of seven
    columns = Axis("depth", percent, "% of the text", labels=upright)
    shares = asked.correct.double().mean(2)
    panels = tuple(
        Heatmap(m.label, share, rows, columns, "magnitude", "share right", limit=1.0)
        for m, share in zip(asked.methods, shares, strict=True)
    )
    trained = count(asked.original_length)
    return View(
        f"Task {asked.task} by length and depth; trained to {trained} tokens, chance {asked.chance:.2f}", panels
    )


def table(asked: Retrieval) -> Table:
    """The share right by method and length, for the terminal, and the last one beside the baseline."""
    lengths = (f"at {length}" for length in asked.lengths)
    rows = grid("method", (*lengths, f"minus no scaling at {asked.original_length}"), caption(asked))
    for method, intervals in shares(asked):
        rows.add_row(method.label, *(f"{share.mean:.2f}" for share in intervals), to_baseline(asked, method)[0])
    return rows


def to_baseline(asked: Retrieval, method: Method) -> tuple[str, str]:
    """The share at the full length minus the unscaled model's at its trained length, and the interval."""
    difference = asked.to_baseline(asked.methods.index(method), -1)
    return signed(difference.mean), ends(difference, 2)


def shares(asked: Retrieval) -> list[tuple[Method, list[Interval]]]:
    """By method and length, the share right with Wilson's interval."""
    return [
        (method, [over_answers(cell.flatten().tolist()) for cell in cells])
        for method, cells in zip(asked.methods, asked.correct.double(), strict=True)
    ]


def context(asked: Retrieval, folder: Path) -> dict[str, object]:
    """The variables of the page's template; writes the figure into ``folder`` too, where it is asked by depth."""
    sheet = Sheet(asked.task, 0)
    deep = len(asked.depths) == SENTENCES
    return {
        "task": asked.task,
        "about": TASKS[asked.task]["about"],
        "answer": answer(asked),
        "caption": caption(asked),
        "lengths": asked.lengths,
        "trained": asked.original_length,
        "picture": embedded(over_depth(asked), asked.task, folder) if deep else None,
        "shares": shares(asked),
        "to_baseline": partial(to_baseline, asked),
        "first": sheet.sentences[0].strip(),
        "last": sheet.sentences[-1].strip(),
        "chance": asked.chance,
    }


def caption(asked: Retrieval) -> str:
    """The caption of both tables."""
    answers = asked.correct[0, 0].numel()
    return (
        f"{asked.task}: share of {answers} answers right at each length, chance {asked.chance:.2f}; trained to "
        f"{asked.original_length}"
    )
