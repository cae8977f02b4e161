"""A case from another project: a question, and what the answer must say, written before posenc answered."""

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from posenc.commands.app import app
from posenc.errors import PosencError
from posenc.integrations.huggingface import read
from posenc.integrations.huggingface.model_positions import ModelPositions

DATA = Path(__file__).parents[2] / "data" / "field"
"""The folder with the configs of the cases, which have the keys of published files and small sizes."""
UNNAMED = re.compile("nothing that was tried")
REFUSED = re.compile(r"^error: |\brefused: ", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """A question, and what the answer must say.

    Args:
        id: the number in the field report (F33) or in the audit of integrations (bug 7), with a word if several
            cases have this number.
        source: the threads from which the case comes.
        ask: the words after ``posenc``, in which ``x.json`` is a file in ``DATA``, or a function.
        says: patterns that the answer must match, each within one line.
        never: patterns of false statements, which the answer must not match.
    """

    id: str
    source: str
    ask: str | Callable[[], str]
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()

    def answer(self) -> str:
        """Return posenc's answer."""
        return said(self.ask) if isinstance(self.ask, str) else self.ask()

    def verdict(self, answer: str) -> str:
        """Judge an answer as ``answered``, ``refused``, ``wrong``, or ``silent`` if it is incomplete or unknown."""
        false = [pattern for pattern in self.never if re.search(pattern, answer)]
        if not false and not UNNAMED.search(answer) and all(re.search(pattern, answer) for pattern in self.says):
            return "answered"
        return "wrong" if false else "refused" if REFUSED.search(answer) else "silent"


def config(name: str) -> ModelPositions:
    """Read the positions of a config in ``DATA``."""
    return read(str(DATA / f"{name}.json"))


def said(words: str) -> str:
    """Return the output of a command, including any error, without thousands separators."""
    placed = [re.sub(r"[\w-]+\.json", lambda name: str(DATA / name[0]), word) for word in shlex.split(words)]
    run = CliRunner().invoke(app, placed)
    if isinstance(run.exception, PosencError):
        return f"{run.output}error: {run.exception}"
    if run.exception is not None and not isinstance(run.exception, SystemExit):
        raise run.exception
    return re.sub(r"(?<=\d),(?=\d{3})", "", run.output)


def refusal(function: Callable[[], Any]) -> str:
    """Return the result of a call as text, or its error as the command line prints errors."""
    try:
        return f"{function()}"
    except PosencError as error:
        return f"error: {error}"
