"""`posenc lab`: opens the lab, an interactive page to explore positional encodings."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from posenc.commands.screen import screen


def lab(
    port: Annotated[int, typer.Option(help="Port of the server; 0 for any free port.", min=0, max=65535)] = 8642,
    host: Annotated[
        str, typer.Option(help="Address of the server; by default only this machine can reach it.")
    ] = "127.0.0.1",
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    study: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the study whose results are shown; by default study/ if that folder contains a study."
        ),
    ] = None,
    export: Annotated[
        Path | None, typer.Option(help="Write the lab to this folder as static pages, without a server.")
    ] = None,
) -> None:
    """Serve the lab on this machine: interactive pages about positional encodings, computed by posenc."""
    from posenc.teaching.lab import results

    if study is not None:
        from posenc.workbench.run.ledger import Ledger

        Ledger(study).close()  # an explicit folder must be a study
        results.use(study)
    if export is not None:
        from rich.progress import track

        from posenc.teaching.lab.export import write

        shown = partial(track, description="Computing stages", console=screen(stderr=True))
        size = sum(path.stat().st_size for path in write(export, shown))
        print(f"{export / 'index.html'}  ({size / 1e6:.1f} MB)")
        raise typer.Exit()
    from posenc.teaching.lab.server import serve

    serve(host, port, open_page=open_page)
