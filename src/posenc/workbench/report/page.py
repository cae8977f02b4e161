"""The page of a study: the answer, for each task its figure and table, how it was measured, the study itself."""

import re
from collections.abc import Callable, Mapping, Sequence

from posenc.pictures.numbers import count
from posenc.pictures.palette import family, token
from posenc.workbench.report import blocks, words
from posenc.workbench.report.blocks import Block, Code, Facts, Page, Part, Picture, Table, Words
from posenc.workbench.report.builder import made_with
from posenc.workbench.report.sentences import answer, sentence
from posenc.workbench.run.plan import Run
from posenc.workbench.study.comparison import Outcome
from posenc.workbench.study.results import LOST, Row, TaskResult
from posenc.workbench.study.statistics import Interval

Value = Callable[[Row, int], Interval | None]


def page(
    outcome: Outcome,
    pictures: Mapping[str, Sequence[Picture]],
    learnt: Sequence[Part],
    command: str,
    study: str,
) -> Page:
    """The page; ``pictures`` are those of each task, ``learnt`` is how they learnt, ``study`` the file of all."""
    results = outcome.results
    runs = [run for result in results for run in result.runs]
    parts = [_task(result, pictures.get(result.task.name, ())) for result in results]
    return Page(
        "posenc compare",
        answer(results),
        _scope(runs) + _under_way(outcome),
        (*parts, *learnt, *_refusal(results), _method(outcome), _again(study), *_failures(outcome)),
        command,
        made_with(runs[0].versions) if runs else "",
    )


def anchor(title: str) -> str:
    """A title as an address within the page."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _scope(runs: Sequence[Run]) -> str:
    seeds = len({run.plan.seed for run in runs})
    spent = words.seconds(sum(run.seconds for run in runs))
    where = runs[0].hardware if runs else "nothing"
    return (
        f"{len(runs)} small transformers, {seeds} seed{'s' if seeds > 1 else ''}, each alike but for its encoding; "
        f"{spent} of computing on {where}."
    )


def _under_way(outcome: Outcome) -> str:
    """How far a study has come that has not ended."""
    total = len(outcome.plans)
    if outcome.ended + len(outcome.failures) >= total:
        return ""
    return f" Under way: {outcome.ended} of {total} runs have ended; load this page again to see more."


def _task(result: TaskResult, pictures: Sequence[Picture]) -> Part:
    title = result.task.name.capitalize()
    loss = result.task.measure == "loss"
    found: list[Block] = [Words(sentence(result)), *pictures[:1]]
    found.append(_table(result, "fixed targets" if loss else "", lambda r, n: r.values.get(n), verdict=True))
    if loss:
        found += [
            Words(
                "The same, as papers print it: the mean over whole windows. Longer windows hold more targets with "
                "much context, so this column can fall where nothing got better.",
                quiet=True,
            ),
            _table(result, "window mean", lambda r, n: r.windows.get(n), verdict=False),
        ]
    return Part(title, anchor(title), (*found, *pictures[1:]))


def _table(result: TaskResult, title: str, value: Value, *, verdict: bool) -> Table:
    """Encodings down and lengths across; the verdict stands second, where a phone shows it."""
    lengths = tuple(count(n) for n in result.lengths)
    caption = f"{title + ': ' if title else ''}{words.unit(result)}; 95% intervals below"
    rows = tuple(_row(result, row, value, verdict) for row in result.rows)
    if not verdict:
        return Table(caption, ("encoding", *lengths), rows)
    gap = f"{'nats' if result.task.measure == 'loss' else 'share'} to best at {count(result.longest)}"
    return Table(caption, ("encoding", "verdict", *lengths, gap), rows, worded=(1,))


def _row(result: TaskResult, row: Row, value: Value, verdict: bool) -> blocks.Row:
    kind = "open" if not row.ranked else "best" if row is result.rows[0] else ""
    among = [other.encoding for other in result.rows]
    intervals = [value(row, length) for length in result.lengths]
    cells = [(words.measured(result, interval), words.spread(result, interval)) for interval in intervals]
    if verdict:
        cells = [(result.verdict(row), ""), *cells, words.difference(row)]
    return blocks.Row(words.label(row), tuple(cells), kind, token(row.encoding, among))


def _refusal(results: Sequence[TaskResult]) -> tuple[Part, ...]:
    """What encodings said that have no value past some length, and what a clamped table does there."""
    rows = [row for result in results for row in result.rows]
    refusals = dict.fromkeys(row.refusal for row in rows if row.refusal)
    shown: list[Block] = [Code(refusal) for refusal in refusals]
    if any(family(row.encoding) == "learned-clamped" for row in rows):
        shown.insert(0, Words("The clamped table gives every position past its end the last row."))
    title = "Past the end of a learned table"
    return (Part(title, anchor(title), tuple(shown)),) if shown else ()


def _method(outcome: Outcome) -> Part:
    results, text = outcome.results, outcome.text
    run = results[0].runs[0] if results else None
    gates = "; ".join(f"{r.task.name} {_gate(r)}" for r in results)
    several = len({r.plan.seed for result in results for r in result.runs}) > 1
    entries = (
        ("Model", _model(run) if run else ""),
        ("Pairing", "Every encoding starts from the same weights and sees the same batches in the same order."),
        ("Fixed targets", "The same targets are scored at every length, with more and more context before them."),
        ("Gates", f"A run counts when at the trained length it reaches: {gates}. Others are shown, not ranked."),
        (
            "Holds",
            f"At most {LOST:.0%} of the perplexity or accuracy at the trained length is lost at the longest.",
        ),
        (
            "Intervals",
            "95%: t over seeds; differences are paired."
            if several
            else "95%, of one training run: t over blocks of text, Wilson for shares. They say nothing about "
            "another seed; differences are paired.",
        ),
        (
            "Text",
            f"{text.name}, {count(len(text.train))} {text.tokens.unit}s to train and "
            f"{count(len(text.validation))} held out, sha256 {text.sha256[:16]}",
        ),
        (
            "What would change the answer",
            "More training, a larger model, another text, or a scaling that scales "
            "the frequencies: these models are small.",
        ),
    )
    return Part("How it was measured", "method", (Facts(entries),))


def _again(study: str) -> Part:
    """The study's file, and what is typed to repeat it."""
    typed = "posenc compare --config study.toml --output study"
    told = Words("The study as a file; with it the same command makes the same runs.")
    return Part("Do it again", "again", (told, Code(typed), Code(study, "study.toml", "study.toml", open=True)))


def _failures(outcome: Outcome) -> tuple[Part, ...]:
    failed = tuple((failure.plan.name, failure.reason) for failure in outcome.failures)
    return (Part("Failed", "failed", (Facts(failed),)),) if failed else ()


def _gate(result: TaskResult) -> str:
    gate = result.task.gate
    if result.task.measure == "loss":
        return f"perplexity {words.perplexity(gate)} (a table of {result.unit} pairs)"
    return f"accuracy {gate:.2f} (chance {result.task.chance:.2f})"


SPELT = {
    "layer": "LayerNorm",
    "rms": "RMSNorm",
    "gelu": "GELU",
    "swiglu": "SwiGLU",
    "adamw": "AdamW",
    "adam": "Adam",
    "sgd": "SGD",
}
"""Settings as people write them."""


def _model(run: Run) -> str:
    plan = run.plan
    return (
        f"Transformer, {plan.layers} layers, width {plan.width}, {plan.heads} heads, {SPELT[plan.norm]} first, "
        f"{SPELT[plan.activation]}, no dropout, {count(run.parameters)} parameters; {SPELT[plan.optimiser]}, "
        f"{plan.schedule} schedule"
    )
