"""The page of an extension: which method, the figure, the table, needles where they were asked, the config."""

import json
import math
from pathlib import Path
from typing import Any

from posenc.pictures.numbers import count, plain
from posenc.workbench.extend.extend import Extension
from posenc.workbench.extend.retrieval import Retrieval
from posenc.workbench.extend.verdict import Line as Judged
from posenc.workbench.extend.verdict import Verdict, judge
from posenc.workbench.report import retrieval
from posenc.workbench.report.blocks import Block, Code, Facts, Page, Part, Row, Table, Words
from posenc.workbench.report.builder import build, embedded
from posenc.workbench.report.extension import HEADS, answer, numbers, over_positions
from posenc.workbench.report.words import seconds
from posenc.workbench.run.machine import hardware
from posenc.workbench.study.statistics import Interval


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
    parts = (
        Part("Loss by position", "loss", _measured(found, verdict, folder, tuned=False)),
        *_tuned(found, folder),
        *((retrieval.part(needles, folder),) if needles is not None else ()),
        *_change(patch),
        Part("How it was measured", "method", (Facts(_method(found, command, spent)),)),
    )
    lead = f"{found.model} on {count(len(found.window))} documents of {count(found.length)} {found.unit}s."
    target = folder / "report.html"
    made = build(Page("posenc extend", answer(found, verdict), lead, parts, command))
    target.write_text(made, encoding="utf-8")
    return target


def _tuned(found: Extension, folder: Path) -> tuple[Part, ...]:
    """The same once more for the tuned curves, where there are any."""
    if not any(curve.tuned for curve in found.curves):
        return ()
    verdict = judge(found, tuned=True)
    blocks = (Words(answer(found, verdict)), *_measured(found, verdict, folder, tuned=True))
    return (Part(f"After {found.finetune} steps of fine-tuning", "tuned", blocks),)


def _change(patch: dict[str, Any] | None) -> tuple[Part, ...]:
    if patch is None:
        return ()
    told = (
        "transformers reads these keys, and so do servers that read its configs; null means that the key goes away."
    )
    change = Code(json.dumps(patch, indent=2), file="config-patch.json")
    return (Part("The change to config.json", "config", (Words(told), change)),)


def _measured(found: Extension, verdict: Verdict, folder: Path, *, tuned: bool) -> tuple[Block, ...]:
    name = "extension-tuned" if tuned else "extension"
    view = over_positions(found, tuned=tuned)
    caption = "Loss at every position of the same documents."
    if len(found.window) > 1:
        caption += " Bands are 95% intervals over documents, for the method to use and for no scaling."
    return embedded(view, caption, name, folder / "figures"), _table(found, verdict)


def _table(found: Extension, verdict: Verdict) -> Table:
    """Methods down, best first; which one to use stands second, where a phone shows it."""
    start, far = count(found.original_length), count(found.far * found.width)
    heads = [head.format(length=start, far=far) for head in HEADS]
    rows = tuple(_row(line, line is verdict.chosen) for line in verdict.lines)
    caption = f"nats per {found.unit}, lower is better; trained to {start}; 95% intervals below"
    return Table(caption, (heads[0], "verdict", *heads[1:]), rows, worded=(1,))


def _row(line: Judged, best: bool) -> Row:
    intervals = (line.inside, line.beyond, line.far, line.to_best, line.cost)
    cells = tuple(zip(numbers(line), map(_band, intervals), strict=True))
    return Row(line.label, (("use this" if best else "", ""), *cells), "best" if best else "")


def _band(interval: Interval | None) -> str:
    if interval is None or math.isnan(interval.low):
        return ""
    return f"{plain(interval.low, 3)} … {plain(interval.high, 3)}"


def _method(found: Extension, command: str, spent: float) -> tuple[tuple[str, str], ...]:
    start, unit = count(found.original_length), found.unit
    tuning = f"{found.finetune} steps of AdamW on text that no document shares, the same windows for every method."
    return (
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
            f"Loss on the first {start} positions minus the unscaled model's, where a scaling that "
            "is planned for the whole length is on from the first token.",
        ),
        (
            "The last trained length alone",
            f"The last {count(found.width)} targets cost {float(found.window.mean()):.3f} "
            f"with {start} {unit}s of context and no scaling: what stretching must beat.",
        ),
        ("Fine-tune", tuning if found.finetune else ""),
        ("Time", f"{seconds(spent)} of scoring on {hardware()}"),
        (
            "What would change the answer",
            "Another text, more documents, or tasks that need what lies far back: a loss "
            "that stays level does not prove that far text is used.",
        ),
    )
