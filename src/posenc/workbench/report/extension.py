"""An extension as sentences, views, a terminal table and one self-contained HTML page."""

import json
import math
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from posenc.workbench.experiments.extend import Curve, Extension
from posenc.workbench.experiments.machine import hardware, versions
from posenc.workbench.experiments.retrieval import Retrieval
from posenc.workbench.experiments.statistics import Interval, student
from posenc.workbench.experiments.verdict import Line as Judged
from posenc.workbench.experiments.verdict import Verdict, above, judge
from posenc.workbench.figures.draw import save
from posenc.workbench.report import retrieval
from posenc.workbench.report.page import STYLE, figure
from posenc.workbench.report.words import count, seconds, signed
from posenc.workbench.views.view import Axis, Line, Lines, View


def answer(found: Extension, verdict: Verdict) -> str:
    """The verdict in one sentence or two, with its evidence."""
    lines, chosen = verdict.lines, verdict.chosen
    start, end, far = (count(n) for n in (found.original_length, found.length, found.far * found.width))
    unit = found.unit
    many = len(found.window)
    measured = f"{many} document{'s' if many > 1 else ''}, nats per {unit}"
    plain = next((line for line in lines if line.curve.method.name == "none"), chosen)
    if chosen is plain:
        none = "After tuning no scaling" if chosen.curve.tuned else "No scaling"
        return (
            f"{none} is needed to reach {end}: the last {far} positions lose {plain.far.mean:.2f} and the "
            f"first {start} lose {plain.inside.mean:.2f} ({measured}), and no method is better."
        )
    use = f"After {found.finetune} steps of tuning use" if chosen.curve.tuned else "Use"
    said = (
        f"{use} {chosen.curve.method.label} to reach {end}: the last {far} positions lose {chosen.far.mean:.2f}, "
        f"{plain.far.mean:.2f} without scaling; the first {start} pay {signed(chosen.cost.mean)} for it "
        f"({measured})."
    )
    gap = chosen.to_window
    if above(gap):
        return said + (
            f" Yet the last {start} {unit}s alone predict the end better, by {gap.mean:.2f}: cutting the context "
            "beats stretching it here."
        )
    if above(Interval(-gap.mean, -gap.high, -gap.low, gap.of)):
        return said + f" The longer context earns {-gap.mean:.2f} over the last {start} {unit}s alone."
    return said + f" The end is predicted as well as from the last {start} {unit}s alone, not better."


def over_positions(found: Extension, *, tuned: bool = False) -> View:
    """The loss at every position under every method, with 95% intervals over documents."""
    verdict = judge(found, tuned=tuned)
    curves = [c for c in found.curves if c.tuned == tuned]
    centres = tuple(found.width * (i + 0.5) for i in range(curves[0].losses.shape[1]))
    lines = tuple(_curve(c, c is verdict.chosen.curve) for c in curves)
    mark = ((float(found.original_length), "trained to here"),)
    axis = Axis("position", centres, f"{found.unit}s")
    after = f", after {found.finetune} steps of tuning" if tuned else ""
    title = f"{verdict.chosen.curve.method.label} reaches {count(found.length)} best{after}"
    return View(title, (Lines("loss", lines, axis, "loss", f"nats per {found.unit}", marks=mark),))


def _curve(curve: Curve, chosen: bool) -> Line:
    """The mean over documents; a band for the method to use and for no scaling, where documents allow one."""
    mean, label = curve.losses.mean(0), curve.method.label
    hand = "rotary" if chosen else "nope" if curve.method.name == "none" else ""
    if len(curve.losses) < 2 or not hand:
        return Line(label, mean, hand)
    bounds = [student(column.tolist()) for column in curve.losses.T]
    low, high = (torch.tensor(side) for side in zip(*bounds, strict=True))
    return Line(label, mean, hand, low, high)


def table(found: Extension, verdict: Verdict) -> Table:
    """The methods for the terminal, best first; the one to use is named in words."""
    made = Table(box=None, pad_edge=False, header_style="bold", title_justify="left", caption_justify="left")
    made.caption = f"nats per {found.unit}, lower is better; trained to {found.original_length}"
    made.add_column("method", no_wrap=True)
    for head in HEADS[1:]:
        made.add_column(head.format(length=found.original_length, far=found.far * found.width), justify="right")
    made.add_column("", no_wrap=True)
    for line in verdict.lines:
        best = line is verdict.chosen
        made.add_row(line.label, *_numbers(line), "use this" if best else "", style="bold" if best else "")
    return made


HEADS = ("method", "first {length}", "all past it", "last {far}", "to the best", "short text pays")


def _numbers(line: Judged) -> tuple[str, ...]:
    gap = "–" if line.to_best is None else signed(line.to_best.mean)
    means = (f"{value.mean:.3f}" for value in (line.inside, line.beyond, line.far))
    return (*means, gap, signed(line.cost.mean))


def write(
    found: Extension,
    folder: Path,
    command: str,
    spent: float,
    patch: dict[str, Any] | None,
    needles: Retrieval | None = None,
) -> Path:
    """Figures and ``report.html`` in ``folder``; ``patch`` is what the config gets, where there is one."""
    verdict = judge(found)
    parts = [f"<h1>{escape(answer(found, verdict))}</h1>"]
    kinds = [False, True] if any(curve.tuned for curve in found.curves) else [False]
    for tuned in kinds:
        name = "extension-tuned" if tuned else "extension"
        view, verdict = over_positions(found, tuned=tuned), judge(found, tuned=tuned)
        save(view, folder / "figures" / f"{name}.png")
        path = save(view, folder / "figures" / f"{name}.svg")
        if tuned:
            parts.append(
                f"<h2>After {found.finetune} steps of fine-tuning</h2><p>{escape(answer(found, verdict))}</p>"
            )
        caption = "Loss at every position of the same documents."
        if len(found.window) > 1:
            caption += " Bands are 95% intervals over documents, for the method to use and for no scaling."
        parts += [figure(caption, path), _html_table(found, verdict)]
    if needles is not None:
        parts.append(retrieval.part(needles, folder))
    if patch is not None:
        shown = escape(json.dumps(patch, indent=2))
        parts.append(
            "<h2>The change to config.json</h2><p>transformers reads these keys, and so do servers that read its "
            f"configs; null means that the key goes away.</p><pre>{shown}</pre>"
        )
    parts.append(_method(found, command, spent))
    head = f"<!doctype html><html lang=en><meta charset=utf-8><title>posenc extend</title><style>{STYLE}</style>"
    sized = '<meta name=viewport content="width=device-width,initial-scale=1">'
    target = folder / "report.html"
    target.write_text(f"{head}{sized}<main>{''.join(parts)}</main></html>\n", encoding="utf-8")
    return target


def _html_table(found: Extension, verdict: Verdict) -> str:
    heads = "".join(
        f"<th scope=col>{h.format(length=count(found.original_length), far=count(found.far * found.width))}</th>"
        for h in HEADS
    )
    rows = "".join(_html_row(line, line is verdict.chosen) for line in verdict.lines)
    return f"<div class=wide><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"


def _html_row(line: Judged, best: bool) -> str:
    intervals = (line.inside, line.beyond, line.far, line.to_best, line.cost)
    cells = "".join(
        f"<td>{number}<br><small>{_band(interval)}</small></td>"
        for number, interval in zip(_numbers(line), intervals, strict=True)
    )
    return f'<tr class="{"best" if best else ""}"><th scope=row>{escape(line.label)}</th>{cells}</tr>'


def _band(interval: Interval | None) -> str:
    if interval is None or math.isnan(interval.low):
        return ""
    return f"{interval.low:.3f} … {interval.high:.3f}".replace("-", "−")


def _method(found: Extension, command: str, spent: float) -> str:
    start, unit = count(found.original_length), found.unit
    packages = ", ".join(f"{name} {version}" for name, version in json.loads(versions()).items())
    tuning = f"{found.finetune} steps of AdamW on text that no document shares, the same windows for every method."
    entries = [
        ("Command", command),
        ("Model", f"{found.model}, trained to {start} {unit}s"),
        (
            "Documents",
            f"{len(found.window)} of {count(found.length)} {unit}s from {found.text.name}, "
            f"sha256 {found.text.sha256[:16]}; none shares a target",
        ),
        ("Targets", "The same for every method, so differences are paired; the intervals are t over documents."),
        (
            "Short text pays",
            f"Loss on the first {start} positions minus the unscaled model's, where a schedule that "
            "is planned for the whole length is on from the first token.",
        ),
        (
            "The last trained length alone",
            f"The last {count(found.width)} targets cost {float(found.window.mean()):.3f} "
            f"with {start} {unit}s of context and no scaling: what stretching must beat.",
        ),
        *([("Fine-tune", tuning)] if found.finetune else []),
        ("Time", f"{seconds(spent)} of scoring on {hardware()}"),
        ("Made with", f"{packages}, {datetime.now(UTC).date()}"),
        (
            "What would change the answer",
            "Another text, more documents, or tasks that need what lies far back: a loss "
            "that stays level does not prove that far text is used.",
        ),
    ]
    rows = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in entries)
    return f"<h2>How it was measured</h2><dl>{rows}</dl>"
