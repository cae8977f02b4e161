"""`posenc compare-code`: hold a listing of one's own to the library."""

from pathlib import Path
from typing import Annotated

import typer


def compare_code(
    listing: Annotated[
        Path, typer.Argument(help="A Python file with positional_encoding, apply_rope or alibi_bias.")
    ],
) -> None:
    """Run a listing's functions and say which form of the library they are, or where they differ first and why.

    The listing runs as any program of yours does, in a process of its own; exit status 1 where one differs.
    """
    from posenc.teaching.compare_code import compare

    comparisons = compare(listing)
    for each in comparisons:
        typer.echo(f"{'right' if each.right else 'wrong'}  {each.function}: {each.words}")
    if not all(each.right for each in comparisons):
        raise typer.Exit(1)
