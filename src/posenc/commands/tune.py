"""`posenc tune`: build what is fastest on this machine, once, and show what it gains."""

from typing import Annotated

import typer
from rich.table import Table

from posenc.commands.screen import screen


def tune(
    tokens: Annotated[int, typer.Option(min=1, help="Length of the sequence that is rotated and timed.")] = 2048,
) -> None:
    """Build the native rotation kernel for this processor, and time it beside the other backends."""
    from posenc.kernels.rotary import by_native
    from posenc.kernels.rotary.speed import timings

    console = screen()
    library = by_native.prepare()
    console.print(f"The kernel is at {library}", markup=False, soft_wrap=True)
    table = Table(title=f"Rotation of 32 heads of 128 channels, {tokens} tokens, one thread, beside a plain copy")
    for heading in ("type", "pairing", "copy, ms", "native ÷ copy", "eager ÷ copy"):
        table.add_column(heading, justify="left" if heading in ("type", "pairing") else "right")
    for taken in timings(tokens):
        ratios = (f"{taken.native / taken.copy:.2f}", f"{taken.eager / taken.copy:.2f}")
        table.add_row(str(taken.dtype).removeprefix("torch."), taken.pairing, f"{taken.copy * 1e3:.2f}", *ratios)
    console.print(table)
    console.print("backend='auto' takes it from now on, in every process on this machine.", markup=False)
