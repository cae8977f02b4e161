"""Commands of posenc in this process: what a command says, and the sentence with which it refuses."""

from click.testing import Result
from typer.testing import CliRunner

from posenc.commands.app import app
from posenc.errors import PosencError


def invoked(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "200"})


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
