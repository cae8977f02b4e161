"""`posenc runs`: what a study's ledger holds, and its export to CSV."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from posenc.workbench.screen import screen


def runs(
    folder: Annotated[Path, typer.Argument(help="Folder of the study.")] = Path("study"),
    csv: Annotated[Path | None, typer.Option(help="Write every measured number to this file.")] = None,
) -> None:
    """List the finished runs of a study."""
    from posenc.workbench.experiments.ledger import Ledger

    console = screen()
    with Ledger(folder) as ledger:
        if csv is not None:
            console.print(f"{ledger.export(csv)} numbers written to {csv}", soft_wrap=True)
            return
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in ("run", "task", "encoding", "seed", "steps", "seconds", "loss", "made"):
            right = name in ("seed", "steps", "seconds", "loss")
            table.add_column(
                name, justify="right" if right else "left", no_wrap=name != "encoding", overflow="fold"
            )
        for run in ledger.runs():
            plan = run.plan
            numbers = (str(plan.seed), str(plan.steps), f"{run.seconds:.1f}", f"{run.final_loss:.3f}")
            table.add_row(plan.id[:8], plan.task, plan.encoding, *numbers, run.created[5:16].replace("T", " "))
        console.print(table)
