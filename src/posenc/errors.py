"""Exceptions of posenc. Each message names the argument, its value, the expected form and the fix."""

import copyreg
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any

from posenc.names import MEANT


class PosencError(Exception):
    """The base class of posenc's errors. The command line prints such an error as one line and exits with status
    2.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the message, not the arguments of ``__init__``, so that worker processes can send any error."""
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


class InvalidArgument(PosencError, ValueError):  # noqa: N818 - the name is clear without the suffix
    """An argument has a value that the formula or the call does not allow."""


class PositionOutOfRange(PosencError, IndexError):  # noqa: N818
    """A position is outside the range of the encoding."""


class BackendUnavailable(PosencError, RuntimeError):  # noqa: N818
    """A backend was requested by name but cannot be used here."""


class MissingExtra(PosencError, ImportError):  # noqa: N818
    """A command or function needs an optional package that is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; type: pip install 'posenc[{extra}]'")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its class if the message is empty."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


MOST = 100
"""The maximum number of names that a message lists."""


class UnknownName(InvalidArgument):
    """A name is unknown. The message suggests the known name that was probably meant: posenc's name for the same
    thing, or the known name with the most similar spelling.

    The message then lists the known names, or, with ``fix``, only the three nearest names, followed by ``fix``.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str], *, fix: str | None = None) -> None:
        known = list(known)
        near = _nearest(str(name).lower(), known)
        hint = f"did you mean {near!r}? " if near else ""
        if fix is None:
            more = f" and {len(known) - MOST} more" if len(known) > MOST else ""
            names = f"known: {', '.join(known[:MOST])}{more}"
        else:
            names = f"nearest: {', '.join(get_close_matches(str(name).lower(), known, n=3, cutoff=0))}; {fix}"
        super().__init__(f"unknown {kind} {name!r}; {hint}{names}")


def _nearest(word: str, known: Collection[str]) -> str | None:
    """Return the known name that this word means according to ``MEANT``. If the word is not in ``MEANT``, use the
    most similar word among the known names and the keys of ``MEANT``; a known name means itself. Return None if no
    word is similar.
    """
    near = [word] if word in MEANT else get_close_matches(word, [*known, *MEANT], n=1, cutoff=0.5)
    names = (meant for name in near for meant in (name, *MEANT.get(name, ())))
    return next((name for name in names if name in known), None)


def no_attribute(module: str, name: str, public: Iterable[str]) -> AttributeError:
    """Return the error for a name that a module does not have. The error suggests the nearest public name, ignoring
    case. It suggests nothing if the name is that of a submodule: for ``from module import submodule``, Python first
    looks for an attribute with this name, and imports the submodule only after this error.
    """
    known = {word.lower(): word for word in public}
    near = None if find_spec(f"{module}.{name}") else _nearest(name.lower(), known)
    hint = f"; did you mean {known[near]!r}?" if near else ""
    # If ``name`` were set, Python would add its own suggestion, by spelling alone: NoPE for RoPE.
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}", name=None)


class StudyError(PosencError):
    """A study cannot run or continue, for example because its ledger, text file or output folder is unusable."""
