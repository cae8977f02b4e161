"""`posenc runs`: the runs of a study's ledger, filtered, sorted, and exported to CSV or JSON."""

import csv as writer
from collections.abc import Iterable
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from posenc.commands.screen import screen
from posenc.errors import InvalidArgument, StudyError, UnknownName

if TYPE_CHECKING:  # imported when the command runs
    from posenc.workbench.run.ledger import Ledger

COLUMNS = ("run", "task", "encoding", "seed", "steps", "seconds", "loss", "made")
"""And ``with``, the values of axes, if runs of a task differ in them."""
WHAT = ("numbers", "runs", "steps")


def runs(
    study: Annotated[Path, typer.Argument(help="Folder of the study.")] = Path("study"),
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only runs of which this holds, such as task=needle or width=512; may be repeated."),
    ] = None,
    sort: Annotated[
        str | None, typer.Option(help="By this column, such as final_loss; -final_loss begins with the highest.")
    ] = None,
    merge: Annotated[
        list[str] | None,
        typer.Option(
            help="First bring the runs of other studies' folders: a folder, or 'part-*'; may be repeated."
        ),
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write rows to this file instead.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print rows as JSON instead.")] = False,
    what: Annotated[
        str | None,
        typer.Option(
            help="Rows of --csv or --json: numbers (measured; by default), runs (every setting), or steps (losses)."
        ),
    ] = None,
) -> None:
    """List the finished runs of a study."""
    if what is not None and what not in WHAT:
        raise UnknownName("what", what, WHAT)
    if what is not None and csv is None and not json:
        raise InvalidArgument(f"what={what!r} says which rows --csv writes; add --csv {what}.csv, or leave it out")
    if csv is not None and json:
        raise InvalidArgument(f"csv={str(csv)!r} and json=True are two ways out; leave one of them out")
    from posenc.workbench.report.tables import as_json
    from posenc.workbench.report.words import axes_in_words, mixed
    from posenc.workbench.run.ledger import Ledger
    from posenc.workbench.study.table import of_run

    console = screen()
    for pattern in merge or ():
        for folder in sorted(glob(pattern)) or [pattern]:
            with Ledger(study, write=True) as ledger:
                count = ledger.merge(Path(folder))
            console.print(f"{count} run{'s' * (count != 1)} from {folder}", soft_wrap=True)
    with Ledger(study) as ledger:
        finished = {run.plan.id: run for run in ledger.runs()}
        rows = _sorted(_filtered([of_run(run, ledger) for run in finished.values()], where or ()), sort)
        if csv is not None or json:
            what = what or WHAT[0]
            lines = _rows(what, rows, [finished[row["run"]] for row in rows], ledger)
            if csv is None:
                typer.echo(as_json(list(lines)))
            else:
                console.print(f"{_write(csv, lines)} {what} written to {csv}", soft_wrap=True)
            return
    if finished and not rows:
        console.print(f"none of {len(finished)} runs has {' and '.join(where or ())}")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    values = axes_in_words(finished[row["run"]].plan for row in rows)
    for name in (*COLUMNS, *["with"] * any(values.values())):
        right, wraps = name in ("seed", "steps", "seconds", "loss"), name in ("encoding", "with")
        table.add_column(name, justify="right" if right else "left", no_wrap=not wraps, overflow="fold")
    for row in rows:
        loss = "diverged" if row["verdict"] else f"{row['final_loss']:.3f}"
        numbers = (str(row["seed"]), str(row["steps"]), f"{row['seconds']:.1f}", loss)
        created = row["created"][5:16].replace("T", " ")
        table.add_row(row["run"][:8], row["task"], row["encoding"], *numbers, created, values[row["run"]])
    console.print(table)
    for line in mixed([finished[row["run"]] for row in rows]):
        console.print(f"runs differ in {line}", soft_wrap=True)


def _filtered(rows: list[dict[str, Any]], where: Iterable[str]) -> list[dict[str, Any]]:
    """The rows of which every condition ``column=value`` holds."""
    for condition in where:
        name, equals, value = (part.strip() for part in condition.partition("="))
        if not equals:
            raise InvalidArgument(f"where={condition!r} must be a column and a value, such as task=needle")
        _check_column(name, rows)
        rows = [row for row in rows if _is(row[name], value)]
    return rows


def _is(found: object, typed: str) -> bool:
    """Whether a column's value is the one that was typed; numbers are compared as numbers."""
    try:
        return float(found) == float(typed) if type(found) in (int, float) else str(found) == typed  # type: ignore[arg-type]
    except ValueError:
        return False


def _sorted(rows: list[dict[str, Any]], by: str | None) -> list[dict[str, Any]]:
    """Sorted by a column, rows without a value last."""
    if by is None:
        return rows
    name = by.removeprefix("-")
    _check_column(name, rows)
    valued = [row for row in rows if row[name] is not None]
    valued.sort(key=lambda row: row[name], reverse=by.startswith("-"))
    return [*valued, *(row for row in rows if row[name] is None)]


def _check_column(name: str, rows: list[dict[str, Any]]) -> None:
    if rows and name not in rows[0]:
        raise UnknownName("column", name, rows[0])


def _rows(what: str, rows: list[dict[str, Any]], runs: list[Any], ledger: "Ledger") -> Iterable[dict[str, Any]]:
    from posenc.workbench.study.table import NUMBERS, of_cells, of_steps

    if what == "runs":
        return rows
    if what == "steps":
        return of_steps(runs, ledger)
    return ({name: cell[name] for name in NUMBERS} for cell in of_cells(runs))


def _write(path: Path, rows: Iterable[dict[str, Any]]) -> int:
    """Write rows that share their columns; returns their number."""
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
