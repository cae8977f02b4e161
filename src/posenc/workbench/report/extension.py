"""An extension as sentences, a view and a terminal table."""

import torch
from rich.table import Table

from posenc.pictures.numbers import count, signed
from posenc.pictures.view import Axis, Line, Lines, View
from posenc.workbench.extend.extend import Curve, Extension
from posenc.workbench.extend.verdict import MARGIN, SAME, Verdict, above, judge
from posenc.workbench.extend.verdict import Line as Judged
from posenc.workbench.study.statistics import Interval, student


def answer(found: Extension, verdict: Verdict) -> str:
    """The verdict in one sentence or two, with its evidence."""
    lines, chosen = verdict.lines, verdict.chosen
    if not chosen.curve.losses.isfinite().all():
        return f"No method reads {count(found.length)} {found.unit}s with a finite loss."
    start, end, far = (count(n) for n in (found.original_length, found.length, found.far * found.width))
    unit = found.unit
    many = len(found.window)
    measured = f"{many} document{'s' if many > 1 else ''}, nats per {unit}"
    plain = next((line for line in lines if line.curve.method.name == "none"), chosen)
    if chosen is plain:
        none = "After tuning no scaling" if chosen.curve.tuned else "No scaling"
        best, gap = lines[0].curve.method.label, plain.to_best
        better = "no method is better"
        if gap is not None and gap.mean > SAME:
            better = f"{best} loses {gap.mean:.2f} less, surely less than {MARGIN:g}"
        return (
            f"{none} is needed to reach {end}: the last {far} positions lose {plain.far.mean:.2f} and the "
            f"first {start} lose {plain.inside.mean:.2f} ({measured}), and {better}."
        )
    use = f"After {found.finetune} steps of tuning use" if chosen.curve.tuned else "Use"
    undecided = "".join(
        f" Whether {line.curve.method.label} is as good, which costs short text less, these documents cannot tell "
        f"({numbers(line)[3]}): score more --documents."
        for line in verdict.undecided[:1]
    )
    said = (
        f"{use} {chosen.curve.method.label} to reach {end}: the last {far} positions lose {chosen.far.mean:.2f}, "
        f"{plain.far.mean:.2f} without scaling; the first {start} pay {signed(chosen.cost.mean)} for it "
        f"({measured}).{undecided}"
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
        made.add_row(line.label, *numbers(line), "use this" if best else "", style="bold" if best else "")
    return made


HEADS = ("method", "first {length}", "all past it", "last {far}", "to the best", "short text pays")


def numbers(line: Judged) -> tuple[str, ...]:
    """A method's row: losses, the difference to the best, and what short text pays."""
    gap = "–" if line.to_best is None else signed(line.to_best.mean)
    means = (f"{value.mean:.3f}" for value in (line.inside, line.beyond, line.far))
    return (*means, gap, signed(line.cost.mean))
