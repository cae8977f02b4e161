"""Our exceptions: each message names the argument, its value, what was expected and the fix."""

from collections.abc import Iterable
from difflib import get_close_matches


class PosencError(Exception):
    """Anything posenc refuses to do; the command line prints it on one line and exits with 2."""


class InvalidArgument(PosencError, ValueError):  # noqa: N818 - says what it is without the suffix
    """An argument outside what the formula or the call allows."""


class PositionOutOfRange(PosencError, IndexError):  # noqa: N818
    """A position that the encoding has no value for."""


class ImplUnavailable(PosencError, RuntimeError):  # noqa: N818
    """An implementation that was asked for by name and cannot serve here."""


class MissingExtra(PosencError, ImportError):  # noqa: N818
    """An optional package that this command needs and that is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; type: pip install 'posenc[{extra}]'")


class UnknownName(InvalidArgument):
    """A name that is not in the catalogue; the message lists the nearest right one."""

    def __init__(self, kind: str, name: object, known: Iterable[str]) -> None:
        known = list(known)
        near = get_close_matches(str(name), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}? " if near else ""
        super().__init__(f"unknown {kind} {name!r}; {hint}known: {', '.join(known)}")


class StudyError(PosencError):
    """A study (ledger, text, output folder) that cannot be read, written or continued."""


class UnreadableFile(PosencError):  # noqa: N818
    """A file that is cut short, damaged, or of another format than expected."""
