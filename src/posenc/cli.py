"""The entry point of the ``posenc`` script. It prints each error on one line, and prints versions even without the
packages that commands need."""

import errno
import io
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import FrameType

from posenc.commands.versions import versions
from posenc.errors import MissingExtra, PosencError

STOPPED = 130
"""The exit status after Ctrl-C; Typer uses the same status."""
RESUMABLE = ("compare", "extend")
"""The commands that can resume after Ctrl-C."""


def main() -> None:
    """Print the versions, print how to install missing packages, or run the command line.

    A ``PosencError`` is printed on one line of standard error, with exit status 2. So is Ctrl-C, even during an
    import, with exit status 130.
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
            from posenc.commands.app import app

            app()
        except BaseException as error:
            if interrupts or (isinstance(error, SystemExit) and error.code == STOPPED):
                resumable = any(word in RESUMABLE for word in sys.argv[1:2])
                print("stopped" + "; run the same command to resume" * resumable, file=sys.stderr)
                sys.exit(STOPPED)
            print(f"error: {_sentence(error)}", file=sys.stderr)
            sys.exit(2)


def _sentence(error: BaseException) -> str:
    """Describe an error of posenc or of the operating system in a sentence that names a fix, or raise the error
    again if it is neither.
    """
    if isinstance(error, PosencError):
        return str(error)
    if not isinstance(error, OSError):
        raise error
    if error.errno == errno.ENOSPC:
        return "no space left on the disk; free some space and run the same command again"
    if error.filename is not None:
        return f"{str(error.filename)!r} cannot be used: {error.strerror}; pass another file or folder"
    if error.errno == errno.ENOENT:  # from os.getcwd()
        return "the current folder no longer exists; change to another folder and run the same command again"
    raise error


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
