"""Reports the LongPPL of every method as a sentence, and as a table for the terminal and the HTML page."""

import math
from collections.abc import Sequence

from rich.table import Table

from posenc.pictures.numbers import count, fixed, signed
from posenc.workbench.extension.decision import Extension
from posenc.workbench.extension.longppl import LongPPL, longppl
from posenc.workbench.report.terminal import grid
from posenc.workbench.report.words import ends


def rows(extension: Extension) -> list[tuple[str, LongPPL]]:
    """Return the label and LongPPL of every method, lowest LongPPL first."""
    return sorted(
        ((curve.label, longppl(extension, curve)) for curve in extension.curves),
        key=lambda row: (math.isnan(row[1].value), row[1].value),
    )


def answer(extension: Extension) -> str:
    """Describe the lowest LongPPL in a sentence, with its evaluator and the number of key tokens."""
    assert extension.key is not None
    by, keys = extension.evaluator, int(extension.key.sum())
    rule = (
        f"{by['model']} as evaluator: a key token's probability after up to {count(by['long'])} tokens is above "
        f"e^{by['gain']:g} times that after {count(by['short'])}, and above e^{by['likely']:g}"
    )
    if not keys:
        return f"LongPPL: none of {count(extension.key.numel())} tokens is a key token ({rule})."
    label, best = rows(extension)[0]
    return (
        f"LongPPL is lowest with {label}: {best.value:.3g}, on {count(keys)} key tokens of "
        f"{count(extension.key.numel())} ({rule}). Compare LongPPL only with values from the same evaluator."
    )


def cells(each: LongPPL) -> tuple[tuple[str, str], ...]:
    """Return a method's three values, one for each heading of ``heads``. Each is a pair of strings, the value
    and its interval; only the difference from the unchanged model has an interval."""
    gap = each.to_unchanged
    change = "–" if math.isnan(gap.mean) else signed(gap.mean)
    return (fixed(each.value), ""), (fixed(each.beyond), ""), (change, ends(gap))


def heads(extension: Extension) -> Sequence[str]:
    """Return the headings of the columns that ``cells`` fills."""
    return "LongPPL", f"past {count(extension.original_length)}", "vs no change, in nats"


def table(extension: Extension) -> Table:
    """Return the methods as a table for the terminal, lowest LongPPL first."""
    table = grid(
        "method",
        heads(extension),
        f"perplexity of key tokens, lower is better; evaluator {extension.evaluator['model']}",
    )
    for label, each in rows(extension):
        table.add_row(label, *(text for text, _ in cells(each)))
    return table
