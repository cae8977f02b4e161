"""The one way to the terminal: what is printed is data, and never read as markup, emoji or something to colour."""

from rich.console import Console


def screen(*, stderr: bool = False, soft_wrap: bool = False) -> Console:
    """A console that prints brackets and colons as they are; colour comes from ``style=`` alone."""
    return Console(stderr=stderr, soft_wrap=soft_wrap, markup=False, emoji=False, highlight=False)
