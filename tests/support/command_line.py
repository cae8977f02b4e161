"""Commands of posenc in this process: what a command says, and the sentence with which it refuses."""

import sys

import pytest
from click.testing import Result
from typer.testing import CliRunner

from posenc.cli import main
from posenc.commands.app import app
from posenc.errors import PosencError


def invoked(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "200"})


def exit_status(*words: object) -> int | str | None:
    """Return the status with which the script posenc, called with these words, leaves this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["posenc", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
    return ended.value.code


def said(*words: object) -> str:
    """Return the output of a command, which must succeed."""
    done = invoked(*words)
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def refusal(*words: object) -> str:
    """Return the one sentence with which a command is refused."""
    done = invoked(*words)
    assert isinstance(done.exception, PosencError), (done.output, done.exception)
    assert "\n" not in str(done.exception)
    return str(done.exception)
