"""The console of all commands: it prints text as it is, without markup, emoji or highlighting."""

from functools import partial

from rich.console import Console

screen = partial(Console, markup=False, emoji=False, highlight=False)
"""A console that prints brackets and colons as they are; colour comes from ``style=`` alone."""
