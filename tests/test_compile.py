"""Every encoding compiles to one graph, forward and backward (compiling.py says how)."""

from pathlib import Path

import pytest

import posenc
from posenc.attend.operator import Writing, expression
from posenc.errors import InvalidArgument
from support.processes import python


@pytest.mark.long
@pytest.mark.parametrize(
    "what", ["some", *(pytest.param(what, marks=pytest.mark.slow) for what in ("rest", "to the end", "squares"))]
)
def test_every_encoding_compiles_to_one_graph(what: str) -> None:
    """One interpreter meets all laws, as a compiler takes longer to load than most of them to be checked."""
    python("-W", "ignore", "-m", "support.compiling", what, cwd=Path(__file__).parent)


@pytest.mark.parametrize(
    "text", ["tensors[0].device", "__import__('os').getcwd()", "[x for x in integers]", "(lambda: None)()"]
)
def test_the_operator_runs_no_other_text(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is not a serialised call to attention"):
        expression(text)


def test_what_is_written_is_read_again() -> None:
    writing = Writing((posenc.Mask(causal=True, window=3), 0.5, {"softcap": None, "sinks": -2}, slice(1, 4)))
    assert not writing.unknown
    expression(writing.text)
