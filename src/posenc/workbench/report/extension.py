"""An extension as sentences, a view, a table for the terminal and a page."""

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from posenc.pictures import view
from posenc.pictures.numbers import count, fixed, signed
from posenc.pictures.view import Axis, Lines, View
from posenc.workbench.extend.curves import Extension, MethodLosses
from posenc.workbench.extend.decision import MARGIN, Candidate, Decision
from posenc.workbench.extend.effective import by_loss
from posenc.workbench.report import longppl
from posenc.workbench.report.page import embedded, render
from posenc.workbench.report.terminal import grid
from posenc.workbench.report.words import ends
from posenc.workbench.study.effective_length import FEW
from posenc.workbench.study.statistics import Interval, number, over_blocks, student


def headline(extension: Extension, decision: Decision) -> str:
    """The decision as a heading."""
    chosen, end = decision.chosen, f"{count(extension.length)} {extension.unit}s"
    if not chosen.finite:
        return f"No method reads {end} with a finite loss"
    if not decision.decided:
        return f"Undecided with {_documents(extension)}: {chosen.label}, or {decision.open[0].label}"
    if chosen.curve is None:
        return f"Do not stretch: {chosen.label}"
    if chosen.change == "nothing":
        return f"Change nothing to read {end}: {chosen.label} is as good as any change"
    return f"{'Fine-tune and use' if chosen.curve.tuned else 'Use'} {chosen.curve.method.label} to read {end}"


def answer(extension: Extension, decision: Decision) -> str:
    """The evidence: losses on the same targets, the differences that decide, and what stays undecided."""
    chosen, nothing, cut = decision.chosen, decision.nothing, decision.cut
    if not chosen.finite:
        return f"{headline(extension, decision)}."
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
    return ", ".join(filter(None, _difference(gap)))


def _difference(gap: Interval) -> tuple[str, str]:
    """A cell: a difference, and its interval."""
    return "–" if math.isnan(gap.mean) else signed(gap.mean), ends(gap)


def lengths(extension: Extension, decision: Decision) -> str:
    """The effective lengths of the unchanged model and of the method to use."""
    named = dict.fromkeys((decision.chosen.curve or extension.plain, extension.plain))
    each = "; ".join(f"{by_loss(extension, curve)} with {curve.label}" for curve in named)
    text = (
        f"Effective length in {extension.unit}s, loss within {MARGIN:g} nats of the model's own at "
        f"{count(extension.original_length)}: {each}."
    )
    if len(extension.window) < FEW:
        text += f" Score {FEW} --documents or more to decide it."
    return text


def as_json(extension: Extension, decision: Decision) -> dict[str, Any]:
    """What programs read: the decision, its candidates, and the effective length of every method, by its name."""
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


def over_positions(extension: Extension, decision: Decision, *, tuned: bool = False) -> View:
    """The loss at every position under every method, with 95% intervals over documents."""
    curves = [c for c in extension.curves if c.tuned == tuned]
    centres = tuple(extension.width * (i + 0.5) for i in range(curves[0].losses.shape[1]))
    lines = tuple(_curve(c, c is decision.chosen.curve, extension.plain) for c in curves)
    mark = ((float(extension.original_length), "trained to here"),)
    axis = Axis("position", centres, f"{extension.unit}s")
    title = f"After {extension.tuning}" if tuned else headline(extension, decision)
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


HEADS = (
    "effective length",
    "loss, last {far}",
    "last {far} minus unchanged",
    "last {far} minus cut",
    "first {length} minus unchanged",
)


def heads(extension: Extension) -> list[str]:
    """Of a table's columns of numbers."""
    far = count(extension.far * extension.width)
    return [head.format(length=count(extension.original_length), far=far) for head in HEADS]


def cells(extension: Extension, decision: Decision, candidate: Candidate) -> tuple[tuple[str, str], ...]:
    """A candidate's row: effective length, loss, and differences, each with its interval."""
    reach = by_loss(extension, candidate.curve).parts if candidate.curve else ("–", "")
    loss = over_blocks(candidate.far)
    gaps = (decision.gap(candidate, decision.nothing), decision.gap(candidate, decision.cut))
    return (reach, (fixed(loss.mean), ends(loss)), *map(_difference, (*gaps, decision.cost(candidate))))


def rows(decision: Decision, *, tuned: bool) -> list[Candidate]:
    """Of the table of the model as it is, or of the tuned one."""
    return [c for c in decision.candidates if c.change.startswith("weights") == tuned]


def table(extension: Extension, decision: Decision, *, tuned: bool = False) -> Table:
    """The candidates for the terminal, best first; the one to use is named in words."""
    caption = f"nats per {extension.unit}, lower is better; trained to {extension.original_length}"
    made = grid("method", heads(extension), caption, f"After {extension.tuning}" if tuned else "")
    made.add_column("", no_wrap=True)
    for candidate in rows(decision, tuned=tuned):
        numbers = (text for text, _ in cells(extension, decision, candidate))
        style = "bold" if candidate is decision.chosen else ""
        made.add_row(candidate.label, *numbers, decision.standing(candidate), style=style)
    return made


def write(
    extension: Extension,
    decision: Decision,
    folder: Path,
    command: str,
    spent: float,
    patch: dict[str, Any] | None,
) -> Path:
    """Figures, ``extension.json`` and ``report.html`` in ``folder``.

    ``patch`` is what the config gets, where there is one.
    """
    parts = [
        {
            "rows": rows(decision, tuned=tuned),
            "picture": embedded(over_positions(extension, decision, tuned=tuned), name, folder / "figures"),
        }
        for tuned, name in ((False, "extension"), (True, "extension-tuned"))
        if not tuned or extension.finetune
    ]
    page = render(
        "extend.html",
        command=command,
        extension=extension,
        decision=decision,
        answer=headline(extension, decision),
        words=answer(extension, decision),
        lengths=lengths(extension, decision),
        documents=len(extension.window),
        unit=extension.unit,
        margin=MARGIN,
        start=count(extension.original_length),
        columns=heads(extension),
        cells=partial(cells, extension, decision),
        parts=parts,
        longppl=None if extension.key is None else longppl,
        patch=None if patch is None else json.dumps(patch, indent=2),
        spent=spent,
        hardware=", ".join(extension.hardware),
    )
    numbers = json.dumps(as_json(extension, decision), indent=2, ensure_ascii=False)
    (folder / "extension.json").write_text(f"{numbers}\n", encoding="utf-8")
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path
