"""`posenc verify`: tests posenc's claims about encodings again, and reports which verdicts still hold."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from posenc.commands.screen import screen

if TYPE_CHECKING:  # claims import torch; help does not need them
    from posenc.teaching.claims.claim import Outcome


def verify(
    only: Annotated[list[str] | None, typer.Option(help="Name of a claim to test; may be repeated.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all results as JSON.")] = False,
    slow: Annotated[bool, typer.Option(help="Also test the claims that need a trained model.")] = False,
) -> None:
    """Test the claims about positional encodings. The exit status is 1 if a verdict no longer holds."""
    from posenc.teaching.claims.catalogue import chosen
    from posenc.teaching.claims.claim import run

    outcomes = [
        run(claim)
        for claim in track(
            chosen(only or [], slow),
            "Running claims",
            console=screen(stderr=True),
            transient=True,
            disable=as_json,
        )
    ]
    if as_json:
        typer.echo(json.dumps([described(o) for o in outcomes], ensure_ascii=False, indent=1))
    else:
        report(outcomes, screen())
    if not all(o.stands for o in outcomes):
        raise typer.Exit(1)


def report(outcomes: "Sequence[Outcome]", console: Console) -> None:
    """Print a table of verdicts, the findings that contradict a verdict, and a summary."""
    table = Table("verdict", "statement", box=None, pad_edge=False, show_edge=False)
    for outcome in outcomes:
        table.add_row(
            str(outcome.claim.verdict) if outcome.stands else "BROKEN",
            outcome.claim.statement,
            style=None if outcome.stands else "red",
        )
        table.add_row("", outcome.claim.precise, style="dim")
    console.print(table)
    for outcome in (outcome for outcome in outcomes if not outcome.stands):
        console.print(
            ": ".join(filter(None, (f"\nThe verdict of {outcome.claim.name} does not hold", outcome.error)))
        )
        for finding in (finding for finding in outcome.findings if not finding.ok):
            console.print(f"  {finding.name}: {finding.value:.10g}, expected {finding.expected}")
    standing = sum(o.stands for o in outcomes)
    console.print(f"\n{standing} of {len(outcomes)} verdicts hold ({sum(o.seconds for o in outcomes):.0f} s)")


def described(outcome: "Outcome") -> dict[str, object]:
    """Return the outcome of a claim as plain values for JSON."""
    claim = outcome.claim
    return {
        "name": claim.name,
        "statement": claim.statement,
        "precise": claim.precise,
        "verdict": claim.verdict.value,
        "source": claim.source,
        "stands": outcome.stands,
        "error": outcome.error,
        "seconds": round(outcome.seconds, 3),
        "findings": [
            {"name": f.name, "value": f.value, "expected": f.expected, "ok": f.ok} for f in outcome.findings
        ],
    }
