"""The command line: one verb a room."""

import torch
import typer

from posenc import CATALOGUE, encoding, positions

app = typer.Typer(add_completion=False, no_args_is_help=True, help="The position layer for transformers.")


@app.callback()
def posenc() -> None:
    """The position layer for transformers."""


@app.command()
def compare(preset: str = "quick", output: str = "study") -> None:
    """How far scores move when every position moves by 1000: 0 for a relative encoding."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 4, 8, 16, generator=generator)
    for name in CATALOGUE:
        made = encoding(name, width=64, heads=4, head_dim=16, num_positions=2048)
        near, far = (made.at(positions.plain(8, offset=o)).rotate(q, k) for o in (0, 1000))
        change = ((near[0] @ near[1].mT) - (far[0] @ far[1].mT)).abs().max()
        print(f"{name:16} {'relative' if made.relative else 'absolute':10} {change:.1e}")


def main() -> None:
    """Entry point of the ``posenc`` command."""
    app()
