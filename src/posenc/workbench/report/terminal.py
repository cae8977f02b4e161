"""Tables and progress bars for a terminal with 80 columns. They are also readable without colour or in a file."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console as Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Task as Bar
from rich.table import Table
from rich.text import Text

from posenc.workbench.report import words
from posenc.workbench.study.results import TaskResult

LINE_EVERY = 60.0
"""The number of seconds between two lines of progress if the output is not a terminal."""


SILENT = Console(quiet=True)
"""A console that prints nothing."""


class Rate(ProgressColumn):
    """A column with the speed, such as ``120 steps/s``. The progress bar's field ``unit`` names the unit."""

    def render(self, task: Bar) -> Text:
        return Text(f"{task.speed:.0f} {task.fields['unit']}/s" if task.speed else f"– {task.fields['unit']}/s")


@dataclass
class Going:
    """Shows a progress bar for running work, and messages above the bar.

    If the output is not a terminal, a line of progress is printed every ``LINE_EVERY`` seconds.
    """

    progress: Progress
    line_at: float = field(default_factory=lambda: time.monotonic() + LINE_EVERY)

    def advance(self, work: float) -> None:
        """Add this amount to the finished work."""
        bar = self.progress.tasks[0]
        self.progress.advance(bar.id, work)
        if self.progress.disable and time.monotonic() >= self.line_at:
            columns = [column for column in self.progress.columns if not isinstance(column, BarColumn)]
            self.say(" ".join(str(column(bar)) for column in columns))  # type: ignore[operator]
            self.line_at = time.monotonic() + LINE_EVERY

    def expect(self, work: float) -> None:
        """Set the total amount of work."""
        self.progress.update(self.progress.tasks[0].id, total=work)

    def say(self, line: str) -> None:
        """Print a line above the progress bar."""
        self.progress.console.print(f"  {line}", style="dim", soft_wrap=True)


@contextmanager
def bar(console: Console, what: str, steps: int, unit: str = "steps") -> Iterator[Going]:
    """Show a progress bar with the rate and the time left, or lines of progress if the output is not a terminal."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        Rate(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        progress.add_task(what, total=steps, unit=unit)
        yield Going(progress)


def grid(first: str, numbers: Iterable[str], caption: str, title: str = "", *, fold: bool = False) -> Table:
    """Return an empty table with a column of names and columns of numbers. Names wrap if ``fold`` is True."""
    table = Table(
        title=title or None,
        caption=caption,
        title_justify="left",
        caption_justify="left",
        box=None,
        pad_edge=False,
        header_style="bold",
        title_style="bold",
        caption_style="dim",
    )
    table.add_column(first, no_wrap=not fold, overflow="fold")
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=fold)
    return table


def table(result: TaskResult) -> Table:
    """Return the table of one task, with one row per encoding, one column per length, and a verdict in words."""
    rows = grid(
        "encoding",
        map(str, result.lengths),
        f"{words.unit(result)}; trained to {result.lengths[0]}",
        f"{result.name}: {result.question}",
        fold=True,  # names wrap before numbers do
    )
    rows.add_column("verdict", no_wrap=True)
    best = result.best(result.longest)
    for row in result.rows:
        rows.add_row(
            f"{words.label(row)} ({words.at(row.at)})" if row.at else words.label(row),
            *(words.measured(result, row.values.get(length)) for length in result.lengths),
            Text(result.verdict(row), style="green" if result.standing(row) == "holds" else ""),
            style="bold" if row is best else "" if row.ranked else "dim",
        )
    return rows
