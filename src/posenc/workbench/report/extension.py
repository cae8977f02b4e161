"""An extension as sentences, a view, a table for the terminal and a page."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from posenc.pictures import view
from posenc.pictures.numbers import count, signed
from posenc.pictures.view import Axis, Lines, View
from posenc.workbench.extend.curves import Extension, MethodLosses
from posenc.workbench.extend.effective import by_loss
from posenc.workbench.extend.verdict import MARGIN, SAME, MethodScore, Verdict, above, judge
from posenc.workbench.report import longppl
from posenc.workbench.report.page import embedded, render
from posenc.workbench.report.terminal import grid
from posenc.workbench.report.words import ends
from posenc.workbench.study.effective_length import FEW
from posenc.workbench.study.statistics import student


def answer(extension: Extension, verdict: Verdict) -> str:
    """The verdict in one sentence or two, with its evidence."""
    scores, chosen = verdict.scores, verdict.chosen
    if not chosen.curve.losses.isfinite().all():
        return f"No method reads {count(extension.length)} {extension.unit}s with a finite loss."
    start, end, far = (
        count(n) for n in (extension.original_length, extension.length, extension.far * extension.width)
    )
    unit = extension.unit
    documents = len(extension.window)
    measured = f"{documents} document{'s' if documents > 1 else ''}, nats per {unit}"
    plain = next((score for score in scores if score.curve.method.name == "none"), chosen)
    if chosen is plain:
        none = "After tuning no scaling" if chosen.curve.tuned else "No scaling"
        best, gap = scores[0].curve.method.label, plain.to_best
        better = "no method is better"
        if gap is not None and gap.mean > SAME:
            better = f"{best} loses {gap.mean:.2f} less, surely less than {MARGIN:g}"
        return (
            f"{none} is needed to reach {end}: the last {far} positions lose {plain.far.mean:.2f} and the "
            f"first {start} lose {plain.inside.mean:.2f} ({measured}), and {better}."
        )
    use = f"After {extension.tuning} use" if chosen.curve.tuned else "Use"
    if chosen is not scores[0] and chosen.to_best is not None:
        use = (
            f"{scores[0].curve.method.label} reads the end best, by {chosen.to_best.mean:.2f}, surely less than "
            f"{MARGIN:g}, and costs short text {signed(scores[0].cost.mean)}. {use}"
        )
    undecided = "".join(
        f" Whether {score.curve.method.label} is as good, which costs short text less, these documents cannot tell "
        f"({signed(score.to_best.mean)}): score more --documents."
        for score in verdict.undecided[:1]
        if score.to_best
    )
    advice = (
        f"{use} {chosen.curve.method.label} to reach {end}: the last {far} positions lose {chosen.far.mean:.2f}, "
        f"{plain.far.mean:.2f} without scaling; the first {start} pay {signed(chosen.cost.mean)} for it "
        f"({measured}).{undecided}"
    )
    gap = chosen.to_window
    if above(gap):
        return advice + (
            f" Yet the last {start} {unit}s alone predict the end better, by {gap.mean:.2f}: cutting the context "
            "beats stretching it here."
        )
    if above(gap.negative):
        return advice + f" The longer context earns {-gap.mean:.2f} over the last {start} {unit}s alone."
    return advice + f" The end is predicted as well as from the last {start} {unit}s alone, not better."


def headline(extension: Extension, verdict: Verdict) -> str:
    """The verdict as a heading."""
    chosen, end = verdict.chosen.curve, f"{count(extension.length)} {extension.unit}s"
    if not chosen.losses.isfinite().all():
        return f"No method reads {end} with a finite loss"
    if chosen.method.name == "none":
        return f"No scaling is needed to reach {end}"
    return f"Use {chosen.method.label} to reach {end}"


def lengths(extension: Extension, *, tuned: bool = False) -> str:
    """The effective lengths of the method to use and of the unscaled model."""
    chosen, plain = judge(extension, tuned=tuned).chosen.curve, extension.plain
    named = [chosen] if chosen is plain else [chosen, plain]
    each = "; ".join(f"{by_loss(extension, curve)} with {curve.label}" for curve in named)
    text = (
        f"Effective length in {extension.unit}s, loss within {MARGIN:g} nats of the model's own at "
        f"{count(extension.original_length)}: {each}."
    )
    if len(extension.window) < FEW:
        text += f" {FEW} --documents decide it."
    return text


def as_json(extension: Extension) -> dict[str, Any]:
    """What programs read: the effective length of every method, by its name."""
    by_method: dict[bool, dict[str, Any]] = {False: {}, True: {}}
    for curve in extension.curves:
        by_method[curve.tuned][curve.method.name] = by_loss(extension, curve).as_json()
    return {
        "model": extension.model,
        "unit": extension.unit,
        "original_length": extension.original_length,
        "length": extension.length,
        "documents": len(extension.window),
        "text_sha256": extension.text.sha256,
        "use": judge(extension).chosen.curve.method.name,
        "margin": MARGIN,
        "effective_length": by_method[False],
        "effective_length_tuned": by_method[True],
        "longppl": longppl.as_json(extension),
        "hardware": list(extension.hardware),
    }


def over_positions(extension: Extension, *, tuned: bool = False) -> View:
    """The loss at every position under every method, with 95% intervals over documents."""
    verdict = judge(extension, tuned=tuned)
    curves = [c for c in extension.curves if c.tuned == tuned]
    centres = tuple(extension.width * (i + 0.5) for i in range(curves[0].losses.shape[1]))
    lines = tuple(_curve(c, c is verdict.chosen.curve) for c in curves)
    mark = ((float(extension.original_length), "trained to here"),)
    axis = Axis("position", centres, f"{extension.unit}s")
    after = f", after {extension.tuning}" if tuned else ""
    title = f"{verdict.chosen.curve.method.label} reaches {count(extension.length)} best{after}"
    return View(title, (Lines("loss", lines, axis, "loss", f"nats per {extension.unit}", marks=mark),))


def _curve(curve: MethodLosses, chosen: bool) -> view.Line:
    """The mean over documents; a band for the method to use and for no scaling, where documents allow one."""
    mean, label = curve.losses.mean(0), curve.method.label
    hand = "rotary" if chosen else "nope" if curve.method.name == "none" else ""
    if len(curve.losses) < 2 or not hand:
        return view.Line(label, mean, hand)
    bounds = [student(column.tolist()) for column in curve.losses.T]
    low, high = (torch.tensor(side) for side in zip(*bounds, strict=True))
    return view.Line(label, mean, hand, low, high)


HEADS = (
    "effective length",
    "loss, first {length}",
    "loss past it",
    "loss, last {far}",
    "last {far} minus best's",
    "first {length} minus no scaling",
)

SHOWN = (0, 1, 3, 4, 5)
"""Of them, what a terminal has room for."""


def cells(extension: Extension, score: MethodScore) -> tuple[tuple[str, str], ...]:
    """A method's row: effective length, losses, the difference to the best and what short text pays, each with its
    interval.
    """
    reach = by_loss(extension, score.curve)
    means = [f"{value.mean:.3f}" for value in (score.inside, score.beyond, score.far)]
    differences = ["–" if value is None else signed(value.mean) for value in (score.to_best, score.cost)]
    intervals = (score.inside, score.beyond, score.far, score.to_best, score.cost)
    return (reach.parts, *zip((*means, *differences), map(ends, intervals), strict=True))


def table(extension: Extension, verdict: Verdict) -> Table:
    """The methods for the terminal, best first; the one to use is named in words."""
    heads = [HEADS[i].format(length=extension.original_length, far=extension.far * extension.width) for i in SHOWN]
    caption = f"nats per {extension.unit}, lower is better; trained to {extension.original_length}"
    rows = grid("method", heads, caption, f"After {extension.tuning}" if verdict.chosen.curve.tuned else "")
    rows.add_column("", no_wrap=True)
    for score in verdict.scores:
        best = score is verdict.chosen
        numbers = [text for text, _ in cells(extension, score)]
        words = f"use this, {score.standing}" if best else score.standing
        rows.add_row(
            score.curve.method.label, *(numbers[head] for head in SHOWN), words, style="bold" if best else ""
        )
    return rows


def write(
    extension: Extension,
    folder: Path,
    command: str,
    spent: float,
    patch: dict[str, Any] | None,
) -> Path:
    """Figures, ``extension.json`` and ``report.html`` in ``folder``.

    ``patch`` is what the config gets, where there is one.
    """
    start, far = count(extension.original_length), count(extension.far * extension.width)
    figures = folder / "figures"
    measured = _measured(extension, figures, tuned=False)
    page = render(
        "extend.html",
        command=command,
        extension=extension,
        documents=len(extension.window),
        unit=extension.unit,
        margin=MARGIN,
        start=start,
        columns=[head.format(length=start, far=far) for head in HEADS],
        cells=partial(cells, extension),
        **measured,
        tuned=_measured(extension, figures, tuned=True) if any(c.tuned for c in extension.curves) else None,
        longppl=None if extension.key is None else longppl,
        patch=None if patch is None else json.dumps(patch, indent=2),
        spent=spent,
        hardware=", ".join(extension.hardware),
    )
    numbers = json.dumps(as_json(extension), indent=2, ensure_ascii=False)
    (folder / "extension.json").write_text(f"{numbers}\n", encoding="utf-8")
    path = folder / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


def _measured(extension: Extension, figures: Path, *, tuned: bool) -> dict[str, Any]:
    """The answer, verdict and picture of the curves as they are, or of the tuned ones."""
    verdict = judge(extension, tuned=tuned)
    picture = embedded(over_positions(extension, tuned=tuned), "extension-tuned" if tuned else "extension", figures)
    return {
        "lengths": lengths(extension, tuned=tuned),
        "answer": headline(extension, verdict),
        "words": answer(extension, verdict),
        "verdict": verdict,
        "picture": picture,
    }
