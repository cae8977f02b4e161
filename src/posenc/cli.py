"""The entry point of the ``posenc`` script. It prints versions even without the packages that commands need."""

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
"""The exit status after Ctrl-C; Typer uses the same status."""
RESUMABLE = ("compare", "extend")
"""The commands that can resume after Ctrl-C."""


def main() -> None:
    """Print the versions, print how to install missing packages, or run the command line.

    After Ctrl-C, even during an import, print one line instead of a traceback.
    """
    if sys.argv[1:2] == ["--version"]:
        print(versions())
        return
    missing = [package for package in ("typer", "rich") if find_spec(package) is None]
    if missing:
        print(f"error: {MissingExtra(' and '.join(missing), 'cli')}", file=sys.stderr)
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # terminals without × or − show a question mark
    with _interrupts() as interrupts:
        try:
            from posenc.commands.app import main as command_line

            command_line()
        except BaseException as error:
            if not (interrupts or (isinstance(error, SystemExit) and error.code == STOPPED)):
                raise
            resumable = any(word in RESUMABLE for word in sys.argv[1:2])
            print("stopped" + "; run the same command to resume" * resumable, file=sys.stderr)
            sys.exit(STOPPED)


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Record every Ctrl-C signal, because some libraries raise an exception other than KeyboardInterrupt when they
    are interrupted during their import.
    """
    signals: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        signals.append(signum)
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield signals
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield signals
    finally:
        signal.signal(signal.SIGINT, before)
