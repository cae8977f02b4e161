"""The door of the ``posenc`` script: what needs no packages of the command line, then the command line."""

import io
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import FrameType

from posenc.commands.versions import versions
from posenc.errors import MissingExtra

STOPPED = 130
"""The status where Ctrl-C was typed; Typer ends with it too, without a word."""
GO_ON = ("compare", "extend")
"""The commands that keep what they have done."""


def main() -> None:
    """Print the versions, or how to install what is missing, or hand over to the command line.

    Whatever Ctrl-C broke, an import half-way for one, ends in one line.
    """
    if sys.argv[1:] == ["--version"]:
        print(versions())
        return
    missing = [package for package in ("typer", "rich") if find_spec(package) is None]
    if missing:
        print(f"error: {MissingExtra(' and '.join(missing), 'cli')}", file=sys.stderr)
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no × or − gets a question mark
    with _listening() as stopped:
        try:
            from posenc.commands.app import main as command_line

            command_line()
        except BaseException as ended:
            if not (stopped or (isinstance(ended, SystemExit) and ended.code == STOPPED)):
                raise
            goes_on = any(word in GO_ON for word in sys.argv[1:2])
            print("stopped" + "; the same command goes on where this one ended" * goes_on, file=sys.stderr)
            sys.exit(STOPPED)


@contextmanager
def _listening() -> Iterator[list[int]]:
    """What Ctrl-C has said since: libraries turn it into errors of their own where it meets them half imported."""
    heard: list[int] = []

    def hear(signum: int, frame: FrameType | None) -> None:
        heard.append(signum)
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield heard
        return
    signal.signal(signal.SIGINT, hear)
    try:
        yield heard
    finally:
        signal.signal(signal.SIGINT, before)
