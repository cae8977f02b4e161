"""Reports the results of ``extend`` as sentences, as a figure, as a table for the terminal, and as an HTML
page."""

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
from posenc.workbench.extension.decision import MARGIN, SAME, Candidate, Extension
from posenc.workbench.files import write_texts
from posenc.workbench.report import longppl
from posenc.workbench.report.page import picture, render
from posenc.workbench.report.terminal import grid
from posenc.workbench.report.words import ends, mixed
from posenc.workbench.study.statistics import FEW, Interval, number, student

VERDICT = "against the method to use"
"""The heading of the column of verdicts, which compare each candidate with the chosen one."""


def headline(extension: Extension) -> str:
    """Return the decision as a heading."""
    chosen = extension.chosen
    end = f"{count(extension.length)} {extension.unit}s"
    if not extension.finite(chosen):
        return f"No method reads {end} with a finite loss"
    if not extension.decided:
        first, *more = extension.open  # the cheapest, and the others
        others = f"; and {len(more)} more" if more else ""
        return (
            f"Undecided with {_documents(extension)}. For now: {chosen.label}. May be better: {first.label}{others}"
        )
    if chosen.cut:
        return f"Do not extend: {'fine-tune, then ' if chosen.tuned else ''}{chosen.cut}"
    if chosen is extension.unchanged:
        return f"Change nothing to read {end}: the model is as good with {chosen.label} as with any change"
    return f"{'Fine-tune and use' if chosen.tuned else 'Use'} {chosen.method.label} to read {end}"


def answer(extension: Extension) -> str:
    """Describe the evidence for the decision: losses on the same targets, the decisive differences, and what is
    undecided."""
    chosen, unchanged, cut = extension.chosen, extension.unchanged, extension.cut
    if not extension.finite(chosen):
        return f"{headline(extension)}."
    unit, far = extension.unit, count(extension.far * extension.width)
    same = extension.cuts.get(chosen, cut)  # the same weights on truncated text
    changes = [c for c in extension.candidates if c not in (chosen, unchanged) and not c.cut]  # the best is named
    named = dict.fromkeys((chosen, *extension.open[:1], *changes[:1], same, cut, unchanged))
    losses = "; ".join(f"{fixed(extension.loss(c), 2)} {'when' if c is cut else 'with'} {c.label}" for c in named)
    text = [
        f"Loss on the last {far} {unit}s, in nats per {unit} over {_documents(extension)} of "
        f"{extension.text.name}: {losses}."
    ]
    beaten = ((unchanged, "changing nothing"), (same, "cutting after the same tuning" if same.tuned else "cutting"))
    text += [
        f"The method to use is significantly better than {words} ({_gap(extension.gap(chosen, other))})."
        for other, words in beaten
        if extension.decided and chosen not in (unchanged, other)
    ]
    if chosen not in (unchanged, cut):
        text.append(
            f"Loss on the first {count(extension.lengths[0])} {unit}s changes by {_gap(extension.cost(chosen))}."
        )
    if extension.decided and (chosen is unchanged or chosen.cut):
        better = sum(c is not chosen and extension.beats(c, chosen) for c in extension.candidates)
        text.append(
            f"{better or 'No'} other change{'s are' if better > 1 else ' is'} significantly better, by more than "
            f"{SAME:g} nats, than {dict(beaten).get(chosen, chosen.label)}"
            f"{', but not better than every alternative' if better else ''}."
        )
    text += [
        f"Undecided: {other.label}, compared with {chosen.label} ({_gap(extension.gap(other, chosen))}); "
        f"{_remedy(extension)}."
        for other in extension.open[:1]
    ]
    return " ".join(text)


def _remedy(extension: Extension) -> str:
    """Return a phrase that says how to score more documents."""
    return (
        "this text has no further documents, so use a smaller --to or a longer text"
        if extension.exhausted
        else "use a larger --documents"
    )


def _documents(extension: Extension) -> str:
    documents = len(extension.window)
    return f"{documents} document{'s' if documents > 1 else ''}"


def _gap(gap: Interval) -> str:
    """Return a difference with its interval as text."""
    return ", ".join(filter(None, ("–" if math.isnan(gap.mean) else signed(gap.mean), ends(gap))))


def lengths(extension: Extension) -> str:
    """Describe the effective lengths of the chosen method and of the unchanged model."""
    named = dict.fromkeys(c for c in (extension.chosen, extension.unchanged) if not c.cut)
    reach = "; ".join(f"{extension.effective_length(c)} with {c.label}" for c in named)
    caution = (
        f"At least {FEW} documents are needed; {_remedy(extension)}."
        if len(extension.window) < FEW
        else "Each length has its own targets, so easier or harder text can shift the result within its interval."
    )
    return (
        f"Effective length in {extension.unit}s (loss within {MARGIN:g} nats of the unchanged model's at "
        f"{count(extension.original_length)}): {reach}. {caution}"
    )


def as_json(extension: Extension) -> dict[str, Any]:
    """Return the decision and all numbers of every candidate, best first, as JSON for other programs."""
    key = extension.key
    return {
        "model": extension.model,
        "identity": extension.identity,
        "unit": extension.unit,
        "original_length": extension.original_length,
        "length": extension.length,
        "documents": len(extension.window),
        "text_sha256": extension.text.sha256,
        "use": extension.chosen.name,
        "change": extension.change(extension.chosen),
        "decided": extension.decided,
        "candidates": [_numbers(extension, candidate) for candidate in extension.candidates],
        "margin": MARGIN,
        "longppl": None if key is None else {"evaluator": extension.evaluator, "key_tokens": key.sum(1).tolist()},
        "hardware": sorted({run.hardware for run in extension.runs}),
    }


def _numbers(extension: Extension, candidate: Candidate) -> dict[str, Any]:
    """Return the values of a candidate for JSON. A candidate on truncated text has neither an effective length
    nor a LongPPL.

    ``to_cut`` is the difference from the loss of the same weights on truncated text. For a candidate on truncated
    text, it is the difference from the loss of the unchanged model on truncated text.
    """
    scored, same = candidate.tokens is not None, extension.cuts.get(candidate, extension.cut)
    return {
        "name": candidate.name,
        "label": candidate.label,
        "change": extension.change(candidate),
        "standing": extension.standing(candidate),
        "loss": number(extension.loss(candidate)),
        "losses": dict(
            zip(extension.lengths, map(number, map(fmean, extension.by_length[candidate])), strict=True)
        ),
        "to_nothing": extension.gap(candidate, extension.unchanged).as_json(),
        "to_cut": extension.gap(candidate, same).as_json(),
        "effective_length": None if candidate.cut else extension.effective_length(candidate).as_json(),
        "longppl": longppl.longppl(extension, candidate).as_json() if scored else None,
    }


def over_positions(extension: Extension, *, tuned: bool = False) -> View:
    """Draw the loss at every position with every method, and 95% intervals for the chosen candidate and
    the unchanged model."""
    curves = [c for c in extension.curves if c.tuned == tuned]
    centres = tuple(extension.width * (i + 0.5) for i in range(curves[0].losses.shape[1]))
    cuts = [c for c in extension.cuts.values() if c is extension.chosen or c.method == extension.unchanged.method]
    curves += [c for c in cuts if c.tuned == tuned and extension.finite(c)]
    panel = Lines(
        "loss",
        tuple(_curve(extension, c) for c in curves),
        Axis("position", centres, f"{extension.unit}s"),
        "loss",
        f"nats per {extension.unit}",
        marks=((float(extension.original_length), "trained to here"),),
    )
    return View(f"After {extension.tuning}" if tuned else headline(extension), (panel,))


def _curve(extension: Extension, curve: Candidate) -> view.Line:
    """Draw a candidate's mean loss over documents. With two or more documents, the lines of the chosen candidate
    and of the unchanged model get a band, which is the 95% interval.

    A candidate on truncated text is drawn only in the last ``extension.far`` buckets, because it is compared only
    there.
    """
    losses, label = curve.losses.clone(), curve.label if curve.cut else curve.method.label
    if curve.cut:
        losses[:, : -extension.far] = math.nan
    hand = "nope" if label == extension.unchanged.label else "rotary" if curve is extension.chosen else ""
    if len(losses) < 2 or not hand:
        return view.Line(label, losses.mean(0), hand)
    bounds = [student(column.tolist()) for column in losses.T]
    low, high = (torch.tensor(side) for side in zip(*bounds, strict=True))
    return view.Line(label, losses.mean(0), hand, low, high)


def bands(shown: View) -> list[str]:
    """Return the names of the curves that are drawn with a band. A curve with intervals at fewer than two
    positions has no band."""
    lines = [line for panel in shown.panels if isinstance(panel, Lines) for line in panel.lines]
    return [line.name for line in lines if line.low is not None and int(line.low.isfinite().sum()) > 1]


def heads(extension: Extension) -> list[str]:
    """Return the headings of the numeric columns: the lengths for which losses are shown, longest first, and then
    "effective length"."""
    return [*map(count, reversed(extension.lengths)), "effective length"]


def caption(extension: Extension) -> str:
    """Return a caption that explains the numbers in a table."""
    start, unit, far = extension.lengths[0], extension.unit, extension.far * extension.width
    last = f" ({count(far)} before {count(extension.length)})" if far < start else ""
    return (
        f"nats per {unit} on the last {count(start)} before each length{last}, lower is better; trained to "
        f"{count(extension.original_length)}"
    )


def cells(extension: Extension, candidate: Candidate) -> tuple[tuple[str, str], ...]:
    """Return a candidate's numbers in the order of ``heads``, each as a pair of strings.

    For a loss, the pair is the loss and its difference from the unchanged model's loss. For the effective length,
    the pair is the length and its interval.
    """
    unchanged, losses = extension.unchanged, [*map(fmean, extension.by_length[candidate])]
    reach = ("–", "") if candidate.cut else extension.effective_length(candidate).parts
    gaps = [extension.gap(candidate, unchanged, i) for i in range(len(losses))]
    small = [_gap(gap) if math.isfinite(gap.mean) and candidate is not unchanged else "" for gap in gaps]
    return *reversed([*zip(map(fixed, losses), small, strict=True)]), reach


def table(extension: Extension, *, tuned: bool = False) -> Table:
    """Return the candidates as a table for the terminal, best first; "use this" marks the chosen candidate."""
    shown = grid("method", heads(extension), caption(extension), f"After {extension.tuning}" if tuned else "")
    shown.add_column(VERDICT, width=len("not finite"))
    for candidate in (c for c in extension.candidates if c.tuned == tuned):
        shown.add_row(
            candidate.label,
            *(text for text, _ in cells(extension, candidate)),
            extension.standing(candidate),
            style="bold" if candidate is extension.chosen else "",
        )
    return shown


def printed(extension: Extension, files: Iterable[str]) -> Group:
    """Return the output for the terminal: the decision, its evidence, tables before and after tuning, and files."""
    parts: list[RenderableType] = [
        Text(f"\n{headline(extension)}\n", "bold"),
        Text(f"{answer(extension)}\n\n{lengths(extension)}\n"),
        *(table(extension, tuned=tuned) for tuned in sorted({curve.tuned for curve in extension.curves})),
    ]
    if extension.key is not None:
        parts += [longppl.table(extension), Text(f"\n{longppl.answer(extension)}\n", "bold")]
    machines = (f"runs differ in {line}" for line in mixed(extension.runs))
    return Group(*parts, *map(Text, (*machines, *files)))


def write(
    extension: Extension,
    folder: Path,
    command: str,
    patch: dict[str, Any] | None,
) -> Path:
    """Write ``extension.json`` and ``report.html`` to ``folder``, and return the path of the report.

    ``patch`` has the keys to change in the model's config.json, as returned by ``config_patch``; None unless
    the chosen candidate changes the config and nothing else.
    """
    shown = {tuned: over_positions(extension, tuned=tuned) for tuned in sorted({c.tuned for c in extension.curves})}
    parts = [
        {
            "rows": [c for c in extension.candidates if c.tuned == tuned],
            "picture": picture(drawn, "extension-tuned" if tuned else "extension"),
            "bands": bands(drawn),
        }
        for tuned, drawn in shown.items()
    ]
    page = render(
        "extend.html",
        command=command,
        extension=extension,
        answer=headline(extension),
        words=answer(extension),
        lengths=lengths(extension),
        documents=len(extension.window),
        unit=extension.unit,
        margin=MARGIN,
        start=count(extension.original_length),
        caption=caption(extension),
        columns=heads(extension),
        verdict=VERDICT,
        cells=partial(cells, extension),
        parts=parts,
        longppl=None if extension.key is None else longppl,
        patch=None if patch is None else json.dumps(patch, indent=2),
        ran=extension.runs[0].versions if extension.runs else "",
        mixed=mixed(extension.runs),
    )
    numbers = json.dumps(as_json(extension), indent=2, ensure_ascii=False)
    write_texts(folder, {"extension.json": f"{numbers}\n", "report.html": page})
    return folder / "report.html"
