"""The door of the ``posenc`` script: what needs no packages of the command line, then the command line."""

import sys
from importlib.util import find_spec

from posenc.errors import MissingExtra
from posenc.workbench.versions import versions


def main() -> None:
    """Print the versions, or how to install what is missing, or hand over to the command line."""
    if sys.argv[1:] == ["--version"]:
        print(versions())
        return
    missing = [package for package in ("typer", "rich") if find_spec(package) is None]
    if missing:
        print(f"error: {MissingExtra(' and '.join(missing), 'cli')}", file=sys.stderr)
        sys.exit(2)
    from posenc.workbench.cli import main as command_line

    command_line()
