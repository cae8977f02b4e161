"""The console of all commands: it prints text as it is, without markup, emoji or highlighting."""

from rich.console import Console


def screen(*, stderr: bool = False, soft_wrap: bool = False) -> Console:
    """A console that prints brackets and colons as they are; colour comes from ``style=`` alone."""
    return Console(stderr=stderr, soft_wrap=soft_wrap, markup=False, emoji=False, highlight=False)
