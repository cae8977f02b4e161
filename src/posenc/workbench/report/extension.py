"""An extension as sentences, a view, a table for the terminal and a page."""

import json
import math
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from posenc.pictures import view
from posenc.pictures.numbers import count, fixed, signed
from posenc.pictures.view import Axis, Lines, View
from posenc.workbench.extension.curves import Extension, MethodLosses
from posenc.workbench.extension.decision import MARGIN, Candidate, Decision
from posenc.workbench.extension.effective import by_loss
from posenc.workbench.report import longppl
from posenc.workbench.report.page import picture, render
from posenc.workbench.report.terminal import grid
from posenc.workbench.report.words import ends
from posenc.workbench.study.effective_length import FEW
from posenc.workbench.study.statistics import Interval, number, student


def headline(decision: Decision) -> str:
    """The decision as a heading."""
    extension, chosen = decision.extension, decision.chosen
    end = f"{count(extension.length)} {extension.unit}s"
    if not chosen.finite:
        return f"No method reads {end} with a finite loss"
    if not decision.decided:
        return f"Undecided with {_documents(extension)}: {chosen.label}, or {decision.open[0].label}"
    if chosen.curve is None:
        return f"Do not stretch: {chosen.label}"
    if chosen.change == "nothing":
        return f"Change nothing to read {end}: {chosen.label} is as good as any change"
    return f"{'Fine-tune and use' if chosen.curve.tuned else 'Use'} {chosen.curve.method.label} to read {end}"


def answer(decision: Decision) -> str:
    """The evidence: losses on the same targets, the differences that decide, and what stays undecided."""
    extension = decision.extension
    chosen, nothing, cut = decision.chosen, decision.nothing, decision.cut
    if not chosen.finite:
        return f"{headline(decision)}."
    unit, far = extension.unit, count(extension.far * extension.width)
    start = count(extension.original_length)
    changes = [c for c in decision.candidates if c not in (chosen, nothing, cut)]  # the best of them is named
    named = dict.fromkeys((chosen, *decision.open[:1], *changes[:1], cut, nothing))
    losses = ", ".join(f"{fixed(c.loss, 2)} {'with' if c.curve else 'when'} {c.label}" for c in named)
    text = [f"Loss on the last {far} {unit}s, in nats per {unit} over {_documents(extension)}: {losses}."]
    beaten = ((nothing, "changing nothing"), (cut, "cutting")) if decision.decided and chosen is not nothing else ()
    text += [
        f"The first is surely better than {words} ({_gap(decision.gap(chosen, other))})."
        for other, words in beaten
        if other is not chosen
    ]
    if chosen.change not in ("nothing", "cut"):
        text.append(f"Loss on the first {start} {unit}s changes by {_gap(decision.cost(chosen))}.")
    elif decision.decided:
        text.append("No other change is surely better.")
    text += [
        f"Whether {other.label} is better than {chosen.label} is undecided ({_gap(decision.gap(other, chosen))}): "
        "score more --documents."
        for other in decision.open[:1]
    ]
    return " ".join(text)


def _documents(extension: Extension) -> str:
    documents = len(extension.window)
    return f"{documents} document{'s' if documents > 1 else ''}"


def _gap(gap: Interval) -> str:
    """A difference with its interval."""
    return ", ".join(filter(None, ("–" if math.isnan(gap.mean) else signed(gap.mean), ends(gap))))


def lengths(decision: Decision) -> str:
    """The effective lengths of the unchanged model and of the method to use."""
    extension = decision.extension
    named = dict.fromkeys((decision.chosen.curve or extension.plain, extension.plain))
    each = "; ".join(f"{by_loss(extension, curve)} with {curve.label}" for curve in named)
    text = (
        f"Effective length in {extension.unit}s, loss within {MARGIN:g} nats of the model's own at "
        f"{count(extension.original_length)}: {each}."
    )
    if len(extension.window) < FEW:
        text += f" Score {FEW} --documents or more to decide it."
    return text


def as_json(decision: Decision) -> dict[str, Any]:
    """What programs read: the decision, its candidates, and the effective length of every method, by its name."""
    extension = decision.extension
    by_method: dict[bool, dict[str, Any]] = {False: {}, True: {}}
    for curve in extension.curves:
        by_method[curve.tuned][curve.method.name] = by_loss(extension, curve).as_json()
    return {
        "model": extension.model,
        "identity": extension.identity,
        "unit": extension.unit,
        "original_length": extension.original_length,
        "length": extension.length,
        "documents": len(extension.window),
        "text_sha256": extension.text.sha256,
        "use": decision.chosen.name,
        "change": decision.chosen.change,
        "decided": decision.decided,
        "candidates": [
            {
                "name": c.name,
                "change": c.change,
                "standing": decision.standing(c),
                "loss": number(c.loss),
                "losses": {n: number(fmean(c.at(i))) for i, n in enumerate(extension.lengths)},
                "to_nothing": decision.gap(c, decision.nothing).as_json(),
                "to_cut": decision.gap(c, decision.cut).as_json(),
            }
            for c in decision.candidates
        ],
        "margin": MARGIN,
        "effective_length": by_method[False],
        "effective_length_tuned": by_method[True],
        "longppl": longppl.as_json(extension),
        "hardware": list(extension.hardware),
    }


def over_positions(decision: Decision, *, tuned: bool = False) -> View:
    """The loss at every position under every method, with 95% intervals over documents."""
    extension = decision.extension
    curves = [c for c in extension.curves if c.tuned == tuned]
    centres = tuple(extension.width * (i + 0.5) for i in range(curves[0].losses.shape[1]))
    lines = tuple(_curve(c, c is decision.chosen.curve, extension.plain) for c in curves)
    mark = ((float(extension.original_length), "trained to here"),)
    axis = Axis("position", centres, f"{extension.unit}s")
    title = f"After {extension.tuning}" if tuned else headline(decision)
    cut = ((decision.cut.loss, decision.cut.label),) if decision.cut.finite else ()
    return View(title, (Lines("loss", lines, axis, "loss", f"nats per {extension.unit}", marks=mark, levels=cut),))


def _curve(curve: MethodLosses, chosen: bool, unchanged: MethodLosses) -> view.Line:
    """The mean over documents; a band for the method to use and the unchanged one, where documents allow one."""
    mean, label = curve.losses.mean(0), curve.method.label
    hand = "nope" if label == unchanged.label else "rotary" if chosen else ""
    if len(curve.losses) < 2 or not hand:
        return view.Line(label, mean, hand)
    bounds = [student(column.tolist()) for column in curve.losses.T]
    low, high = (torch.tensor(side) for side in zip(*bounds, strict=True))
    return view.Line(label, mean, hand, low, high)


def heads(decision: Decision) -> list[str]:
    """Of a table's columns of numbers: the effective length, and the lengths before which losses are."""
    return ["effective length", *map(count, decision.extension.lengths)]


def caption(decision: Decision) -> str:
    """What the numbers of a table are."""
    start, unit = count(decision.extension.original_length), decision.extension.unit
    return f"nats per {unit} on the last {start} before each length, lower is better; trained to {start}"


def cells(decision: Decision, candidate: Candidate) -> tuple[tuple[str, str], ...]:
    """A candidate's row: its effective length with the interval, and losses with differences from no change."""
    reach = by_loss(decision.extension, candidate.curve).parts if candidate.curve else ("–", "")
    losses = candidate.losses.mean(0).tolist()
    gaps = [decision.gap(candidate, decision.nothing, i) for i in range(len(losses))]
    small = [_gap(gap) if math.isfinite(gap.mean) and candidate is not decision.nothing else "" for gap in gaps]
    return reach, *zip(map(fixed, losses), small, strict=True)


def rows(decision: Decision, *, tuned: bool) -> list[Candidate]:
    """Of the table of the model as it is, or of the tuned one."""
    return [c for c in decision.candidates if c.change.startswith("weights") == tuned]


def table(decision: Decision, *, tuned: bool = False) -> Table:
    """The candidates for the terminal, best first; the one to use is named in words."""
    title = f"After {decision.extension.tuning}" if tuned else ""
    shown = grid("method", heads(decision), caption(decision), title)
    shown.add_column("", no_wrap=True)
    for candidate in rows(decision, tuned=tuned):
        numbers = (text for text, _ in cells(decision, candidate))
        style = "bold" if candidate is decision.chosen else ""
        shown.add_row(candidate.label, *numbers, decision.standing(candidate), style=style)
    return shown


def printed(decision: Decision, files: Iterable[str]) -> Group:
    """For the terminal: the decision, its evidence, tables of the model as it is and tuned, and the files."""
    extension = decision.extension
    parts: list[RenderableType] = [Text(f"\n{headline(decision)}\n", "bold")]
    parts.append(Text(f"{answer(decision)}\n\n{lengths(decision)}\n"))
    parts += [table(decision, tuned=tuned) for tuned in sorted({curve.tuned for curve in extension.curves})]
    if extension.key is not None:
        parts += [longppl.table(extension), Text(f"\n{longppl.answer(extension)}\n", "bold")]
    return Group(*parts, *map(Text, files))


def write(
    decision: Decision,
    folder: Path,
    command: str,
    spent: float,
    patch: dict[str, Any] | None,
) -> Path:
    """``extension.json`` and ``report.html`` in ``folder``.

    ``patch`` is what the config gets, where there is one.
    """
    extension = decision.extension
    parts = [
        {
            "rows": rows(decision, tuned=tuned),
            "picture": picture(over_positions(decision, tuned=tuned), name),
        }
        for tuned, name in ((False, "extension"), (True, "extension-tuned"))
        if not tuned or extension.finetune
    ]
    page = render(
        "extend.html",
        command=command,
        extension=extension,
        decision=decision,
        answer=headline(decision),
        words=answer(decision),
        lengths=lengths(decision),
        documents=len(extension.window),
        unit=extension.unit,
        margin=MARGIN,
        start=count(extension.original_length),
        caption=caption(decision),
        columns=heads(decision),
        cells=partial(cells, decision),
        parts=parts,
        longppl=None if extension.key is None else longppl,
        patch=None if patch is None else json.dumps(patch, indent=2),
        spent=spent,
        hardware=", ".join(extension.hardware),
    )
    folder.mkdir(parents=True, exist_ok=True)
    numbers = json.dumps(as_json(decision), indent=2, ensure_ascii=False)
    (folder / "extension.json").write_text(f"{numbers}\n", encoding="utf-8")
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path
