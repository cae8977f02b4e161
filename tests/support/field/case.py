"""One case of the field: what is asked, and what the answer owes, written from the case and not from an answer."""

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
"""The configs, made for this: the keys of published files, at small sizes."""
UNNAMED = re.compile("nothing that was tried")
REFUSED = re.compile(r"^error: |\brefused: ", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """What is asked, and what is owed.

    Args:
        id: of the field report (F33) or of the audit of integrations (bug 7), with a word where an id has several.
        source: the threads.
        ask: the words after ``posenc``, where ``x.json`` is that file of ``DATA``; or a function.
        says: patterns that the answer has, each on one line of it.
        never: patterns of what is false; the answer has none.
    """

    id: str
    source: str
    ask: str | Callable[[], str]
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()

    def answer(self) -> str:
        """What posenc says."""
        return said(self.ask) if isinstance(self.ask, str) else self.ask()

    def verdict(self, answer: str) -> str:
        """``answered``, ``refused``, ``wrong``, or ``silent``: what is owed is not said, or not known."""
        false = [pattern for pattern in self.never if re.search(pattern, answer)]
        if not false and not UNNAMED.search(answer) and all(re.search(pattern, answer) for pattern in self.says):
            return "answered"
        return "wrong" if false else "refused" if REFUSED.search(answer) else "silent"


def config(name: str) -> ModelPositions:
    """What is read of a config of ``DATA``."""
    return read(str(DATA / f"{name}.json"))


def said(words: str) -> str:
    """What the command line prints, an error as it does; thousands are not set apart."""
    placed = [re.sub(r"[\w-]+\.json", lambda name: str(DATA / name[0]), word) for word in shlex.split(words)]
    run = CliRunner().invoke(app, placed)
    if isinstance(run.exception, PosencError):
        return f"{run.output}error: {run.exception}"
    if run.exception is not None and not isinstance(run.exception, SystemExit):
        raise run.exception
    return re.sub(r"(?<=\d)[\u2009,](?=\d{3})", "", run.output)


def refusal(function: Callable[[], Any]) -> str:
    """What a call refuses, as the command line would print it."""
    try:
        return f"{function()}"
    except PosencError as error:
        return f"error: {error}"
