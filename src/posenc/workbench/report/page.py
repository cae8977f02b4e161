"""One self-contained HTML page of a study: the answer, the figure, the table, how it was measured."""

import base64
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

import posenc
from posenc.errors import PositionOutOfRange
from posenc.workbench.experiments.compare import Outcome
from posenc.workbench.experiments.results import LOST, Row, TaskResult, answer, sentence
from posenc.workbench.palette import ACCENT, HAIRLINE, HAIRLINE_DARK, INK, INK_DARK, PAPER, PAPER_DARK, style
from posenc.workbench.report import words

STYLE = f"""
:root {{ --paper: {PAPER}; --ink: {INK}; --line: {HAIRLINE}; --accent: {ACCENT}; color-scheme: light dark }}
@media (prefers-color-scheme: dark) {{
  :root {{ --paper: {PAPER_DARK}; --ink: {INK_DARK}; --line: {HAIRLINE_DARK} }}
}}
body {{ background: var(--paper); color: var(--ink); font: 17px/1.55 system-ui, sans-serif; margin: 0 }}
main {{ max-width: 56rem; margin: 3rem auto; padding: 0 1.2rem }}
h1 {{ font-size: 1.5rem; line-height: 1.3; font-weight: 600 }}
h1, p, dl {{ max-width: 46rem }}
h2 {{ font-size: 1.1rem; margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem }}
img {{ width: 100%; height: auto; margin: 1rem 0 }}
figure {{ margin: 1.5rem 0 }} figcaption, small, .quiet {{ font-size: .85rem; opacity: .8 }}
.wide {{ overflow-x: auto }}
table {{ border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums }}
th, td {{ text-align: right; padding: .35rem .5rem; border-bottom: 1px solid var(--line); white-space: nowrap }}
th:first-child, .words {{ text-align: left }} td.words {{ white-space: normal }}
caption {{ text-align: left; padding-bottom: .4rem }}
thead th {{ font-weight: 600 }} tbody th {{ font-weight: 400 }} .best th, .best td {{ font-weight: 600 }}
.open {{ opacity: .65; font-style: italic }}
.key {{ display: inline-block; width: .7em; height: .7em; border-radius: 50%; margin-right: .45em }}
code, pre {{ font: .85rem/1.5 ui-monospace, monospace }} pre {{ overflow-x: auto }}
dt {{ font-weight: 600 }} dd {{ margin: 0 0 .6rem }}
"""


def page(outcome: Outcome, figures: dict[str, list[tuple[str, Path]]], command: str) -> str:
    """The page; ``figures`` holds the SVG files of each task with their captions, which are embedded."""
    results = outcome.results
    body = [
        f"<h1>{escape(answer(results))}</h1>",
        f'<p class="quiet">{escape(_scope(outcome))}</p>',
        *(_task(result, figures.get(result.task.name, [])) for result in results),
        _refusal(),
        _method(outcome, command),
    ]
    head = f"<!doctype html><html lang=en><meta charset=utf-8><title>posenc compare</title><style>{STYLE}</style>"
    sized = '<meta name=viewport content="width=device-width,initial-scale=1">'
    return f"{head}{sized}<main>{''.join(body)}</main></html>\n"


def _scope(outcome: Outcome) -> str:
    runs = [run for result in outcome.results for run in result.runs]
    seeds = len({run.plan.seed for run in runs})
    seconds = sum(run.seconds for run in runs)
    return (
        f"{len(runs)} small transformers, {seeds} seed{'s' if seeds > 1 else ''}, each alike but for its encoding; "
        f"{words.seconds(seconds)} of computing on {runs[0].hardware if runs else 'nothing'}."
    )


def figure(caption: str, path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    image = (
        f'<img alt="{escape(caption)}; the numbers are in the tables below" src="data:image/svg+xml;base64,{data}">'
    )
    return f"<figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def _task(result: TaskResult, figures: Sequence[tuple[str, Path]]) -> str:
    parts = [
        f"<h2>{escape(result.task.name.capitalize())}</h2><p>{escape(sentence(result))}</p>",
        *(figure(caption, path) for caption, path in figures[:1]),
        _table(
            result, "fixed targets" if result.task.measure == "loss" else "", lambda r, n: r.values.get(n), True
        ),
    ]
    if result.task.measure == "loss":
        parts += [
            "<p class=quiet>The same, as papers print it: the mean over whole windows. Longer windows hold more "
            "targets with much context, so this column can fall where nothing got better.</p>",
            _table(result, "window mean", lambda r, n: r.windows.get(n), False),
        ]
    return "".join([*parts, *(figure(caption, path) for caption, path in figures[1:])])


def _table(result: TaskResult, title: str, value: Callable[[Row, int], object], verdict: bool) -> str:
    heads = ["encoding", *(words.count(n) for n in result.lengths)]
    rows = [_row(result, row, value, verdict) for row in result.rows]
    caption = f"{title + ': ' if title else ''}{words.unit(result)}; 95% intervals below"
    cells = "".join(f"<th scope=col>{escape(h)}</th>" for h in heads)
    if verdict:
        cells += f"<th scope=col>{_unit(result)} to best at {words.count(result.longest)}</th>"
        cells += "<th scope=col class=words>verdict</th>"
    return (
        f"<div class=wide><table><caption class=quiet>{escape(caption)}</caption>"
        f"<thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _unit(result: TaskResult) -> str:
    return "nats" if result.task.measure == "loss" else "share"


def _row(result: TaskResult, row: Row, value: Callable[[Row, int], object], verdict: bool) -> str:
    kind = "open" if not row.ranked else "best" if row is result.rows[0] else ""
    own = style(row.encoding, [other.encoding for other in result.rows])
    key = f'<span class=key style="background:{own.colour}"></span>'
    cells = [f"<th scope=row>{key}{escape(row.label)}</th>"]
    for length in result.lengths:
        interval = value(row, length)
        number, band = words.measured(result, interval), words.spread(result, interval)  # type: ignore[arg-type]
        cells.append(f"<td>{number}<br><small>{band}</small></td>")
    if verdict:
        gap, band = words.difference(row)
        cells.append(f"<td>{gap}<br><small>{band}</small></td>")
        cells.append(f"<td class=words>{escape(result.verdict(row))}</td>")
    return f'<tr class="{kind}">{"".join(cells)}</tr>'


def _refusal() -> str:
    """What a learned table says past its end, asked for now."""
    try:
        posenc.Learned(128, 64).at(posenc.positions.plain(256))
    except PositionOutOfRange as error:
        said = str(error)
    return (
        "<h2>Past the end of a learned table</h2><p>The plain table has no row there and refuses. The clamped "
        f"variant, measured above, gives every later position the last row.</p><pre>{escape(said)}</pre>"
    )


def _method(outcome: Outcome, command: str) -> str:
    results = outcome.results
    run = results[0].runs[0] if results else None
    gates = "; ".join(f"{r.task.name} {_gate(r)}" for r in results)
    text = outcome.text
    entries: Sequence[tuple[str, str]] = [
        ("Command", command),
        ("Model", _model(run.parameters, run.plan.layers, run.plan.width, run.plan.heads) if run else ""),
        ("Pairing", "Every encoding starts from the same weights and sees the same batches in the same order."),
        ("Fixed targets", "The same bytes are scored at every length, with more and more context before them."),
        ("Gates", f"A run counts when at the trained length it reaches: {gates}. Others are shown, not ranked."),
        (
            "Holds",
            f"At most {LOST:.0%} of the perplexity or accuracy at the trained length is lost at the longest.",
        ),
        ("Intervals", "95%: t over blocks of text or over seeds, Wilson for shares; differences are paired."),
        (
            "Text",
            f"{text.name}, {words.count(len(text.train))} bytes to train and {words.count(len(text.validation))} "
            f"held out, sha256 {text.sha256[:16]}",
        ),
        ("Made with", f"{run.versions} on {run.hardware}" if run else ""),
        (
            "What would change the answer",
            "More training, a larger model, another text, or a schedule that scales "
            "the frequencies: these are small models, trained for a minute.",
        ),
    ]
    rows = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in entries)
    failed = "".join(f"<li>{escape(f.plan.name)}: {escape(f.reason)}</li>" for f in outcome.failures)
    return f"<h2>How it was measured</h2><dl>{rows}</dl>" + (f"<h2>Failed</h2><ul>{failed}</ul>" if failed else "")


def _gate(result: TaskResult) -> str:
    gate = result.task.gate
    if result.task.measure == "loss":
        return f"perplexity {words.perplexity(gate)} (a table of byte pairs)"
    return f"accuracy {gate:.2f} (chance {result.task.chance:.2f})"


def _model(parameters: int, layers: int, width: int, heads: int) -> str:
    return (
        f"Decoder, {layers} layers, width {width}, {heads} heads, pre-norm, GELU, no dropout, "
        f"{words.count(parameters)} parameters; AdamW, cosine"
    )
