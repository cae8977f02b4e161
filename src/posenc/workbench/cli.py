"""The command line: one verb a room."""

import errno
import sys
from typing import Annotated

import typer
from rich.console import Console

from posenc.errors import PosencError
from posenc.workbench.commands.compare import compare
from posenc.workbench.commands.extend import extend
from posenc.workbench.commands.inspect import inspect
from posenc.workbench.commands.lab import lab
from posenc.workbench.commands.runs import runs
from posenc.workbench.commands.show import show
from posenc.workbench.commands.verify import verify
from posenc.workbench.versions import versions

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="The position layer for transformers: which encoding, and how far past its training length?",
)


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the versions a bug report needs.")] = False,
) -> None:
    """Alone the option is answered by ``entry``, which needs no typer; before a verb it is answered here."""
    if version:
        print(versions())
        raise typer.Exit


for verb in (compare, extend, inspect, lab, runs, show, verify):
    app.command()(verb)


def main() -> None:
    """Entry point of ``posenc``: what it refuses is one line on standard error and exit status 2."""
    try:
        app()
    except PosencError as error:
        Console(stderr=True, highlight=False).print(f"error: {error}", soft_wrap=True, markup=False)
        sys.exit(2)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        print("error: no space left on the disk; make room and run the same command", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("stopped; the same command goes on where this one ended", file=sys.stderr)
        sys.exit(130)
