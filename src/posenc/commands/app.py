"""Defines the command line and its commands."""

from typing import Annotated

import typer

from posenc.commands.compare import compare
from posenc.commands.diff import diff
from posenc.commands.doctor import doctor
from posenc.commands.extend import extend
from posenc.commands.inspect import inspect
from posenc.commands.lab import lab
from posenc.commands.runs import runs
from posenc.commands.show import show
from posenc.commands.study import study
from posenc.commands.vectors import vectors
from posenc.commands.verify import verify

START = """\
posenc compare       which encoding still works past its training length? (3 minutes)
posenc extend PATH   how long a context can this model use, and with which config?
posenc inspect PATH  how does this config or model handle positions?
posenc lab           why? an interactive page to explore positional encodings
posenc --help        everything else"""

app = typer.Typer(pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def posenc(
    context: typer.Context,
    version: Annotated[  # only for --help; ``posenc.cli`` handles it without typer
        bool, typer.Option("--version", help="Print the versions that a bug report needs.")
    ] = False,
) -> None:
    """Positional encodings for transformers: which one to use, and how far past the trained length it works."""
    if context.invoked_subcommand is None:
        typer.echo(START)


for verb in (compare, diff, doctor, extend, inspect, lab, runs, show, vectors, verify):
    app.command()(verb)
app.add_typer(study, name="study")
