"""`posenc runs`: lists the runs in a study's ledger, filters and sorts them, and exports them to CSV or JSON."""

import csv as writer
import re
import sqlite3
from collections.abc import Iterable, Sequence
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from posenc.commands.screen import screen
from posenc.errors import InvalidArgument, StudyError

if TYPE_CHECKING:  # the command imports it
    from posenc.workbench.run.ledger import Ledger

COLUMNS = ("run", "task", "encoding", "seed", "steps", "seconds", "loss", "made")
"""The columns of the table. If runs of a task differ in more than encoding and seed, a column ``with`` lists the
other differences.
"""
WHAT = ("numbers", "runs", "steps")


def runs(
    study: Annotated[Path, typer.Argument(help="Folder of the study.")] = Path("study"),
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="SQL condition on the settings view, such as width=512 or \"task = 'needle'\"; may be repeated."
        ),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(help="Column by which to sort, such as final_loss, or -final_loss for the highest first."),
    ] = None,
    merge: Annotated[
        list[str] | None,
        typer.Option(
            help="Folder or pattern, such as 'part-*', whose runs are copied into this study; may be repeated."
        ),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write the rows to this CSV file instead of printing a table.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print rows as JSON instead of a table.")] = False,
    what: Annotated[
        str | None,
        typer.Option(
            help="Rows for --csv or --json: numbers (the default), runs (all settings), or steps (losses)."
        ),
    ] = None,
) -> None:
    """List the finished runs of a study."""
    from posenc.arguments import one_of

    rows_of = one_of("what", what or WHAT[0], WHAT)
    if what is not None and csv is None and not json:
        raise InvalidArgument(
            f"what={what!r} applies only to --csv and --json; add --csv {what}.csv, or omit --what"
        )
    if csv is not None and json:
        raise InvalidArgument(f"csv={str(csv)!r} and json=True cannot be combined; omit one of them")
    from posenc.workbench.run.ledger import Ledger

    console = screen()
    _merge(console, study, merge or ())
    with Ledger(study) as ledger:
        rows = _chosen(ledger, where or ["true"], sort)
        if csv is not None and csv.resolve() == ledger.path.resolve():
            raise InvalidArgument(f"csv={str(csv)!r} is the ledger of the study; choose another file")
        if csv is not None:
            count = _write(csv, _lines(ledger, rows, rows_of))
            console.print(f"{count} {rows_of} written to {csv}", soft_wrap=True)
        elif json:
            from posenc.workbench.files import as_json

            typer.echo(as_json(list(_lines(ledger, rows, rows_of)), indent=1))
        elif not rows:
            of_all = f"none of {len(ledger.runs())} runs satisfies {' and '.join(where or ())}"
            console.print(of_all if where else f"no run of posenc compare has finished in {study}", soft_wrap=True)
        else:
            _print(console, ledger, rows)


def _merge(console: Console, study: Path, patterns: Sequence[str]) -> None:
    """Copy into the study the runs of every folder that a pattern names, and print their numbers."""
    from posenc.workbench.run.ledger import Ledger

    for pattern in patterns:
        for folder in sorted(glob(pattern)) or [pattern]:
            with Ledger(study, write=True) as ledger:
                count = ledger.merge(Path(folder))
            console.print(f"{count} run{'s' * (count != 1)} from {folder}", soft_wrap=True)


def _lines(ledger: "Ledger", rows: list[dict[str, Any]], what: str) -> Iterable[dict[str, Any]]:
    """Return the rows of an export: the settings, the losses by step, or the measured numbers of these runs."""
    numbers = (line for row in rows for line in ledger.rows("SELECT * FROM numbers WHERE run = ?", (row["run"],)))
    return {"numbers": numbers, "runs": rows, "steps": ledger.steps(rows)}[what]


def _print(console: Console, ledger: "Ledger", rows: list[dict[str, Any]]) -> None:
    """Print a table of these runs, and the differences between their machines."""
    from posenc.workbench.report.words import axes_in_words, mixed

    finished = ledger.runs({row["run"] for row in rows})
    axes = axes_in_words([run.plan for run in finished])
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in (*COLUMNS, *["with"] * any(axes.values())):
        table.add_column(
            name,
            justify="right" if name in ("seed", "steps", "seconds", "loss") else "left",
            no_wrap=name not in ("encoding", "with"),
            overflow="fold",
        )
    for row in rows:
        table.add_row(
            row["run"][:8],
            row["task"],
            row["encoding"],
            str(row["seed"]),
            str(row["steps"]),
            f"{row['seconds']:.1f}",
            "diverged" if row["verdict"] else f"{row['final_loss']:.3f}",
            row["created"][5:16].replace("T", " "),
            axes[row["run"]],
        )
    console.print(table)
    for line in mixed(finished):
        console.print(f"runs differ in {line}", soft_wrap=True)


def _chosen(ledger: "Ledger", where: Sequence[str], sort: str | None) -> list[dict[str, Any]]:
    """Return the rows of ``settings`` that satisfy all conditions, sorted by the column ``sort``."""
    conditions = " AND ".join(f"({condition})" for condition in where)
    if sort and re.fullmatch(r"-\w+", sort):  # SQL would negate text to 0
        sort = f"{sort[1:]} DESC"
    try:
        return ledger.rows(f"SELECT * FROM settings WHERE {conditions}" + (f" ORDER BY {sort}" if sort else ""))
    except (sqlite3.OperationalError, sqlite3.ProgrammingError, sqlite3.Warning, UnicodeEncodeError) as error:
        if where == ["true"] and not sort:  # the file is damaged
            raise
        columns = ", ".join(row["name"] for row in ledger.rows("PRAGMA table_info(settings)"))
        raise InvalidArgument(
            f"--where and --sort must be SQL with quoted strings, as in \"task = 'needle'\": {error}; the "
            f"columns are {columns}"
        ) from error


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows with the same columns to a CSV file, and return their number."""
    count = 0
    try:
        with path.open("w", newline="", encoding="utf-8") as file:
            for count, row in enumerate(rows, 1):
                if count == 1:
                    table = writer.DictWriter(file, list(row))
                    table.writeheader()
                table.writerow(row)
    except OSError as error:
        raise StudyError(f"csv={str(path)!r} cannot be written: {error.strerror}; choose another file") from error
    return count
