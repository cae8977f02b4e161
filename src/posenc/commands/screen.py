"""The console that all commands use, which prints text without markup, emoji or highlighting."""

from functools import partial

from rich.console import Console

screen = partial(Console, markup=False, emoji=False, highlight=False)
"""A console that prints brackets and colons unchanged, and uses colour only for ``style=``."""
